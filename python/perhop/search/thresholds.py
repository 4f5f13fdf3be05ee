"""The search: bisection, with a verdict on an ensemble for each value that is tried."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from math import ceil, log2
from typing import TYPE_CHECKING, Any, Final

from perhop import ensembles
from perhop.analysis import ensemble_verdicts
from perhop.ensembles import Judged, seeds_of
from perhop.errors import PerhopError, ScenarioError, UsageError
from perhop.scenario.rules.warnings import unused_seeds
from perhop.search.brackets import around
from perhop.search.condition import Condition, parse_condition
from perhop.search.values import Values, parse_values
from perhop.sweep import with_combinations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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
        between: The range that was searched, from where the search began.
        present: The value of the key in the scenario, around which the range was sought; None if
            the range was given.
        probes: Values that were tried to find the range, from the least to the greatest.
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
    between: str
    present: str | None
    probes: tuple[Trial, ...]
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
    between: str | None,
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

    Without a range, the present value of the key is doubled and halved, up to 64 times and down to
    a 64th, until the condition changes; the range is between the last two values. Nine values over
    the whole range are tried first. Bisection follows between the last value
    before the first change and the first one after it.

    Args:
        source: A file, a name of the gallery, or a scenario as a mapping or text.
        path: The path of the key, as for `perhop.load`.
        between: The range of values, from that where the search begins: see `parse_values`. None
            for a range around the present value.
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
        UsageError: Wrong range, step, condition or number of seeds; or no present value that can
            be doubled.
        UnsupportedError: This machine cannot run it.
    """
    if seeds is not None:
        ensembles.check_seeds(seeds)
    rule = parse_condition(condition)
    settings = (source, path, rule, until, tuple(overrides), engine, seeds)
    runner = _Runner(engine, jobs, cluster, watch)
    if between is not None:
        asked = _Question(parse_values(between, step), *settings)
        return asked.answer(runner.try_values(asked, {}), runner, between)
    scenario = rule.load(source, overrides)

    def accepted(value: str) -> bool:
        try:
            rule.load(source, [*overrides, f"{path}={value}"])
        except (ScenarioError, UsageError):
            return False
        return True

    values, place = around(scenario, path, accepted)
    present = values.text(place)
    if step is not None:
        parse_values(f"{present}..{values.text(place - 1 if place else 1)}", step)
    probing = _Probing(values, *settings, place)
    probes = runner.try_values(probing, {})
    shown = tuple(probes[index] for index in sorted(probes))
    change = probing.change(probes)
    if change is None:
        found = probing.answer(probes, runner, f"{shown[0].value}..{shown[-1].value}")
        return replace(found, present=present, probes=shown)
    ends = [probes[index] for index in change]
    between = "..".join(end.value for end in ends)
    asked = _Question(_inside(values, change, step), *settings)
    trials = runner.try_values(asked, {end.value: end for end in ends})
    return replace(asked.answer(trials, runner, between), present=present, probes=shown)


def _inside(values: Values, change: tuple[int, int], step: str | None) -> Values:
    """Return the values between two, which are among them however long the step is."""
    first, last = (values.steps[index] for index in change)
    try:
        between = "..".join(values.text(index) for index in change)
        steps = [*parse_values(between, step).steps]
    except UsageError:  # the step is longer
        steps = [first]
    return Values(values.kind, steps if steps[-1] == last else [*steps, last])


@dataclass(slots=True)
class _Runner:
    """What makes runs, with what they said.

    Attributes:
        engine: The engine.
        jobs: As for `find`.
        cluster: Likewise.
        watch: Likewise.
        unit: The unit of the metric.
        warnings: Warnings about the results.
        made: The number of runs that were made.
    """

    engine: str
    jobs: int | None
    cluster: Pool | None
    watch: Callable[[int, int], None] | None
    unit: str = ""
    warnings: list[str] = field(default_factory=list)
    made: int = 0

    def try_values(self, asked: _Question, known: Mapping[str, Trial]) -> dict[int, Trial]:
        """Return the trials of the values that a question asks for, some of which are known."""
        ensembles_of = {index: asked.runs(index) for index in asked.spread}
        trials = {
            index: known[value]
            for index in ensembles_of
            if (value := asked.values.text(index)) in known
        }
        wanted = [index for index in ensembles_of if index not in trials]
        longest = max(map(len, ensembles_of.values()))
        expected = self.made + longest * asked.most_trials
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

        made: dict[int, list[Judged]] = {}
        results = ensembles.make(
            runs(),
            ensembles.judged,
            self.engine,
            expected=expected - self.made,
            jobs=self.jobs,
            cluster=self.cluster,
        )
        wanted = wanted or asked.next(trials)
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
                    if self.watch is not None:
                        done = self.made + number + 1
                        self.watch(done, max(expected, self.made + len(taken)))
                for index in wanted:
                    expectations = ensembles_of[index][0][0].expect
                    verdicts = [run.verdicts for run in made[index]]
                    [verdict] = ensemble_verdicts(expectations, verdicts)
                    trials[index], self.unit = asked.trial(index, verdict), verdict.unit
                wanted = asked.next(trials)
        self.made += len(taken)
        if all(trial.runs == 1 for trial in trials.values()):
            scenario = next(iter(ensembles_of.values()))[0][0]
            self._warn(unused_seeds(scenario, self.engine, range(asked.seeds or scenario.seeds)))
        for at in sorted(made):
            self._warn(sorted({each for run in made[at] for each in run.warnings}))
        return trials

    def _warn(self, warnings: Iterable[str]) -> None:
        self.warnings = [*dict.fromkeys((*self.warnings, *warnings))]


@dataclass(frozen=True, slots=True)
class _Question:
    """What a search is to find. Values are given by their indices."""

    values: Values
    source: str | Mapping[str, Any]
    path: str
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

    @property
    def most_trials(self) -> int:
        """About how many values are tried."""
        return len(self.spread) + ceil(log2(max(1, len(self.values) / FIRST)))

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

    def answer(self, trials: Mapping[int, Trial], runner: _Runner, between: str) -> Search:
        """Return the result."""
        last, first = self.edges(trials)
        tried = [(index, trials[index]) for index in sorted(trials)]
        return Search(
            path=self.path,
            condition=self.condition.text,
            until=self.until,
            between=between,
            present=None,
            probes=(),
            value_unit=self.values.kind.unit,
            unit=runner.unit,
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
            warnings=tuple(runner.warnings),
        )


@dataclass(frozen=True, slots=True)
class _Probing(_Question):
    """A search for a range, among values in rising order around the present one."""

    place: int

    @property
    def spread(self) -> list[int]:
        """The present value."""
        return [self.place]

    @property
    def most_trials(self) -> int:
        """The number of all values."""
        return len(self.values)

    def change(self, trials: Mapping[int, Trial]) -> tuple[int, int] | None:
        """Return the values before and after the change that is nearest; None without one."""
        states = {index: self.after(trials[index]) for index in sorted(trials)}
        decided = [index for index, state in states.items() if state is not None]
        changes = [(low, high) for low, high in pairwise(decided) if states[low] != states[high]]
        if not changes:
            return None
        low, high = min(
            changes, key=lambda pair: (min(abs(end - self.place) for end in pair), -pair[0])
        )
        return (high, low) if states[low] else (low, high)

    def next(self, trials: Mapping[int, Trial]) -> list[int]:
        """Return the next values above and below."""
        if self.change(trials):
            return []
        ends = (min(trials) - 1, max(trials) + 1)
        return [index for index in ends if 0 <= index < len(self.values)]
