"""Tests of policies: the expectations of many scenarios, each run once or with several seeds.

>>> from perhop import gallery, testing
>>> [tested] = testing.run([gallery.read("qbss-1-70")])
>>> {verdict.state for verdict in tested.verdicts}
{'holds'}
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perhop import analysis, engines, rights, workers
from perhop.errors import PerhopError, UsageError
from perhop.scenario import Scenario, to_mapping
from perhop.scenario.model.quantities import parse_seeds
from perhop.scenario.rules.warnings import is_random, unused_seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from perhop.analysis import EnsembleVerdict, Verdict
    from perhop.gallery import Source
    from perhop.scenario import Overrides

__all__ = ["Place", "Result", "run"]


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file: line and column from 1, or 0 for the whole file."""

    file: str
    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """The results of one scenario.

    Attributes:
        file: The name of its file.
        verdicts: The result of each expectation; none with an error.
        places: Where each expectation is.
        runs: The number of runs.
        warnings: Warnings about the results.
        error: The reason why there are no results, or None.
    """

    file: str
    verdicts: tuple[EnsembleVerdict, ...] = ()
    places: tuple[Place, ...] = ()
    runs: int = 0
    warnings: tuple[str, ...] = ()
    error: PerhopError | None = None

    @property
    def exit_code(self) -> int:
        """The exit code of an error; otherwise 1 unless every expectation holds, and 0."""
        if self.error is not None:
            return self.error.exit_code
        return int(any(verdict.state != "holds" for verdict in self.verdicts))


def run(
    sources: Sequence[Source],
    *,
    seeds: int | None = None,
    engine: str = "sim",
    overrides: Overrides = (),
    jobs: int | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """Run scenarios, and judge their expectations.

    The error of one scenario is part of its result. The others run.

    Args:
        sources: The scenarios.
        seeds: The number of runs of each, with the seeds from 1 on: 1, or enough for an interval;
            by default that in the scenario. A scenario whose seeds change nothing runs once.
        engine: The engine.
        overrides: Changes to each scenario first, as for `perhop.load`.
        jobs: The number of processes; by default one for each core, or one with real hosts, which
            would disturb each other.
        watch: A function to call with the numbers of finished runs and of all runs.

    Raises:
        UsageError: Too few seeds for an interval.
    """
    if seeds is not None:
        _check_seeds(seeds)
    read = [_read(source, overrides) for source in sources]
    runs: list[tuple[dict[str, Any], str, int]] = []
    numbers = []  # those of each scenario's runs
    for case in read:
        before = len(runs)
        if isinstance(case, Scenario):
            mapping = to_mapping(case)
            runs += ((mapping, engine, seed + 1) for seed in range(_runs(case, engine, seeds)))
        numbers.append(range(before, len(runs)))
    if jobs is None:
        jobs = 1 if engine in rights.REAL_ENGINES else workers.cores()
    made: dict[int, _Run | PerhopError] = {}
    with closing(_all(runs, min(jobs, len(runs)))) as finished:
        for done, (number, result) in enumerate(finished, 1):
            made[number] = result
            if watch is not None:
                watch(done, len(runs))
    return [
        _judged(source, case, [made[number] for number in own], engine, seeds, overrides)
        if isinstance(case, Scenario)
        else Result(source.filename, error=case)
        for source, case, own in zip(sources, read, numbers, strict=True)
    ]


def _check_seeds(seeds: int) -> None:
    """Refuse a number of seeds that has no interval.

    Raises:
        UsageError: It is neither 1 nor enough for an interval.
    """
    try:
        parse_seeds(str(seeds))
    except ValueError as error:
        raise UsageError(f"seeds: {error}") from None


@dataclass(frozen=True, slots=True)
class _Run:
    verdicts: tuple[Verdict, ...]
    warnings: tuple[str, ...]


def _read(source: Source, overrides: Overrides) -> Scenario | PerhopError:
    try:
        scenario = source.load(overrides=overrides)
    except PerhopError as error:
        return error
    if not scenario.expect:
        return UsageError(f"{source.filename} expects nothing; add requirements below `expect`")
    return scenario


def _runs(scenario: Scenario, engine: str, seeds: int | None) -> int:
    return (seeds or scenario.seeds) if engine != "sim" or is_random(scenario) else 1


def _all(
    runs: Sequence[tuple[Any, ...]], jobs: int
) -> Generator[tuple[int, _Run | PerhopError], None, None]:
    """Yield the number and the result of each run, in any order."""
    if jobs > 1:
        yield from workers.call(_one, runs, jobs)
        return
    for number, arguments in enumerate(runs):
        yield number, _one(*arguments)


def _one(scenario: dict[str, Any], engine: str, seed: int) -> _Run | PerhopError:
    """Make one run; return its error instead of raising it."""
    try:
        dataset = engines.run(Scenario.model_validate(scenario), engine=engine, seed=seed)
    except PerhopError as error:
        return error
    if not dataset.manifest.complete:
        raise KeyboardInterrupt
    return _Run(tuple(analysis.verdicts(dataset)), tuple(map(str, dataset.warnings)))


def _judged(
    source: Source,
    scenario: Scenario,
    made: list[_Run | PerhopError],
    engine: str,
    seeds: int | None,
    overrides: Overrides,
) -> Result:
    runs = []
    for each in made:
        if isinstance(each, PerhopError):
            return Result(source.filename, error=each)
        runs.append(each)
    paths = [f"expect.{index}" for index in range(len(scenario.expect))]
    found = source.positions(paths, overrides=overrides)
    said = Counter(warning for run in runs for warning in run.warnings)
    return Result(
        source.filename,
        tuple(analysis.ensemble_verdicts(scenario.expect, [run.verdicts for run in runs])),
        tuple(Place(*found[path]) for path in paths),
        len(runs),
        (*unused_seeds(scenario, engine, range(seeds or scenario.seeds)), *said),
    )
