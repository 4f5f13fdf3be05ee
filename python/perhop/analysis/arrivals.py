"""How packets arrived: how regularly, in which order, and how often."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from perhop.analysis.names import flow_named
from perhop.analysis.windows import Window, clip, cut, weighed
from perhop.dataset import Dataset


def jitter(dataset: Dataset, flow: str, window: Window | None = None) -> float | None:
    """The interarrival jitter of a UDP flow (RFC 3550, section 6.4.1) in seconds.

    The estimate is read at the end of every stretch; this is the mean of what was read in the
    window, over streams and stretches by the packets that arrived in them.

    Returns:
        None if no packet arrived, or for a TCP flow.
    """
    rows = _rows(dataset, flow, window).drop_nulls("jitter_s")
    packets = pl.col("owd_samples") * pl.col("weight")
    if rows.is_empty():
        return None
    mean = (pl.col("jitter_s") * packets).sum() / packets.sum()
    return float(rows.select(mean).item())


@dataclass(frozen=True, slots=True)
class Order:
    """The order of a flow's packets (RFC 4737).

    `share` is the part of them that came after one with a higher number. For TCP flows, of which
    only that is known, the rest is None: `by_three`, those that came after three of them at least;
    the mean and the greatest `extent`, how many places back the first of them came (None where none
    was reordered); and the packets that came again.
    """

    reordered: float
    share: float | None
    by_three: float | None
    extent_mean: float | None
    extent_max: int | None
    duplicates: float | None


def order(dataset: Dataset, flow: str, window: Window | None = None) -> Order:
    """In which order a flow's packets arrived in a window."""
    rows = _rows(dataset, flow, window)
    extents = pl.col("extent") * pl.col("reordered") * pl.col("weight")
    found: dict[str, Any] = rows.select(
        weighed("packets").alias("packets"),
        weighed("reordered").alias("reordered"),
        weighed("reordered_by_3").alias("by_three"),
        extents.sum().alias("extents"),
        pl.max("extent_max"),
        weighed("duplicates").alias("duplicates"),
    ).row(0, named=True)
    udp = dataset.scenario.flows[flow].udp is not None
    reordered, packets = found["reordered"], found["packets"]
    return Order(
        reordered=reordered,
        share=reordered / packets if packets else None,
        by_three=found["by_three"] if udp else None,
        extent_mean=found["extents"] / reordered if udp and reordered else None,
        extent_max=found["extent_max"],
        duplicates=found["duplicates"] if udp else None,
    )


def reorder_density(dataset: Dataset, flow: str) -> dict[int, float]:
    """The shares of a UDP flow's packets by their displacement (RFC 5236): late ones above zero.

    Empty if no packet arrived, or for a TCP flow.
    """
    rows = dataset.displacements.filter(pl.col("flow") == flow_named(dataset, flow))
    packets = rows.select(pl.sum("early") + pl.sum("late")).item()
    counts = {-by: early for by, early in rows.select("by", "early").iter_rows() if early}
    counts |= {by: late for by, late in rows.select("by", "late").iter_rows() if late}
    return {by: counts[by] / packets for by in sorted(counts)}


def _rows(dataset: Dataset, flow: str, window: Window | None) -> pl.DataFrame:
    part = clip(dataset, window) or (0.0, 0.0)
    named = flow_named(dataset, flow)
    return cut(dataset.intervals.filter(pl.col("flow") == named), part)
