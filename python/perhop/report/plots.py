"""Plots of anything against anything: lines, points and heat maps, in the style of all charts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from perhop.report.style import (
    LEGEND,
    LINE_WIDTH,
    SHAPES,
    Spec,
    chart,
    cycle,
    ladder,
    legend_columns,
    log_ticks,
    rounded,
    styles,
    titled,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Points = Sequence[tuple[float, float | None]]

__all__ = ["Scale", "heat_layers", "heat_map", "line_plot", "scatter_plot"]

_CELL: Final = 84
_ON_CELLS: Final = "#111111"
"""The colour of words on cells, which are light in dark pages, too."""

_MARKS: Final[Spec] = {
    **{key: value for key, value in LEGEND.items() if key != "symbolType"},
    "symbolSize": 90,
    "symbolStrokeWidth": 1.5,
}
"""A legend of points."""


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis: what it says, with the unit, and how values lie along it.

    `domain` is its two ends; what the values need, if it is not given.
    """

    title: str
    kind: Literal["linear", "log", "ordinal"] = "linear"
    domain: tuple[float, float] | None = None

    def encode(self, field: str, values: Sequence[float]) -> Spec:
        """The encoding of a field with these values."""
        if self.kind == "ordinal":
            axis: Spec = {"labelAngle": 0, "format": "~r"}
            return {"field": field, "type": "ordinal", "title": self.title, "axis": axis}
        low, high = self.domain or self._around(values)
        spec: Spec = {
            "field": field,
            "type": "quantitative",
            "title": self.title,
            "scale": {"domain": [low, high], "nice": False, "type": self.kind},
        }
        if self.kind == "log":
            spec["axis"] = {"values": log_ticks([low, high]), "format": "~r"}
        return spec

    def _around(self, values: Sequence[float]) -> tuple[float, float]:
        """Range from zero, or on a logarithm from a tick, to a little above the greatest value."""
        top = max(values, default=1.0) or 1.0
        if self.kind == "linear":
            return 0.0, 1.08 * top
        least = min((value for value in values if value > 0), default=top / 10)
        return max(tick for tick in ladder(top) if tick <= least), 1.3 * top


def line_plot(
    title: str,
    x: Scale,
    y: Scale,
    series: Mapping[str, Points],
    *,
    captions: Sequence[str] = (),
    points: bool = True,
) -> Spec:
    """A line for each series through its points, which have a marker each unless `points` says no.

    What is None is a gap.
    """
    names = list(series)
    values = [
        {"x": rounded(a), "y": None if b is None else rounded(b), "flow": name}
        for name, line in series.items()
        for a, b in line
    ]
    encoding = {
        "x": x.encode("x", [v["x"] for v in values]),  # type: ignore[misc]
        "y": y.encode("y", [v["y"] for v in values if v["y"] is not None]),  # type: ignore[misc]
    }
    look = styles(names)
    layers: list[Spec] = [
        {
            "data": {"values": values},
            "mark": {"type": "line", "strokeJoin": "round", "strokeWidth": LINE_WIDTH},
            "encoding": {**encoding, **look},
        }
    ]
    if points:
        # The legend then shows filled shapes, without the dashes around them.
        legend = {**_MARKS, "symbolStrokeWidth": 0, "columns": legend_columns(names)}
        colour = {**look["color"], "legend": legend}
        dash = {**look["strokeDash"], "legend": legend}
        layers[0]["encoding"] |= {"color": colour, "strokeDash": dash}
        marks: Spec = {"type": "point", "filled": True, "opacity": 1, "size": 55}
        layers.append(
            {
                "data": {"values": [v for v in values if v["y"] is not None]},
                "mark": marks,
                "encoding": {
                    **encoding,
                    "color": colour,
                    "shape": {**_shapes(names), "legend": legend},
                },
            }
        )
    return chart(layers, f"{y.title} over {x.title}", titled(title, list(captions)))


def scatter_plot(
    title: str,
    x: Scale,
    y: Scale,
    groups: Mapping[str, Points],
    *,
    captions: Sequence[str] = (),
) -> Spec:
    """A point for each pair; each group has a colour and a shape."""
    names = list(groups)
    values = [
        {"x": rounded(a), "y": rounded(b), "flow": name}
        for name, pairs in groups.items()
        for a, b in pairs
        if b is not None
    ]
    legend = {**_MARKS, "columns": legend_columns(names)}
    colour = {**styles(names)["color"], "legend": legend}
    layer: Spec = {
        "data": {"values": values},
        "mark": {"type": "point", "filled": False, "opacity": 0.8, "size": 32},
        "encoding": {
            "x": x.encode("x", [v["x"] for v in values]),  # type: ignore[misc]
            "y": y.encode("y", [v["y"] for v in values]),  # type: ignore[misc]
            "color": colour,
            "shape": {**_shapes(names), "legend": legend},
        },
    }
    return chart([layer], f"{y.title} against {x.title}", titled(title, list(captions)))


def heat_map(
    title: str,
    across: str,
    down: str,
    value: str,
    cells: Sequence[tuple[str, str, float | None, str]],
    *,
    captions: Sequence[str] = (),
) -> Spec:
    """A grid of cells, each a column, a row, a value and what is written there.

    Light to dark, so that it reads in black and white, and no darker than what is written bears;
    from zero, so that a small difference does not look like a large one.
    """
    rows = [{"x": a, "y": b, "z": c, "shown": shown} for a, b, c, shown in cells]
    layers = heat_layers(across, down, value, ("x", "y", "z"))
    for layer in layers:
        layer["data"] = {"values": rows}
    spec = chart(layers, f"{value} by {across} and {down}", titled(title, list(captions)))
    columns = len({row["x"] for row in rows})
    lines = len({row["y"] for row in rows})
    return {**spec, "width": max(3, columns) * _CELL, "height": max(2, lines) * _CELL // 2}


_ABOVE: Final[Spec] = {
    "titleAngle": 0,
    "titleAlign": "left",
    "titleBaseline": "bottom",
    "titleX": 0,
    "titleY": -8,
}
"""The title of a vertical axis above the cells: beside them, a long one is cut off at few rows."""


def heat_layers(across: str, down: str, value: str, fields: tuple[str, str, str]) -> list[Spec]:
    """The layers of a heat map whose rows have three `fields`: column, row and value.

    A row's `shown` is written into its cell.
    """
    x, y, z = fields
    encoding: Spec = {
        "y": {"field": y, "type": "ordinal", "sort": None, "title": down, "axis": _ABOVE},
        "x": {
            "field": x,
            "type": "ordinal",
            "sort": None,
            "title": across,
            "axis": {"labelAngle": 0},
        },
    }
    colour = {
        "field": z,
        "type": "quantitative",
        "title": value,
        "scale": {"scheme": {"name": "blues", "extent": [0.05, 0.6]}, "domainMin": 0},
        "legend": {"orient": "bottom", "titleFontWeight": "normal"},
    }
    words = {**encoding, "text": {"field": "shown"}}
    return [
        {"mark": "rect", "encoding": {**encoding, "color": colour}},
        {"mark": {"type": "text", "fontSize": 12, "color": _ON_CELLS}, "encoding": words},
    ]


def _shapes(names: list[str]) -> Spec:
    scale = {"domain": names, "range": cycle(SHAPES, len(names))}
    return {"field": "flow", "type": "nominal", "scale": scale, "legend": None}
