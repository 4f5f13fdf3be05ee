"""Runs of scenarios with several seeds, of which only measured values are kept.

>>> from perhop import ensembles, load
>>> ensembles.run(load("qbss-1-70"), 20).metrics["priority", "throughput", "bit/s"].runs
1
"""

from __future__ import annotations

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perhop import analysis, engines, metrics, rights, workers
from perhop.dataset import Dataset
from perhop.dataset.ensembles import ENSEMBLE, single_run
from perhop.dataset.folder import explained, write_contents
from perhop.displays import show
from perhop.errors import OutputError, PerhopError, UsageError
from perhop.scenario import Scenario, to_mapping
from perhop.scenario.model.quantities import parse_seeds
from perhop.scenario.rules.warnings import is_random, unused_seeds
from perhop.stores import ObjectPath, place

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    import polars as pl

    from perhop.analysis import EnsembleVerdict, Spread, Verdict
    from perhop.stores import Place
    from perhop.workers import Pool

__all__ = [
    "Ensemble",
    "Judged",
    "Single",
    "check_seeds",
    "judged",
    "make",
    "read",
    "run",
    "seeds_of",
]

_Result = TypeVar("_Result")

_SHORT_S: Final = 2.0
"""Runs that take less time than this together are made in this process: others take a second to
start."""

_READERS: Final = 16
"""The datasets that are read side by side."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What is kept of a run: the verdicts on its expectations, and its warnings."""

    verdicts: tuple[Verdict, ...]
    warnings: tuple[str, ...]


def judged(dataset: Dataset) -> Judged:
    """Return the verdicts on a run, for `make`."""
    return Judged(tuple(analysis.verdicts(dataset)), tuple(map(str, dataset.warnings)))


@dataclass(frozen=True, slots=True, repr=False)
class Ensemble:
    """The results of a scenario over several seeds.

    Attributes:
        scenario: The scenario.
        engine: The engine.
        runs: The number of runs; one if seeds change nothing.
        throughput: The throughput in bit/s of each flow and of "total" in each phase, by the start
            and the end of the phase in seconds and the name.
        metrics: Every metric of one target, by target, metric and unit as in
            `perhop.metrics.table`.
        verdicts: The results of the expectations.
        warnings: Warnings about the results.
        singles: What was measured in each run, the first one with seed 1.
    """

    scenario: Scenario
    engine: str
    runs: int
    throughput: Mapping[tuple[float, float, str], Spread]
    metrics: Mapping[tuple[str, str, str], Spread]
    verdicts: tuple[EnsembleVerdict, ...]
    warnings: tuple[str, ...]
    singles: tuple[Single, ...] = ()

    def __repr__(self) -> str:
        """Return ``<Ensemble of dumbbell: sim, 20 runs, 3 of 4 expectations hold>``."""
        runs = f"{self.runs} run{'s' * (self.runs != 1)}"
        held = sum(verdict.state == "holds" for verdict in self.verdicts)
        judged = f", {held} of {len(self.verdicts)} expectations hold" if self.verdicts else ""
        return f"<Ensemble of {self.scenario.name}: {self.engine}, {runs}{judged}>"

    def _repr_html_(self) -> str:
        """Return what notebooks show: the verdicts, the metrics, and the warnings."""

        def shown(value: float | None) -> str:
            return "\N{EN DASH}" if value is None else f"{value:.4g}"

        verdicts = (
            (each.text, each.state, shown(each.median), shown(each.low), shown(each.high))
            for each in self.verdicts
        )
        metrics = (
            (*row[:2], f"{shown(row[2])} {row[5]}", *map(shown, row[3:5]))
            for row in self.table.iter_rows()
        )
        return show(
            repr(self).strip("<>"),
            (("warning",), ((warning,) for warning in self.warnings)),
            (("expectation", "verdict", "median", "low", "high"), verdicts),
            (("target", "metric", "median", "low", "high"), metrics),
        )

    @property
    def table(self) -> pl.DataFrame:
        """The metrics as a table: `target`, `metric`, `median`, `low`, `high`, `unit`, `missing`.

        `low` and `high` are the ends of the interval of the median; see `Spread`.
        """
        import polars as pl

        rows = [
            (target, metric, each.median, each.low, each.high, unit, each.missing)
            for (target, metric, unit), each in self.metrics.items()
        ]
        words, numbers = ("target", "metric"), ("median", "low", "high")
        schema: dict[str, Any] = dict.fromkeys(words, pl.String)
        schema |= dict.fromkeys(numbers, pl.Float64) | {"unit": pl.String, "missing": pl.Int64}
        return pl.DataFrame(rows, schema=schema, orient="row")

    @property
    def exit_code(self) -> int:
        """0 if every expectation holds, 1 otherwise."""
        return int(any(verdict.state != "holds" for verdict in self.verdicts))

    def as_object(self) -> dict[str, Any]:
        """Return the results as an object of JSON types, in the units of the attributes."""
        phases: dict[tuple[float, float], dict[str, Any]] = {}
        for (start, end, flow), spread in self.throughput.items():
            phases.setdefault((start, end), {})[flow] = asdict(spread)
        found: dict[str, dict[str, Any]] = {}
        for (target, metric, unit), spread in self.metrics.items():
            found.setdefault(target, {})[metric] = {"unit": unit, **asdict(spread)}
        return {
            "scenario": self.scenario.name,
            "engine": self.engine,
            "runs": self.runs,
            "phases": [
                {"start_s": start, "end_s": end, "throughput_bps": flows}
                for (start, end), flows in phases.items()
            ],
            "metrics": found,
            "expect": [asdict(verdict) for verdict in self.verdicts],
            "warnings": list(self.warnings),
        }


