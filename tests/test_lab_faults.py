"""Faults beside a lab, and cleaning up at its end."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from conftest import PERHOP, REAL_HOSTS
from perhop.errors import OutputError, PerhopError, UnsupportedError, UsageError
from perhop.lab import Lab, endings, records, up
from perhop.scenario import parse
from test_lab import output
from tools import need, unable

pytestmark = REAL_HOSTS

SCENARIO = """
perhop: 1
name: pair
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps}
  - {ends: [r, b], rate: 100 Mbps, delay: 1 ms, loss: 0%}
"""


@pytest.fixture
def lab(lab_folder: Path) -> Lab:
    assert lab_folder.is_dir()
    try:
        return up(parse(SCENARIO))
    except UnsupportedError as error:
        unable(error)


def until(what: Callable[[], Any], seconds: float = 30) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
    return found


def carries(lab: Lab) -> bool:
    """Return whether packets pass, and the lab answers."""
    return lab.status()["name"] == "pair" and "1 received" in output(lab, "a", "ping", "-c1", "b")


def captures(lab: Lab) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lab.status()["captures"]
    return found


def flood(lab: Lab) -> None:
    """Some 3 MB from a to b."""
    program = (
        "import socket\n"
        "link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "for _ in range(2000): link.sendto(bytes(1400), ('b', 9))\n"
    )
    output(lab, "a", sys.executable, "-c", program)


# Captures


def pings(file: Path) -> int:
    """The echo requests and replies in a capture."""
    need("tshark")
    command = ["tshark", "-r", file, "-Y", "icmp.type in {0, 8}"]
    read = subprocess.run(command, capture_output=True, check=True)
    return len(read.stdout.splitlines())


def test_a_reader_that_goes_ends_its_capture_only(lab: Lab, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["head", "-c", "100", pipe], stdout=subprocess.DEVNULL) as reader:
        lab.capture(["a>r"], pipe)
        lab.capture(["a>r"], tmp_path / "whole.pcapng")
        assert carries(lab)
        reader.wait(30)
    flood(lab)
    ended = until(lambda: [each for each in captures(lab) if each["ended"]])
    assert [(each["file"], each["reason"]) for each in ended] == [(str(pipe), "Broken pipe")]
    assert carries(lab)
    lab.end_capture()
    assert pings(tmp_path / "whole.pcapng") == 4


def test_a_reader_that_does_not_read_holds_up_nothing(lab: Lab, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        lab.capture(["a>r"], pipe)
        flood(lab)
        began = time.monotonic()
        assert carries(lab)
        lab.change({"on": "a>r", "delay": "1 ms"})
        assert time.monotonic() - began < 5
        assert [each["ended"] for each in captures(lab)] == [None]
    finally:
        os.close(reader)


def test_a_full_disk_ends_its_capture_with_whole_packets(lab: Lab, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    size = "size=256k"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", disk], stderr=-3).returncode:
        unable("this user may not mount")
    try:
        file = disk / "a.pcapng"
        lab.capture(["a>r"], file)
        flood(lab)
        ended = until(lambda: [each for each in captures(lab) if each["ended"]])
        assert ended[0]["reason"] == "No space left on device"
        assert carries(lab)
        assert file.stat().st_size == ended[0]["bytes"] > 0
        need("tshark")
        subprocess.run(["tshark", "-r", file], check=True, stdout=subprocess.DEVNULL)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_file_that_grows_no_more_ends_its_capture(lab: Lab, tmp_path: Path) -> None:
    # As a full disk does, for users who may not mount one.
    assert not captures(lab)
    lab.capture(["a>r"], "/dev/full")
    assert carries(lab)
    ended = until(lambda: [each for each in captures(lab) if each["ended"]])
    assert ended[0]["reason"] == "No space left on device"
    assert ended[0]["ended"] >= ended[0]["since"]
    lab.capture(["b"], tmp_path / "b.pcapng")
    with pytest.raises(UsageError, match="there is no link `c`"):
        lab.capture(["c"], tmp_path / "c.pcapng")
    with pytest.raises(OutputError, match=r"cannot write .*nowhere"):
        lab.capture(["a>r"], tmp_path / "nowhere" / "c.pcapng")
    (tmp_path / "notes").write_text("not a capture")
    with pytest.raises(OutputError, match="is not a capture"):
        lab.capture(["a>r"], tmp_path / "notes")
    assert not (tmp_path / "c.pcapng").exists()


def test_captures_begin_and_end_while_a_lab_is_up(lab: Lab, tmp_path: Path) -> None:
    def perhop(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [str(PERHOP), "lab", *arguments]
        return subprocess.run(command, capture_output=True, timeout=60, cwd=tmp_path)

    need("tshark")
    for _ in range(2):  # over the same file, and none before is left
        assert perhop("capture", "a>r=a.pcapng", "b=b.pcapng").returncode == 0
        assert carries(lab)
        done = perhop("capture", "--stop", "a>r=a.pcapng")
        assert done.returncode == 0, done.stderr
        assert carries(lab)
        assert perhop("capture", "--stop").returncode == 0
        assert (pings(tmp_path / "a.pcapng"), pings(tmp_path / "b.pcapng")) == (2, 4)
    assert {(each["reason"], each["left_out_bytes"]) for each in captures(lab)} == {("stopped", 0)}
    assert perhop("capture", "a>r=both.pcapng", "r>b=both.pcapng").returncode == 0
    again = perhop("capture", "b=both.pcapng")
    assert (again.returncode, b"is being written already" in again.stderr) == (2, True)
    assert carries(lab)
    assert perhop("capture", "--stop", "both.pcapng").returncode == 0
    assert pings(tmp_path / "both.pcapng") == 4
    began = time.monotonic()
    to_stdout = perhop("capture", "a>r=-", "--for", "0.5 s")
    assert (to_stdout.returncode, to_stdout.stdout[:4]) == (0, b"\x0a\x0d\x0d\x0a")
    assert time.monotonic() - began > 0.5
    for arguments, message in (
        (("a>r=x.pcapng", "--for", "long"), b"--for: "),
        (("c=x.pcapng",), b"there is no link `c`"),
        (("a>r",), b"expected LINK=FILE"),
        ((), b"name what to capture"),
        (("--stop", "x.pcapng"), b"nothing is captured to"),
    ):
        wrong = perhop("capture", *arguments)
        assert (wrong.returncode, message in wrong.stderr) == (2, True), wrong.stderr


# Hosts


def test_a_host_that_loses_its_device_is_named(lab: Lab) -> None:
    output(lab, "b", "ip", "link", "del", "perhop0")
    output(lab, "a", "sh", "-c", "ping -c3 -i0.2 -W1 b || true")
    status = until(lambda: (s := lab.status())["hosts_without_device"] and s)
    assert status["hosts_without_device"] == ["b"]
    lab.change({"on": "r>b", "delay": "2 ms"})
    assert "1 received" in output(lab, "a", "ping", "-c1", "r")
    said = subprocess.run([str(PERHOP), "lab", "status"], capture_output=True, text=True)
    assert "b: its device perhop0 was taken away" in said.stdout


def test_hosts_have_a_name_addresses_and_a_congestion_control(lab: Lab) -> None:
    assert output(lab, "a", "hostname") == "a\n"
    assert socket.gethostname() != "a"
    assert "1 received" in output(lab, "a", "ping", "-4", "-c1", "b")
    if Path("/etc/gai.conf").exists() and Path("/proc/sys/net/ipv6").exists():
        assert "fd70:6572:686f:7000::a00:3" in output(lab, "a", "ping", "-6", "-c1", "b")
        assert "10.0.0.3" in output(lab, "a", "ping", "-c1", "b")
    receive = "import socket; s = socket.create_server(('', 5000)); print('up', flush=True)\n"
    control = "s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b'\\0').decode()"
    receive += f"s = s.accept()[0]; print({control})"
    connect = f"import socket; s = socket.create_connection(('b', 5000)); print({control})"
    for wanted in ("cubic", "reno"):
        if wanted == "reno":
            lab.down()
            lab = up(parse(SCENARIO), congestion_control="reno")
        with lab.start("b", [sys.executable, "-c", receive], stdout=subprocess.PIPE) as receiver:
            assert receiver.stdout is not None
            receiver.stdout.readline()
            assert output(lab, "a", sys.executable, "-c", connect) == f"{wanted}\n"
            assert receiver.stdout.readline().decode() == f"{wanted}\n"
        assert lab.status()["congestion_control"] == wanted
    with pytest.raises(
        UnsupportedError, match=r"no congestion control `none-such`; there are .*reno"
    ):
        up(parse(SCENARIO), "other", congestion_control="none-such")
    assert [record.name for record in records(starting=True)] == ["pair"]


def test_what_is_not_carried_or_lost_is_counted(lab: Lab) -> None:
    program = (
        "import socket\n"
        "link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "link.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)\n"
        "link.sendto(b'all', ('255.255.255.255', 9))\n"
        "link.sendto(b'group', ('224.0.0.99', 9))\n"
    )
    before = lab.status()
    lab.change({"on": "r>b", "loss": "90%"})
    output(lab, "a", sys.executable, "-c", program)
    flood(lab)
    status = until(
        lambda: (s := lab.status())["links"]["r>b"]["link"]["sent_packets"] >= 2000 and s
    )
    assert status["network"]["foreign"] >= before["network"]["foreign"] + 2
    assert {"malformed", "overruns", "overflow", "refused"} <= status["network"].keys()
    assert status["links"]["r>b"]["link"]["lost_packets"] > 1500
    assert status["links"]["a>r"]["link"]["lost_packets"] == 0
    said = subprocess.run([str(PERHOP), "lab", "status"], capture_output=True, text=True).stdout
    assert f"foreign: {status['network']['foreign']} (packets to" in said


# Requests


def connect(lab: Lab) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    link.connect(str(lab.record.socket))
    link.settimeout(30)
    return link


REQUESTS = [
    b"[" * 100_000 + b"]" * 100_000,
    b'{"do": ' + b"[" * 100_000,
    b'{"do": "change", "change": ' + b'{"a":' * 900 + b"1" + b"}" * 901,
    b'{"do": ' + b'"x"' * 200_000 + b"}",
    bytes(range(256)) * 100,
    b"\xff" * 1000,
    b'{"do": "capture", "links": ["a>r"], "file": "/tmp/x\\u0000", "snaplen": 0}',
    b'{"do": "capture", "links": 7, "file": [], "snaplen": -1}',
    b'{"do": "policy", "on": {}, "policy": [], "set": 1e999}',
    b'{"do": "change", "change": {"on": "a>r", "rate": ' + b"9" * 5000 + b"}}",
    b'{"do": "reserve", "name": "\\ud800", "links": ["a>r"], "rate": 1, "burst": 1}',
]
"""What no client of ours sends."""


def test_no_request_ends_a_lab(lab: Lab) -> None:
    for request in REQUESTS:
        with connect(lab) as link, suppress(BrokenPipeError, ConnectionResetError):
            link.sendall(request + b"\n")
            answer = link.recv(1 << 16)
            assert not answer or "error" in json.loads(answer), request[:100]
        assert lab.status()["name"] == "pair", request[:100]


def test_half_open_clients_cost_nothing(lab: Lab) -> None:
    def kept() -> tuple[int, int]:
        process = Path(f"/proc/{lab.record.pid}")
        return len(list((process / "fd").iterdir())), len(list((process / "task").iterdir()))

    before = kept()
    half_open = [connect(lab) for _ in range(300)]
    for number, link in enumerate(half_open):
        with suppress(BrokenPipeError, ConnectionResetError):
            link.sendall(b'{"do": "sta'[: number % 12])
    began = time.monotonic()
    for number in range(20):
        lab.change({"on": "a>r", "delay": f"{number} ms"})
    # Each of them could hold up everybody for two seconds.
    assert time.monotonic() - began < 10
    files, threads = kept()
    assert files <= before[0] + 70
    assert threads == before[1]
    # One that sends a byte now and then is not for ever.
    slow = connect(lab)
    with suppress(BrokenPipeError, ConnectionResetError):
        for _ in range(60):
            slow.sendall(b" ")
            if select.select([slow], [], [], 0.5)[0] and not slow.recv(1):
                break
        else:
            pytest.fail("it was not closed")
    for link in [*half_open, slow]:
        link.close()
    assert until(lambda: kept()[0] <= before[0] + 1)


# Endings


def staying(lab: Lab) -> Callable[[], bool]:
    """Start programs that stay, some as daemons of no terminal; returns whether any is there."""
    seconds = str(10**6 + time.time_ns() % 10**6)  # used by no other process
    daemon = f"setsid sleep {seconds} & exec sleep {seconds}"
    started = [lab.start(host, ["sh", "-c", daemon]) for host in ("a", "b")]

    def number() -> int:
        words = [b"sleep", seconds.encode(), b""]
        found = 0
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                found += process.read_bytes().split(b"\0") == words
        return found

    def going_on() -> bool:
        left = [process for process in started if process.poll() is None]
        return bool(left) or number() > 0

    until(lambda: number() == 4)
    return going_on


@pytest.mark.parametrize("whom", ["pid", "keeper"])
def test_programs_end_with_a_lab_that_is_killed(lab: Lab, whom: str) -> None:
    going_on = staying(lab)
    os.kill(getattr(lab.record, whom), signal.SIGKILL)
    until(lambda: not going_on())
    until(lambda: not lab.record.alive and not lab.record.kept)
    ended = endings()
    assert [each.name for each in ended] == ["pair"]
    how = {"pid": "its process was killed by signal 9 (SIGKILL)", "keeper": "its keeper was killed"}
    assert ended[0].how == how[whom]
    assert abs(ended[0].ended - time.time()) < 60
    said = subprocess.run([str(PERHOP), "lab", "status"], capture_output=True, text=True)
    assert (said.returncode, how[whom] in said.stderr) == (2, True)
    listed = subprocess.run([str(PERHOP), "lab", "list"], capture_output=True, text=True)
    assert "ended" in listed.stdout
    again = up(parse(SCENARIO))
    assert endings() == []
    again.down()


def test_a_lab_that_is_asked_to_end_says_so(lab: Lab) -> None:
    going_on = staying(lab)
    os.kill(lab.record.pid, signal.SIGTERM)
    until(lambda: not lab.record.alive and not lab.record.kept)
    assert not going_on()
    assert [each.how for each in endings()] == ["it was ended by SIGTERM"]
    with pytest.raises(UsageError, match=r"no lab `pair` is up; `pair` ended at 2.*SIGTERM"):
        Lab.find("pair")


@pytest.mark.usefixtures("lab_folder")
def test_of_eight_labs_of_one_name_one_comes_up() -> None:
    said: list[str] = []

    def start() -> None:
        try:
            up(parse(SCENARIO))
            said.append("up")
        except UnsupportedError:
            said.append("unsupported")
        except PerhopError as error:
            said.append(str(error))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if "unsupported" in said:
        unable("it cannot emulate")
    assert said.count("up") == 1
    said.remove("up")
    for message in said:
        assert message.startswith(("a lab `pair` is being started", "a lab `pair` is up; end it"))
    assert carries(Lab.find("pair"))
    listed = subprocess.run([str(PERHOP), "lab", "list", "--json"], capture_output=True, text=True)
    found = json.loads(listed.stdout)
    assert [(each["name"], each["state"], each["hosts"]) for each in found] == [
        ("pair", "up", ["a", "b"])
    ]


def test_a_lab_ends_whose_start_is_broken_off(lab: Lab) -> None:
    del lab  # which shows that there can be one
    start = [sys.executable, "-c", "from perhop.cli import main; main()", "lab", "up", "other.yaml"]
    folder = Path(os.environ["XDG_RUNTIME_DIR"])
    (folder / "other.yaml").write_text(SCENARIO.replace("pair", "other"))
    while True:
        with subprocess.Popen(start, cwd=folder, stdout=-3) as process:
            there = until(lambda: [it for it in records(starting=True) if it.name == "other"])
            process.kill()
        if all(it.name != "other" for it in records()):
            break
        Lab.find("other").down()  # on a busy machine it was up before
    until(lambda: not there[0].kept)
    assert [record.name for record in records(starting=True)] == ["pair"]


FAILING = """
from perhop.lab import up
from perhop.scenario import parse

