"""Distributions of delays and round-trip times, loss and completion times.

Percentiles interpolate linearly between the two nearest samples (Hyndman and Fan's type 7, the
default of NumPy and R); the standard deviation is the sample's (n - 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

import polars as pl

from perhop.analysis.cache import cached, of_flow, of_ping
from perhop.analysis.names import flow_named, is_flow
from perhop.analysis.windows import Window, clip, cut, split, tally, weighed
from perhop.dataset import Dataset
from perhop.scenario.resolve import empty_path
from perhop.units import SECOND


@dataclass(frozen=True, slots=True)
class Distribution:
    """Summary statistics of a set of numbers, in their unit.

    `samples` is the number of samples; `iqr` the interquartile range, p75 - p25. `stdev` is None
    for
    a single sample.
    """

    samples: int
    min: float
    mean: float
    p5: float
    p25: float
    median: float
    p75: float
    p95: float
    p99: float
    max: float
    iqr: float
    stdev: float | None


@cached
def rtt(dataset: Dataset, ping: str, window: Window | None = None) -> Distribution | None:
    """Return the round-trip times of a ping's requests that were sent in `window` and answered.

    Returns:
        None if there are none.
    """
    return distribution(sent(dataset, ping, window)["rtt_s"])


def distribution(numbers: pl.Series) -> Distribution | None:
    """Return summary statistics of some numbers, without nulls; None if nothing is left."""
    values = pl.DataFrame({"number": numbers.drop_nulls()})
    if values.is_empty():
        return None
    number = pl.col("number")
    shares = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
    quantiles = values.select(
        number.quantile(share, interpolation="linear").alias(str(share)) for share in shares
    )
    p5, p25, median, p75, p95, p99 = quantiles.row(0)
    least, mean, greatest, spread = values.select(
        number.min().alias("min"),
        number.mean().alias("mean"),
        number.max().alias("max"),
        number.std(ddof=1),
    ).row(0)
    return Distribution(
        samples=len(values),
        min=least,
        mean=mean,
        p5=p5,
        p25=p25,
        median=median,
        p75=p75,
        p95=p95,
        p99=p99,
        max=greatest,
        iqr=p75 - p25,
        stdev=spread,
    )


@cached
def flow_rtt(dataset: Dataset, flow: str) -> Distribution | None:
    """Return the round-trip time samples of a flow's segments; only `sim` has them.

    Least, greatest and mean are exact. Percentiles and the standard deviation come from the
    histogram `rtts`, whose bins are about 1% wide: samples count as spread evenly over their bin.

    Returns:
        None if the flow took no sample.
    """
    return _measured(dataset, flow, "rtt")


@cached
def flow_srtt(dataset: Dataset, flow: str, window: Window | None = None) -> Distribution | None:
    """Return the smoothed round-trip time of a flow's sender (RFC 6298), in any engine.

    It is read every 10 ms while acknowledgements come. The same statistics are exact as in
    `flow_rtt`, and belong to a window as in `owd`.

    Returns:
        None if the flow took no sample.
    """
    return _measured(dataset, flow, "srtt", window)


@cached
def owd_bound(dataset: Dataset, flow: str) -> float | None:
    """Return the error bound of a flow's one-way delays in seconds; None if one clock timed both.

    It is the largest bound of the offset between the clocks of both ends.
    """
    name, live = flow_named(dataset, flow), dataset.manifest.live
    return None if live is None else live.offset_bounds_s.get(name)


def owd(dataset: Dataset, flow: str, window: Window | None = None) -> Distribution | None:
    """Return the one-way delays of a flow's data packets that arrived in `window`.

    Least, greatest and mean are exact; percentiles and the standard deviation come from the
    histogram `delays`, as those of `flow_rtt` do. They are those of the window if a statistic of a
    histogram is expected or published over it, or if it is the whole run.

    Returns:
        None if no packet arrived.
    """
    return _measured(dataset, flow, "owd", window)


def queueing(dataset: Dataset, flow: str, window: Window | None = None) -> Distribution | None:
    """Return the queueing delays of a flow's data packets that arrived in `window`.

    It is the one-way delay above the smallest one of the run, as `owd` gives it: an offset between
    the clocks of both ends does not matter.

    Returns:
        None if no packet arrived.
    """
    found, whole = owd(dataset, flow, window), owd(dataset, flow)
    if found is None or whole is None:
        return None
    delays = ("min", "mean", "p5", "p25", "median", "p75", "p95", "p99", "max")
    return replace(found, **{name: getattr(found, name) - whole.min for name in delays})


def queueing_in(dataset: Dataset, windows: Sequence[Window]) -> list[dict[str, float]]:
    """Return the queueing delay of each flow in each of some windows that follow each other.

    It is the median over report intervals of the mean one-way delay above the smallest one of the
    run, in seconds. An offset between the clocks of both ends does not matter, and a host that
    stalls in a few intervals changes little. Flows without a known delay in a window are left out.
    """
    delays = ("owd_s", "owd_min_s")
    columns = ("flow", "start_s", "end_s", "owd_samples", *delays)
    measured = dataset.intervals.select(columns).filter(pl.col("owd_samples") > 0)
    runs = measured.group_by("flow").agg(
        pl.min("owd_min_s").alias("least"),
        pl.any_horizontal(*(pl.col(name).is_null() for name in delays)).any().alias("unknown"),
    )
    samples = pl.col("owd_samples")
    mean = (pl.col("owd_s") * samples).sum() / samples.sum()
    means = (
        split(measured, windows)
        .filter(pl.col("weight") > 0)
        .group_by("window", "flow", "start_s", "end_s")
        .agg(mean.alias("owd_s"))
        .group_by("window", "flow")
        .agg(pl.median("owd_s"))
        .join(runs.filter(~pl.col("unknown")), on="flow")
    )
    delays_in: list[dict[str, float]] = [{} for _ in windows]
    above = means.select("window", "flow", pl.col("owd_s") - pl.col("least"))
    for number, flow, delay in above.iter_rows():
        delays_in[number][flow] = delay
    return delays_in


def _measured(
    dataset: Dataset, flow: str, name: str, window: Window | None = None
) -> Distribution | None:
    """Return the samples of a flow in a window of one of the histograms of `_HISTOGRAMS`."""
    part = clip(dataset, window) or (0.0, 0.0)
    bins = histogram(dataset, flow, name, window)
    if bins is None:
        return None
    taken = of_flow(dataset, "intervals", flow).filter(pl.col(f"{name}_samples") > 0)
    return _of_bins(bins, cut(taken, part), name)


def histogram(
    dataset: Dataset, flow: str, name: str, window: Window | None = None
) -> pl.DataFrame | None:
    """Return the histogram of a flow's samples in a window.

    Args:
        dataset: The run.
        flow: The flow.
        name: `rtt`, `srtt` or `owd`.
        window: Seconds of the run; the whole run by default.

    Returns:
        Columns `low_s`, `high_s` and `samples`; None if the run has none of the flow.
    """
    table = _HISTOGRAMS[name]
    if window is None:
        return _bins(dataset, table).get((flow_named(dataset, flow),))
    return _binned(cut(of_flow(dataset, table, flow), clip(dataset, window) or (0.0, 0.0)))


_HISTOGRAMS: Final = {"rtt": "rtts", "srtt": "srtts", "owd": "delays"}
"""The table of the histogram of each column of `intervals`."""


@cached
def _bins(dataset: Dataset, table: str) -> dict[tuple[object, ...], pl.DataFrame]:
    """Return a histogram of each flow over the run."""
    rows = cut(getattr(dataset, table), clip(dataset, None) or (0.0, 0.0))
    return _binned(rows).partition_by("flow", as_dict=True)


def _binned(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the samples of each flow in each bin."""
    bins = rows.group_by("flow", "low_s", "high_s").agg(weighed("samples").alias("samples"))
    return bins.filter(pl.col("samples") > 0)


