"""Servers for tests of pushes, on loopback: NETCONF, and Linux behind OpenSSH's server."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from perhop.routers.pushing import Settings, Target
from perhop.routers.pushing.connection import connect
from tools import unable

if TYPE_CHECKING:
    from perhop.routers.pushing.netconf import Router

YANG: Final = Path(__file__).parent
JUNOS: Final = ("junos-policy",)
IOS_XE: Final = ("ios-policy", "ios-acl")
MODULES: Final = "/usr/share/yuma/modules"
SSHD: Final = "/usr/sbin/sshd"

WEB: Final = (
    "web: match: {protocol: tcp, destination_port: [80, 443], source: 10.0.0.0/8}, bandwidth: 50%, "
    "mark: af21, queue: {limit: 100 ms}"
)
REST: Final = "rest: match: any, bandwidth: 30%, queue: {limit: 100 ms}"
"""Classes of policies that are pushed, as for `exporting.scenario`."""


@dataclass(frozen=True)
class Served:
    """A server: its address, and the keys that it knows and has."""

    target: Target
    settings: Settings
    folder: Path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def keys(folder: Path) -> None:
    """Make a host key, a user's key and an unknown one."""
    for name in ("host", "user", "other"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    shutil.copy(folder / "user.pub", folder / "authorized_keys")


def known(folder: Path, host_key: str, port: int) -> str:
    """Write a file of host keys, and return its name."""
    path = folder / f"known-{host_key}"
    kind, value, *_ = (folder / f"{host_key}.pub").read_text().split()
    path.write_text(f"[127.0.0.1]:{port} {kind} {value}\n")
    return str(path)


@contextmanager
def sshd(folder: Path, port: int, *lines: str) -> Iterator[None]:
    """OpenSSH's server on loopback, for the user of the tests."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    (folder / "sshd_config").write_text(
        "\n".join(
            (
                f"ListenAddress 127.0.0.1:{port}",
                f"HostKey {folder / 'host'}",
                f"AuthorizedKeysFile {folder / 'authorized_keys'}",
                "PidFile none",
                "StrictModes no",
                "UsePAM no",
                "PasswordAuthentication no",
                "KbdInteractiveAuthentication no",
                "PermitRootLogin yes",
                "PrintMotd no",
                *lines,
            )
        )
        + "\n"
    )
    command = [SSHD, "-D", "-e", "-f", str(folder / "sshd_config")]
    with (folder / "sshd.log").open("w") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_for(lambda: listens(port), process, folder / "sshd.log")
        yield
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def netconfd(folder: Path, port: int, modules: Collection[str], target: str) -> Iterator[str]:
    """yuma123's NETCONF server with modules of ours; yields the line for sshd's configuration."""
    name = folder / "ncx.sock"
    theirs = os.environ.get("YUMA_MODPATH", MODULES)
    command = [
        "netconfd",
        "--no-startup",
        f"--superuser={user()}",
        *(f"--module={module}" for module in modules),
        f"--modpath={YANG}:{theirs}",
        f"--target={target}",
        f"--port={port}",
        f"--ncxserver-sockname={name}",
    ]
    with (folder / "netconfd.log").open("w") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,  # where it keeps the configuration to return to
            env={**os.environ, "HOME": str(folder)},
        )
    try:
        wait_for(name.exists, process, folder / "netconfd.log")
        program = shutil.which("netconf-subsystem")
        yield f"Subsystem netconf {program} --ncxserver-sockname={port}@{name}"
    finally:
        process.terminate()
        process.wait(10)


def user() -> str:
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def wait_for(ready, process: subprocess.Popen[bytes], log: Path) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + 20
    while not ready():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)


@contextmanager
def router(
    folder: Path, modules: Collection[str] = JUNOS, target: str = "candidate"
) -> Iterator[Served]:
    """A NETCONF server that has the part of a router's configuration that perhop writes."""
    keys(folder)
    port = free_port()
    with (
        netconfd(folder, port, modules, target) as line,
        sshd(folder, port, line),
        pytest.MonkeyPatch.context() as patch,
    ):
        # ncclient would send at its next look at the socket.
        patch.setattr("ncclient.transport.session.TICK", 0.01)
        settings = Settings(
            key=str(folder / "user"), known_hosts=known(folder, "host", port), timeout=10
        )
        yield Served(Target("netconf", user(), "127.0.0.1", port), settings, folder)


def session(served: Served) -> "Router":
    """A session with a NETCONF server."""
    from perhop.routers.pushing.netconf import Router

    settings = served.settings
    client = connect(served.target, key=settings.key, known_hosts=settings.known_hosts, timeout=10)
    return Router(client, served.target, 10)


def approved(changes: tuple[str, ...]) -> bool:
    """Approve changes, of which there are some."""
    assert changes
    return True


@dataclass(frozen=True)
class Machine(Served):
    """A Linux machine in namespaces of its own, and a process in them."""

    process: int

    def run(self, script: str) -> str:
        """Run a script on the machine."""
        command = [*entering(self.process), "sh", "-e"]
        done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=20)
        assert done.returncode == 0, done.stderr
        return done.stdout


def entering(process: int) -> list[str]:
    whose = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
    return ["nsenter", "--target", str(process), "--net", "--mount", *whose]


MACHINE: Final = """
mount -t tmpfs none /run
ip link add eth1 type veth peer name eth1-peer
ip link add eth2 type veth peer name eth2-peer
for each in eth1 eth1-peer eth2 eth2-peer; do ip link set $each up; done
echo ready
exec sleep 600
"""


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """A Linux machine with two interfaces behind OpenSSH's server."""
    keys(folder)
    whose = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    process = subprocess.Popen(
        ["unshare", "--net", "--mount", *whose, "sh", "-ec", MACHINE],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            unable(process.communicate()[1])
        port = free_port()
        enter = " ".join(entering(process.pid))
        own = (folder / "user.pub").read_text()
        (folder / "authorized_keys").write_text(
            f'command="{enter} sh -c \\"$SSH_ORIGINAL_COMMAND\\"" {own}'
        )
        with sshd(folder, port):
            settings = Settings(
                key=str(folder / "user"), known_hosts=known(folder, "host", port), timeout=10
            )
            yield Machine(Target("ssh", user(), "127.0.0.1", port), settings, folder, process.pid)
    finally:
        process.terminate()
        process.communicate()