def run(
    scenario: Scenario,
    seeds: int,
    *,
    engine: str = "sim",
    jobs: int | None = None,
    cluster: Pool | None = None,
    watch: Callable[[int, int], None] | None = None,
    folder: Place | None = None,
) -> Ensemble:
    """Run a scenario with several seeds.

    Args:
        scenario: The scenario.
        seeds: The number of runs, with the seeds from 1 on: 1, or enough for an interval. A
            scenario whose seeds change nothing runs once.
        engine: The engine.
        jobs: The number of processes, as for `make`.
        cluster: Where runs are made instead, as by `perhop.cluster.connect`.
        watch: A function to call with the numbers of finished runs and of all runs.
        folder: A folder for the datasets of the runs, of this machine or of an object store:
            `runs/SEED` in it. Runs that are there are not repeated; others there are removed.

    Raises:
        UsageError: Too few seeds for an interval.
        PerhopError: A run is not possible.
        OutputError: The folder cannot be read or written.
        ClusterError: If processes or a cluster end before the runs do.
    """
    check_seeds(seeds)
    chosen = seeds_of(scenario, engine, seeds)
    here = cluster is None or cluster.shares_folders or isinstance(folder, ObjectPath)
    made: dict[int, Single] = {}
    measure: Callable[[Dataset], Any] = _measured
    if folder is not None:
        measure = partial(_kept, str(folder)) if here else _sent
        made = _finished([workers.Task(scenario, single_run(folder, s), engine, s) for s in chosen])
    todo = [seed for seed in chosen if seed not in made]
    if watch is not None and made:
        watch(len(made), len(chosen))
    runs = ((scenario, seed) for seed in todo)
    results = make(runs, measure, engine, expected=len(todo), jobs=jobs, cluster=cluster)
    with closing(results):
        for number, result in results:
            if isinstance(result, PerhopError):
                raise result
            if folder is not None and not here:
                result, contents = result
                write_contents(single_run(folder, todo[number]), contents)
            made[todo[number]] = result
            if watch is not None:
                watch(len(made), len(chosen))
    lacking = unused_seeds(scenario, engine, range(seeds))
    return _ensemble(scenario, engine, [made[seed] for seed in chosen], lacking)


