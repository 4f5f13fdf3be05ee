"""Sets of packets as configurations state them: access lists, class maps and filters.

A set is a list of rules, and the first rule that applies to a packet decides. The lists are closed
under intersection, union and complement, and a scenario can state each of them as a `match`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.conditions import (
    OF_VERSION,
    WITH_PORTS,
    Conditions,
    Network,
    Networks,
    Packet,
    Ports,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = [
    "MAX_PAIRS",
    "MAX_RULES",
    "OF_VERSION",
    "WITH_PORTS",
    "Conditions",
    "Network",
    "Networks",
    "Packet",
    "Ports",
    "Rule",
    "Rules",
    "TooManyRulesError",
]

MAX_RULES: Final = 4096
"""The most rules of a set."""

MAX_PAIRS: Final = 2**18
"""The most pairs of rules, prefixes and ranges that an operation on two sets compares."""

_FEW: Final = 128
"""The most rules, prefixes and ranges that are compared in pairs to shorten a list."""

_ANY: Final = Conditions()
_NAMES: Final = (
    *("dscp", "protocols", "source", "destination", "source_ports", "destination_ports"),
    *("pcp", "mpls_tc"),
)
"""The properties in the order of `Conditions.key`."""


class TooManyRulesError(Exception):
    """A set of packets needs more than `MAX_RULES` rules."""


Rule = tuple[bool, Conditions]
"""Whether packets that meet the conditions belong to the set."""


@dataclass(frozen=True, slots=True)
class Rules:
    """A set of packets: the first rule that applies to a packet decides; no rule, not in the set.

    Operations raise `TooManyRulesError` if the result is too large.

    Attributes:
        rules: For each rule, whether its packets belong to the set, and its conditions.
    """

    rules: tuple[Rule, ...] = ()
    short: bool = field(default=False, compare=False, repr=False)
    """True if the rules are as few as `simplified` makes them."""

    def __post_init__(self) -> None:
        """Check the number of rules."""
        if len(self.rules) > MAX_RULES:
            raise TooManyRulesError(f"needs more than {MAX_RULES:,} rules")

    @classmethod
    def any(cls) -> Rules:
        """Return the set of all packets."""
        return cls(((True, _ANY),))

    @classmethod
    def never(cls) -> Rules:
        """Return the empty set."""
        return cls()

    @classmethod
    def of(cls, conditions: Conditions) -> Rules:
        """Return the set of the packets that meet some conditions."""
        return cls() if conditions.is_never else cls(((True, conditions),))

    @classmethod
    def union(cls, sets: Iterable[Rules]) -> Rules:
        """Return the packets of any of the sets; of no set, the empty set."""
        return _in_pairs(cls.__or__, list(sets), cls.never())

    @classmethod
    def intersection(cls, sets: Iterable[Rules]) -> Rules:
        """Return the packets of all the sets; of no set, all packets."""
        return _in_pairs(cls.__and__, list(sets), cls.any())

    @property
    def is_any(self) -> bool:
        """True if all packets belong to the set, as far as the rules tell."""
        return self.simplified().rules == ((True, _ANY),)

    @property
    def is_never(self) -> bool:
        """True if no packet can belong to the set."""
        return not self.simplified().rules

    def __and__(self, other: Rules) -> Rules:
        """Return the packets of both sets."""
        return Rules(_short(_choose(self, other, Rules.never())))

    def __or__(self, other: Rules) -> Rules:
        """Return the packets of either set."""
        return Rules(_short(_choose(self, Rules.any(), other)))

    def __invert__(self) -> Rules:
        """Return the packets that are not in the set."""
        flipped = ((not permit, conditions) for permit, conditions in self.rules)
        return Rules(_short([*flipped, (True, _ANY)]))

    def matches(self, packet: Packet) -> bool:
        """Return whether a packet belongs to the set."""
        return next((permit for permit, each in self.rules if each.matches(packet)), False)

    def simplified(self) -> Rules:
        """Return the same set with fewer rules, as far as easily seen."""
        if self.short:
            return self
        rules = _short(self.rules)
        for _ in range(8 if len(rules) > 1 else 0):
            before = rules
            rules = _short(_merged(rules))
            if _weight(rules) <= _FEW:
                rules = _short(_without_shadowed(rules))
            if rules == before:
                break
        return Rules(rules, short=True)

    def written(self) -> str | dict[str, Any] | list[Any]:
        """Return the set as a scenario's `match`: ``any``, conditions, or a list of them.

        A set that no packet can belong to is ``[]``, which no scenario accepts: leave out the class
        instead.
        """
        rules = self.simplified().rules
        written = [
            each.written() if permit else {"except": each.written()} for permit, each in rules
        ]
        return written[0] if len(written) == 1 else written


def _in_pairs(operation: Callable[[Rules, Rules], Rules], sets: list[Rules], none: Rules) -> Rules:
    """Apply an operation to neighbours until one set is left: n log n steps instead of n^2."""
    while len(sets) > 1:
        rest = sets[-1:] if len(sets) % 2 else []
        sets = [operation(a, b) for a, b in zip(sets[::2], sets[1::2], strict=False)] + rest
    return sets[0] if sets else none


def _choose(condition: Rules, yes: Rules, no: Rules) -> list[Rule]:
    """Return the rules of: those of `yes` within `condition`, and those of `no` outside it."""
    weights = {True: _weight(yes.rules), False: _weight(no.rules)}
    if sum(_weight((rule,)) * weights[rule[0]] for rule in condition.rules) > MAX_PAIRS:
        raise TooManyRulesError(f"compares more than {MAX_PAIRS:,} pairs of rules")
    found: list[Rule] = []
    for permit, outer in condition.rules:
        for decision, inner in (yes if permit else no).rules:
            if inner is _ANY or inner.contains(outer):
                found.append((decision, outer))
                break
            if not inner.disjoint(outer):
                found.append((decision, outer & inner))
        else:
            found.append((False, outer))
    return [*found, *no.rules]


def _weight(rules: Iterable[Rule]) -> int:
    """Return the number of rules, prefixes and ranges of ports."""
    return sum(
        1
        + len(each.source or ())
        + len(each.destination or ())
        + len(each.source_ports or ())
        + len(each.destination_ports or ())
        for _, each in rules
    )


def _short(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the rules without those that cannot decide, found in linear time."""
    seen: set[tuple[Any, ...]] = set()
    found: list[Rule] = []
    for permit, each in rules:
        if each.key in seen or each.is_never:
            continue
        seen.add(each.key)
        found.append((permit, each))
        if each.is_any:
            break
    while found and not found[-1][0]:
        found.pop()
    return tuple(found)


