"""Charts of results, for notebooks and files.

>>> import perhop
>>> run = perhop.run(perhop.load("qbss-1-70"))
>>> chart = perhop.charts.throughput(run)
>>> chart.svg().startswith("<svg")
True

A notebook draws a chart that is the value of a cell. The functions are those with which reports
draw.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from perhop.errors import UsageError
from perhop.report import applications, calls, charts, delays, named, output, sweeps
from perhop.report import comparison as comparisons
from perhop.units import quote

if TYPE_CHECKING:
    import os

    import polars as pl

    from perhop.analysis import RunComparison
    from perhop.dataset import Dataset
    from perhop.report.charts import Spec
    from perhop.report.network import Network

__all__ = [
    "Chart",
    "Drawing",
    "backlog",
    "comparison",
    "delay",
    "drops",
    "mos",
    "network",
    "pings",
    "queueing",
    "rtt",
    "sweep",
    "throughput",
    "video",
]


class _Picture(ABC):
    """What notebooks show and files hold."""

    __slots__ = ()

    @abstractmethod
    def _file(self, kind: named.Format) -> bytes:
        """Return the content of a file."""

    def svg(self) -> str:
        """Return the picture as SVG."""
        return self._file("svg").decode()

    def png(self) -> bytes:
        """Return the picture as PNG, of twice its nominal size."""
        return self._file("png")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture, or its data, to a file.

        The suffix of the file is that of a picture, ``.svg`` or ``.png``, or of data, ``.csv`` or
        ``.json``, as of ``perhop report --chart``.

        Returns:
            The path.

        Raises:
            UsageError: The path has another suffix.
            OutputError: The file cannot be written.
        """
        target = Path(path)
        kind = next((kind for kind in named.FORMATS if target.suffix == f".{kind}"), None)
        if kind is None:
            raise UsageError(f"{quote(target.name)} has no suffix of .svg, .png, .csv or .json")
        output.write_all(target.parent, {target.name: self._file(kind)})
        return target

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Return what notebooks show: a picture, and its description."""
        del include, exclude
        return {"image/svg+xml": self.svg(), "text/plain": repr(self)}


@dataclass(frozen=True, slots=True, repr=False)
class Chart(_Picture):
    """A chart.

    Attributes:
        spec: Its specification in Vega-Lite, with its data.
    """

    spec: Spec

    def __repr__(self) -> str:
        """Return ``<Chart: DESCRIPTION>``."""
        return f"<Chart: {self.spec.get('description', 'without a description')}>"

    def _file(self, kind: named.Format) -> bytes:
        return named.spec_file(self.spec, kind)


@dataclass(frozen=True, slots=True, repr=False)
class Drawing(_Picture):
    """The drawing of a network.

    Its data are its links in each direction: their names, rates, delays and use.

    Attributes:
        drawn: Nodes and links with their places.
    """

    drawn: Network

    def __repr__(self) -> str:
        """Return ``<Drawing: DESCRIPTION>``."""
        return f"<Drawing: {self.drawn.description}>"

    def _file(self, kind: named.Format) -> bytes:
        return named.network_file(self.drawn, kind)


def network(dataset: Dataset) -> Drawing:
    """Return the network of a run, with the use of each link.

    Raises:
        UsageError: The network has no links, or is too large to be drawn.
    """
    return Drawing(named.drawn_network(dataset))


def throughput(
    dataset: Dataset,
    scale: Literal["linear", "log"] = "linear",
    interval_s: float | None = None,
    *,
    capacity: bool = True,
) -> Chart:
    """Return the goodput of every flow and of all together over time.

    Args:
        dataset: The run.
        scale: The scale of the rates.
        interval_s: The length in seconds of each mean, a multiple of the report interval; by
            default what keeps the chart small.
        capacity: Whether the rate of the common bottleneck is a line.
    """
    return Chart(charts.throughput_chart(dataset, scale, interval_s, capacity=capacity))


def pings(dataset: Dataset) -> Chart:
    """Return the distribution function of the round-trip times of each ping.

    Raises:
        UsageError: The run has no answered ping.
    """
    return _drawn(charts.ping_chart(dataset), "the run has no answered ping")


def mos(dataset: Dataset) -> Chart:
    """Return the mean opinion score of the worst call of each flow over time.

    Raises:
        UsageError: The run has no calls with a score.
    """
    return _drawn(calls.mos_chart(dataset), "the run has no calls with a score")


def video(dataset: Dataset) -> Chart:
    """Return the bit rate that the worst viewer of each flow's videos sees over time.

    Raises:
        UsageError: The run has no videos.
    """
    return _drawn(applications.video_chart(dataset), "the run has no videos")


def rtt(dataset: Dataset) -> Chart:
    """Return the mean round-trip times of flows and pings over time.

    Raises:
        UsageError: The run has no round-trip times.
    """
    return _drawn(delays.rtt_chart(dataset), "the run has no round-trip times")


def queueing(dataset: Dataset) -> Chart:
    """Return the mean queueing delay of each flow over time.

    Raises:
        UsageError: The run has no one-way delays.
    """
    return _drawn(delays.queueing_chart(dataset), "the run has no one-way delays")


def backlog(dataset: Dataset) -> Chart:
    """Return the backlog of each class over time.

    Raises:
        UsageError: No packet waited when queues were read.
    """
    return _drawn(delays.backlog_chart(dataset), "no packet waited when queues were read")


def drops(dataset: Dataset) -> Chart:
    """Return the packets that were lost over time by cause.

    Raises:
        UsageError: The run lost no packets.
    """
    return _drawn(delays.drops_chart(dataset), "the run lost no packets")


def delay(dataset: Dataset) -> Chart:
    """Return the distribution function of the one-way delays of each flow.

    Raises:
        UsageError: The run has no one-way delays.
    """
    return _drawn(delays.delay_chart(dataset), "the run has no one-way delays")


def comparison(compared: RunComparison) -> Chart:
    """Return the throughput of each flow in each phase of several runs.

    Raises:
        UsageError: The runs have no flow in common.
    """
    return _drawn(comparisons.comparison_chart(compared), "the runs have no flow in common")


def sweep(table: pl.DataFrame, metric: str, target: str) -> Chart:
    """Return one metric of a sweep over the values that it varies.

    Args:
        table: The result of `perhop.Sweep.run`.
        metric: A metric of the table.
        target: A flow, a ping or "total".
    """
    return Chart(sweeps.sweep_chart(table, metric, target))


def _drawn(spec: Spec | None, otherwise: str) -> Chart:
    if spec is None:
        raise UsageError(f"{otherwise}; there is nothing to draw")
    return Chart(spec)
