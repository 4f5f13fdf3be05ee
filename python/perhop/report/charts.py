"""Charts of one run, as specifications of Vega-Lite."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

import polars as pl

from perhop import analysis
from perhop.analysis import TOTAL
from perhop.dataset import Dataset
from perhop.report import labels, tables, text, timeline
from perhop.report.colours import MOST_FLOWS, dataset_looks
from perhop.report.labels import WIDTH
from perhop.report.style import (
    INK,
    LINE_WIDTH,
    SCHEMA,
    Spec,
    chart,
    ladder,
    log_ticks,
    rounded,
    step_lines,
    styles,
    time_axis,
    titled,
)

__all__ = [
    "MOST_FLOWS",
    "SCHEMA",
    "Spec",
    "drawn_flows",
    "grid_s",
    "ping_chart",
    "throughput_chart",
]

_RIBBON_WIDTH: Final = 6
_BETWEEN: Final = 12
"""Pixels between triangles of a flow, which are 9 wide."""

_MOST_CELLS: Final = 4000
_MOST_STEPS: Final = 500
_LOG_DECADES: Final = 4


def throughput_chart(
    dataset: Dataset,
    scale: Literal["linear", "log"] = "linear",
    interval_s: float | None = None,
    *,
    capacity: bool = True,
) -> Spec:
    """The goodput of every flow and of all together over time, the timeline's changes marked.

    Means are over `interval_s`, a multiple of the report interval; over that, or what keeps the
    chart small, if it is not given. The rate of the bottleneck that all flows share, where they
    share one, is a line unless `capacity` says no.

    A flow's line runs while the flow is active. On a log scale, which has no zero, an interval in
    which an active flow delivered nothing (or less than the axis shows) is a triangle on the axis
    and a gap in the line.
    """
    flows = drawn_flows(dataset)
    names = [*flows, TOTAL]
    step = interval_s or grid_s(dataset)
    cells = _active_cells(dataset, flows, step)
    narrow = _ceilings(dataset) if capacity else []
    highest = max((ceiling.rate_bps for ceiling in narrow), default=0)
    top = max([*cells["throughput_bps"], highest, 1.0])
    factor, unit = text.rate_unit(top)
    log = scale == "log"
    floor = _floor(cells["throughput_bps"], top) / factor if log else 0.0
    domain = [floor, top / factor * (1.5 if log else 1.1)]
    end = dataset.scenario.end_ps / 1e12

    points, empty = _steps(cells, names, factor, floor, log)
    empty = _apart(empty, _BETWEEN / WIDTH * end)
    axis = labels.Axis(domain[0], domain[1], log)
    ceiling = highest / factor if narrow else domain[1]
    placed = labels.place(_phases(dataset, cells, names, factor), end, step, axis, ceiling)
    look = styles(names, dataset_looks(dataset))
    colours = dict(zip(flows, look["color"]["scale"]["range"], strict=False))
    x = time_axis(end)
    y: Spec = {
        "field": "y",
        "type": "quantitative",
        "title": f"throughput ({unit})",
        "scale": {"domain": domain, "nice": False, "type": scale},
        "axis": {"values": log_ticks(domain), "format": "~r"} if log else {"tickCount": 6},
    }
    layers = [
        *_changes(dataset, x, end),
        step_lines([p for p in points if p["flow"] == TOTAL], x, y, look, _RIBBON_WIDTH),
        *_capacity(narrow, x, y, factor),
        step_lines([p for p in points if p["flow"] != TOTAL], x, y, look, LINE_WIDTH),
    ]
    if empty:
        layers.append(
            {
                "data": {"values": empty},
                "mark": {
                    "type": "point",
                    "shape": "triangle-down",
                    "filled": True,
                    "opacity": 1,
                    "size": 45,
                },
                "encoding": {"x": x, "y": y, "color": look["color"]},
            }
        )
    layers += _labels(placed, colours, x, y)
    return chart(
        layers,
        f"Throughput of {text.listed(names)} over time on a {scale} scale",
        _titled(dataset, _captions(dataset, scale, step, bool(empty))),
    )


def ping_chart(dataset: Dataset) -> Spec | None:
    """Return the chart of the distribution function of each ping's round-trip times.

    Those that ask several nodes are left out.

    A curve that ends below 100% lost the rest. None if nothing was answered.
    """
    requests = {
        name: analysis.sent(dataset, name)["rtt_s"]
        for name, ping in dataset.scenario.pings.items()
        if not ping.is_trace
    }
    answered = {name: rtts.drop_nulls().sort().to_list() for name, rtts in requests.items()}
    pings = [name for name, times in answered.items() if times]
    if not pings:
        return None
    hidden = len(pings) - MOST_FLOWS
    if hidden > 0:
        slowest = sorted(pings, key=lambda ping: -answered[ping][len(answered[ping]) // 2])
        pings = [name for name in pings if name in slowest[:MOST_FLOWS]]
    least = min(answered[name][0] for name in pings)
    greatest = max(answered[name][-1] for name in pings)
    within = "answered within this time"
    factor, x, y = distribution_axes(least, greatest, "round-trip time", within)
    points = []
    for name in pings:
        times, sent = answered[name], len(requests[name])
        kept = {*range(0, len(times), max(1, len(times) // _MOST_STEPS)), len(times) - 1}
        points.append({"t": times[0] / factor, "y": 0.0, "flow": name})
        points += [
            {"t": times[i] / factor, "y": (i + 1) / sent, "flow": name} for i in sorted(kept)
        ]
    look = styles(pings, dataset_looks(dataset))
    layer = step_lines(points, x, y, look, LINE_WIDTH)
    captions = ["round-trip times of pings; a curve that ends below 100% lost the rest"]
    if hidden > 0:
        captions.append(f"the {MOST_FLOWS} with the longest median; {hidden} more in the table")
    title = _titled(dataset, captions)
    description = f"Distribution of the round-trip times of {text.listed(pings)}"
    return chart([layer], description, title, 260)


def distribution_axes(
    least: float, greatest: float, across: str, up: str
) -> tuple[float, Spec, Spec]:
    """Return the axes of a distribution function of times.

    Args:
        least: The shortest time, in seconds.
        greatest: The longest time.
        across: The name of the horizontal axis.
        up: The name of the vertical axis, a share.

    Returns:
        The unit of the horizontal axis in seconds, and both axes; the scale is logarithmic if the
        times differ much.
    """
    factor, unit = text.time_unit(greatest)
    log = greatest > 30 * least > 0
    domain = [0.9 * least / factor if log else 0.0, 1.05 * greatest / factor]
    x: Spec = {
        "field": "t",
        "type": "quantitative",
        "title": f"{across} ({unit})",
        "scale": {"domain": domain, "nice": False, "type": "log" if log else "linear"},
        "axis": {"values": log_ticks(domain), "format": "~r"} if log else {},
    }
    y: Spec = {
        "field": "y",
        "type": "quantitative",
        "title": up,
        "scale": {"domain": [0, 1]},
        "axis": {"format": ".0%"},
    }
    return factor, x, y


def drawn_flows(dataset: Dataset) -> list[str]:
    """The flows that charts draw, in the scenario's order."""
    return tables.largest_flows(dataset, MOST_FLOWS)


