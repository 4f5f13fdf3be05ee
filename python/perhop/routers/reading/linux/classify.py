"""Packets on their way to a class: decision lists of header conditions, marks and priorities.

The first entry of a list whose conditions a packet meets tells what became of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from perhop.routers.reading.decisions import matches
from perhop.routers.reading.linux import units
from perhop.routers.reading.linux.model import Outcome
from perhop.routers.reading.matching import Conditions, TooManyRulesError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.linux.model import Action, Filter, Test

__all__ = ["EVERY", "MOST_PAIRS", "Packets", "Verdict", "classify", "matches", "meet", "priority"]

MOST_PAIRS: Final = 2**18
"""The most pairs of entries that are compared for an interface."""

_ALL_BITS: Final = 0xFFFFFFFF
_DEEPEST: Final = 100
MOST_VERDICTS: Final = 2**15
"""The most entries of a decision list."""

_PRIORITIES: Final = (0, 0, 2, 2, 6, 6, 4, 4)
"""The priority that Linux gives a packet by the low three bits of its DSCP
(`ip_tos2prio` in net/ipv4/route.c: best effort, bulk, interactive and interactive bulk)."""


@dataclass(frozen=True, slots=True)
class Packets:
    """Packets that meet conditions, with what rules have set.

    Attributes:
        header: Conditions on the header, as it arrived.
        mark: The mark of netfilter.
        priority: `skb->priority`, or None where the type of service tells it.
        dscp: The new code point, or None.
        policers: The keys of the buckets that measure them, in order; see `Buckets`.
        origin: Conditions on the header, with those that the classes around have.
        unsure: The line of a rule that is not modelled and may have let them pass their chain.
    """

    header: Conditions = field(default_factory=Conditions)
    mark: int = 0
    priority: int | None = None
    dscp: int | None = None
    policers: tuple[int, ...] = ()
    origin: Conditions = field(default_factory=Conditions)
    unsure: Place | None = None

    def narrowed(self, header: Conditions) -> Packets | None:
        """Return those that meet conditions, too; None for no packet."""
        both = self.header & header
        if both.is_never:
            return None
        origin = both if self.origin == self.header else self.origin & header
        return replace(self, header=both, origin=origin)


Actions: TypeAlias = "Callable[[Filter], Outcome]"
"""What the actions of a filter do."""

EVERY: Final = Packets()
"""All packets as they arrive."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Packets and their class: its number, 0 for none, or -1 if they are dropped."""

    packets: Packets
    target: int
    filter: Filter | None = None


def meet(packets: Packets, test: Test) -> Packets | None:
    """Return the packets that a test holds for; None for no packet."""
    if test.marks and any(packets.mark & mask != value for value, mask in test.marks):
        return None
    if test.negated and any(packets.mark & mask == value for value, mask in test.negated):
        return None
    header = test.header
    if packets.dscp is not None and header.dscp is not None:
        if packets.dscp not in header.dscp:
            return None
        header = replace(header, dscp=None)
    return packets.narrowed(header)


def priority(dscp: int) -> int:
    """Return the priority that Linux gives packets by their DSCP."""
    return _PRIORITIES[dscp & 7]


def edited(packets: Packets, edits: Iterable[Action]) -> Packets:
    """Return packets with what the actions `skbedit` set."""
    for action in edits:
        if "priority" in action.values:
            packets = replace(packets, priority=units.classid(action.values["priority"]))
        if "mark" in action.values:
            value, _, mask = action.values["mark"].partition("/")
            bits = units.number(mask) if mask else _ALL_BITS
            mark = (packets.mark & ~bits) | (units.number(value) & bits)
            packets = replace(packets, mark=mark)
    return packets


def classify(
    arriving: Sequence[Packets], filters: Sequence[Filter], actions: Actions
) -> list[Verdict]:
    """Return where filters lead packets, as a decision list.

    Packets that an action lets pass by ``continue`` go on to the filters after it.

    Raises:
        TooManyRulesError: If there are too many combinations.
    """
    if len(arriving) * len(filters) > 8 * MOST_PAIRS:
        raise TooManyRulesError(f"compares more than {8 * MOST_PAIRS:,} pairs of rules")
    found: list[Verdict] = []

    def walk(packets: Packets, start: int, depth: int) -> None:
        if depth > _DEEPEST:
            raise TooManyRulesError(f"has more than {_DEEPEST} policers one after another")
        for index in range(start, len(filters)):
            each = filters[index]
            if len(found) > MOST_VERDICTS:
                raise TooManyRulesError(f"has more than {MOST_VERDICTS:,} combinations of rules")
            target = each.target or 0
            outcome = actions(each) if each.actions else Outcome()
            goes_on = outcome.then == "next"
            # u32 passes over a filter with neither class nor action (`TC_U32_TERMINAL`).
            ends = each.target is not None or bool(each.actions) or each.kind != "u32"
            if not ends or outcome == Outcome("next"):
                continue
            if each.by_mark:
                target = packets.mark
                if not target:
                    continue
            if outcome.then == "drop":
                target = -1
            whole = False
            for test in each.tests or ():
                met = meet(packets, test)
                if met is None:
                    continue
                whole = whole or met.header == packets.header
                met = replace(
                    met, policers=tuple(dict.fromkeys((*met.policers, *outcome.policers)))
                )
                if goes_on:
                    walk(edited(met, outcome.edits), index + 1, depth + 1)
                else:
                    found.append(Verdict(met, target, each))
            if whole:
                return
        found.append(Verdict(packets, 0))

    for packets in arriving:
        walk(packets, 0, 0)
    return found


def within(conditions: Conditions, outer: Iterable[Conditions]) -> Conditions:
    """Return conditions without those that the class around them has already."""
    around = list(outer)
    if len(around) != 1:
        return conditions
    other = around[0]
    inner = Conditions(
        dscp=_unlike(conditions.dscp, other.dscp),
        protocols=conditions.protocols,
        source=_unlike(conditions.source, other.source),
        destination=_unlike(conditions.destination, other.destination),
        source_ports=_unlike(conditions.source_ports, other.source_ports),
        destination_ports=_unlike(conditions.destination_ports, other.destination_ports),
    )
    if inner.source_ports is None and inner.destination_ports is None:
        protocols = None if inner.protocols == around[0].protocols else inner.protocols
        inner = replace(inner, protocols=protocols)
    return inner if inner & around[0] == conditions else conditions


def _unlike(own: _T | None, other: _T | None) -> _T | None:
    return None if own == other else own
