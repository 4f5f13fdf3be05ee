"""The paths that packets take across a scenario's network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop._core import Topology
from perhop.scenario.resolve.steps import NetworkState
from perhop.scenario.resolve.tunnels import entered, inside, tunnel_mtu

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perhop.scenario.resolve.scenario import ResolvedScenario

__all__ = ["NextHops", "agreed_mtu", "host_mtu", "next_hops", "only_path", "path_mtu", "path_mtus"]

NextHops = dict[str, dict[str, tuple[str, ...]]]
"""For every node and destination, the directed links "r1>r2" of the shortest paths."""


def next_hops(
    scenario: ResolvedScenario, down: Iterable[int] = (), destinations: Iterable[str] | None = None
) -> NextHops:
    """Return the next directed links from every node to each destination.

    Paths have the fewest links, then the least delay. Links that join the same two nodes count as
    one, as long as the shortest of them, and hosts do not forward. A host without a route uses the
    router on its first link. All engines use these paths.

    Args:
        scenario: The network.
        down: The numbers of the links that are down.
        destinations: The nodes to find paths to; all by default.
    """
    numbers = {node: number for number, node in enumerate(scenario.nodes)}
    topology = Topology(
        [node.kind == "router" for node in scenario.nodes.values()],
        [
            (numbers[link.ends[0]], numbers[link.ends[1]], there.delay, back.delay)
            for link in scenario.links
            for there, back in [link.media]
        ],
    )
    for number in down:
        topology.set_up(number, False)
    directions = list(scenario.directions)
    found: NextHops = {node: {} for node in scenario.nodes}
    for destination in scenario.nodes if destinations is None else destinations:
        for node, ports in zip(found, topology.next_hops(numbers[destination]), strict=True):
            if ports:
                found[node][destination] = tuple(directions[port] for port in ports)
    return found


def only_path(
    scenario: ResolvedScenario, found: NextHops, source: str, destination: str
) -> tuple[str, ...] | None:
    """Return the directed links from a node to another; None if paths fork, or none leads there.

    Args:
        scenario: The network.
        found: Its `next_hops`.
        source: The first node of the path.
        destination: The last node of the path.
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


def host_mtu(scenario: ResolvedScenario, host: str) -> int | None:
    """Return the least MTU of a host's links and tunnels in bytes; None if none has one."""
    mtus = [link.mtu for link in scenario.links if host in link.ends and link.mtu]
    own = [tunnel for tunnel in scenario.tunnels.values() if host in tunnel.ends]
    if own:
        found = next_hops(scenario, destinations=_ends_of_tunnels(scenario))
        mtus += (tunnel_mtu(scenario, tunnel, found) for tunnel in own)
    return min(mtus, default=None)


def agreed_mtu(scenario: ResolvedScenario, source: str, destination: str) -> int | None:
    """Return the MTU for which two hosts agree on a segment size, in bytes; None if unlimited.

    It is the least of their links and of those at routers that clamp segment sizes: SYNs of both
    directions pass these.

    Args:
        scenario: The network.
        source: The host that sends data.
        destination: The host that receives it.
    """
    known = [mtu for end in (source, destination) if (mtu := host_mtu(scenario, end)) is not None]
    if any(node.mss_clamp for node in scenario.nodes.values()):
        for way in ((source, destination), (destination, source)):
            known += (
                mtu for node, mtu in path_mtus(scenario, *way) if scenario.nodes[node].mss_clamp
            )
    return min(known, default=None)


def path_mtu(scenario: ResolvedScenario, source: str, destination: str) -> int | None:
    """Return the least MTU on any path from a node to another, in bytes; None if no link has one.

    Paths that are used only after links go down count, too: hosts do not raise a path MTU for
    minutes after its discovery (RFC 1191, section 6.3).

    Args:
        scenario: The network.
        source: The node that sends packets.
        destination: The node that receives them.
    """
    return min((mtu for _, mtu in path_mtus(scenario, source, destination)), default=None)


def path_mtus(
    scenario: ResolvedScenario, source: str, destination: str
) -> Iterator[tuple[str, int]]:
    """Yield the nodes on any path from a node to another that send over a link with an MTU.

    The MTU is in bytes, and the paths are those of `path_mtu`, whose arguments these are. Between
    the ends of a tunnel, it is that of inner packets.
    """
    if all(link.mtu is None for link in scenario.links) and not scenario.tunnels:
        return
    directions = scenario.directions
    for down in _outages(scenario):
        found = next_hops(scenario, down, {destination, *_ends_of_tunnels(scenario)})
        todo, seen = [source], {source}
        while todo:
            node = todo.pop()
            tunnel = entered(scenario, found, node, destination)
            if tunnel is not None:
                yield node, tunnel_mtu(scenario, tunnel, found)
                for name in inside(scenario, found, tunnel, node):
                    link, sender = directions[name]
                    if link.mtu is not None:
                        yield sender, tunnel.headers.room(link.mtu)
                exit_ = tunnel.other(node)
                if exit_ not in seen:
                    seen.add(exit_)
                    todo.append(exit_)
                continue
            for name in found[node].get(destination, ()):
                link, sender = directions[name]
                if link.mtu is not None:
                    yield sender, link.mtu
                reached = link.other(sender)
                if reached != destination and reached not in seen:
                    seen.add(reached)
                    todo.append(reached)


def _ends_of_tunnels(scenario: ResolvedScenario) -> set[str]:
    return {end for tunnel in scenario.tunnels.values() for end in tunnel.ends}


def _outages(scenario: ResolvedScenario) -> Iterator[frozenset[int]]:
    """Yield the numbers of the links that are down, at first and after each change of state."""
    state = NetworkState(scenario)
    yield frozenset(state.down)
    for step in state.steps(scenario.changes):
        if step.change.state is not None:
            yield frozenset(state.down)


def regions(scenario: ResolvedScenario) -> dict[str, set[object]]:
    """Return for each node the connected sets of routers, and the links, that it touches.

    Two hosts reach each other if these sets intersect: only routers forward.
    """
    root: dict[str, str] = {name: name for name in scenario.nodes}

    def find(node: str) -> str:
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    links = [link.ends for link in scenario.links if set(link.ends) <= scenario.nodes.keys()]
    routers = {name for name, node in scenario.nodes.items() if node.kind == "router"}
    for first, second in links:
        if {first, second} <= routers:
            root[find(first)] = find(second)
    regions: dict[str, set[object]] = {name: set() for name in scenario.nodes}
    for router in routers:
        regions[router].add(find(router))
    for index, (first, second) in enumerate(links):
        for node, other in ((first, second), (second, first)):
            regions[node].add(find(other) if other in routers else index)
    return regions
