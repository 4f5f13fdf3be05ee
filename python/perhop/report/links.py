"""Tables whose rows link the pages of single runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from perhop.report.document import head, verdict_cell
from perhop.report.html import Html, element, join

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perhop.report.tables import Table

__all__ = ["REPORT", "link", "linked_grid", "linked_runs", "page_of"]

REPORT: Final = "report.html"
"""The page of a run, in its folder."""

_MOST_OPEN: Final = 30


def page_of(folder: Path, below: Path) -> str | None:
    """Return the report of a run relative to a folder that it is below; None without one."""
    page = folder / REPORT
    return page.relative_to(below).as_posix() if page.is_file() else None


def linked_grid(table: Table, pages: Sequence[str | None]) -> Html:
    """Return a table without its title; the first cell of each row links its page, if there is one.

    Args:
        table: The table.
        pages: The page of each row, relative to the page with the table.
    """
    heads = map(head, table.columns)
    rows = [
        element("tr", _first(cells[0], page), *map(verdict_cell, table.columns[1:], cells[1:]))
        for page, cells in zip(pages, table.rows, strict=True)
    ]
    grid = element("table", element("thead", element("tr", *heads)), element("tbody", *rows))
    return element("div", grid, class_="scroll", tabindex="0", role="group", aria_label=table.title)


def linked_runs(table: Table, pages: Sequence[str | None], how: str) -> Html:
    """Return the runs of a sweep or an ensemble, folded away if there are many.

    Args:
        table: A row for each run.
        pages: The page of each run.
        how: How to make the pages that are not there.
    """
    note = element("p", how, class_="note") if None in pages else ""
    content = join(linked_grid(table, pages), note)
    if len(pages) > _MOST_OPEN:
        return element("details", element("summary", table.title), content)
    return element("section", element("h2", table.title), content)


def _first(shown: str, page: str | None) -> Html:
    return element("td", shown if page is None else link(shown, page), class_="left")


def link(shown: str, page: str) -> Html:
    """Return a link to a page relative to this one."""
    return element("a", shown, href=quote(page))
