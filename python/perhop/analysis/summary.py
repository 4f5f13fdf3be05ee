"""A run as one object of JSON types."""

from copy import deepcopy
from dataclasses import asdict
from typing import Any

from perhop.analysis.arrivals import jitter, order, reorder_density
from perhop.analysis.cache import cached
from perhop.analysis.calls import calls, of_calls
from perhop.analysis.channels import (
    TUNNEL_METRICS,
    channel_directions,
    station_loads,
    tunnel_counters,
    tunnel_metric,
)
from perhop.analysis.codepoints import codepoints, ecn_fields
from perhop.analysis.completions import (
    completions,
    page_loads,
    size_bins,
    slowdowns,
    unfinished,
    video,
)
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
from perhop.analysis.judgement import against_published, expected, verdicts
from perhop.analysis.links import class_counters, link_loads
from perhop.analysis.losses import losses
from perhop.analysis.responsiveness import bufferbloat, responsiveness
from perhop.analysis.throughput import TOTAL, active, phases, throughput
from perhop.dataset import Dataset


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
        **_shared(dataset),
        "pings": {ping: _ping(dataset, ping) for ping in dataset.scenario.pings},
        **_responsiveness(dataset),
        "expect": [asdict(verdict) for verdict in verdicts(dataset)],
        "published": [asdict(comparison) for comparison in against_published(dataset)],
        **({} if manifest.live is None else {"agents": manifest.live.model_dump()["agents"]}),
        **manifest.counters,
    }


def _responsiveness(dataset: Dataset) -> dict[str, Any]:
    """Return responsiveness and bufferbloat, of those that the scenario expects."""
    answers, bloats = [], []
    for item, (start, end) in expected(dataset, "rpm"):
        probes, *load = item.targets
        answer = responsiveness(dataset, probes, load, (start, end))
        measured = answer and {"rpm": answer.rpm, "rating": answer.rating, **asdict(answer)}
        of = {"probes": probes, "load": load, "start_s": start, "end_s": end}
        answers.append({**of, **(measured or {})})
    for item, (start, end) in expected(dataset, "bufferbloat"):
        bloat = bufferbloat(dataset, item.target, (start, end))
        values = bloat and {"idle_s": bloat.idle, "loaded_s": bloat.loaded}
        graded = bloat and {"increase_s": bloat.increase, "grade": bloat.grade}
        of = {"ping": item.target, "start_s": start, "end_s": end}
        bloats.append({**of, **(values or {}), **(graded or {})})
    found = {"responsiveness": answers, "bufferbloat": bloats}
    return {name: rows for name, rows in found.items() if rows}


def flow_summaries(dataset: Dataset) -> dict[str, dict[str, Any]]:
    """Return the results of each flow over the time that it was active, as in `summary`."""
    return {flow: deepcopy(_flow(dataset, flow)) for flow in dataset.scenario.flows}


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
        **({} if dataset.scenario.flows[flow].voice is None else {"calls": _calls(dataset, flow)}),
        **_application(dataset, flow),
        "codepoints": codepoints(dataset, flow).drop("name").to_dicts(),
        "ecn": ecn_fields(dataset, flow).drop("name").to_dicts(),
    }


def _calls(dataset: Dataset, flow: str) -> dict[str, Any]:
    """Return mean, median and worst of each value of a flow's calls, and each call."""
    found = calls(dataset, flow)
    names = ("mos", "r_factor", "mouth_to_ear_s", "lost", "late", "burst_ratio")
    values = {name: of_calls(found, name) for name in names}
    return {
        **{name: None if value is None else asdict(value) for name, value in values.items()},
        "each": [asdict(call) for call in found],
    }


def _application(dataset: Dataset, flow: str) -> dict[str, Any]:
    """Return what the clients of a flow's application have completed; nothing without one."""
    wanted = dataset.scenario.flows[flow]
    if wanted.video is not None:
        found = video(dataset, flow)
        return {
            "startup_s": found.startup,
            "stalls": found.stalls,
            "stall_time_s": found.stall_time,
            "bitrate_bps": found.bitrate,
            "switches": found.switches,
            "segments": found.segments,
        }
    if wanted.web is not None:
        return {
            "page_loads_s": _distribution(page_loads(dataset, flow)),
            "unfinished": unfinished(dataset, flow),
        }
    if wanted.exchanges is None:
        return {}
    return {
        "completions_s": _distribution(completions(dataset, flow)),
        "slowdowns": _distribution(slowdowns(dataset, flow)),
        "unfinished": unfinished(dataset, flow),
        "sizes": [
            {
                "above": part.above,
                "up_to": part.up_to,
                "completions_s": _distribution(part.completions),
                "slowdowns": _distribution(part.slowdowns),
            }
            for part in size_bins(dataset, flow)
        ],
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
        link = row.pop("link")
        links[link] = {**row, "classes": {}}
    for row in class_counters(dataset).iter_rows(named=True):
        classes = links.setdefault(row.pop("link"), {"classes": {}})["classes"]
        classes[row.pop("class")] = row
    return links


def _shared(dataset: Dataset) -> dict[str, Any]:
    """Return the use of radio channels and the counters of tunnels, of those that there are."""
    channels: dict[str, Any] = {
        name: {"utilisation": channel_directions(dataset, name), "links": {}}
        for name in dataset.scenario.channels
    }
    for row in station_loads(dataset).iter_rows(named=True):
        channels[row.pop("channel")]["links"][row.pop("link")] = row
    tunnels: dict[str, Any] = {name: {} for name in dataset.scenario.tunnels}
    for row in tunnel_counters(dataset).iter_rows(named=True):
        tunnel, entry = row.pop("tunnel"), row.pop("entry")
        values = {name: tunnel_metric(dataset, name, tunnel, entry) for name in TUNNEL_METRICS}
        tunnels[tunnel][entry] = {**row, **values}
    found = {"channels": channels, "tunnels": tunnels}
    return {name: rows for name, rows in found.items() if rows}


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
