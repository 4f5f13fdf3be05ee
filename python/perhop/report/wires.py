"""Links in the drawing of a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["Point", "Way", "Wire", "colour_of"]

_BUSY: Final = ((0.9, "#D55E00"), (0.5, "#E69F00"), (0.0, "#0072B2"))
"""The colours of use: from 90%, from 50%, and below."""

_IDLE: Final = "#C4C4C4"

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Way:
    """One direction of a link.

    Attributes:
        name: Its name in results.
        use: The share of the time that it was busy; None if unknown.
    """

    name: str
    use: float | None


@dataclass(frozen=True, slots=True)
class Wire:
    """A link in a drawing, from its first end to its second one.

    Attributes:
        ends: The nodes.
        rate: Its rates in words.
        delay: Its delays in words; nothing without one.
        ways: Both directions, that from the first end first.
    """

    ends: tuple[str, str]
    rate: str
    delay: str
    ways: tuple[Way, Way]


def colour_of(use: float | None) -> str:
    """Return the colour of a direction with this use."""
    return next((colour for least, colour in _BUSY if use and use >= least), _IDLE)
