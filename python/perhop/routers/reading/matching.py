"""Sets of packets as configurations state them: access lists, class maps and filters.

A set is a list of rules, and the first rule that applies to a packet decides. The lists are closed
under intersection, union and complement, and a scenario can state each of them as a `match`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, collapse_addresses
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perhop.scenario.model.dscp import format_dscp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Network = IPv4Network | IPv6Network
Networks = tuple[Network, ...]
Ports = tuple[tuple[int, int], ...]
"""Ranges of ports: the first and the last one."""

MAX_RULES: Final = 4096
"""The most rules of a set."""

MAX_PAIRS: Final = 2**18
"""The most pairs of rules, prefixes and ranges that an operation on two sets compares."""

WITH_PORTS: Final = frozenset({"tcp", "udp"})
"""The protocols with ports."""

_NO_ADDRESS: Final = IPv4Address(0)
_ALL_DSCPS: Final = frozenset(range(64))
_ALL_PORTS: Final = (1, 65535)
_ALL_ADDRESSES: Final = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))
_FEW: Final = 128
"""The most rules, prefixes and ranges that are compared in pairs to shorten a list."""


class TooManyRulesError(Exception):
    """A set of packets needs more than `MAX_RULES` rules."""


@dataclass(frozen=True, slots=True)
class Packet:
    """The properties of a packet that conditions look at; protocols without ports have 0."""

    dscp: int = 0
    protocol: str = "tcp"
    source: IPv4Address | IPv6Address = _NO_ADDRESS
    destination: IPv4Address | IPv6Address = _NO_ADDRESS
    source_port: int = 0
    destination_port: int = 0


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions that a packet must all meet; an empty set of values can never be met.

    Conditions on ports are met by TCP and UDP only. Values are normalised: sorted, joined, and None
    where every value is permitted.

    Attributes:
        dscp: Code points, or None for no condition.
        protocols: Protocols of scenarios (``tcp``, ``udp``, ``icmp``), or None.
        source: Prefixes of the source address, or None.
        destination: Prefixes of the destination address, or None.
        source_ports: Ranges of source ports, or None.
        destination_ports: Ranges of destination ports, or None.
    """

    dscp: frozenset[int] | None = None
    protocols: frozenset[str] | None = None
    source: Networks | None = None
    destination: Networks | None = None
    source_ports: Ports | None = None
    destination_ports: Ports | None = None

    def __post_init__(self) -> None:
        """Normalise the values."""
        put = object.__setattr__
        if self.dscp is not None and self.dscp >= _ALL_DSCPS:
            put(self, "dscp", None)
        if self.source_ports is not None or self.destination_ports is not None:
            known = self.protocols
            put(self, "protocols", WITH_PORTS if known is None else known & WITH_PORTS)
            put(self, "source_ports", _joined_ports(self.source_ports))
            put(self, "destination_ports", _joined_ports(self.destination_ports))
        if self.source is not None:
            put(self, "source", _joined_networks(self.source))
        if self.destination is not None:
            put(self, "destination", _joined_networks(self.destination))

    @property
    def is_any(self) -> bool:
        """True if every packet meets the conditions."""
        return self == _ANY

    @property
    def is_never(self) -> bool:
        """True if no packet can meet the conditions."""
        if any(value is not None and not value for value in _values(self)):
            return True
        versions = [
            {network.version for network in networks}
            for networks in (self.source, self.destination)
            if networks is not None
        ]
        return len(versions) == 2 and versions[0].isdisjoint(versions[1])

    def __and__(self, other: Conditions) -> Conditions:
        """Return the conditions of both."""
        return Conditions(
            _both(self.dscp, other.dscp, frozenset.__and__),
            _both(self.protocols, other.protocols, frozenset.__and__),
            _both(self.source, other.source, _common_networks),
            _both(self.destination, other.destination, _common_networks),
            _both(self.source_ports, other.source_ports, _common_ports),
            _both(self.destination_ports, other.destination_ports, _common_ports),
        )

    def contains(self, other: Conditions) -> bool:
        """Return whether each packet that meets `other` meets these conditions, as far as told."""
        return other.is_never or self & other == other

    def matches(self, packet: Packet) -> bool:
        """Return whether a packet meets the conditions."""
        return (
            (self.dscp is None or packet.dscp in self.dscp)
            and (self.protocols is None or packet.protocol in self.protocols)
            and (self.source is None or any(packet.source in each for each in self.source))
            and (
                self.destination is None
                or any(packet.destination in each for each in self.destination)
            )
            and _in_ports(packet.source_port, self.source_ports)
            and _in_ports(packet.destination_port, self.destination_ports)
        )

    def written(self) -> str | dict[str, Any]:
        """Return the conditions as a scenario states them: ``any``, or a mapping."""
        protocols = self.protocols
        if self.source_ports is not None or self.destination_ports is not None:
            protocols = None if protocols == WITH_PORTS else protocols
        found: dict[str, Any] = {}
        for key, values in (
            ("dscp", None if self.dscp is None else map(format_dscp, sorted(self.dscp))),
            ("protocol", None if protocols is None else sorted(protocols)),
            ("source", None if self.source is None else map(_format_network, self.source)),
            (
                "destination",
                None if self.destination is None else map(_format_network, self.destination),
            ),
            ("source_port", _format_ports(self.source_ports)),
            ("destination_port", _format_ports(self.destination_ports)),
        ):
            if values is not None:
                some = list(values)
                found[key] = some[0] if len(some) == 1 else some
        return found or "any"


