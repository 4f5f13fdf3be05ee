"""Sweeps: one scenario at every combination of some values, on all cores.

Each point of a sweep is a run like any other and has its dataset, in a folder of its own below the
sweep's. What is there and complete is not run again, so that a sweep that was interrupted goes on
where it stopped; and what a sweep says is read from those datasets, in the order of the points, so
that it does not depend on how many worked on it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from perhop import gallery
from perhop.analysis import summary
from perhop.dataset import Dataset
from perhop.errors import OutputError, UsageError
from perhop.scenario import Scenario, to_mapping
from perhop.workers import Task, cores, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["MOST_POINTS", "Point", "Sweep", "parse_vary"]

MOST_POINTS: Final = 100_000
"""The most points that a sweep may have."""

_DEFINITION: Final = "sweep.json"


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a sweep.

    Attributes:
        number: Its place in the sweep, from 0.
        values: The values of what is varied, by path.
        seed: The seed of its run.
        scenario: What is run.
    """

    number: int
    values: Mapping[str, str]
    seed: int
    scenario: Scenario


@dataclass(frozen=True, slots=True)
class Sweep:
    """A scenario, what is varied in it, and the folder of the results.

    Attributes:
        source: A file, or a name of the gallery.
        vary: The values of each path that is varied, as `--set` takes them.
        seeds: The seeds with which every combination is run.
        overrides: What is set alike at every point.
        engine: What runs it.
        folder: Where the results are.
    """

    source: str
    vary: Mapping[str, Sequence[str]]
    folder: Path
    seeds: Sequence[int] = (1,)
    overrides: Sequence[str] = ()
    engine: str = "sim"

    def points(self) -> list[Point]:
        """The points: the last path varies fastest, the seed faster still.

        Raises:
            ScenarioError: If the scenario is wrong at one of them; the first is told.
            UsageError: If there are none, or too many.
        """
        count = prod(map(len, self.vary.values())) * len(self.seeds)
        if not 1 <= count <= MOST_POINTS:
            raise UsageError(f"the sweep has {count:,} points; expected 1 to {MOST_POINTS:,}")
        points: list[Point] = []
        for combination in product(*self.vary.values()):
            values = dict(zip(self.vary, combination, strict=True))
            set_here = [*self.overrides, *(f"{path}={value}" for path, value in values.items())]
            scenario = gallery.load(self.source, overrides=set_here)
            points += [
                Point(len(points) + index, values, seed, scenario)
                for index, seed in enumerate(self.seeds)
            ]
        return points

    def run(
        self, *, jobs: int | None = None, watch: Callable[[int, int], None] | None = None
    ) -> pl.DataFrame:
        """Run every point that has no result yet, and return what all of them say.

        Ctrl-C lets no further point begin; what is finished is kept, and `KeyboardInterrupt` goes
        on.

        Args:
            jobs: How many processes; one a core by default.
            watch: Called with the number of points that are done, and of all.

        Returns:
            A row per point, flow or ping, and metric: `point`, a column for each path that is
            varied, `seed`, `target` (a flow, a ping or "total"), `metric`, `value`. Rates are
            bits per second, times seconds, shares 0 to 1; null is what could not be measured.

        Raises:
            ScenarioError: If the scenario is wrong at a point; nothing is run then.
            UsageError: If the engine is unknown, or there are too many points.
            OutputError: If the folder cannot be written, or holds another sweep.
        """
        points = self.points()
        self._claim(points)
        todo = [point for point in points if not self._has(point)]
        done = len(points) - len(todo)
        if watch is not None:
            watch(done, len(points))
        tasks = [Task(p.scenario, self._place(p), self.engine, p.seed) for p in todo]
        for _ in work(tasks, jobs or cores()):
            done += 1
            if watch is not None:
                watch(done, len(points))
        return self.table(points)

    def table(self, points: Sequence[Point] | None = None) -> pl.DataFrame:
        """What the points that are finished say; see `run`."""
        rows: list[dict[str, Any]] = []
        for point in self.points() if points is None else points:
            if not self._has(point):
                continue
            place = {"point": point.number, **point.values, "seed": point.seed}
            rows += [{**place, **row} for row in _rows(Dataset.read(self._place(point)))]
        schema = {"point": pl.Int64, **dict.fromkeys(self.vary, pl.String), "seed": pl.UInt64}
        measured = {"target": pl.String, "metric": pl.String, "value": pl.Float64}
        return pl.DataFrame(rows, schema={**schema, **measured})

    def _place(self, point: Point) -> Path:
        return self.folder / "points" / str(point.number)

    def _has(self, point: Point) -> bool:
        """Whether the point was run to its end."""
        try:
            return Dataset.read(self._place(point)).manifest.complete
        except OutputError:
            return False

    def _claim(self, points: Sequence[Point]) -> None:
        """Write what the sweep is into its folder, or find that it is there already."""
        definition = {
            "format": 1,
            "source": self.source,
            "vary": {path: list(values) for path, values in self.vary.items()},
            "seeds": list(self.seeds),
            "engine": self.engine,
            # Two sweeps over files of one name must not be taken for each other.
            "scenario": to_mapping(points[0].scenario),
        }
        text = json.dumps(definition, indent=2, ensure_ascii=False) + "\n"
        path = self.folder / _DEFINITION
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if path.exists():
                if path.read_text(encoding="utf-8") != text:
                    raise OutputError(f"{self.folder} holds another sweep; give another folder")
            elif any(self.folder.iterdir()):
                raise OutputError(f"{self.folder} is not empty; give another folder")
            else:
                path.write_text(text, encoding="utf-8")
        except OSError as error:
            reason = error.strerror or str(error)
            raise OutputError(f"cannot write {self.folder}: {reason}") from error


