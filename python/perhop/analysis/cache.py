"""A cache of values that are computed from a dataset."""

from __future__ import annotations

from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from perhop.analysis.names import flow_named, ping_named

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from perhop.dataset import Dataset

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def cached(
    function: Callable[Concatenate[Dataset, _Arguments], _Result],
) -> Callable[Concatenate[Dataset, _Arguments], _Result]:
    """Cache the results of a function of a dataset and arguments, as long as the dataset exists.

    A result is shared; callers must not change it.
    """
    names = list(signature(function).parameters)[1:]

    @wraps(function)
    def looked_up(
        dataset: Dataset, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> _Result:
        # An argument that is None is one that is not given.
        given = dict(zip(names, args, strict=False)) | kwargs
        asked = tuple((name, given[name]) for name in names if given.get(name) is not None)
        key = (function, asked)
        if key not in dataset.cache:
            dataset.cache[key] = function(dataset, *args, **kwargs)
        found: _Result = dataset.cache[key]
        return found

    return looked_up


def of_flow(dataset: Dataset, table: str, flow: str) -> pl.DataFrame:
    """Return the rows of a table for a flow, in the table's order.

    Raises:
        UsageError: If the run has no flow of that name.
    """
    rows = _parts(dataset, table, "flow").get((flow_named(dataset, flow),))
    return _none(dataset, table) if rows is None else rows


def of_ping(dataset: Dataset, ping: str) -> pl.DataFrame:
    """Return the rows of `pings` for a ping, in the table's order.

    Raises:
        UsageError: If the run has no ping of that name.
    """
    rows = _parts(dataset, "pings", "ping").get((ping_named(dataset, ping),))
    return _none(dataset, "pings") if rows is None else rows


@cached
def _parts(dataset: Dataset, table: str, column: str) -> dict[tuple[object, ...], pl.DataFrame]:
    """Return the rows of a table, grouped by the values of a column, in one pass."""
    whole: pl.DataFrame = getattr(dataset, table)
    return whole.partition_by(column, as_dict=True, maintain_order=True)


@cached
def _none(dataset: Dataset, table: str) -> pl.DataFrame:
    whole: pl.DataFrame = getattr(dataset, table)
    return whole.clear()