def grid_s(dataset: Dataset) -> float:
    """The step of a chart over time: the report interval, or a multiple that keeps charts small."""
    interval: float = dataset.scenario.report.interval / 1e12
    cells = dataset.covered_s / interval * (len(drawn_flows(dataset)) + 1)
    return interval * max(1, -(-cells // _MOST_CELLS))


def _active_cells(dataset: Dataset, flows: list[str], step: float) -> pl.DataFrame:
    """Cells of `series` for the total, and for each flow while it is active, as far as known."""
    cells = analysis.series(dataset, interval_s=step).drop_nulls("throughput_bps")
    middle = (pl.col("start_s") + pl.col("end_s")) / 2
    kept = [cells.filter(pl.col("flow") == TOTAL)]
    for flow in flows:
        start, end = analysis.active(dataset, flow) or (0.0, 0.0)
        kept.append(cells.filter((pl.col("flow") == flow) & middle.is_between(start, end)))
    return pl.concat(kept)


def _steps(
    cells: pl.DataFrame, names: list[str], factor: float, floor: float, log: bool
) -> tuple[list[Spec], list[Spec]]:
    """The corners of each step line; and on a log scale, the intervals that have no place on it."""
    points: list[Spec] = []
    empty: list[Spec] = []
    for name in names:
        end = None
        for start, end, _, bps in cells.filter(pl.col("flow") == name).iter_rows():
            value = rounded(bps / factor)
            if not log and (not points or points[-1]["flow"] != name):
                points.append({"t": start, "y": 0, "flow": name})
            if log and value < floor:
                empty.append({"t": (start + end) / 2, "y": floor, "flow": name})
                if points and points[-1]["flow"] == name and points[-1]["y"] is not None:
                    points.append({"t": start, "y": points[-1]["y"], "flow": name})
                points.append({"t": start, "y": None, "flow": name})
            else:
                points.append({"t": start, "y": value, "flow": name})
        if end is not None and points[-1]["y"] is not None:
            points.append({"t": end, "y": points[-1]["y"], "flow": name})
            if not log:
                points.append({"t": end, "y": 0, "flow": name})
    return points, empty


def _apart(marks: list[Spec], least: float) -> list[Spec]:
    """Return those of some marks, sorted by flow and time, that are `least` seconds apart."""
    kept: list[Spec] = []
    for mark in marks:
        if not kept or kept[-1]["flow"] != mark["flow"] or mark["t"] - kept[-1]["t"] >= least:
            kept.append(mark)
    return kept


def rules(marks: list[labels.Change], x: Spec, end: float) -> Spec:
    """Return rules at changes of the timeline, those that are too close together left out."""
    instants = labels.visible_instants([mark.t for mark in marks], end)
    return {
        "data": {"values": [{"t": t} for t in instants]},
        "mark": {"type": "rule", "color": "#9A9A9A", "strokeDash": [3, 3]},
        "encoding": {"x": x},
    }


def _changes(dataset: Dataset, x: Spec, end: float) -> list[Spec]:
    """Return rules at the changes of the timeline, with their labels above the plot."""
    marks = labels.changes(dataset)
    layers = [rules(marks, x, end)]
    rows: dict[tuple[int, str], list[Spec]] = defaultdict(list)
    for mark in marks:
        if mark.text and mark.t <= end:
            rows[mark.row, mark.align].append({"t": mark.t, "text": mark.text})
    layers += [
        {
            "data": {"values": words},
            "mark": {
                "type": "text",
                "align": align,
                "y": -8 - 15 * row,
                "color": INK,
                "fontSize": labels.FONT,
            },
            "encoding": {"x": x, "text": {"field": "text"}},
        }
        for (row, align), words in rows.items()
    ]
    return layers


def _labels(
    placed: list[labels.Label], colours: dict[str, str], x: Spec, y: Spec
) -> Iterator[Spec]:
    """Return the names beside the lines, in their colours: a layer for those on either side."""
    for side in sorted({label.dy for label in placed}):
        words = [
            {
                "t": label.t,
                "y": label.y,
                "text": label.text,
                "colour": colours.get(label.text, "#555555"),
            }
            for label in placed
            if label.dy == side
        ]
        yield {
            "data": {"values": words},
            "mark": {
                "type": "text",
                "dy": side,
                "fontSize": labels.FONT,
                "fontWeight": "bold",
                "stroke": None,
            },
            "encoding": {
                "x": x,
                "y": y,
                "text": {"field": "text"},
                "color": {"field": "colour", "type": "nominal", "scale": None},
            },
        }


@dataclass(frozen=True, slots=True)
class _Ceiling:
    """The rate of the common bottleneck of all flows, for some time."""

    start_s: float
    end_s: float
    link: str
    rate_bps: int


def _ceilings(dataset: Dataset) -> list[_Ceiling]:
    """Return the common bottlenecks of all flows, in order of time."""
    found: list[_Ceiling] = []
    rows = analysis.bottlenecks(dataset).filter(flow=TOTAL).drop("flow")
    for row in rows.drop_nulls("link").iter_rows():
        ceiling = _Ceiling(*row)
        last = found[-1] if found else None
        if last and (last.link, last.rate_bps) == (ceiling.link, ceiling.rate_bps):
            found[-1] = replace(last, end_s=ceiling.end_s)
        else:
            found.append(ceiling)
    return found


def _capacity(narrow: list[_Ceiling], x: Spec, y: Spec, factor: float) -> list[Spec]:
    """Return lines at the rates of the common bottlenecks, with the name if there is only one."""
    lines = [{"t": c.start_s, "end": c.end_s, "y": c.rate_bps / factor} for c in narrow]
    layers: list[Spec] = [
        {
            "data": {"values": lines},
            "mark": {"type": "rule", "color": INK, "strokeWidth": 0.8},
            "encoding": {"x": x, "x2": {"field": "end"}, "y": y},
        }
    ]
    named = {f"{c.link}: {text.stated(c.rate_bps, 'bps')}" for c in narrow}
    if len(named) == 1:
        name, last = named.pop(), lines[-1]
        # The name ends where the line ends, unless it would begin beside the chart.
        at_end = last["end"] / x["scale"]["domain"][1] * labels.WIDTH >= labels.wide(name)
        place = ("right", "end") if at_end else ("left", "t")
        mark = {"type": "text", "text": name, "align": place[0], "dy": -7, "color": INK}
        layers.append(
            {
                "data": {"values": [last]},
                "mark": {**mark, "fontSize": labels.FONT},
                "encoding": {"x": {**x, "field": place[1]}, "y": y},
            }
        )
    return layers if 0 < len(narrow) <= timeline.MOST else []


def _captions(dataset: Dataset, scale: str, step: float, gaps: bool) -> list[str]:
    captions = [f"goodput at the receiver on a {scale} scale, means over {text.stated(step, 's')}"]
    hidden = len(dataset.scenario.flows) - len(drawn_flows(dataset))
    if hidden:
        captions.append(f"the {MOST_FLOWS} flows that delivered most; {hidden} more in the total")
    if gaps:
        captions.append("\N{BLACK DOWN-POINTING TRIANGLE}: nothing, or less than the axis shows")
    network = sum(change.clear is None for change in dataset.scenario.changes)
    if unmarked := network - len(timeline.marked(dataset.scenario)):
        captions.append(f"{unmarked} changes of the network are not marked")
    if not dataset.manifest.complete:
        captions.append(f"the run was cut off at {text.clock(dataset.covered_s)} s")
    return captions


def _titled(dataset: Dataset, captions: list[str]) -> Spec:
    return titled(dataset.scenario.title or dataset.scenario.name, captions)


def _phases(
    dataset: Dataset, cells: pl.DataFrame, names: list[str], factor: float
) -> list[labels.TimelinePhase]:
    """Return the timeline's phases, with the values of the named lines in each."""
    middle = (pl.col("start_s") + pl.col("end_s")) / 2
    steps = cells.select("flow", middle.alias("t"), pl.col("throughput_bps") / factor)
    scenario = dataset.scenario
    windows = timeline.stretches(scenario) or map(analysis.seconds, scenario.phases_ps)
    found = [labels.TimelinePhase(*each, {name: [] for name in names}) for each in windows]
    starts = [phase.start for phase in found]
    for flow, t, height in steps.iter_rows():
        number = bisect_right(starts, t) - 1
        found[number].lines[flow].append((t, height))
        if number and t == starts[number]:
            found[number - 1].lines[flow].append((t, height))
    return found


def _floor(rates: pl.Series, top: float) -> float:
    """Return the lower end of a log axis: 1, 2 or 5 times a power of ten, below all values."""
    least = min((rate for rate in rates if rate > 0), default=top / 10)
    return max(tick for tick in ladder(top) if tick <= max(least, top / 10**_LOG_DECADES))
