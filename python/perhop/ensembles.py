"""Runs of scenarios with several seeds, of which only what a function measures is kept."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perhop import analysis, engines, rights, workers
from perhop.errors import PerhopError, UsageError
from perhop.scenario import Scenario, to_mapping
from perhop.scenario.model.quantities import parse_seeds
from perhop.scenario.rules.warnings import is_random

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from perhop.analysis import Verdict
    from perhop.dataset import Dataset

__all__ = ["Judged", "check_seeds", "judged", "make", "seeds_of"]

_Result = TypeVar("_Result")

_SHORT_S: Final = 2.0
"""Runs that take less time than this together are made in this process: others take a second to
start."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What is kept of a run: the verdicts on its expectations, and its warnings."""

    verdicts: tuple[Verdict, ...]
    warnings: tuple[str, ...]


def judged(dataset: Dataset) -> Judged:
    """Return the verdicts on a run, for `make`."""
    return Judged(tuple(analysis.verdicts(dataset)), tuple(map(str, dataset.warnings)))


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

    Yields:
        The number of a run, from 0, and what `measure` returns, or the error of the run, as soon as
        it is available, in any order.
    """
    waiting = iter(runs)
    done = 0
    if jobs is None and engine in rights.REAL_ENGINES:
        jobs = 1
    if jobs is None:
        began = time.monotonic()
        for number, result in _here(islice(waiting, 1), measure, engine):
            taken, done = time.monotonic() - began, number + 1
            jobs = 1 if taken * expected < _SHORT_S else workers.cores()
            yield number, result
    if jobs is None:
        return
    if min(jobs, expected) > 1:
        made = workers.call(_one, _mappings(waiting, measure, engine), min(jobs, expected))
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