def _merged(rules: Sequence[Rule]) -> Iterator[Rule]:
    """Join neighbouring rules with one decision that differ in the values of one condition."""
    start = 0
    for end in range(1, len(rules) + 1):
        if end == len(rules) or rules[end][0] != rules[start][0]:
            run = [each for _, each in rules[start:end]]
            for index, name in enumerate(_NAMES):
                groups: dict[tuple[Any, ...], list[Conditions]] = {}
                for each in run:
                    key = each.key[:index] + each.key[index + 1 :]
                    groups.setdefault(key, []).append(each)
                if len(groups) < len(run):
                    run = [_joined(group, name) for group in groups.values()]
            yield from ((rules[start][0], each) for each in run)
            start = end


def _joined(group: Sequence[Conditions], name: str) -> Conditions:
    """Return conditions that differ in one property, as one."""
    if len(group) == 1:
        return group[0]
    values = [getattr(each, name) for each in group]
    joined: Any = None
    if None not in values:
        kind = type(values[0])
        joined = kind(each for value in values for each in value)
    return replace(group[0], **{name: joined})


def _without_shadowed(rules: Sequence[Rule]) -> Iterator[Rule]:
    """Leave out rules that change nothing, and narrow those that earlier rules narrow."""
    kept: list[Rule] = []
    for index, (permit, each) in enumerate(rules):
        narrowed = each
        for decision, earlier in kept:
            if decision != permit:
                narrowed = _less(narrowed, earlier)
        if any(earlier.contains(narrowed) for _, earlier in kept):
            continue
        later = rules[index + 1 :]
        if not _repeated(permit, narrowed, later):
            kept.append((permit, narrowed))
    yield from kept


def _repeated(permit: bool, conditions: Conditions, later: Sequence[Rule]) -> bool:
    """Return whether the later rules decide the same way about all of these packets."""
    for decision, each in later:
        if decision != permit and not each.disjoint(conditions):
            return False
        if decision == permit and each.contains(conditions):
            return True
    return not permit


def _less(conditions: Conditions, taken: Conditions) -> Conditions:
    """Return the conditions without values of one property that `taken` takes in every case."""
    for index, name in enumerate(("dscp", "protocols")):
        own, others = conditions.key[index], taken.key[index]
        if own is None or others is None or own.isdisjoint(others):
            continue
        rest: dict[str, Any] = {name: None}
        if replace(taken, **rest).contains(conditions):
            rest[name] = own - others
            return replace(conditions, **rest)
    return conditions
