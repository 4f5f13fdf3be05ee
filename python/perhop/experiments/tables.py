"""Tables of an experiment: its verdicts, its unknowns, and the effect of single changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.experiments import ensemble
from perhop.report import Column, Table, text, value_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perhop.analysis import Comparison
    from perhop.experiments.model import Unknown
    from perhop.experiments.outcomes import Judged
    from perhop.experiments.reproduction import Changed, Reproduction


_DECISIVE: Final = 0.3
"""A choice that explains this part of a value's variance has a table."""


def judged_table(reproduced: Reproduction, title: str = "Published beside measured") -> Table:
    """Return the document's values beside those of the ensemble, or of single runs without one."""
    if not reproduced.members:
        return value_table(reproduced.comparisons, title)
    unknowns = reproduced.experiment.unknowns
    rows = tuple(
        (
            each.compared.label or f"{each.compared.metric} of {each.compared.target}",
            text.window(*each.compared.window),
            text.published(each.compared),
            text.quantity(each.compared.measured, each.compared.unit),
            _interval(each),
            _outcome(each),
            ", ".join(_moved(each, unknowns)) or text.ABSENT,
            each.compared.note,
        )
        for each in reproduced.values
    )
    middle = f"{100 * ensemble.CENTRAL:.0f}% of {len(reproduced.members)} runs"
    columns = (
        *(Column(name, "left") for name in ("figure", "during")),
        *map(Column, ("published", "one run", middle)),
        *(Column(name, "left") for name in ("outcome", "moved most by", "note")),
    )
    return Table(title, columns, rows, _HOW_JUDGED)


_HOW_JUDGED = (
    "A value is judged against the interval of the ensemble: reproduced if it is within, not "
    "explained if it is outside, undecided if the interval is too wide to say anything (wider than "
    "two fifths of the value, or has what a wrong model would give). Assumed: put into the "
    "scenario. Moved most by: the share of the variance that an unknown explains alone "
    "(first-order index, with its standard error), if it is more than noise."
)


def unknown_table(reproduced: Reproduction) -> Table | None:
    """Return the unknowns and their ranges; None without an ensemble."""
    if not reproduced.members:
        return None
    rows = tuple((each.name, _range(each), each.reason) for each in reproduced.experiment.unknowns)
    columns = tuple(Column(name, "left") for name in ("unknown", "range", "because"))
    note = "Drawn together as a Latin hypercube; each draw has a seed of its own."
    return Table("What the document leaves open", columns, rows, note)


def choice_table(reproduced: Reproduction) -> Table | None:
    """The intervals of the members that have each choice; None if no choice decides much.

    Choices that explain less than 30% of every value's variance are left out, and those with so few
    members that they have no interval.
    """
    unknowns = reproduced.experiment.unknowns
    decisive = {
        unknown.name
        for each in reproduced.values
        if each.spread is not None
        for unknown, influence in zip(unknowns, each.spread.influences, strict=True)
        if influence.shown and influence.index > _DECISIVE
    }
    names = dict.fromkeys(
        (unknown, choice)
        for each in reproduced.values
        if each.spread is not None
        for unknown, choice, found in each.spread.choices
        if found is not None and unknown in decisive
    )
    if not names:
        return None
    rows = []
    for each in reproduced.values:
        found = {} if each.spread is None else {(u, c): i for u, c, i in each.spread.choices}
        cells = (_cell_of_choice(each.compared, found.get(name)) for name in names)
        rows.append((each.compared.label, text.published(each.compared), *cells))
    heads = (f"{unknown}: {choice}" for unknown, choice in names)
    columns = (Column("figure", "left"), Column("published"), *map(Column, heads))
    return Table("With each choice", columns, tuple(rows), "* Outside of the interval.")


def change_tables(reproduced: Reproduction) -> Iterator[Table]:
    """Return the values of cases that have variants, and their values with one thing changed.

    A table for each set of changes, with the values of all cases that have these.
    """
    variants: dict[str, list[Changed]] = {}
    for variant in reproduced.variants:
        variants.setdefault(variant.of, []).append(variant)
    together: dict[tuple[str, ...], list[str]] = {}
    for case, changed in variants.items():
        together.setdefault(tuple(variant.change for variant in changed), []).append(case)
    for changes, cases in together.items():
        rows = []
        for case in cases:
            values = [each.compared for each in reproduced.values if each.case == case]
            for index, value in enumerate(values):
                cells = [_cell(variant.values[index]) for variant in variants[case]]
                rows.append((value.label, text.published(value), _cell(value), *cells))
        names = ("published", "measured", *changes)
        columns = (Column("figure", "left"), *map(Column, names))
        if rows:
            note = "Single runs. * Not as published."
            yield Table("One thing changed at a time", columns, tuple(rows), note)


def counted(found: Mapping[str, int]) -> str:
    """Return a score in words: `3 reproduced, 1 undecided, 2 not explained`."""
    return ", ".join(f"{count} {outcome}" for outcome, count in found.items() if count) or "none"


def _interval(judged: Judged) -> str:
    if judged.spread is None or judged.spread.interval is None:
        return text.ABSENT
    found, unit = judged.spread.interval, judged.compared.unit
    missing = f" ({judged.spread.missing} without)" if judged.spread.missing else ""
    low, high = text.quantity(found.low, unit), text.quantity(found.high, unit)
    return (low if low == high else f"{low} to {high}") + missing


def _outcome(judged: Judged) -> str:
    if judged.outcome in {"assumed", "not stated"} and judged.verdict is not None:
        return f"{judged.outcome}; {judged.verdict}"
    return judged.outcome


def _moved(judged: Judged, unknowns: tuple[Unknown, ...]) -> Iterator[str]:
    if judged.spread is None:
        return
    together = zip(judged.spread.influences, unknowns, strict=True)
    shown = [(influence, unknown.name) for influence, unknown in together if influence.shown]
    shown.sort(key=lambda each: -each[0].index)
    for influence, name in shown[:3]:
        yield f"{name} {100 * influence.index:.0f}% ± {100 * influence.error:.0f}%"


def _range(unknown: Unknown) -> str:
    if unknown.choices:
        return " or ".join(unknown.choices)
    ends = (unknown.low, unknown.high)
    size = unknown.unit == "bytes"
    low, high = (text.size(end) if size else text.quantity(end, unknown.unit) for end in ends)
    return f"{low} to {high}" + (", evenly in its logarithm" if unknown.log else "")


def _cell_of_choice(compared: Comparison, found: ensemble.Interval | None) -> str:
    if found is None:
        return text.ABSENT
    low, high = text.quantity(found.low, compared.unit), text.quantity(found.high, compared.unit)
    mark = " *" if ensemble.judge(compared, found) == "outside" else ""
    return (low if low == high else f"{low} to {high}") + mark


def _cell(compared: Comparison) -> str:
    mark = " *" if compared.agrees is False else ""
    return text.quantity(compared.measured, compared.unit) + mark
