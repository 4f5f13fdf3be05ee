"""A Linux router polices what was booked, and gives it its rate under load."""

import json
import shlex
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from conftest import DEADLINES, SLOW
from perhop.errors import UsageError
from perhop.linux.buckets import PoliceAction
from perhop.linux.commands import Process
from perhop.linux.probe import Probes
from perhop_services.reservations.drivers import (
    DriverError,
    PolicerCounters,
    RefusedError,
    Rule,
    Setting,
    driver,
)
from perhop_services.reservations.drivers.htb import Policer, Shares
from perhop_services.reservations.drivers.linux import LinuxDriver
from perhop_services.reservations.model import Selector
from reserving import MBPS
from tools import need, unable

pytestmark = [DEADLINES, SLOW]

RULE = Rule(
    "perhop_9", "192.0.2.1", "192.0.2.9", Selector(None, (1, 9), (80, 80), 46), 10**7, 10**5
)


class Namespace:
    """A network namespace, in which commands can be run."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, command: str, given: str = "") -> str:
        return subprocess.run(
            ["ip", "netns", "exec", self.name, *shlex.split(command)],
            input=given,
            capture_output=True,
            text=True,
            check=True,
        ).stdout


@contextmanager
def namespace() -> Iterator[Namespace]:
    """A namespace; skips where none can be made."""
    need("ip", "nft", "tc")
    name = f"perhop-test-{uuid.uuid4().hex[:8]}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        unable("it may not make network namespaces")
    try:
        yield Namespace(name)
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.fixture
def alone() -> Iterator[Namespace]:
    with namespace() as made:
        yield made


@pytest.fixture
def router() -> Iterator[tuple[Namespace, Namespace, Namespace]]:
    """Two hosts and the router between them, which has two ways to the second, one in use."""
    with namespace() as a, namespace() as r, namespace() as b:
        for name, far, there in (("in0", "eth0", a), ("out0", "eth0", b), ("out1", "eth1", b)):
            r.run(f"ip link add {name} type veth peer name {far} netns {there.name}")
            r.run(f"ip link set {name} up")
            there.run(f"ip link set {far} up")
        a.run("ip address add 10.0.1.1/24 dev eth0")
        r.run("ip address add 10.0.1.2/24 dev in0")
        for number in (0, 1):
            r.run(f"ip address add 10.0.{number + 2}.1/24 dev out{number}")
            b.run(f"ip address add 10.0.{number + 2}.2/24 dev eth{number}")
        b.run("ip address add 10.9.9.9/32 dev lo")
        b.run("sysctl -qw net.ipv4.conf.all.rp_filter=0")
        r.run("sysctl -qw net.ipv4.ip_forward=1")
        r.run("ip route add 10.9.9.9 via 10.0.2.2")
        a.run("ip route add default via 10.0.1.2")
        b.run("ip route add default via 10.0.2.1")
        yield a, r, b


def to(port: int, number: int, rate: int) -> Rule:
    """A rule for UDP to a port of the second host, over a link of 10 Mb/s."""
    return Rule(
        f"perhop_{number}",
        "10.0.1.1",
        "10.9.9.9",
        Selector("udp", None, (port, port)),
        rate,
        20_000,
        link_rate=10 * MBPS,
    )


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


# Sends datagrams of 1250 bytes of IP in rounds of 10 ms: so many to each port.
SENDER = """
import socket, sys, time
counts = dict(zip((5010, 5011, 5012), map(int, sys.argv[2:])))
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
start = time.monotonic()
for number in range(int(sys.argv[1])):
    time.sleep(max(0.0, start + number * 0.01 - time.monotonic()))
    for port, count in counts.items():
        for _ in range(count):
            out.sendto(bytes(1222), ("10.9.9.9", port))
