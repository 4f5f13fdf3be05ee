"""Pages of experiments: one each, with its charts as pictures beside it, and an index of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.report import Column, Table, text, value_table
from perhop.report.document import document, figure, grid, paragraphs, told_apart
from perhop.report.html import Html, element, join
from perhop.report.output import png, svg, write_all
from perhop.rights import REAL_ENGINES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from perhop.analysis import Comparison
    from perhop.experiments.reproduction import Changed, Reproduction


def write(reproduced: Sequence[Reproduction], folder: Path) -> list[Path]:
    """Write `index.html`, and for each experiment its page and its charts as PNG and SVG.

    Returns:
        The pages, the index first.

    Raises:
        OutputError: If the folder cannot be written.
    """
    pages = []
    for each in reproduced:
        name = each.experiment.name
        pictures = each.experiment.pictures(each.runs)
        contents = {f"{name}.html": page(each).encode()}
        for chart, spec in pictures.items():
            contents[f"{chart}.png"] = png(spec)
            contents[f"{chart}.svg"] = svg(spec).encode()
        pages.append(write_all(folder / name, contents)[0])
    return [*write_all(folder, {"index.html": index(reproduced).encode()}), *pages]


def page(reproduced: Reproduction) -> str:
    """The page of an experiment as one HTML document."""
    experiment = reproduced.experiment
    pictures = experiment.pictures(reproduced.runs)
    about, account = told_apart(experiment.about)
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
        grid(value_table(reproduced.comparisons) if reproduced.values else None),
        *(element("p", each) for each in accounts),
        *(figure(name, spec) for name, spec in pictures.items()),
        *map(grid, change_tables(reproduced)),
        *map(grid, experiment.tables(reproduced.runs)),
        _again(reproduced),
    )
    return document(experiment.title, body)


def index(reproduced: Sequence[Reproduction]) -> str:
    """The list of experiments as one HTML document."""
    body = join(
        element("h1", "Published experiments, reproduced"),
        element(
            "p",
            "Each line is a figure of a document beside what perhop measures; the page of the "
            "experiment says what was assumed, and why a value differs.",
        ),
        *(_entry(each) for each in reproduced),
    )
    return document("Published experiments, reproduced", body)


def lead(reproduced: Reproduction) -> str:
    """How much of the document was reproduced, in a sentence."""
    agree, judged = reproduced.judged
    if not judged:
        return "The document states no value of this experiment that could be judged."
    return f"{agree} of {judged} values that the document states are as published."


def engine(reproduced: Reproduction) -> str:
    """What measured the values."""
    return next(iter(reproduced.runs.values())).manifest.engine


def _real(reproduced: Reproduction) -> str:
    """Which hosts measured the values, if they are real."""
    manifest = next(iter(reproduced.runs.values())).manifest
    if manifest.engine not in REAL_ENGINES:
        return ""
    between = {"emu": "the simulator's network", "kernel": "Linux's own queues"}[manifest.engine]
    return (
        f"Measured by the engine {manifest.engine}: real hosts on {between}, with the TCP of "
        f"{manifest.host.system} and their flows' windows and options. What the simulator "
        "measures is beside it in the last tables."
    )


def change_tables(reproduced: Reproduction) -> Iterator[Table]:
    """The values of cases that have variants, and what they are with one thing changed.

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
            values = [compared for name, compared in reproduced.values if name == case]
            for index, value in enumerate(values):
                cells = [_cell(variant.values[index]) for variant in variants[case]]
                rows.append((value.label, text.published(value), _cell(value), *cells))
        names = ("published", "measured", *changes)
        columns = (Column("figure", "left"), *map(Column, names))
        if rows:
            yield Table("One thing changed at a time", columns, tuple(rows), "* Not as published.")


def _cell(compared: Comparison) -> str:
    mark = " *" if compared.agrees is False else ""
    return text.quantity(compared.measured, compared.unit) + mark


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
        grid(value_table(reproduced.comparisons, "") if reproduced.values else None),
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
