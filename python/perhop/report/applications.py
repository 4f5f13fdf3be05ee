"""Applications in reports: tables of completion times, pages and videos, and a chart of videos."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter

from perhop import analysis
from perhop.analysis import Distribution
from perhop.dataset import Dataset
from perhop.report import text
from perhop.report.colours import dataset_looks
from perhop.report.style import (
    LINE_WIDTH,
    Spec,
    chart,
    rounded,
    step_lines,
    styles,
    time_axis,
    titled,
)
from perhop.report.tables import Column, Table
from perhop.units import SECOND

_MOST_LINES = 6

_ROUNDING = 1e-9
"""A time in seconds that stands for none."""


def application_tables(dataset: Dataset) -> list[Table]:
    """Return the tables of transfers and calls, and of videos, if the scenario has any."""
    tables = (completion_table(dataset), page_table(dataset), video_table(dataset))
    return [table for table in tables if table is not None]


def completion_table(dataset: Dataset) -> Table | None:
    """Return completion times and slowdowns of transfers and calls, by size; None without any."""
    rows = []
    for name, flow in dataset.scenario.flows.items():
        if flow.exchanges is None:
            continue
        bins = analysis.size_bins(dataset, name)
        left = analysis.unfinished(dataset, name)
        whole = (analysis.completions(dataset, name), analysis.slowdowns(dataset, name))
        rows.append((name, "all", *_cells(*whole), text.count(left)))
        if len(bins) > 1:
            rows += [
                (name, _sizes(part), *_cells(part.completions, part.slowdowns), text.ABSENT)
                for part in bins
            ]
    if not rows:
        return None
    spread = ("median", "mean", "p95", "p99")
    slow = ("slowdown median", "slowdown p99")
    columns = (
        *(Column(name, "left") for name in ("flow", "sizes")),
        *map(Column, ("completed", *spread, *slow, "unfinished")),
    )
    note = (
        "A slowdown is the completion time, divided by that on the empty path: its round trips, "
        "and the bytes at the rate of its slowest link."
    )
    return Table("Completion times", columns, tuple(rows), note)


def _cells(took: Distribution | None, slow: Distribution | None) -> tuple[str, ...]:
    if took is None:
        return ("0", *(text.ABSENT,) * 6)
    times = map(text.duration, (took.median, took.mean, took.p95, took.p99))
    ratios = (text.ABSENT,) * 2 if slow is None else map(text.ratio, (slow.median, slow.p99))
    return (text.count(took.samples), *times, *ratios)


def _sizes(part: analysis.SizeBin) -> str:
    if part.up_to is None:
        return f"above {text.size(part.above)}"
    return f"up to {text.size(part.up_to)}"


def page_table(dataset: Dataset) -> Table | None:
    """Return the load times of pages; None without any."""
    rows = []
    for name, flow in dataset.scenario.flows.items():
        if flow.web is None:
            continue
        took = analysis.page_loads(dataset, name)
        times: tuple[float | None, ...] = (None,) * 5
        if took is not None:
            times = (took.min, took.median, took.mean, took.p95, took.max)
        loaded = 0 if took is None else took.samples
        left = text.count(analysis.unfinished(dataset, name))
        rows.append((name, text.count(loaded), *map(text.duration, times), left))
    if not rows:
        return None
    names = ("loaded", "min", "median", "mean", "p95", "max", "unfinished")
    return Table("Page load times", (Column("flow", "left"), *map(Column, names)), tuple(rows))


def video_table(dataset: Dataset) -> Table | None:
    """Return what the viewers of each flow's videos got; None without video."""
    rows = []
    for name, flow in dataset.scenario.flows.items():
        if flow.video is None:
            continue
        found = analysis.video(dataset, name)
        rows.append(
            (
                name,
                text.count(flow.all_streams),
                text.duration(found.startup),
                text.count(found.stalls),
                text.duration(found.stall_time),
                text.rate(found.bitrate),
                text.count(found.switches),
                text.count(found.segments),
            )
        )
    if not rows:
        return None
    names = ("viewers", "start-up", "stalls", "in stalls", "bit rate", "switches", "segments")
    note = "Start-up time and bit rate are means; the others are sums over all viewers."
    return Table("Video", (Column("flow", "left"), *map(Column, names)), tuple(rows), note)


