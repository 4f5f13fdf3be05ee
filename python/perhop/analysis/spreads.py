"""The spread of throughput over time and over streams, and tables of statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from perhop.analysis.cache import of_flow
from perhop.analysis.distributions import Distribution, distribution
from perhop.analysis.names import flow_named
from perhop.analysis.throughput import TOTAL, series
from perhop.analysis.windows import Window, clip, cut, sum_all, weighed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perhop.dataset import Dataset

PERCENTILES: Final = (5, 10, 25, 50, 75, 90, 95)
"""The percentiles of a distribution table."""


def rates(
    dataset: Dataset, flow: str, window: Window | None = None, interval_s: float | None = None
) -> pl.Series:
    """Return the throughput of a flow, or of all flows, per interval, in bits per second.

    Args:
        dataset: The run.
        flow: A flow's name, or "total".
        window: Seconds of the run to look at; the whole run by default.
        interval_s: Length of an interval; the scenario's report interval by default.
    """
    cells = series(dataset, window, interval_s)
    return cells.filter(pl.col("flow") == flow_named(dataset, flow, TOTAL))["throughput_bps"]


def rate_spread(
    dataset: Dataset, flow: str, window: Window | None = None, interval_s: float | None = None
) -> Distribution | None:
    """Return summary statistics of a flow's throughput over intervals; see `rates`."""
    return distribution(rates(dataset, flow, window, interval_s))


def stream_rates(dataset: Dataset, flow: str, window: Window | None = None) -> pl.Series:
    """Return the mean throughput of each of a flow's streams, in bits per second."""
    part = clip(dataset, window) or (0.0, 0.0)
    rows = cut(of_flow(dataset, "intervals", flow), part)
    sums = rows.group_by("stream").agg(weighed("bytes").alias("bytes")).sort("stream")
    return 8 * sums["bytes"] / (part[1] - part[0])


def rates_and_rtts(dataset: Dataset, flow: str, window: Window | None = None) -> pl.DataFrame:
    """Return a flow's throughput and the mean of its round-trip time samples, per interval.

    Returns:
        Columns `start_s`, `throughput_bps` and `rtt_s`, without intervals that have no sample.
    """
    part = clip(dataset, window) or (0.0, 0.0)
    taken = of_flow(dataset, "intervals", flow).filter(pl.col("rtt_samples") > 0)
    samples = pl.col("rtt_samples") * pl.col("weight")
    rows = cut(taken, part)
    length = pl.col("end_s") - pl.col("start_s")
    return (
        rows.group_by("start_s", "end_s", maintain_order=True)
        .agg(
            (8 * sum_all("bytes")).alias("bits"),
            ((pl.col("rtt_s") * samples).sum() / samples.sum()).alias("rtt_s"),
        )
        .select("start_s", (pl.col("bits") / length).alias("throughput_bps"), "rtt_s")
        .sort("start_s")
    )


def correlation(one: pl.Series, other: pl.Series) -> float | None:
    """Return Pearson's correlation of two columns, -1 to 1; None if one of them is constant."""
    pairs = pl.DataFrame({"a": one, "b": other}).drop_nulls()
    if pairs.is_empty() or pairs["a"].n_unique() < 2 or pairs["b"].n_unique() < 2:
        return None
    return float(pairs.select(pl.corr("a", "b")).item())


def fairness(rates: Sequence[float] | pl.Series) -> float | None:
    """Return Jain's fairness index of some rates: 1 if all are equal, 1/n if one has everything.

    None if no rate is above zero. Jain, Chiu and Hawe, DEC-TR-301, 1984.
    """
    values = [float(rate) for rate in rates if rate is not None]
    if len(values) < len(rates):
        return None
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares > 0 else None


def distribution_table(columns: Mapping[str, Sequence[float]]) -> pl.DataFrame:
    """Return statistics of columns of numbers: mean, median, deviation, extremes, percentiles.

    Percentiles interpolate as those of `distribution` do; `IQR` is the 75th less the 25th.

    Returns:
        A column `statistic` ("mean", "median", "stdev", "min", "max", "5%", … "95%", "IQR"), and
        one of each name. Statistics that a column is too short for are null.
    """
    names = ["mean", "median", "stdev", "min", "max", *(f"{p}%" for p in PERCENTILES), "IQR"]
    table: dict[str, list[float | None]] = {}
    for name, values in columns.items():
        column = pl.Series(values, dtype=pl.Float64)
        percent = {p: column.quantile(p / 100, interpolation="linear") for p in PERCENTILES}
        low, high = percent[25], percent[75]
        table[name] = [
            _number(column.mean()),
            percent[50],
            _number(column.std(ddof=1)),
            _number(column.min()),
            _number(column.max()),
            *percent.values(),
            None if low is None or high is None else high - low,
        ]
    return pl.DataFrame({"statistic": names, **table})


def with_averages(table: pl.DataFrame, averages: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """Add columns to a distribution table: the row-wise means of some of its columns."""
    return table.with_columns(
        pl.mean_horizontal(*columns).alias(name) for name, columns in averages.items()
    )


def with_ratios(table: pl.DataFrame, ratios: Mapping[str, tuple[str, str]]) -> pl.DataFrame:
    """Add columns to a distribution table: the row-wise ratios of two of its columns.

    Null if the second is zero.
    """
    return table.with_columns(
        pl.when(pl.col(below) != 0).then(pl.col(above) / pl.col(below)).alias(name)
        for name, (above, below) in ratios.items()
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
