"""Paths, as routes of Linux: the same as perhop's own network takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perhop.scenario import Scenario
    from perhop.scenario.model.names import IpVersion
    from perhop.scenario.resolve import NextHops

__all__ = ["FIRST_MARK", "IPV6", "Routes", "per_packet_groups", "routed_versions"]

FIRST_MARK: Final = 0x100
"""Mark of the first next hop of the first group, and number of its routing table."""

IPV6: Final = "-6 "
"""The start of commands of ip about IPv6."""

_SEED: Final = 0x9E3779B9
_FLUSH: Final[dict[IpVersion, str]] = {
    4: "route flush scope global table main",
    6: f"{IPV6}route flush proto boot table main",
}


def routed_versions(scenario: Scenario) -> tuple[IpVersion, ...]:
    """Return the versions of IP that nodes have addresses and routes of: always 4."""
    return (4, 6) if 6 in scenario.ip_versions else (4,)


def per_packet_groups(
    scenario: Scenario, node: str, found: NextHops
) -> list[tuple[tuple[str, ...], list[str]]]:
    """Return groups of next hops of a node that balances per packet, with their destinations."""
    if scenario.nodes[node].balance != "per-packet":
        return []
    groups: dict[tuple[str, ...], list[str]] = {}
    for destination, directions in found[node].items():
        if len(directions) > 1:
            groups.setdefault(directions, []).append(destination)
    return list(groups.items())


class Routes:
    """Writes nodes' routes.

    The next hop's address is its node's, on every link. With per-packet load balancing, a mark
    chooses the routing table (see `rules`). IPv6 has the same routes if there is traffic of it.
    """

    def __init__(self, scenario: Scenario, devices: Mapping[str, str]) -> None:
        """Take the network, and the name of the interface for each direction."""
        self._scenario = scenario
        self._numbers = {node: number for number, node in enumerate(scenario.nodes, 1)}
        self._devices = devices

    def lines(self, node: str, found: NextHops) -> list[str]:
        """Return a node's routes as lines of ip, without the leading `ip`."""
        versions = routed_versions(self._scenario)
        return [line for version in versions for line in self._lines(node, found, version)]

    def replacement(self, node: str, before: NextHops, found: NextHops) -> list[str]:
        """Return lines of ip that replace a node's routes by those of `found`."""
        lines = []
        for version in routed_versions(self._scenario):
            rules = (line for line in self._lines(node, before, version) if "rule add" in line)
            lines.append(_FLUSH[version])
            lines += [line.replace("rule add", "rule del") for line in rules]
            lines += self._lines(node, found, version)
        return lines

    def _lines(self, node: str, found: NextHops, version: IpVersion) -> Iterator[str]:
        addresses = self._scenario.addresses_in(version)
        hops = {
            name: f"via {addresses[link.other(sender)]} dev {self._devices[name]} onlink"
            for name, (link, sender) in self._scenario.directions.items()
        }
        in_turn = self._scenario.nodes[node].balance == "per-packet"
        start = IPV6 if version == 6 else ""
        for destination, names in found[node].items():
            address = addresses[destination]
            to = f"{address}/{address.max_prefixlen}"
            if len(names) == 1 or in_turn:
                yield f"{start}route replace {to} {hops[names[0]]}"
            else:
                several = " ".join(f"nexthop {hops[name]} weight 1" for name in names)
                yield f"{start}route replace {to} {several}"
        mark = FIRST_MARK
        for names, _ in per_packet_groups(self._scenario, node, found):
            for name in names:
                yield f"{start}route replace default {hops[name]} table {mark}"
                yield f"{start}rule add fwmark {mark:#x} lookup {mark} priority {mark}"
                mark += 1

    def sysctls(self, node: str, found: NextHops) -> dict[str, str]:
        """Return the settings of a node that go with its routes."""
        if all(len(names) == 1 for names in found[node].values()):
            return {}
        # Of two routers with the same seed, the second would send all packets to one next hop.
        sysctls = {"net.ipv4.fib_multipath_hash_seed": str(_SEED * self._numbers[node] % 2**32)}
        for version in routed_versions(self._scenario):
            key = f"net.ipv{version}.fib_multipath_hash"
            if self._scenario.nodes[node].balance == "per-destination":
                sysctls[f"{key}_fields"] = "0x0002"  # the destination's address
                sysctls[f"{key}_policy"] = "3"
            else:
                sysctls[f"{key}_policy"] = "1"
        return sysctls
