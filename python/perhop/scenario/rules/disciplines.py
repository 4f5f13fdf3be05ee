"""Rules on queue disciplines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.scenario.resolve.elements import queues
from perhop.scenario.rules.findings import Finding
from perhop.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.network import Limit
    from perhop.scenario.model.queues import Wred
    from perhop.scenario.resolve.scenario import ResolvedScenario


def disciplines(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find queues with several disciplines, or with inconsistent settings."""
    for loc, queue in queues(scenario):
        names = list(queue.disciplines)
        for other in names[1:]:
            yield Finding(
                (*loc, other),
                f"is given beside `{names[0]}`; expected one discipline",
                at_key=True,
            )
        if names and queue.drop == "head":
            yield Finding((*loc, "drop"), f"is given beside `{names[0]}`, which decides itself")
        if queue.red is not None:
            low, high = queue.red.min, queue.red.effective_max
            yield from _thresholds((*loc, "red"), low, high)
        if queue.wred is not None:
            yield from _profiles((*loc, "wred"), queue.wred)
        for name, codel in (("codel", queue.codel), ("fq-codel", queue.fq_codel)):
            if codel is not None and codel.target >= codel.interval:
                yield Finding(
                    (*loc, name, "target"),
                    f"{format_duration(codel.target)} is not less than the interval, "
                    f"{format_duration(codel.interval)}",
                )


def _profiles(loc: Loc, wred: Wred) -> Iterator[Finding]:
    seen: set[int] = set()
    for index, profile in enumerate(wred.profiles):
        here: Loc = (*loc, "profiles", index)
        yield from _thresholds(here, profile.min, profile.max)
        if profile.min.unit != "packets":
            yield Finding(
                (*here, "min"), "is not in packets, as the defaults of other code points are"
            )
        for place, dscp in enumerate(profile.dscp):
            if dscp in seen:
                yield Finding((*here, "dscp", place), "has thresholds already")
            seen.add(dscp)


def _thresholds(loc: Loc, low: Limit, high: Limit) -> Iterator[Finding]:
    if low.unit != high.unit:
        yield Finding((*loc, "max"), f"is in another unit than min; expected {low.unit} in both")
    elif low.amount >= high.amount:
        yield Finding((*loc, "max"), "is not above min")
