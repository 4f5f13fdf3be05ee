"""The page of an ensemble: verdicts, medians with intervals, and what each run measured."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from perhop.report import text
from perhop.report.document import document, figure, grid
from perhop.report.ensembles import spread_tables
from perhop.report.html import Html, element, join
from perhop.report.links import linked_runs
from perhop.report.plots import Scale, scatter_plot
from perhop.report.tables import Column, Table
from perhop.report.timeline import MOST_COLUMNS
from perhop.report.verdicts import ensemble_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.ensembles import Ensemble, Single
    from perhop.report.style import Spec

__all__ = ["ensemble_page", "seed_chart", "seed_table"]

_MOST_FLOWS: Final = 12
_STATES: Final = ("holds", "fails", "undecided", "not reached")


def ensemble_page(found: Ensemble, pages: Sequence[str | None], folder: str) -> str:
    """Return the page of an ensemble.

    Args:
        found: The ensemble.
        pages: The page of each run, relative to this one; None where there is none.
        folder: The folder of the ensemble, for commands.
    """
    scenario = found.scenario
    title = scenario.title or scenario.name
    chart = seed_chart(found) if found.runs > 1 else None
    how = f"`perhop report {shlex.quote(folder)}` writes the pages of all runs, and links them."
    body = join(
        element("h1", title),
        element("p", _lead(found), class_="lead"),
        *(element("p", f"Warning: {each}", class_="warning") for each in found.warnings),
        grid(ensemble_table(found.verdicts)) if found.verdicts else "",
        figure("seeds", chart) if chart else "",
        *map(grid, spread_tables(found.throughput, found.metrics)),
        linked_runs(seed_table(found), pages, how),
    )
    return document(f"{title}: {found.runs} runs", body)


def seed_chart(found: Ensemble) -> Spec | None:
    """Return the throughput of each flow in each run; None without flows."""
    names = [
        flow for flow in found.scenario.flows if (flow, "throughput", "bit/s") in found.metrics
    ]
    rates = {
        name: [run.metrics.get((name, "throughput", "bit/s")) for run in found.singles]
        for name in names[:_MOST_FLOWS]
    }
    known = [rate for each in rates.values() for rate in each if rate is not None]
    if not known:
        return None
    factor, unit = text.rate_unit(max(known))
    captions = ["each point is one run"]
    if len(names) > _MOST_FLOWS:
        captions.append(f"{len(names) - _MOST_FLOWS} more flows are in the table of metrics")
    spec = scatter_plot(
        "Throughput of each flow by seed",
        Scale("seed", domain=(0.0, found.runs + 1.0)),
        Scale(f"throughput ({unit})"),
        {
            name: [
                (seed, None if rate is None else rate / factor) for seed, rate in enumerate(of, 1)
            ]
            for name, of in rates.items()
        },
        captions=captions,
    )
    spec["layer"][0]["encoding"]["x"]["axis"] = {"tickMinStep": 1, "format": "d"}
    return spec


def seed_table(found: Ensemble) -> Table:
    """Return a row for each run: its verdict, and the values of its expectations."""
    shown = found.verdicts[:MOST_COLUMNS]
    rows = []
    for seed, run in enumerate(found.singles, 1):
        verdicts = run.judged.verdicts[:MOST_COLUMNS]
        values = (text.quantity(each.measured, each.unit) for each in verdicts)
        rows.append((str(seed), _verdict(run), *values))
    columns = (
        Column("seed", "left"),
        Column("verdict", "left"),
        *(Column(verdict.text) for verdict in shown),
    )
    return Table(f"{found.runs} runs" if found.runs > 1 else "The run", columns, tuple(rows))


def _verdict(run: Single) -> str:
    """Return the verdict on the expectations of one run in a few words."""
    verdicts = [verdict.ok for verdict in run.judged.verdicts]
    failed = len(verdicts) - verdicts.count(True)
    if not verdicts:
        return text.ABSENT
    return f"FAILS {failed} of {len(verdicts)}" if failed else f"holds {len(verdicts)}"


def _lead(found: Ensemble) -> Html:
    """Return the number of runs and of verdicts in a sentence or two."""
    states = [verdict.state for verdict in found.verdicts]
    counted = [f"{states.count(state)} {state}" for state in _STATES if state in states]
    judged = f" Of {len(states)} expectations: {', '.join(counted)}." if states else ""
    if found.runs == 1:
        return join(f"One run: seeds change nothing in this scenario.{judged}")
    said = f"{found.runs} runs with the seeds 1 to {found.runs}, engine {found.engine}."
    return join(f"{said} Values are medians with their 95% intervals.{judged}")
