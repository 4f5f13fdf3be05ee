"""Hierarchical fair service curves: the curves of a class."""

from dataclasses import dataclass
from typing import Final

from perhop.scenario.model.base import Model
from perhop.scenario.model.network import Bandwidth, ClassBandwidth
from perhop.scenario.model.quantities import Duration, PositiveDuration, Size

HFSC: Final = "hfsc"
"""The scheduler's name."""

CURVES: Final = ("realtime", "linkshare", "upperlimit")
"""The keys of a class that hold curves."""

_PICOBITS: Final = 8 * 10**12


@dataclass(frozen=True, slots=True)
class Slopes:
    """A service curve of two slopes.

    Attributes:
        m1: The first slope in bit/s.
        d: The time for which it lasts, in picoseconds.
        m2: The second slope in bit/s, above zero.
    """

    m1: int
    d: int
    m2: int

    def service(self, time: int) -> int:
        """Return the service in a time, in 10⁻¹² bit."""
        first = min(time, self.d)
        return self.m1 * first + self.m2 * (time - first)


class Curve(Model):
    """A service curve: `{rate}`, `{m1, d, m2}`, or `{umax, dmax, rate}`."""

    rate: ClassBandwidth | None = None
    """The rate: the only slope, or the second one beside `umax` and `dmax`."""

    m1: ClassBandwidth | None = None
    """The first slope; without it, nothing is due in the time `d`."""

    d: Duration | None = None
    """The time for which the first slope lasts."""

    m2: ClassBandwidth | None = None
    """The second slope."""

    umax: Size | None = None
    """The bytes that are due in the time `dmax`, such as the longest packet."""

    dmax: PositiveDuration | None = None
    """The time in which `umax` is due."""

    @property
    def last(self) -> Bandwidth:
        """The last slope: the rate in the long run."""
        found = self.rate or self.m2
        assert found is not None  # a rule refuses curves without one
        return found

    def slopes(self, capacity: int) -> Slopes:
        """Return the slopes on a link, or in a parent class, of `capacity` bit/s.

        `umax` and `dmax` make a concave curve if the bytes are due faster than by the rate, and a
        convex one otherwise (`hfsc_get_sc2` of iproute2).
        """
        m2 = max(self.last.of(capacity), 1)
        if self.umax is not None and self.dmax is not None:
            first = -(-self.umax * _PICOBITS // self.dmax)
            if first > m2:
                return Slopes(first, self.dmax, m2)
            return Slopes(0, max(self.dmax - self.umax * _PICOBITS // m2, 0), m2)
        if self.d is None:
            return Slopes(m2, 0, m2)
        return Slopes(0 if self.m1 is None else self.m1.of(capacity), self.d, m2)
