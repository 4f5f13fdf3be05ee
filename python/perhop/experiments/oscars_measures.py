"""Functions that measure the figures of the OSCARS document, for worker processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from perhop import analysis

if TYPE_CHECKING:
    from perhop.analysis import Window
    from perhop.dataset import Dataset

FIRST: Final = (102.0, 600.0)
"""Durations whose statistics the document gives for a burst of 1 MB, in seconds."""

SECOND: Final = (660.0, 1140.0)
"""The 480 s with a burst of 100 kB."""


def spread(
    dataset: Dataset, part: str, flow: str, window: Window, interval_s: float = 1.0
) -> float | None:
    """Return a statistic of a flow's throughput over intervals."""
    found = analysis.rate_spread(dataset, flow, window, interval_s)
    return None if found is None else getattr(found, part)


def ratio(dataset: Dataset, over: str, under: str, window: Window, other: Window) -> float | None:
    """Return the throughput of a flow in a window divided by that of a flow in another."""
    one = analysis.throughput(dataset, over, window)
    two = analysis.throughput(dataset, under, other)
    return one / two if one is not None and two else None


def longer(dataset: Dataset, flow: str, first: Window, later: Window) -> float | None:
    """Return the mean round-trip time in a window divided by that in a later one."""
    means = []
    for window in (first, later):
        pairs = analysis.rates_and_rtts(dataset, flow, window)
        means.append(None if pairs.is_empty() else pairs["rtt_s"].mean())
    one, two = means
    return one / two if isinstance(one, float) and isinstance(two, float) and two else None


def policed(dataset: Dataset, window: Window) -> float:
    """Return the number of packets that the policer dropped in a window."""
    start, end = window
    rows = dataset.queues.filter(
        (pl.col("class") == "reserved") & (pl.col("start_s") >= start) & (pl.col("end_s") <= end)
    )
    return float(rows["dropped_policer"].sum())


def start_up(dataset: Dataset) -> float | None:
    """Return the fastest of the first ten seconds with a burst of 100 kB, relative to 1 MB."""
    small = spread(dataset, "max", "burst_100kB", (660.0, 670.0))
    large = spread(dataset, "max", "burst_1MB", (0.0, 10.0))
    return small / large if small is not None and large else None


def burst_correlation(dataset: Dataset) -> float | None:
    """The correlation of throughput and round-trip time, second by second, with 1 MB."""
    pairs = analysis.rates_and_rtts(dataset, "burst_1MB", FIRST)
    return analysis.correlation(pairs["throughput_bps"], pairs["rtt_s"])


def per_stream(dataset: Dataset) -> float | None:
    """Return the median of the twenty reserved streams' throughputs."""
    rates = analysis.stream_rates(dataset, "reserved_20", (210.0, 270.0))
    found = analysis.distribution(rates)
    return None if found is None else found.median


def less(dataset: Dataset, part: str) -> float | None:
    """Return a statistic of the reserved pings' RTT beside the load, relative to best effort's."""
    found = [analysis.rtt(dataset, ping, (80.0, 680.0)) for ping in ("reserved", "best_effort")]
    reserved, other = (each and getattr(each, part) for each in found)
    return reserved / other if reserved is not None and other else None
