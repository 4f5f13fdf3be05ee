"""Service curves of classes in bit/s, and sums of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perhop.scenario.model.hfsc import Slopes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.scenario.model.classes import Class


@dataclass(frozen=True, slots=True)
class ServiceCurves:
    """The service curves of a class.

    Attributes:
        realtime: The service that is guaranteed; None without.
        linkshare: The share of the bandwidth.
        upperlimit: The most that sharing gives; None without.
    """

    realtime: Slopes | None
    linkshare: Slopes
    upperlimit: Slopes | None

    def stated(self) -> Iterator[tuple[str, Slopes]]:
        """Yield the curves by their words in ALTQ and Linux."""
        for word, curve in (("rt", self.realtime), ("ls", self.linkshare), ("ul", self.upperlimit)):
            if curve is not None:
                yield word, curve


def linear(rate: int) -> Slopes:
    """Return a curve of one slope, in bit/s."""
    return Slopes(rate, 0, rate)


def service_curves(class_: Class, rate: int, capacity: int) -> ServiceCurves:
    """Return the curves of a class that is guaranteed `rate` of the `capacity` above it."""
    realtime, share, limit = class_.realtime, class_.linkshare, class_.upperlimit
    return ServiceCurves(
        None if realtime is None else realtime.slopes(capacity),
        linear(max(rate, 1)) if share is None else share.slopes(capacity),
        None if limit is None else limit.slopes(capacity),
    )


def steepest(curves: Sequence[Slopes]) -> int:
    """Return the greatest mean rate that curves demand together of any time from the beginning."""
    times = {curve.d for curve in curves if curve.d}
    means = [-(-sum(curve.service(time) for curve in curves) // time) for time in times]
    return max([*means, sum(curve.m2 for curve in curves)])


def are_below(curves: Sequence[Slopes], limit: Slopes) -> bool:
    """Return whether curves together nowhere exceed another one."""
    times = {curve.d for curve in (*curves, limit)}
    return sum(curve.m2 for curve in curves) <= limit.m2 and all(
        sum(curve.service(time) for curve in curves) <= limit.service(time) for time in times
    )
