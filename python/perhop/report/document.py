"""The report of a run as one self-contained HTML page."""

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from perhop.analysis import RunComparison
from perhop.dataset import Dataset
from perhop.report import charts, delays, tables, text, timeline, verdicts
from perhop.report.applications import application_tables, video_chart
from perhop.report.calls import call_table, mos_chart
from perhop.report.charts import Spec
from perhop.report.comparison import comparison_chart, comparison_tables
from perhop.report.comparison_delays import compared_delays
from perhop.report.drawing import inline_svg, scales
from perhop.report.html import Html, code, element, join
from perhop.report.network import MOST_NODES, network
from perhop.report.responsiveness import responsiveness_tables
from perhop.report.sentences import lead, warning_lines
from perhop.report.sharing import sharing_tables
from perhop.report.tables import Column, Table
from perhop.scenario import dump

WHY: Final = "Where results differ"
"""Beginning of a paragraph of a description that belongs beside the published values."""


def page(dataset: Dataset) -> str:
    """Return the report of a run as one HTML document without external references."""
    scenario = dataset.scenario
    about, why = split_differences(scenario.description)

    def drawn(identifier: str, spec: Spec | None) -> Html:
        return figure(identifier, spec, heading=False) if spec else Html()

    flows = dataset.scenario.flows
    body = join(
        element("h1", scenario.title or scenario.name),
        element("p", f"Source: {scenario.source}", class_="source") if scenario.source else "",
        element("p", lead(dataset), class_="lead"),
        *(element("p", line, class_="warning") for line in warning_lines(dataset)),
        *(element("p", paragraph) for paragraph in about),
        drawn("mos", mos_chart(dataset)),
        grid(call_table(dataset)),
        drawn("video", video_chart(dataset)),
        *map(grid, application_tables(dataset)),
        *map(grid, responsiveness_tables(dataset)),
        drawn("throughput-linear", charts.throughput_chart(dataset) if flows else None),
        drawn("throughput-log", charts.throughput_chart(dataset, "log") if flows else None),
        _network(dataset),
        grid(timeline.phase_table(dataset) if flows else None),
        grid(timeline.change_table(dataset)),
        grid(verdicts.published_table(dataset)),
        *(element("p", paragraph) for paragraph in why),
        grid(verdicts.expectation_table(dataset)),
        grid(tables.flow_table(dataset) if flows else None),
        grid(tables.codepoint_table(dataset)),
        grid(tables.ecn_table(dataset)),
        drawn("drops", delays.drops_chart(dataset)),
        grid(tables.loss_table(dataset)),
        drawn("rtt", delays.rtt_chart(dataset)),
        drawn("queueing", delays.queueing_chart(dataset)),
        drawn("delay", delays.delay_chart(dataset)),
        grid(tables.delay_table(dataset)),
        drawn("backlog", delays.backlog_chart(dataset)),
        grid(tables.link_table(dataset)),
        *map(grid, sharing_tables(dataset)),
        *_classes(dataset),
        drawn("pings", charts.ping_chart(dataset)),
        grid(tables.ping_table(dataset)),
        *(grid(table) for table in tables.hop_tables(dataset)),
        _again(dataset),
    )
    return document(scenario.title or scenario.name, body)


def comparison_page(compared: RunComparison, title: str, datasets: Sequence[Dataset] = ()) -> str:
    """Return a comparison of runs as one HTML document without external references.

    Args:
        compared: The comparison.
        title: Its title.
        datasets: The runs, if the page is to have the distributions of their delays.
    """
    delays = compared_delays(datasets, compared.names) if datasets else []
    chart = comparison_chart(compared)
    differing, *others = comparison_tables(compared)
    body = join(
        element("h1", title),
        element(
            "p", f"{text.listed(list(compared.names))}; ratios are to the first.", class_="lead"
        ),
        grid(differing),
        figure("comparison", chart) if chart else "",
        *(figure(f"delay-{number}", spec) for number, (_, spec) in enumerate(delays)),
        *(grid(table) for table in others),
    )
    return document(title, body)


def document(title: str, body: Html) -> str:
    """Return a whole page of a title and a content; a script lets its charts answer."""
    script = _MARGIN.sub("", _part("answers.js")) if "<figure " in body else ""
    head = join(
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title} - perhop"),
        element("style", Html(_ROOM.sub(r"\1\2", _part("document.css")))),
    )
    whole = element(
        "html",
        element("head", head),
        element("body", element("main", body), code(script) if script else ""),
        lang="en",
    )
    return f"<!doctype html>\n{whole}\n"


