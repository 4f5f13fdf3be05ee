"""Rules on matches: classes that get no packets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.routers.lint.findings import Finding, Rule, Severity
from perhop.routers.lint.packets import Box, Budget, TooComplexError, common, overlap, without
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perhop.routers.lint.policies import AttachedPolicy, JudgedClass
    from perhop.routers.reading import Loc

EMPTY: Final = Rule(
    "empty-class",
    Severity.ERROR,
    "A class whose conditions exclude each other, or exclude all packets of the class around it.",
    "No packet ever matches, so that its bandwidth, queue and policer have no effect, and the "
    "packets that it was made for are in another class.",
    "Correct the conditions: a class-map of Cisco IOS without `match-any` needs all of its "
    "conditions to be met.",
    "Cisco IOS Quality of Service Solutions Command Reference, `class-map`: match-all is the "
    "default",
)

SHADOWED: Final = Rule(
    "shadowed-class",
    Severity.ERROR,
    "A class whose packets earlier classes take.",
    "The first class that a packet matches decides. No packet reaches this class.",
    "Put the class with the narrower match first, or remove one of the classes.",
    "Cisco IOS Quality of Service Solutions Configuration Guide, Applying QoS Features Using the "
    "MQC: classes are examined in the order of the policy map",
)

UNCLASSIFIED: Final = Rule(
    "unclassified-packets",
    Severity.WARNING,
    "A classful discipline of Linux without a default class, whose filters do not lead every "
    "packet to a class.",
    "HTB sends such packets at once: they pass the shaper, before those of all classes. HFSC and "
    "DRR drop them. ARP is among them if filters are for IP only.",
    "Set `default` to the number of a class; for DRR, add a filter that matches all packets.",
    "Linux, net/sched: `htb_enqueue`, `hfsc_enqueue` and `drr_enqueue`",
)

RULES: Final = (EMPTY, SHADOWED, UNCLASSIFIED)

WITH_DEFAULT: Final = "set `default` to a class, or add a filter that matches all packets"
"""What to do about packets that no filter leads to a class."""

_WITHOUT_DEFAULT: Final = frozenset({"tc", "altq", "pf"})
"""Families whose default class is one that somebody made for packets."""


def findings(policy: AttachedPolicy, budget: Budget) -> Iterator[Finding]:
    """Find classes of a policy that get no packets.

    Coverage by several earlier classes together counts. Where a match is not known exactly, or the
    question takes too many steps, nothing is found.
    """
    reaching: dict[Loc, list[Box] | None] = {}
    for judged in policy.classes:
        try:
            yield from _judge(judged, reaching, budget)
        except TooComplexError:
            return


def _judge(
    judged: JudgedClass, reaching: dict[Loc, list[Box] | None], budget: Budget
) -> Iterator[Finding]:
    """Find a class without packets, and keep the packets that reach the class in `reaching`."""
    reaching[judged.loc] = None
    if judged.is_unclassified:
        done = (
            "are dropped" if judged.discards else "pass the shaper, and are sent before all others"
        )
        vyos = judged.attached.family == "vyos"
        yield Finding(
            UNCLASSIFIED,
            judged.place(),
            f"packets of policy {quote(judged.attached.attachment.name)} that no "
            f"{'match' if vyos else 'filter'} leads to a class {done}",
            "give the policy a `default`" if vyos else WITH_DEFAULT,
        )
    packets = judged.packets
    parent = judged.loc[:-2]
    around = reaching[parent] if parent else None
    if packets is None or (parent and around is None):
        return
    if not packets:
        yield Finding(
            EMPTY,
            judged.place("match"),
            f"{judged} matches no packet: its conditions exclude each other",
            "let a packet meet any of the conditions, or remove those that exclude the others",
        )
        return
    if around is not None:
        packets = [box for box in (common(a, b) for a in packets for b in around) if box]
        if not packets:
            yield Finding(
                EMPTY,
                judged.place("match"),
                f"{judged} matches no packet of the class around it",
                "match packets that the class around it matches",
            )
            return
    reaching[judged.loc] = left = without(packets, _of(judged.earlier), budget)
    rest = judged.is_default and judged.attached.family not in _WITHOUT_DEFAULT
    if left or rest or judged.class_.unused or judged.is_unclassified:
        return
    takers = [other for other in judged.earlier if overlap(packets, other.packets or ())]
    alone = [other for other in takers if not without(packets, other.packets or [], budget)]
    names = " and ".join(quote(other.class_name) for other in (alone[:1] or takers))
    takes = "takes" if alone or len(takers) == 1 else "together take"
    yield Finding(
        SHADOWED,
        judged.place("match"),
        f"{judged} gets no packets: {names} before it {takes} all that it matches",
        f"put it before {quote((alone[:1] or takers)[0].class_name)}, or remove it",
    )


def _of(classes: Iterable[JudgedClass]) -> Iterator[Box]:
    """Yield the packets of all classes whose packets are known."""
    for judged in classes:
        yield from judged.packets or ()
