"""Rules on the remarking of packets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.hints import did_you_mean
from perhop.scenario.model.matching import matches_any, placed_rules
from perhop.scenario.resolve.elements import markings
from perhop.scenario.rules.findings import Finding
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.matching import Match, Matching
    from perhop.scenario.resolve.scenario import ResolvedScenario


def marking_rules(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find remarking rules with unknown nodes, and rules that cannot be reached."""
    for loc, rules in markings(scenario):
        for index, rule in enumerate(rules):
            if matches_any(rule.match) and index < len(rules) - 1:
                yield Finding(
                    (*loc, index + 1), "comes after a rule that matches `any`; expected it before"
                )
            yield from matches(rule.match, scenario.nodes, (*loc, index, "match"))


def matches(match: Matching, nodes: Iterable[str], loc: Loc) -> Iterator[Finding]:
    """Find unknown nodes in a match at `loc`, and elements of a list that have no effect."""
    rules = list(placed_rules(match, loc))
    if not any(rule.permit for _, rule in rules):
        yield Finding(loc, "matches no packet: every element is an `except`; expected another one")
    for index, (place, rule) in enumerate(rules):
        if rule.conditions.is_any and index < len(rules) - 1:
            yield Finding(
                (*loc, index + 1), "comes after an element for `any` packet; expected it before"
            )
        if rule.conditions.pcp is not None and rule.conditions.mpls_tc is not None:
            yield Finding(
                place,
                "matches no packet, because none has a VLAN tag and MPLS labels; expected `pcp` or "
                "`mpls_tc`",
            )
        yield from _known_ends(rule.conditions, nodes, place)


def _known_ends(match: Match, nodes: Iterable[str], loc: Loc) -> Iterator[Finding]:
    for key in ("source", "destination"):
        for place, end in enumerate(getattr(match, key) or ()):
            if isinstance(end, str) and end not in nodes:
                yield Finding(
                    (*loc, key, place), f"{quote(end)} is not a node", did_you_mean(end, nodes)
                )
