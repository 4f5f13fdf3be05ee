"""Rules on background traffic."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perhop.hints import did_you_mean, listed
from perhop.scenario.model.background import SELF_SIMILAR, Background
from perhop.scenario.model.traffic import imix_mean
from perhop.scenario.resolve.background import added_hosts, peak_rate, place_of
from perhop.scenario.rules.findings import Finding
from perhop.units import SECOND, format_duration, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.resolve.scenario import ResolvedScenario

NEEDED = {"nodes", "links", "flows", "pings", "background"}
"""The sections that the rules read."""


def backgrounds(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find background traffic on unknown or parallel links, with names of others, or too slow.

    The scenario has not been expanded.
    """
    for name, background in scenario.backgrounds.items():
        loc = place_of(scenario, name)
        yield from _name(scenario, loc, name)
        if background.link not in scenario.directions:
            hint = did_you_mean(background.link, scenario.directions)
            few = "" if hint else listed(scenario.directions)
            message = f"{quote(background.link)} is not a directed link{few}"
            yield Finding((*loc, "link"), message, hint)
            continue
        link, _ = scenario.directions[background.link]
        if any(end not in scenario.nodes for end in link.ends):
            continue  # a finding of the link
        if sum({*each.ends} == {*link.ends} for each in scenario.links) > 1:
            yield Finding(
                (*loc, "link"),
                f"{quote(background.link)} has a parallel link, with which it shares load; "
                "expected the only link between its ends",
            )
        yield from _pattern(scenario, loc, background)


def _name(scenario: ResolvedScenario, loc: Loc, name: str) -> Iterator[Finding]:
    for kind, names in (("flow", scenario.flows), ("ping", scenario.pings)):
        if name in names:
            message = f"{quote(name)} is a {kind} already; expected another name"
            yield Finding(loc, message, at_key=True)
    for host in added_hosts(name):
        if host in scenario.nodes:
            message = f"its host would be {quote(host)}, which is a node already"
            yield Finding(loc, f"{message}; expected another name", at_key=True)


def _pattern(scenario: ResolvedScenario, loc: Loc, background: Background) -> Iterator[Finding]:
    if background.like == "poisson":
        for key in SELF_SIMILAR:
            if getattr(background, key) is not None:
                message = "means nothing for `poisson`; expected it with `like: internet`"
                yield Finding((*loc, key), message, at_key=True)
    rate = peak_rate(scenario, background)
    if not rate:
        yield Finding((*loc, "load"), "is less than 1 bps; expected a higher load")
    elif background.like == "internet":
        gap = -(-8 * imix_mean(scenario.ip_of(background)) * SECOND // rate)
        if background.effective_burst < gap:
            key = "load" if background.burst is None else "burst"
            yield Finding(
                (*loc, key),
                f"leaves {format_duration(gap)} between the packets of a source, more than a burst "
                f"of {format_duration(background.effective_burst)}; expected fewer `sources`, a "
                "longer `burst` or a higher `load`",
            )


def placed(scenario: ResolvedScenario, finding: Finding) -> Finding:
    """Return a finding about a background's flow as one about the background."""
    if finding.loc[:1] != ("flows",) or len(finding.loc) < 2:
        return finding
    _, name, *inside = finding.loc
    if name not in scenario.backgrounds:
        return finding
    known = [key for key in inside[:1] if key in Background.model_fields]
    return replace(finding, loc=(*place_of(scenario, str(name)), *known))
