"""HFSC, Linux's service curves: a class in tc's words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perhop.scenario.model.hfsc import Slopes
from perhop.units import MILLISECOND

if TYPE_CHECKING:
    from perhop.scenario import Class as ScenarioClass

__all__ = ["Class", "linear", "of"]


@dataclass(frozen=True, slots=True)
class Class:
    """A class of HFSC.

    Attributes:
        rt: Real-time curve.
        ls: Link-sharing curve.
        ul: Upper limit.
    """

    rt: Slopes | None
    ls: Slopes
    ul: Slopes | None

    def __str__(self) -> str:
        """The words of tc."""
        words = ["hfsc"]
        for key, curve in (("rt", self.rt), ("ls", self.ls), ("ul", self.ul)):
            if curve is not None:
                words += [key, _words(curve)]
        return " ".join(words)


def linear(rate: int) -> Slopes:
    """Return a curve of one slope, in bit/s."""
    return Slopes(rate, 0, rate)


def of(class_: ScenarioClass, rate: int, capacity: int) -> Class:
    """Return a class of a scenario that is guaranteed `rate` of the `capacity` above it."""
    realtime, share, limit = class_.realtime, class_.linkshare, class_.upperlimit
    return Class(
        rt=None if realtime is None else realtime.slopes(capacity),
        ls=linear(max(rate, 1)) if share is None else share.slopes(capacity),
        ul=None if limit is None else limit.slopes(capacity),
    )


def _words(curve: Slopes) -> str:
    if not curve.d:
        return f"m2 {curve.m2}bit"
    # Linux counts microseconds; a shorter time would let a convex curve begin too early.
    micros = -(-curve.d * 1000 // MILLISECOND)
    return f"m1 {curve.m1}bit d {micros}us m2 {curve.m2}bit"
