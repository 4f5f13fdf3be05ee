"""Network namespaces: hosts without names, which leave nothing behind."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perhop._core import Namespaces
from tools import need, unable

WITHOUT_RIGHTS = """
import ctypes, os, threading
from perhop._core import Namespaces
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1)  # dumpable again, as after an exec: /proc/self is its own
"""
"""A process of a user who may do nothing; it has read what it needs before, as a test's interpreter
may be root's own."""


@pytest.fixture
def pair() -> Namespaces:
    try:
        return Namespaces(2)
    except OSError as error:
        unable(error)


def inside(namespaces: Namespaces, host: int, *command: str) -> str:
    need(command[0])
    code, output, errors = namespaces.run(host, list(command), b"")
    assert code == 0, errors.decode()
    return output.decode()


def test_a_host_has_a_stack_of_its_own(pair: Namespaces) -> None:
    peer = [
        "type",
        "veth",
        "peer",
        "name",
        "there",
        "netns",
        f"/proc/{os.getpid()}/fd/{pair.fd(1)}",
    ]
    inside(pair, 0, "ip", "link", "add", "here", *peer)
    assert re.findall(r"^\w+", inside(pair, 0, "ip", "-br", "link"), re.MULTILINE) == ["lo", "here"]
    assert re.findall(r"^\w+", inside(pair, 1, "ip", "-br", "link"), re.MULTILINE) == [
        "lo",
        "there",
    ]
    assert "127.0.0.1" in inside(pair, 0, "ip", "-br", "addr", "show", "up")


def test_settings_are_a_hosts_own(pair: Namespaces) -> None:
    name = "net.ipv4.ip_forward"
    before = pair.read_sysctl(1, name)
    pair.write_sysctl(0, name, "0" if before == "1" else "1")
    assert pair.read_sysctl(0, name) != before
    assert pair.read_sysctl(1, name) == before
    with pytest.raises(FileNotFoundError, match=r"net\.ipv4\.nothing"):
        pair.write_sysctl(0, "net.ipv4.nothing", "1")
    with pytest.raises(OSError, match="not a setting of the network"):
        pair.write_sysctl(0, "kernel.panic", "1")


def test_a_command_has_an_input_an_output_and_an_end(pair: Namespaces) -> None:
    much = bytes(range(256)) * 4096
    assert pair.run(0, ["cat"], much) == (0, much, b"")
    assert pair.run(0, ["sh", "-c", "echo wrong >&2; exit 3"], much) == (3, b"", b"wrong\n")
    assert pair.run(0, ["sh", "-c", "kill -9 $$"], b"")[0] == -signal.SIGKILL
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        pair.run(0, ["no-such-program"], b"")
    with pytest.raises(IndexError, match="no host 2"):
        pair.run(2, ["true"], b"")


@pytest.mark.usefixtures("pair")
def test_nothing_is_left_of_a_process_that_is_killed() -> None:
    seconds = str(100_000 + os.getpid())
    script = (
        "from perhop._core import Namespaces\n"
        f"Namespaces.enable(); Namespaces(1).run(0, ['sleep', '{seconds}'], b'')"
    )
    child = subprocess.Popen([sys.executable, "-c", script])
    wait_until(lambda: running("sleep", seconds))
    (pid,) = running("sleep", seconds)
    namespace = Path(f"/proc/{pid}/ns/net").stat().st_ino
    assert namespace != Path("/proc/self/ns/net").stat().st_ino
    child.kill()
    child.wait()
    wait_until(lambda: not running("sleep", seconds))
    assert namespace not in {
        link.stat().st_ino for link in Path("/proc").glob("[0-9]*/ns/net") if link.exists()
    }


def test_a_user_without_rights_has_namespaces_too() -> None:
    if not int(Path("/proc/sys/user/max_user_namespaces").read_text()):
        unable("there are no user namespaces")
    told = without_rights("""
Namespaces.enable()
print(Namespaces(1).run(0, ["id", "-u"], b"")[1].decode())
""")
    if "may not make user namespaces" in told.stderr:
        unable(told.stderr.splitlines()[-1])
    assert told.stdout.strip() == "0", told.stderr


def test_a_process_with_threads_is_told_why_it_cannot_enter_a_user_namespace() -> None:
    told = without_rights("""
threading.Thread(target=threading.Event().wait, daemon=True).start()
try:
    Namespaces.enable()
except OSError as error:
    print(error, flush=True)
os._exit(0)
""")
    assert "threads" in told.stdout, told.stderr


def without_rights(script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_RIGHTS + script]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def running(*words: str) -> list[str]:
    """The processes of this command line."""
    wanted = b"\0".join(word.encode() for word in words) + b"\0"
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == wanted:
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def wait_until(holds: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)
