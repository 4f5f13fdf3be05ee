"""Comparisons of runs as tables, as a chart and as a page."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from perhop.analysis import POINTS, TOTAL, ComparedQuantity, Deviation, RunComparison
from perhop.report import text
from perhop.report.colours import COLOURS, MOST_FLOWS
from perhop.report.labels import WIDTH
from perhop.report.style import (
    CONFIG,
    LEGEND,
    SCHEMA,
    Spec,
    cycle,
    legend_columns,
    rounded,
)
from perhop.report.tables import Column, Table

MOST_DIFFERENCES: Final = 30
"""Greatest number of settings in a table that differ between runs."""

MOST_PHASES: Final = 20
"""Greatest number of phases in a chart."""

_MOST_LISTED: Final = 40
"""Greatest number of phases in a table."""

_SHAPES: Final = ("circle", "cross", "square", "triangle-up", "diamond", "triangle-down")

_KINDS: Final = {
    "share": "share",
    "goodput": "goodput",
    "rtt": "median (S)RTT",
    "codepoint": "code points",
    "ecn": "ECN",
    "loss": "loss",
    "order": "order",
    "queueing": "queueing",
    "call": "calls",
    "application": "application",
}
"""Names of the kinds of deviations."""

_WORDS: Final = {
    "rtt_median": "RTT median",
    "rtt_p95": "RTT p95",
    "rtt_p99": "RTT p99",
    "srtt_median": "SRTT median",
    "srtt_p99": "SRTT p99",
    "owd_median": "one-way delay median",
    "owd_p99": "one-way delay p99",
    "retransmits": "retransmitted",
    "completion": "completed in",
    "mos": "MOS",
    "mouth_to_ear": "mouth to ear",
    "completion_median": "completion median",
    "completion_p95": "completion p95",
    "page_load_median": "page load median",
    "page_load_p95": "page load p95",
    "startup": "start-up",
    "bitrate": "bit rate",
    "stall_time": "time in stalls",
    "share": "share of the link",
}
"""Names of quantities that differ from their keys."""


def comparison_tables(compared: RunComparison) -> list[Table]:
    """Return the tables of a comparison of two or more runs."""
    found = [
        _difference_table(compared),
        _phase_table(compared),
        _table("Flows while active", "flow", compared, compared.flows),
        _table("Pings", "ping", compared, compared.pings),
        *(
            _table(f"Classes of {link}", "class", compared, classes)
            for link, classes in compared.classes.items()
        ),
        _arrival_table("Code points", "code point", compared, compared.codepoints),
        _arrival_table("ECN fields", "field", compared, compared.ecn),
    ]
    return [table for table in found if table is not None]


def _arrival_table(
    title: str,
    field: str,
    compared: RunComparison,
    arrived: Mapping[str, Mapping[Any, ComparedQuantity]],
) -> Table | None:
    """Return the shares of packets by a field that differ between runs; None if none do."""
    rows = [
        (name, str(path), *(text.share(value) for value in share.values))
        for name, shares in arrived.items()
        for path, share in shares.items()
        if len(set(share.values) - {None}) > 1
    ]
    if not rows:
        return None
    columns = (*(Column(name, "left") for name in ("of", "arrived")), *map(Column, compared.names))
    note = f"Shares are of the packets that arrived there and were sent with that {field}."
    return Table(f"{title} on arrival", columns, tuple(rows[:_MOST_LISTED]), note)


def agreement_table(compared: RunComparison, deviations: Sequence[Deviation]) -> Table:
    """Return the table of the differences between engines, and the tolerances."""
    rows = []
    for each in deviations:
        amounts = [_amount(each.kind, part) for part in (each.difference, each.tolerance)]
        values = (text.quantity(value, each.beside.unit) for value in each.beside.values)
        verdict = "agree" if each.ok else "DIFFER"
        if each.difference is None:
            verdict = "unknown"
        rows.append((verdict, _KINDS[each.kind], each.name, *values, *amounts))
    columns = (
        *(Column(name, "left") for name in ("", "what", "of")),
        *(Column(name) for name in compared.names),
        Column("apart"),
        Column("at most"),
    )
    return Table("Engines side by side", columns, tuple(rows))


def _amount(kind: str, part: float | None) -> str:
    """Return a difference or a tolerance in words."""
    if part is None or kind == "queueing":
        return text.duration(part)
    return f"{100 * part:.1f}{'%' if kind not in POINTS else ' points'}"


def comparison_chart(compared: RunComparison) -> Spec | None:
    """The goodput of each flow in each phase, a symbol for each run; None without flows."""
    points = [
        {"phase": text.window(*phase.window), "flow": flow, "run": name, "bps": value}
        for phase in compared.phases
        for flow, beside in phase.throughput.items()
        if any(beside.values) and (flow != TOTAL or len(phase.throughput) > 2)
        for name, value in zip(compared.names, beside.values, strict=True)
        if value is not None
    ]
    return runs_chart(points, list(compared.names)) if points else None


def runs_chart(points: list[Spec], runs: list[str], title: str = "Throughput by phase") -> Spec:
    """Chart each flow's share in each phase of several runs: a row per flow, a symbol per run.

    Args:
        points: Each a `phase` and a `flow` in words, a `run`, and `bps`.
        runs: The runs in order. Each has a shape and a colour of its own.
        title: The title of the chart.
    """
    factor, unit = text.rate_unit(max(point["bps"] for point in points))
    phases = list(dict.fromkeys(point["phase"] for point in points))
    flows = list(dict.fromkeys(point["flow"] for point in points))
    kept = [flow for flow in flows if flow != TOTAL][:MOST_FLOWS]
    kept += [TOTAL] * (TOTAL in flows)
    values = [
        {**point, "bps": rounded(point["bps"] / factor)}
        for point in points
        if point["flow"] in kept and point["phase"] in phases[:MOST_PHASES]
    ]
    hidden = [
        f"{len(whole) - most} {name} more in the table"
        for name, whole, most in (
            ("flows", flows, len(kept)),
            ("phases", phases, MOST_PHASES),
        )
        if len(whole) > most
    ]

    def channel(among: tuple[Any, ...]) -> Spec:
        legend = {**LEGEND, "symbolSize": 120, "symbolStrokeWidth": 2}
        legend["columns"] = legend_columns(runs)
        legend.pop("symbolType")
        return {
            "field": "run",
            "type": "nominal",
            "scale": {"domain": runs, "range": cycle(among, len(runs))},
            "legend": legend,
        }

    return {
        "$schema": SCHEMA,
        "description": f"Throughput of {text.listed(flows)} by phase in {text.listed(runs)}",
        "title": {
            "text": title,
            "subtitle": "; ".join(["goodput at the receiver", *hidden]),
            "anchor": "start",
            "frame": "group",
            "fontSize": 16,
            "subtitleFontSize": 12,
            "subtitleColor": "#555555",
            "offset": 12,
        },
        "data": {"values": values},
        "padding": 12,
        "facet": {
            "row": {
                "field": "phase",
                "type": "nominal",
                "sort": phases,
                "title": None,
                "header": {"labelAngle": 0, "labelAlign": "left", "labelFontSize": 12},
            }
        },
        "resolve": {"scale": {"y": "independent"}},
        "spec": {
            "width": WIDTH - 260,
            "height": {"step": 22},
            "mark": {"type": "point", "size": 90, "strokeWidth": 2, "filled": False},
            "encoding": {
                "x": {
                    "field": "bps",
                    "type": "quantitative",
                    "title": f"throughput ({unit})",
                    "scale": {"zero": True},
                    "axis": {"grid": True, "gridColor": "#E8E8E8"},
                },
                "y": {
                    "field": "flow",
                    "type": "nominal",
                    "sort": kept,
                    "title": None,
                    "axis": {"grid": True, "gridDash": [1, 3], "gridColor": "#BBBBBB"},
                },
                "color": channel(COLOURS),
                "shape": channel(_SHAPES),
            },
        },
        "config": CONFIG,
    }


def _difference_table(compared: RunComparison) -> Table:
    """Return the table of the differences between the scenarios of runs."""
    rows = [
        (each.path, *(_plain(value) for value in each.values))
        for each in compared.differences[:MOST_DIFFERENCES]
    ]
    more = len(compared.differences) - len(rows)
    notes = [f"And {more} more."] if more > 0 else []
    if any(each.path.startswith(("changes", "flows")) for each in compared.differences):
        notes.append("Where timelines differ, the phases are the first run's.")
    if not rows:
        notes.append("The same scenario, engine and seed.")
    columns = (Column("what differs", "left"), *(Column(name) for name in compared.names))
    return Table("Runs", columns, tuple(rows), " ".join(notes))


def _phase_table(compared: RunComparison) -> Table | None:
    rows = []
    for phase in compared.phases[:_MOST_LISTED]:
        shown = text.window(*phase.window)
        for flow, beside in phase.throughput.items():
            if any(beside.values):
                rows.append((shown, flow, *_cells(beside)))
                shown = ""
    if not rows:
        return None
    columns = (Column("phase", "left"), Column("flow", "left"), *_columns(compared))
    more = len(compared.phases) - _MOST_LISTED
    note = f"{more} more phases are in `perhop compare --json`." if more > 0 else ""
    return Table("Throughput by phase", columns, tuple(rows), note)


def _table(
    title: str, kind: str, compared: RunComparison, found: dict[str, dict[str, ComparedQuantity]]
) -> Table | None:
    rows = []
    for name, quantities in found.items():
        shown = name
        for quantity, beside in quantities.items():
            # A row of zeros, without any loss or retransmission, is omitted.
            if any(beside.values):
                rows.append((shown, _WORDS.get(quantity, quantity), *_cells(beside)))
                shown = ""
    if not rows:
        return None
    columns = (Column(kind, "left"), Column("", "left"), *_columns(compared))
    return Table(title, columns, tuple(rows))


def _columns(compared: RunComparison) -> list[Column]:
    """Return a column for each run, and one for its ratio to the first."""
    first, *others = compared.names
    return [Column(first), *(Column(name) for other in others for name in (other, "ratio"))]


def _cells(beside: ComparedQuantity) -> list[str]:
    first, *others = (text.quantity(value, beside.unit) for value in beside.values)
    ratios = map(text.ratio, beside.ratios[1:])
    return [first, *(cell for pair in zip(others, ratios, strict=True) for cell in pair)]


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()  # as files have it
    return text.ABSENT if value is None else str(value)
