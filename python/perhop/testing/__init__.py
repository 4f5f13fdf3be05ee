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
from typing import TYPE_CHECKING

from perhop import analysis, ensembles
from perhop.errors import PerhopError, UsageError
from perhop.scenario import Scenario
from perhop.scenario.rules.warnings import unused_seeds, warnings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perhop.analysis import EnsembleVerdict
    from perhop.gallery import Source
    from perhop.scenario import Overrides
    from perhop.workers import Pool

__all__ = ["Place", "Result", "check", "run"]


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
    cluster: Pool | None = None,
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
        jobs: The number of processes; by default as many as help, or one with real hosts, which
            would disturb each other.
        cluster: Where runs are made instead, as by `perhop.cluster.connect`.
        watch: A function to call with the numbers of finished runs and of all runs.

    Raises:
        UsageError: Too few seeds for an interval.
    """
    if seeds is not None:
        ensembles.check_seeds(seeds)
    read = [_read(source, overrides) for source in sources]
    runs: list[tuple[Scenario, int]] = []
    numbers = []  # those of each scenario's runs
    for case in read:
        before = len(runs)
        if isinstance(case, Scenario):
            runs += ((case, seed) for seed in ensembles.seeds_of(case, engine, seeds))
        numbers.append(range(before, len(runs)))
    made: dict[int, ensembles.Judged | PerhopError] = {}
    results = ensembles.make(
        runs, ensembles.judged, engine, expected=len(runs), jobs=jobs, cluster=cluster
    )
    with closing(results) as finished:
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


def check(source: Source, overrides: Overrides = ()) -> Result:
    """Read a scenario and run nothing: its error, or the warnings that a run would have.

    Args:
        source: The scenario.
        overrides: Changes to it first, as for `perhop.load`.
    """
    try:
        found = warnings(source.load(overrides=overrides))
    except PerhopError as error:
        return Result(source.filename, error=error)
    said = (": ".join(filter(None, (each.path, each.message))) for each in found)
    return Result(source.filename, warnings=tuple(said))


def _read(source: Source, overrides: Overrides) -> Scenario | PerhopError:
    try:
        scenario = source.load(overrides=overrides)
    except PerhopError as error:
        return error
    if not scenario.expect:
        return UsageError(f"{source.filename} expects nothing; add requirements below `expect`")
    return scenario


def _judged(
    source: Source,
    scenario: Scenario,
    made: list[ensembles.Judged | PerhopError],
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
