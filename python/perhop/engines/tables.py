"""The tables of the core as tables of a dataset."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

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
            if any(map(_rows, columns.values()))
            else None,
            schema=TABLES[table],
        )
        for table, columns in counted.items()
    }
    if "queues" in found:
        # The queue of a link with classes has no name; the rows of its classes have its counters.
        found["queues"] = found["queues"].filter(pl.col("class") != "")
    return found


def _rows(column: Column) -> int:
    """Return the number of a column's rows."""
    return len(column[1] if isinstance(column, tuple) else column)


def _series(name: str, column: Column) -> pl.Series:
    """Return a column of the core, in which NaN or a negative number stands for null.

    To look whether there is one takes a tenth of the time of replacing it.
    """
    if isinstance(column, tuple):
        names, places = column
        known = pl.Series(name, names, dtype=pl.String)
        return known.gather(_whole(name, places))
    if column.format == "d":
        numbers = pl.Series(name, column, dtype=pl.Float64)
        return numbers.fill_nan(None) if math.isnan(numbers.sum()) else numbers
    return _whole(name, column)


def _whole(name: str, numbers: memoryview[int] | memoryview[float]) -> pl.Series:
    found = pl.Series(name, numbers, dtype=pl.Int64)
    least: Any = found.min()
    return found if least is None or least >= 0 else found.set(found < 0, None)