def _finished(tasks: Sequence[workers.Task]) -> dict[int, Single]:
    """Return what was measured in runs whose datasets are there, by seed; remove other runs."""
    folder, names = tasks[0].folder.parent, {task.folder.name for task in tasks}
    with explained(f"cannot write {folder}", "give another folder"):
        there = [*folder.iterdir()] if folder.exists() else []
        for other in (each for each in there if each.name not in names):
            if isinstance(other, Path):
                shutil.rmtree(other)
            else:
                other.remove()
    if not there:
        return {}
    # A store answers many requests at once, and each takes its time.
    with ThreadPoolExecutor(_READERS) as readers:
        found = zip(tasks, readers.map(workers.Task.finished, tasks), strict=True)
        return {task.seed: _measured(dataset) for task, dataset in found if dataset is not None}


def read(folder: Place) -> Ensemble:
    """Return the ensemble of a folder that `run` made.

    Raises:
        OutputError: The folder is none, or one of its runs is damaged.
    """
    definition = folder / ENSEMBLE
    try:
        stored = json.loads(definition.read_bytes())
        seeds, warnings = range(1, 1 + int(stored["runs"])), [*map(str, stored["warnings"])]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise OutputError(f"{definition} is not the description of an ensemble: {error}") from error
    runs = [Dataset.read(single_run(folder, seed)) for seed in seeds]
    if not runs:
        raise OutputError(f"{folder} has no runs")
    first = runs[0]
    return _ensemble(first.scenario, first.manifest.engine, [*map(_measured, runs)], warnings)


@dataclass(frozen=True, slots=True)
class Single:
    """What was measured in one run of an ensemble.

    Attributes:
        judged: The verdicts, and the warnings.
        throughput: As in `Ensemble`, of this run.
        metrics: As in `Ensemble`, of this run.
    """

    judged: Judged
    throughput: Mapping[tuple[float, float, str], float | None]
    metrics: Mapping[tuple[str, str, str], float | None]


def _measured(dataset: Dataset) -> Single:
    phases = analysis.phases(dataset).select("start_s", "end_s", "flow", "throughput_bps")
    table = metrics.table(dataset).select("target", "metric", "unit", "value")
    return Single(
        judged(dataset),
        {(start, end, flow): bps for start, end, flow, bps in phases.iter_rows()},
        {(target, metric, unit): value for target, metric, unit, value in table.iter_rows()},
    )


def _kept(folder: str, dataset: Dataset) -> Single:
    """Write a run into its folder below `folder`."""
    dataset.write(single_run(place(folder), dataset.manifest.seed))
    return _measured(dataset)


def _sent(dataset: Dataset) -> tuple[Single, dict[str, bytes]]:
    """Return the files of a run, too, for one who can write them."""
    return _measured(dataset), dataset.contents()


def _ensemble(
    scenario: Scenario, engine: str, found: Sequence[Single], warnings: Iterable[str]
) -> Ensemble:
    said = chain(warnings, *(each.judged.warnings for each in found))
    return Ensemble(
        scenario,
        engine,
        len(found),
        _spreads([each.throughput for each in found]),
        _spreads([each.metrics for each in found]),
        tuple(analysis.ensemble_verdicts(scenario.expect, [e.judged.verdicts for e in found])),
        tuple(dict.fromkeys(said)),
        tuple(found),
    )


_Key = TypeVar("_Key")


def _spreads(runs: Sequence[Mapping[_Key, float | None]]) -> dict[_Key, Spread]:
    """Return the spread of each value; a run that lacks it measured nothing."""
    keys = dict.fromkeys(chain.from_iterable(runs))
    return {key: analysis.spread([run.get(key) for run in runs]) for key in keys}


