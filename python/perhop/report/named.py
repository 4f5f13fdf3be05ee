"""The charts of a run by name: as pictures, as specifications and as tables."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Final, Literal

from perhop.errors import UsageError
from perhop.hints import did_you_mean
from perhop.report.calls import mos_chart
from perhop.report.charts import Spec, ping_chart, throughput_chart
from perhop.report.delays import backlog_chart, delay_chart, drops_chart, queueing_chart, rtt_chart
from perhop.report.output import picture
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from perhop.dataset import Dataset

__all__ = ["CHARTS", "Format", "chart_file", "charts_of"]

Format = Literal["png", "svg", "csv", "json"]


def _throughput(dataset: Dataset) -> Spec | None:
    return throughput_chart(dataset) if dataset.scenario.flows else None


def _throughput_log(dataset: Dataset) -> Spec | None:
    return throughput_chart(dataset, "log") if dataset.scenario.flows else None


CHARTS: Final[dict[str, tuple[str, Callable[[Dataset], Spec | None]]]] = {
    "throughput": ("goodput of each flow over time", _throughput),
    "throughput-log": ("the same on a logarithmic scale", _throughput_log),
    "rtt": ("mean round-trip times of flows and pings over time", rtt_chart),
    "queueing": ("mean queueing delay of each flow over time", queueing_chart),
    "backlog": ("backlog of each class over time", backlog_chart),
    "drops": ("lost packets by cause over time", drops_chart),
    "delay": ("distribution of the one-way delays of flows", delay_chart),
    "pings": ("distribution of the round-trip times of pings", ping_chart),
    "mos": ("mean opinion score of the worst call over time", mos_chart),
}
"""What each chart shows, and the function that draws it, which returns None without data."""


def charts_of(dataset: Dataset) -> dict[str, Spec]:
    """Return the charts for which a run has data, by name."""
    found = {name: draw(dataset) for name, (_, draw) in CHARTS.items()}
    return {name: spec for name, spec in found.items() if spec is not None}


def chart_file(dataset: Dataset, name: str, kind: Format) -> bytes:
    """Return a chart as the content of a file.

    Args:
        dataset: The run.
        name: A name of `CHARTS`.
        kind: A picture; its specification in Vega-Lite with its data (`json`); or the points of
            its lines (`csv`), of which each value holds until the next one in charts over time.

    Raises:
        UsageError: Unknown name, or the run has no data for this chart.
    """
    if name not in CHARTS:
        hint = did_you_mean(name, list(CHARTS)) or f"expected one of {', '.join(CHARTS)}"
        raise UsageError(f"{quote(name)} is not a chart; {hint}")
    spec = CHARTS[name][1](dataset)
    if spec is None:
        raise UsageError(
            f"the run has no data for the chart {name}; --list-charts lists its charts"
        )
    if kind == "json":
        return json.dumps(spec, ensure_ascii=False, indent=1, allow_nan=False).encode()
    if kind == "csv":
        return _table(spec).encode()
    return picture(spec, kind)


def _table(spec: Spec) -> str:
    """Return the points of the lines of a chart as CSV, under the titles of its axes."""
    lines = [layer for layer in spec["layer"] if layer["mark"]["type"] == "line"]
    axes = (lines[0]["encoding"][axis] for axis in ("x", "y"))
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(["name", *(axis["title"] for axis in axes)])
    for layer in lines:
        for point in layer["data"]["values"]:
            rows.writerow([point["flow"], point["t"], point["y"]])
    return file.getvalue()
