"""Names for the numbers in the tables that the core returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from perhop.dataset import ANSWERS, CAUSES, TABLES
from perhop.scenario.resolve import steps, walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop.scenario import Scenario

__all__ = ["Naming"]


class Naming:
    """What the numbers of a scenario's nodes, links, classes, flows and pings stand for."""

    def __init__(self, scenario: Scenario) -> None:
        """The names of `scenario`."""
        self._names = _names(scenario)
        self._words = {
            "node": list(scenario.nodes),
            "answer": list(ANSWERS),
            "link": list(scenario.directions),
            "cause": list(CAUSES),
        }

    def tables(
        self, tables: Mapping[str, Mapping[str, memoryview[int] | memoryview[float]]]
    ) -> dict[str, pl.DataFrame]:
        """Tables of the core as the dataset has them."""
        return {
            name: _with_names(name, _frame(columns), self._names, self._words)
            for name, columns in tables.items()
        }


def _names(scenario: Scenario) -> dict[str, pl.DataFrame]:
    """For each column of numbers the names, row by row, that take its place."""
    directions = scenario.directions
    queues = [
        (name, link.egress.get(node), link.capacity(node))
        for name, (link, node) in directions.items()
    ]
    queues += [
        (str(step.change.on), step.policy, step.capacity)
        for step in steps(scenario)
        if step.change.policy is not None
    ]
    classes: list[tuple[str, str]] = []
    for port, policy, capacity in queues:
        # The core counts a root first; it stands for the whole only where it is a queue.
        classes.append((port, "all" if policy is None else ""))
        if policy is not None:
            placed = walk(scenario, scenario.policies[policy], capacity)
            classes += [(port, one.path) for one in placed]
    return {
        "flow": pl.DataFrame({"flow": list(scenario.flows)}, schema={"flow": pl.String}),
        "ping": pl.DataFrame({"ping": list(scenario.pings)}, schema={"ping": pl.String}),
        "link": pl.DataFrame({"link": list(directions)}, schema={"link": pl.String}),
        "class": pl.DataFrame(
            {"link": [port for port, _ in classes], "class": [path for _, path in classes]},
            schema={"link": pl.String, "class": pl.String},
        ),
    }


def _frame(columns: Mapping[str, memoryview[int] | memoryview[float]]) -> pl.DataFrame:
    """The core's columns as they are."""
    types = {"q": pl.Int64, "d": pl.Float64}
    return pl.DataFrame([pl.Series(n, c, dtype=types[c.format]) for n, c in columns.items()])


def _with_names(
    table: str,
    numbers: pl.DataFrame,
    names: Mapping[str, pl.DataFrame],
    words: Mapping[str, list[str]],
) -> pl.DataFrame:
    """A table of the core as the dataset has it."""
    schema = TABLES[table]
    named = numbers
    first = numbers.columns[0]
    if first in names:
        named = pl.concat([names[first][numbers[first]], numbers.drop(first)], how="horizontal")
    if table == "queues":
        named = named.filter(pl.col("class") != "")
    # The core has no null: a float that is none is NaN, an integer negative.
    floats = pl.selectors.float().fill_nan(None)
    integers = pl.selectors.integer()
    named = named.with_columns(floats, pl.when(integers >= 0).then(integers))
    named = named.with_columns(
        pl.col(column).replace_strict(range(len(known)), known, return_dtype=pl.String)
        for column, known in words.items()
        if named.schema.get(column) == pl.Int64
    )
    return named.select(pl.col(name).cast(dtype) for name, dtype in schema.items())
