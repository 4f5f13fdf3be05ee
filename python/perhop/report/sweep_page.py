"""Sweeps over numbers as lines with error bars, and the page of a sweep."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

import polars as pl

from perhop.report import text
from perhop.report.document import document, figure, grid
from perhop.report.html import Html, element, join
from perhop.report.links import linked_runs
from perhop.report.plots import Scale, line_plot
from perhop.report.style import rounded, styles
from perhop.report.sweeps import chosen, sweep_chart, sweep_table, unit_of
from perhop.report.tables import Column, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perhop.report.style import Spec

__all__ = ["line_chart", "sweep_page"]

_MOST_LINES: Final = 12
_MOST_TABLES: Final = 40
_MOST_RUNS: Final = 500
_UNITS: Final[dict[str, Callable[[float], tuple[float, str]]]] = {
    "bps": text.rate_unit,
    "s": text.time_unit,
    "bytes": text.size_unit,
    "share": lambda _: (0.01, "%"),
    "packets": lambda _: (1.0, ""),
}


def line_chart(table: pl.DataFrame, metric: str, target: str) -> Spec | None:
    """Return one metric over numbers: a line for each combination of the other values.

    The horizontal axis is the path with the most numbers; it is logarithmic if they span more than
    a factor of 30. A point is the mean over the seeds, its bar their range.

    Args:
        table: As `perhop.sweep.Sweep.run` returns it.
        metric: One of its metrics.
        target: One of its targets.

    Returns:
        None if no path has more than one number.
    """
    paths = table.columns[1 : table.columns.index("seed")]
    numbers = {
        path: column
        for column in table.columns[table.columns.index("value") + 1 :]
        for path in [column.rpartition(" ")[0]]
        if path in paths and table[path].n_unique() > 1
    }
    if not numbers:
        return None
    across = max(numbers, key=lambda path: table[path].n_unique())
    others = [path for path in paths if path != across and table[path].n_unique() > 1]
    rows = chosen(table, metric, target)
    at = dict(table.select(across, numbers[across]).unique().iter_rows())
    greatest = float(max([value for value in rows["high"] if value is not None], default=1.0) or 1)
    factor, unit = _unit(unit_of(metric), greatest)
    x_factor, x_unit = _unit(numbers[across].rpartition(" ")[2], max(at.values()))
    series: dict[str, list[tuple[float, float | None]]] = {}
    bars: list[Spec] = []
    for row in rows.iter_rows(named=True):
        name = ", ".join(f"{path} {row[path]}" for path in others) or f"{metric} of {target}"
        x = at[row[across]] / x_factor
        mean = None if row["mean"] is None else row["mean"] / factor
        series.setdefault(name, []).append((x, mean))
        if mean is not None and row["low"] < row["high"]:
            span = {key: rounded(row[key] / factor) for key in ("low", "high")}
            bars.append({"x": rounded(x), **span, "flow": name})
    drawn = {name: sorted(points) for name, points in list(series.items())[:_MOST_LINES]}
    places = [value / x_factor for value in at.values()]
    log = min(places) > 0 and max(places) > 30 * min(places)
    ends = (min(places), max(places))
    gap = 0.04 * (ends[1] - ends[0])
    domain = (0.9 * ends[0], 1.1 * ends[1]) if log else (ends[0] - gap, ends[1] + gap)
    seeds = table["seed"].n_unique()
    captions = [f"means over {seeds} seeds"] if seeds > 1 else []
    if bars:
        captions.append("bars are the range of the seeds")
    if hidden := len(series) - len(drawn):
        captions.append(f"{hidden} more lines are in the table")
    spec = line_plot(
        f"{metric} of {target} by {across}",
        Scale(_named(across, x_unit), "log" if log else "linear", domain),
        Scale(_named(metric, unit), domain=(0.0, 1.08 * greatest / factor)),
        drawn,
        captions=captions,
    )
    if not bars:
        return spec
    encoding = spec["layer"][0]["encoding"]
    look = styles(list(drawn))["color"]
    bar = {
        "data": {"values": [bar for bar in bars if bar["flow"] in drawn]},
        "mark": {"type": "rule", "strokeWidth": 1.5, "opacity": 0.7},
        "encoding": {
            "x": encoding["x"],
            "y": {**encoding["y"], "field": "low"},
            "y2": {"field": "high"},
            "color": {**look, "legend": encoding["color"]["legend"]},
        },
    }
    return {**spec, "layer": [bar, *spec["layer"]]}


def sweep_page(
    table: pl.DataFrame,
    metric: str,
    target: str,
    title: str,
    pages: Sequence[str | None] = (),
    folder: str = "",
) -> str:
    """Return the page of a sweep: charts and a table of one metric, and tables of all others.

    Args:
        table: As `perhop.sweep.Sweep.run` returns it.
        metric: One of its metrics.
        target: One of its targets.
        title: The title.
        pages: The page of each run, relative to this one; None where there is none. Without any,
            the page does not list the runs.
        folder: The folder of the sweep, for commands.
    """
    paths = table.columns[1 : table.columns.index("seed")]
    lines = line_chart(table, metric, target)
    varied = "; ".join(
        f"{path}: {', '.join(table[path].unique(maintain_order=True).to_list())}" for path in paths
    )
    runs, seeds = table["point"].n_unique(), table["seed"].n_unique()
    said = f"{runs} runs" + (f" with {seeds} seeds" if seeds > 1 else "") + f". {varied}."
    known = table.drop_nulls("value").select("metric", "target").unique(maintain_order=True)
    others = [pair for pair in known.iter_rows() if pair != (metric, target)]
    more = [grid(sweep_table(table, *pair)) for pair in others[:_MOST_TABLES]]
    left = len(others) - len(more)
    body = join(
        element("h1", f"{title}: a sweep"),
        element("p", said, class_="lead"),
        figure("lines", lines) if lines else "",
        figure("sweep", sweep_chart(table, metric, target))
        if lines is None or _grid(paths)
        else "",
        grid(sweep_table(table, metric, target)),
        element(
            "details",
            element("summary", f"{len(others)} other metrics"),
            *more,
            element("p", f"{left} more are in sweep.csv.", class_="note") if left else "",
        )
        if more
        else Html(),
        linked_runs(_run_table(table, metric, target), pages[:_MOST_RUNS], _how(folder))
        if pages
        else "",
    )
    return document(f"{title}: a sweep", body)


def _run_table(table: pl.DataFrame, metric: str, target: str) -> Table:
    """Return a row for each run, with its values and the metric that the page is about."""
    paths = table.columns[1 : table.columns.index("seed")]
    measured = table.filter((pl.col("metric") == metric) & (pl.col("target") == target))
    found = dict(measured.select("point", "value").iter_rows())
    runs = table.unique("point", keep="first", maintain_order=True).head(_MOST_RUNS)
    unit = unit_of(metric)
    rows = tuple(
        (
            str(row["point"]),
            *(str(row[path]) for path in paths),
            str(row["seed"]),
            text.quantity(found.get(row["point"]), unit),
        )
        for row in runs.iter_rows(named=True)
    )
    names = ("run", *paths, "seed")
    columns = (*(Column(name, "left") for name in names), Column(f"{metric} of {target}"))
    every = table["point"].n_unique()
    said = f"The first {_MOST_RUNS} of {every} runs" if every > _MOST_RUNS else f"{every} runs"
    return Table(said, columns, rows)


def _how(folder: str) -> str:
    """Return how to make the page of a run, and have it linked."""
    first = shlex.quote(f"{folder}/points/0")
    return (
        f"`perhop report {first}` writes the page of the first run, and so on; the command of the "
        "sweep, once more, links it here and repeats no run."
    )


def _grid(paths: list[str]) -> bool:
    """Return whether a heat map shows what lines do not."""
    return len(paths) > 1


def _unit(name: str, greatest: float) -> tuple[float, str]:
    scale = _UNITS.get(name)
    return scale(greatest) if scale else (1.0, "" if name in ("number", "ratio") else name)


def _named(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name
