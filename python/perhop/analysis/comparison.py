"""Comparison of runs: each flow, ping and class in every run.

Runs may be of any engine, seed and scenario. The differences between their scenarios are listed.
Values that only some runs have are None in the others.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, TypeVar

import polars as pl

from perhop.analysis.arrivals import order
from perhop.analysis.calls import quality
from perhop.analysis.codepoints import codepoints, ecn_fields
from perhop.analysis.compared import (
    CodePointPath,
    ComparedPhase,
    ComparedQuantity,
    Difference,
    EcnPath,
    RunComparison,
)
from perhop.analysis.completions import completions, page_loads, video
from perhop.analysis.distributions import (
    completion,
    count,
    flow_rtt,
    flow_srtt,
    loss,
    owd,
    queueing_in,
    rtt,
    sent,
    under_way,
)
from perhop.analysis.throughput import TOTAL, active, added, delivered_in, throughput
from perhop.analysis.windows import Window, clip, cut, seconds, weighed_all
from perhop.dataset import ROUTER, Dataset
from perhop.errors import UsageError

_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("title", "source", "description", "expect", "published"), True),
    "policies": {"__all__": {"notes"}},
}
"""Keys of a scenario that change nothing in what is measured."""

_MOST_IN_A_NAME: Final = 2
"""Greatest number of settings in the name of a run."""


def compare(datasets: Sequence[Dataset], names: Sequence[str] | None = None) -> RunComparison:
    """Compare runs with the first of them.

    Args:
        datasets: Two runs at least.
        names: Names of the runs; by default made from their differences.

    Raises:
        UsageError: There are fewer than two runs, or one has no flow, ping or link in common with
            the
            first.
    """
    if len(datasets) < 2:
        raise UsageError("one run cannot be compared; give two or more")
    found = tuple(_differences(datasets))
    called = _unique(list(names or _names(datasets, found)))
    _refuse_unrelated(datasets, called)
    end = min(dataset.covered_s for dataset in datasets)
    return RunComparison(
        names=tuple(called),
        differences=found,
        covered_s=end,
        phases=tuple(_phases(datasets, end)),
        flows={flow: _flow(datasets, flow) for flow in _all(datasets, "flows")},
        pings={ping: _ping(datasets, ping) for ping in _all(datasets, "pings")},
        classes=_classes(datasets),
        codepoints={
            name: shares
            for name in [*_all(datasets, "flows"), *_all(datasets, "pings")]
            if (shares := _arrived(datasets, name, codepoints, CodePointPath))
        },
        ecn={
            name: fields
            for name in [*_all(datasets, "flows"), *_all(datasets, "pings")]
            if (fields := _arrived(datasets, name, ecn_fields, EcnPath))
            and any(path.arrived or path.sent > 0 for path in fields)
        },
        tcp=frozenset(
            flow
            for flow in _all(datasets, "flows")
            if not any(_is_datagrams(d, flow) for d in datasets)
        ),
    )


def compared(side_by_side: RunComparison) -> dict[str, Any]:
    """Return a comparison as one object of JSON types; ratios are to the first run."""

    def written(quantities: dict[str, ComparedQuantity]) -> dict[str, Any]:
        return {
            name: {"values": list(beside.values), "ratios": list(beside.ratios)}
            for name, beside in quantities.items()
        }

    return {
        "runs": list(side_by_side.names),
        "covered_s": side_by_side.covered_s,
        "differences": [
            {"path": difference.path, "values": list(difference.values)}
            for difference in side_by_side.differences
        ],
        "phases": [
            {
                "start_s": phase.window[0],
                "end_s": phase.window[1],
                "throughput_bps": written(phase.throughput),
                "share": written(phase.share),
                "queueing_s": written(phase.queueing),
            }
            for phase in side_by_side.phases
        ],
        "flows": {name: written(found) for name, found in side_by_side.flows.items()},
        "pings": {name: written(found) for name, found in side_by_side.pings.items()},
        "classes": {
            link: {name: written(found) for name, found in parts.items()}
            for link, parts in side_by_side.classes.items()
        },
        "codepoints": {
            name: [
                {**asdict(path), "values": list(shares.values)} for path, shares in paths.items()
            ]
            for name, paths in side_by_side.codepoints.items()
        },
        "ecn": {
            name: [
                {
                    "node": path.node,
                    "sent": None if path.sent < 0 else path.sent,
                    "arrived": path.arrived,
                    "values": list(shares.values),
                }
                for path, shares in paths.items()
            ]
            for name, paths in side_by_side.ecn.items()
        },
    }


def _differences(datasets: Sequence[Dataset]) -> Iterator[Difference]:
    runs: list[dict[str, Any]] = []
    for dataset in datasets:
        manifest = dataset.manifest
        if manifest.engine == ROUTER:
            runs.append({"engine": manifest.engine})
            continue
        settings = {"engine": manifest.engine, "seed": manifest.seed}
        if not manifest.complete:
            settings["cut off at"] = f"{dataset.covered_s:g} s"
        # With defaults: what one of them leaves to its default, another one may set.
        scenario = dataset.scenario.model_dump(mode="json", exclude=_WORDS)
        runs.append(settings | dict(_leaves(scenario)))
    for path in dict.fromkeys(path for run in runs for path in run):
        values = tuple(run.get(path) for run in runs)
        # The settings of a real router are unknown.
        known = [
            value
            for value, dataset in zip(values, datasets, strict=True)
            if path == "engine" or dataset.manifest.engine != ROUTER
        ]
        if any(value != known[0] for value in known):
            yield Difference(path, values)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Return the scalars of a mapping with their dotted paths."""
    if isinstance(value, (dict, list)) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _names(datasets: Sequence[Dataset], differences: Sequence[Difference]) -> list[str]:
    """Return a distinct name of each run: its engine, its seed, or a few settings."""
    settings = [d for d in differences if d.path not in {"engine", "seed", "cut off at", "name"}]
    engines = any(difference.path == "engine" for difference in differences)
    seeds = any(difference.path == "seed" for difference in differences)
    names = []
    for number, dataset in enumerate(datasets):
        words = [dataset.manifest.engine] if engines else []
        if seeds:
            words.append(f"seed {dataset.manifest.seed}")
        if 0 < len(settings) <= _MOST_IN_A_NAME:
            words += [f"{each.path.rpartition('.')[2]} {each.values[number]}" for each in settings]
        elif settings and dataset.scenario.name != datasets[0].scenario.name:
            words.append(dataset.scenario.name)
        names.append(", ".join(words) or f"run {number + 1}")
    return names


