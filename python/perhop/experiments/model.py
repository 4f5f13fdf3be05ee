"""The model of an experiment: its runs, the values of its document, and the content of its page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from perhop.analysis import Basis, Comparison, Window, against_published
from perhop.dataset import Dataset
from perhop.report.style import Spec

if TYPE_CHECKING:
    from perhop.report import Table
    from perhop.scenario import Scenario

Runs = Mapping[str, Dataset]
"""The datasets of an experiment by the names of its cases."""

Pictures = Mapping[str, Spec]
"""Charts by the names of their files."""


@dataclass(frozen=True, slots=True)
class Case:
    """A run of an experiment.

    Attributes:
        scenario: A scenario of the gallery.
        settings: Changes of it, in the form of `--set`.
        of: The case of which this one is a variant; its values are measured here, too.
        change: The one thing that a variant has different, in words.
        member: What is further changed in members of an ensemble: a shorter run, where it says as
            much.
    """

    scenario: str
    settings: tuple[str, ...] = ()
    of: str | None = None
    change: str = ""
    member: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unknown:
    """A condition that a document leaves open: a range from `low` to `high`, or some choices.

    An ensemble draws from it, evenly over the range (over its logarithm if `log`) or the choices.

    Attributes:
        name: The quantity, as tables show it.
        reason: Why the range is what it is, and what the document says.
        low: The least value, …
        high: … and the greatest.
        unit: "bps", "s", "share", "packets", "bytes" or "ratio".
        sets: Settings, as `--set` takes them, with a format field for the value; for each the
            factor by which it multiplies the value, or that and what it then adds.
        choices: Instead of a range: the settings of each choice by its name.
        log: True if the range is even in its logarithm.
        cases: The cases in which it is set; all by default.
    """

    name: str
    reason: str
    low: float = 0.0
    high: float = 0.0
    unit: str = "ratio"
    sets: Mapping[str, float | tuple[float, float]] = field(default_factory=dict)
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    log: bool = False
    cases: Sequence[str] = ()

    def at(self, part: float) -> float | str:
        """The value, or the name of the choice, at a part of the range from 0 to below 1."""
        if self.choices:
            return list(self.choices)[int(part * len(self.choices))]
        if self.log:
            return float(self.low * (self.high / self.low) ** part)
        return self.low + (self.high - self.low) * part

    def settings(self, value: float | str) -> list[str]:
        """Return the arguments of `--set` for a value or choice."""
        if isinstance(value, str):
            return list(self.choices[value])
        scaled = []
        for template, scale in self.sets.items():
            factor, more = scale if isinstance(scale, tuple) else (scale, 0.0)
            scaled.append(template.format(factor * value + more))
        return scaled


@dataclass(frozen=True, slots=True)
class Value:
    """A figure of a document, and how to measure it. Those that a scenario publishes need none.

    `measure` and `across` run in worker processes: each is a function of a module, or a
    `functools.partial` of one, not a lambda or a closure.

    Attributes:
        label: Its name in the document.
        case: In which run it is measured; None if several are compared.
        published: The document's value, in `unit`; None if it is only in a picture.
        unit: "bps", "s", "share", "packets" or "ratio".
        measure: What gives it from the run's dataset, None if there is nothing to measure …
        across: … or from all runs.
        during: The part of the run that it is of, in seconds; the whole run by default.
        qualifier: "about", "above", "below" or "exactly".
        within: Tolerance of a single run, as a share. Ensembles do not use it.
        note: Facts that the document leaves open.
        basis: The value is stated by the document, put in by the scenario, or not stated.
        precision: Half the width of what the printed value stands for, in `unit`; by default half
            a unit of its last digit that is not zero.
        rival: Result of a wrong model: an interval that contains it decides nothing.
        number: Values of the same number count once; by default each is a number of its own.
        needs: The cases that `across` takes; all without variants by default.
    """

    label: str
    case: str | None
    published: float | None
    unit: str
    measure: Callable[[Dataset], float | None] | None = None
    across: Callable[[Runs], float | None] | None = None
    during: Window | None = None
    qualifier: str = "about"
    within: float | None = None
    note: str = ""
    basis: Basis = "stated"
    precision: float | None = None
    rival: float | None = None
    number: str = ""
    needs: Sequence[str] = ()

    def compare(self, dataset: Dataset) -> Comparison:
        """Compare the value in a run with the published one."""
        measured = None if self.measure is None else self.measure(dataset)
        return self._beside(measured, dataset.covered_s)

    def compare_all(self, runs: Runs) -> Comparison:
        """Compare the value across runs with the published one."""
        measured = None if self.across is None else self.across(runs)
        return self._beside(measured, max(each.covered_s for each in runs.values()))

    def _beside(self, measured: float | None, end_s: float) -> Comparison:
        there = measured is not None and bool(self.published)
        return Comparison(
            label=self.label,
            metric="",
            target="",
            window=self.during or (0.0, end_s),
            published=self.published,
            qualifier=self.qualifier,
            measured=measured,
            difference=measured / self.published - 1 if there else None,  # type: ignore[operator]
            unit=self.unit,
            note=self.note,
            within=self.within,
            basis=self.basis,
            precision=self.precision,
            rival=self.rival,
            number=self.number,
        )


def _no_tables(_: Runs) -> Sequence[Table]:
    return ()


def _no_pictures(_: Runs) -> Pictures:
    return {}


@dataclass(frozen=True, slots=True)
class Experiment:
    """A published experiment.

    Attributes:
        name: Its name in `perhop reproduce`.
        title: Title of its page.
        source: The document.
        about: Procedure and assumptions; empty lines separate paragraphs.
        cases: Its runs by name.
        unknowns: Values that the document leaves open, over which an ensemble is drawn.
        effort: The part of the default number of ensemble members that is run, where runs are long.
        values: The document's figures that the scenarios themselves do not publish.
        account: Where results differ from the document's, and why.
        between_hosts: Where those of real hosts do, and why.
        tables: Further tables of the page, from all runs.
        pictures: The charts of the page, from all runs.
    """

    name: str
    title: str
    source: str
    about: str
    cases: Mapping[str, Case]
    values: tuple[Value, ...] = ()
    unknowns: tuple[Unknown, ...] = ()
    effort: float = 1.0
    account: str = ""
    between_hosts: str = ""
    tables: Callable[[Runs], Sequence[Table]] = field(default=_no_tables)
    pictures: Callable[[Runs], Pictures] = field(default=_no_pictures)

    @classmethod
    def of_scenario(cls, scenario: Scenario, **more: Any) -> Experiment:
        """Return the experiment of a scenario of the gallery."""
        return cls(
            name=scenario.name,
            title=scenario.title,
            source=scenario.source,
            about=scenario.description,
            **more,
        )

    @property
    def main(self) -> list[str]:
        """The names of the cases that are not variants."""
        return [name for name, case in self.cases.items() if case.of is None]

    def measured_part(self) -> Experiment:
        """The experiment without the content of its page, for worker processes."""
        return replace(self, tables=_no_tables, pictures=_no_pictures)

    def measured(self, runs: Runs) -> tuple[tuple[str, Comparison], ...]:
        """Compare the document's values with those of some runs, each with its case.

        Args:
            runs: Datasets by case; values of cases that are missing are left out.

        Returns:
            For each case the values that its scenario publishes, then the experiment's; those
            across cases last, with "" as their case.
        """
        there = [name for name in self.main if name in runs]
        return (
            *((name, compared) for name in there for compared in self.of(name, runs[name])),
            *(("", value.compare_all(runs)) for value in self.values if value.case is None),
        )

    def of(self, case: str, dataset: Dataset) -> Iterator[Comparison]:
        """Return the values of a case in a dataset: its scenario's, then the experiment's."""
        scenario = self.cases[case].scenario
        for index, compared in enumerate(against_published(dataset)):
            # One number of the document, in however many cases its scenario is run.
            yield replace(compared, number=compared.number or f"{scenario} {index}")
        yield from (value.compare(dataset) for value in self.values if value.case == case)
