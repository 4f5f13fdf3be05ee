"""Ensembles: an experiment at many draws of what its document leaves open, and what they say.

A document states a value, but not everything that decides it. A member of an ensemble is one draw
of all `Unknown`s together, with a seed of its own; the values of all members are what the model
says, given what is known. The document's value is judged against the interval of the central 90%.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cache
from math import floor
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal

from perhop import engines, gallery
from perhop.experiments.sampling import latin_hypercube
from perhop.experiments.sensitivity import Influence, first_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.analysis import Comparison
    from perhop.experiments.model import Case, Experiment, Unknown
    from perhop.scenario import Scenario

CENTRAL: Final = 0.9
"""The share of results that an interval is to have."""

WIDEST: Final = 0.4
"""An interval wider than this part of the published value says nothing: a result that is wrong by
a fifth either way could be in it."""

FEWEST: Final = 19
"""Fewer members have no interval of 90%."""

Verdict = Literal["within", "outside", "undecided"]


@dataclass(frozen=True, slots=True)
class Member:
    """One draw of an ensemble.

    Attributes:
        drawn: The value, or the name of the choice, of each unknown.
        seed: The seed of its runs.
    """

    drawn: tuple[float | str, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class Interval:
    """Distribution of the results of an ensemble.

    Attributes:
        low: The least, …
        high: … and the greatest result of the central part, by order statistics.
        median: The median of all.
        count: Number of results.
        coverage: The probability that another draw falls into the interval, 0 to 1: 90% or
            somewhat more, whatever the distribution.
    """

    low: float
    high: float
    median: float
    count: int
    coverage: float


@dataclass(frozen=True, slots=True)
class Spread:
    """The results of an ensemble for one value.

    Attributes:
        interval: Where its results lie; None if there are too few.
        missing: Number of members without a measurement.
        influences: Share of its variance that each unknown explains, in the order of the unknowns.
        choices: For each unknown that is a choice, and each of its choices, the interval of the
            members that have it: (unknown, choice, interval).
    """

    interval: Interval | None
    missing: int
    influences: tuple[Influence, ...]
    choices: tuple[tuple[str, str, Interval | None], ...]


def members(experiment: Experiment, count: int, seed: int) -> list[Member]:
    """Draw an ensemble: a Latin hypercube over the experiment's unknowns; same seed, same draws."""
    random = Random(f"{seed} {experiment.name}")
    drawn = latin_hypercube(count, len(experiment.unknowns), random)
    return [
        Member(
            tuple(u.at(part) for u, part in zip(experiment.unknowns, parts, strict=True)),
            random.getrandbits(64),
        )
        for parts in drawn
    ]


def scenarios(experiment: Experiment, member: Member) -> Iterator[tuple[str, Scenario]]:
    """Return the cases that an experiment's values need, for one draw.

    Raises:
        ScenarioError: If a setting of an unknown, or of a member, is wrong.
    """
    needed = {value.case for value in experiment.values}
    for value in experiment.values:
        if value.case is None:
            needed |= set(value.needs or experiment.main)
    for name in experiment.main:
        case = experiment.cases[name]
        if name not in needed and not _publishes(case):
            continue
        drawn = (
            setting
            for unknown, value in zip(experiment.unknowns, member.drawn, strict=True)
            if not unknown.cases or name in unknown.cases
            for setting in unknown.settings(value)
        )
        # Expectations are of the run that is shown; those of a shorter one may be after its end.
        settings = [*case.settings, *case.member, *drawn, "expect=[]"]
        yield name, gallery.load(case.scenario, overrides=settings)


def evaluate(experiment: Experiment, member: Member) -> list[float | None]:
    """Run the cases that an experiment's values need for one draw, and measure the values.

    Nothing is written to disk. It runs in a worker process.

    Returns:
        The measured values, in the order of `Experiment.measured`.
    """
    drawn = scenarios(experiment, member)
    runs = {name: engines.run(scenario, seed=member.seed) for name, scenario in drawn}
    return [compared.measured for _, compared in experiment.measured(runs)]


@cache
def _publishes(case: Case) -> bool:
    """Return whether a case's scenario has published values."""
    return bool(gallery.load(case.scenario, overrides=case.settings).published)


def interval(results: Sequence[float]) -> Interval | None:
    """The central 90% of some results; None if there are fewer than 19.

    Between the k-th least and the k-th greatest of n results lies another one with probability
    (n + 1 - 2k) / (n + 1), whatever the distribution (Wilks, 1941); k is the greatest for which
    that is 90% or more.
    """
    count = len(results)
    if count < FEWEST:
        return None
    least = floor(round((1 - CENTRAL) / 2 * (count + 1), 9))
    ordered = sorted(results)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    coverage = (count + 1 - 2 * least) / (count + 1)
    return Interval(ordered[least - 1], ordered[-least], middle, count, coverage)


def spread(
    unknowns: Sequence[Unknown], drawn: Sequence[Member], results: Sequence[float | None]
) -> Spread:
    """Return the results of an ensemble for one value."""
    there = [(m.drawn, r) for m, r in zip(drawn, results, strict=True) if r is not None]
    values = [result for _, result in there]
    influences = first_order([[d[i] for d, _ in there] for i in range(len(unknowns))], values)
    choices = (
        (unknown.name, choice, interval([r for d, r in there if d[index] == choice]))
        for index, unknown in enumerate(unknowns)
        for choice in unknown.choices
    )
    return Spread(interval(values), len(drawn) - len(values), tuple(influences), tuple(choices))


def judge(compared: Comparison, found: Interval | None) -> Verdict | None:
    """Judge a published value against an ensemble's interval.

    A bound ("above", "below") is *within* if the whole interval keeps it, *outside* if none of the
    interval does, *undecided* if a part does. Of another value the interval from `stands_for` and
    that of the ensemble are compared. *Outside*: they do not meet. Otherwise *undecided*, if the
    ensemble's is too wide to say anything: if it has the value's `rival` in it, or, without a
    rival, if it is wider than two fifths of the published value. Else *within*.

    Returns:
        The verdict; None if the document has no number, and "undecided" without an interval.
    """
    stands_for = compared.stands_for
    if stands_for is None or compared.published is None:
        return None
    if found is None:
        return "undecided"
    least, most = stands_for
    if compared.qualifier in {"above", "below"}:
        above = compared.qualifier == "above"
        bound = compared.published
        kept = [value >= bound if above else value <= bound for value in (found.low, found.high)]
        return "within" if all(kept) else "undecided" if any(kept) else "outside"
    if found.high < least or most < found.low:
        return "outside"
    if compared.rival is not None:
        wide = found.low <= compared.rival <= found.high
    else:
        wide = found.high - found.low > WIDEST * abs(compared.published)
    return "undecided" if wide else "within"


def described(found: Spread, unknowns: Sequence[Unknown]) -> dict[str, Any]:
    """Return the results of an ensemble for a value as JSON types."""
    return {
        "interval": None if found.interval is None else asdict(found.interval),
        "missing": found.missing,
        "influences": {
            unknown.name: {**asdict(influence), "shown": influence.shown}
            for unknown, influence in zip(unknowns, found.influences, strict=True)
        },
    }


def shortened(experiment: Experiment) -> Experiment:
    """Return the experiment without its variants and charts, for worker processes."""
    cases = {name: experiment.cases[name] for name in experiment.main}
    return replace(experiment.measured_part(), cases=cases)
