"""What every dataset of an engine conserves: bits of links, and packets of classes."""

from collections.abc import Iterator
from itertools import pairwise

import polars as pl

from perhop.dataset import Dataset
from perhop.scenario.resolve import states

_ROUNDING = 1e-6
_KEYS = ("link", "start_s", "end_s")


def broken(dataset: Dataset) -> list[str]:
    """Return what a dataset does not conserve, in words; empty if it conserves everything.

    * A link is busy for the bits that it sent, at its rate at the time.
    * The outermost classes of a link send what the link sends.
    * Nested classes send, drop and mark what the class around them does.
    * Packets that came to a class were sent, were dropped, or wait in it.
    * A policer counts every packet that comes to it, once.
    """
    return [*_busy(dataset), *_classes_of_links(dataset), *_nested(dataset), *_policed(dataset)]


def _busy(dataset: Dataset) -> Iterator[str]:
    scenario = dataset.scenario
    end = dataset.covered_s
    edges: dict[str, list[tuple[float, int]]] = {name: [] for name in scenario.directions}
    for at, network in states(scenario):
        for name, (link, node) in scenario.directions.items():
            now = network.links[network.number(name)].medium(node).rate
            if not link.trace and link.channel is None:
                edges[name].append((at / 1e12, now))
    for row in dataset.links.iter_rows(named=True):
        steps = edges[row["link"]]
        if not steps or row["utilisation"] is None:
            continue
        possible = sum(
            max(min(row["end_s"], until) - max(row["start_s"], since), 0.0) * rate
            for (since, rate), (until, _) in pairwise([*steps, (max(end, row["end_s"]), 0)])
        )
        share = row["sent_bytes"] * 8 / possible
        expected = min(share, 1.0) if dataset.manifest.engine == "kernel" else share
        if abs(row["utilisation"] - expected) > _ROUNDING * max(expected, 1.0):
            yield f"{_at(row)} is busy {row['utilisation']}, and sent {expected} of what it can"


def _classes_of_links(dataset: Dataset) -> Iterator[str]:
    outer = dataset.queues.filter(~pl.col("class").str.contains("/", literal=True))
    sums = outer.group_by(_KEYS).agg(pl.sum("sent_packets").alias("of_classes"))
    both = dataset.links.join(sums, on=_KEYS, how="inner")
    total: dict[str, int] = {}
    for row in both.sort("start_s").iter_rows(named=True):
        apart = total[row["link"]] = (
            total.get(row["link"], 0) + row["of_classes"] - row["sent_packets"]
        )
        # A packet may have left its class, and not yet begun on the link.
        if not 0 <= apart <= 1:
            yield f"{_at(row)}: classes sent {apart:+} packets more than the link"


def _nested(dataset: Dataset) -> Iterator[str]:
    summed = ("sent_packets", "sent_bytes", "backlog_packets", "backlog_bytes")
    rows = dataset.queues.with_columns(
        outer=pl.col("class").str.extract("^(.*)/[^/]*$", 1).fill_null("")
    )
    inner = rows.filter(pl.col("outer") != "").group_by(*_KEYS, "outer").agg(pl.sum(*summed))
    both = rows.join(inner, left_on=(*_KEYS, "class"), right_on=(*_KEYS, "outer"), suffix="_in")
    for row in both.iter_rows(named=True):
        for name in summed:
            if row[name] != row[f"{name}_in"]:
                yield f"{_at(row)}, {row['class']}: {name} {row[name]}, inside {row[f'{name}_in']}"


def _policed(dataset: Dataset) -> Iterator[str]:
    waiting: dict[tuple[str, str], int] = {}
    for row in dataset.queues.sort("start_s").iter_rows(named=True):
        key = row["link"], row["class"]
        before, waiting[key] = waiting.get(key, 0), row["backlog_packets"]
        judged = row["conformed_packets"] + row["exceeded_packets"] + row["violated_packets"]
        came = row["sent_packets"] + row["dropped_packets"] + row["backlog_packets"] - before
        if judged and judged != came:
            yield f"{_at(row)}, {row['class']}: {came} packets came, a policer counted {judged}"


def _at(row: dict[str, object]) -> str:
    return f"{row['link']}, {row['start_s']} to {row['end_s']} s"
