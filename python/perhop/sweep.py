"""Sweeps: one scenario with every combination of some values, on all cores.

Each point of a sweep is a run with a dataset, in a folder below the sweep's. Complete runs are not
repeated, so that an interrupted sweep continues. The table of a sweep is computed from the
datasets, in the order of the points, so that it does not depend on the number of processes.
"""

from __future__ import annotations

import json
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from itertools import chain, product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from perhop import gallery
from perhop.analysis import measure, summary
from perhop.errors import OutputError, Problem, ScenarioError, UsageError
from perhop.hints import did_you_mean
from perhop.scenario import METRICS, Flow, Scenario, override_texts, to_mapping
from perhop.scenario.model.metrics import CALLS
from perhop.scenario.model.quantities import ANY_PACKETS
from perhop.scenario.rules.warnings import unused_seeds
from perhop.stores import place
from perhop.units import DURATION, RATE, SECOND, SHARE, SIZE, WHOLE, quote
from perhop.workers import Task, pool_of, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from perhop.dataset import Dataset
    from perhop.scenario import Overrides
    from perhop.stores import Place
    from perhop.workers import Pool

__all__ = ["MOST_POINTS", "Point", "Sweep", "parse_vary", "with_combinations"]

MOST_POINTS: Final = 100_000
"""The most points that a sweep may have."""

Measures = list[tuple[str, str, float | None]]
"""Target, metric and value of all results of a run."""

_DEFINITION: Final = "sweep.json"

_READERS: Final = 16
"""The datasets that are read side by side from an object store."""

