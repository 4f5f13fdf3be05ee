"""Counters of classes and loads of links."""

from collections.abc import Iterable
from typing import Final, NoReturn

import polars as pl

from perhop.analysis.cache import cached
from perhop.analysis.windows import Window, clip, cut, if_known, sum_all, weighed_all
from perhop.dataset import TABLES, Dataset
from perhop.errors import UsageError
from perhop.hints import did_you_mean, listed
from perhop.units import quote

DROPS: Final = {
    "full queue": "dropped_limit",
    "policer": "dropped_policer",
    "early drop": "dropped_early",
}
"""The causes of drops that classes count, and their counters."""

_CLASS_COUNTERS = [
    name
    for name, dtype in TABLES["queues"].items()
    if dtype == pl.Int64 and not name.startswith("backlog")  # what waits does not add up over time
]
_BACKLOGS = ["backlog_packets", "backlog_bytes"]


def class_counters(dataset: Dataset) -> pl.DataFrame:
    """Return the counters of each class of each directed link over the run.

    Returns:
        Columns `link`, `class` and the counters of `queues` summed over time, in the table's order;
        null if unknown for a part of the time.
    """
    return dataset.queues.group_by("link", "class", maintain_order=True).agg(
        *map(sum_all, _CLASS_COUNTERS)
    )


def counter_readings(dataset: Dataset) -> pl.DataFrame:
    """Return the counters of classes at each time when they were cleared, and at the end.

    Returns:
        As `class_counters`, with columns `start_s` and `end_s` after the link: the stretch from
        the beginning, or the last time that its counters were cleared, to this one.
    """
    counted = dataset.queues.group_by(
        "link", _clears_before(dataset).alias("number"), "class", maintain_order=True
    )
    stretch = (pl.min("start_s"), pl.max("end_s"))
    readings = counted.agg(*stretch, *map(sum_all, _CLASS_COUNTERS))
    edges = (part.over("link", "number") for part in stretch)
    return readings.select("link", *edges, "class", *_CLASS_COUNTERS)


def _clears_before(dataset: Dataset) -> pl.Series:
    """Return how often the counters had been cleared before each row of `queues` began."""
    clears = [change for change in dataset.scenario.changes if change.clear is not None]
    queues = dataset.queues.select("link", "start_s")
    everywhere = pl.Series(sorted(c.at / 1e12 for c in clears if c.on is None), dtype=pl.Float64)
    before = everywhere.search_sorted(queues["start_s"], "right").cast(pl.Int64)
    here = pl.DataFrame(
        sorted((c.at / 1e12, c.on) for c in clears if c.on is not None),
        schema={"start_s": pl.Float64, "link": pl.String},
        orient="row",
    )
    if here.is_empty():
        return before
    own = here.with_columns(own=pl.int_range(1, pl.len() + 1).over("link"))
    rows = queues.with_row_index().sort("start_s", maintain_order=True)
    joined = rows.join_asof(own, on="start_s", by="link", check_sortedness=False).sort("index")
    return before + joined["own"].fill_null(0)


def link_loads(dataset: Dataset, window: Window | None = None) -> pl.DataFrame:
    """Return the load of each directed link in a window.

    Returns:
        Columns `link`, `sent_packets`, `sent_bytes` with layer-2 overhead, `lost_packets`, and the
        share of the time that it was busy: `utilisation` on average, `utilisation_max` over the
        busiest stretch between two marks. A shaped sender is busy at the rate of its shaper.
        Values are null if they are unknown for a part of the window.
    """
    length = (pl.col("end_s") - pl.col("start_s")) * pl.col("weight")
    busy = pl.col("utilisation")
    counters = (
        "sent_packets",
        "sent_bytes",
        "lost_packets",
        "duplicated_packets",
        "reordered_packets",
    )
    return (
        cut(_with_shapers(dataset), clip(dataset, window) or (0.0, 0.0))
        .group_by("link", maintain_order=True)
        .agg(
            *(weighed_all(name).round().cast(pl.Int64).alias(name) for name in counters),
            if_known("utilisation", (busy * length).sum() / length.sum()).alias("utilisation"),
            if_known("utilisation", busy.max()).alias("utilisation_max"),
        )
    )


