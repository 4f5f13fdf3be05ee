"""Rules on expectations and published figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.hints import did_you_mean, listed
from perhop.scenario.model.metrics import METRICS
from perhop.scenario.resolve.elements import measured
from perhop.scenario.rules.findings import Finding
from perhop.units import format_duration, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.expectations import Expectation
    from perhop.scenario.resolve.scenario import ResolvedScenario


def metrics(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find expectations without exactly one metric, or with invalid values."""
    for loc, item in measured(scenario):
        named = item.named
        if not named:
            yield Finding(loc, f"names no metric; expected one of {', '.join(METRICS)}")
        for other in named[1:]:
            yield Finding(
                (*loc, other), f"is given beside `{named[0]}`; expected one metric", at_key=True
            )
    for index, wanted in enumerate(scenario.expect):
        yield from _bounds(("expect", index), wanted)


def targets(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find expectations of unknown flows and pings."""
    for loc, item in measured(scenario):
        if len(item.named) != 1:
            continue
        metric, target = item.metric, item.target
        kinds: dict[str, Iterable[str]] = {
            "flow": scenario.flows,
            "ping": scenario.pings,
            "total": ["total"],
        }
        candidates = [name for kind in metric.targets for name in kinds[kind]]
        if target not in candidates:
            known = " or ".join(f"a {k}" if k != "total" else "`total`" for k in metric.targets)
            actual = next((k for k, names in kinds.items() if target in names), None)
            what = f"is a {actual}" if actual in ("flow", "ping") else "is unknown"
            yield Finding(
                (*loc, metric.name),
                f"{quote(target)} {what}; expected {known}{listed(candidates)}",
                did_you_mean(target, candidates),
            )
        elif target in scenario.pings and scenario.pings[target].is_trace:
            yield Finding(
                (*loc, metric.name),
                f"{quote(target)} asks several nodes; expected a ping with one `ttl`",
            )
        elif (
            metric.name in ("retransmits", "sack_share") and scenario.flows[target].udp is not None
        ):
            yield Finding(
                (*loc, metric.name), f"{quote(target)} is a UDP flow; expected a TCP flow"
            )
        elif metric.name in ("jitter", "duplicates") and scenario.flows[target].udp is None:
            yield Finding(
                (*loc, metric.name), f"{quote(target)} is a TCP flow; expected a UDP flow"
            )


def windows(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find windows outside the scenario."""
    end = scenario.end_ps
    for loc, item in measured(scenario):
        if item.during is not None and end and item.during[1] > end:
            yield Finding(
                (*loc, "during"),
                f"{format_duration(item.during[1])} is after the end of the scenario, "
                f"{format_duration(end)}",
            )


def _bounds(loc: Loc, wanted: Expectation) -> Iterator[Finding]:
    if len(wanted.named) != 1:
        return
    bounds = [key for key in ("at_least", "at_most", "about") if getattr(wanted, key) is not None]
    if not bounds:
        yield Finding(loc, "expects nothing; expected at_least, at_most, or about with within")
    if wanted.about is not None:
        for key in ("at_least", "at_most"):
            if key in bounds:
                yield Finding(
                    (*loc, key), "is given beside `about`; expected one of the two", at_key=True
                )
        if wanted.within is None:
            yield Finding(
                (*loc, "within"), "is missing; expected a share such as `5%` beside `about`"
            )
    elif wanted.within is not None:
        yield Finding((*loc, "within"), "means nothing without `about`", at_key=True)
    if (
        wanted.at_least is not None
        and wanted.at_most is not None
        and wanted.at_least > wanted.at_most
    ):
        show = wanted.metric.format
        yield Finding(
            (*loc, "at_most"),
            f"{show(wanted.at_most)} is less than at_least, {show(wanted.at_least)}",
        )
