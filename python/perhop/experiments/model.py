"""What an experiment is: runs, the values that its document has, and what its page shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perhop.analysis import Comparison, Window
from perhop.dataset import Dataset
from perhop.report.style import Spec

if TYPE_CHECKING:
    from perhop.report import Table

Runs = Mapping[str, Dataset]
"""The datasets of an experiment by the names of its cases."""

Pictures = Mapping[str, Spec]
"""Charts by the names of their files."""


@dataclass(frozen=True, slots=True)
class Case:
    """A run of an experiment.

    Attributes:
        scenario: A scenario of the gallery.
        settings: What is changed in it, as `--set` takes it.
        of: The case of which this one is a variant; its values are measured here, too.
        change: The one thing that a variant has different, in words.
    """

    scenario: str
    settings: tuple[str, ...] = ()
    of: str | None = None
    change: str = ""


@dataclass(frozen=True, slots=True)
class Value:
    """A figure of a document, and how to measure it. Those that a scenario publishes need none.

    Attributes:
        label: What the document calls it.
        case: In which run it is measured; None if several are compared.
        published: What the document says, in `unit`; None if it says it in a picture only.
        unit: "bps", "s", "share", "packets" or "ratio".
        measure: What gives it from the run's dataset, None if there is nothing to measure …
        across: … or from all runs.
        during: The part of the run that it is of, in seconds; the whole run by default.
        qualifier: "about", "above", "below" or "exactly".
        within: How near is as published, as a share; without, the difference is not judged.
        note: What the document leaves open.
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

    def compare(self, dataset: Dataset) -> Comparison:
        """The value as it is in a run beside the published one."""
        measured = None if self.measure is None else self.measure(dataset)
        return self._beside(measured, dataset.covered_s)

    def compare_all(self, runs: Runs) -> Comparison:
        """The value as it is across runs beside the published one."""
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
        )


def _no_tables(_: Runs) -> Sequence[Table]:
    return ()


def _no_pictures(_: Runs) -> Pictures:
    return {}


@dataclass(frozen=True, slots=True)
class Experiment:
    """A published experiment.

    Attributes:
        name: What `perhop reproduce` calls it.
        title: What its page is called.
        source: The document.
        about: What was done, and what is assumed; empty lines part paragraphs.
        cases: Its runs by name.
        values: The document's figures that the scenarios themselves do not publish.
        account: Where results differ from the document's, and why.
        between_hosts: Where those of real hosts do, and why.
        tables: What else the page tabulates, from all runs.
        pictures: The charts of the page, from all runs.
    """

    name: str
    title: str
    source: str
    about: str
    cases: Mapping[str, Case]
    values: tuple[Value, ...] = ()
    account: str = ""
    between_hosts: str = ""
    tables: Callable[[Runs], Sequence[Table]] = field(default=_no_tables)
    pictures: Callable[[Runs], Pictures] = field(default=_no_pictures)