def parse_vary(text: str) -> tuple[str, list[str]]:
    """Path and values of ``PATH=V1,V2,…``; commas inside brackets do not separate.

    Raises:
        UsageError: If it has not that form, or a value stands there twice.
    """
    path, equals, listed = text.partition("=")
    values = [""]
    depth = 0
    for character in listed:
        depth += (character in "[{") - (character in "]}")
        if character == "," and depth == 0:
            values.append("")
        else:
            values[-1] += character
    values = [value.strip() for value in values]
    if not equals or not path.strip() or not all(values):
        raise UsageError(
            f"--vary {text}: expected PATH=V1,V2,… such as `links.1.rate=5 Mbps,10 Mbps`"
        )
    repeated = {value for value in values if values.count(value) > 1}
    if repeated:
        raise UsageError(f"--vary {text}: {min(repeated)} stands there twice")
    return path.strip(), values


def _rows(dataset: Dataset) -> Iterator[dict[str, Any]]:
    """What a run says: a row per flow or ping, and metric."""
    found = summary(dataset)
    length = dataset.covered_s
    total = sum(flow["bytes"] for flow in found["flows"].values())
    yield {"target": "total", "metric": "throughput", "value": 8 * total / length}
    failed = sum(not verdict["ok"] for verdict in found["expect"])
    yield {"target": "total", "metric": "failed_expectations", "value": float(failed)}
    for name, flow in found["flows"].items():
        yield {"target": name, "metric": "throughput", "value": flow["throughput_bps"]}
        for metric in ("bytes", "loss", "retransmits", "reordered", "duplicates"):
            yield {"target": name, "metric": metric, "value": flow[metric]}
        yield {"target": name, "metric": "jitter", "value": flow["jitter_s"]}
        yield from _spread(name, "rtt", flow["rtt_s"])
        yield from _spread(name, "owd", flow["owd_s"])
    for name, ping in found["pings"].items():
        yield {"target": name, "metric": "loss", "value": ping["loss"]}
        yield from _spread(name, "rtt", ping["rtt_s"])


def _spread(name: str, of: str, found: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    for metric in ("min", "mean", "median", "p95", "p99", "max"):
        value = None if found is None else found[metric]
        yield {"target": name, "metric": f"{of}_{metric}", "value": value}