_OF_TOTAL: Final = ("throughput", "failed_expectations")
_OF_FLOWS: Final = {
    "throughput": "throughput_bps",
    "bytes": "bytes",
    "loss": "loss",
    "retransmits": "retransmits",
    "reordered": "reordered",
    "duplicates": "duplicates",
    "jitter": "jitter_s",
}
"""The metrics of flows, and what `summary` calls them."""
_SPREAD: Final = ("min", "mean", "median", "p95", "p99", "max")


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a sweep.

    Attributes:
        number: Its index in the sweep, from 0.
        values: The values of the varied keys, by path.
        seed: The seed of its run.
        scenario: Its scenario.
    """

    number: int
    values: Mapping[str, str]
    seed: int
    scenario: Scenario


@dataclass(frozen=True)
class Sweep:
    """A scenario, the values that are varied, and the folder of the results.

    Attributes:
        source: A file, a name of the gallery, a mapping or a scenario, as for `perhop.load`.
        vary: The values of each varied path, as `--set` takes them; numbers, too.
        folder: The folder of the results: a path, or the URL of one in an object store.
        seeds: The seeds of every combination.
        overrides: Values that are set at every point.
        engine: The engine.
    """

    source: str | os.PathLike[str] | Mapping[str, Any] | Scenario
    vary: Mapping[str, Sequence[str | float]]
    folder: str | os.PathLike[str] | Place
    seeds: Sequence[int] = (1,)
    overrides: Overrides = ()
    engine: str = "sim"

    @cached_property
    def place(self) -> Place:
        """The folder of the results."""
        return place(self.folder)

    def __post_init__(self) -> None:
        """Refuse a text in place of the values of a path: its characters are not the values.

        Raises:
            UsageError: The values of a path are one text.
        """
        for path, values in self.vary.items():
            if isinstance(values, str):
                raise UsageError(f"{path}: {quote(values)} is one value; expected a list of values")

    @property
    def values(self) -> dict[str, list[str]]:
        """The values of each varied path, as text."""
        return {path: [*map(str, values)] for path, values in self.vary.items()}

    @property
    def name(self) -> str:
        """The file or name of the gallery, or the name of a scenario without one."""
        if isinstance(self.source, str | os.PathLike) and "\n" not in str(self.source):
            return os.fspath(self.source)
        return gallery.load(self.source, overrides=self.overrides).name

    def __repr__(self) -> str:
        """Return ``<Sweep of qbss-1-70 over links.1.rate: 3 points, in runs/sweep>``."""
        count = prod(map(len, self.values.values())) * len(self.seeds)
        over = f" over {', '.join(self.values)}" if self.values else ""
        points = f"{count:,} point{'s' * (count != 1)}"
        return f"<Sweep of {self.name}{over}: {points}, in {self.place}>"

    def check_metric(self, metric: str, target: str) -> None:
        """Check that the table will have a metric of a target.

        Raises:
            ScenarioError: The scenario is wrong.
            UsageError: Unknown target, or a metric that the target does not have.
        """
        scenario = gallery.load(self.source, overrides=self.overrides)
        spreads = {of: [f"{of}_{part}" for part in _SPREAD] for of in ("rtt", "srtt", "owd")}
        known = {"total": list(_OF_TOTAL)}
        known |= {
            name: [*_OF_FLOWS, *chain(*spreads.values()), *_of_application(flow)]
            for name, flow in scenario.flows.items()
        }
        known |= {name: ["loss", *spreads["rtt"]] for name in scenario.pings}
        for word, words, what in (
            (target, list(known), "not a flow or a ping of this scenario"),
            (metric, known.get(target, []), f"not measured of {target}"),
        ):
            if word not in words:
                hint = did_you_mean(word, words) or f"expected one of {', '.join(words)}"
                raise UsageError(f"{quote(word)} is {what}; {hint}")

    def fits(self) -> bool:
        """Return whether the folder is empty or holds this sweep.

        Raises:
            ScenarioError: The scenario is wrong at one of the points.
        """
        definition = self.place / _DEFINITION
        try:
            if definition.is_file():
                return definition.read_bytes() == self._definition().encode()
            return not self.place.exists() or not any(self.place.iterdir())
        except OSError:
            return False

    @cached_property
    def points(self) -> list[Point]:
        """The points; the last path varies fastest, the seed faster still.

        Raises:
            ScenarioError: The scenario is wrong at a point: the problems of all combinations.
            UsageError: There are no points, or too many.
        """
        varied, first = self.values, override_texts(self.overrides)
        count = prod(map(len, varied.values())) * len(self.seeds)
        if not 1 <= count <= MOST_POINTS:
            raise UsageError(f"the sweep has {count:,} points; expected 1 to {MOST_POINTS:,}")
        points: list[Point] = []
        wrong: dict[Problem, list[str]] = {}
        for combination in product(*varied.values()):
            values = dict(zip(varied, combination, strict=True))
            settings = [f"{path}={value}" for path, value in values.items()]
            try:
                scenario = gallery.load(self.source, overrides=[*first, *settings])
            except ScenarioError as error:
                for problem in error.found:
                    wrong.setdefault(problem, []).append(", ".join(settings))
                continue
            points += [
                Point(len(points) + index, values, seed, scenario)
                for index, seed in enumerate(self.seeds)
            ]
        if wrong:
            raise ScenarioError(with_combinations(wrong))
        return points

    def warnings(self) -> list[str]:
        """Return what makes the results of the sweep misleading, beside the warnings of its runs.

        Raises:
            ScenarioError: The scenario is wrong at a point.
            UsageError: There are no points, or too many.
        """
        scenarios = [point.scenario for point in self.points[:: len(self.seeds)]]
        found = (list(unused_seeds(each, self.engine, self.seeds)) for each in scenarios)
        said = [one for each in found for one in each]
        return said[:1] if len(said) == len(scenarios) else []

    def run(
        self,
        *,
        jobs: int | None = None,
        cluster: Pool | None = None,
        watch: Callable[[int, int], None] | None = None,
    ) -> pl.DataFrame:
        """Run every point that has no result yet, and return what all of them say.

        Results of another version of perhop are made again, and a warning says so.

        Ctrl-C lets no further point begin; what is finished is kept, and `KeyboardInterrupt` goes
        on.

        Args:
            jobs: Number of processes; by default one per core, and one with real hosts, which
                would disturb each other.
            cluster: Where runs are made instead, as by `perhop.cluster.connect`.
            watch: Called with the number of points that are done, and of all.

        Returns:
            A row per point, flow or ping, and metric: `point`, a column for each path that is
            varied, `seed`, `target` (a flow, a ping or "total"), `metric`, `value`. Rates are
            bits per second, times seconds, shares 0 to 1; null is what could not be measured.
            A path whose values are quantities has a second column, after `value`, with its numbers
            in the same units: `links.1.rate bps`.

        Raises:
            ScenarioError: If the scenario is wrong at a point; nothing is run then.
            UsageError: If the engine is unknown, or there are too many points.
            OutputError: If the folder cannot be written, or holds another sweep.
            ClusterError: If processes or a cluster end before the runs do.
        """
        self._claim()
        count = len(self.points)
        rows, others = self._rows()
        for other, outdated in others.items():
            warnings.warn(
                f"runs of perhop {other} in {self.place} are made again: {len(outdated):,}",
                stacklevel=2,
            )
        todo = [point for point in self.points if point.number not in rows]
        done = count - len(todo)
        if watch is not None:
            watch(done, count)
        tasks = [self._task(point) for point in todo]
        many = jobs or (None if self.engine == "sim" else 1)
        with closing(work(tasks, pool_of(many, cluster, len(tasks)), measured)) as made:
            for number, measures in made:
                rows[todo[number].number] = measures
                done += 1
                if watch is not None:
                    watch(done, count)
        return self._table(rows)

    def table(self) -> pl.DataFrame:
        """Return the results of the finished points; see `run`.

        A warning names other versions of perhop that made some of them.
        """
        rows, others = self._rows()
        for other, outdated in others.items():
            warnings.warn(
                f"runs of perhop {other} in {self.place}: {len(outdated):,}", stacklevel=2
            )
            rows |= outdated
        return self._table(rows)

    def _rows(self) -> tuple[dict[int, Measures], dict[str, dict[int, Measures]]]:
        """Return the results of the finished points by their numbers.

        Those of other versions of perhop are apart, by version.
        """
        if isinstance(self.place, Path):
            results = [self._measured(point) for point in self.points]
        else:
            # A store answers many requests at once, and each takes its time.
            with ThreadPoolExecutor(_READERS) as readers:
                results = [*readers.map(self._measured, self.points)]
        made: dict[str, dict[int, Measures]] = {version("perhop"): {}}
        for number, found in enumerate(results):
            if found is not None:
                made.setdefault(found[0], {})[number] = found[1]
        return made.pop(version("perhop")), made

    def _table(self, measures: Mapping[int, Measures]) -> pl.DataFrame:
        rows: list[tuple[Any, ...]] = []
        for point in self.points:
            place = (point.number, *point.values.values(), point.seed)
            rows += ((*place, *row) for row in measures.get(point.number, ()))
        schema = {"point": pl.Int64, **dict.fromkeys(self.values, pl.String), "seed": pl.UInt64}
        schema |= {"target": pl.String, "metric": pl.String, "value": pl.Float64}
        table = pl.DataFrame(rows, schema=schema, orient="row")
        return table.with_columns(
            table[path].replace_strict(dict(zip(values, found, strict=True))).alias(name)
            for path, values in self.values.items()
            for name, found in [_numbers(path, values)]
            if found is not None
        )

    def _task(self, point: Point) -> Task:
        folder = self.place / "points" / str(point.number)
        return Task(point.scenario, folder, self.engine, point.seed)

    def _measured(self, point: Point) -> tuple[str, Measures] | None:
        """Return the version that made a point, and its results, if it was run to its end."""
        dataset = self._task(point).finished(of_any_version=True)
        return None if dataset is None else (dataset.manifest.perhop, measured(dataset))

    def _definition(self) -> str:
        """Return the description of the sweep, as in its folder."""
        definition = {
            "format": 1,
            "source": self.name,
            "vary": self.values,
            "seeds": list(self.seeds),
            "engine": self.engine,
            # Two sweeps over files of one name must not be taken for each other.
            "scenario": to_mapping(self.points[0].scenario),
        }
        return json.dumps(definition, indent=2, ensure_ascii=False) + "\n"

    def _claim(self) -> None:
        """Write what the sweep is into its folder, or find that it is there already."""
        text = self._definition()
        path = self.place / _DEFINITION
        try:
            self.place.mkdir(parents=True, exist_ok=True)
            if path.exists():
                if not path.is_file() or path.read_bytes() != text.encode():
                    raise OutputError(f"{self.place} holds another sweep; give another folder")
            elif any(self.place.iterdir()):
                raise OutputError(f"{self.place} is not empty; give another folder")
            else:
                path.write_text(text, encoding="utf-8")
        except OSError as error:
            reason = error.strerror or str(error)
            raise OutputError(f"cannot write {self.place}: {reason}") from error


def parse_vary(text: str) -> tuple[str, list[str]]:
    """Path and values of ``PATH=V1,V2,…``; commas inside brackets do not separate.

    Raises:
        UsageError: If it has not that form, or a value is given twice.
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
        raise UsageError(f"--vary {text}: {min(repeated)} is given twice")
    return path.strip(), values


