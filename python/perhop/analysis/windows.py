"""Stretches of a run, and what part of a table lies in one."""

from typing import Final

import polars as pl

from perhop.dataset import Dataset

Window = tuple[float, float]
"""Start and end in seconds since the start of the run."""

PICOSECONDS: Final = 1e12
"""Picoseconds in a second."""


# Part of a stretch that the rounding of its edges to binary seconds may add or take away.
_ROUNDING: Final = 1e-9


def seconds(window_ps: tuple[int, int]) -> Window:
    """The window whose start and end are given in picoseconds."""
    start, end = window_ps
    return start / PICOSECONDS, end / PICOSECONDS


def clip(dataset: Dataset, window: Window | None) -> Window | None:
    """The part of `window` (None: the whole run) that the run covers; None if it covers nothing."""
    start, end = (0.0, dataset.covered_s) if window is None else window
    start, end = max(start, 0.0), min(end, dataset.covered_s)
    return (start, end) if start < end else None


def cut(table: pl.DataFrame, window: Window) -> pl.DataFrame:
    """The rows of a table of stretches that overlap `window`, each with its `weight`.

    The weight is the part of the row's stretch that lies in the window: 1 for a row inside it, and
    what a uniform rate over the stretch would give for one that straddles an edge. The windows
    that a scenario names are exact unions of rows.
    """
    start, end = window
    overlap = pl.min_horizontal("end_s", pl.lit(end)) - pl.max_horizontal("start_s", pl.lit(start))
    weight = overlap / (pl.col("end_s") - pl.col("start_s"))
    whole = pl.when(weight > 1 - _ROUNDING).then(1.0).otherwise(weight)
    return table.with_columns(weight=whole).filter(pl.col("weight") > _ROUNDING)


def weighed(column: str) -> pl.Expr:
    """The sum of a counting column over the rows of `cut`."""
    return (pl.col(column) * pl.col("weight")).sum()