def _unique(names: list[str]) -> list[str]:
    """Return the names, with a number if one occurs again."""
    taken: set[str] = set()
    for place, name in enumerate(names):
        number = 1
        while names[place] in taken:
            number += 1
            names[place] = f"{name} ({number})"
        taken.add(names[place])
    return names


def _refuse_unrelated(datasets: Sequence[Dataset], names: Sequence[str]) -> None:
    """Raise UsageError if a run has nothing in common with the first."""
    first = datasets[0].scenario
    for dataset, name in zip(datasets[1:], names[1:], strict=True):
        other = dataset.scenario
        pairs = (
            (first.flows, other.flows),
            (first.pings, other.pings),
            (first.queueing, other.queueing),
        )
        if not any(set(one) & set(two) for one, two in pairs):
            raise UsageError(
                f"{name} ({other.name}) has no flow, ping or link in common with {names[0]} "
                f"({first.name}); runs can be compared where they have the same names"
            )


def _all(datasets: Sequence[Dataset], kind: str) -> list[str]:
    """Return the names of all flows or pings, those of the first run first."""
    names = (name for dataset in datasets for name in getattr(dataset.scenario, kind))
    return list(dict.fromkeys(names))


def _phases(datasets: Sequence[Dataset], end: float) -> Iterator[ComparedPhase]:
    flows = [*_all(datasets, "flows"), TOTAL]
    edges = map(seconds, datasets[0].scenario.phases_ps)
    windows = [(start, min(stop, end)) for start, stop in edges if start < end]
    runs = [delivered_in(dataset, windows) for dataset in datasets]
    delays = [queueing_in(dataset, windows) for dataset in datasets]
    for number, window in enumerate(windows):
        length = window[1] - window[0]
        rates: dict[str, list[float | None]] = {flow: [] for flow in flows}
        for dataset, delivered in zip(datasets, (run[number] for run in runs), strict=True):
            counts = {**dict.fromkeys(dataset.scenario.flows, 0.0), **delivered}
            counts[TOTAL] = added(delivered.values()) if dataset.scenario.flows else None
            for flow in flows:
                octets = counts.get(flow)
                rates[flow].append(None if octets is None else 8 * octets / length)
        totals = rates[TOTAL]
        shares = {
            flow: tuple(
                rate / total if rate is not None and total else None
                for rate, total in zip(rates[flow], totals, strict=True)
            )
            for flow in flows
        }
        yield ComparedPhase(
            window,
            {flow: ComparedQuantity("bps", tuple(values)) for flow, values in rates.items()},
            {flow: ComparedQuantity("share", values) for flow, values in shares.items()},
            any(_sends(dataset, flow, window) for dataset in datasets for flow in flows),
            _queueing(datasets, [run[number] for run in delays]),
        )


