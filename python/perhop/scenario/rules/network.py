"""Rules on nodes and links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.hints import did_you_mean
from perhop.scenario.rules.findings import Finding, known
from perhop.units import format_rate, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.resolve.scenario import ResolvedScenario


def addresses(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Every address belongs to one node."""
    owners: dict[object, str] = {}
    for name, node in scenario.nodes.items():
        if node.address is not None and owners.setdefault(node.address, name) != name:
            yield Finding(
                ("nodes", name, "address"),
                f"{node.address} is already the address of {quote(owners[node.address])}",
            )


def link_ends(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Links join two different nodes that exist; names tell those between the same two apart."""
    seen: dict[tuple[frozenset[str], str], int] = {}
    for index, link in enumerate(scenario.links):
        loc: Loc = ("links", index, "ends")
        for position, end in enumerate(link.ends):
            yield from known(end, scenario.nodes, "node", (*loc, position))
        first, second = link.ends
        if first == second:
            yield Finding(loc, f"joins {quote(first)} to itself; expected two different nodes")
            continue
        if link.name is not None:
            earlier = seen.setdefault((frozenset(link.ends), link.name), index)
            if earlier != index:
                yield Finding(
                    ("links", index, "name"),
                    f"{quote(link.name)} is already the name of links.{earlier} between "
                    f"{quote(first)} and {quote(second)}; expected another name",
                )


def link_policies(scenario: ResolvedScenario) -> Iterator[Finding]:
    """An egress, a shape and a remark name an end of their link; a shape lets something pass."""
    for index, link in enumerate(scenario.links):
        keys = (("egress", [*link.egress]), ("shape", [*link.shape]), ("remark", [*link.remark]))
        for key, node in ((key, node) for key, nodes in keys for node in nodes):
            if node not in link.ends:
                first, second = link.ends
                yield Finding(
                    ("links", index, key, node),
                    f"{quote(node)} is not an end of this link; "
                    f"expected {quote(first)} or {quote(second)}",
                    did_you_mean(node, link.ends),
                    at_key=True,
                )
        for node, shape in link.shape.items():
            if shape.rate.of(link.rate) < 1:
                yield Finding(
                    ("links", index, "shape", node, "rate"),
                    f"is less than 1 bps of the link's {format_rate(link.rate)}",
                )


def reservable(scenario: ResolvedScenario) -> Iterator[Finding]:
    """No more can be reserved than a link has, nor in a class than in all."""
    for index, link in enumerate(scenario.links):
        if link.reservable is None:
            continue
        loc: Loc = ("links", index, "reservable")
        total = link.reservable.total.of(link.rate)
        if total > link.rate:
            yield Finding(
                loc,
                f"{format_rate(total)} is more than the link's {format_rate(link.rate)}; "
                "expected at most that",
            )
        for name, part in link.reservable.classes.items():
            if part.of(link.rate) > total:
                yield Finding(
                    (*loc, "classes", name),
                    f"{format_rate(part.of(link.rate))} is more than the {format_rate(total)} "
                    "that can be reserved in all",
                )


def egress_policies(scenario: ResolvedScenario) -> Iterator[Finding]:
    """An egress names a policy that exists."""
    for index, link in enumerate(scenario.links):
        for node, policy in link.egress.items():
            yield from known(policy, scenario.policies, "policy", ("links", index, "egress", node))
