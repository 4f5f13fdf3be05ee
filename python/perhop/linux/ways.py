"""Paths, as routes of Linux: the same as perhop's own network takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop.scenario import Scenario
    from perhop.scenario.resolve import Ways

__all__ = ["FIRST_MARK", "routes", "turns"]

FIRST_MARK: Final = 0x100
"""The mark of the first way of the first group, which is also the number of its routing table."""

_SEED: Final = 0x9E3779B9


def turns(scenario: Scenario, node: str, found: Ways) -> list[tuple[tuple[str, ...], list[str]]]:
    """The groups of ways of a node that takes them in turn, and where each leads."""
    if scenario.nodes[node].balance != "per-packet":
        return []
    groups: dict[tuple[str, ...], list[str]] = {}
    for destination, directions in found[node].items():
        if len(directions) > 1:
            groups.setdefault(directions, []).append(destination)
    return list(groups.items())


def routes(
    scenario: Scenario, node: str, found: Ways, devices: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """A node's routes as lines of ip, without the leading `ip`; and the sysctls that go with them.

    The next hop's address is its node's, on every link. Where packets take turns, a mark chooses
    the routing table (see `rules`).
    """
    addresses = scenario.addresses
    directions = scenario.directions

    def hop(name: str) -> str:
        link, sender = directions[name]
        return f"via {addresses[link.other(sender)]} dev {devices[name]} onlink"

    lines = []
    for destination, names in found[node].items():
        to = f"{addresses[destination]}/32"
        if len(names) == 1 or scenario.nodes[node].balance == "per-packet":
            lines.append(f"route replace {to} {hop(names[0])}")
        else:
            hops = " ".join(f"nexthop {hop(name)} weight 1" for name in names)
            lines.append(f"route replace {to} {hops}")
    mark = FIRST_MARK
    for names, _ in turns(scenario, node, found):
        for name in names:
            lines.append(f"route replace default {hop(name)} table {mark}")
            lines.append(f"rule add fwmark {mark:#x} lookup {mark} priority {mark}")
            mark += 1
    sysctls = {}
    if any(len(names) > 1 for names in found[node].values()):
        # Routers that hashed alike would send all that reaches the second of two one way.
        number = list(scenario.nodes).index(node) + 1
        sysctls["net.ipv4.fib_multipath_hash_seed"] = str(_SEED * number % 2**32)
        if scenario.nodes[node].balance == "per-destination":
            sysctls["net.ipv4.fib_multipath_hash_fields"] = "0x0002"  # the destination's address
            sysctls["net.ipv4.fib_multipath_hash_policy"] = "3"
        else:
            sysctls["net.ipv4.fib_multipath_hash_policy"] = "1"
    return lines, sysctls
