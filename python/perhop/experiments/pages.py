"""Pages of experiments, with their charts as pictures, and an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.experiments.outcomes import score
from perhop.experiments.tables import (
    change_tables,
    choice_table,
    counted,
    judged_table,
    unknown_table,
)
from perhop.report import Column, Table
from perhop.report.document import document, figure, grid, paragraphs, split_differences
from perhop.report.html import Html, element, join
from perhop.report.output import pictures, write_all
from perhop.rights import REAL_ENGINES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.experiments.reproduction import Reproduction
    from perhop.stores import Place


def write(reproduced: Sequence[Reproduction], folder: Place) -> list[Place]:
    """Write `index.html`, and for each experiment its page and its charts as PNG and SVG.

    Returns:
        The pages, the index first.

    Raises:
        OutputError: If the folder cannot be written.
    """
    pages = []
    for each in reproduced:
        name = each.experiment.name
        contents = {f"{name}.html": page(each).encode()}
        for chart, spec in each.experiment.pictures(each.runs).items():
            contents |= pictures(chart, spec)
        pages.append(write_all(folder / name, contents)[0])
    return [*write_all(folder, {"index.html": index(reproduced).encode()}), *pages]


def page(reproduced: Reproduction) -> str:
    """The page of an experiment as one HTML document."""
    experiment = reproduced.experiment
    about, account = split_differences(experiment.about)
    accounts = [*account, *paragraphs(experiment.account)]
    real = _real(reproduced)
    if real:
        accounts = [
            *paragraphs(experiment.between_hosts),
            *(["Of what the simulator measures:", *accounts] if accounts else []),
        ]
    body = join(
        element("h1", experiment.title),
        element("p", f"Source: {experiment.source}", class_="source"),
        element("p", lead(reproduced), class_="lead"),
        *(element("p", each) for each in (real, *about) if each),
        grid(judged_table(reproduced) if reproduced.values else None),
        *(element("p", each) for each in accounts),
        grid(unknown_table(reproduced)),
        grid(choice_table(reproduced)),
        *(figure(*chart) for chart in experiment.pictures(reproduced.runs).items()),
        *map(grid, change_tables(reproduced)),
        *map(grid, experiment.tables(reproduced.runs)),
        _again(reproduced),
    )
    return document(experiment.title, body)


def index(reproduced: Sequence[Reproduction]) -> str:
    """The list of experiments as one HTML document."""
    every = [value for each in reproduced for value in each.values]
    body = join(
        element("h1", "Published experiments, reproduced"),
        element(
            "p",
            "Each line is a figure of a document beside what perhop measures; the page of the "
            "experiment says what was assumed, and why a value differs.",
        ),
        element("p", f"All together: {counted(score(every))}.", class_="lead"),
        *(_entry(each) for each in reproduced),
    )
    return document("Published experiments, reproduced", body)


def lead(reproduced: Reproduction) -> str:
    """Return the outcomes of the document's values in a sentence."""
    found = reproduced.score
    return f"{sum(found.values())} values of the document: {counted(found)}."


def engine(reproduced: Reproduction) -> str:
    """Return the engine that measured the values, for people."""
    return next(iter(reproduced.runs.values())).manifest.engine


def _real(reproduced: Reproduction) -> str:
    """Return the kind of hosts that measured the values, if they are real."""
    manifest = next(iter(reproduced.runs.values())).manifest
    if manifest.engine not in REAL_ENGINES:
        return ""
    between = {"emu": "the simulator's network", "kernel": "Linux's own queues"}[manifest.engine]
    return (
        f"Measured by the engine {manifest.engine}: real hosts on {between}, with the TCP of "
        f"{manifest.host.system} and their flows' windows and options. What the simulator "
        "measures is beside it in the last tables."
    )


def _entry(reproduced: Reproduction) -> Html:
    experiment = reproduced.experiment
    return join(
        element(
            "h2", element("a", experiment.title, href=f"{experiment.name}/{experiment.name}.html")
        ),
        element(
            "p",
            f"{experiment.name}. {experiment.source}. {lead(reproduced)}{_by(reproduced)}",
            class_="note",
        ),
        grid(judged_table(reproduced, "") if reproduced.values else None),
    )


def _by(reproduced: Reproduction) -> str:
    return f" Engine {name}." if (name := engine(reproduced)) in REAL_ENGINES else ""


def _again(reproduced: Reproduction) -> Html:
    experiment = reproduced.experiment
    manifest = next(iter(reproduced.runs.values())).manifest
    rows = tuple(
        (name, case.scenario, "; ".join(case.settings), case.change)
        for name, case in experiment.cases.items()
    )
    columns = tuple(Column(name, "left") for name in ("run", "scenario", "settings", "variant"))
    command = f"perhop reproduce {experiment.name} --engine {manifest.engine}"
    return element(
        "section",
        element("h2", "Run it again"),
        element("pre", element("code", f"{command} --seed {manifest.seed}")),
        element(
            "p",
            f"perhop {manifest.perhop}, engine {manifest.engine}, seed {manifest.seed}. Each "
            "run is in a folder of its own below runs, which `perhop report` takes; `perhop run "
            "SCENARIO --set SETTING` makes one alone.",
            class_="note",
        ),
        element("details", element("summary", f"{len(rows)} runs"), grid(Table("", columns, rows))),
    )
