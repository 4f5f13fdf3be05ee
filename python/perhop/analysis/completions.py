"""What applications have completed: transfers, calls and videos."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from perhop.analysis.cache import cached, of_flow
from perhop.analysis.distributions import Distribution, distribution
from perhop.analysis.windows import clip
from perhop.scenario.resolve import empty_path

if TYPE_CHECKING:
    from perhop.analysis.windows import Window
    from perhop.dataset import Dataset

SIZE_BINS: Final = (10_000, 100_000, 1_000_000, 10_000_000)
"""The limits between bins of sizes in bytes."""


@dataclass(frozen=True, slots=True)
class SizeBin:
    """The transfers or calls whose sizes are above `above` and at most `up_to` bytes.

    `up_to` is None without a limit.
    """

    above: int
    up_to: int | None
    completions: Distribution
    slowdowns: Distribution | None


@dataclass(frozen=True, slots=True)
class VideoResult:
    """What the viewers of a flow's videos got in a window, all of them together.

    Attributes:
        startup: Mean time from the start of a video to that of its playback; None if none began.
        stalls: Number of stalls that began.
        stall_time: Time in stalls.
        bitrate: Mean bit rate of the segments that arrived; None without any.
        switches: Number of segments with another bit rate than the one before.
        segments: Number of segments that arrived.
    """

    startup: float | None
    stalls: int
    stall_time: float
    bitrate: float | None
    switches: int
    segments: int


@cached
def exchanges(dataset: Dataset, flow: str, window: Window | None = None) -> pl.DataFrame:
    """Return the transfers or calls of a flow that ended in a window.

    The ideal is the time on the empty path as the scenario begins: one round trip of propagation
    delay for the request and the first byte, another one if the exchange opened its connection, the
    time that the server takes, and the response's bytes at the rate of the slowest link. The
    slowdown is the completion time divided by the ideal (pFabric's normalised flow completion
    time). No transport reaches 1, because packets have headers, and windows grow.

    Returns:
        The columns of the table `completions`, and `completion_s`, `ideal_s` and `slowdown`; the
        latter two are null if the path forks.
    """
    rows = _ended(dataset, flow, ("transfer", "call"), window)
    took = pl.col("end_s") - pl.col("start_s")
    wanted = dataset.scenario.flows[flow]
    path = empty_path(dataset.scenario, wanted)
    if path is None or wanted.exchanges is None:
        ideal = pl.lit(None, pl.Float64)
    else:
        trips = (1 + pl.col("opened")) * path.round_trip + wanted.exchanges.server_time
        ideal = trips / 1e12 + 8 * pl.col("bytes") / path.rate
    return rows.with_columns(took.alias("completion_s"), ideal.alias("ideal_s")).with_columns(
        (pl.col("completion_s") / pl.col("ideal_s")).alias("slowdown")
    )


def completions(dataset: Dataset, flow: str, window: Window | None = None) -> Distribution | None:
    """Return the completion times of a flow's transfers or calls that ended in a window.

    Returns:
        Seconds; None if there are none.
    """
    return distribution(exchanges(dataset, flow, window)["completion_s"])


def slowdowns(dataset: Dataset, flow: str, window: Window | None = None) -> Distribution | None:
    """Return the slowdowns of a flow's transfers or calls that ended in a window.

    Returns:
        Ratios; see `exchanges`. None if there are none, or the path forks.
    """
    return distribution(exchanges(dataset, flow, window)["slowdown"])


def page_loads(dataset: Dataset, flow: str, window: Window | None = None) -> Distribution | None:
    """Return the load times of a flow's pages that were complete in a window.

    Returns:
        Seconds; None if there are none.
    """
    rows = _ended(dataset, flow, ("page",), window)
    return distribution(rows.select(pl.col("end_s") - pl.col("start_s"))["end_s"])


def size_bins(dataset: Dataset, flow: str, window: Window | None = None) -> list[SizeBin]:
    """Return completion times and slowdowns by size, for the sizes that occur."""
    ended = exchanges(dataset, flow, window)
    found = []
    for above, up_to in zip((0, *SIZE_BINS), (*SIZE_BINS, None), strict=True):
        within = pl.col("bytes") > above
        if up_to is not None:
            within &= pl.col("bytes") <= up_to
        part = ended.filter(within)
        spread = distribution(part["completion_s"])
        if spread is not None:
            found.append(SizeBin(above, up_to, spread, distribution(part["slowdown"])))
    return found


def unfinished(dataset: Dataset, flow: str) -> int:
    """Return the number of transfers, calls or pages that had not ended when the run did."""
    rows = of_flow(dataset, "completions", flow)
    begun = pl.col("kind").is_in(["transfer", "call", "page"]) & pl.col("end_s").is_null()
    return rows.filter(begun).height


@cached
def video(dataset: Dataset, flow: str, window: Window | None = None) -> VideoResult:
    """Return what the viewers of a flow's videos got in a window.

    A stall that has not ended lasts to the end of the run. Of a stall that the window cuts, its
    part in the window counts.
    """
    part = clip(dataset, window) or (0.0, 0.0)
    begins, ends = part
    waits = of_flow(dataset, "completions", flow).with_columns(
        pl.col("end_s").fill_null(dataset.covered_s).alias("until_s")
    )
    stalls = waits.filter(pl.col("kind") == "stall")
    overlap = pl.min_horizontal("until_s", pl.lit(ends)) - pl.max_horizontal(
        "start_s", pl.lit(begins)
    )
    in_stalls = stalls.select(overlap.clip(0.0).sum()).item()
    begun = stalls.filter(pl.col("start_s").is_between(begins, ends, closed="left")).height
    segments = _ended(dataset, flow, ("segment",), window).sort("stream", "number")
    changed = pl.col("bitrate_bps").diff().over("stream").fill_null(0) != 0
    started = _ended(dataset, flow, ("startup",), window)
    startup = started.select((pl.col("end_s") - pl.col("start_s")).mean()).item()
    return VideoResult(
        startup=startup,
        stalls=begun,
        stall_time=in_stalls,
        bitrate=segments["bitrate_bps"].cast(pl.Float64).mean() if segments.height else None,  # type: ignore[arg-type]
        switches=segments.select(changed.sum()).item() if segments.height else 0,
        segments=segments.height,
    )


def _ended(
    dataset: Dataset, flow: str, kinds: tuple[str, ...], window: Window | None
) -> pl.DataFrame:
    """Return the rows of some kinds that ended in a window."""
    begins, ends = clip(dataset, window) or (0.0, 0.0)
    within = pl.col("end_s").is_between(begins, ends, closed="right")
    rows = of_flow(dataset, "completions", flow)
    return rows.filter(pl.col("kind").is_in(list(kinds)) & within)
