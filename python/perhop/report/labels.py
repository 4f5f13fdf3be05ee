"""The placement of labels in a chart over time, without overlaps."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, log10
from typing import Final, Literal

from perhop.dataset import Dataset
from perhop.report import text
from perhop.report.timeline import marked

WIDTH: Final = 880
HEIGHT: Final = 340
"""The plot's size in pixels."""

FONT: Final = 12
_CHARACTER: Final = 0.58 * FONT
_HALF: Final = 0.75 * FONT
_FILL: Final = 0.6
_BELOW: Final = 15
_ABOVE: Final = -13
_MOST_ROWS: Final = 4


def wide(words: str) -> float:
    """Return about how wide words are in pixels."""
    return len(words) * _CHARACTER


@dataclass(frozen=True, slots=True)
class Axis:
    """A vertical axis from `low` to `high` in some unit, linear or logarithmic."""

    low: float
    high: float
    log: bool

    def pixel(self, value: float) -> float:
        """Return the distance of a value from the plot's top, in pixels."""
        if not self.log:
            return HEIGHT * (1 - (value - self.low) / (self.high - self.low))
        part = log10(max(value, self.low) / self.low) / log10(self.high / self.low)
        return HEIGHT * (1 - part)


@dataclass(frozen=True, slots=True)
class TimelinePhase:
    """A phase of the timeline, and the lines in it: per name, times and heights of its steps."""

    start: float
    end: float
    lines: Mapping[str, list[tuple[float, float]]]

    def ranges(self, half: float) -> dict[str, tuple[float, float]]:
        """The least and greatest height of each line within `half` seconds of the middle."""
        middle = (self.start + self.end) / 2
        found = {}
        for name, steps in self.lines.items():
            near = [height for t, height in steps if abs(t - middle) <= half]
            if near:
                found[name] = min(near), max(near)
        return found


@dataclass(frozen=True, slots=True)
class Label:
    """A name at a point of the data, `dy` pixels below it."""

    text: str
    t: float
    y: float
    dy: int


@dataclass(frozen=True, slots=True)
class Change:
    """Label of a change at an instant, in a row above the plot; row 0 is the lowest."""

    text: str
    t: float
    row: int
    align: Literal["left", "right"]


def place(
    phases: list[TimelinePhase], end: float, step: float, axis: Axis, ceiling: float
) -> list[Label]:
    """Place the name of each line in each phase, below or above it, without overlaps.

    Args:
        phases: The timeline's phases.
        end: The right end of the time axis, in seconds.
        step: The width of a line's steps, in seconds.
        axis: The vertical axis.
        ceiling: The height of a horizontal rule, which names stay under.
    """
    placed = []
    for phase in phases:
        middle = (phase.start + phase.end) / 2
        room = (phase.end - phase.start) / end * WIDTH
        taken = [(-inf, axis.pixel(ceiling))]
        for name in phase.lines:
            width = wide(name)
            if width > _FILL * room:
                continue
            ranges = phase.ranges(width / 2 / WIDTH * end + step)
            if name not in ranges:
                continue
            low, high = (max(height, axis.low) for height in ranges.pop(name))
            others = [(axis.pixel(top), axis.pixel(bottom)) for bottom, top in ranges.values()]
            for height, dy in ((low, _BELOW), (high, _ABOVE)):
                y = axis.pixel(height) + dy
                clear = all(y + _HALF < top or bottom < y - _HALF for top, bottom in others + taken)
                if clear and 0 < y < HEIGHT - _HALF:
                    placed.append(Label(name, middle, height, dy))
                    taken.append((y - _HALF, y + _HALF))
                    break
    return placed


def visible_instants(instants: list[float], end: float) -> list[float]:
    """Return those of sorted instants that are at least half a pixel apart.

    Args:
        instants: Seconds.
        end: The right end of the time axis, in seconds.
    """
    seen: list[float] = []
    for instant in instants:
        if not seen or (instant - seen[-1]) / end * WIDTH >= 0.5:
            seen.append(instant)
    return seen


def changes(dataset: Dataset) -> list[Change]:
    """Return the labels of starts, stops and changes, in rows that do not overlap.

    Changes of the network are left out if they are many.
    """
    happening: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    end = dataset.scenario.end_ps
    for name, flow in dataset.scenario.flows.items():
        for start in flow.starts:
            happening[start]["starts"].append(name)
        if flow.stop is not None and flow.stop <= end:
            happening[flow.stop]["stops"].append(name)
    for change in marked(dataset.scenario):
        happening[change.at].setdefault(text.change(change), [])
    free = [0.0] * _MOST_ROWS
    marks = []
    for instant in sorted(happening):
        words = ", ".join(_event(names, verb) for verb, names in happening[instant].items())
        x = instant / end * WIDTH
        width = wide(words)
        from_right = x + width > WIDTH
        left = x - width if from_right else x
        row = next((i for i, used in enumerate(free) if used <= left), None)
        if row is None:
            row, words = _MOST_ROWS - 1, ""
        else:
            free[row] = left + width + FONT
        align: Literal["left", "right"] = "right" if from_right else "left"
        marks.append(Change(words, instant / 1e12, row, align))
    return marks


def _event(names: list[str], verb: str) -> str:
    if not names:
        return verb
    if len(names) > 2:
        return f"{len(names)} flows {verb.removesuffix('s')}"
    return f"{' and '.join(names)} {verb if len(names) == 1 else verb.removesuffix('s')}"
