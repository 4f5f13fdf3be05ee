"""Comparisons of two policies as sentences, as tables and as a chart."""

from typing import Final

from perhop.analysis import ComparedQuantity
from perhop.report import text
from perhop.report.comparison import runs_chart
from perhop.report.style import Spec
from perhop.report.tables import Column, Table
from perhop.routers.difference import Difference, Load, Row, changes, rows

__all__ = ["difference_chart", "difference_lines", "difference_tables"]

MOST_LINES: Final = 5
"""The most changes that the summary names."""

_ARROW: Final = " \N{RIGHTWARDS ARROW} "


def difference_lines(difference: Difference) -> list[str]:
    """Return the largest changes in sentences, and what the comparison assumes."""
    old, new = difference.names
    found = changes(difference)
    lines = [
        f"With {load.name}, {_label(row)} gets {text.rate(row.throughput.values[1])} instead of "
        f"{text.rate(row.throughput.values[0])}{_amount(row)}."
        for load, row in found[:MOST_LINES]
        if row.throughput is not None
    ]
    if len(found) > len(lines):
        lines.append(f"More throughputs that change by over 1%: {len(found) - len(lines)}.")
    if not lines:
        lines.append(f"From {old} to {new}, no throughput changes by more than 1%.")
    return [*lines, *difference.remarks]


def difference_tables(difference: Difference) -> list[Table]:
    """Return the tables of a comparison: one for each load, and packets in other classes."""
    tables = [_table(difference, load) for load in difference.loads]
    if difference.moved:
        columns = tuple(Column(name, "left") for name in ("packets such as", *difference.names))
        moved = tuple((each.packets, each.old, each.new) for each in difference.moved)
        tables.append(Table("Packets in another class", columns, moved))
    return tables


def difference_chart(difference: Difference) -> Spec | None:
    """Chart the throughput of each class under each load; None without flows."""
    points = [
        {"phase": load.name, "flow": _label(row), "run": name, "bps": value}
        for load in difference.loads
        for row in rows(difference, load)
        if row.throughput is not None
        for name, value in zip(difference.names, row.throughput.values, strict=True)
        if value is not None
    ]
    if not any(point["bps"] for point in points):
        return None
    kind = "class" if difference.classes else "flow"
    return runs_chart(points, list(difference.names), f"Throughput of each {kind}")


def _table(difference: Difference, load: Load) -> Table:
    old, new = difference.names
    found = [
        (
            _label(row),
            *_pair(row.throughput),
            text.difference(row.change),
            *_pair(row.delay),
            *_pair(row.delay_p99),
            *_pair(row.loss),
        )
        for row in rows(difference, load)
    ]
    columns = [Column("class" if difference.classes else "flow", "left")]
    columns += [Column(f"throughput, {old}"), Column(new), Column("change")]
    for name in ("delay, median", "delay, p99", "loss"):
        columns += [Column(f"{name}, {old}"), Column(new)]
    note = "Throughput is goodput at the receiver; delay is one-way, that of pings there and back."
    title = load.name[0].upper() + load.name[1:]
    return Table(title, tuple(columns), tuple(found), note if load is difference.loads[-1] else "")


def _label(row: Row) -> str:
    """Return the class of a row, or both if they differ."""
    if row.classes is None:
        return row.name
    old, new = row.classes
    return old if old == new else f"{old}{_ARROW}{new}"


def _amount(row: Row) -> str:
    return "" if row.change is None else f" ({text.difference(row.change)})"


def _pair(found: ComparedQuantity | None) -> tuple[str, str]:
    if found is None:
        return text.ABSENT, text.ABSENT
    first, second = (text.quantity(value, found.unit) for value in found.values)
    return first, second
