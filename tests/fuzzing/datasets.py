"""Tables of datasets changed at random: an error that names table and column, or a page."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final

import polars as pl

from perhop import report
from perhop.analysis import summary
from perhop.dataset import TABLES, Dataset

if TYPE_CHECKING:
    from random import Random

NUMBERS: Final = (
    *(None, 0.0, -0.0, -1.0, 1.5, 1e-300, 5e-324, 1e9, 1e12, 1e15, 1e18, 9.2e18, 1e19, 1e30, 1e200),
    *(1.7e308, math.nan, math.inf, -math.inf),
)
COUNTS: Final = (
    *(None, 0, -1, 1, 63, 64, 255, 65_536, 2**31 - 1, 2**31, 2**53, 2**53 + 1, 10**18, 2**62),
    *(2**63 - 1, -(2**63)),
)
WORDS: Final = (None, "", "unknown", "\x1b[2J", "x" * 10_000, "\u202e", "<b>", "null")


def changed(dataset: Dataset, rng: Random) -> tuple[str, dict[str, pl.DataFrame]]:
    """Return a change in words, and the tables of a dataset with it."""
    tables = {name: getattr(dataset, name) for name in TABLES}
    said = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        name = rng.choice([name for name in TABLES if tables[name].width])
        table = tables[name]
        column = rng.choice(table.columns)
        kind = rng.choice(
            ("value", "value", "value", "all", "sort", "double", "cut", "drop", "type")
        )
        dtype = table.schema[column]
        words = WORDS if dtype == pl.String else NUMBERS if dtype.is_float() else COUNTS
        if dtype == pl.String and table.height and rng.random() < 0.5:
            words = tuple(table[column].unique())
        value = rng.choice(words)
        said.append(f"{name}.{column}: {kind} {value!r:.30}")
        try:
            if kind in ("value", "all") and table.height:
                values = table[column].to_list()
                for at in range(len(values)) if kind == "all" else [rng.randrange(len(values))]:
                    values[at] = value
                table = table.with_columns(pl.Series(column, values, dtype))
            elif kind == "sort":
                table = table.sort(column, descending=rng.random() < 0.5)
            elif kind == "double":
                table = pl.concat([table, table])
            elif kind == "cut":
                table = table.head(rng.randrange(table.height + 1))
            elif kind == "drop":
                table = table.drop(column)
            elif kind == "type":
                table = table.with_columns(pl.col(column).cast(rng.choice((pl.String, pl.Float32))))
        except (pl.exceptions.PolarsError, OverflowError, TypeError):
            continue  # no table can be so
        tables[name] = table
    return "; ".join(said), tables


def told(dataset: Dataset, tables: dict[str, pl.DataFrame]) -> str:
    """Read the tables as a dataset, and say all of it; or return why not."""
    try:
        mutant = Dataset(dataset.scenario, dataset.manifest, **tables)
    except ValueError as error:
        return str(error)
    json.dumps(summary(mutant), allow_nan=False)
    report.page(mutant)
    return ""
