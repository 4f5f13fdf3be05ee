"""The runs in a folder, as a table and as a page with links."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from perhop.report import text
from perhop.report.document import document, verdict_cell
from perhop.report.html import Html, element, join
from perhop.report.tables import Column, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.runs import ListedRun

__all__ = ["index_page", "index_table"]

_COLUMNS = (
    Column("folder", "left"),
    Column("scenario", "left"),
    Column("engine", "left"),
    Column("seed"),
    Column("started", "left"),
    Column("verdict", "left"),
)


def index_table(runs: Sequence[ListedRun]) -> Table:
    """Return the table of the runs in a folder."""
    damaged = sum(run.kind == "damaged" for run in runs)
    note = f"{damaged} damaged or of another version of perhop." if damaged else ""
    rows = tuple(_row(run) for run in runs)
    return Table(f"{len(runs)} runs and sweeps", _COLUMNS, rows, note)


def index_page(runs: Sequence[ListedRun], title: str) -> str:
    """Return the page of the runs in a folder, with links to the pages of their reports."""
    table = index_table(runs)
    heads = (element("th", c.name, class_=c.align, scope="col") for c in table.columns)
    rows = [
        element("tr", _folder(run), *map(verdict_cell, table.columns[1:], cells[1:]))
        for run, cells in zip(runs, table.rows, strict=True)
    ]
    grid = element("table", element("thead", element("tr", *heads)), element("tbody", *rows))
    body = join(
        element("h1", title),
        element("p", f"{table.title}. {table.note}", class_="lead"),
        element("div", grid, class_="scroll", tabindex="0", role="group", aria_label=title),
        element(
            "p", "Runs without a link have no page: `perhop report RUN` writes it.", class_="note"
        ),
    )
    return document(title, body)


def _folder(run: ListedRun) -> Html:
    if run.page is None:
        return element("td", run.folder, class_="left")
    return element("td", element("a", run.folder, href=quote(run.page)), class_="left")


def _row(run: ListedRun) -> tuple[str, ...]:
    name = run.title or run.scenario
    if run.kind != "run":
        return (run.folder, name or text.ABSENT, run.kind, *("" for _ in range(3)))
    started = run.started.replace("T", " ")[:19]
    return run.folder, name, run.engine, str(run.seed), started, _verdict(run)


def _verdict(run: ListedRun) -> str:
    """Return the verdict on the expectations of a run in a few words."""
    every = run.holds + run.fails + run.missed
    words = "" if run.complete else " (interrupted)"
    if run.fails:
        return f"FAILS {run.fails} of {every}{words}"
    if run.missed:
        return f"UNDECIDED {run.missed} of {every}{words}"
    return f"holds {every}{words}" if every else words.strip(" ()")
