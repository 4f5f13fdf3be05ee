"""The paths that packets take across a scenario's network."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from perhop.scenario.resolve.steps import steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from perhop.scenario.resolve.scenario import ResolvedScenario

__all__ = ["Ways", "only_path", "path_mtu", "ways"]

Ways = dict[str, dict[str, tuple[str, ...]]]
"""For every node and destination the directions, "r1>r2", that lead there at the least cost."""

_FAR: Final = (2**63, 2**63)


def ways(
    scenario: ResolvedScenario, down: Iterable[int] = (), destinations: Iterable[str] | None = None
) -> Ways:
    """Return the next directed links from every node to each destination.

    Paths have the fewest links, then the least delay. Links that join the same two nodes count as
    one, as long as the shortest of them, and hosts are never on the way.

    Args:
        scenario: The network.
        down: The numbers of the links that are down.
        destinations: The nodes to find paths to; all by default.
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
    for destination in scenario.nodes if destinations is None else destinations:
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
    scenario: ResolvedScenario,
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


def only_path(
    scenario: ResolvedScenario, found: Ways, source: str, destination: str
) -> tuple[str, ...] | None:
    """Return the directed links from a node to another; None if paths fork, or none leads there.

    Args:
        scenario: The network.
        found: Its `ways`.
        source: Where the path begins.
        destination: Where it ends.
    """
    directions = scenario.directions
    path: list[str] = []
    node = source
    while node != destination:
        options = found[node].get(destination, ())
        if len(options) != 1 or options[0] in path:
            return None
        path.append(options[0])
        link, sender = directions[options[0]]
        node = link.other(sender)
    return tuple(path)


def path_mtu(scenario: ResolvedScenario, source: str, destination: str) -> int | None:
    """Return the least MTU on any way from a node to another, in bytes; None if no link has one.

    Ways that open only when links go down count, too: a path MTU that was discovered once is not
    raised for minutes (RFC 1191, section 6.3).

    Args:
        scenario: The network.
        source: Where packets come from.
        destination: Where they go.
    """
    if all(link.mtu is None for link in scenario.links):
        return None
    directions = scenario.directions
    least: int | None = None
    for down in _outages(scenario):
        found = ways(scenario, down, (destination,))
        todo, seen = [source], {source}
        while todo:
            for name in found[todo.pop()].get(destination, ()):
                link, sender = directions[name]
                if link.mtu is not None:
                    least = link.mtu if least is None else min(least, link.mtu)
                reached = link.other(sender)
                if reached != destination and reached not in seen:
                    seen.add(reached)
                    todo.append(reached)
    return least


def _outages(scenario: ResolvedScenario) -> Iterator[frozenset[int]]:
    """The numbers of the links that are down, at first and after each change of a link's state."""
    down: frozenset[int] = frozenset()
    yield down
    for step in steps(scenario):
        if step.change.state is not None:
            down = down | {step.number} if step.change.state == "down" else down - {step.number}
            yield down
