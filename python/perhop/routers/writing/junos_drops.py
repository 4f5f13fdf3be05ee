"""Queues of Junos: drop profiles and buffers."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from perhop.routers.writing.junos_filters import block
from perhop.units import MICROSECOND, WHOLE, format_duration, format_rate, format_share

if TYPE_CHECKING:
    from perhop.routers.writing.draft import Draft
    from perhop.routers.writing.plan import Part
    from perhop.scenario.model.network import Limit
    from perhop.scenario.model.queues import Red

__all__ = ["buffer", "drop_profile"]

_PERCENT: Final = WHOLE // 100
_MOST_BUFFER_US: Final = 200_000
_MICROSECONDS_PER_BYTE: Final = 8 * 10**6


def drop_profile(red: Red, part: Part, place: str, draft: Draft) -> list[str]:
    """Return a drop profile: a line between two fill levels of the queue, in percent.

    Args:
        red: The discipline.
        part: The class.
        place: The place of its queue in the scenario.
        draft: Where gaps and approximations are added.
    """
    rate = part.rate or part.capacity
    whole = part.queue.effective_limit(in_class=part.in_class).size(rate)
    at = f"{place}.red"
    levels = []
    for key, limit in (("min", red.min), ("max", red.effective_max)):
        level = Fraction(limit.size(rate) * 100, max(whole, 1))
        if level > 100:
            draft.gap(f"{at}.{key}", "is above the limit of the queue, where Junos drops anyway")
        levels.append(_whole(level, f"{at}.{key}", "fill levels", draft))
    low, high = levels[0], min(max(levels[1], levels[0] + 1), 100)
    chance = _whole(Fraction(red.probability, _PERCENT), f"{at}.probability", "chances", draft)
    if red.weight != WHOLE:
        reason = "drop profiles of Junos go by the current length of the queue"
        draft.near(f"{at}.weight", reason, f"a weight of {format_share(WHOLE)}")
    if chance < 100 and not (red.gentle and 2 * high == 100):
        reason = "drop profiles of Junos rise to 100% where the queue is full"
        draft.near(f"{at}.gentle", reason, "that")
    if red.ecn and not red.harddrop:
        draft.gap(f"{at}.harddrop", "Junos drops packets where the drop profile reaches 100%")
    points = [f"fill-level [ {low} {high} ];", f"drop-probability [ 0 {chance} ];"]
    return block("interpolate", points)


def buffer(limit: Limit, part: Part, whole: int, place: str, draft: Draft) -> str:
    """Return the buffer of a queue, as a time at the rate of the interface, `whole` bit/s."""
    size = limit.size(part.rate or part.capacity)
    us = min(max(-(-size * _MICROSECONDS_PER_BYTE // whole), 1), _MOST_BUFFER_US)
    holds = us * whole // _MICROSECONDS_PER_BYTE
    if limit.unit == "packets" or holds != size:
        given = f"{size} B"
        if limit.unit == "packets":
            given = f"{limit.amount} packets of 1500 B"
        most = format_duration(_MOST_BUFFER_US * MICROSECOND)
        rate = format_rate(whole)
        reason = f"Junos has buffers in whole microseconds of {rate}, up to {most}, not {given}"
        draft.near(place, reason, f"{us} us, {holds} B")
    return f"buffer-size temporal {us};"


def _whole(percent: Fraction, place: str, what: str, draft: Draft) -> int:
    """Return a percentage as a whole number from 0 to 100, at least 1 if it is not 0."""
    found = min(max(round(percent), 1 if percent else 0), 100)
    if found != percent and percent <= 100:
        given = f"{float(percent):.4g}%"
        draft.near(place, f"Junos has {what} in whole percent, not {given}", f"{found}%")
    return found
