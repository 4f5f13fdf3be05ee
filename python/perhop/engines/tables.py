"""The tables of the core as tables of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from perhop.dataset import TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop._core import Column

__all__ = ["tables"]


def tables(counted: Mapping[str, Mapping[str, Column]]) -> dict[str, pl.DataFrame]:
    """Return tables of the core as tables of a dataset."""
    found = {
        table: pl.DataFrame(
            [_series(name, columns[name]).cast(dtype) for name, dtype in TABLES[table].items()]
        )
        for table, columns in counted.items()
    }
    if "queues" in found:
        # The queue of a link with classes has no name; the rows of its classes have its counters.
        found["queues"] = found["queues"].filter(pl.col("class") != "")
    return found


def _series(name: str, column: Column) -> pl.Series:
    """Return a column of the core, in which NaN or a negative number stands for null."""
    if isinstance(column, tuple):
        names, places = column
        known = pl.Series(name, names, dtype=pl.String)
        return known.gather(_whole(name, places))
    if column.format == "d":
        return pl.Series(name, column, dtype=pl.Float64).fill_nan(None)
    return _whole(name, column)


def _whole(name: str, numbers: memoryview[int] | memoryview[float]) -> pl.Series:
    found = pl.Series(name, numbers, dtype=pl.Int64)
    return found.set(found < 0, None)
