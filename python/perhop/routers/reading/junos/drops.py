"""Drop profiles as random early detection."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from perhop.routers.reading.junos.values import percent

if TYPE_CHECKING:
    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.junos.tree import Node


@dataclass(frozen=True, slots=True)
class DropProfile:
    """A drop profile as the line of random early detection.

    Attributes:
        name: Its name in the configuration.
        low: The part of the queue up to which nothing is dropped.
        high: The part at which `probability` is reached.
        probability: The probability of a drop at `high`.
        place: Its line.
    """

    name: str
    low: Fraction
    high: Fraction
    probability: Fraction
    place: Place


def read_drop_profile(node: Node) -> DropProfile | None:
    """Return a drop profile; None if it has no points, which is noted.

    A profile is a line between points, or steps at them. Perhop has one line from no drops to a
    probability. So profiles with two points, such as from 0% at fill level 30 to 100% at 80, are
    exact; others get the line that begins and ends where they do. The last step reaches up to the
    full queue.
    """
    points: list[tuple[Fraction, Fraction]] = []
    settings = node.get("interpolate")
    if settings is not None:
        levels = [percent(word) for word in _values(settings, "fill-level")]
        drops = [percent(word) for word in _values(settings, "drop-probability")]
        points = [
            (level, drop)
            for level, drop in zip(levels, drops, strict=False)
            if level is not None and drop is not None
        ]
    else:
        for each in node.under("fill-level"):
            level, value = percent(each.word), each.value("drop-probability")
            drop = percent(value.word) if value is not None else None
            if level is None or drop is None:
                each.ignored("expected percentages of a fill level and a drop probability")
            else:
                points.append((level, drop))
    points.sort()
    if not points:
        node.ignored("expected a fill level with a drop probability")
        return None
    dropping = [(level, drop) for level, drop in points if drop > 0]
    if not dropping:
        node.modelled()
        return DropProfile(node.word, Fraction(1), Fraction(1), Fraction(1), node.place)
    before = [level for level, drop in points if drop == 0 and level < dropping[0][0]]
    low = before[-1] if before else (Fraction(0) if settings is not None else dropping[0][0])
    full = next(((level, drop) for level, drop in points if drop == 100), None)
    high, probability = full or dropping[-1]
    if settings is None and probability < 100:
        # The last step goes on to the full queue.
        high = Fraction(100)
    if high <= low:
        # One step: nothing below it, and everything above.
        low = max(high - 1, Fraction(0))
        high = low + 1
    found = DropProfile(node.word, low / 100, high / 100, probability / 100, node.place)
    inner = [point for point in points if low < point[0] < high]
    straight = all(drop * (high - low) == probability * (level - low) for level, drop in inner)
    if settings is not None and straight and probability == 100:
        node.modelled()
    elif settings is not None:
        node.approximated(_note(points, probability))
    else:
        node.approximated(_steps(low, high, probability))
    return found


def _values(settings: Node, key: str) -> list[str]:
    node = settings.get(key)
    if node is None:
        return []
    return node.values or [each.word for each in node]


def _steps(low: Fraction, high: Fraction, probability: Fraction) -> str:
    top = f"{float(probability):.4g}% at fill level {float(high):.4g}"
    return f"the steps become one line from 0% at fill level {float(low):.4g} to {top}"


def _note(points: list[tuple[Fraction, Fraction]], probability: Fraction) -> str:
    above = "" if probability == 100 else ", and rises to 100% above it"
    return f"one line from the last point without drops to the last one of {len(points)}{above}"
