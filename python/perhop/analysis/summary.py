"""A run as one object of JSON types."""

from copy import deepcopy
from dataclasses import asdict
from typing import Any

import polars as pl

from perhop.analysis.arrivals import jitter, order, reorder_density
from perhop.analysis.cache import cached
from perhop.analysis.codepoints import codepoints, ecn_fields
from perhop.analysis.distributions import (
    Distribution,
    completion,
    count,
    flow_rtt,
    flow_srtt,
    loss,
    owd,
    owd_bound,
    rtt,
    sack_share,
    sent,
    under_way,
)
from perhop.analysis.hops import Hop, hops
from perhop.analysis.judgement import against_published, verdicts
from perhop.analysis.losses import losses
from perhop.analysis.throughput import TOTAL, active, phases, throughput
from perhop.analysis.windows import known_sum
from perhop.dataset import TABLES, Dataset

_CLASS_COUNTERS = [
    name
    for name, dtype in TABLES["queues"].items()
    if dtype == pl.Int64 and not name.startswith("backlog")  # what waits does not add up over time
]


def summary(dataset: Dataset) -> dict[str, Any]:
    """The run as `perhop run --json` prints it, except for the folder that it was written to.

    Rates are bits per second, times seconds, sizes bytes, shares 0 to 1. A flow's throughput is
    the mean over the time it was active, `start_s` to `end_s`. What could not be measured is null.
    """
    manifest = dataset.manifest
    return {
        "scenario": dataset.scenario.name,
        "engine": manifest.engine,
        "seed": manifest.seed,
        "duration_s": manifest.duration_s,
        "wall_s": manifest.wall_s,
        "version": manifest.perhop,
        "complete": manifest.complete,
        "warnings": [warned.model_dump() for warned in manifest.warnings],
        "flows": flow_summaries(dataset),
        "phases": _phases(dataset),
        "links": _links(dataset),
        "pings": {ping: _ping(dataset, ping) for ping in dataset.scenario.pings},
        "expect": [asdict(verdict) for verdict in verdicts(dataset)],
        "published": [asdict(comparison) for comparison in against_published(dataset)],
        **({} if manifest.live is None else {"agents": manifest.live.model_dump()["agents"]}),
        **manifest.counters,
    }


def flow_summaries(dataset: Dataset) -> dict[str, dict[str, Any]]:
    """Return the results of each flow over the time that it was active, as in `summary`."""
    return {flow: deepcopy(_flow(dataset, flow)) for flow in dataset.scenario.flows}


