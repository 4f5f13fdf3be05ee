"""HFSC, Linux's service curves: a class in tc's words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perhop.units import MILLISECOND

if TYPE_CHECKING:
    from perhop.scenario.model.hfsc import Slopes
    from perhop.scenario.resolve import ServiceCurves

__all__ = ["Class"]


@dataclass(frozen=True, slots=True)
class Class:
    """A class of HFSC.

    Attributes:
        curves: Its service curves.
    """

    curves: ServiceCurves

    def __str__(self) -> str:
        """The words of tc."""
        return " ".join(
            ["hfsc", *(f"{key} {_words(curve)}" for key, curve in self.curves.stated())]
        )


def _words(curve: Slopes) -> str:
    if not curve.d:
        return f"m2 {curve.m2}bit"
    # Linux counts microseconds; a shorter time would let a convex curve begin too early.
    micros = -(-curve.d * 1000 // MILLISECOND)
    return f"m1 {curve.m1}bit d {micros}us m2 {curve.m2}bit"
