"""Linux: commands of tc, nft and ip, which `perhop.linux` makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop import linux
from perhop.linux.gaps import tunnel_gaps

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from perhop.linux import Gap
    from perhop.linux.policers import Means
    from perhop.scenario import Link, Scenario

__all__ = ["write"]


def write(
    scenario: Scenario,
    links: Collection[str],
    devices: Mapping[str, str],
    police: Means,
) -> tuple[str, tuple[Gap, ...]]:
    """Return a script, and what Linux cannot express.

    Args:
        scenario: The scenario.
        links: The directed links to cover; all by default.
        devices: The name of the interface of each directed link.
        police: The kind of policers.
    """
    narrow = _narrow(scenario, links) if links else scenario
    mapped = linux.mapping(narrow, devices=devices, police=police)
    gaps = (*mapped.gaps, *tunnel_gaps(scenario))
    return linux.script(narrow, mapped, links=links), gaps


def _narrow(scenario: Scenario, links: Collection[str]) -> Scenario:
    """Return the scenario without policies, shapers and marking at the ends of other links."""
    kept: dict[int, set[str]] = {}
    for direction, (link, node) in scenario.directions.items():
        kept.setdefault(id(link), set())
        if direction in links:
            kept[id(link)].add(node)
    return scenario.model_copy(
        update={
            "links": tuple(_of(scenario, link, kept[id(link)]) for link in scenario.links),
            "nodes": {
                name: node.model_copy(update={"remark": ()})
                for name, node in scenario.nodes.items()
            },
            "changes": tuple(c for c in scenario.changes if c.on is None or c.on in links),
        }
    )


def _of(scenario: Scenario, link: Link, nodes: set[str]) -> Link:
    """Return a link with the settings of some of its ends, and with their nodes' marking."""
    remark = {name: (*link.remark.get(name, ()), *scenario.nodes[name].remark) for name in nodes}
    return link.model_copy(
        update={
            "egress": {name: policy for name, policy in link.egress.items() if name in nodes},
            "shape": {name: shape for name, shape in link.shape.items() if name in nodes},
            "remark": {name: rules for name, rules in remark.items() if rules},
        }
    )