def _queueing(
    datasets: Sequence[Dataset], delays: Sequence[dict[str, float]]
) -> dict[str, ComparedQuantity]:
    """Return the queueing delays of flows of datagrams in a phase, in seconds."""
    found = {}
    for flow in _all(datasets, "flows"):
        values = tuple(
            known.get(flow) if _is_datagrams(dataset, flow) else None
            for dataset, known in zip(datasets, delays, strict=True)
        )
        if any(value is not None for value in values):
            found[flow] = ComparedQuantity("s", values)
    return found


def _is_datagrams(dataset: Dataset, flow: str) -> bool:
    own = dataset.scenario.flows.get(flow)
    return own is not None and own.datagrams is not None


def _sends(dataset: Dataset, flow: str, window: Window) -> bool:
    """Return whether a flow of a run sends in a part of a window."""
    sent = active(dataset, flow) if flow in dataset.scenario.flows else None
    return sent is not None and sent[0] < window[1] and window[0] < sent[1]


def _flow(datasets: Sequence[Dataset], flow: str) -> dict[str, ComparedQuantity]:
    rows: list[dict[str, Any]] = []
    packets: list[float | None] = []
    for dataset in datasets:
        if flow not in dataset.scenario.flows:
            rows.append(dict.fromkeys(_FLOW))
            packets.append(None)
            continue
        arrived, lost = (count(dataset, flow, column) for column in ("packets", "lost"))
        packets.append(None if arrived is None or lost is None else arrived + lost)
        window = active(dataset, flow)
        trips, delays = flow_rtt(dataset, flow), owd(dataset, flow)
        smoothed = flow_srtt(dataset, flow)
        rows.append(
            {
                "throughput": throughput(dataset, flow, window) if window else None,
                "loss": loss(dataset, flow),
                "retransmits": count(dataset, flow, "retransmits"),
                "reordered": order(dataset, flow).share if _is_datagrams(dataset, flow) else None,
                "rtt_median": trips and trips.median,
                "rtt_p99": trips and trips.p99,
                "srtt_median": smoothed and smoothed.median,
                "srtt_p99": smoothed and smoothed.p99,
                "owd_median": delays and delays.median,
                "owd_p99": delays and delays.p99,
                "completion": completion(dataset, flow),
                "mos": quality(dataset, flow, "mos"),
                "mouth_to_ear": quality(dataset, flow, "mouth_to_ear"),
                **_application(dataset, flow),
            }
        )
    return _of_packets(_beside(rows, _FLOW), packets)


def _application(dataset: Dataset, flow: str) -> dict[str, float | None]:
    """Return what the clients of a flow got; None for what it has not."""
    if not dataset.scenario.flows[flow].applications:
        return dict.fromkeys(_APPLICATION)
    exchanged, loads = completions(dataset, flow), page_loads(dataset, flow)
    watched = video(dataset, flow)
    return {
        "completion_median": exchanged.median if exchanged else None,
        "completion_p95": exchanged.p95 if exchanged else None,
        "page_load_median": loads.median if loads else None,
        "page_load_p95": loads.p95 if loads else None,
        "startup": watched.startup,
        "bitrate": watched.bitrate,
        "stall_time": watched.stall_time if watched.segments else None,
    }


def _ping(datasets: Sequence[Dataset], ping: str) -> dict[str, ComparedQuantity]:
    rows: list[dict[str, Any]] = []
    packets: list[float | None] = []
    for dataset in datasets:
        own = dataset.scenario.pings.get(ping)
        # Of several nodes there is no one loss or round-trip time.
        if own is None or own.is_trace:
            rows.append(dict.fromkeys(_PING))
            packets.append(None)
            continue
        packets.append(float(sent(dataset, ping).height - under_way(dataset, ping)))
        trips = rtt(dataset, ping)
        rows.append(
            {
                "loss": loss(dataset, ping),
                "rtt_median": trips and trips.median,
                "rtt_p95": trips and trips.p95,
                "rtt_p99": trips and trips.p99,
            }
        )
    return _of_packets(_beside(rows, _PING), packets)