def check_seeds(seeds: int) -> None:
    """Refuse a number of seeds that has no interval.

    Raises:
        UsageError: It is neither 1 nor enough for an interval.
    """
    try:
        parse_seeds(str(seeds))
    except ValueError as error:
        raise UsageError(f"seeds: {error}") from None


def seeds_of(scenario: Scenario, engine: str, seeds: int | None = None) -> range:
    """Return the seeds of a scenario's runs: from 1, and only 1 if seeds change nothing.

    Args:
        scenario: The scenario.
        engine: The engine.
        seeds: The number of seeds; by default that in the scenario.
    """
    random = engine != "sim" or is_random(scenario)
    return range(1, 1 + (seeds or scenario.seeds if random else 1))


def make(
    runs: Iterable[tuple[Scenario, int] | None],
    measure: Callable[[Dataset], _Result],
    engine: str,
    *,
    expected: int,
    jobs: int | None = None,
    cluster: Pool | None = None,
) -> Generator[tuple[int, _Result | PerhopError], None, None]:
    """Make runs, in this process or in several.

    Args:
        runs: The scenario and the seed of each run, taken as processes become free. None means that
            there is none until all that were taken are done.
        measure: A function of a module, of the dataset of each run.
        engine: The engine.
        expected: The likely number of runs.
        jobs: The number of processes. By default one with real hosts, which would disturb each
            other, or if the first run suggests that all will take little time; otherwise one for
            each core.
        cluster: Where runs are made instead, as by `perhop.cluster.connect`.

    Yields:
        The number of a run, from 0, and what `measure` returns, or the error of the run, as soon as
        it is available, in any order.
    """
    waiting = iter(runs)
    done = 0
    if jobs is None and engine in {*rights.REAL_ENGINES, "live"}:
        jobs = 1
    pool = cluster
    if jobs is None and pool is None:
        began = time.monotonic()
        for number, result in _here(islice(waiting, 1), measure, engine):
            taken, done = time.monotonic() - began, number + 1
            jobs = 1 if taken * expected < _SHORT_S else workers.cores()
            yield number, result
        if jobs is None:
            return
    if pool is None and jobs is not None and min(jobs, expected) > 1:
        pool = workers.Processes(min(jobs, expected))
    if pool is not None:
        made = pool.call(_one, _mappings(waiting, measure, engine))
    else:
        made = _here(waiting, measure, engine)
    try:
        for number, result in made:
            yield done + number, result
    finally:
        made.close()


def _here(
    runs: Iterable[tuple[Scenario, int] | None], measure: Callable[[Dataset], _Result], engine: str
) -> Generator[tuple[int, _Result | PerhopError], None, None]:
    """Make runs in this process."""
    for number, run in enumerate(runs):
        if run is None:
            return
        yield number, _one(measure, run[0], engine, run[1])


def _mappings(
    runs: Iterable[tuple[Scenario, int] | None], measure: Callable[[Dataset], Any], engine: str
) -> Iterator[tuple[Any, ...] | None]:
    """Yield the arguments of `_one` for other processes; a scenario's mapping is made once."""
    last: Scenario | None = None
    mapping: dict[str, Any] = {}
    for run in runs:
        if run is None:
            yield None
            continue
        if run[0] is not last:
            last, mapping = run[0], to_mapping(run[0])
        yield measure, mapping, engine, run[1]


def _one(
    measure: Callable[[Dataset], _Result],
    scenario: Scenario | dict[str, Any],
    engine: str,
    seed: int,
) -> _Result | PerhopError:
    """Make one run; return its error instead of raising it."""
    if isinstance(scenario, dict):
        scenario = Scenario.model_validate(scenario)
    try:
        dataset = engines.run(scenario, engine=engine, seed=seed)
    except PerhopError as error:
        return error
    if not dataset.manifest.complete:
        raise KeyboardInterrupt
    return measure(dataset)
