"""Rules on IPv6."""

from __future__ import annotations

from ipaddress import IPv6Network
from itertools import chain
from typing import TYPE_CHECKING, Final

from perhop.scenario.model.matching import placed_rules
from perhop.scenario.resolve.background import place_of
from perhop.scenario.resolve.elements import markings
from perhop.scenario.rules.findings import Finding
from perhop.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.matching import Matching
    from perhop.scenario.resolve.scenario import ResolvedScenario

__all__ = ["LEAST_MTU", "ipv6_links"]

LEAST_MTU: Final = 1280
"""The least that every link of IPv6 carries, in bytes (RFC 8200, section 5)."""


def ipv6_links(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find links with an MTU below 1280 bytes in a scenario with IPv6 traffic or addresses."""
    small = [
        (number, link.mtu)
        for number, link in enumerate(scenario.links)
        if link.mtu is not None and link.mtu < LEAST_MTU
    ]
    about = next(_about(scenario), None) if small else None
    if about is None:
        return
    for number, mtu in small:
        yield Finding(
            ("links", number, "mtu"),
            f"{format_size(mtu)} is less than the {LEAST_MTU} B that every link of IPv6 carries "
            f"(RFC 8200, section 5), and {'.'.join(map(str, about))} uses IPv6",
        )


def _about(scenario: ResolvedScenario) -> Iterator[Loc]:
    """Yield the places of IPv6 traffic, and of everything that matches IPv6."""
    for name in scenario.backgrounds:
        if name in scenario.flows and scenario.ip_of(scenario.flows[name]) == 6:
            yield place_of(scenario, name)
    for section in ("flows", "pings"):
        for name, sender in getattr(scenario, section).items():
            if scenario.ip_of(sender) == 6:
                yield section, name
    classes: Iterator[tuple[Loc, Matching]] = (
        ((*loc, key, "match"), class_.match)
        for loc, policy in scenario.all_policies()
        for key, class_ in policy.classes.items()
    )
    marks: Iterator[tuple[Loc, Matching]] = (
        ((*loc, number, "match"), rule.match)
        for loc, rules in markings(scenario)
        for number, rule in enumerate(rules)
    )
    for loc, match in chain(classes, marks):
        for place, rule in placed_rules(match, loc):
            if rule.conditions.ip is not None and 6 in rule.conditions.ip:
                yield (*place, "ip")
            for key in ("source", "destination"):
                ends = getattr(rule.conditions, key) or ()
                if any(isinstance(end, IPv6Network) for end in ends):
                    yield (*place, key)