"""

RECEIVED = """
table inet heard {
  counter at5010 {}
  counter at5011 {}
  counter at5012 {}
  chain c {
    type filter hook input priority filter
    udp dport 5010 counter name at5010 drop
    udp dport 5011 counter name at5011 drop
    udp dport 5012 counter name at5012 drop
  }
}
"""


def heard(b: Namespace, port: int) -> int:
    """Return the number of packets that arrived at a port, by the counters of its kernel."""
    said = b.run(f"nft list counter inet heard at{port}").split()
    return int(said[said.index("packets") + 1])


def test_a_reservation_gets_its_rate_however_much_others_send(
    router: tuple[Namespace, Namespace, Namespace],
) -> None:
    a, r, b = router
    b.run("nft -f -", RECEIVED)
    linux = LinuxDriver(netns=r.name)
    first, second = to(5011, 1, 4 * MBPS), to(5012, 2, 2 * MBPS)
    linux.set(first)
    linux.set(second)

    def sent(rounds: int, *counts: int) -> dict[str, PolicerCounters]:
        before, already = linux.counters(), heard(b, 5010)
        words = [sys.executable, "-c", SENDER, str(rounds), *map(str, counts)]
        sender = subprocess.Popen(["ip", "netns", "exec", a.name, *words])
        # It is changed in the midst of it.
        until(lambda: heard(b, 5010) > already)
        linux.set(slower)
        assert sender.wait(60) == 0
        after = linux.counters()
        # Nothing that conforms is lost, neither of what is changed nor of the other.
        for port, name in ((5011, first.name), (5012, second.name)):
            until(lambda: heard(b, port) == after[name].conformed_packets)  # noqa: B023
        return {
            name: PolicerCounters(
                *(getattr(after[name], each) - getattr(before[name], each) for each in FIELDS)
            )
            for name in after
        }

    # 30 Mb/s of others' packets; as much as is reserved, half of it, and 1.6 Mb/s.
    slower = replace(first, rate=2 * MBPS)
    counted = sent(200, 30, 4, 1)
    assert linux.installed()[first.name] == linux.expected(slower)
    assert sum(each.conformed_packets for each in counted.values()) > 300
    assert counted[second.name].exceeded_packets == 0
    # Others got less than they sent: there was not enough for all.
    assert heard(b, 5010) < 0.7 * 200 * 30
    # The policer holds a second of the rate; what is beyond is not sent.
    slower = replace(first, rate=MBPS)
    counted = sent(300, 30, 8, 1)
    assert counted[first.name].exceeded_packets > 0
    linux.remove(first.name)
    assert linux.installed() == {second.name: linux.expected(second)}
    until(lambda: _qlen(r) == 0)
    linux.remove(second.name)
    assert linux.installed() == {}
    assert "noqueue" in r.run("tc qdisc show dev out0"), "as before"


FIELDS = list(PolicerCounters.__dataclass_fields__)


def _qlen(r: Namespace) -> int:
    said = r.run("tc -s qdisc show dev out0").split()
    return int(said[said.index("backlog") + 2].rstrip("p"))


def test_a_class_follows_the_route(router: tuple[Namespace, Namespace, Namespace]) -> None:
    _, r, _ = router
    linux = LinuxDriver(netns=r.name)
    rule = to(5011, 1, 4 * MBPS)
    linux.set(rule)
    assert linux.installed() == {rule.name: linux.expected(rule)}
    r.run("ip route replace 10.9.9.9 via 10.0.3.2")
    assert linux.installed()[rule.name].guaranteed == 0, "the class is where no packet is"
    linux.set(rule)
    assert linux.installed() == {rule.name: linux.expected(rule)}
    assert "htb" not in r.run("tc qdisc show dev out0")
    r.run("tc qdisc del dev out1 root")
    assert linux.installed()[rule.name].guaranteed == 0, "the root discipline was removed"
    linux.set(rule)
    assert linux.installed() == {rule.name: linux.expected(rule)}
    linux.remove(rule.name)
    assert "htb" not in r.run("tc qdisc show dev out1")


def test_many_reservations_have_a_class_each(
    router: tuple[Namespace, Namespace, Namespace],
) -> None:
    _, r, _ = router
    linux = LinuxDriver(netns=r.name)
    rules = [to(6000 + number, number, 123_456 * number + 7) for number in range(1, 20)]
    for rule in rules:
        linux.set(rule)
    assert linux.installed() == {rule.name: linux.expected(rule) for rule in rules}
    # What one leaves another takes; the rest stay as they are.
    linux.remove(rules[4].name)
    rules[4] = to(7000, 99, MBPS)
    linux.set(rules[4])
    assert linux.installed() == {rule.name: linux.expected(rule) for rule in rules}
    for rule in rules:
        linux.remove(rule.name)
    assert "htb" not in r.run("tc qdisc show")


def test_what_cannot_be_guaranteed_is_not_set(
    router: tuple[Namespace, Namespace, Namespace], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, r, _ = router
    linux = LinuxDriver(netns=r.name)
    rule = to(5011, 1, 4 * MBPS)
    r.run("tc qdisc add dev out0 root handle 1: pfifo limit 10")
    with pytest.raises(RefusedError, match="out0 has a queueing discipline of its own, pfifo 1:"):
        linux.set(rule)
    assert linux.installed() == linux.counters() == {}
    only = driver(f"linux:netns={r.name},guarantee=no")
    only.set(rule)
    assert only.installed() == {rule.name: only.expected(rule)}
    assert only.expected(rule).guaranteed is None
    only.remove(rule.name)
    assert "pfifo 1:" in r.run("tc qdisc show dev out0"), "it is as it was"
    r.run("tc qdisc del dev out0 root")
    with pytest.raises(DriverError, match=r"no route to 198\.51\.100\.1"):
        linux.set(replace(rule, destination="198.51.100.1"))
    # A kernel without HTB says so.
    monkeypatch.setattr("perhop_services.reservations.drivers.htb._KIND", "nosuch")
    with pytest.raises(DriverError, match=r"no HTB class at out0: .*nosuch"):
        linux.set(rule)
    assert linux.installed() == linux.counters() == {}
    monkeypatch.undo()
    # What nftables refuses leaves no class behind, and what was there as it was.
    broken = replace(rule, selector=Selector("udp", None, (5011, 5011), 99))
    with pytest.raises(DriverError):
        linux.set(broken)
    assert "htb" not in r.run("tc qdisc show dev out0")
    linux.set(rule)
    with pytest.raises(DriverError):
        linux.set(replace(broken, rate=MBPS))
    assert linux.installed() == {rule.name: linux.expected(rule)}


def test_linux_sets_changes_counts_and_removes(alone: Namespace) -> None:
    linux = LinuxDriver(netns=alone.name)
    rules = [
        RULE,
        replace(RULE, name="perhop_10", selector=Selector("tcp", None, (5011, 5011))),
        replace(RULE, name="perhop_10_back", selector=Selector("icmp"), source="192.0.2.7"),
        replace(
            RULE,
            name="perhop_11",
            selector=Selector(),
            source="2001:db8::1",
            destination="2001:db8::2",
        ),
    ]
    assert linux.installed() == linux.counters() == {}
    for rule in rules:
        linux.set(rule)
    assert linux.installed() == {rule.name: linux.expected(rule) for rule in rules}
    assert linux.counters() == dict.fromkeys([rule.name for rule in rules], PolicerCounters())
    slower = replace(RULE, rate=999_999, burst=3000, selector=Selector("udp"))
    linux.set(slower)
    assert linux.installed()[RULE.name] == linux.expected(slower)
    assert linux.expected(slower).rate == 999_992
    linux.clear(RULE.name)
    for rule in rules:
        linux.remove(rule.name)
        linux.remove(rule.name)
    assert linux.installed() == linux.counters() == {}


# Sends 400 packets of 1000 bytes of IP, and says how many seconds that took.
BURST = """
import socket, time
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
began = time.monotonic()
for _ in range(400):
    out.sendto(bytes(972), ("10.9.9.9", 5011))