def _of_packets(
    found: dict[str, ComparedQuantity], packets: Sequence[float | None]
) -> dict[str, ComparedQuantity]:
    """Return quantities of which shares of packets have the numbers of these."""
    shares = {name: found[name] for name in ("loss", "reordered") if name in found}
    return found | {name: replace(share, packets=tuple(packets)) for name, share in shares.items()}


_Path = TypeVar("_Path", CodePointPath, EcnPath)


def _arrived(
    datasets: Sequence[Dataset],
    name: str,
    fields: Callable[[Dataset, str], pl.DataFrame],
    path_of: Callable[[str, int, int], _Path],
) -> dict[_Path, ComparedQuantity]:
    """Return the shares of a flow's or ping's packets by fields of their header, by host.

    A share is None in a run that did not see packets with that field as sent at the host.

    Args:
        datasets: The runs.
        name: The flow or ping.
        fields: Returns the fields: `codepoints` or `ecn_fields`.
        path_of: Makes the key from the host and both fields.
    """
    shares: list[dict[_Path, float]] = []
    counts: list[dict[tuple[str, int], int]] = []
    for dataset in datasets:
        scenario = dataset.scenario
        ping = scenario.pings.get(name)
        there = name in scenario.flows or (ping is not None and not ping.is_trace)
        share, count = {}, dict[tuple[str, int], int]()
        for _, node, known, arrived, packets, part in (
            fields(dataset, name).iter_rows() if there else ()
        ):
            as_sent = -1 if known is None else known
            share[path_of(node, as_sent, arrived)] = part
            count[node, as_sent] = count.get((node, as_sent), 0) + packets
        shares.append(share)
        counts.append(count)
    return {
        path: ComparedQuantity(
            "share",
            tuple(
                share.get(path, 0.0) if (path.node, path.sent) in count else None
                for share, count in zip(shares, counts, strict=True)
            ),
            tuple(count.get((path.node, path.sent)) for count in counts),
        )
        for path in sorted({path for share in shares for path in share})
    }


_APPLICATION: Final = {
    "completion_median": "s",
    "completion_p95": "s",
    "page_load_median": "s",
    "page_load_p95": "s",
    "startup": "s",
    "bitrate": "bps",
    "stall_time": "s",
}
_FLOW: Final = {
    "throughput": "bps",
    "loss": "share",
    "retransmits": "packets",
    "reordered": "share",
    "rtt_median": "s",
    "rtt_p99": "s",
    "srtt_median": "s",
    "srtt_p99": "s",
    "owd_median": "s",
    "owd_p99": "s",
    "completion": "s",
    "mos": "ratio",
    "mouth_to_ear": "s",
    **_APPLICATION,
}
_PING: Final = {"loss": "share", "rtt_median": "s", "rtt_p95": "s", "rtt_p99": "s"}
_CLASS: Final = {"share": "share", "dropped": "packets"}
"""The quantities that are compared, and their units."""


def _classes(datasets: Sequence[Dataset]) -> dict[str, dict[str, dict[str, ComparedQuantity]]]:
    end = min(dataset.covered_s for dataset in datasets)
    tables = []
    for dataset in datasets:
        part = clip(dataset, (0.0, end)) or (0.0, 0.0)
        counted = cut(dataset.queues, part).group_by("link", "class", maintain_order=True)
        sums = counted.agg(weighed_all("sent_bytes").alias("sent"), weighed_all("dropped_packets"))
        # Packets of a class inside a class count in both.
        outer = ~pl.col("class").str.contains("/", literal=True)
        total = pl.col("sent").filter(outer).sum().over("link")
        all_known = (pl.col("sent").filter(outer).null_count() == 0).over("link")
        share = pl.when(all_known & (total > 0)).then(pl.col("sent") / total)
        several = sums.filter(pl.len().over("link") > 1)
        parts = several.select("link", "class", share.alias("share"), "dropped_packets")
        tables.append({(link, name): rest for link, name, *rest in parts.iter_rows()})
    found: dict[str, dict[str, dict[str, ComparedQuantity]]] = {}
    for link, name in dict.fromkeys(key for table in tables for key in table):
        rows = [
            dict(zip(_CLASS, table.get((link, name), (None, None)), strict=True))
            for table in tables
        ]
        found.setdefault(link, {})[name] = _beside(rows, _CLASS)
    return found


def _beside(rows: Sequence[dict[str, Any]], units: dict[str, str]) -> dict[str, ComparedQuantity]:
    """Return the quantities that at least one run has."""
    columns = {name: tuple(row[name] for row in rows) for name in units}
    return {
        name: ComparedQuantity(units[name], values)
        for name, values in columns.items()
        if any(value is not None for value in values)
    }
