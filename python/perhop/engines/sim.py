"""The `sim` engine: modelled hosts and virtual time, on perhop's own network.

The scenario goes to the core as a `plan`; here the names are put back into the tables that the core
returns.
"""

from __future__ import annotations

import json
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from perhop._core import Simulation
from perhop.dataset import ANSWERS, TABLES
from perhop.engines.plan import plan
from perhop.scenario.changes import steps
from perhop.scenario.policies import walk
from perhop.units import MILLISECOND, format_rate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import FileIO

    from perhop.engines.captures import Capture
    from perhop.scenario import Scenario

__all__ = ["SimRun", "start"]

_SLICE_S: Final = 0.1
"""How much wall time a slice is to take."""

_FIRST_SLICE_PS: Final = MILLISECOND
"""How much is simulated where nothing is known yet of how long that takes."""


def start(scenario: Scenario, seed: int) -> SimRun:
    """Begin a simulation."""
    return SimRun(scenario, seed)


class SimRun:
    """A simulation under way."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario = scenario
        self._seed = seed
        self._core = Simulation(json.dumps(plan(scenario, seed)))
        self._names = _names(scenario)
        self._words = {"node": list(scenario.nodes), "answer": list(ANSWERS)}
        self._changes_ps = [*scenario.changes_ps, scenario.end_ps]
        self._slice_ps = _FIRST_SLICE_PS

    def capture(self, capture: Capture, file: FileIO) -> None:
        """Write what passes the capture's interfaces from now on to `file`, as pcapng."""
        ports = {name: number for number, name in enumerate(self._scenario.directions)}
        title = self._scenario.title and f": {self._scenario.title}"
        plan = {
            "snaplen": capture.snaplen,
            "application": f"perhop {version('perhop')}",
            "comment": f"{self._scenario.name}{title}, seed {self._seed}",
            "interfaces": [
                {"port": ports[name], "name": name, **self._end(name)}
                for name in capture.interfaces
            ],
        }
        self._core.capture(json.dumps(plan), file)

    def _end(self, name: str) -> dict[str, Any]:
        """What a capture says of an interface."""
        link, sender = self._scenario.directions[name]
        rate = format_rate(link.rate)
        return {
            "description": f"{sender}'s end of its link to {link.other(sender)}, {rate}",
            "speed": link.rate,
        }

    @property
    def now_s(self) -> float:
        """Simulated seconds so far."""
        return self._core.now_ps / 1e12

    @property
    def finished(self) -> bool:
        """Whether the scenario's end is reached."""
        return self._core.now_ps >= self._scenario.end_ps

    @property
    def counters(self) -> Mapping[str, int]:
        """Events processed, and links crossed by packets."""
        return {"events": self._core.events, "packet_hops": self._core.packet_hops}

    def advance(self) -> None:
        """Simulate for about a tenth of a second of wall time."""
        began = time.perf_counter()
        now = self._core.now_ps
        change = next(change for change in self._changes_ps if now < change)
        self._core.advance(min(now + self._slice_ps, change))
        if self._core.now_ps == change:
            # An hour of silence says nothing of how long an hour of traffic takes.
            self._slice_ps = _FIRST_SLICE_PS
        else:
            # How long the next slice may be follows from how long this one took.
            took = max(time.perf_counter() - began, 1e-6)
            self._slice_ps = max(1, int(self._slice_ps * min(_SLICE_S / took, 4.0)))

    def delivered(self) -> dict[str, int]:
        """Bytes that each flow has delivered so far."""
        return dict(zip(self._scenario.flows, self._core.delivered(), strict=True))

    def stop(self) -> None:
        """End the simulation where it is."""
        self._core.stop()

    def tables(self) -> dict[str, pl.DataFrame]:
        """The dataset's tables, up to the last mark."""
        return {
            name: _with_names(name, _frame(columns), self._names, self._words)
            for name, columns in self._core.tables().items()
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
        if column in named.columns
    )
    return named.select(pl.col(name).cast(dtype) for name, dtype in schema.items())
