"""Where filters of tc lead packets: verdicts of actions, and the numbers of classes.

Each is measured with tc on Linux, or read from iproute2 and net/sched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linux_scripts import HTB, notes, policies, reading
from perhop.routers.reading.linux import units

if TYPE_CHECKING:
    from collections.abc import Sequence

PRIO = "qdisc add dev v0 root handle 1: prio"
INGRESS = "qdisc add dev v0 handle ffff: ingress"
F = "filter add dev v0 parent 1: protocol ip"
INTO = "filter add dev v0 parent ffff: protocol ip prio 1"
DNS = "u32 match ip dport 53 0xffff"
ALL = "u32 match u32 0 0"
POLICE = "action police rate 1mbit burst 10k conform-exceed"
CLSACT = "qdisc add dev v0 clsact"
EGRESS = "filter add dev v0 egress protocol ip prio 1"

SAME = [
    # What exceeds goes on to the drop, what conforms ends (`tcf_action_exec`).
    ((INGRESS, f"{INTO} {DNS} {POLICE} pipe/ok action drop"),
     (INGRESS, f"{INTO} {DNS} {POLICE} drop/ok")),
    ((PRIO, f"{F} prio 1 {DNS} flowid 1:1 {POLICE} pipe/ok action drop"),
     (PRIO, f"{F} prio 1 {DNS} flowid 1:1 {POLICE} drop/ok")),
    ((PRIO, f"{F} prio 1 {DNS} flowid 1:1 {POLICE} pipe/pipe action ok"),
     (PRIO, f"{F} prio 1 {DNS} flowid 1:1 {POLICE} pipe/ok")),
    ((PRIO, f"{F} prio 1 {DNS} flowid 1:1 action ok action drop"),
     (PRIO, f"{F} prio 1 {DNS} flowid 1:1")),
    ((PRIO, f"{F} prio 1 {DNS} flowid 1:1 action pipe action drop"),
     (PRIO, f"{F} prio 1 {DNS} action drop")),
    ((PRIO, f"{F} prio 1 {DNS} flowid 1:1 action skbedit mark 1 drop"),
     (PRIO, f"{F} prio 1 {DNS} action drop")),
    # Filters behind one that continues see what it set.
    ((PRIO, f"{F} prio 1 {DNS} action skbedit mark 5 pipe action continue",
      f"{F} prio 2 handle 5 fw classid 1:1"),
     (PRIO, f"{F} prio 1 {DNS} flowid 1:1")),
    ((PRIO, f"{F} prio 1 {DNS} action skbedit mark 5 continue",
      f"{F} prio 2 handle 5 fw classid 1:1"),
     (PRIO, f"{F} prio 1 {DNS} flowid 1:1")),
    # With a mask, the other bits stay.
    ((PRIO, CLSACT, f"{EGRESS} {DNS} action skbedit mark 0x40/0xf0 pipe "
      "action skbedit mark 0x2f/0xf", f"{F} prio 1 handle 0x4f fw classid 1:1"),
     (PRIO, CLSACT, f"{F} prio 1 {DNS} flowid 1:1")),
    # Without a major number it is 0, which HTB does not have: the default class.
    ((*HTB, f"{F} prio 1 {DNS} flowid :10"), HTB),
    ((*HTB, f"{F} prio 1 {DNS} flowid 2:10"), HTB),
    # Bands have the minor number alone (`prio_classify`, `ets_classify`).
    ((PRIO, f"{F} prio 1 {DNS} flowid :1"), (PRIO, f"{F} prio 1 {DNS} flowid 1:1")),
    ((PRIO, f"{F} prio 1 {DNS} flowid 2:1"), (PRIO, f"{F} prio 1 {DNS} flowid 1:1")),
    ((PRIO.replace("prio", "ets bands 3"), f"{F} prio 1 {DNS} flowid 2:1"),
     (PRIO.replace("prio", "ets bands 3"), f"{F} prio 1 {DNS} flowid 1:1")),
    ((PRIO, CLSACT, f"{EGRESS} {DNS} action skbedit mark 3", f"{F} prio 1 fw"),
     (PRIO, CLSACT, f"{F} prio 1 {DNS} flowid 1:3")),
    # A band that is not there: that of priority 0, whatever the filters say.
    ((PRIO, CLSACT, f"{EGRESS} {DNS} action skbedit priority 1:9", f"{F} prio 1 {DNS} flowid 1:1"),
     (PRIO, CLSACT, f"{F} prio 1 {DNS} flowid 1:2")),
    # DRR has no classes in classes.
    (("qdisc add dev v0 root handle 1: drr",
      "class add dev v0 parent 1: classid 1:1 drr quantum 2000",
      "class add dev v0 parent 1:1 classid 1:2 drr quantum 3000",
      f"{F} prio 1 {DNS} flowid 1:2", f"{F} prio 2 {ALL} flowid 1:1"),
     ("qdisc add dev v0 root handle 1: drr",
      "class add dev v0 parent 1: classid 1:1 drr quantum 2000",
      "class add dev v0 parent 1: classid 1:2 drr quantum 3000",
      f"{F} prio 1 {DNS} flowid 1:2", f"{F} prio 2 {ALL} flowid 1:1")),
    (("qdisc add dev v0 root handle 1: ets bands 3 strict 1 quanta 2000 3000",
      "class change dev v0 classid 1:3 ets quantum 4000"),
     ("qdisc add dev v0 root handle 1: ets bands 3 strict 1 quanta 2000 4000",)),
    # `at` stands in place of the field's own offset.
    ((PRIO, f"{F} prio 1 u32 match ip sport 53 0xffff at 22 flowid 1:1"),
     (PRIO, f"{F} prio 1 {DNS} flowid 1:1")),
    ((PRIO, f"{F} prio 1 u32 match ip protocol 17 0xff at 9 flowid 1:1"),
     (PRIO, f"{F} prio 1 u32 match ip protocol 17 0xff flowid 1:1")),
]  # fmt: skip
"""Scripts with the same effect."""


@pytest.mark.parametrize(("lines", "same"), SAME)
def test_packets_go_where_linux_leads_them(lines: Sequence[str], same: Sequence[str]) -> None:
    assert policies(lines) == policies(same)


def test_what_conforms_goes_on_to_the_drop_behind() -> None:
    ((*_, policy, _, _),) = policies((INGRESS, f"{INTO} {DNS} {POLICE} drop/pipe action drop"))
    assert policy["classes"]["filter1"]["police"]["conform"] == "drop"


@pytest.mark.parametrize("verdicts", ["drop/pipe", "pipe/ok", "ok/pipe"])
def test_many_policers_of_a_filter_are_each_read_once(verdicts: str) -> None:
    """Linux takes 32 actions; paths through them double with each policer."""
    line = f"{F} prio 1 {ALL} flowid 1:1" + f" {POLICE} {verdicts}" * 32
    assert reading((PRIO, line)).refusals == ()


TOLD = [
    (f"{F} prio 1 {DNS} flowid 1:1 action pass random determ drop 2", "of `random`"),
    (f"{F} prio 1 {DNS} action drop random netrand pass 2", "of `random`"),
    (f"{F} prio 1 handle 1 fw indev v1 classid 1:1", "interface of arrival"),
    (f"{F} prio 1 {ALL} flowid 1:1 {POLICE} ok/pipe action drop", "for what exceeds, too"),
    (f"{F} prio 1 {ALL} flowid 1:1 {POLICE} pipe/ok {POLICE} drop", "without the actions behind"),
    (f"{F} prio 1 u32 {ALL[4:]} offset at 0 mask 0x0f00 shift 6 eat link 1:", "`eat` moves"),
]


@pytest.mark.parametrize(("line", "said"), TOLD)
def test_what_filters_do_that_is_not_modelled_is_told(line: str, said: str) -> None:
    table = f"{F} prio 1 handle 1: u32 divisor 1"
    assert any(said in note for note in notes((PRIO, *([table] * ("eat" in line)), line)))


def test_priorities_by_the_ds_field_are_told() -> None:
    lines = (PRIO, CLSACT, f"{EGRESS} matchall action skbedit inheritdsfield")
    assert any("`inheritdsfield`" in note for note in notes(lines))


@pytest.mark.parametrize("kind", ["drr", "ets bands 2"])
def test_bands_have_no_filters(kind: str) -> None:
    lines = [f"qdisc add dev v0 root handle 1: {kind}"]
    lines += ["class add dev v0 parent 1: classid 1:1 drr"] * (kind == "drr")
    found = reading((*lines, f"{F.replace('1:', '1:1')} prio 1 {DNS} flowid 1:1"))
    (refusal,) = found.refusals
    assert f"{kind[:3].upper()} classid must be zero." in refusal.reason


def test_packets_have_no_priority_behind_an_ifb() -> None:
    """`ip_forward` gives it to them later, so that `prio` has all in the band of priority 0."""
    ((_, _, policy, _, _),) = policies((PRIO.replace("v0", "ifb0"),))
    assert [*policy["classes"]] == ["band1"]


def test_cbq_serves_packets_without_a_class_last() -> None:
    class_ = "class add dev v0 parent 1: classid"
    lines = (
        "qdisc add dev v0 root handle 1: cbq bandwidth 10mbit avpkt 1000",
        f"{class_} 1:1 cbq bandwidth 10mbit rate 4mbit allot 1514 prio 1",
        f"{F} prio 1 {DNS} flowid 1:1",
    )
    ((_, _, policy, _, _),) = policies(lines)
    assert policy["classes"]["unclassified"]["priority"] == 7
    assert any("which CBQ serves last" in note for note in notes(lines))
    every = f"{F.replace('protocol ip', 'protocol all')} prio 2 matchall flowid 1:1"
    assert not any("which CBQ serves last" in note for note in notes((*lines, every)))


def test_queues_of_a_card_that_differ_are_told() -> None:
    lines = ["qdisc add dev v0 root handle 1: mq", "qdisc add dev v0 parent 1:1 fq_codel"]
    assert not any("stands for all" in note for note in notes(lines))
    lines.append("qdisc add dev v0 parent 1:2 fq_codel")
    assert not any("stands for all" in note for note in notes(lines))
    lines.append("qdisc add dev v0 parent 1:3 fq_codel limit 10")
    assert any("stands for all" in note for note in notes(lines))


@pytest.mark.parametrize("text", ["1:0xa", "0x1:0xa", "1:a", "0x1:a"])
def test_numbers_of_classes_are_hexadecimal(text: str) -> None:
    assert units.classid(text) == 0x1000A


@pytest.mark.parametrize(
    "settings",
    [
        "sfq headdrop limit 100",
        "pie no_dq_rate_estimator limit 100",
        "fq horizon_drop limit 100",
        "fq horizon_cap limit 100",
        "red adaptative limit 60000 avpkt 1000",
    ],
)
def test_words_without_a_value_take_none(settings: str) -> None:
    assert reading((f"qdisc add dev v0 root {settings}",)).refusals == ()
