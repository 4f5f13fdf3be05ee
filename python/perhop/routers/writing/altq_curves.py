"""Service curves of ALTQ's HFSC, and those that ALTQ does not admit.

A curve has whole milliseconds, and one that becomes steeper begins with zero. Curves of the classes
inside another one do not exceed it. Real-time curves take at most 80% of an interface
(`qop_hfsc.c` of KAME's libaltq, `pfctl_altq.c` of FreeBSD).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perhop.scenario.model.hfsc import CURVES
from perhop.scenario.resolve import ServiceCurves, are_below, linear, service_curves, steepest
from perhop.units import MILLISECOND, format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.writing.draft import Draft
    from perhop.routers.writing.plan import Part
    from perhop.scenario.model.hfsc import Slopes

__all__ = ["around", "interface", "milliseconds", "of"]

_REAL_TIME: Final = 80
"""The percentage of an interface that real-time curves may take."""


def of(part: Part, interface: int, draft: Draft) -> ServiceCurves:
    """Return the curves of a class at an interface of some bit/s; a ceiling is an upper limit."""
    capacity = part.capacity
    found = service_curves(part.class_, part.rate or capacity, capacity)
    if part.ceiling is not None:
        found = replace(found, upperlimit=linear(part.ceiling.rate))
    kept: dict[str, Slopes | None] = {}
    for key in CURVES:
        curve: Slopes | None = getattr(found, key)
        kept[key] = None if curve is None else _curve(curve, f"{part.place}.{key}", draft)
    share, limit = kept["linkshare"], kept["upperlimit"]
    assert share is not None
    if limit is not None and not are_below([limit], linear(interface)):
        if limit.d:
            reason = "ALTQ refuses an upper limit above the rate of the interface"
            draft.gap(f"{part.place}.upperlimit", reason)
        limit = None  # it has no effect
    return ServiceCurves(kept["realtime"], share, limit)


def milliseconds(curve: Slopes) -> int:
    """Return the time for which the first slope of a curve lasts."""
    return curve.d // MILLISECOND


def _curve(curve: Slopes, place: str, draft: Draft) -> Slopes:
    """Return a curve as ALTQ has it."""
    if not curve.d or curve.m1 == curve.m2:
        return linear(curve.m2)
    if 0 < curve.m1 < curve.m2:
        draft.gap(place, "a curve of ALTQ that becomes steeper begins with 0: without `m1`")
    time = -(-curve.d // MILLISECOND) * MILLISECOND
    if time != curve.d:
        draft.near(place, "ALTQ counts milliseconds", f"a first slope for {format_duration(time)}")
    return replace(curve, d=time)


def interface(rate: int) -> ServiceCurves:
    """Return the curves of an interface of some bit/s."""
    return ServiceCurves(linear(rate // 100 * _REAL_TIME), linear(rate), None)


def around(
    outer: ServiceCurves, inside: Sequence[ServiceCurves], place: str, draft: Draft
) -> ServiceCurves:
    """Return the curves of a class, with a guarantee that covers those of the classes inside it.

    Args:
        outer: Its curves. Only the interface has a guarantee of its own.
        inside: The curves of the classes inside it.
        place: Their place in the scenario.
        draft: Where those are added that ALTQ does not admit.
    """
    if not are_below([each.linkshare for each in inside], outer.linkshare):
        reason = "ALTQ refuses curves of link sharing that exceed that of the class around them"
        draft.gap(place, reason)
    guarantees = [each.realtime for each in inside if each.realtime is not None]
    if outer.realtime is None:
        return replace(outer, realtime=linear(steepest(guarantees)) if guarantees else None)
    if not are_below(guarantees, outer.realtime):
        draft.gap(place, f"ALTQ refuses guarantees in real time above {_REAL_TIME}% of a link")
    return outer
