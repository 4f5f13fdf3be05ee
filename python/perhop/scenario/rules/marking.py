"""Rules on the remarking of packets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.hints import did_you_mean
from perhop.scenario.resolve.elements import markings
from perhop.scenario.rules.findings import Finding
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.classes import Match
    from perhop.scenario.resolve.scenario import ResolvedScenario


def marking_rules(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find remarking rules with unknown nodes, and rules that cannot be reached."""
    for loc, rules in markings(scenario):
        for index, rule in enumerate(rules):
            if rule.match.is_any and index < len(rules) - 1:
                yield Finding(
                    (*loc, index + 1), "comes after a rule that matches `any`; expected it before"
                )
            yield from known_ends(rule.match, scenario.nodes, (*loc, index, "match"))


def known_ends(match: Match, nodes: Iterable[str], loc: Loc) -> Iterator[Finding]:
    """Find matches with unknown nodes."""
    for key in ("source", "destination"):
        for place, end in enumerate(getattr(match, key) or ()):
            if isinstance(end, str) and end not in nodes:
                yield Finding(
                    (*loc, key, place), f"{quote(end)} is not a node", did_you_mean(end, nodes)
                )