def test_that_fails(lab_folder):
    print("holds", up(parse({scenario!r})).record.pid)
    assert False
"""


@pytest.mark.usefixtures("lab")
def test_a_test_that_fails_leaves_no_lab(tmp_path: Path) -> None:
    folder = tmp_path / "failing"
    folder.mkdir()
    file = folder / "test_failing.py"
    file.write_text(FAILING.format(scenario=SCENARIO))
    ours = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "conftest", file],
        env={**os.environ, "PYTHONPATH": f"{ours.parent}{os.pathsep}{ours}"},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout
    pid = done.stdout.partition("\nholds ")[2].split()[0]
    assert not Path(f"/proc/{pid}/ns/net").exists()


@pytest.fixture
def readable() -> Iterator[Path]:
    """A folder that all users can read; each start of pytest closes its own folders to others."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_user_without_a_runtime_folder_finds_the_lab(readable: Path) -> None:
    """Another user than root, without XDG_RUNTIME_DIR; root can see into that user's lab."""
    if os.getuid() != 0:
        unable("only root can act as another user")
    user = 61_234
    folder = Path(f"/tmp/perhop-{user}")
    if folder.exists():
        pytest.skip(f"{folder} is there")
    file = readable / "pair.yaml"
    file.write_text(SCENARIO)
    environment = {key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    as_user: dict[str, Any] = {"user": user, "group": user, "extra_groups": [], "cwd": "/"}
    as_user["env"] = environment
    # Other users cannot read an interpreter in root's home; the system's may do.
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        run = [python, "-c", "from perhop.cli import main; main()"]
        with suppress(OSError):
            if not subprocess.run([*run, "--version"], **as_user, capture_output=True).returncode:
                break
    else:
        unable("this installation is root's alone")

    def perhop(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*run, "lab", *arguments]
        return subprocess.run(command, capture_output=True, text=True, **as_user)

    def perhop_with_devices(*arguments: str) -> subprocess.CompletedProcess[str]:
        """The same where this user may use /dev/net/tun."""
        prepare = (
            "mount -t tmpfs tmpfs /dev/net && mknod -m 666 /dev/net/tun c 10 200 && "
            f'exec setpriv --reuid={user} --regid={user} --clear-groups "$@"'
        )
        command = ["unshare", "-m", "sh", "-c", prepare, "sh", *run, "lab", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")

    try:
        done = perhop_with_devices("up", str(file))
        if done.returncode == 3:
            unable(done.stderr)
        assert done.returncode == 0, done.stderr
        assert [path.name for path in folder.glob("*.json")] == ["pair.json"]
        assert perhop("status").returncode == 0
        assert perhop("exec", "a", "--", "hostname").stdout == "a\n"
        assert not Path("/tmp/perhop-0/pair.json").exists()
        # Root may ask, too.
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(str(folder / "pair.sock"))
            link.sendall(b'{"do": "status"}\n')
            assert json.loads(link.makefile().readline())["name"] == "pair"
        record = json.loads((folder / "pair.json").read_text())
        os.kill(record["pid"], signal.SIGKILL)
        until(lambda: "SIGKILL" in perhop("status").stderr)
    finally:
        perhop("down")
        for path in folder.glob("*"):
            path.unlink()
        if folder.exists():
            folder.rmdir()


CHROOT = """
root=$1; mkdir "$root"
$2
for each in /*; do
  if [ -L "$each" ]; then cp -P "$each" "$root"
  elif [ -d "$each" ]; then mkdir "$root$each"; mount --rbind "$each" "$root$each"; fi
done
$3
chroot "$root" sh -c "$4"
"""
"""A shell script that makes a folder look like `/`, and runs a command there."""


@pytest.mark.parametrize(
    ("before", "after", "code", "said"),
    [
        ("", "", 2, "the root folder of this process is no mount point, as in a chroot"),
        ('mount --bind "$root" "$root"', "", 0, ""),
        (
            'mount --bind "$root" "$root"',
            'mount -t tmpfs none "$root/etc"',
            2,
            "this system has no /etc/hosts to put them in place of; make one: touch /etc/hosts",
        ),
    ],
    ids=["no mount point", "a mount point", "no file of names"],
)
def test_a_chroot_is_named_with_its_cure(
    lab_folder: Path, before: str, after: str, code: int, said: str
) -> None:
    need("unshare", "mount")
    if os.getuid():
        unable("chroot, without being root")
    (lab_folder / "pair.yaml").write_text(SCENARIO)
    command = (
        f"cd {lab_folder}; {PERHOP} lab up pair.yaml >&2; {PERHOP} lab exec a hostname; code=$?"
    )
    script = CHROOT.replace("$2", before).replace("$3", after).replace("$4", "$2")
    run = subprocess.run(
        [
            "unshare",
            "--mount",
            "sh",
            "-euc",
            script,
            "sh",
            str(lab_folder / "root"),
            f"{command}; {PERHOP} lab down >&2; exit $code",
        ],
        capture_output=True,
        text=True,
    )
    assert (run.returncode, said in run.stderr) == (code, True), run.stderr
    assert run.stdout == ("" if code else "a\n")
