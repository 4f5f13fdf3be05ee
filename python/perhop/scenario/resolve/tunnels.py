"""Tunnels on the paths of a scenario's network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perhop.scenario.model.tunnels import Tunnel
    from perhop.scenario.resolve.scenario import ResolvedScenario

    Ways = Mapping[str, Mapping[str, tuple[str, ...]]]

USUAL_MTU: Final = 1500
"""The MTU in bytes that a tunnel assumes of a link without one."""


def tunnel_mtu(scenario: ResolvedScenario, tunnel: Tunnel, found: Ways) -> int:
    """Return the longest packet that may enter a tunnel, in bytes, before any ICMP error.

    Args:
        scenario: The network.
        tunnel: The tunnel.
        found: The network's `next_hops`.
    """
    if tunnel.mtu is not None:
        return tunnel.mtu
    links = [
        scenario.directions[name][0]
        for end in tunnel.ends
        for name in found[end].get(tunnel.other(end), ())
    ]
    least = min((link.mtu or USUAL_MTU for link in links), default=USUAL_MTU)
    return tunnel.headers.room(least)


def entered(scenario: ResolvedScenario, found: Ways, node: str, destination: str) -> Tunnel | None:
    """Return the tunnel that packets for a destination enter at a node; None if they enter none.

    It is the longest of those that end on a shortest path to the destination: before it, or there
    if it is a host.

    Args:
        scenario: The network.
        found: Its `next_hops`.
        node: The node.
        destination: The destination of the packets.
    """
    best: Tunnel | None = None
    outside = {destination} if scenario.nodes[destination].kind == "router" else set[str]()
    here = [tunnel for tunnel in scenario.tunnels.values() if node in tunnel.ends]
    if not here:
        return None
    for stage in _stages(scenario, found, node, destination):
        reached = stage - outside
        for tunnel in here:
            if tunnel.other(node) in reached and (best is None or best.other(node) not in reached):
                best = tunnel
    return best


def _stages(
    scenario: ResolvedScenario, found: Ways, node: str, destination: str
) -> Iterator[set[str]]:
    """Yield the nodes that are one link further on the way to a destination, which is the last."""
    reached = {node}
    while reached := {
        link.other(sender)
        for each in reached
        for name in found[each].get(destination, ())
        for link, sender in [scenario.directions[name]]
    }:
        yield reached


def inside(scenario: ResolvedScenario, found: Ways, tunnel: Tunnel, entry: str) -> set[str]:
    """Return the directed links on the paths of a tunnel from an end to the other one.

    Args:
        scenario: The network.
        found: Its `next_hops`.
        tunnel: The tunnel.
        entry: The end at which packets enter.
    """
    exit_ = tunnel.other(entry)
    passed = {entry}.union(*_stages(scenario, found, entry, exit_))
    return {name for node in passed for name in found[node].get(exit_, ())}