print(time.monotonic() - began)
"""


@pytest.mark.parametrize(("burst", "held"), [(150_000, 150_000), (20_000, 100_000)])
def test_a_burst_is_let_through_and_no_more(
    router: tuple[Namespace, Namespace, Namespace], burst: int, held: int
) -> None:
    a, r, _ = router
    linux = driver(f"linux:netns={r.name},guarantee=no")
    # A second of the rate is what a bucket of nftables holds at least.
    rule = replace(to(5011, 1, 800_000), burst=burst)
    linux.set(rule)
    assert linux.expected(rule).burst == held
    assert linux.installed() == {rule.name: linux.expected(rule)}
    took = float(a.run(f"{sys.executable} -c {shlex.quote(BURST)}"))
    counted = linux.counters()[rule.name]
    assert counted.conformed_packets + counted.exceeded_packets == 400
    assert held <= counted.conformed_bytes <= held + took * 100_000


def test_tc_lets_a_burst_through_to_the_byte(
    router: tuple[Namespace, Namespace, Namespace],
) -> None:
    a, r, _ = router
    linux = LinuxDriver(netns=r.name)
    if not Probes(Process(("ip", "netns", "exec", r.name, "unshare", "--net"))).has_police():
        unable("its kernel has no police action (CONFIG_NET_ACT_POLICE)")

    def burst() -> tuple[PolicerCounters, float]:
        """Return the counters of a burst, and the bytes for which time filled the bucket."""
        before = linux.counters()[rule.name]
        took = float(a.run(f"{sys.executable} -c {shlex.quote(BURST)}"))
        after = linux.counters()[rule.name]
        counts = (getattr(after, each) - getattr(before, each) for each in FIELDS)
        return PolicerCounters(*counts), took * rule.rate / 8

    rule = replace(to(5011, 1, 800_000), burst=20_000)
    linux.set(rule)
    assert linux.expected(rule) == Setting(800_000, 20_000, rule.packets, 800_000, "tc")
    assert linux.installed() == {rule.name: linux.expected(rule)}
    counted, filled = burst()
    assert counted.conformed_packets + counted.exceeded_packets == 400
    assert counted.exceeded_bytes == 1000 * counted.exceeded_packets
    assert 20_000 <= counted.conformed_bytes <= 20_000 + filled

    # It changes in place, and counters go on, also where the packets leave by another device.
    rule = replace(rule, burst=50_000)
    linux.set(rule)
    r.run("ip route replace 10.9.9.9 via 10.0.3.2")
    assert linux.installed()[rule.name].guaranteed == 0
    linux.set(rule)
    assert linux.installed() == {rule.name: linux.expected(rule)}
    assert linux.counters()[rule.name] == counted
    counted, filled = burst()
    assert 50_000 <= counted.conformed_bytes <= 50_000 + filled

    # Another rule takes the number that became free, but none of the counters.
    other = to(5012, 2, 800_000)
    linux.set(other)
    assert linux.counters()[other.name] == PolicerCounters()
    linux.clear(rule.name)
    assert linux.counters()[rule.name] == PolicerCounters()
    assert linux.installed() == {each.name: linux.expected(each) for each in (rule, other)}
    counted, filled = burst()
    assert 50_000 <= counted.conformed_bytes <= 50_000 + filled

    # A rule that was removed by another program is noticed, and set again.
    r.run("tc filter del dev out1 parent 7065:")
    assert linux.installed()[rule.name].rate == 0
    linux.set(rule)
    assert linux.installed()[rule.name] == linux.expected(rule)
    by_nft = LinuxDriver(netns=r.name, police="nft")
    by_nft.set(rule)
    assert by_nft.installed()[rule.name] == by_nft.expected(rule)
    assert by_nft.expected(rule).policer == "nft"
    linux.set(rule)
    for each in (rule, other):
        linux.remove(each.name)
    assert linux.installed() == linux.counters() == {}
    assert "htb" not in r.run("tc qdisc show")
    assert "police" not in r.run("tc actions list action police")


FILTERS = """\
filter protocol all pref 1 fw chain 0 
filter protocol all pref 1 fw chain 0 handle 0x70650010 classid 7065:10 

