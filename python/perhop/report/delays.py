"""Charts of delays, backlogs and drops over time, and of the distribution of delays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop import analysis
from perhop.report import labels, text
from perhop.report.charts import distribution_axes, drawn_flows, grid_s, rules
from perhop.report.colours import MOST_FLOWS, dataset_looks
from perhop.report.style import (
    LINE_WIDTH,
    Spec,
    chart,
    rounded,
    step_lines,
    styles,
    time_axis,
    titled,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from perhop.dataset import Dataset

_HEIGHT: Final = 240
_MOST_CORNERS: Final = 800

Rows = list[tuple[str, float, float, float]]
"""Names, edges of cells in seconds, and values."""


def rtt_chart(dataset: Dataset) -> Spec | None:
    """Return the chart of round-trip times of flows and pings over time; None without any."""
    found = analysis.round_trips(dataset, grid_s(dataset))
    return _times(dataset, found, "round-trip time", "mean round-trip times of flows and pings")


def queueing_chart(dataset: Dataset) -> Spec | None:
    """Return the chart of queueing delays of flows over time; None without any."""
    found = analysis.queueing_delays(dataset, grid_s(dataset))
    caption = "mean one-way delay of each flow above its smallest one"
    return _times(dataset, found, "queueing delay", caption)


def backlog_chart(dataset: Dataset) -> Spec | None:
    """Return the chart of the backlogs of classes over time; None if queues are always empty."""
    found = analysis.backlogs(dataset, grid_s(dataset))
    known = dataset_looks(dataset)
    looks: dict[str, int] = {}
    rows = []
    for link, class_, *cell in found.iter_rows():
        line = link if class_ == "all" else f"{link} {class_}"
        rows.append((line, *cell))
        if class_ in known:
            looks[line] = known[class_]
    factor, unit = text.size_unit(max((row[3] for row in rows), default=0))
    caption = "backlog of each class of a link, the greatest in each interval"
    return _chart(dataset, rows, "backlog", (factor, unit), caption, looks)


def drops_chart(dataset: Dataset) -> Spec | None:
    """Return the chart of lost packets over time by cause; None without losses."""
    found = analysis.drops(dataset, grid_s(dataset))
    return _chart(
        dataset,
        found.rows(),
        "lost packets",
        (1.0, "packets/s"),
        "packets lost by cause",
        {},
        zero=True,
    )


def delay_chart(dataset: Dataset) -> Spec | None:
    """Return the chart of the distribution of one-way delays of flows; None without any."""
    curves = {
        flow: bins
        for flow in drawn_flows(dataset)
        if (bins := analysis.histogram(dataset, flow, "owd")) is not None and len(bins)
    }
    return distribution_chart(
        dataset.scenario.title or dataset.scenario.name,
        curves,
        "one-way delay",
        "arrived within this time",
        ["one-way delays of the data packets of flows that arrived"],
        dataset_looks(dataset),
    )


def distribution_chart(
    title: str,
    curves: dict[str, pl.DataFrame],
    across: str,
    up: str,
    captions: list[str],
    looks: Mapping[str, int],
) -> Spec | None:
    """Return the chart of the distribution function of some histograms; None without any.

    Args:
        title: The title.
        curves: Histograms, as `analysis.histogram` returns them, by name.
        across: The name of the horizontal axis, which is in seconds.
        up: The name of the vertical axis, a share.
        captions: What the reader must know.
        looks: The looks of names in the page.
    """
    if not curves:
        return None
    least = float(min(min(bins["low_s"]) for bins in curves.values()))
    greatest = float(max(max(bins["high_s"]) for bins in curves.values()))
    factor, x, y = distribution_axes(least, greatest, across, up)
    points = [
        {"t": rounded(time / factor), "y": rounded(part), "flow": name}
        for name, bins in curves.items()
        for time, part in _thinned(_distribution(bins))
    ]
    layer = step_lines(points, x, y, styles(list(curves), looks), LINE_WIDTH)
    layer["mark"]["interpolate"] = "linear"
    description = f"Distribution of the {across} of {text.listed(list(curves))}"
    return chart([layer], description, titled(title, captions), _HEIGHT)


def _distribution(bins: pl.DataFrame) -> list[tuple[float, float]]:
    """Return the corners of the distribution function of a histogram: seconds and shares."""
    ordered = bins.select("low_s", "high_s", "samples").sort("low_s")
    total = float(ordered["samples"].sum())
    corners: list[tuple[float, float]] = []
    before = 0.0
    for low, high, samples in ordered.iter_rows():
        if not corners or low > corners[-1][0]:
            corners.append((low, before / total))
        before += samples
        corners.append((high, before / total))
    return corners


def _thinned(corners: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return at most `_MOST_CORNERS` of them, and the last one."""
    return [*corners[: -1 : -(-len(corners) // _MOST_CORNERS)], corners[-1]]


def _times(dataset: Dataset, found: pl.DataFrame, name: str, caption: str) -> Spec | None:
    """Return a chart of times over the time of the run."""
    unit = text.time_unit(found["value"].max() or 1)  # type: ignore[arg-type]
    return _chart(dataset, found.rows(), name, unit, caption, dataset_looks(dataset))


def _chart(
    dataset: Dataset,
    rows: Rows,
    name: str,
    unit: tuple[float, str],
    caption: str,
    looks: Mapping[str, int],
    *,
    zero: bool = False,
) -> Spec | None:
    """Return a chart over the time of the run, a line for each name; None without rows.

    A line has a gap where it has no row, or is zero there.
    """
    if not rows:
        return None
    cells: dict[str, list[tuple[float, float, float]]] = {}
    for line, *cell in rows:
        cells.setdefault(line, []).append(tuple(cell))  # type: ignore[arg-type]
    greatest = sorted(cells, key=lambda line: -max(value for *_, value in cells[line]))
    known = [*dataset.scenario.flows, *dataset.scenario.pings]
    order = {line: place for place, line in enumerate(known)}
    kept = sorted(greatest[:MOST_FLOWS], key=lambda line: order.get(line, len(order)))
    factor, shown = unit
    top = max(value for line in kept for *_, value in cells[line]) / factor
    points: list[Spec] = []
    for line in kept:
        points += _corners(line, cells[line], factor, zero)
    end = dataset.scenario.end_ps / 1e12
    x = time_axis(end)
    y: Spec = {
        "field": "y",
        "type": "quantitative",
        "title": f"{name} ({shown})",
        "scale": {"domain": [0, 1.08 * top or 1.0], "nice": False},
        "axis": {"tickCount": 5},
    }
    captions = [caption]
    if hidden := len(greatest) - len(kept):
        captions.append(f"the {len(kept)} lines with the greatest values; {hidden} more")
    title = titled(dataset.scenario.title or dataset.scenario.name, captions)
    lines = step_lines(points, x, y, styles(kept, looks), LINE_WIDTH)
    layers = [rules(labels.changes(dataset), x, end), lines]
    return chart(layers, f"{name.capitalize()} over time: {text.listed(kept)}", title, _HEIGHT)


def _corners(
    line: str, cells: list[tuple[float, float, float]], factor: float, zero: bool
) -> list[Spec]:
    """Return the corners of a step line, which is interrupted or zero between cells apart."""
    between = 0 if zero else None
    points: list[Spec] = []
    last: float | None = None
    for start, end, value in cells:
        if last is None and zero:
            points.append({"t": 0, "y": 0, "flow": line})
        if last is not None and start > last + 1e-9:
            if not zero:
                points.append({"t": last, "y": points[-1]["y"], "flow": line})
            points.append({"t": last, "y": between, "flow": line})
        points.append({"t": start, "y": rounded(value / factor), "flow": line})
        last = end
    if last is not None:
        points.append({"t": last, "y": points[-1]["y"], "flow": line})
        if zero:
            points.append({"t": last, "y": 0, "flow": line})
    return points