def class_counters(dataset: Dataset) -> pl.DataFrame:
    """Return the counters of each class of each directed link over the run.

    Returns:
        Columns `link`, `class` and the counters of `queues` summed over time, in the table's order;
        null if unknown.
    """
    return dataset.queues.group_by("link", "class", maintain_order=True).agg(
        *map(known_sum, _CLASS_COUNTERS)
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
    readings = counted.agg(*stretch, *map(known_sum, _CLASS_COUNTERS))
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


def link_loads(dataset: Dataset) -> pl.DataFrame:
    """Return the load of each directed link over the run.

    Returns:
        Columns `link`, `sent_packets`, `sent_bytes` with layer-2 overhead, `lost_packets`, and the
        share of the time that it was busy: `utilisation` on average, `utilisation_max` over the
        busiest stretch between two marks. A shaped sender is busy at the rate of its shaper.
    """
    length = pl.col("end_s") - pl.col("start_s")
    busy = pl.col("utilisation")
    return (
        _with_shapers(dataset)
        .group_by("link", maintain_order=True)
        .agg(
            pl.sum(
                "sent_packets",
                "sent_bytes",
                "lost_packets",
                "duplicated_packets",
                "delayed_packets",
            ),
            ((busy * length).sum() / length.sum()).alias("utilisation"),
            busy.max().alias("utilisation_max"),
        )
    )


def _with_shapers(dataset: Dataset) -> pl.DataFrame:
    """Return the table `links` with the utilisation of shaped senders relative to their shapers."""
    directions = dataset.scenario.directions.items()
    shaped = {name: link.capacity(node) for name, (link, node) in directions if node in link.shape}
    if not shaped:
        return dataset.links
    stretch = ("link", "start_s", "end_s")
    sent = dataset.queues.filter(pl.col("link").is_in(list(shaped))).group_by(stretch)
    rate = pl.col("link").replace_strict(shaped, default=None, return_dtype=pl.Float64)
    used = 8 * pl.col("sent_bytes") / rate / (pl.col("end_s") - pl.col("start_s"))
    shares = sent.agg(pl.sum("sent_bytes")).select(*stretch, used.alias("shaper"))
    joined = dataset.links.join(shares, on=stretch, how="left", maintain_order="left")
    # A burst may leave faster, and a link that is slower now than its shaper is the narrower one.
    busier = pl.max_horizontal("utilisation", pl.min_horizontal("shaper", pl.lit(1.0)))
    return joined.with_columns(utilisation=busier).drop("shaper")


@cached
def _flow(dataset: Dataset, flow: str) -> dict[str, Any]:
    window = active(dataset, flow)
    return {
        "start_s": window and window[0],
        "end_s": window and window[1],
        "bytes": _whole(count(dataset, flow, "bytes")),
        "throughput_bps": throughput(dataset, flow, window) if window else None,
        "completion_s": completion(dataset, flow),
        "retransmits": _whole(count(dataset, flow, "retransmits")),
        "sack_share": sack_share(dataset, flow),
        "loss": loss(dataset, flow),
        "lost_by": losses(dataset, flow).to_dicts(),
        **_order(dataset, flow),
        "marked": _whole(count(dataset, flow, "marked")),
        "rtt_s": _distribution(flow_rtt(dataset, flow)),
        "srtt_s": _distribution(flow_srtt(dataset, flow)),
        "owd_s": _distribution(owd(dataset, flow)),
        "owd_bound_s": owd_bound(dataset, flow),
        "jitter_s": jitter(dataset, flow),
        "codepoints": codepoints(dataset, flow).drop("name").to_dicts(),
        "ecn": ecn_fields(dataset, flow).drop("name").to_dicts(),
    }


def _whole(count: float | None) -> int | None:
    return None if count is None else round(count)


def _order(dataset: Dataset, flow: str) -> dict[str, Any]:
    found = order(dataset, flow)
    density = {str(by): share for by, share in reorder_density(dataset, flow).items()}
    return {
        "reordered": _whole(found.reordered),
        "reordered_share": found.share,
        "reordered_by_3": _whole(found.by_three),
        "extent_mean": found.extent_mean,
        "extent_max": found.extent_max,
        "duplicates": _whole(found.duplicates),
        "reorder_density": density or None,
    }


def _phases(dataset: Dataset) -> list[dict[str, Any]]:
    found = []
    for (start, end), rows in phases(dataset).group_by("start_s", "end_s", maintain_order=True):
        rates = dict(rows.select("flow", "throughput_bps").iter_rows())
        total = rates.pop(TOTAL)
        found.append({"start_s": start, "end_s": end, "throughput_bps": rates, "total_bps": total})
    return found


def _links(dataset: Dataset) -> dict[str, Any]:
    links: dict[str, Any] = {}
    for row in link_loads(dataset).iter_rows(named=True):
        links[row.pop("link")] = {**row, "classes": {}}
    for row in class_counters(dataset).iter_rows(named=True):
        classes = links.setdefault(row.pop("link"), {"classes": {}})["classes"]
        classes[row.pop("class")] = row
    return links


def _ping(dataset: Dataset, ping: str) -> dict[str, Any]:
    requests = sent(dataset, ping)
    if dataset.scenario.pings[ping].is_trace:
        # Of several nodes there is no one loss or round-trip time.
        return {
            "sent": len(requests),
            "received": len(requests) - requests["rtt_s"].null_count(),
            "loss": None,
            "rtt_s": None,
            "hops": [_hop(hop) for hop in hops(dataset, ping)],
        }
    return {
        "sent": len(requests),
        "received": len(requests) - requests["rtt_s"].null_count(),
        "under_way": under_way(dataset, ping),
        "loss": loss(dataset, ping),
        "rtt_s": _distribution(rtt(dataset, ping)),
        "codepoints": codepoints(dataset, ping).drop("name").to_dicts(),
        "ecn": ecn_fields(dataset, ping).drop("name").to_dicts(),
    }


def _hop(hop: Hop) -> dict[str, Any]:
    return {
        "ttl": hop.ttl,
        "nodes": list(hop.nodes),
        "answers": list(hop.answers),
        "sent": hop.sent,
        "loss": hop.loss,
        "rtt_s": _distribution(hop.rtt),
        "dscp_arrived": list(hop.dscps),
    }


def _distribution(found: Distribution | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found)