\taction order 1:  police 0x70650003 rate 800Kbit burst 20000b mtu 64Kb action drop/pipe overhead 0b 
\tref 1 bind 1  installed 4 sec used 4 sec
\tAction statistics:
\tSent 400000 bytes 400 pkt (dropped 380, overlimits 380 requeues 0) 
\tbacklog 0b 0p requeues 0

\taction order 2: gact action pass
\t random type none pass val 0
\t index 1885667331 ref 1 bind 1 installed 4 sec used 4 sec
\tAction statistics:
\tSent 20000 bytes 20 pkt (dropped 0, overlimits 0 requeues 0) 
\tbacklog 0b 0p requeues 0

filter protocol all pref 1 fw chain 0 handle 0x70650011 classid 7065:11 

\taction order 1:  police 0x70650000 rate 1234Kbit burst 1Mb mtu 64Kb action drop/pipe overhead 0b 
\tref 1 bind 1  installed 4 sec used 4 sec
\tAction statistics:
\tSent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) 
\tbacklog 0b 0p requeues 0

\taction order 2: gact action pass
\t random type none pass val 0
\t index 1885667328 ref 1 bind 1 installed 4 sec used 4 sec
\tAction statistics:
\tSent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) 
\tbacklog 0b 0p requeues 0

"""  # noqa: E501, W291
"""Output of iproute2 6.1 about filters in Linux 6.1."""

CLASSES = """\
class htb 7065:1 root rate 10Mbit ceil 10Mbit burst 3028b cburst 3028b 
class htb 7065:10 parent 7065:1 leaf 10: prio 0 rate 800Kbit ceil 10Mbit burst 20000b cburst 3028b 
class htb 7065:11 parent 7065:1 leaf 11: prio 0 rate 1234Kbit ceil 10Mbit burst 1Mb cburst 3028b 
class htb 7065:12 parent 7065:1 leaf 12: prio 0 rate 1Mbit ceil 10Mbit burst 1Mb cburst 3028b 
"""  # noqa: W291


def test_what_tc_says_of_its_policers_is_read() -> None:
    def run(command: Sequence[str], given: str = "", *, check: bool = True) -> str:
        del given, check
        if "qdisc" in command:
            root = {"dev": "out0", "kind": "htb", "handle": "7065:", "root": True, "qlen": 0}
            return json.dumps([root])
        return FILTERS if "filter" in command else CLASSES

    shares = Shares(run).there()
    assert list(shares) == [0x10, 0x11, 0x12]
    counters = PolicerCounters(20, 20_000, 380, 380_000)
    assert shares[0x10].policer == Policer(0x70650003, 800_000, 20_000, counters)
    assert shares[0x12].policer is None
    rounded = shares[0x11].policer
    assert rounded is not None
    assert rounded.is_like(PoliceAction(154_321, 2**20 + 500))
    assert not rounded.is_like(PoliceAction(154_321, 2**20 + 5000))
    assert not rounded.is_like(PoliceAction(156_000, 2**20))


def test_linux_says_why_it_did_not() -> None:
    with pytest.raises(DriverError, match=r"No such file or directory|Cannot open"):
        LinuxDriver(netns="perhop-no-such-namespace").installed()
    with pytest.raises(DriverError, match="perhop-no-such-command"):
        LinuxDriver(via="perhop-no-such-command").set(RULE)
    with pytest.raises(DriverError, match="8 bit/s or more"):
        LinuxDriver().set(replace(RULE, rate=7))
    with pytest.raises(RefusedError, match="less than 4 GiB"):
        LinuxDriver(police="nft").set(replace(RULE, burst=5 * 10**9))
    with pytest.raises(UsageError, match="expected yes or no"):
        driver("linux:guarantee=maybe")
    with pytest.raises(UsageError, match="expected tc or nft"):
        driver("linux:police=maybe")
    with pytest.raises(UsageError, match="expected guarantee=yes"):
        driver("linux:police=tc,guarantee=no")
