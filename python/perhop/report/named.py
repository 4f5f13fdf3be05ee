"""The charts of a run by name: as pictures, as specifications and as tables."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Final, Literal, get_args

from perhop.errors import UsageError
from perhop.hints import did_you_mean
from perhop.report.applications import video_chart
from perhop.report.calls import mos_chart
from perhop.report.charts import Spec, ping_chart, throughput_chart
from perhop.report.delays import backlog_chart, delay_chart, drops_chart, queueing_chart, rtt_chart
from perhop.report.network import MOST_NODES, Network, network
from perhop.report.output import picture, pixels
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from perhop.dataset import Dataset

__all__ = [
    "CHARTS",
    "FORMATS",
    "Format",
    "chart_file",
    "charts_of",
    "described",
    "drawn_network",
    "network_file",
    "spec_file",
]

Format = Literal["png", "svg", "csv", "json"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)


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
    "video": ("bit rate that the worst viewer of each flow sees over time", video_chart),
}
"""What each chart shows, and the function that draws it, which returns None without data."""


_NETWORK: Final = "network"


def described(dataset: Dataset) -> dict[str, str]:
    """Return what each chart of a run shows, by name, the drawing of the network at the end."""
    found = {name: CHARTS[name][0] for name in charts_of(dataset)}
    if network(dataset) is not None:
        found[_NETWORK] = "the network with the use of each link"
    return found


def charts_of(dataset: Dataset) -> dict[str, Spec]:
    """Return the charts of Vega-Lite for which a run has data, by name."""
    found = {name: draw(dataset) for name, (_, draw) in CHARTS.items()}
    return {name: spec for name, spec in found.items() if spec is not None}


def chart_file(dataset: Dataset, name: str, kind: Format) -> bytes:
    """Return a chart as the content of a file.

    Args:
        dataset: The run.
        name: A name of `CHARTS`, or `network`.
        kind: A picture; its specification in Vega-Lite with its data (`json`); or the points of
            its lines (`csv`), of which each value holds until the next one in charts over time.
            The network has its links as `csv` and `json`.

    Raises:
        UsageError: Unknown name, or the run has no data for this chart.
    """
    if name == _NETWORK:
        return network_file(drawn_network(dataset), kind)
    if name not in CHARTS:
        known = [*CHARTS, _NETWORK]
        hint = did_you_mean(name, known) or f"expected one of {', '.join(known)}"
        raise UsageError(f"{quote(name)} is not a chart; {hint}")
    spec = CHARTS[name][1](dataset)
    if spec is None:
        raise UsageError(
            f"the run has no data for the chart {name}; --list-charts lists its charts"
        )
    return spec_file(spec, kind)


def spec_file(spec: Spec, kind: Format) -> bytes:
    """Return a chart as the content of a file; see `chart_file`."""
    if kind == "json":
        return json.dumps(spec, ensure_ascii=False, indent=1, allow_nan=False).encode()
    if kind == "csv":
        return _table(spec).encode()
    return picture(spec, kind)


def _table(spec: Spec) -> str:
    """Return the data of a chart as CSV, under the titles of its axes.

    Charts over time and distributions have the points of their lines. Others, such as comparisons
    and sweeps, have one table.
    """
    if "data" in spec:
        values = spec["data"]["values"]
        titles = dict(_titles(spec))
        heads: list[str] = []
        for key in values[0] if values else ():
            title = titles.get(key) or key
            heads.append(key if title in heads else title)
        return _csv(heads, (list(value.values()) for value in values))
    lines = [layer for layer in spec["layer"] if layer["mark"]["type"] == "line"]
    axes = (lines[0]["encoding"][axis] for axis in ("x", "y"))
    points = (point for layer in lines for point in layer["data"]["values"])
    rows = ((point["flow"], point["t"], point["y"]) for point in points)
    return _csv(["name", *(axis["title"] for axis in axes)], rows)


def _titles(part: object) -> Iterator[tuple[str, str | None]]:
    """Yield the fields of a specification, with the titles of their axes."""
    if isinstance(part, dict):
        if "field" in part:
            yield part["field"], part.get("title")
        for inner in part.values():
            yield from _titles(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _titles(inner)


def drawn_network(dataset: Dataset) -> Network:
    """Return the drawing of the network of a run.

    Raises:
        UsageError: It is too large, or has no links.
    """
    drawn = network(dataset)
    if drawn is None:
        raise UsageError(
            f"a network without links, or of more than {MOST_NODES} nodes or {2 * MOST_NODES} "
            "links, is not drawn"
        )
    return drawn


def network_file(drawn: Network, kind: Format) -> bytes:
    """Return the drawing of a network, or its links, as the content of a file."""
    heads = ["link", "rate", "delay", "use"]
    if kind == "json":
        rows = [dict(zip(heads, row, strict=True)) for row in drawn.rows()]
        return json.dumps(rows, ensure_ascii=False, indent=1).encode()
    if kind == "csv":
        return _csv(heads, drawn.rows()).encode()
    return drawn.svg().encode() if kind == "svg" else pixels(drawn.svg())


def _csv(heads: list[str], rows: Iterable[Sequence[object]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return file.getvalue()
