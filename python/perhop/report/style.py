"""The style of all charts: Vega-Lite's settings, colours, dashes and shapes.

Colours are Okabe and Ito's, which every kind of colour vision tells apart; each has a dash pattern
and a shape of its own, so that the charts also read in black and white.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from perhop.analysis import TOTAL
from perhop.report.colours import COLOURS, beside, dash_of
from perhop.report.labels import HEIGHT, WIDTH

Spec = dict[str, Any]
"""A Vega-Lite specification."""

SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"

SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
INK: Final = "#222222"
LINE_WIDTH: Final = 2.2

_DASHES: Final = ([1, 0], [8, 3], [2, 2], [10, 3, 2, 3], [5, 2], [14, 4])
_RIBBON: Final = "#C4C4C4"
LEGEND: Final[Spec] = {
    "orient": "bottom",
    "title": None,
    "columns": 6,
    "offset": 6,
    "symbolType": "stroke",
    "symbolSize": 1400,
    "symbolStrokeWidth": 3,
}
"""A legend of lines."""

CONFIG: Final[Spec] = {
    "font": "Helvetica, Arial, Liberation Sans, sans-serif",
    "background": "white",
    "view": {"stroke": None},
    "axis": {"labelFontSize": 12, "titleFontSize": 13, "titleFontWeight": "normal"},
    "axisX": {"grid": False, "labelFlush": False},
    "axisY": {"gridColor": "#E8E8E8", "domain": False, "titlePadding": 8},
    "legend": {"labelFontSize": 13, "labelLimit": 400},
}


TITLE_HEIGHT: Final = 42
"""Height in pixels of a title and a subtitle of a line each, with what parts them from the plot."""


_UNKNOWN: Final[Mapping[str, int]] = MappingProxyType({})


def styles(names: list[str], looks: Mapping[str, int] = _UNKNOWN) -> Spec:
    """The colour and dash of each line, from the looks of the page's names; the total is grey."""
    number = len(COLOURS)
    known = beside((name for name in names if name != TOTAL), looks)
    styled = {
        name: (COLOURS[look % number], _DASHES[dash_of(look)]) for name, look in known.items()
    }
    lines = [styled.get(name, (_RIBBON, [1, 0])) for name in names]
    legend = {**LEGEND, "columns": legend_columns(names)}

    def channel(values: list[Any]) -> Spec:
        return {
            "field": "flow",
            "type": "nominal",
            "scale": {"domain": names, "range": values},
            "legend": legend,
        }

    return {
        "color": channel([colour for colour, _ in lines]),
        "strokeDash": channel([dash for _, dash in lines]),
    }


def legend_columns(names: list[str]) -> int:
    """Return the most entries of a legend in a row that are no wider than the chart, about."""
    return max(1, min(6, WIDTH // (60 + 7 * max(map(len, names), default=0))))


def cycle(values: tuple[Any, ...], count: int) -> list[Any]:
    """`count` values, over and over."""
    return [values[i % len(values)] for i in range(count)]


def titled(title: str, captions: list[str]) -> Spec:
    """Return a title, and a subtitle with what the reader must know."""
    return {
        "text": title,
        "limit": WIDTH,
        "subtitle": "; ".join(captions),
        "anchor": "start",
        "frame": "group",
        "fontSize": 16,
        "subtitleFontSize": 12,
        "subtitleColor": "#555555",
        "offset": 12,
    }


def chart(layers: list[Spec], description: str, title: Spec, height: int = HEIGHT) -> Spec:
    """A chart of layers, one over the other."""
    return {
        "$schema": SCHEMA,
        "description": description,
        "title": title,
        "width": WIDTH,
        "height": height,
        "padding": 12,
        "layer": layers,
        "config": CONFIG,
    }


def time_axis(end_s: float) -> Spec:
    """The horizontal axis of a chart over the time of a run."""
    return {
        "field": "t",
        "type": "quantitative",
        "title": "time (s)",
        "scale": {"domain": [0, end_s], "nice": False},
        "axis": {"tickCount": 12},
    }


def step_lines(points: list[Spec], x: Spec, y: Spec, look: Spec, width: float) -> Spec:
    """A layer of lines that hold each value until the next one, with the look of `styles`."""
    return {
        "data": {"values": points},
        "mark": {
            "type": "line",
            "interpolate": "step-after",
            "strokeJoin": "round",
            "strokeWidth": width,
        },
        "encoding": {"x": x, "y": y, **look},
    }


def ladder(top: float) -> list[float]:
    """1, 2 and 5 times the powers of ten up to `top`, over some ten decades."""
    exponent = int(f"{top:e}".split("e")[1])
    return [float(f"{m}e{e}") for e in range(exponent - 10, exponent + 1) for m in (1, 2, 5)]


def log_ticks(domain: list[float]) -> list[float]:
    """Return the ticks of a logarithmic axis."""
    low, high = domain
    ticks = [tick for tick in ladder(high) if low <= tick <= high]
    return ticks if len(ticks) <= 10 else [t for t in ticks if f"{t:e}".startswith("1")]


def rounded(value: float) -> float:
    """Four significant digits: enough for any chart."""
    return float(f"{value:.4g}")
