"""The network of a scenario as the page draws it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perhop.layout import places
from perhop.report.network import MOST_NAMED, MOST_NODES, scattered
from perhop.units import format_duration, format_rate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perhop.scenario import Flow, Link, Node, Scenario

__all__ = ["network"]


def network(scenario: Scenario) -> dict[str, Any]:
    """Return nodes with their places, and links with the policies of their ends.

    Background traffic, and the hosts that stand for it, are left out. Classes that divide another
    class are inside of it: ``bulk/web``.

    Nodes have columns and rows. Those of many nodes, which are drawn as dots, are pixels in a
    drawing of a `size`. Of networks that are too large to be drawn, there is the number of `nodes`.
    """
    hidden = scenario.background_hosts
    nodes = {name: node for name, node in scenario.nodes.items() if name not in hidden}
    names = [*scenario.directions]
    links = [
        _link(scenario, link, names[2 * position : 2 * position + 2])
        for position, link in enumerate(scenario.links)
        if hidden.isdisjoint(link.ends)
    ]
    if len(nodes) > MOST_NODES or len(links) > 2 * MOST_NODES:
        return {"nodes": [], "links": [], "size": None, "omitted": len(nodes)}
    if len(nodes) > MOST_NAMED:
        at, size = scattered(scenario, [*nodes], [link["ends"] for link in links])
        return _drawing(nodes, links, at, size)
    at = places([*nodes], [link["ends"] for link in links])
    # Most data goes from left to right.
    ways = [(at[flow.source][0], at[flow.destination][0]) for flow in _flows(scenario, hidden)]
    if sum(end - begin for begin, end in ways) < 0:
        last = max(column for column, _ in at.values())
        at = {name: (last - column, row) for name, (column, row) in at.items()}
    return _drawing(nodes, links, at, None)


def _drawing(
    nodes: Mapping[str, Node],
    links: list[dict[str, Any]],
    at: Mapping[str, tuple[float, float]],
    size: tuple[float, float] | None,
) -> dict[str, Any]:
    """Return nodes with their places, and links."""
    return {
        "nodes": [
            {"name": name, "kind": node.kind, "column": at[name][0], "row": at[name][1]}
            for name, node in nodes.items()
        ],
        "links": links,
        "size": size,
    }


def _flows(scenario: Scenario, hidden: set[str]) -> list[Flow]:
    """Return the flows between nodes that are drawn."""
    flows = scenario.flows.values()
    return [flow for flow in flows if hidden.isdisjoint((flow.source, flow.destination))]


def _link(scenario: Scenario, link: Link, names: Sequence[str]) -> dict[str, Any]:
    """Return a link, with both directions in the order of its ends."""
    media = link.media
    rates = list(dict.fromkeys(format_rate(medium.rate) for medium in media))
    delays = list(dict.fromkeys(format_duration(medium.delay) for medium in media if medium.delay))
    policies = {
        end: {"policy": name, "classes": [*scenario.policies[name].classes]}
        for end, name in link.egress.items()
        if name in scenario.policies
    }
    return {
        "ends": link.ends,
        "directions": list(names),
        "label": ", ".join(filter(None, ["/".join(rates), "/".join(delays)])),
        "policies": policies,
    }