def figure(identifier: str, spec: Spec, *, heading: bool = True) -> Html:
    """Return a chart and its captions.

    Args:
        identifier: The element's, unique in the page.
        spec: The chart.
        heading: Whether the chart's title stands over it; its captions do in any case.
    """
    title = spec.get("title", "")
    texts = {"text": title} if isinstance(title, str) else title
    head, captions = (str(texts.get(key, "")) for key in ("text", "subtitle"))
    said = join(
        element("strong", head) if heading and head else "",
        element("span", captions[:1].upper() + captions[1:]) if captions else "",
    )
    axes = scales(spec)
    described = {"data_chart": json.dumps(axes, allow_nan=False)} if axes else {}
    return element(
        "figure",
        element("figcaption", said) if said else "",
        element("div", inline_svg(spec), class_="drawing", tabindex="0"),
        id=identifier,
        **described,
    )


def grid(table: Table | None) -> Html:
    """Return a table under its title; nothing for None."""
    if table is None:
        return Html()
    heads = map(head, table.columns)
    rows = (
        element(
            "tr",
            *(verdict_cell(column, cell) for column, cell in zip(table.columns, row, strict=True)),
        )
        for row in table.rows
    )
    cells = element("table", element("thead", element("tr", *heads)), element("tbody", *rows))
    return element(
        "section",
        element("h2", table.title) if table.title else "",
        element("div", cells, class_="scroll", tabindex="0", role="group", aria_label=table.title),
        element("p", table.note, class_="note") if table.note else "",
    )


_MARGIN: Final = re.compile(r"(?m)^ +(//.*\n)?|^//.*\n")
"""Indentation and comments of a script, which pages need not have."""

_ROOM: Final = re.compile(r"/\*.*?\*/\s*|\s*([{};])\s*|([:,])\s+")
"""Those of a style sheet."""


def head(column: Column) -> Html:
    """Return the head of a column; one without a name is no heading to assistive technology."""
    if not column.name:
        return element("td", class_=column.align)
    return element("th", column.name, class_=column.align, scope="col")


_SIGNS: Final = {
    "good": "\N{CHECK MARK}",
    "bad": "\N{BALLOT X}",
    "open": "?",
}
"""The sign beside a verdict, which is coloured, too."""

_VERDICTS: Final = {
    "holds": "good",
    "agree": "good",
    "within": "good",
    "FAILS": "bad",
    "DIFFER": "bad",
    "NOT": "bad",
    "UNDECIDED": "open",
}
"""What verdicts mean, by their first word."""


def verdict_cell(column: Column, shown: str) -> Html:
    """Return a cell of a table; a verdict has a colour and a sign."""
    meaning = _VERDICTS.get(shown.partition(" ")[0]) if column.name in ("", "verdict") else None
    if meaning is None:
        return element("td", shown, class_=column.align)
    sign = element("span", _SIGNS[meaning], aria_hidden="true")
    return element("td", sign, f" {shown}", class_=f"{column.align} {meaning}")


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
        _code(f"{command} --seed {manifest.seed}"),
        element("p", "; ".join(facts) + ".", class_="note"),
        element("h2", "The scenario as run"),
        _code(dump(scenario)),
    )


def _network(dataset: Dataset) -> Html:
    """Return the drawing of the network; nothing for one that is not drawn."""
    drawn = network(dataset)
    if drawn is None:
        nodes, links = len(dataset.scenario.nodes), len(dataset.scenario.links)
        said = f"The network of {nodes} nodes and {links} links is too large to be drawn."
        return element("p", said, class_="note") if nodes > MOST_NODES else Html()
    shown = (
        "width and colour. Hosts are angular, routers round. The pointer, and the left and right "
        "keys, show names, rates and use"
        if drawn.dotted
        else "width, colour and number. Hosts are angular, routers round"
    )
    said = (
        "The network: each link with its rate, and the share of the time that each direction was "
        f"busy, by its {shown}."
    )
    box = element("div", drawn.svg(), class_="drawing network", tabindex="0")
    return element("figure", element("figcaption", said), box, id="network")


def _code(shown: str) -> Html:
    return element("pre", element("code", shown), tabindex="0")


def paragraphs(description: str) -> list[str]:
    """The paragraphs of a text, which empty lines part."""
    return [" ".join(part.split()) for part in description.split("\n\n") if part.strip()]


def split_differences(description: str) -> tuple[list[str], list[str]]:
    """Return the paragraphs of a description, those on why results differ separately."""
    every = paragraphs(description)
    return [p for p in every if not p.startswith(WHY)], [p for p in every if p.startswith(WHY)]


def _part(name: str) -> str:
    """Return a file of this package that pages contain."""
    return files("perhop.report").joinpath(name).read_text("utf-8")


def _policy(script: str) -> str:
    """Return a content security policy: run this script and no other, and fetch nothing."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; "
        "style-src 'unsafe-inline'; img-src data:"
    )