_ANY: Final = Conditions()
_NAMES: Final = tuple(field.name for field in fields(Conditions))

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
        rules = _short(self.rules)
        for _ in range(8):
            before = rules
            rules = _short(_merged(rules))
            if _weight(rules) <= _FEW:
                rules = _short(_without_shadowed(rules))
            if rules == before:
                break
        return Rules(rules)

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
            both = outer if inner is _ANY else outer & inner
            if not both.is_never:
                found.append((decision, both))
            if both == outer:
                break
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
    seen: set[Conditions] = set()
    found: list[Rule] = []
    for permit, each in rules:
        if each in seen or each.is_never:
            continue
        seen.add(each)
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
            for name in _NAMES if len(run) > 1 else ():
                groups: dict[Conditions, list[Any]] = {}
                for each in run:
                    groups.setdefault(replace(each, **{name: None}), []).append(each)
                run = [_joined(group, name) for group in groups.values()]
            yield from ((rules[start][0], each) for each in run)
            start = end


def _joined(group: Sequence[Conditions], name: str) -> Conditions:
    """Return conditions that differ in one property, as one."""
    values = [getattr(each, name) for each in group]
    joined: Any = None
    if len(group) == 1:
        return group[0]
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
        if decision != permit and not (each & conditions).is_never:
            return False
        if decision == permit and each.contains(conditions):
            return True
    return not permit


def _less(conditions: Conditions, taken: Conditions) -> Conditions:
    """Return the conditions without values of one property that `taken` takes in every case."""
    for name in ("dscp", "protocols"):
        own, others = getattr(conditions, name), getattr(taken, name)
        rest = replace(taken, **{name: None})
        if own is not None and others is not None and rest.contains(conditions):
            return replace(conditions, **{name: own - others})
    return conditions


_T = TypeVar("_T")


def _both(own: _T | None, other: _T | None, common: Callable[[_T, _T], _T]) -> _T | None:
    if own is None or other is None:
        return other if own is None else own
    return common(own, other)


def _values(conditions: Conditions) -> tuple[Any, ...]:
    return tuple(getattr(conditions, name) for name in _NAMES)


def _joined_ports(ports: Ports | None) -> Ports | None:
    """Return ranges as few as possible, sorted; None for all ports. Port 0 is no port."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ports) if ports is not None else ():
        first, last = max(low, _ALL_PORTS[0]), min(high, _ALL_PORTS[1])
        if first > last:
            continue
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return None if ports is None or found == [_ALL_PORTS] else tuple(found)


def _common_ports(own: Ports, other: Ports) -> Ports:
    pairs = ((max(a, c), min(b, d)) for a, b in own for c, d in other)
    return tuple((low, high) for low, high in pairs if low <= high)


def _in_ports(port: int, ports: Ports | None) -> bool:
    return ports is None or any(low <= port <= high for low, high in ports)


def _joined_networks(networks: Networks) -> Networks | None:
    if len(networks) < 2:
        return networks
    found: Networks = (
        *collapse_addresses(each for each in networks if isinstance(each, IPv4Network)),
        *collapse_addresses(each for each in networks if isinstance(each, IPv6Network)),
    )
    return None if found == _ALL_ADDRESSES else found


def _common_networks(own: Networks, other: Networks) -> Networks:
    found: list[Network] = []
    for a in own:
        for b in other:
            if a.version == b.version:
                small, large = (a, b) if a.prefixlen >= b.prefixlen else (b, a)
                if small.network_address in large:
                    found.append(small)
    return tuple(found)


def _format_network(network: Network) -> str:
    whole = network.prefixlen == network.max_prefixlen
    return str(network.network_address if whole else network)


def _format_ports(ports: Ports | None) -> list[str | int] | None:
    if ports is None:
        return None
    return [low if low == high else f"{low}-{high}" for low, high in ports]
