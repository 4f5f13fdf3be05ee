"""The runs in a folder, as a table and as a page with links."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perhop.report import text
from perhop.report.document import document
from perhop.report.html import Html, element, join
from perhop.report.links import link, linked_grid
from perhop.report.tables import Column, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.runs import ListedRun

__all__ = ["index_page", "index_table"]

_MOST_SINGLES: Final = 50

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
    kinds = {run.kind for run in runs}
    word = "sweep" if kinds == {"sweep"} else "run"
    words = "runs and sweeps" if "sweep" in kinds and len(kinds) > 1 else f"{word}s"
    return Table(f"{len(runs)} {word if len(runs) == 1 else words}", _COLUMNS, rows, note)


def index_page(runs: Sequence[ListedRun], title: str) -> str:
    """Return the page of the runs in a folder, with links to the pages of their reports."""
    table = index_table(runs)
    singles = [_singles(run) for run in runs if run.pages]
    body = join(
        element("h1", title),
        element("p", f"{table.title}. {table.note}", class_="lead"),
        linked_grid(_verdicts_first(replace(table, title=title)), [run.page for run in runs]),
        element(
            "p", "Runs without a link have no page: `perhop report RUN` writes it.", class_="note"
        ),
        element("section", element("h2", "Single runs with a page"), *singles) if singles else "",
    )
    return document(title, body)


def _verdicts_first(table: Table) -> Table:
    """Return the table with the verdict beside the folder, where it is in sight on a phone."""
    first, *others, last = table.columns
    rows = tuple((row[0], row[-1], *row[1:-1]) for row in table.rows)
    return replace(table, columns=(first, last, *others), rows=rows)


def _singles(run: ListedRun) -> Html:
    """Return links to the pages of single runs of a sweep or an ensemble."""
    shown = [(page.split("/")[-2], page) for page in run.pages[:_MOST_SINGLES]]
    links = join(*(join(" ", link(name, page)) for name, page in shown))
    left = len(run.pages) - len(shown)
    return element("p", f"{run.folder}:", links, f" and {left} more" if left else "")


def _row(run: ListedRun) -> tuple[str, ...]:
    name = run.title or run.scenario or text.ABSENT
    if run.kind == "damaged":
        return (run.folder, name, run.kind, *("" for _ in range(3)))
    seed = {"run": str(run.seed), "ensemble": f"{run.seeds} seeds"}.get(run.kind, "sweep")
    if run.kind == "sweep" and run.seeds:
        seed = f"sweep of {run.seeds}"
    started = run.started.replace("T", " ")[:19]
    return run.folder, name, run.engine, seed, started, _verdict(run)


def _verdict(run: ListedRun) -> str:
    """Return the verdict on the expectations of a run in a few words."""
    every = run.holds + run.fails + run.missed
    words = "" if run.complete else " (interrupted)"
    if run.kind == "sweep" and every:
        return f"FAILS in {run.fails} of {every}" if run.fails else f"holds in {every}"
    if run.fails:
        return f"FAILS {run.fails} of {every}{words}"
    if run.missed:
        return f"UNDECIDED {run.missed} of {every}{words}"
    return f"holds {every}{words}" if every else words.strip(" ()")
