"""The packets that a class matches, and the packets that a scenario sends.

A class matches a set of packets and receives those that no earlier class matches. The set of a
rule is the product of one set per packet property, so it contains another if each of its factors
does. A match is a list of rules, of which the first that applies to a packet decides.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from math import inf
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from perhop.ranges import Ranges, common, joined, overlap
from perhop.scenario.model.encapsulation import CLASS_KEYS
from perhop.scenario.model.matching import match_rules
from perhop.scenario.model.metrics import RELIABLE
from perhop.scenario.model.names import EVERY_ADDRESS, prefixes_of
from perhop.scenario.model.quantities import EPHEMERAL_PORTS, USUAL_TTL
from perhop.scenario.model.tunnels import COPY
from perhop.scenario.resolve.elements import classes, markings, polices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from ipaddress import IPv4Address, IPv6Address

    from perhop.scenario.model.matching import Match, Matching
    from perhop.scenario.model.names import IpVersion
    from perhop.scenario.model.traffic import Flow, Ping
    from perhop.scenario.resolve.scenario import ResolvedScenario

    Address = IPv4Address | IPv6Address

_joined = lru_cache(maxsize=64)(joined)

ALL_DSCPS = frozenset(range(64))
ROUTER_ERRORS = 48
"""CS6: the code point of the ICMP errors that routers send (RFC 1812, section 4.3.2.5)."""
HOST_ERRORS = 0
"""The code point of the ICMP errors that hosts send (RFC 1122, section 3.2.2)."""
WITH_PORTS = frozenset({"tcp", "udp"})
_SHIFTS: Final = (8, 16, 24)
"""Bits that are left out of addresses by which sets of packets are grouped."""
_MOST_BLOCKS: Final = 256
"""The most groups of addresses that a set of packets is listed in."""
_NAMELESS: Final = "other"
"""Stands for all protocols that matches have no name for."""
EVERYWHERE: Ranges = ((0, 2**32 + 2**128 - 1),)


class LinkClass(NamedTuple):
    """The class at layer 2 with which a packet arrives."""

    key: Literal["pcp", "mpls_tc"]
    value: int


def _link_classes(match: Match) -> frozenset[LinkClass | None] | None:
    if match.pcp is None and match.mpls_tc is None:
        return None
    return frozenset(
        LinkClass(key, value) for key in CLASS_KEYS.values() for value in getattr(match, key) or ()
    )


@dataclass(frozen=True, slots=True)
class Packets:
    """The packets that meet some conditions: those with each property in its set.

    Attributes:
        dscps: Code points.
        protocols: Names of protocols; None for all, including those without a name.
        either: Source or destination ports; None for all.
        sources: Source ports; None for all.
        destinations: Destination ports; None for all.
        origins: Source addresses.
        goals: Destination addresses.
        link_classes: Classes at layer 2: keys of matches and values, None for no tag or label; the
            whole attribute None for all.
    """

    dscps: frozenset[int]
    protocols: frozenset[str] | None
    either: Ranges | None
    sources: Ranges | None
    destinations: Ranges | None
    origins: Ranges
    goals: Ranges
    link_classes: frozenset[LinkClass | None] | None = None

    @classmethod
    def of(cls, match: Match, addresses: Mapping[str, Sequence[Address]]) -> Packets:
        """Return the packets that meet `match` if nodes have `addresses`."""

        def ranges(ends: tuple[str | IPv4Network | IPv6Network, ...] | None) -> Ranges:
            found = EVERYWHERE
            if ends is not None:
                found = tuple(map(addresses_of, prefixes_of(ends, addresses)))
            if match.ip is None:
                return found
            return common(joined(found), joined(addresses_of(EVERY_ADDRESS[ip]) for ip in match.ip))

        protocols = None if match.protocol is None else frozenset[str](match.protocol)
        if (match.port, match.source_port, match.destination_port) != (None, None, None):
            protocols = WITH_PORTS if protocols is None else protocols & WITH_PORTS
        return cls(
            ALL_DSCPS if match.dscp is None else frozenset(match.dscp),
            protocols,
            match.port,
            match.source_port,
            match.destination_port,
            ranges(match.source),
            ranges(match.destination),
            _link_classes(match),
        )

    def contains(self, other: Packets) -> bool:
        """Return whether every packet of `other` is in this set."""
        return (
            other.dscps <= self.dscps
            and (
                self.protocols is None
                or (other.protocols is not None and other.protocols <= self.protocols)
            )
            and (
                self.either is None
                or any(
                    _within(ports, self.either)
                    for ports in (other.either, other.sources, other.destinations)
                )
            )
            and (self.sources is None or _within(other.sources, self.sources))
            and (self.destinations is None or _within(other.destinations, self.destinations))
            and _within(other.origins, self.origins)
            and _within(other.goals, self.goals)
            and (
                self.link_classes is None
                or (other.link_classes is not None and other.link_classes <= self.link_classes)
            )
        )

    def handles(self) -> Iterator[object]:
        """Yield the values of one property that these packets can have; None if they are many.

        This set can contain another one only if one of these values is among the other's `samples`.
        """
        for name, ranges in (
            ("destinations", self.destinations),
            ("sources", self.sources),
            ("either", self.either),
            ("origins", self.origins),
            ("goals", self.goals),
        ):
            if ranges is not None and all(first == last for first, last in ranges):
                yield from {(name, first) for first, _ in ranges}
                return
        for name, ranges in (("origins", self.origins), ("goals", self.goals)):
            for shift in _SHIFTS:
                blocks = [(first >> shift, last >> shift) for first, last in ranges]
                if sum(last - first + 1 for first, last in blocks) <= _MOST_BLOCKS:
                    found = {block for first, last in blocks for block in range(first, last + 1)}
                    yield from ((name, shift, block) for block in found)
                    return
        yield None

    def samples(self) -> Iterator[object]:
        """Yield for each property a value of one of these packets, in the form of `handles`."""
        yield None
        for name, ranges in (
            ("destinations", self.destinations),
            ("sources", self.sources),
            ("origins", self.origins),
            ("goals", self.goals),
        ):
            if ranges:
                yield name, ranges[0][0]
        for name, ranges in (("origins", self.origins), ("goals", self.goals)):
            for shift in _SHIFTS if ranges else ():
                yield name, shift, ranges[0][0] >> shift
        either = (self.either, self.sources, self.destinations)
        yield from {("either", ranges[0][0]) for ranges in either if ranges}

    def meets(self, other: Packets) -> bool:
        """Return whether a packet of `other`, which has no `either`, may be in this set."""
        return (
            not self.dscps.isdisjoint(other.dscps)
            and (
                self.protocols is None
                or other.protocols is None
                or not self.protocols.isdisjoint(other.protocols)
            )
            and (
                self.either is None
                or _overlap(self.either, other.sources)
                or _overlap(self.either, other.destinations)
            )
            and _overlap(self.sources, other.sources)
            and _overlap(self.destinations, other.destinations)
            and _overlap(self.origins, other.origins)
            and _overlap(self.goals, other.goals)
            and (
                self.link_classes is None
                or other.link_classes is None
                or not self.link_classes.isdisjoint(other.link_classes)
            )
        )

    def disjoint(self, other: Packets) -> bool:
        """Return whether no packet is in both sets, as far as one property tells."""
        return (
            self.dscps.isdisjoint(other.dscps)
            or (
                self.protocols is not None
                and other.protocols is not None
                and self.protocols.isdisjoint(other.protocols)
            )
            or (
                self.link_classes is not None
                and other.link_classes is not None
                and self.link_classes.isdisjoint(other.link_classes)
            )
            or any(
                own is not None and others is not None and not _overlap(own, others)
                for own, others in (
                    (self.sources, other.sources),
                    (self.destinations, other.destinations),
                    (self.origins, other.origins),
                    (self.goals, other.goals),
                )
            )
        )


@dataclass(frozen=True, slots=True)
class Selection:
    """The packets that a match selects.

    Attributes:
        rules: For each rule, whether it permits, and the packets to which it applies.
    """

    rules: tuple[tuple[bool, Packets], ...]

    @classmethod
    def of(cls, match: Matching, addresses: Mapping[str, Sequence[Address]]) -> Selection:
        """Return the packets that `match` selects if nodes have `addresses`."""
        rules = match_rules(match)
        return cls(tuple((rule.permit, Packets.of(rule.conditions, addresses)) for rule in rules))

    def permitted(self) -> Iterator[tuple[int, Packets]]:
        """Yield the index and the packets of each rule that permits some, as far as known.

        A rule whose packets an earlier one excludes permits none.
        """
        # By a value that packets must have to be among those, so that few need to be compared.
        excluded: dict[object, list[Packets]] = {}
        for index, (permit, packets) in enumerate(self.rules):
            if not permit:
                for handle in packets.handles():
                    excluded.setdefault(handle, []).append(packets)
                continue
            near = (excluded.get(sample, ()) for sample in packets.samples())
            if not any(each.contains(packets) for group in near for each in group):
                yield index, packets

    def takes(self, index: int, packets: Packets) -> bool:
        """Return whether a rule takes all of `packets`, none of which an earlier one excludes."""
        return self.rules[index][1].contains(packets) and all(
            permit or excluded.disjoint(packets) for permit, excluded in self.rules[:index]
        )

    def meets(self, packets: Packets) -> bool:
        """Return whether a packet of `packets`, which has no `either`, may be selected."""
        for permit, of_rule in self.rules:
            if permit and of_rule.meets(packets):
                return True
            if not permit and of_rule.contains(packets):
                return False
        return False


def sent(scenario: ResolvedScenario) -> list[Packets]:
    """Return the packets of flows and pings: data, acknowledgements, requests and replies.

    In tunnels there are outer packets, too. If a rule, class or policer marks, a packet may have
    its own code point or any new one. Of the classes at layer 2 it may have all that links carry.
    """
    addresses: dict[IpVersion, Mapping[str, Address]]
    addresses = {4: scenario.addresses, 6: scenario.addresses_v6}
    marks: set[int] = {rule.dscp for _, rules in markings(scenario) for rule in rules}
    new = [class_.dscp_mark for _, _, class_ in classes(scenario)]
    for _, _, police in polices(scenario):
        new += [action.remark for action in police.actions]
    marks |= {dscp for dscp in new if dscp is not None}

    kinds = {link.encapsulation.kind for link in scenario.links if link.encapsulation is not None}
    tags = (LinkClass(CLASS_KEYS[kind], value) for kind in kinds for value in range(8))
    link_classes = frozenset([None, *tags])

    def packets(
        ip: IpVersion, dscp: int, protocol: str, way: tuple[str, str], ports: _PortPair
    ) -> Packets:
        own = addresses[ip]
        origins, goals = (
            (addresses_of(ip_network(own[node]) if node in own else EVERY_ADDRESS[ip]),)
            for node in way
        )
        dscps = frozenset({dscp, *marks})
        return Packets(dscps, frozenset({protocol}), None, *ports, origins, goals, link_classes)

    found: dict[Packets, None] = {}
    for name, flow in scenario.flows.items():
        there, back = (flow.source, flow.destination), (flow.destination, flow.source)
        port = scenario.port_of(name)
        own, peer = (flow.source_ports or EPHEMERAL_PORTS,), ((port, port),)
        if flow.applications:
            own, peer = peer, own  # the port is that of the server, the flow's source
        ip, protocol = scenario.ip_of(flow), "udp" if flow.tcp is None else "tcp"
        found[packets(ip, flow.dscp, protocol, there, (own, peer))] = None
        if flow.kind in RELIABLE:
            found[packets(ip, flow.dscp, protocol, back, (peer, own))] = None
    for ping in scenario.pings.values():
        ip = scenario.ip_of(ping)
        there, back = (ping.source, ping.destination), (ping.destination, ping.source)
        if ping.effective_port is None:
            found[packets(ip, ping.dscp, "icmp", there, (None, None))] = None
            found[packets(ip, ping.dscp, "icmp", back, (None, None))] = None
        else:
            ports = ((EPHEMERAL_PORTS,), ((ping.effective_port,) * 2,))
            found[packets(ip, ping.dscp, "udp", there, ports)] = None
            found[packets(ip, HOST_ERRORS, "icmp", back, (None, None))] = None
        if ping.ttl[0] < USUAL_TTL:
            found[packets(ip, ROUTER_ERRORS, "icmp", ("", ping.source), (None, None))] = None
    narrow = bool(scenario.tunnels) or any(link.mtu is not None for link in scenario.links)
    if narrow or any(change.state == "down" for change in scenario.changes):
        senders: list[Flow | Ping] = [*scenario.flows.values(), *scenario.pings.values()]
        ends = {
            (scenario.ip_of(sender), end)
            for sender in senders
            for end in (sender.source, sender.destination)
        }
        for ip, end in sorted(ends):
            found[packets(ip, ROUTER_ERRORS, "icmp", ("", end), (None, None))] = None
    inner = {dscp for one in found for dscp in one.dscps}
    for tunnel in scenario.tunnels.values():
        headers, dscp = tunnel.headers, tunnel.outer_dscp
        kind: str = _NAMELESS
        numbers: _PortPair = (None, None)
        if headers.port is not None:
            own = ((headers.port, headers.port),)
            kind, numbers = "udp", ((EPHEMERAL_PORTS,) if headers.hashed else own, own)
        for way in (tunnel.ends, tunnel.ends[::-1]):
            for outer in sorted(inner) if dscp == COPY else [dscp]:
                found[packets(4, outer, kind, way, numbers)] = None
    return list(found)


class Index:
    """Sets of packets by ports and addresses, so that a match is compared with few of them."""

    def __init__(self, packets: Iterable[Packets]) -> None:
        """Index sets of packets that have no `either`."""
        self._all = tuple(packets)
        single: dict[str, dict[int, list[Packets]]] = {name: {} for name in _SIDES}
        self._wide: dict[str, dict[Ranges, list[Packets]]] = {name: {} for name in _SIDES}
        for packet in self._all:
            for name in _SIDES:
                ranges: Ranges | None = getattr(packet, name)
                if ranges is None:
                    continue  # it meets no condition on this
                if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
                    single[name].setdefault(ranges[0][0], []).append(packet)
                else:
                    self._wide[name].setdefault(ranges, []).append(packet)
        self._numbers = {name: sorted(groups) for name, groups in single.items()}
        self._groups = {
            name: [single[name][number] for number in numbers]
            for name, numbers in self._numbers.items()
        }

    def any_of(self, selection: Selection) -> bool:
        """Return whether some of the packets may be selected."""
        return any(
            selection.meets(packets)
            for permit, of_rule in selection.rules
            if permit
            for packets in self._met(of_rule)
        )

    def _met(self, match: Packets) -> Iterator[Packets]:
        """Yield the packets that may be among those of `match`."""
        near = [self._near((name,), getattr(match, name)) for name in _SIDES]
        near.append(self._near(("sources", "destinations"), match.either))
        fewest = min((groups for groups in near if groups is not None), key=_count, default=None)
        groups = [self._all] if fewest is None else fewest
        return (packets for group in groups for packets in group if match.meets(packets))

    def _near(
        self, sides: tuple[str, ...], ranges: Ranges | None
    ) -> list[Sequence[Packets]] | None:
        """The packets of which one side has a number in some ranges; None without a condition."""
        if ranges is None or ranges == EVERYWHERE:
            return None
        found: list[Sequence[Packets]] = []
        for side in sides:
            numbers, groups = self._numbers[side], self._groups[side]
            for first, last in ranges:
                found += groups[bisect_left(numbers, first) : bisect_right(numbers, last)]
            found += [some for wide, some in self._wide[side].items() if _overlap(ranges, wide)]
        return found


_SIDES: Final = ("sources", "destinations", "origins", "goals")


def _count(groups: list[Sequence[Packets]]) -> int:
    return sum(map(len, groups))


_PortPair = tuple[Ranges | None, Ranges | None]


def addresses_of(network: IPv4Network | IPv6Network) -> tuple[int, int]:
    """Return the first and last number of a prefix; IPv6 addresses follow those of IPv4."""
    base = 0 if network.version == 4 else 2**32
    return base + int(network.network_address), base + int(network.broadcast_address)


def _within(inner: Ranges | None, outer: Ranges) -> bool:
    """Return whether `outer` contains all numbers of `inner`."""
    if inner is None:
        return False
    whole = _joined(outer)
    places = ((bisect_right(whole, (first, inf)) - 1, last) for first, last in inner)
    return all(place >= 0 and last <= whole[place][1] for place, last in places)


def _overlap(some: Ranges | None, others: Ranges | None) -> bool:
    """Return whether packets with ports `others` may meet a condition on ports, None for none.

    Packets without ports (None) meet no condition on ports.
    """
    if some is None:
        return True
    return others is not None and overlap(some, others)
