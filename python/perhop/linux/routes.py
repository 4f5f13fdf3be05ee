"""Paths, as routes of Linux: the same as perhop's own network takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop.scenario import Scenario
    from perhop.scenario.resolve import NextHops

__all__ = ["FIRST_MARK", "Routes", "per_packet_groups"]

FIRST_MARK: Final = 0x100
"""Mark of the first next hop of the first group, and number of its routing table."""

_SEED: Final = 0x9E3779B9


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
    chooses the routing table (see `rules`).
    """

    def __init__(self, scenario: Scenario, devices: Mapping[str, str]) -> None:
        """Take the network, and the name of the interface for each direction."""
        self._scenario = scenario
        self._numbers = {node: number for number, node in enumerate(scenario.nodes, 1)}
        addresses = {node: str(address) for node, address in scenario.addresses.items()}
        self._prefixes = {node: f"{address}/32" for node, address in addresses.items()}
        self._hops = {
            name: f"via {addresses[link.other(sender)]} dev {devices[name]} onlink"
            for name, (link, sender) in scenario.directions.items()
        }

    def lines(self, node: str, found: NextHops) -> list[str]:
        """Return a node's routes as lines of ip, without the leading `ip`."""
        in_turn = self._scenario.nodes[node].balance == "per-packet"
        lines = []
        for destination, names in found[node].items():
            to = self._prefixes[destination]
            if len(names) == 1 or in_turn:
                lines.append(f"route replace {to} {self._hops[names[0]]}")
            else:
                hops = " ".join(f"nexthop {self._hops[name]} weight 1" for name in names)
                lines.append(f"route replace {to} {hops}")
        mark = FIRST_MARK
        for names, _ in per_packet_groups(self._scenario, node, found):
            for name in names:
                lines.append(f"route replace default {self._hops[name]} table {mark}")
                lines.append(f"rule add fwmark {mark:#x} lookup {mark} priority {mark}")
                mark += 1
        return lines

    def sysctls(self, node: str, found: NextHops) -> dict[str, str]:
        """Return the settings of a node that go with its routes."""
        if all(len(names) == 1 for names in found[node].values()):
            return {}
        # Of two routers with the same seed, the second would send all packets to one next hop.
        sysctls = {"net.ipv4.fib_multipath_hash_seed": str(_SEED * self._numbers[node] % 2**32)}
        if self._scenario.nodes[node].balance == "per-destination":
            sysctls["net.ipv4.fib_multipath_hash_fields"] = "0x0002"  # the destination's address
            sysctls["net.ipv4.fib_multipath_hash_policy"] = "3"
        else:
            sysctls["net.ipv4.fib_multipath_hash_policy"] = "1"
        return sysctls
