"""Rules on channels with a base station."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.scenario.model.ends import by_end
from perhop.scenario.model.loss import BurstLoss
from perhop.scenario.rules.findings import Finding, known
from perhop.units import format_rate, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.changes import Change
    from perhop.scenario.model.lte import Lte
    from perhop.scenario.model.topology import Link
    from perhop.scenario.resolve.scenario import ResolvedScenario


def cells(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find links that do not join their base station, and rates and losses without meaning."""
    found = {name: each.lte for name, each in scenario.channels.items() if each.lte is not None}
    for name, cell in found.items():
        loc: Loc = ("channels", name, "lte", "base_station")
        yield from known(cell.base_station, scenario.nodes, "node", loc)
    for index, link in enumerate(scenario.links):
        lte = found.get(link.channel or "")
        if lte is None:
            continue
        if lte.base_station in scenario.nodes and lte.base_station not in link.ends:
            yield Finding(
                ("links", index, "channel"),
                f"{quote(lte.base_station)}, the base station of {quote(str(link.channel))}, "
                "is not an end of this link; expected a link of the base station",
            )
        yield from _values(lte, link, ("links", index))
        yield from _traces(lte, link, ("links", index))
    directions = scenario.directions
    for index, change in enumerate(scenario.changes):
        if change.on in directions:
            lte = found.get(directions[change.on][0].channel or "")
            if lte is not None:
                yield from _values(lte, change, ("changes", index))


def _values(lte: Lte, of: Link | Change, loc: Loc) -> Iterator[Finding]:
    """Find a rate of less than a byte in a resource block, and losses in bursts."""
    rates = list(by_end(of.rate).values()) or ([] if of.rate is None else [of.rate])
    least = min((rate for rate in rates if isinstance(rate, int)), default=lte.least_rate)
    if least < lte.least_rate:
        yield Finding(
            (*loc, "rate"),
            f"{format_rate(least)} is less than {format_rate(lte.least_rate)}, a byte in each of "
            f"the {lte.resource_blocks} resource blocks of a millisecond; expected at least that, "
            "or a channel of less `bandwidth`",
        )
    losses = [*by_end(of.loss).values(), of.loss]
    if any(isinstance(loss, BurstLoss) for loss in losses):
        yield Finding(
            (*loc, "loss"),
            "a transport block is not lost in bursts; expected a share such as `10%`",
        )


def _traces(lte: Lte, link: Link, loc: Loc) -> Iterator[Finding]:
    """Find traces of more than rates, and rates of less than a byte in a resource block."""
    for end, trace in link.trace.items():
        if any(trace.sets(key) for key in ("delay", "jitter", "loss")):
            yield Finding(
                (*loc, "trace", end),
                "a cell decides when packets arrive; expected a trace of rates alone",
            )
        steps = trace.effective_steps if trace.steps is not None else ()
        rates = [step.rate for step in steps if step.rate]
        if rates and min(rates) < lte.least_rate:
            yield Finding(
                (*loc, "trace", end),
                f"{format_rate(min(rates))} is less than {format_rate(lte.least_rate)}, a byte in "
                f"each of the {lte.resource_blocks} resource blocks of a millisecond; expected 0 "
                "or at least that",
            )
