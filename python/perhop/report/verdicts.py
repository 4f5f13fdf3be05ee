"""Tables of verdicts: published values beside measured ones, and expectations."""

from collections.abc import Sequence
from dataclasses import replace

from perhop import analysis
from perhop.analysis import Comparison, EnsembleVerdict
from perhop.dataset import Dataset
from perhop.report import text
from perhop.report.tables import Column, Table


def published_table(dataset: Dataset) -> Table | None:
    """Return published and measured values; None if the scenario publishes nothing."""
    compared = analysis.against_published(dataset)
    return value_table(compared) if compared else None


def value_table(compared: Sequence[Comparison], title: str = "Published beside measured") -> Table:
    """Return published and measured values, and whether they agree."""
    judged = any(c.within is not None for c in compared)
    rows = tuple(
        (
            c.label or f"{c.metric} of {c.target}",
            text.window(*c.window),
            text.published(c),
            text.quantity(c.measured, c.unit),
            _difference(c),
            *([_verdict(c)] if judged else []),
            c.note,
        )
        for c in compared
    )
    columns = (
        *(Column(name, "left") for name in ("figure", "during")),
        *map(Column, ("published", "measured", "difference")),
        *([Column("verdict", "left")] if judged else []),
        Column("note", "left"),
    )
    return Table(title, columns, rows)


def expectation_table(dataset: Dataset) -> Table | None:
    """Return the expectations and their results; None if the scenario has none."""
    expectations = dataset.scenario.expect
    if not expectations:
        return None
    table = ensemble_table(analysis.ensemble_verdicts(expectations, [analysis.verdicts(dataset)]))
    asked = dataset.scenario.seeds
    if asked == 1:
        return table
    note = f"Of one run; the scenario asks for {asked}: `perhop run --seeds {asked}` makes them."
    return replace(table, note=note)


def ensemble_table(verdicts: Sequence[EnsembleVerdict]) -> Table:
    """Return verdicts on one run, or on several with the median and its confidence interval."""
    words = {"fails": "FAILS", "undecided": "UNDECIDED"}
    single = all(verdict.runs == 1 for verdict in verdicts)
    values = ("measured",) if single else ("median", "95% interval")
    columns = (Column("verdict", "left"), Column("expectation", "left"), *map(Column, values))
    rows = []
    for verdict in verdicts:
        ends = (text.quantity(end, verdict.unit) for end in (verdict.low, verdict.high))
        cells = (text.quantity(verdict.median, verdict.unit), " to ".join(ends))
        state = words.get(verdict.state, verdict.state)
        rows.append((state, verdict.text, *cells[: len(values)]))
    note = "" if single else f"Of {verdicts[0].runs} runs."
    return Table("Expectations", columns, tuple(rows), note)


def _difference(compared: Comparison) -> str:
    """Return the relative difference, or that a bound was met."""
    if compared.qualifier in ("above", "below") and compared.agrees:
        return "agrees"
    return text.difference(compared.difference)


def _verdict(compared: Comparison) -> str:
    """Return whether the difference is within its tolerance; nothing without one."""
    if compared.within is None or compared.agrees is None:
        return ""
    return (
        f"{'within' if compared.agrees else 'NOT within'} {text.stated(compared.within, 'share')}"
    )
