"""Service curves of HFSC: as configurations state them, and as classes of scenarios have them.

A scenario has curves where these say more than shares: a real-time guarantee that is not the share
of the bandwidth, or a curve with two slopes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from perhop.scenario.model.hfsc import CURVES
from perhop.units import MAX_DURATION, format_duration, format_rate, format_share, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Curve", "Curves", "Slope"]


@dataclass(frozen=True, slots=True)
class Slope:
    """A rate, above zero.

    Attributes:
        amount: Bits per second, or parts per billion of the class above.
        share: True for parts per billion.
    """

    amount: int
    share: bool = False

    def __str__(self) -> str:
        """The rate as a scenario has it."""
        return format_share(self.amount) if self.share else format_rate(self.amount)

    def scaled(self, part: int, whole: int) -> Slope:
        """Return the slope in proportion."""
        return replace(self, amount=max(self.amount * part // whole, 1))


@dataclass(frozen=True, slots=True)
class Curve:
    """A service curve.

    Attributes:
        m2: The second slope.
        m1: The first slope; None if nothing is due in the time `d`.
        d: The time for which the first slope lasts, in picoseconds; 0 for one slope.
        umax: The bytes that are due in the time `d`, in place of `m1`.
    """

    m2: Slope
    m1: Slope | None = None
    d: int = 0
    umax: int | None = None

    @property
    def has_two_slopes(self) -> bool:
        """True if a rate is not the whole curve."""
        return self.d > 0 and self.m1 != self.m2

    def written(self) -> dict[str, str]:
        """Return the curve as a scenario has it."""
        if not self.has_two_slopes:
            return {"rate": str(self.m2)}
        time = format_duration(self.d)
        if self.umax is not None:
            return {"umax": format_size(self.umax), "dmax": time, "rate": str(self.m2)}
        first = {} if self.m1 is None else {"m1": str(self.m1)}
        return {**first, "d": time, "m2": str(self.m2)}

    def is_below(self, rate: int | None) -> bool:
        """Return whether the curve may limit a class of an interface of `rate` bit/s, if known."""
        if rate is None or self.has_two_slopes or self.m2.share:
            return True
        return self.m2.amount < rate

    def scaled(self, part: int, whole: int) -> Curve:
        """Return a curve of link sharing whose rates are scaled, and its time inversely.

        Virtual times of siblings only compare: if all curves are scaled alike, nothing changes.
        """
        first = None if self.m1 is None else self.m1.scaled(part, whole)
        time = min(self.d * whole // part, MAX_DURATION)
        return replace(self, m2=self.m2.scaled(part, whole), m1=first, d=time)


@dataclass(slots=True)
class Curves:
    """The service curves of a class, by the keys of a scenario; None for one that it lacks."""

    realtime: Curve | None = None
    linkshare: Curve | None = None
    upperlimit: Curve | None = None

    def limit(self, *, leaf: bool) -> Curve | None:
        """Return the most that the class gets: a class without a share never borrows."""
        if leaf and self.linkshare is None and self.realtime is not None:
            return self.realtime
        return self.upperlimit

    @property
    def is_capped(self) -> bool:
        """True if the upper limit may be below the share."""
        limit, share = self.upperlimit, self.linkshare
        if limit is None or share is None:
            return False
        same = limit.m2.share == share.m2.share
        return not same or limit.m2.amount < share.m2.amount

    def beyond_shares(self, *, leaf: bool) -> Iterator[tuple[str, str]]:
        """Yield what rates do not say of the curves: the key of each, and what is lost.

        Args:
            leaf: True for a class with a queue. Only these have real-time guarantees.
        """
        for key in CURVES:
            curve: Curve | None = getattr(self, key)
            if curve is not None and curve.has_two_slopes and (leaf or key != "realtime"):
                yield key, "only the slope m2 of a curve is modelled"
        guaranteed, share = self.realtime if leaf else None, self.linkshare
        if guaranteed is not None and share is not None and guaranteed.m2 != share.m2:
            yield "realtime", "the excess is shared by the guarantee in real time"

    def apply(self, settings: dict[str, Any], *, leaf: bool, part: int = 1, whole: int = 1) -> None:
        """Set the keys of a class of a scenario that has curves.

        Args:
            settings: The keys of the class that this changes. Its `bandwidth` is a curve of one
                slope; without it, the class has all of the class above.
            leaf: True for a class with a queue.
            part: Curves of link sharing are scaled by `part / whole`.
            whole: See `part`.
        """
        if self.realtime is not None and leaf:
            settings["realtime"] = self.realtime.written()
        share = self.linkshare
        if share is not None and share.has_two_slopes and settings.pop("bandwidth", None):
            settings["linkshare"] = share.scaled(part, whole).written()
        limit = self.limit(leaf=leaf)
        if limit is not None:
            settings["upperlimit"] = limit.written()