def video_chart(dataset: Dataset) -> Spec | None:
    """Return the chart of what viewers of videos see over time; None without video.

    It is the bit rate of what plays, and 0 before playback and in stalls. Of each flow, it is that
    of the viewer with the longest time without playback; of more than six flows, those with the
    longest.
    """
    waited = attrgetter("waited")
    seen: dict[str, _Viewer] = {}
    for name, flow in dataset.scenario.flows.items():
        if flow.video is not None:
            seen[name] = max(_viewers(dataset, name), key=waited, default=_Viewer(0.0, []))
    ranked = sorted(
        (name for name in seen if seen[name].steps), key=lambda name: -seen[name].waited
    )
    names = [name for name in seen if name in ranked[:_MOST_LINES]]
    points: list[Spec] = [
        {"t": t, "y": rounded(rate / 1e6), "flow": name}
        for name in names
        for t, rate in seen[name].steps
    ]
    if not points:
        return None
    top = max(point["y"] for point in points) or 1  # what plays may be nothing
    y: Spec = {
        "field": "y",
        "type": "quantitative",
        "title": "bit rate (Mb/s)",
        "scale": {"domain": [0, 1.1 * top], "nice": False},
    }
    captions = ["bit rate of what plays at the worst viewer; 0 before playback and in stalls"]
    if len(ranked) > len(names):
        captions.append(f"the {_MOST_LINES} flows that waited longest")
    title = titled(dataset.scenario.title or dataset.scenario.name, captions)
    x = time_axis(dataset.scenario.end_ps / SECOND)
    look = styles(names, dataset_looks(dataset))
    lines = step_lines(points, x, y, look, LINE_WIDTH)
    return chart([lines], f"Bit rates of the videos of {text.listed(names)} over time", title, 240)


@dataclass(frozen=True, slots=True)
class _Viewer:
    """The time that a viewer waited, and the times at which what plays changes, with its rate."""

    waited: float
    steps: list[tuple[float, float]]


def _viewers(dataset: Dataset, name: str) -> Iterator[_Viewer]:
    """Yield the viewers of a flow's videos who asked for one."""
    video = dataset.scenario.flows[name].video
    assert video is not None
    _, end = analysis.active(dataset, name) or (0.0, 0.0)
    table = dataset.completions.filter(flow=name).sort("stream", "start_s", "number")
    rows = table.select("stream", "kind", "start_s", "end_s", "bitrate_bps").rows()
    for _, own in groupby(rows, itemgetter(0)):
        waits, rates = [], []
        for _, kind, begin, until, rate in own:
            if kind == "segment":
                rates.append(rate)
            elif begin < end:
                waits.append((begin, end if until is None else min(until, end)))
        waited = sum(until - begin for begin, until in waits)
        yield _Viewer(waited, list(_steps(waits, rates, video.segment / SECOND, end)))


def _steps(
    pauses: list[tuple[float, float]], rates: list[float], segment: float, end: float
) -> Iterator[tuple[float, float]]:
    """Yield the times at which the bit rate that plays changes, each with the rate.

    Args:
        pauses: The beginnings and the ends of the times without playback.
        rates: The bit rates of all segments.
        segment: The playing time of a segment.
        end: The end of the last step.
    """
    played, rate = 0, 0.0  # whole segments
    left = segment
    for (begin, until), (stop, _) in pairwise([*pauses, (end, end)]):
        yield begin, 0.0
        now = until
        while now < stop and played < len(rates):
            rate = rates[played]
            yield now, rate
            part = min(left, stop - now)
            now, left = now + part, left - part
            if left <= _ROUNDING:
                played, left = played + 1, segment
        if now < stop:
            yield now, 0.0
            rate = 0.0
    yield end, rate
