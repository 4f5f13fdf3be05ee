"""Labs with namespaces of others, interfaces and the internet, all in namespaces of the test."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from difflib import unified_diff
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from conftest import PERHOP, REAL_HOSTS
from perhop.errors import UnsupportedError, UsageError
from perhop.lab import Lab, resolver, up
from perhop.lab.names import Names
from perhop.lab.resolver import Resolver
from perhop.scenario import parse
from test_lab import SCENARIO, output
from test_lab_names import query
from tools import need, unable


class Space:
    """A network namespace, with a process that holds it, as a container has one."""

    def __init__(self) -> None:
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "300"])
        own = Path("/proc/self/ns/net").stat().st_ino
        while Path(f"/proc/{self.holder.pid}/ns/net").stat().st_ino == own:
            assert self.holder.poll() is None
            time.sleep(0.01)

    @property
    def pid(self) -> int:
        return self.holder.pid

    def run(self, command: str) -> str:
        """Run a command of the shell in it; return its output."""
        enter = ["nsenter", "-t", str(self.pid), "-n", "sh", "-ec", command]
        done = subprocess.run(enter, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def state(self) -> str:
        """Its devices, addresses, routes and rules, but for those of IPv6 that Linux adds later."""
        return self.run("ip -br link; ip -4 -br address; ip route; nft list ruleset")


@pytest.fixture
def spaces() -> Iterator[dict[str, Space]]:
    """A machine with two interfaces: the internet is at one, a host at the other."""
    need("unshare", "nsenter", "ip", "nft", "ping")
    if os.geteuid():
        pytest.skip("needs root")
    made: dict[str, Space] = {}
    try:
        for name in ("machine", "internet", "far", "container"):
            made[name] = Space()
        machine, internet, far, container = made.values()
        machine.run(
            f"ip link add name wan type veth peer name eth0 netns {internet.pid}\n"
            f"ip link add name lan0 type veth peer name eth0 netns {far.pid}\n"
            f"ip link add name br0 type veth peer name eth0 netns {container.pid}\n"
            "ip address add 203.0.113.2/24 dev wan; ip address add 192.168.77.9/24 dev lan0\n"
            "for each in lo wan lan0 br0; do ip link set $each up; done\n"
            "echo 1 > /proc/sys/net/ipv4/ip_forward"
        )
        internet.run("ip address add 203.0.113.1/24 dev eth0; ip link set eth0 up")
        far.run(
            "ip address add 192.168.77.2/24 dev eth0; ip link set eth0 up\n"
            "ip route add default via 192.168.77.1"
        )
        container.run(
            "ip address add 172.17.0.2/16 dev eth0; ip link set eth0 up; ip link set lo up\n"
            "ip route add default via 172.17.0.1"
        )
        deadline = time.monotonic() + 20  # Linux sets a device up some time after its peer
        while any("DOWN" in space.run("ip -br link | grep @") for space in made.values()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield made
    finally:
        for space in made.values():
            space.holder.kill()
            space.holder.wait()


@REAL_HOSTS
@pytest.mark.parametrize("killed", [False, True])
def test_a_lab_with_a_container_an_interface_and_the_internet_leaves_them_as_they_were(
    spaces: dict[str, Space], lab_folder: Path, killed: bool
) -> None:
    machine, _, far, container = spaces.values()
    file = lab_folder / "office.yaml"
    file.write_text(SCENARIO, encoding="utf-8")
    before = {name: space.state() for name, space in spaces.items()}
    options = f"--host b={container.pid} --nat r --attach r=lan0,192.168.77.1/24"
    machine.run(f"XDG_RUNTIME_DIR={lab_folder} {PERHOP} lab up {file} {options}")
    lab = Lab.find()
    assert [*lab.record.hosts] == ["a", "b", "lan0", "internet"]
    up_now = {name for name, space in spaces.items() if space.state() != before[name]}
    assert up_now == {"machine", "container"}

    if not killed:
        carries(lab, far, container)
        lab.down()
    else:
        for pid in (lab.record.keeper, lab.record.pid):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while (after := {name: space.state() for name, space in spaces.items()}) != before:
        assert time.monotonic() < deadline, differences(before, after)
        time.sleep(0.05)
    assert container.holder.poll() is None


def carries(lab: Lab, far: Space, container: Space) -> None:
    """Check that packets pass between all that is connected."""
    # The container is the host b, and keeps its own default route.
    ping = "ping -q -c 1 -W 5"
    delay = output(lab, "a", *ping.split(), "b").rpartition("= ")[2].split("/")[0]
    assert float(delay) >= 10
    container.run(f"{ping} 10.0.0.1")
    assert "default via 172.17.0.1 dev eth0" in container.run("ip route")
    # The host at the interface, by way of the lab; the internet has no route to either.
    far.run(f"{ping} 10.0.0.1")
    output(lab, "a", *ping.split(), "192.168.77.2")
    output(lab, "a", *ping.split(), "203.0.113.1")
    far.run(f"{ping} 203.0.113.1")
    sent = lab.status()["links"]["r>internet"]["classes"]["all"]["sent_packets"]
    assert sent == 2
    # Its packets take part in what the lab has.
    lab.change({"on": "r>internet", "state": "down"})
    assert far.run(f"{ping.replace('5', '1')} 203.0.113.1 || echo lost").endswith("lost\n")


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    lines = {name: (before[name].splitlines(), after[name].splitlines()) for name in before}
    return [f"{name}: {line}" for name, two in lines.items() for line in unified_diff(*two, n=0)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"namespaces": {"c": 1}}, "`c` is not a node of the scenario; there are a, r, b"),
        ({"namespaces": {"r": 1}}, "`r` is a router; only a host"),
        ({"namespaces": {"a": "/nowhere/at/all"}}, "/nowhere/at/all: No such file"),
        ({"nat": "q"}, "`q` is not a node"),
        ({"attach": {"r": "eth1"}}, "expected an interface and an IPv4 address"),
        ({"attach": {"r": "eth1,10.1.2.3/32"}}, "expected an interface and an IPv4 address"),
        ({"attach": {"r": "a,10.1.2.3/24"}}, "which gets a host `a`"),
    ],
)
def test_wrong_connections_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        up(parse(SCENARIO), **options)


@REAL_HOSTS
@pytest.mark.usefixtures("lab_folder")
def test_what_is_no_namespace_of_a_network_is_refused() -> None:
    with pytest.raises(UnsupportedError) as error:
        up(parse(SCENARIO), namespaces={"a": "/proc/self/ns/mnt"})
    if "user namespaces" in str(error.value) or "/dev/net/tun" in str(error.value):
        unable(error.value)
    assert "the namespace of host `a` cannot be opened" in str(error.value)


def test_names_of_others_are_asked_of_the_name_server_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server answers with what it got, in the wrong order."""
    upstream, own = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    with upstream, own:
        upstream.bind(("127.0.0.1", 0))
        own.bind(("127.0.0.1", 0))
        address = own.getsockname()
        file = tmp_path / "resolv.conf"
        file.write_text("# of this machine\nnameserver 127.0.0.1\n")
        monkeypatch.setattr(resolver, "_SERVERS", file)
        monkeypatch.setattr(resolver, "_PORT", upstream.getsockname()[1])
        names = Names({"web": IPv4Address("10.0.0.1")}, {})
        serving = Resolver(names, [os.dup(own.fileno())], True)
        asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for each in (upstream, asker):
            each.settimeout(20)
        with asker:
            try:
                asked = [query("example.org", 1), query("example.com", 28), query("web", 1)]
                for each in asked:
                    asker.sendto(each, address)
                assert asker.recv(512) == names.answer(asked[2])
                got = [upstream.recvfrom(512) for _ in range(2)]
                assert [message[2:] for message, _ in got] == [each[2:] for each in asked[:2]]
                for message, sender in reversed(got):
                    upstream.sendto(message[:2] + b"answer" + message[2:], sender)
                    upstream.sendto(message, sender)  # a second answer reaches nobody
                for each in reversed(asked[:2]):
                    assert asker.recv(512) == each[:2] + b"answer" + each[2:]
            finally:
                serving.close()
    assert not any(thread.name == "resolver" for thread in threading.enumerate())