def with_combinations(wrong: Mapping[Problem, Sequence[str]]) -> Iterator[Problem]:
    """Yield problems, each with the first of the combinations of values that have it."""
    for problem, combinations in wrong.items():
        others = len(combinations) - 1
        more = f" and {others} more combination{'s' * (others > 1)}" if others else ""
        yield replace(problem, message=f"{problem.message} (with {combinations[0]}{more})")


def _numbers(path: str, values: Sequence[str]) -> tuple[str, list[float] | None]:
    """The values of a path as numbers of one unit, and the name of their column; None if not."""
    with suppress(ValueError):
        return f"{path} number", [float(value) for value in values]
    for unit, parse, scale in (
        ("bps", RATE.parse, 1),
        ("s", DURATION.parse, SECOND),
        ("bytes", SIZE.parse, 1),
        ("share", SHARE.parse, WHOLE),
        ("packets", ANY_PACKETS.parse, 1),
    ):
        with suppress(ValueError):
            return f"{path} {unit}", [parse(value) / scale for value in values]
    return path, None


def measured(dataset: Dataset) -> Measures:
    """Return the results of a run: of each flow or ping, and metric, the value."""
    return [
        (target, metric, None if value is None else float(value))
        for target, metric, value in _measures(dataset)
    ]


def _measures(dataset: Dataset) -> Iterator[tuple[str, str, float | None]]:
    found = summary(dataset)
    length = dataset.covered_s
    total = sum(flow["bytes"] for flow in found["flows"].values())
    yield "total", "throughput", 8 * total / length
    failed = sum(verdict["ok"] is False for verdict in found["expect"])
    yield "total", "failed_expectations", float(failed)
    for name, flow in found["flows"].items():
        for metric, key in _OF_FLOWS.items():
            yield name, metric, flow[key]
        yield from _spread(name, "rtt", flow["rtt_s"])
        yield from _spread(name, "srtt", flow["srtt_s"])
        yield from _spread(name, "owd", flow["owd_s"])
        for metric in _of_application(dataset.scenario.flows[name]):
            yield name, metric, measure(dataset, metric, name)
    for name, ping in found["pings"].items():
        yield name, "loss", ping["loss"]
        yield from _spread(name, "rtt", ping["rtt_s"])


def _of_application(flow: Flow) -> list[str]:
    """Return the metrics of the application of a flow, or of its calls, if it has any."""
    of_flow = {*flow.applications}
    own = [metric.name for metric in METRICS.values() if of_flow & {*metric.applications}]
    return own + (sorted(CALLS) if flow.voice is not None else [])


def _spread(
    name: str, of: str, found: dict[str, Any] | None
) -> Iterator[tuple[str, str, float | None]]:
    for metric in _SPREAD:
        yield name, f"{of}_{metric}", None if found is None else found[metric]
