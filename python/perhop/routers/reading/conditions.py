"""Conditions on packets, as access lists and filters state them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, collapse_addresses
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perhop.ranges import common, joined, overlap
from perhop.scenario.model.dscp import format_dscp

if TYPE_CHECKING:
    from collections.abc import Callable

Network = IPv4Network | IPv6Network
Networks = tuple[Network, ...]
Ports = tuple[tuple[int, int], ...]
"""Ranges of ports: the first and the last one."""

WITH_PORTS: Final = frozenset({"tcp", "udp"})
"""The protocols with ports."""

PROTOCOLS: Final = {
    "tcp": "tcp",
    "6": "tcp",
    "udp": "udp",
    "17": "udp",
    "icmp": "icmp",
    "1": "icmp",
}
"""The protocols that scenarios have, by name and number."""

_NO_ADDRESS: Final = IPv4Address(0)
_ALL_DSCPS: Final = frozenset(range(64))
_ALL_PORTS: Final = (1, 65535)
ALL_ADDRESSES: Final = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))
_NOTHING: Final = (None,) * 8
_IPV6: Final = 2**32
"""The first number of IPv6 addresses, after those of IPv4."""


@dataclass(frozen=True, slots=True)
class Packet:
    """The properties of a packet that conditions look at; protocols without ports have 0.

    A packet has a VLAN tag with a priority code point, or an MPLS label with a traffic class, or
    neither.
    """

    dscp: int = 0
    protocol: str = "tcp"
    source: IPv4Address | IPv6Address = _NO_ADDRESS
    destination: IPv4Address | IPv6Address = _NO_ADDRESS
    source_port: int = 0
    destination_port: int = 0
    pcp: int | None = None
    mpls_tc: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
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
        pcp: Priority code points of VLAN tags, or None.
        mpls_tc: Traffic classes of MPLS labels, or None.
    """

    dscp: frozenset[int] | None = None
    protocols: frozenset[str] | None = None
    source: Networks | None = None
    destination: Networks | None = None
    source_ports: Ports | None = None
    destination_ports: Ports | None = None
    pcp: frozenset[int] | None = None
    mpls_tc: frozenset[int] | None = None

    key: tuple[Any, ...] = field(init=False, repr=False)
    """The values in the order above, addresses as ranges of numbers."""
    is_never: bool = field(init=False, repr=False)
    """True if no packet can meet the conditions."""

    def __post_init__(self) -> None:
        """Normalise the values."""
        put = object.__setattr__
        if self.dscp is not None and self.dscp >= _ALL_DSCPS:
            put(self, "dscp", None)
        if self.source_ports is not None or self.destination_ports is not None:
            known = self.protocols
            if known is None or not known <= WITH_PORTS:
                put(self, "protocols", WITH_PORTS if known is None else known & WITH_PORTS)
            put(self, "source_ports", _joined_ports(self.source_ports))
            put(self, "destination_ports", _joined_ports(self.destination_ports))
        if self.source is not None:
            put(self, "source", _joined_networks(self.source))
        if self.destination is not None:
            put(self, "destination", _joined_networks(self.destination))
        source, destination = _numbers(self.source), _numbers(self.destination)
        key = (
            self.dscp,
            self.protocols,
            source,
            destination,
            self.source_ports,
            self.destination_ports,
            self.pcp,
            self.mpls_tc,
        )
        put(self, "key", key)
        never = any(value is not None and not value for value in key)
        never = never or (self.pcp is not None and self.mpls_tc is not None)
        if source and destination:
            never = never or _versions(source).isdisjoint(_versions(destination))
        put(self, "is_never", never)

    def __eq__(self, other: object) -> bool:
        """Return whether the conditions are the same."""
        return isinstance(other, Conditions) and self.key == other.key

    def __hash__(self) -> int:
        """Return a hash of the values."""
        return hash(self.key)

    @property
    def is_any(self) -> bool:
        """True if every packet meets the conditions."""
        return self.key == _NOTHING

    def __and__(self, other: Conditions) -> Conditions:
        """Return the conditions of both."""
        if other.key == _NOTHING:
            return self
        if self.key == _NOTHING:
            return other
        return Conditions(
            _both(self.dscp, other.dscp, frozenset.__and__),
            _both(self.protocols, other.protocols, frozenset.__and__),
            _both(self.source, other.source, _common_networks),
            _both(self.destination, other.destination, _common_networks),
            _both(self.source_ports, other.source_ports, common),
            _both(self.destination_ports, other.destination_ports, common),
            _both(self.pcp, other.pcp, frozenset.__and__),
            _both(self.mpls_tc, other.mpls_tc, frozenset.__and__),
        )

    def contains(self, other: Conditions) -> bool:
        """Return whether each packet that meets `other` meets these conditions, as far as told."""
        dscp, protocols, source, destination, source_ports, destination_ports, *link = self.key
        values = other.key
        return (
            (source is None or (values[2] is not None and _within(values[2], source)))
            and (destination is None or (values[3] is not None and _within(values[3], destination)))
            and (
                destination_ports is None
                or (values[5] is not None and _within(values[5], destination_ports))
            )
            and (
                source_ports is None or (values[4] is not None and _within(values[4], source_ports))
            )
            and (dscp is None or (values[0] is not None and values[0] <= dscp))
            and (protocols is None or (values[1] is not None and values[1] <= protocols))
            and all(
                own is None or (other_ is not None and other_ <= own)
                for own, other_ in zip(link, values[6:], strict=True)
            )
        )

    def disjoint(self, other: Conditions) -> bool:
        """Return whether no packet can meet both, as far as told."""
        for own, values in zip(self.key, other.key, strict=True):
            if own is None or values is None:
                continue
            if own.isdisjoint(values) if type(own) is frozenset else not overlap(own, values):
                return True
        return (self.pcp is not None and other.mpls_tc is not None) or (
            self.mpls_tc is not None and other.pcp is not None
        )

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
            and (self.pcp is None or packet.pcp in self.pcp)
            and (self.mpls_tc is None or packet.mpls_tc in self.mpls_tc)
        )

    def written(self) -> str | dict[str, Any]:
        """Return the conditions as a scenario states them: ``any``, or a mapping."""
        protocols = self.protocols
        if self.source_ports is not None or self.destination_ports is not None:
            protocols = None if protocols == WITH_PORTS else protocols
        found: dict[str, Any] = {}
        source, destination, version = self._ends()
        for key, values in (
            ("dscp", None if self.dscp is None else map(format_dscp, sorted(self.dscp))),
            ("ip", None if version is None else [version]),
            ("protocol", None if protocols is None else sorted(protocols)),
            ("source", None if source is None else map(_format_network, source)),
            ("destination", None if destination is None else map(_format_network, destination)),
            ("source_port", _format_ports(self.source_ports)),
            ("destination_port", _format_ports(self.destination_ports)),
            ("pcp", None if self.pcp is None else sorted(self.pcp)),
            ("mpls_tc", None if self.mpls_tc is None else sorted(self.mpls_tc)),
        ):
            if values is not None:
                some = list(values)
                found[key] = some[0] if len(some) == 1 else some
        return found or "any"

    def _ends(self) -> tuple[Networks | None, Networks | None, int | None]:
        """Return source, destination, and a version of IP in place of all addresses of it."""
        source, destination = self.source, self.destination
        for every in ALL_ADDRESSES:
            if (every,) in (source, destination):
                source, destination = (
                    None if end == (every,) else end for end in (source, destination)
                )
                others = (*(source or ()), *(destination or ()))
                told = others and all(each.version == every.version for each in others)
                return source, destination, None if told else every.version
        return source, destination, None


