"""Commands of tc whose effect depends on those before them, as Linux does it.

Each is measured with tc on Linux, or read from iproute2 and net/sched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linux_scripts import HTB, notes, policies, reading
from perhop.routers.reading import Fault, Source
from perhop.routers.reading.detect import read

if TYPE_CHECKING:
    from collections.abc import Sequence

Q = "qdisc add dev v0 root handle 1:"
CHANGE = "qdisc change dev v0 root handle 1:"
C = "class change dev v0 parent 1:1 classid 1:10 htb"
C10 = "class add dev v0 parent 1:1 classid 1:10 htb rate 5mbit"
F = "filter add dev v0 parent 1: protocol ip"
DNS = "u32 match ip dport 53 0xffff"
NTP = "u32 match ip dport 123 0xffff"


CHANGES = [
    ((*HTB, f"{F} prio 1 {DNS} flowid 1:10", f"{C} rate 2mbit"),
     (*HTB[:2], C10.replace("5mbit", "2mbit"), HTB[3], f"{F} prio 1 {DNS} flowid 1:10")),
    ((*HTB[:2], f"{C10} ceil 9mbit prio 3 quantum 3000 burst 90k cburst 80k", HTB[3],
      f"{F} prio 1 {DNS} flowid 1:10", f"{C} rate 5mbit ceil 8mbit"),
     (*HTB[:2], f"{C10} ceil 8mbit", HTB[3], f"{F} prio 1 {DNS} flowid 1:10")),
    ((f"{Q} netem delay 100ms loss 5%", f"{CHANGE} netem delay 50ms"),
     (f"{Q} netem delay 50ms",)),
    ((f"{Q} netem limit 50 duplicate 2% delay 9ms reorder 5% gap 2", f"{CHANGE} netem loss 1%"),
     (f"{Q} netem loss 1%",)),
    ((f"{Q} netem rate 1mbit corrupt 2% delay 9ms", f"{CHANGE} netem loss 1%"),
     (f"{Q} netem rate 1mbit corrupt 2% loss 1%",)),
    ((f"{Q} prio bands 5 priomap 4 4 4 4 4 4 0 0 1 1 1 1 1 1 1 1", f"{CHANGE} prio bands 5"),
     (f"{Q} prio bands 5",)),
    ((f"{Q} prio bands 5", f"{CHANGE} prio"), (f"{Q} prio",)),
    ((f"{Q} ets strict 2 quanta 3000 1500 priomap 0 1 2 3", f"{CHANGE} ets quanta 2000 1000"),
     (f"{Q} ets quanta 2000 1000",)),
    ((f"{Q} red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 ecn",
      f"{CHANGE} red limit 60000 avpkt 1000"), (f"{Q} red limit 60000 avpkt 1000",)),
    ((f"{Q} tbf rate 2mbit burst 10k limit 30k peakrate 9mbit mtu 1600",
      f"{CHANGE} tbf rate 1mbit burst 9k latency 10ms"),
     (f"{Q} tbf rate 1mbit burst 9k latency 10ms",)),
    ((f"{Q} stab overhead 20 tbf rate 2mbit burst 10k limit 30k",
      f"{CHANGE} tbf rate 1mbit burst 9k latency 10ms"),
     (f"{Q} tbf rate 1mbit burst 9k latency 10ms",)),
    ((f"{Q} fq_codel ecn limit 500", f"{CHANGE} fq_codel noecn"),
     (f"{Q} fq_codel noecn limit 500",)),
    ((f"{Q} codel noecn target 9ms", f"{CHANGE} codel ecn"), (f"{Q} codel ecn target 9ms",)),
    ((f"{Q} pie ecn limit 500", f"{CHANGE} pie noecn"), (f"{Q} pie noecn limit 500",)),
    ((f"{Q} pfifo limit 50", f"{CHANGE} pfifo"), (f"{Q} pfifo limit 50",)),
    ((f"{Q} cake bandwidth 10mbit ack-filter wash", f"{CHANGE} cake no-ack-filter nowash"),
     (f"{Q} cake bandwidth 10mbit no-ack-filter",)),
    ((f"{Q} cake bandwidth 10mbit", f"{CHANGE} cake unlimited"), (f"{Q} cake",)),
    ((f"{Q} cake unlimited ingress lan", f"{CHANGE} cake bandwidth 1mbit egress rtt 9ms"),
     (f"{Q} cake bandwidth 1mbit rtt 9ms",)),
    ((f"{Q} cake diffserv4", f"{CHANGE} cake diffserv3", f"{CHANGE} cake diffserv4"),
     (f"{Q} cake diffserv4",)),
    ((f"{Q} drr", "class add dev v0 parent 1: classid 1:1 drr quantum 3000",
      "class add dev v0 parent 1: classid 1:2 drr", "class change dev v0 classid 1:1 drr",
      f"{F} prio 1 {DNS} flowid 1:1", f"{F} prio 2 u32 match u32 0 0 flowid 1:2"),
     (f"{Q} drr", "class add dev v0 parent 1: classid 1:1 drr quantum 3000",
      "class add dev v0 parent 1: classid 1:2 drr",
      f"{F} prio 1 {DNS} flowid 1:1", f"{F} prio 2 u32 match u32 0 0 flowid 1:2")),
]  # fmt: skip
"""Scripts with a change, and what has the same effect without it."""


@pytest.mark.parametrize(("changed", "same"), CHANGES)
def test_a_change_keeps_what_linux_keeps(changed: Sequence[str], same: Sequence[str]) -> None:
    assert policies(changed) == policies(same)


def test_a_change_of_framing_is_told() -> None:
    lines = (f"{Q} cake bandwidth 1mbit pppoe-vcmux", f"{CHANGE} cake overhead 10")
    assert any("all settings of framing before it" in note for note in notes(lines))


ALL = (*HTB, f"{F} prio 1 {DNS} flowid 1:10")
UDP = "u32 match ip protocol 17 0xff"


def test_a_class_before_its_parent_is_a_class_without_a_parent() -> None:
    """Linux shows `class htb 1:10 root`, also if the parent comes later, or never."""
    early = (HTB[0], HTB[2], HTB[3], HTB[1], ALL[-1])
    roots = tuple(each.replace("1:1 ", "1: ") for each in (HTB[2], HTB[3]))
    assert policies(early) == policies((HTB[0], *roots, HTB[1], ALL[-1]))
    assert policies(early) != policies(ALL)
    never = tuple(each.replace("parent 1:1 ", "parent 1:99 ") for each in (HTB[2], HTB[3]))
    assert policies((HTB[0], *never, ALL[-1])) == policies((HTB[0], *roots, ALL[-1]))
    assert [line.fault for line in reading(early).lines[2:4]] == [Fault.UNDEFINED] * 2


ENDS = [
    (f"{F} prio 1 {DNS} action ok", f"{F} prio 1 {DNS} flowid 1:20"),
    (f"{F} prio 1 {DNS} action pass", f"{F} prio 1 {DNS} flowid 1:20"),
    (f"{F} prio 1 {DNS} action skbedit mark 1", f"{F} prio 1 {DNS} flowid 1:20"),
    (f"{F} prio 1 {DNS} flowid 1:20 action continue", None),
    (f"{F} prio 1 {DNS}", None),
]
"""Filters before another one, and those with their effect."""


@pytest.mark.parametrize(("first", "same"), ENDS)
def test_a_filter_ends_unless_it_continues(first: str, same: str | None) -> None:
    last = f"{F} prio 2 {UDP} flowid 1:10"
    expected = policies((*HTB, *((same,) if same else ()), last))
    assert policies((*HTB, first, last)) == expected


def test_a_received_packet_passes_the_policers_after_a_filter_that_ends() -> None:
    into = "filter add dev v0 ingress protocol ip"
    police = f"{into} prio 2 u32 match u32 0 0 action police rate 1mbit burst 20k"
    lines = ("qdisc add dev v0 ingress", f"{into} prio 1 {DNS} action pass", police)
    ((*_, policy, _, _),) = policies(lines)
    policed = [each["match"] for each in policy["classes"].values() if "police" in each]
    free = [each["match"] for each in policy["classes"].values() if "police" not in each]
    assert policed == [{"ip": 4}]
    assert free[0] == {"ip": 4, "destination_port": 53}
    goes_on = (lines[0], f"{into} prio 1 {DNS} action continue", police)
    assert policies(goes_on) == policies((lines[0], police))


FLOWER = "flower ip_proto udp"

HANDLES = [
    ((f"{F} prio 1 u32 match ip dport 80 0xffff flowid 1:10", f"{F} prio 1 {DNS} flowid 1:10",
      "filter del dev v0 parent 1: protocol ip prio 1 handle 800::800 u32"),
     (f"{F} prio 1 {DNS} flowid 1:10",)),
    # The second priority has the table 801, whose number counts, not the priority.
    ((f"{F} prio 1 {NTP} flowid 1:10", f"{F} prio 2 {DNS} flowid 1:10",
      "filter del dev v0 parent 1: protocol ip prio 1 handle 801::800 u32"),
     (f"{F} prio 1 {NTP} flowid 1:10",)),
    ((f"{F} prio 1 {DNS} flowid 1:10",
      "filter del dev v0 parent 1: protocol ip prio 1 handle 800::801 u32"),
     (f"{F} prio 1 {DNS} flowid 1:10",)),
    ((f"{F} prio 1 {DNS} flowid 1:10",
      f"{F} prio 1 {NTP} flowid 1:10",
      f"{F.replace('add', 'replace')} prio 1 handle 800::800 {DNS} flowid 1:20"),
     (f"{F} prio 1 {NTP} flowid 1:10",)),
    # What a filter compares stays.
    ((f"{F} prio 1 {DNS} flowid 1:20", f"{F} prio 1 {NTP} flowid 1:10",
      f"{F.replace('add', 'replace')} prio 1 handle 800::800 {NTP} flowid 1:10"),
     (f"{F} prio 1 {DNS} flowid 1:10", f"{F} prio 1 {NTP} flowid 1:10")),
    ((f"{F} prio 1 handle 800::20 {UDP} flowid 1:20",
      f"{F} prio 1 handle 800::10 {DNS} flowid 1:10"),
     (f"{F} prio 1 {DNS} flowid 1:10", f"{F} prio 1 {UDP} flowid 1:20")),
    # The first free number without a handle is 800.
    ((f"{F} prio 1 {UDP} flowid 1:20", f"{F} prio 1 handle 800::7ff {DNS} flowid 1:10"),
     (f"{F} prio 1 {DNS} flowid 1:10", f"{F} prio 1 {UDP} flowid 1:20")),
    ((f"{F} prio 1 handle 5: u32 divisor 16", f"{F} prio 1 u32 ht 5:3: {DNS[4:]} flowid 1:10",
      f"{F} prio 1 u32 ht 5:0: {NTP[4:]} flowid 1:10", f"{F} prio 1 {UDP} link 5:"),
     (f"{F} prio 1 {NTP} match ip protocol 17 0xff flowid 1:10",)),
    ((f"{F} prio 1 handle 1 fw classid 1:20", f"{F} prio 2 {DNS} flowid 1:10",
      "filter del dev v0 parent 1: protocol ip prio 1 handle 0x1 fw"),
     (f"{F} prio 2 {DNS} flowid 1:10",)),
    ((f"{F} prio 1 {FLOWER} dst_port 53 classid 1:10", f"{F} prio 1 {FLOWER} classid 1:20",
      f"{F} prio 1 {FLOWER} dst_port 123 classid 1:10"),
     (f"{F} prio 1 {FLOWER} dst_port 53 classid 1:10",
      f"{F} prio 2 {FLOWER} dst_port 123 classid 1:10", f"{F} prio 3 {FLOWER} classid 1:20")),
    ((f"{F} prio 1 {FLOWER} dst_port 53 classid 1:20", f"{F} prio 1 {FLOWER} classid 1:10",
      "filter del dev v0 parent 1: protocol ip prio 1 handle 1 flower"),
     (f"{F} prio 1 {FLOWER} classid 1:10",)),
    ((f"{F} prio 1 basic classid 1:20", f"{F} prio 1 basic classid 1:10"),
     (f"{F} prio 1 basic classid 1:10",)),
]  # fmt: skip
"""Filters, and filters with the same effect."""


@pytest.mark.parametrize(("lines", "same"), HANDLES)
def test_filters_of_a_priority_are_tried_as_in_linux(
    lines: Sequence[str], same: Sequence[str]
) -> None:
    assert policies((*HTB, *lines)) == policies((*HTB, *same))


def test_the_numbers_of_u32_begin_again_at_one() -> None:
    """Linux tries the filter after 2,048 others before them."""
    many = (f"{F} prio 1 {UDP} flowid 1:20" for _ in range(2048))
    assert policies((*HTB, *many, ALL[-1])) == policies((*HTB, ALL[-1]))


EXIST = [
    (f"{F} prio 1 {FLOWER} ip_tos 4 classid 1:10", f"{F} prio 1 {FLOWER} ip_tos 4 classid 1:20"),
    (f"{F} prio 1 matchall classid 1:10", f"{F} prio 1 matchall classid 1:20"),
    (f"{F} prio 1 handle 1 fw classid 1:10", f"{F} prio 1 handle 1 fw classid 1:20"),
    (f"{F} prio 1 {DNS} flowid 1:10", f"{F} prio 1 handle 800::800 {DNS} flowid 1:20"),
    (f"{F} prio 1 {DNS} flowid 1:10", f"{F.replace('add', 'change')} prio 1 {DNS} flowid 1:20"),
]  # fmt: skip
"""A filter, and one that Linux does not add beside it."""


@pytest.mark.parametrize(("first", "second"), EXIST)
def test_a_filter_that_exists_stays(first: str, second: str) -> None:
    assert policies((*HTB, first, second)) == policies((*HTB, first))
    told = reading((*HTB, first, second)).lines[-1].note
    assert "has this filter already" in told or "there is nothing to change" in told


REFUSED = [
    (("qdisc replace dev v0 root handle 1: htb default 10",), "Change operation not supported"),
    (("qdisc change dev v0 root htb default 10",), "Change operation not supported"),
    (("qdisc replace dev v0 root handle 1: pfifo",), "must match existing qdisc"),
    (("class del dev v0 classid 1:1",), "HTB class in use"),
    ((f"{F} prio 1 {DNS} flowid 1:10", "class del dev v0 classid 1:10"), "HTB class in use"),
    ((f"{F} prio 1 handle 0x1/0xff fw classid 1:20",
      f"{F} prio 1 handle 0x100/0xff00 fw classid 1:10"), "Invalid argument"),
    ((f"{F} prio 1 {DNS} flowid 1:10", f"{F} prio 2 handle 800::1 {DNS} flowid 1:10"),
     "Handle specified hash table address mismatch"),
]  # fmt: skip
"""Commands of which Linux refuses the last one because of those before it."""


@pytest.mark.parametrize(("lines", "reason"), REFUSED)
def test_what_stands_already_forbids_a_command(lines: Sequence[str], reason: str) -> None:
    found = reading((*HTB, *lines))
    assert [reason in each.reason for each in found.refusals] == [True]
    assert found.lines[-1].fault is Fault.REFUSED


@pytest.mark.parametrize("said", ["protocol ip", "u32", "protocol ip handle 800::800 u32"])
def test_filters_are_not_deleted_without_a_priority(said: str) -> None:
    """Linux: "Cannot flush filters with protocol, handle or kind set"."""
    lines = (*ALL, f"filter del dev v0 parent 1: {said}")
    assert policies(lines) == policies(ALL)
    assert reading(lines).lines[-1].fault is Fault.WITHOUT_EFFECT


def test_a_command_that_an_earlier_branch_may_forbid_is_told() -> None:
    """The host runs one of the branches."""
    text = "\n".join(f"tc {each}" for each in HTB)
    branches = (
        "if true; then\ntc qdisc replace dev v1 root handle 1: htb default 1\nelse\n"
        "tc qdisc replace dev v1 root handle 1: htb default 2\nfi\n"
    )
    found = read([Source("wan.sh", f"{text}\n{branches}")], "tc")
    assert found.refusals == ()
    assert any("Change operation not supported" in line.note for line in found.lines)


def test_a_class_without_filters_can_be_deleted() -> None:
    gone = ("filter del dev v0 parent 1:", "class del dev v0 classid 1:10")
    assert policies((*ALL, *gone)) == policies((HTB[0], HTB[1], HTB[3]))