def _with_shapers(dataset: Dataset) -> pl.DataFrame:
    """Return the table `links` with the utilisation of shaped senders relative to their shapers."""
    directions = dataset.scenario.directions.items()
    shaped = {name: link.capacity(node) for name, (link, node) in directions if node in link.shape}
    if not shaped:
        return dataset.links
    stretch = ("link", "start_s", "end_s")
    outer = ~pl.col("class").str.contains("/", literal=True)
    sent = dataset.queues.filter(pl.col("link").is_in(list(shaped)), outer).group_by(stretch)
    rate = pl.col("link").replace_strict(shaped, default=None, return_dtype=pl.Float64)
    used = 8 * pl.col("sent_bytes") / rate / (pl.col("end_s") - pl.col("start_s"))
    shares = sent.agg(sum_all("sent_bytes")).select(*stretch, used.alias("shaper"))
    joined = dataset.links.join(shares, on=stretch, how="left", maintain_order="left")
    # A burst may leave faster, and a link that is slower now than its shaper is the narrower one.
    # `max_horizontal` skips nulls: a share that is unknown, and links without a shaper.
    shaper = pl.col("shaper").clip(upper_bound=1.0)
    busier = (
        pl.when(pl.col("link").is_in(list(shaped)).not_())
        .then("utilisation")
        .when(shaper.is_not_null() & pl.col("utilisation").is_not_null())
        .then(pl.max_horizontal("utilisation", shaper))
    )
    return joined.with_columns(utilisation=busier).drop("shaper")


@cached
def class_counts(
    dataset: Dataset, link: str, class_: str | None = None, window: Window | None = None
) -> dict[str, float | None]:
    """Return the counters of a class of a directed link, or of all of its classes, in a window.

    Args:
        dataset: The run.
        link: The directed link: ``r1>r2``.
        class_: The class: ``bulk/web`` is inside of ``bulk``; all classes by default.
        window: Seconds of the run; the whole run by default.

    Returns:
        The counters of the table `queues`, None if one of these classes or a part of the window is
        unknown; whole numbers unless the window's edge cuts a row. `backlog_bytes` and
        `backlog_packets` are the sums over classes at the end of each row: their mean, and
        `backlog_bytes_max` and `backlog_packets_max` their maximum.

    Raises:
        UsageError: Unknown link or class.
    """
    rows = of_direction(dataset, link)
    # Packets of a class inside a class count in both.
    chosen = (
        pl.col("class") == class_ if class_ else ~pl.col("class").str.contains("/", literal=True)
    )
    if class_ is not None and class_ not in set(rows["class"]):
        unknown(
            "class", class_, f"of {link} in this run", rows["class"].unique(maintain_order=True)
        )
    part = clip(dataset, window) or (0.0, 0.0)
    counted = cut(rows.filter(chosen), part)
    sums = counted.select(weighed_all(name).alias(name) for name in _CLASS_COUNTERS)
    ends = counted.filter(pl.col("end_s") <= part[1]).group_by("end_s")
    waiting = ends.agg(map(sum_all, _BACKLOGS)).select(
        *(if_known(name, pl.mean(name)).alias(name) for name in _BACKLOGS),
        *(if_known(name, pl.max(name)).alias(f"{name}_max") for name in _BACKLOGS),
    )
    return {**sums.row(0, named=True), **waiting.row(0, named=True)}


def utilisation(dataset: Dataset, link: str, window: Window | None = None) -> float | None:
    """Return the share of a window, 0 to 1, in which a directed link is busy; None if unknown.

    A shaped sender is busy at the rate of its shaper.

    Raises:
        UsageError: Unknown link.
    """
    of_direction(dataset, link)
    loads = link_loads(dataset, window).filter(pl.col("link") == link)
    busy = None if loads.is_empty() else loads["utilisation"][0]
    return None if busy is None else float(busy)


def of_direction(dataset: Dataset, link: str) -> pl.DataFrame:
    """Return the rows of `queues` for a directed link."""
    if link not in dataset.scenario.queueing:
        unknown("directed link", link, "of this run", dataset.scenario.queueing)
    return dataset.queues.filter(pl.col("link") == link)


def unknown(kind: str, name: str, where: str, known: Iterable[str]) -> NoReturn:
    """Raise a UsageError about a name, with the known ones."""
    names = list(known)
    hint = did_you_mean(name, names) or listed(names).removeprefix("; ")
    message = f"{quote(name)} is not a {kind} {where}"
    raise UsageError(f"{message}; {hint}" if hint else message)
