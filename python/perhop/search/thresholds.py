"""The search: bisection, with a verdict on an ensemble for each value that is tried."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from math import ceil, log2
from typing import TYPE_CHECKING, Any, Final

from perhop import ensembles
from perhop.analysis import ensemble_verdicts
from perhop.ensembles import Judged, seeds_of
from perhop.errors import PerhopError, ScenarioError
from perhop.scenario.rules.warnings import unused_seeds
from perhop.search.condition import Condition, parse_condition
from perhop.search.values import Values, parse_values
from perhop.sweep import with_combinations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from perhop.analysis import EnsembleVerdict
    from perhop.scenario import Scenario
    from perhop.workers import Pool

__all__ = ["Search", "Trial", "find"]

FIRST: Final = 9
"""The number of values that are tried first, spread over the range: so many are needed to notice
that the condition changes back."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A value that was tried.

    Attributes:
        value: The value as a scenario writes it.
        number: The same in the unit of the search.
        holds: Whether the condition holds there; None: undecided.
        median: The median of the metric over the runs, in `Search.unit`; None if nothing was
            measured.
        low: The lower end of the 95% confidence interval of the median of all possible runs; None
            with one run.
        high: Its upper end; likewise.
        runs: The number of runs.
    """

    value: str
    number: float
    holds: bool | None
    median: float | None
    low: float | None
    high: float | None
    runs: int


@dataclass(frozen=True, slots=True)
class Search:
    """The result of a search.

    Attributes:
        path: The path of the key.
        condition: The condition.
        until: True if the condition was to begin to hold, false if it was to end.
        value_unit: The unit of the values' numbers: bps, s, bytes, share, packets, or "".
        unit: The unit of the metric: bps, s, share, B, packets or ratio.
        tried: Every value that was tried, from the first end of the range to the other.
        last: The last tried value before the change; None if the first one is not before it.
        first: The first tried value after the change; None if there is none.
        undecided: Values between the two; more seeds may decide them.
        back: Values after `first` at which the condition is as it was before: the condition does
            not change only once.
        warnings: Warnings about the results.
    """

    path: str
    condition: str
    until: bool
    value_unit: str
    unit: str
    tried: tuple[Trial, ...]
    last: Trial | None
    first: Trial | None
    undecided: tuple[Trial, ...]
    back: tuple[Trial, ...]
    warnings: tuple[str, ...]

    @property
    def found(self) -> bool:
        """Whether values before and after a change were found."""
        return self.last is not None and self.first is not None


def find(
    source: str | Mapping[str, Any],
    path: str,
    between: str,
    condition: str,
    *,
    until: bool = True,
    step: str | None = None,
    seeds: int | None = None,
    overrides: Sequence[str] = (),
    engine: str = "sim",
    jobs: int | None = None,
    cluster: Pool | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> Search:
    """Find the value of a key at which a condition begins or ends to hold.

    Nine values over the whole range are tried first. Bisection follows between the last value
    before the first change and the first one after it.

    Args:
        source: A file, a name of the gallery, or a scenario as a mapping or text.
        path: The path of the key, as for `perhop.load`.
        between: The range of values, from that where the search begins: see `parse_values`.
        condition: The condition: see `parse_condition`.
        until: True if the condition is to begin to hold, false if it is to end.
        step: The difference or ratio of two values: see `parse_values`.
        seeds: The number of runs of each value, 1 or enough for an interval; by default that of the
            scenario. A scenario whose seeds change nothing runs once.
        overrides: Changes to the scenario first, as ``PATH=VALUE``.
        engine: The engine.
        jobs: The number of processes; by default as many as help, one with real hosts.
        cluster: Where runs are made instead, as by `perhop.cluster.connect`.
        watch: A function to call with the numbers of finished runs and of those that are expected.

    Raises:
        ScenarioError: The scenario is wrong with a value; the first values are checked before the
            first run.
        UsageError: Wrong range, step, condition or number of seeds.
        UnsupportedError: This machine cannot run it.
    """
    if seeds is not None:
        ensembles.check_seeds(seeds)
    asked = _Question(
        source,
        path,
        parse_values(between, step),
        parse_condition(condition),
        until,
        tuple(overrides),
        engine,
        seeds,
    )
    wanted = asked.spread
    ensembles_of = {index: asked.runs(index) for index in wanted}
    bisections = ceil(log2(max(1, len(asked.values) / FIRST)))
    expected = max(map(len, ensembles_of.values())) * (len(wanted) + bisections)
    queue: deque[tuple[int, Scenario, int]] = deque()
    taken: list[int] = []  # the value of each run

    def runs() -> Iterator[tuple[Scenario, int] | None]:
        while True:
            index, scenario, seed = queue.popleft() if queue else (None, None, 0)
            if index is None or scenario is None:
                yield None
            else:
                taken.append(index)
                yield scenario, seed

    unit = ""
    made: dict[int, list[Judged]] = {}
    trials: dict[int, Trial] = {}
    results = ensembles.make(
        runs(), ensembles.judged, engine, expected=expected, jobs=jobs, cluster=cluster
    )
    with closing(results):
        while wanted:
            for index in wanted:
                if index not in ensembles_of:
                    ensembles_of[index] = asked.runs(index)
                queue += ((index, *run) for run in ensembles_of[index])
                made[index] = []
            for number, result in islice(results, len(queue)):
                if isinstance(result, PerhopError):
                    raise result
                made[taken[number]].append(result)
                if watch is not None:
                    watch(number + 1, max(expected, len(taken)))
            for index in wanted:
                expectations = ensembles_of[index][0][0].expect
                verdicts = [run.verdicts for run in made[index]]
                [verdict] = ensemble_verdicts(expectations, verdicts)
                trials[index], unit = asked.trial(index, verdict), verdict.unit
            wanted = asked.next(trials)
    warnings: list[str] = []
    if all(trial.runs == 1 for trial in trials.values()):
        scenario = ensembles_of[0][0][0]
        warnings += unused_seeds(scenario, engine, range(seeds or scenario.seeds))
    said = (sorted({each for run in made[at] for each in run.warnings}) for at in sorted(made))
    warnings += dict.fromkeys(chain.from_iterable(said))
    return asked.answer(trials, unit, warnings)


@dataclass(frozen=True, slots=True)
class _Question:
    """What a search is to find. Values are given by their indices."""

    source: str | Mapping[str, Any]
    path: str
    values: Values
    condition: Condition
    until: bool
    overrides: tuple[str, ...]
    engine: str
    seeds: int | None

    @property
    def spread(self) -> list[int]:
        """The values to try first."""
        last = len(self.values) - 1
        return sorted({round(part * last / (FIRST - 1)) for part in range(FIRST)})

    def scenario(self, index: int) -> Scenario:
        setting = f"{self.path}={self.values.text(index)}"
        try:
            return self.condition.load(self.source, [*self.overrides, setting])
        except ScenarioError as error:
            said = with_combinations({problem: [setting] for problem in error.found})
            raise ScenarioError(said) from None

    def runs(self, index: int) -> list[tuple[Scenario, int]]:
        scenario = self.scenario(index)
        return [(scenario, seed) for seed in seeds_of(scenario, self.engine, self.seeds)]

    def trial(self, index: int, verdict: EnsembleVerdict) -> Trial:
        """Return what a verdict says of a value."""
        return Trial(
            self.values.text(index),
            self.values.number(index),
            self.condition.holds(verdict),
            verdict.median,
            verdict.low,
            verdict.high,
            verdict.runs,
        )

    def after(self, trial: Trial) -> bool | None:
        """Return whether a value is after the change; None: undecided."""
        return trial.holds if trial.holds is None else trial.holds == self.until

    def edges(self, trials: Mapping[int, Trial]) -> tuple[int | None, int | None]:
        """Return the last value before the first change, and the first value after it."""
        after = {index: self.after(trials[index]) for index in sorted(trials)}
        first = next((index for index, state in after.items() if state), None)
        before = [
            index
            for index, state in after.items()
            if state is False and (first is None or index < first)
        ]
        return (before[-1] if before else None), first

    def next(self, trials: Mapping[int, Trial]) -> list[int]:
        """Return the values to try next: from both sides, the middle of what is not known."""
        last, first = self.edges(trials)
        above = min((index for index in trials if last is not None and index > last), default=None)
        below = max(
            (index for index in trials if first is not None and index < first), default=None
        )
        gaps = [(last, above), (below, first)]
        middles = {(low + high) // 2 for low, high in gaps if low is not None and high is not None}
        return sorted(middles - trials.keys())

    def answer(
        self, trials: Mapping[int, Trial], unit: str, warnings: Sequence[str] = ()
    ) -> Search:
        """Return the result."""
        last, first = self.edges(trials)
        tried = [(index, trials[index]) for index in sorted(trials)]
        return Search(
            path=self.path,
            condition=self.condition.text,
            until=self.until,
            value_unit=self.values.kind.unit,
            unit=unit,
            tried=tuple(trial for _, trial in tried),
            last=None if last is None else trials[last],
            first=None if first is None else trials[first],
            undecided=tuple(
                trial
                for index, trial in tried
                if trial.holds is None and (first is None or index < first)
            ),
            back=tuple(
                trial
                for index, trial in tried
                if self.after(trial) is False and first is not None and index > first
            ),
            warnings=tuple(warnings),
        )
