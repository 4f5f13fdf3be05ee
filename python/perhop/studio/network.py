"""The network of a scenario as the page draws it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perhop.layout import places
from perhop.units import format_duration, format_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.scenario import Flow, Link, Scenario

__all__ = ["network"]


def network(scenario: Scenario) -> dict[str, Any]:
    """Return nodes with their places, and links with the policies of their ends.

    Background traffic, and the hosts that stand for it, are left out. Classes that divide another
    class are inside of it: ``bulk/web``.
    """
    hidden = scenario.background_hosts
    nodes = {name: node for name, node in scenario.nodes.items() if name not in hidden}
    names = [*scenario.directions]
    links = [
        _link(scenario, link, names[2 * position : 2 * position + 2])
        for position, link in enumerate(scenario.links)
        if hidden.isdisjoint(link.ends)
    ]
    at = places([*nodes], [link["ends"] for link in links])
    # Most data goes from left to right.
    ways = [(at[flow.source][0], at[flow.destination][0]) for flow in _flows(scenario, hidden)]
    if sum(end - begin for begin, end in ways) < 0:
        last = max(column for column, _ in at.values())
        at = {name: (last - column, row) for name, (column, row) in at.items()}
    return {
        "nodes": [
            {"name": name, "kind": node.kind, "column": at[name][0], "row": at[name][1]}
            for name, node in nodes.items()
        ],
        "links": links,
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
        "ends": list(link.ends),
        "directions": list(names),
        "label": ", ".join(filter(None, ["/".join(rates), "/".join(delays)])),
        "policies": policies,
    }
