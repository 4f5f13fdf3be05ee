"""Delays, backlogs and drops over time, in cells of a regular grid.

A cell of the grid has the rows of the dataset whose middle it contains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from perhop.analysis.links import DROPS
from perhop.analysis.windows import clip, cut

if TYPE_CHECKING:
    from perhop.dataset import Dataset

_EDGES: Final = (pl.min("start_s"), pl.max("end_s"))


def round_trips(dataset: Dataset, interval_s: float) -> pl.DataFrame:
    """Return the mean round-trip time of flows and of pings over time.

    A flow's is that of its segments if the engine measures it, otherwise the smoothed one. A
    ping's is that of the requests that were sent in a cell and answered; pings of several nodes
    have none.

    Args:
        dataset: The run.
        interval_s: The length of a cell in seconds.

    Returns:
        Columns `name`, `start_s`, `end_s` and `value`, in seconds, for each cell with a sample.
    """
    rtt = _means(dataset, interval_s, "rtt")
    smoothed = _means(dataset, interval_s, "srtt").join(rtt, on="name", how="anti")
    pings = [name for name, ping in dataset.scenario.pings.items() if not ping.is_trace]
    cell = (pl.col("sent_s") / interval_s).floor()
    end = pl.min_horizontal((cell + 1) * interval_s, pl.lit(dataset.covered_s))
    answered = dataset.pings.filter(pl.col("ping").is_in(pings)).drop_nulls("rtt_s")
    asked = (
        answered.select(name="ping", start_s=cell * interval_s, end_s=end, value="rtt_s")
        .group_by("name", "start_s", "end_s")
        .mean()
    )
    return pl.concat([rtt, smoothed, asked]).sort("name", "start_s")


def queueing_delays(dataset: Dataset, interval_s: float) -> pl.DataFrame:
    """Return the mean queueing delay of each flow over time, as `queueing` defines it.

    Returns:
        Columns as of `round_trips`.
    """
    delays = _means(dataset, interval_s, "owd")
    least = dataset.intervals.group_by("flow").agg(pl.min("owd_min_s"))
    joined = delays.join(least, left_on="name", right_on="flow", maintain_order="left")
    return joined.with_columns(value=pl.col("value") - pl.col("owd_min_s")).drop("owd_min_s")


def backlogs(dataset: Dataset, interval_s: float) -> pl.DataFrame:
    """Return the greatest backlog of each class of each directed link over time, in bytes.

    A backlog is read at the end of each row of `queues`. Classes inside of others are left out, as
    those contain them; so are queues that are always empty then.

    Returns:
        Columns `link`, `class`, `start_s`, `end_s` and `value`.
    """
    rows = dataset.queues.filter(~pl.col("class").str.contains("/", literal=True))
    keys = ("link", "class")
    cells = rows.group_by(*keys, _cell(interval_s), maintain_order=True)
    found = cells.agg(*_EDGES, pl.max("backlog_bytes").alias("value")).drop("cell")
    used = found.filter(pl.col("value").max().over(keys) > 0)
    return used.drop_nulls("value").select(*keys, "start_s", "end_s", "value")


def drops(dataset: Dataset, interval_s: float) -> pl.DataFrame:
    """Return the packets that were lost over time by cause, per second.

    Losses are those of flows if the engine knows whose packets are lost, otherwise those that
    classes and links count.

    Returns:
        Columns `name`, the cause, `start_s`, `end_s` and `value`. Cells without a loss have none.
    """
    if not dataset.losses.is_empty():
        lost = dataset.losses.select("start_s", "end_s", "packets", name="cause")
    else:
        outer = dataset.queues.filter(~pl.col("class").str.contains("/", literal=True))
        counted = [
            outer.select("start_s", "end_s", packets=counter, name=pl.lit(cause))
            for cause, counter in DROPS.items()
        ]
        wire = dataset.links.select("start_s", "end_s", packets="lost_packets", name=pl.lit("wire"))
        lost = pl.concat([*counted, wire])
    part = clip(dataset, None) or (0.0, 0.0)
    inside = cut(lost.filter(pl.col("packets") > 0), part)
    cell = _cell(interval_s)
    start = pl.col("cell") * interval_s
    end = pl.min_horizontal(start + interval_s, pl.lit(part[1]))
    return (
        inside.group_by("name", cell, maintain_order=True)
        .agg(pl.sum("packets"))
        .select("name", start.alias("start_s"), end.alias("end_s"), "packets")
        .with_columns(value=pl.col("packets") / (pl.col("end_s") - pl.col("start_s")))
        .drop("packets")
        .sort("name", "start_s")
    )


def _means(dataset: Dataset, interval_s: float, name: str) -> pl.DataFrame:
    """Return the mean of a delay of `intervals` over time, weighed by its samples."""
    samples = pl.col(f"{name}_samples")
    rows = dataset.intervals.filter(samples > 0)
    cells = rows.group_by(pl.col("flow").alias("name"), _cell(interval_s))
    mean = (pl.col(f"{name}_s") * samples).sum() / samples.sum()
    return cells.agg(*_EDGES, mean.alias("value")).drop("cell").sort("name", "start_s")


def _cell(interval_s: float) -> pl.Expr:
    middle = (pl.col("start_s") + pl.col("end_s")) / 2
    return (middle / interval_s).floor().alias("cell")