def _of_bins(bins: pl.DataFrame, taken: pl.DataFrame, name: str) -> Distribution | None:
    """Return the statistics of a histogram's bins and of the rows with its samples."""
    if bins.is_empty() or taken.is_empty():
        return None
    bins = bins.sort("low_s")
    low, high, counts = (bins[column].to_list() for column in ("low_s", "high_s", "samples"))
    samples = sum(counts)
    number = pl.col(f"{name}_samples")
    if any(taken[f"{name}{which}"].has_nulls() for which in ("_s", "_min_s", "_max_s")):
        return None
    least, mean, greatest = taken.select(
        pl.min(f"{name}_min_s"),
        (pl.col(f"{name}_s") * number).sum() / number.sum(),
        pl.max(f"{name}_max_s"),
    ).row(0)
    before = [0, *accumulate(counts)]

    def quantile(share: float) -> float:
        rank = share * samples
        index = next(i for i in range(len(counts)) if rank <= before[i + 1])
        part = (rank - before[index]) / counts[index]
        value = low[index] + part * (high[index] - low[index])
        return float(min(max(value, least), greatest))

    centres = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
    middle = sum(c * n for c, n in zip(centres, counts, strict=True)) / samples
    squares = sum(n * (c - middle) ** 2 for c, n in zip(centres, counts, strict=True))
    return Distribution(
        samples=round(samples),
        min=least,
        mean=mean,
        p5=quantile(0.05),
        p25=quantile(0.25),
        median=quantile(0.5),
        p75=quantile(0.75),
        p95=quantile(0.95),
        p99=quantile(0.99),
        max=greatest,
        iqr=quantile(0.75) - quantile(0.25),
        stdev=None if samples < 2 else (squares / (samples - 1)) ** 0.5,
    )


