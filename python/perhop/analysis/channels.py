"""Use of radio channels by the stations on them, and counters of tunnels."""

from collections.abc import Callable, Mapping
from typing import Final

import polars as pl

from perhop.analysis.cache import cached
from perhop.analysis.links import of_direction, unknown
from perhop.analysis.windows import Window, clip, cut, weighed_all
from perhop.dataset import TABLES, Dataset

_STATIONS: Final = ("channel", "link")
_TUNNELS: Final = ("tunnel", "entry")


@cached
def station_loads(dataset: Dataset, window: Window | None = None) -> pl.DataFrame:
    """Return what each directed link on a radio channel sent there in a window.

    Returns:
        Columns `channel`, `link` and those of `stations` summed over time: `transmissions` to
        `resource_blocks`, null if the kind of channel has none; and the mean `utilisation`.
    """
    used = (pl.col("utilisation") * _length()).sum() / _length().sum()
    return _summed(dataset, "stations", _STATIONS, window, used.alias("utilisation"))


@cached
def tunnel_counters(dataset: Dataset, window: Window | None = None) -> pl.DataFrame:
    """Return the counters of each direction of each tunnel in a window.

    Returns:
        Columns `tunnel`, `entry` and the counters of `tunnels` summed over time, null if unknown.
    """
    return _summed(dataset, "tunnels", _TUNNELS, window)


_Counts = Mapping[str, int | None]


def tunnel_metric(
    dataset: Dataset,
    metric: str,
    tunnel: str,
    entry: str | None = None,
    window: Window | None = None,
) -> float | None:
    """Return a metric of a tunnel in a window.

    Args:
        dataset: The run.
        metric: ``tunnel_rate`` in bit/s, ``tunnel_overhead`` and ``tunnel_loss`` from 0 to 1, or
            ``tunnel_drops``.
        tunnel: The tunnel.
        entry: The end at which packets enter; both directions together by default.
        window: Seconds of the run; the whole run by default.

    Returns:
        The value; None if the engine does not count it, or nothing entered.

    Raises:
        UsageError: Unknown tunnel, or no end of it.
    """
    if tunnel not in dataset.scenario.tunnels:
        unknown("tunnel", tunnel, "of this run", dataset.scenario.tunnels)
    ends = dataset.scenario.tunnels[tunnel].ends
    if entry is not None and entry not in ends:
        unknown("tunnel end", entry, f"of {tunnel}", ends)
    chosen = tunnel_counters(dataset, window).filter(
        pl.col("tunnel") == tunnel, pl.col("entry").is_in(ends if entry is None else [entry])
    )
    part = clip(dataset, window)
    if chosen.is_empty() or part is None:
        return None
    # The sum of both directions is unknown if one of them is.
    counts = {name: _total(chosen[name]) for name in TABLES["tunnels"] if name in chosen.columns}
    found = TUNNEL_METRICS[metric](counts)
    return found / (part[1] - part[0]) if metric == "tunnel_rate" and found is not None else found


def _total(column: pl.Series) -> int | None:
    return None if column.dtype != pl.Int64 or column.null_count() else int(column.sum())


def _bits(counts: _Counts) -> float | None:
    found = counts["decapsulated_bytes"]
    return None if found is None else 8.0 * found


def _overhead(counts: _Counts) -> float | None:
    inner, outer = counts["encapsulated_bytes"], counts["outer_bytes"]
    return 1 - inner / outer if outer and inner is not None else None


def _loss(counts: _Counts) -> float | None:
    entered, left = counts["encapsulated_packets"], counts["decapsulated_packets"]
    # Packets that entered before the window, and copies by a link, may leave in it.
    return max(0.0, 1 - left / entered) if entered and left is not None else None


def _drops(counts: _Counts) -> float | None:
    found = [count for name, count in counts.items() if name.startswith("dropped")]
    known = [count for count in found if count is not None]
    return float(sum(known)) if len(known) == len(found) else None


TUNNEL_METRICS: Final[Mapping[str, Callable[[_Counts], float | None]]] = {
    "tunnel_rate": _bits,
    "tunnel_overhead": _overhead,
    "tunnel_loss": _loss,
    "tunnel_drops": _drops,
}
"""Metrics of the counters of a tunnel; of the rate, the bits."""


def _length() -> pl.Expr:
    return (pl.col("end_s") - pl.col("start_s")) * pl.col("weight")


def _summed(
    dataset: Dataset, name: str, keys: tuple[str, str], window: Window | None, *more: pl.Expr
) -> pl.DataFrame:
    """Return the sums of the counters of a table in a window, by its keys, and more columns."""
    stretch = ("start_s", "end_s", "utilisation")
    counters = [column for column in TABLES[name] if column not in (*keys, *stretch)]
    rows = cut(getattr(dataset, name), clip(dataset, window) or (0.0, 0.0))
    sums = (_sum(column, TABLES[name][column]).alias(column) for column in counters)
    return rows.group_by(*keys, maintain_order=True).agg(*sums, *more)


def _sum(column: str, dtype: pl.DataType) -> pl.Expr:
    found = weighed_all(column)
    return found.round().cast(pl.Int64) if dtype == pl.Int64 else found


def channel_utilisation(
    dataset: Dataset, channel: str, window: Window | None = None
) -> float | None:
    """Return the share of a window, 0 to 1, in which a radio channel is busy.

    It is the share of time with a transmission or its acknowledgement on Wi-Fi, and the share of
    the resource blocks in the busier direction in a cell.

    Raises:
        KeyError: Unknown channel.
    """
    found = channel_directions(dataset, channel, window)
    return max(found.values(), default=None)


def channel_directions(
    dataset: Dataset, channel: str, window: Window | None = None
) -> dict[str, float]:
    """Return the utilisation of a radio channel: ``all``, or ``downlink`` and ``uplink`` of a cell.

    It is empty if nothing was counted in the window.

    Raises:
        KeyError: Unknown channel.
    """
    scenario = dataset.scenario
    cell = scenario.channels[channel].lte
    loads = station_loads(dataset, window).filter(channel=channel)
    found: dict[str, float] = {}
    for link, used in loads.select("link", "utilisation").iter_rows():
        down = cell is not None and scenario.directions[link][1] == cell.base_station
        part = "all" if cell is None else "downlink" if down else "uplink"
        found[part] = found.get(part, 0.0) + used
    return found


def airtime(dataset: Dataset, link: str, window: Window | None = None) -> float | None:
    """Return the share of its radio channel, 0 to 1, that a directed link uses in a window.

    It is a share of time on Wi-Fi, and of the resource blocks of its direction in a cell. None if
    the link is on no channel.

    Raises:
        UsageError: Unknown link.
    """
    return _of(dataset, link, window, pl.col("utilisation"))


def retries(dataset: Dataset, link: str, window: Window | None = None) -> float | None:
    """Return the share of retransmissions in the frames that a directed link sends in a window.

    Frames are transport blocks in a cell. None if the link is on no channel, or sent nothing.

    Raises:
        UsageError: Unknown link.
    """
    return _of(dataset, link, window, pl.col("retransmissions") / pl.col("frames"))


def _of(dataset: Dataset, link: str, window: Window | None, value: pl.Expr) -> float | None:
    of_direction(dataset, link)
    rows = station_loads(dataset, window).filter(link=link).select(value.fill_nan(None))
    return None if rows.is_empty() else rows.item()
