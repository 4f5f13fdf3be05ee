"""Paths, as routes of Linux: the same as perhop's own network takes."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perhop.scenario import Scenario

__all__ = ["FIRST_MARK", "Ways", "routes", "turns", "ways"]

Ways = dict[str, dict[str, tuple[str, ...]]]
"""For every node and destination the directions, "r1>r2", that lead there at the least cost."""

FIRST_MARK: Final = 0x100
"""The mark of the first way of the first group, which is also the number of its routing table."""

_FAR: Final = (2**63, 2**63)
_SEED: Final = 0x9E3779B9


def ways(scenario: Scenario, down: Iterable[int] = ()) -> Ways:
    """The ways that there are while the links numbered `down` are down.

    Paths have the fewest links, then the least delay. Links that join the same two nodes count as
    one, as long as the shortest of them, and hosts are never on the way.
    """
    away = set(down)
    directions = list(scenario.directions.items())
    nearest: dict[tuple[str, str], int] = {}
    ports: dict[str, list[tuple[str, str]]] = {node: [] for node in scenario.nodes}
    for number, (name, (link, node)) in enumerate(directions):
        if number // 2 in away:
            continue
        to = link.other(node)
        ports[node].append((name, to))
        nearest[node, to] = min(link.delay, nearest.get((node, to), link.delay))
    found: Ways = {node: {} for node in scenario.nodes}
    for destination in scenario.nodes:
        cost = _costs(scenario, destination, ports, nearest)
        for node, own in ports.items():
            if node == destination:
                continue
            best = tuple(
                name
                for name, to in own
                if (to == destination or scenario.nodes[to].kind == "router")
                and cost[to] != _FAR
                and (cost[to][0] + 1, cost[to][1] + nearest[node, to]) == cost[node]
            )
            if not best and scenario.nodes[node].kind == "host":
                # A host that knows no way asks the router on its first link.
                routers = [name for name, to in own if scenario.nodes[to].kind == "router"]
                best = tuple(routers[:1])
            if best:
                found[node][destination] = best
    return found


def _costs(
    scenario: Scenario,
    destination: str,
    ports: Mapping[str, list[tuple[str, str]]],
    nearest: Mapping[tuple[str, str], int],
) -> dict[str, tuple[int, int]]:
    """Hops and delay from each node to `destination`: Dijkstra's algorithm, backwards."""
    best = dict.fromkeys(scenario.nodes, _FAR)
    best[destination] = (0, 0)
    queue = [((0, 0), destination)]
    while queue:
        cost, node = heappop(queue)
        ends_here = scenario.nodes[node].kind == "host" and node != destination
        if cost > best[node] or ends_here:
            continue
        for _, before in ports[node]:
            through = (cost[0] + 1, cost[1] + nearest[node, before])
            if through < best[before]:
                best[before] = through
                heappush(queue, (through, before))
    return best


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
