"""Windows of a run, and the rows of tables in them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

from perhop.analysis.cache import cached, of_flow
from perhop.dataset import TABLES, Dataset

Window = tuple[float, float]
"""Start and end in seconds since the start of the run."""

PICOSECONDS: Final = 1e12
"""Picoseconds in a second."""


# Part of a stretch that the rounding of its edges to binary seconds may add or take away.
_ROUNDING: Final = 1e-9


def seconds(window_ps: tuple[int, int]) -> Window:
    """Return the window between two instants in picoseconds, in seconds."""
    start, end = window_ps
    return start / PICOSECONDS, end / PICOSECONDS


def clip(dataset: Dataset, window: Window | None) -> Window | None:
    """Return the part of `window` (None: the whole run) that the run covers, or None."""
    start, end = (0.0, dataset.covered_s) if window is None else window
    start, end = max(start, 0.0), min(end, dataset.covered_s)
    return (start, end) if start < end else None


def cut(table: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Return the rows of a table that overlap `window`, each with its `weight`.

    The weight is the share of the row's interval that lies in the window: 1 for a row inside it.
    For a
    row at an edge this assumes a uniform rate over the interval. The windows that a scenario names
    are
    exact unions of rows.
    """
    start, end = window
    if not table.is_empty() and start <= table["start_s"].min() and table["end_s"].max() <= end:  # type: ignore[operator]
        return table.with_columns(weight=1.0)
    weight = inside(pl.lit(start), pl.lit(end))
    return table.with_columns(weight=weight).filter(pl.col("weight") > 0)


def split(table: pl.DataFrame, windows: Sequence[Window]) -> pl.DataFrame:
    """Return the rows of a table in each of some windows that follow each other.

    Rows are looked at once, whatever the number of windows.

    Returns:
        The columns of the table, the number of the `window`, and the `weight` of `cut`.
    """
    starts = pl.Series([start for start, _ in windows], dtype=pl.Float64)
    ends = pl.Series([end for _, end in windows], dtype=pl.Float64)
    # A row lies in one window, or in several if its dataset knows nothing of them.
    first = ends.search_sorted(table["start_s"], "right").alias("first")
    last = starts.search_sorted(table["end_s"], "left").alias("last")
    numbers = pl.int_ranges("first", "last").alias("window")
    rows = table.with_columns(first, last).filter(pl.col("first") < pl.col("last"))
    edges = pl.DataFrame({"window": range(len(windows)), "from_s": starts, "to_s": ends})
    return (
        rows.with_columns(numbers)
        .explode("window")
        .join(edges, on="window", maintain_order="left")
        .with_columns(weight=inside(pl.col("from_s"), pl.col("to_s")))
        .drop("first", "last", "from_s", "to_s")
    )


def inside(start: pl.Expr, end: pl.Expr) -> pl.Expr:
    """Return the share of a row's interval that lies between two instants, as in `cut`."""
    overlap = pl.min_horizontal("end_s", end) - pl.max_horizontal("start_s", start)
    weight = overlap / (pl.col("end_s") - pl.col("start_s"))
    whole = pl.when(weight > 1 - _ROUNDING).then(1.0).otherwise(weight)
    return pl.when(weight > _ROUNDING).then(whole).otherwise(0.0)


def weighed(column: str) -> pl.Expr:
    """Return the weighted sum of a counting column of `intervals` over the rows of `cut`.

    It is null if there are rows, and no row knows the count. Some hosts count a stream only as a
    whole, in its last row, so that rows without a count may be part of a known sum.
    """
    known = (pl.col(column).count() > 0) | (pl.len() == 0)
    return pl.when(known).then((pl.col(column) * pl.col("weight")).sum())


def weighed_all(column: str) -> pl.Expr:
    """Return the weighted sum of a counting column over the rows of `cut`.

    It is null if one of the rows does not know the count.
    """
    return if_known(column, (pl.col(column) * pl.col("weight")).sum())


def sum_all(column: str) -> pl.Expr:
    """Return the sum of a counting column; null if one of the rows does not know the count."""
    return if_known(column, pl.sum(column)).alias(column)


def if_known(column: str, value: pl.Expr) -> pl.Expr:
    """Return a value that depends on a column; null if one of the column's rows is null."""
    return pl.when(pl.col(column).null_count() == 0).then(value)


_COUNTS: Final = [name for name, dtype in TABLES["intervals"].items() if dtype == pl.Int64]


@cached
def tally(dataset: Dataset, flow: str, window: Window | None = None) -> Mapping[str, Any]:
    """Return what all streams of a flow did in a window, by one query.

    Every counting column of `intervals` is its sum, a whole number unless the window's edge cuts a
    row, and None if it is not known. Besides there are `extents`, the sum of the extents of packets
    that came out of order, the greatest `extent_max`, and the mean jitter over arrivals,
    `jitter_s`, which is None without any, or where their number is unknown.
    """
    part = clip(dataset, window) or (0.0, 0.0)
    extents = pl.col("extent") * pl.col("reordered") * pl.col("weight")
    known = pl.col("jitter_s").is_not_null()
    # Without one-way delays, as of the datagrams of an iperf3 server, those that arrived.
    delays = pl.col("owd_samples")
    arrived = pl.when(delays > 0).then(delays).otherwise("packets")
    packets = (arrived * pl.col("weight")).filter(known)
    jitter = (pl.col("jitter_s").filter(known) * packets).sum() / packets.sum()
    sums = (weighed(name).alias(name) for name in _COUNTS if name != "extent_max")
    found = cut(of_flow(dataset, "intervals", flow), part).select(
        *sums,
        pl.when(extents.count() > 0).then(extents.sum()).alias("extents"),
        pl.max("extent_max"),
        pl.when(known.any() & (packets.null_count() == 0)).then(jitter).alias("jitter_s"),
    )
    return found.row(0, named=True)
