"""Calls in reports: a table of their quality, and the chart of their scores over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from perhop import analysis
from perhop.report import text
from perhop.report.colours import dataset_looks
from perhop.report.style import (
    INK,
    LINE_WIDTH,
    Spec,
    chart,
    rounded,
    step_lines,
    styles,
    time_axis,
    titled,
)
from perhop.report.tables import Column, Table

if TYPE_CHECKING:
    from perhop.analysis import Call
    from perhop.dataset import Dataset

__all__ = ["call_table", "mos_chart"]

_SATISFACTION = (
    (4.34, "very satisfied"),
    (4.03, "satisfied"),
    (3.6, "some users dissatisfied"),
    (3.1, "many users dissatisfied"),
    (2.58, "nearly all users dissatisfied"),
)
"""Lower limits of the categories of G.107, annex B, which are those of G.109."""

_MOST_LINES = 6
_TOP = 4.52


def call_table(dataset: Dataset) -> Table | None:
    """Return the quality of each flow's calls; None without calls."""
    rows = []
    unrated = []
    phases = [analysis.seconds(phase) for phase in dataset.scenario.phases_ps]
    windows = [None, *phases] if len(phases) > 1 else [None]
    for name, flow in dataset.scenario.flows.items():
        if flow.voice is None:
            continue
        if flow.voice.impairment is None:
            unrated.append(name)
        for window in windows:
            found = analysis.calls(dataset, name, window)
            if found or window is None:
                rows.append((*_names(name, flow.voice.codec, found, window), *_cells(found)))
    if not rows:
        return None
    heads = ("MOS: worst", "median", "mean", "R: worst", "mouth to ear", "worst", "lost", "late")
    left = (Column(name, "left") for name in ("flow", "codec"))
    columns = (*left, *map(Column, ("calls", "during", *heads, "burst ratio")))
    note = (
        "R and MOS by ITU-T G.107: from 4.34 users are very satisfied, from 4.03 satisfied; from "
        "3.60 some are dissatisfied, from 3.10 many, and below nearly all. Late packets arrived "
        "after their time of playout. Mouth to ear: packetisation, look-ahead, network and jitter "
        "buffer."
    )
    if unrated:
        note += (
            f" {text.listed(unrated)}: G.113 has no impairment factors of the codec, so that "
            "there is no score without `ie` and `bpl`."
        )
    return Table("Calls", columns, tuple(rows), note)


def _names(
    name: str, codec: str, found: list[Call], window: analysis.Window | None
) -> tuple[str, ...]:
    if window is not None:
        return "", "", "", text.window(*window)
    return name, codec, text.count(len(found)), "all"


def _cells(found: list[Call]) -> tuple[str, ...]:
    def value(attribute: str, statistic: str) -> float | None:
        values = analysis.of_calls(found, attribute)
        return None if values is None else float(getattr(values, statistic))

    bursts = value("burst_ratio", "mean")
    return (
        *(_score(value("mos", name)) for name in ("worst", "median", "mean")),
        _rating(value("r_factor", "worst")),
        *(text.duration(value("mouth_to_ear_s", name)) for name in ("mean", "worst")),
        *(text.share(value(name, "mean")) for name in ("lost", "late")),
        text.ABSENT if bursts is None else f"{bursts:.2f}",
    )


def _score(value: float | None) -> str:
    return text.ABSENT if value is None else f"{value:.2f}"


def _rating(value: float | None) -> str:
    return text.ABSENT if value is None else f"{value:.1f}"


def mos_chart(dataset: Dataset) -> Spec | None:
    """Return the chart of the worst call's score of each flow over time; None without scores.

    Of more than six flows, those with the worst scores are drawn.
    """
    scores = analysis.mos_over_time(dataset)
    if scores.is_empty():
        return None
    means = scores.group_by("flow").agg(pl.mean("mos")).sort("mos", "flow")["flow"].to_list()
    kept = means[:_MOST_LINES]
    names = [name for name in dataset.scenario.flows if name in kept]
    points: list[Spec] = []
    for name in names:
        end = None
        for _, start, stop, score in scores.filter(flow=name).iter_rows():
            if end is not None and start > end + 1e-9:
                points += [_point(name, end, points[-1]["y"]), _point(name, end, None)]
            points.append(_point(name, start, rounded(score)))
            end = stop
        if end is not None:
            points.append(_point(name, end, points[-1]["y"]))
    x = time_axis(dataset.scenario.end_ps / 1e12)
    y: Spec = {
        "field": "y",
        "type": "quantitative",
        "title": "mean opinion score",
        "scale": {"domain": [1, 4.6], "nice": False},
        "axis": {"values": [1, 2, 3, 4], "format": "d"},
    }
    look = styles(names, dataset_looks(dataset))
    layers: list[Spec] = [*_limits(y), step_lines(points, x, y, look, LINE_WIDTH)]
    captions = ["mean opinion score of the worst call in each interval, by ITU-T G.107"]
    hidden = len(means) - len(names)
    if hidden > 0:
        captions.append(
            f"the {_MOST_LINES} flows with the lowest scores; {hidden} more in the table"
        )
    title = titled(dataset.scenario.title or dataset.scenario.name, captions)
    return chart(layers, f"Mean opinion scores of {text.listed(names)} over time", title, 240)


def _point(name: str, t: float, y: float | None) -> Spec:
    return {"t": t, "y": y, "flow": name}


def _limits(y: Spec) -> list[Spec]:
    """Return lines at the limits of user satisfaction, each category above its lower limit."""
    values = [{"y": limit, "name": name} for limit, name in _SATISFACTION]
    # The best calls have a score slightly above the highest limit.
    heights = [limit + 0.09 if limit < _SATISFACTION[0][0] else _TOP for limit, _ in _SATISFACTION]
    beside = [{**value, "y": height} for value, height in zip(values, heights, strict=True)]
    return [
        {
            "data": {"values": values},
            "mark": {"type": "rule", "color": "#9A9A9A", "strokeDash": [3, 3]},
            "encoding": {"y": y},
        },
        {
            "data": {"values": beside},
            "mark": {
                "type": "text",
                "align": "left",
                "x": 4,
                "color": INK,
                "fontSize": 10,
            },
            "encoding": {"y": y, "text": {"field": "name"}},
        },
    ]
