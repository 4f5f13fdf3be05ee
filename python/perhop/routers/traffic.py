"""Traffic for the classes of a policy: flows and pings that offer more than a link carries."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any, Final

from perhop.ranges import common, difference, joined
from perhop.routers.headers import DESTINATION, DSCP, PORT, SOURCE, SOURCE_PORT, number_of
from perhop.scenario import EPHEMERAL_PORTS, format_dscp
from perhop.units import format_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perhop.ranges import Ranges
    from perhop.routers.headers import ClassPath, Headers
    from perhop.scenario.model.names import IpVersion

__all__ = [
    "FIRST_PORT",
    "FULL_BITS",
    "RECEIVERS",
    "SENDERS",
    "Traffic",
    "groups",
    "is_strict",
    "phase_ps",
]

FULL_BITS: Final = 12_000
"""The bits of a full packet of 1500 bytes."""

SENDERS: Final = (IPv4Address("198.18.0.1"), IPv6Address("2001:2::1"))
RECEIVERS: Final = (IPv4Address("198.19.0.1"), IPv6Address("2001:2:0:1::1"))
"""Addresses of the hosts where a class does not need others: of the networks for measurements (RFC
2544, appendix C.2.2; RFC 5180, section 8)."""

FIRST_PORT: Final = 5001
"""The destination port of the first flow whose class does not need another."""

OFFERED: Final = 1.1
"""The rate of a flow over UDP, in parts of the link's capacity."""

STREAMS: Final = 4
"""The connections of a flow over TCP: a single one may leave a short queue empty."""

_ALL_TAKEN: Final = "flows of other classes have all addresses and ports of its packets"
_BOTH_ENDS: Final = "its packets need an address of a host at the other end of the link"
"""The reasons why a class has no flow although it has packets."""

MOST_PHASES: Final = 5
"""The most phases; if there are more strict classes, they all start in the second one."""

FEW_PACKETS, MANY_PACKETS, MOST_PACKETS = 50_000, 200_000, 4_200_000
"""The full packets that a link carries in a phase: so many that classes with a small share settle;
up to `MANY_PACKETS` for a phase of `LONG_S`, and up to `MOST_PACKETS` for one of `SHORT_S`."""

SHORT_S, LONG_S = 0.5, 2.0
"""The length of a phase in seconds in which TCP recovers from a timeout, and from several."""

_STEPS_S: Final = tuple(step * 10.0**power for power in range(-12, 8) for step in (1, 2, 5))
"""The lengths of phases in seconds."""


Address = IPv4Address | IPv6Address

Hosts = dict[str, "dict[IpVersion, Address]"]
"""The addresses of hosts, by name and version of the internet protocol."""


