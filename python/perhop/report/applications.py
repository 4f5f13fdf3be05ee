"""The tables of applications: completion times by size, pages and videos."""

from perhop import analysis
from perhop.analysis import Distribution
from perhop.dataset import Dataset
from perhop.report import text
from perhop.report.tables import Column, Table


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
