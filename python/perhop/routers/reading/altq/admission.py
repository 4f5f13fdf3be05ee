"""Admission of classes: the curves of classes must not exceed those around them.

altqd admits a class of HFSC with one of its curves for both real time and link sharing, and changes
the other one then (`hfsc_class_parser`, `qop_hfsc_add_class` and `qop_hfsc_modify_class` of
libaltq's qop_hfsc.c).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Admission", "Curve", "are_under"]

Curve = tuple[int, int, int]
"""A first slope in bit/s, its time in picoseconds, and the second slope."""

_NULL: Final[Curve] = (0, 0, 0)
_NO_BANDWIDTH: Final = "admission failure (no bandwidth)"


def are_under(curves: Sequence[Curve], limit: Curve) -> bool:
    """Return whether the sum of curves is nowhere above another one (`is_gsc_under_sc`)."""

    def at(curve: Curve, time: int) -> int:
        first, lasts, last = curve
        return min(time, lasts) * first + max(time - lasts, 0) * last

    bends = {0} | {time for _, time, _ in curves}
    steep = sum(last for _, _, last in curves)
    if limit[1] > max(bends) and steep > limit[0]:
        bends.add(limit[1])
    below = all(sum(at(each, time) for each in curves) <= at(limit, time) for time in bends)
    return below and steep <= limit[2]


@dataclass(slots=True)
class Admission:
    """A class of HFSC, and what its children take.

    Attributes:
        realtime: Its curve in real time.
        linkshare: Its curve of link sharing.
        guarantees: The curves in real time of the classes below it.
        shares: The curves of link sharing of the classes below it.
    """

    realtime: Curve
    linkshare: Curve
    guarantees: list[Curve] = field(default_factory=list)
    shares: list[Curve] = field(default_factory=list)

    @staticmethod
    def interface(rate: int) -> Admission:
        """Return the class around all classes of an interface of `rate` bit/s."""
        reserved = rate // 10 * 8
        return Admission((reserved, 0, reserved), (rate, 0, rate))

    def refusal(self, own: Admission) -> str | None:
        """Add a class below this one; return why altqd refuses it, if it does."""
        first = own.realtime if own.realtime[2] <= own.linkshare[2] else own.linkshare
        for curve in (first, own.realtime, own.linkshare):
            if 0 < curve[0] < curve[2]:
                return "m1 must be 0 for convex!"
        if not (self._fits(first, self.guarantees, self.realtime) and self._fits(
            first, self.shares, self.linkshare
        )):  # fmt: skip
            return _NO_BANDWIDTH
        if not (self._fits(own.realtime, self.guarantees, self.realtime) and self._fits(
            own.linkshare, self.shares, self.linkshare
        )):  # fmt: skip
            return _NO_BANDWIDTH
        self.guarantees += [own.realtime] if own.realtime != _NULL else []
        self.shares += [own.linkshare] if own.linkshare != _NULL else []
        return None

    @staticmethod
    def _fits(curve: Curve, others: Sequence[Curve], limit: Curve) -> bool:
        if curve == _NULL:
            return True
        return limit != _NULL and are_under([*others, curve], limit)
