"""Objects of perhop in notebooks: short HTML, in which all text is escaped."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from perhop.printable import printable_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["settings", "show"]

_MOST_ROWS = 50


def show(title: str, *tables: tuple[Sequence[str], Iterable[Sequence[object]]]) -> str:
    """Return a title and tables as HTML.

    Args:
        title: The line above the tables.
        *tables: The headings and the rows of each; a table without rows is left out, and one of
            more than 50 rows ends with the number of those that are left out.
    """
    written = [f"<p><b>{_safe(title)}</b></p>"]
    for heads, rows in tables:
        every = list(rows)
        lines = [_row("td", row) for row in every[:_MOST_ROWS]]
        if len(every) > _MOST_ROWS:
            lines.append(_row("td", [f"… and {len(every) - _MOST_ROWS} more"]))
        if every:
            written.append(f"<table>{_row('th', heads)}{''.join(lines)}</table>")
    return "".join(written)


def settings(value: object) -> str:
    """Return data of JSON types in one line, as YAML's flow style has it, without outer braces."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_inner(each)}" for key, each in value.items())
    return _inner(value)


def _inner(value: object) -> str:
    match value:
        case dict():
            return f"{{{settings(value)}}}"
        case list():
            return f"[{', '.join(map(_inner, value))}]"
        case bool():
            return str(value).lower()
        case _:
            return str(value)


def _row(tag: str, cells: Iterable[object]) -> str:
    # Notebooks align cells to the right, which suits numbers alone.
    style = ' style="text-align: left"'
    return f"<tr>{''.join(f'<{tag}{style}>{_safe(str(cell))}</{tag}>' for cell in cells)}</tr>"


def _safe(text: str) -> str:
    return html.escape(printable_lines(text))