_T = TypeVar("_T")


def _both(own: _T | None, other: _T | None, common: Callable[[_T, _T], _T]) -> _T | None:
    if own is None or other is None:
        return other if own is None else own
    return common(own, other)


@lru_cache(maxsize=4096)
def _numbers(networks: Networks | None) -> Ports | None:
    """Return prefixes as ranges of numbers, as few as possible."""
    if networks is None:
        return None
    found: list[tuple[int, int]] = []
    for network in networks:
        first = int(network.network_address) + (_IPV6 if network.version == 6 else 0)
        last = first + (1 << (network.max_prefixlen - network.prefixlen)) - 1
        if found and first == found[-1][1] + 1 != _IPV6:
            found[-1] = found[-1][0], last
        else:
            found.append((first, last))
    return tuple(found)


def _versions(addresses: Ports) -> set[bool]:
    """Return for each version of IP that ranges are of whether it is IPv4."""
    return {first < _IPV6 for first, _ in addresses}


def _within(inner: Ports, outer: Ports) -> bool:
    """Return whether each range is in one of the others."""
    if len(inner) == 1 == len(outer):
        return outer[0][0] <= inner[0][0] and inner[0][1] <= outer[0][1]
    return all(any(low <= first and last <= high for low, high in outer) for first, last in inner)


def _joined_ports(ports: Ports | None) -> Ports | None:
    """Return ranges as few as possible, sorted; None for all ports. Port 0 is no port."""
    if ports is None:
        return None
    found = common(joined(ports), (_ALL_PORTS,))
    return None if found == (_ALL_PORTS,) else found


def _in_ports(port: int, ports: Ports | None) -> bool:
    return ports is None or any(low <= port <= high for low, high in ports)


def _joined_networks(networks: Networks) -> Networks | None:
    if len(networks) < 2:
        return networks
    found: Networks = (
        *collapse_addresses(each for each in networks if isinstance(each, IPv4Network)),
        *collapse_addresses(each for each in networks if isinstance(each, IPv6Network)),
    )
    return None if found == ALL_ADDRESSES else found


def _common_networks(own: Networks, other: Networks) -> Networks:
    found: list[Network] = []
    for a in own:
        for b in other:
            if a.version == b.version:
                small, large = (a, b) if a.prefixlen >= b.prefixlen else (b, a)
                if small.network_address in large:
                    found.append(small)
    return tuple(found)


@lru_cache(maxsize=4096)
def _format_network(network: Network) -> str:
    whole = network.prefixlen == network.max_prefixlen
    return str(network.network_address if whole else network)


def _format_ports(ports: Ports | None) -> list[str | int] | None:
    if ports is None:
        return None
    return [low if low == high else f"{low}-{high}" for low, high in ports]


OF_VERSION: Final[dict[int, Conditions]] = {
    every.version: Conditions(source=(every,)) for every in ALL_ADDRESSES
}
"""All packets of a version of IP, by its number."""
