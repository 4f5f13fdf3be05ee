"""The report of a run as one self-contained HTML page."""

import base64
import hashlib
import shlex
from importlib.resources import files
from typing import Final

from perhop.analysis import RunComparison
from perhop.dataset import Dataset
from perhop.report import charts, tables, text, verdicts
from perhop.report.applications import application_tables
from perhop.report.calls import call_table, mos_chart
from perhop.report.charts import Spec
from perhop.report.comparison import comparison_chart, comparison_tables
from perhop.report.html import Html, code, data, element, join
from perhop.report.responsiveness import responsiveness_tables
from perhop.report.script import drawing_script
from perhop.report.sentences import lead, warning_lines
from perhop.report.tables import Table
from perhop.scenario import dump

WHY: Final = "Where results differ"
"""Beginning of a paragraph of a description that belongs beside the published values."""


def page(dataset: Dataset) -> str:
    """Return the report of a run as one HTML document without external references."""
    scenario = dataset.scenario
    about, why = split_differences(scenario.description)
    ping = charts.ping_chart(dataset)
    scores = mos_chart(dataset)
    flows = dataset.scenario.flows
    body = join(
        element("h1", scenario.title or scenario.name),
        element("p", f"Source: {scenario.source}", class_="source") if scenario.source else "",
        element("p", lead(dataset), class_="lead"),
        *(element("p", line, class_="warning") for line in warning_lines(dataset)),
        *(element("p", paragraph) for paragraph in about),
        figure("mos", scores) if scores else "",
        grid(call_table(dataset)),
        figure("throughput-linear", charts.throughput_chart(dataset, "linear")) if flows else "",
        figure("throughput-log", charts.throughput_chart(dataset, "log")) if flows else "",
        grid(tables.phase_table(dataset) if flows else None),
        grid(tables.change_table(dataset)),
        grid(verdicts.published_table(dataset)),
        *(element("p", paragraph) for paragraph in why),
        grid(verdicts.expectation_table(dataset)),
        grid(tables.flow_table(dataset) if flows else None),
        *map(grid, application_tables(dataset)),
        grid(tables.codepoint_table(dataset)),
        grid(tables.ecn_table(dataset)),
        grid(tables.loss_table(dataset)),
        grid(tables.delay_table(dataset)),
        grid(tables.link_table(dataset)),
        *_classes(dataset),
        figure("pings", ping) if ping else "",
        grid(tables.ping_table(dataset)),
        *map(grid, responsiveness_tables(dataset)),
        *(grid(table) for table in tables.hop_tables(dataset)),
        _again(dataset),
    )
    return document(scenario.title or scenario.name, body)


def comparison_page(compared: RunComparison, title: str) -> str:
    """Return a comparison of runs as one HTML document without external references."""
    chart = comparison_chart(compared)
    differing, *others = comparison_tables(compared)
    body = join(
        element("h1", title),
        element(
            "p", f"{text.listed(list(compared.names))}; ratios are to the first.", class_="lead"
        ),
        grid(differing),
        figure("comparison", chart) if chart else "",
        *(grid(table) for table in others),
    )
    return document(title, body)


def document(title: str, body: Html) -> str:
    """A whole page of the given title and content; its figures are drawn when it is opened."""
    script = drawing_script() if "<figure " in body else ""
    head = join(
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title} - perhop"),
        element("style", Html(files("perhop.report").joinpath("document.css").read_text("utf-8"))),
    )
    whole = element(
        "html",
        element("head", head),
        element("body", element("main", body), code(script) if script else ""),
        lang="en",
    )
    return f"<!doctype html>\n{whole}\n"


def figure(identifier: str, spec: Spec) -> Html:
    """Return a chart, drawn when the page is opened; `identifier` is unique in the page."""
    return join(
        element("figure", element("div"), data_chart=f"{identifier}-spec", id=identifier),
        data(f"{identifier}-spec", spec),
    )


def grid(table: Table | None) -> Html:
    """Return a table under its title; nothing for None."""
    if table is None:
        return Html()
    heads = (element("th", c.name, class_=c.align, scope="col") for c in table.columns)
    rows = (
        element(
            "tr",
            *(
                element("td", cell, class_=column.align)
                for column, cell in zip(table.columns, row, strict=True)
            ),
        )
        for row in table.rows
    )
    cells = element("table", element("thead", element("tr", *heads)), element("tbody", *rows))
    return element(
        "section",
        element("h2", table.title) if table.title else "",
        element("div", cells, class_="scroll"),
        element("p", table.note, class_="note") if table.note else "",
    )


def _classes(dataset: Dataset) -> list[Html]:
    """The class counters; those of plain queues without drops folded away."""
    found = []
    for table in tables.class_tables(dataset):
        if table.title != tables.PLAIN:
            found.append(grid(table))
            continue
        summary = element("summary", f"{len(table.rows)} plain queues without drops")
        found.append(element("details", summary, grid(table)))
    return found


def _again(dataset: Dataset) -> Html:
    manifest, scenario = dataset.manifest, dataset.scenario
    command = (
        f"perhop run {shlex.quote(scenario.name)}.yaml --engine {shlex.quote(manifest.engine)}"
    )
    facts = (
        f"perhop {manifest.perhop}, engine {manifest.engine}, seed {manifest.seed}",
        f"run {manifest.started} in {text.duration(manifest.wall_s)} of wall time",
        f"on {manifest.host.system}, {manifest.host.machine}, Python {manifest.host.python}",
        *(
            f"{text.count(value)} {name.replace('_', ' ')}"
            for name, value in manifest.counters.items()
        ),
    )
    return element(
        "section",
        element("h2", "Run it again"),
        element("p", f"Save the scenario below as {scenario.name}.yaml, then:"),
        element("pre", element("code", f"{command} --seed {manifest.seed}")),
        element("p", "; ".join(facts) + ".", class_="note"),
        element("h2", "The scenario as run"),
        element("pre", element("code", dump(scenario))),
    )


def paragraphs(description: str) -> list[str]:
    """The paragraphs of a text, which empty lines part."""
    return [" ".join(part.split()) for part in description.split("\n\n") if part.strip()]


def split_differences(description: str) -> tuple[list[str], list[str]]:
    """Return the paragraphs of a description, those on why results differ separately."""
    every = paragraphs(description)
    return [p for p in every if not p.startswith(WHY)], [p for p in every if p.startswith(WHY)]


def _policy(script: str) -> str:
    """A content security policy: run this script and no other, and fetch nothing.

    Vega compiles its expressions and styles its elements as it draws, hence the two `unsafe`.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}' 'unsafe-eval'; "
        "style-src 'unsafe-inline'; img-src data:"
    )
