"""Throughput over time: goodput at the receiving application."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Final

import polars as pl

from perhop.analysis.cache import cached, of_flow
from perhop.analysis.names import flow_named
from perhop.analysis.windows import Window, clip, cut, seconds, split, sum_all, weighed
from perhop.dataset import Dataset

TOTAL: Final = "total"
"""The name of the sum of all flows, where a flow's name may stand."""


def throughput(dataset: Dataset, flow: str = TOTAL, window: Window | None = None) -> float | None:
    """Return the mean goodput of a flow, or of all flows, in bits per second.

    Args:
        dataset: The run.
        flow: A flow's name, all its streams together, or "total".
        window: Seconds of the run to look at; the whole run by default.

    Returns:
        The mean over the part of the window that the run covers; None if it covers none of it, or
        a receiver did not report.
    """
    every = flow_named(dataset, flow, TOTAL) == TOTAL
    rows = dataset.intervals if every else of_flow(dataset, "intervals", flow)
    part = clip(dataset, window)
    if part is None:
        return None
    flows = cut(rows, part).group_by("flow").agg(weighed("bytes").alias("bytes"))
    delivered = flows.select(sum_all("bytes")).item()
    return None if delivered is None else 8 * float(delivered) / (part[1] - part[0])


@cached
def active(dataset: Dataset, flow: str) -> Window | None:
    """Return the seconds of the run during which a flow sends; None if the run ended before.

    A flow with a volume is active until the end of the last interval in which it delivered data, or
    until the end of the run if it delivered none.
    """
    spec = dataset.scenario.flows[flow_named(dataset, flow)]
    window = seconds(dataset.scenario.active_ps(spec))
    if spec.volume is not None:
        delivering = of_flow(dataset, "intervals", flow).filter(pl.col("bytes") > 0)
        if not delivering.is_empty():
            window = window[0], float(delivering.select(pl.max("end_s")).item())
    return clip(dataset, window)


@cached
def phases(dataset: Dataset, stretches: tuple[Window, ...] | None = None) -> pl.DataFrame:
    """Return the throughput of every flow in each phase of the timeline.

    Args:
        dataset: The run.
        stretches: Other windows in place of the phases, one after the other.

    Returns:
        Columns `start_s`, `end_s`, `flow` and `throughput_bps`, with a row per phase and flow, in
            the
        scenario's order; the flow "total" is the last of each phase. A phase that the run covers in
        part ends with the run. The throughput is null where the receiver did not report.
    """
    timeline = tuple(map(seconds, dataset.scenario.phases_ps))
    parts = (clip(dataset, each) for each in (timeline if stretches is None else stretches))
    windows = [part for part in parts if part is not None]
    rows = []
    for part, delivered in zip(windows, delivered_in(dataset, windows), strict=True):
        length = part[1] - part[0]
        counts = {flow: delivered.get(flow, 0.0) for flow in _flows(dataset)}
        counts[TOTAL] = added(counts.values())
        rates = {flow: None if n is None else 8 * n / length for flow, n in counts.items()}
        rows += [(*part, flow, rate) for flow, rate in rates.items()]
    schema = {
        "start_s": pl.Float64,
        "end_s": pl.Float64,
        "flow": pl.String,
        "throughput_bps": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def added(counts: Iterable[float | None]) -> float | None:
    """Return the sum of some counts; None if one of them is unknown."""
    every = list(counts)
    known = [each for each in every if each is not None]
    return sum(known) if len(known) == len(every) else None


def delivered_in(dataset: Dataset, windows: Sequence[Window]) -> list[dict[str, float | None]]:
    """Return the bytes that each flow delivered in each of some windows that follow each other.

    Rows are looked at once, whatever the number of windows. Flows that have none are left out;
    None stands for a receiver that did not report.

    Args:
        dataset: The run.
        windows: Seconds of the run, which it covers.
    """
    rows = split(dataset.intervals.select("flow", "bytes", "start_s", "end_s"), windows)
    counted = rows.group_by("window", "flow").agg(weighed("bytes"))
    found: list[dict[str, float | None]] = [{} for _ in windows]
    for number, flow, delivered in counted.iter_rows():
        found[number][flow] = delivered
    return found


def series(
    dataset: Dataset, window: Window | None = None, interval_s: float | None = None
) -> pl.DataFrame:
    """Return the throughput over time on a regular grid that starts with the run.

    Args:
        dataset: The run.
        window: Seconds of the run to look at; cells at its edges are cut there.
        interval_s: The grid's step; the scenario's report interval by default.

    Returns:
        Columns `start_s`, `end_s`, `flow`, `throughput_bps`: the flows in the scenario's order,
        then "total", each in order of time and in every cell.
    """
    step = interval_s or dataset.scenario.report.interval / 1e12
    part = clip(dataset, window) or (0.0, 0.0)
    cell = ((pl.col("start_s") + pl.col("end_s")) / 2 / step).floor()
    per_flow = (
        cut(dataset.intervals, part)
        .group_by("flow", cell.alias("cell"))
        .agg(
            pl.max_horizontal(pl.min("start_s"), pl.lit(part[0])).alias("start_s"),
            pl.min_horizontal(pl.max("end_s"), pl.lit(part[1])).alias("end_s"),
            weighed("bytes").alias("bytes"),
        )
    )
    total = per_flow.group_by("cell").agg(
        pl.lit(TOTAL).alias("flow"),
        pl.min("start_s"),
        pl.max("end_s"),
        sum_all("bytes"),
    )
    order = pl.Enum([*_flows(dataset), TOTAL])
    rate = 8 * pl.col("bytes") / (pl.col("end_s") - pl.col("start_s"))
    return (
        pl.concat([per_flow, total.select(per_flow.columns)])
        .sort(pl.col("flow").cast(order), "cell")
        .select("start_s", "end_s", "flow", throughput_bps=rate)
    )


SETTLED_INTERVALS: Final = 3
SETTLED_OWN: Final = 0.20
SETTLED_TOTAL: Final = 0.02


def settling(dataset: Dataset, flow: str, window: Window | None = None) -> float | None:
    """Return the time from the start of a window until a flow's throughput stays near its level.

    The level is the median of the flow's throughput over the report intervals of the window. Near
    means within 20% of it plus 2% of the median total; the second term is for a flow that gets only
    a
    few packets per interval. The flow has settled when three intervals in a row, or all remaining
    intervals of the window, are near. Crossing the level does not count, nor does a later
    disturbance.

    Returns:
        Seconds, a multiple of the report interval unless a change cut one; 0 if the first interval
        is near; None if the flow does not settle or the run does not cover the window.
    """
    cells = series(dataset, window)
    own = cells.filter(pl.col("flow") == flow_named(dataset, flow, TOTAL))
    total = cells.filter(pl.col("flow") == TOTAL)
    if own.is_empty():
        return None
    rates = own["throughput_bps"].to_list()
    level = statistics.median(rates)
    band = SETTLED_OWN * level + SETTLED_TOTAL * statistics.median(total["throughput_bps"])
    near = [abs(rate - level) <= band for rate in rates]
    starts = own["start_s"]
    for index in range(len(near)):
        if all(near[index : index + SETTLED_INTERVALS]):
            return float(starts[index] - starts[0])
    return None


def _flows(dataset: Dataset) -> list[str]:
    return list(dataset.scenario.flows)