@dataclass(slots=True)
class Traffic:
    """Flows and pings between hosts around a policy.

    Attributes:
        flows: The flows by name, as scenarios state them.
        pings: The pings by name.
        hosts: The addresses of sending hosts by name, and those of receiving hosts.
        reserved: The numbers of addresses that some class needs in a sender, and in a receiver.
    """

    flows: dict[str, dict[str, Any]] = field(default_factory=dict)
    pings: dict[str, dict[str, Any]] = field(default_factory=dict)
    hosts: tuple[Hosts, Hosts] = field(default_factory=lambda: ({}, {}))
    reserved: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))

    def reserve(self, every: Iterable[Headers | None]) -> None:
        """Keep addresses that packets to come cannot do without from hosts at the other end."""
        for chosen in every:
            for index, numbers in zip((SOURCE, DESTINATION), self.reserved, strict=True):
                if chosen is not None:
                    (first, last), *others = chosen.box[index]
                    numbers |= {first} if first == last and not others else set()

    def add(self, name: str, chosen: Headers, *, strict: bool, capacity: int) -> str:
        """Add a flow or ping of packets with some headers, which offers more than a capacity.

        Args:
            name: Its name.
            chosen: The headers.
            strict: Prefer UDP, as the class is served before others.
            capacity: The capacity in bit/s.

        Returns:
            Why there is none, as other flows have the addresses or ports of these headers; "" if
            there is one.
        """
        dscp = chosen.first(DSCP, [0])
        sender: dict[str, Any] = {"ip": 6} if chosen.version == 6 else {}
        sender |= {"dscp": format_dscp(dscp)} if dscp else {}
        protocols = chosen.protocols
        addresses = self._addresses(chosen)
        if addresses is None:
            return _BOTH_ENDS
        if protocols == ["icmp"]:
            ends = self._ends(addresses)
            self.pings[name] = ends | sender | {"every": "10 ms", "size": "1400 B"}
            return ""
        sender["port"] = self._port(chosen)
        few = max(last - first for first, last in chosen.box[SOURCE_PORT]) + 1 < STREAMS
        if "udp" in protocols and (strict or few or "tcp" not in protocols):
            sender["udp"] = {"rate": format_rate(max(round(OFFERED * capacity), 1))}
        else:
            sender["streams"] = STREAMS
        while (placed := self._placed(chosen, sender, addresses)) is None:
            left = difference(chosen.box[SOURCE], _each([number_of(addresses[0])]))
            chosen = chosen.with_values(SOURCE, left)
            addresses = self._addresses(chosen)
            if addresses is None:
                return _ALL_TAKEN
        self.flows[name] = self._ends(addresses) | sender | placed
        return ""

    def _port(self, chosen: Headers) -> int:
        """Return a destination port, if possible one that no other flow has."""
        ports = {flow["port"] for flow in self.flows.values()}
        preferred = range(FIRST_PORT, FIRST_PORT + len(ports) + 1)
        port = chosen.first(PORT, (each for each in preferred if each not in ports))
        if port in ports:
            low, high = chosen.box[PORT][0]
            port = next((each for each in range(low, high + 1) if each not in ports), port)
        return port

    def _placed(
        self, chosen: Headers, sender: dict[str, Any], addresses: tuple[Address, Address]
    ) -> dict[str, Any] | None:
        """Return the source port and streams of a flow; None if other flows have all ports.

        A flow whose packets may have any port that hosts choose has no key `source_port`, unless
        its host would choose that of another one.
        """
        streams = sender.get("streams", 1)
        ranges = chosen.box[SOURCE_PORT]
        given = ranges != (EPHEMERAL_PORTS,)
        alike = (
            flow
            for flow in self.flows.values()
            if flow["port"] == sender["port"]
            and ("udp" in flow) == ("udp" in sender)
            and (given or "source_port" in flow)
            and flow.get("ip", 4) == chosen.version
            and self.hosts[0][flow["from"]][chosen.version] == addresses[0]
            and self.hosts[1][flow["to"]][chosen.version] == addresses[1]
        )
        taken = joined(map(_source_ports, alike))
        if not given and not common(
            ((EPHEMERAL_PORTS[0], EPHEMERAL_PORTS[0] + streams - 1),), taken
        ):
            return {}
        free = difference(ranges, taken)
        if not free:
            return None
        enough = (each for each in free if each[1] - each[0] + 1 >= streams)
        first, last = next(enough, max(free, key=lambda each: each[1] - each[0]))
        found = {"source_port": first}
        if "streams" in sender:
            found["streams"] = min(streams, last - first + 1)
        return found

    def sections(self) -> dict[str, dict[str, Any]]:
        """Return the sections `flows` and `pings` of a scenario."""
        return {key: found for key in ("flows", "pings") if (found := getattr(self, key))}

    def _addresses(self, chosen: Headers) -> tuple[Address, Address] | None:
        """Return the addresses of sender and receiver; None if hosts at other ends have them."""
        sender = self._address(chosen, 0, [])
        receiver = None if sender is None else self._address(chosen, 1, [sender])
        return None if sender is None or receiver is None else (sender, receiver)

    def _address(self, chosen: Headers, side: int, others: list[Address]) -> Address | None:
        """Return an address of a side that no host of the other one has, nor is to have."""
        index, usual = ((SOURCE, SENDERS), (DESTINATION, RECEIVERS))[side]
        known = [*others, *_all(self.hosts[1 - side])]
        left = difference(chosen.box[index], _each(map(number_of, known)))
        if not left:
            return None
        free = difference(left, _each(self.reserved[1 - side])) or left
        low = chosen.box[index][0][0]
        if free[0] == (low, low) != chosen.box[index][0]:  # often a network's own address
            free = free[1:] or free
        return chosen.with_values(index, free).address(index, [*usual, *_all(self.hosts[side])])

    def _ends(self, addresses: tuple[Address, Address]) -> dict[str, Any]:
        """Return the hosts with some addresses; new ones where no host has the address.

        A host has one address of each version.
        """
        ends = []
        for kind, address, known in zip(("sender", "receiver"), addresses, self.hosts, strict=True):
            version: IpVersion = 4 if address.version == 4 else 6
            own = (name for name, has in known.items() if address in has.values())
            free = (name for name, has in known.items() if version not in has)
            new = kind if not known else f"{kind}-{len(known) + 1}"
            name = next(own, None) or next(free, new)
            known.setdefault(name, {})[version] = address
            ends.append(name)
        return {"from": ends[0], "to": ends[1]}


def _all(hosts: Hosts) -> list[Address]:
    return [address for has in hosts.values() for address in has.values()]


def _each(numbers: Iterable[int]) -> Ranges:
    return joined((number, number) for number in numbers)


def _source_ports(flow: Mapping[str, Any]) -> tuple[int, int]:
    """Return the first and last source port of a flow."""
    first = flow.get("source_port", EPHEMERAL_PORTS[0])
    return first, first + flow.get("streams", 1) - 1


def groups(policy: dict[str, Any], paths: Iterable[ClassPath]) -> list[list[ClassPath]]:
    """Return the classes that start together: strict ones one by one, the first one last."""
    loose = [path for path in paths if not is_strict(policy, path)]
    strict = [path for path in paths if path not in loose]
    groups = [group for group in (loose, *([path] for path in reversed(strict))) if group]
    if len(groups) > MOST_PHASES:
        groups = [groups[0], [path for group in groups[1:] for path in group]]
    return groups


def phase_ps(capacity: int) -> int:
    """Return the length of a phase in picoseconds, at a capacity in bit/s."""
    packet_s = FULL_BITS / capacity
    wanted = max(FEW_PACKETS * packet_s, SHORT_S, min(LONG_S, MANY_PACKETS * packet_s))
    wanted = min(wanted, MOST_PACKETS * packet_s)
    return round(max(step for step in _STEPS_S if step <= 1.001 * wanted) * 10**12)


def is_strict(policy: Mapping[str, Any], path: ClassPath) -> bool:
    """Return whether a class, or a class that contains it, is served before others."""
    inside: Mapping[str, Any] = policy
    by_order = policy.get("scheduler") == "priority"
    for name in path:
        class_ = inside["classes"][name]
        last = name == list(inside["classes"])[-1]
        if class_.get("priority") == "strict" or (by_order and not last):
            return True
        inside = class_
    return False