def sent(dataset: Dataset, ping: str, window: Window | None = None) -> pl.DataFrame:
    """Return the rows of `pings` whose request was sent in a window, its start included."""
    part = clip(dataset, window) or (0.0, 0.0)
    within = (pl.col("sent_s") >= part[0]) & (pl.col("sent_s") < part[1])
    return of_ping(dataset, ping).filter(within)


def completion(dataset: Dataset, flow: str) -> float | None:
    """Return the seconds from a flow's start until the volume of every stream had arrived.

    None if it has no volume, or if not all of it arrived.
    """
    done = of_flow(dataset, "intervals", flow)["completion_s"].drop_nulls()
    if len(done) < dataset.scenario.flows[flow].all_streams:
        return None
    return float(done.max())  # type: ignore[arg-type]


def loss(dataset: Dataset, name: str, window: Window | None = None) -> float | None:
    """Return the share, 0 to 1, of a flow's data packets or of a ping's requests that were lost.

    For a flow: lost / (lost + received). A ping is lost if no reply came back; requests in flight
    at the end do not count.

    Returns:
        None if nothing was sent, or nobody could count.
    """
    if is_flow(dataset, name):
        lost, received = (count(dataset, name, column, window) for column in ("lost", "packets"))
        if lost is None or received is None:
            return None
        return lost / (lost + received) if lost + received > 0 else None
    requests = sent(dataset, name, window)
    decided = len(requests) - under_way(dataset, name, window)
    unanswered = requests["rtt_s"].null_count() - (len(requests) - decided)
    return unanswered / decided if decided else None


def under_way(dataset: Dataset, ping: str, window: Window | None = None) -> int:
    """Return the number of a ping's requests that are still in flight when the results end.

    They have no answer, and were sent less than the ping's longest round-trip time before the end.
    If it has none, that is the longest of pings between the same nodes, or the propagation delay.
    """
    requests = sent(dataset, ping, window)
    late = pl.col("sent_s") > dataset.covered_s - _longest(dataset, ping)
    return requests.filter(late, pl.col("rtt_s").is_null(), pl.col("answer").is_null()).height


def _longest(dataset: Dataset, ping: str) -> float:
    """Return the longest round-trip time in seconds that is known of a ping's path, or zero."""
    pings = dataset.scenario.pings
    own = pings[ping]
    ends = (own.source, own.destination)
    alike = [name for name, each in pings.items() if (each.source, each.destination) == ends]
    for names in ([ping], alike):
        known = [sent(dataset, name)["rtt_s"].max() for name in names]
        if found := [longest for longest in known if isinstance(longest, float)]:
            return max(found)
    path = None if dataset.manifest.live else empty_path(dataset.scenario, own)
    return path.round_trip / SECOND if path else 0.0


def sack_share(dataset: Dataset, flow: str, window: Window | None = None) -> float | None:
    """Return the share, 0 to 1, of a TCP flow's acknowledgements that are selective (RFC 2018).

    A receiver sends them while data is missing below the data that has arrived: lost, or late.

    Returns:
        None without acknowledgements, or if the engine cannot tell.
    """
    if of_flow(dataset, "intervals", flow)["sacks"].has_nulls():
        return None
    acks, sacks = (count(dataset, flow, column, window) for column in ("acks", "sacks"))
    return sacks / acks if acks and sacks is not None else None


def count(dataset: Dataset, flow: str, column: str, window: Window | None = None) -> float | None:
    """Return the sum of a counting column of `intervals` over a flow's streams in a window.

    It is a whole number, unless the window's edge cuts a row. It is None if nobody could count,
    such as an agent that did not report.
    """
    if window is None:
        found = tally(dataset, flow)[column]
    else:
        rows = cut(of_flow(dataset, "intervals", flow), clip(dataset, window) or (0.0, 0.0))
        found = rows.select(weighed(column)).item()
    return None if found is None else float(found)
