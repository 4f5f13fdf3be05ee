"""Verdicts on an ensemble: the same scenario, run once with each of several seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, inf
from statistics import median
from typing import Final, Literal

from perhop.analysis.judgement import Verdict, side
from perhop.scenario import Expectation
from perhop.scenario.model.quantities import FEWEST_SEEDS

CONFIDENCE: Final = 0.95
"""The least probability with which an interval has the median of all possible runs."""

State = Literal["holds", "fails", "undecided", "not reached"]


@dataclass(frozen=True, slots=True)
class EnsembleVerdict:
    """The result of an expectation over one or several runs.

    It is about the median of all possible runs. Its confidence interval goes from one order
    statistic of the measured values to another, with no assumption on their distribution (David and
    Nagaraja, Order Statistics, section 7.1). The expectation `holds` if it holds in the whole
    interval, `fails` if it holds nowhere in it, and is `undecided` otherwise. A single run has no
    interval: its value decides.

    Attributes:
        text: The expectation in words.
        state: The verdict; `not reached` if a run ended before the window's end.
        median: The median of the values, in `unit`; None if there is none.
        low: The lower end of the interval; None with fewer than two runs, or if too many runs
            measured nothing.
        high: Its upper end; likewise.
        runs: The number of runs.
        missing: The number of runs that measured nothing.
        unit: "bps", "s", "share", "B", "packets" or "ratio".
    """

    text: str
    state: State
    median: float | None
    low: float | None
    high: float | None
    runs: int
    missing: int
    unit: str


@dataclass(frozen=True, slots=True)
class Spread:
    """The values of a metric over several runs, with the interval of `EnsembleVerdict`.

    Attributes:
        median: The median of the values; None if there is none.
        low: The lower end of the interval; None with fewer than two runs, or if too many runs
            measured nothing.
        high: Its upper end; likewise.
        runs: The number of runs.
        missing: The number of runs that measured nothing.
    """

    median: float | None
    low: float | None
    high: float | None
    runs: int
    missing: int


def spread(values: Sequence[float | None]) -> Spread:
    """Return the median of the values of one run, or of at least `FEWEST_SEEDS`, and its interval.

    Args:
        values: The value of each run; None if it measured nothing.
    """
    known = [value for value in values if value is not None]
    low = high = None
    if len(values) > 1 and known:
        low, high = _bounds(values)
    return Spread(
        median(known) if known else None,
        None if low == -inf else low,
        None if high == inf else high,
        len(values),
        len(values) - len(known),
    )


def _bounds(values: Sequence[float | None]) -> tuple[float, float]:
    """Return the ends of the interval, whatever runs would have measured that measured nothing."""
    low, _ = median_interval([-inf if value is None else value for value in values])
    _, high = median_interval([inf if value is None else value for value in values])
    return low, high


def ensemble_verdicts(
    expectations: Sequence[Expectation], runs: Sequence[Sequence[Verdict]]
) -> list[EnsembleVerdict]:
    """Judge expectations by the verdicts on each run.

    Args:
        expectations: The expectations of the scenario.
        runs: For each run, its verdicts, in the order of the expectations: one run, or at least
            `FEWEST_SEEDS`.
    """
    each = zip(*runs, strict=True)
    return [_judge(*both) for both in zip(expectations, each, strict=True)]


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of a confidence interval of the median of what `values` are a sample of.

    The k-th smallest and the k-th greatest of n values enclose the median unless fewer than k are
    on one side of it, each with probability 1/2; k is the greatest for which that probability is
    within `CONFIDENCE`.

    Raises:
        ValueError: There are fewer than `FEWEST_SEEDS` values.
    """
    ordered, below, rank = sorted(values), 0, 0
    while 2 * (below := below + comb(len(ordered), rank)) <= (1 - CONFIDENCE) * 2 ** len(ordered):
        rank += 1
    if not rank:
        raise ValueError(
            f"{len(ordered)} values have no interval; expected at least {FEWEST_SEEDS}"
        )
    return ordered[rank - 1], ordered[-rank]


def _judge(expectation: Expectation, verdicts: tuple[Verdict, ...]) -> EnsembleVerdict:
    measured = [verdict.measured for verdict in verdicts]
    found = spread(measured)
    several = found.runs > 1 and found.missing < found.runs
    return EnsembleVerdict(
        expectation.text,
        _state(expectation, verdicts, _bounds(measured) if several else None),
        found.median,
        found.low,
        found.high,
        found.runs,
        found.missing,
        verdicts[0].unit,
    )


def _state(
    expectation: Expectation, verdicts: tuple[Verdict, ...], ends: tuple[float, float] | None
) -> State:
    if any(verdict.ok is None for verdict in verdicts):
        return "not reached"
    if ends is None:
        return "holds" if verdicts[0].ok else "fails"
    sides = {side(expectation, end) for end in ends}
    if len(sides) > 1:
        return "undecided"
    return "holds" if sides == {0} else "fails"
