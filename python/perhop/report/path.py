"""The report of a path: tables, and a page."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perhop.report import text
from perhop.report.document import document, grid
from perhop.report.html import element, join
from perhop.report.output import write_all
from perhop.report.tables import Column, Table
from perhop.scenario import format_dscp

__all__ = ["path_page", "path_tables", "save_path"]

_ECN = ("not-ECT", "ECT(1)", "ECT(0)", "CE")

_SILENCE = {
    "none": "",
    "loss": "",
    "limited": "limits its ICMP errors",
    "silent": "does not answer",
    "unclear": "loss, or a limit of its ICMP errors",
}


def path_tables(report: dict[str, Any], names: Mapping[str, str] | None = None) -> list[Table]:
    """Return the tables of a path: its hops, changes of marks, parallel paths."""
    known = names or {}
    if not report["hops"]:
        tables = [_available(report), _buckets(report)]
        return [table for table in tables if table is not None]
    tables = [
        _hops(report, known),
        _capacities(report),
        _available(report),
        _buckets(report),
        _marks(report),
        _rewrites(report),
        _parallel_paths(report, known),
    ]
    return [table for table in tables if table is not None]


def path_page(report: dict[str, Any], names: Mapping[str, str] | None = None) -> str:
    """Return the report of a path as one HTML document without external references."""
    title = f"Path from {report['source']} to {report['destination']}"
    body = join(
        element("h1", title),
        element("p", lead(report), class_="lead"),
        *(grid(table) for table in path_tables(report, names)),
    )
    return document(title, body)


def save_path(
    report: dict[str, Any], folder: Path, names: Mapping[str, str] | None = None
) -> list[Path]:
    """Write `path.html` into a folder.

    Raises:
        OutputError: The folder cannot be written.
    """
    return write_all(folder.resolve(), {"path.html": path_page(report, names).encode()})


def _cut_off(unfinished: Sequence[str]) -> str:
    """Return which measurements are not complete."""
    return (
        f"The time limit ended before these were complete: {', '.join(unfinished)}; set a greater "
        "--limit or --rate."
    )


def lead(report: dict[str, Any]) -> str:
    """Return the summary of a path in a few sentences."""
    hops = report["hops"]
    if not hops:
        other = "icmp" if report["protocol"] == "udp" else "udp"
        return (
            f"Neither {report['destination']} nor any router on the path answered. A firewall may "
            f"drop probes or answers: try --protocol {other}, or another --port."
        )
    reached = (
        f"{report['destination']} is {_hop_count(len(hops))} away."
        if report["reached"]
        else f"{report['destination']} did not answer; {_hop_count(len(hops))} did."
    )
    mtu = report["path_mtu"]
    parallel = sum(len(hop["addresses"]) > 1 for hop in hops)
    unfinished = report.get("unfinished", ())
    return " ".join(
        [
            reached,
            *([f"The path MTU is {mtu} B."] if mtu else []),
            *([f"{parallel} hops have more than one router."] if parallel else []),
            *([_cut_off(unfinished)] if unfinished else []),
        ]
    )


def _hop_count(count: int) -> str:
    return f"{count} hop" if count == 1 else f"{count} hops"


def mark(found: Mapping[str, int]) -> str:
    """Return a DSCP and an ECN field for people: `ef ECT(0)`."""
    return f"{format_dscp(found['dscp'])} {_ECN[found['ecn']]}"


def _node(node: Mapping[str, Any] | None, names: Mapping[str, str]) -> str:
    if node is None:
        return "*"
    address = node["address"]
    return f"{names[address]} ({address})" if address in names else address


def _hops(report: dict[str, Any], names: Mapping[str, str]) -> Table:
    rows = []
    for hop in report["hops"]:
        rtt = hop["rtt_s"] or {}
        first = hop["addresses"][0] if hop["addresses"] else None
        mtu = hop["mtu"] and hop["mtu"]["mtu"]
        rows.append(
            (
                str(hop["ttl"]),
                _node(first, names),
                f"{hop['answered']} of {hop['sent']}",
                text.share(hop["loss"]),
                *(text.duration(rtt.get(key)) for key in ("min", "median", "p95", "max")),
                text.ABSENT if mtu is None else f"{mtu} B",
                "; ".join(_remarks(hop)),
            )
        )
    columns = (
        Column("hop"),
        Column("address", "left"),
        *map(Column, ("answered", "loss", "RTT min", "median", "p95", "max", "MTU")),
        Column("remarks", "left"),
    )
    note = "Loss up to the hop and back. A hop that limits its errors does not show its loss."
    return Table("Hops of the first flow", columns, tuple(rows), note)


def _remarks(hop: dict[str, Any]) -> Iterator[str]:
    if said := _SILENCE[hop["silence"]]:
        yield said
    if len(hop["addresses"]) > 1:
        yield f"{len(hop['addresses'])} routers in parallel"
    if hop["per_packet"]:
        yield "packets of one flow take different paths"
    if hop["translated"]:
        yield "behind network address translation"
    if hop["mtu"] and hop["mtu"]["black_hole"]:
        yield "longer packets vanish without an error"
    if (again := hop["retest"]) and hop["loss"] is not None:
        probes = {"echo": "echo requests", "spaced": "probes 1.1 s apart"}[again["method"]]
        yield f"loss of {again['sent']} {probes}"


_UNKNOWN = {
    "behind-narrower": "unknown, as a link before it is as narrow or narrower",
    "sender": "unknown, as this host cannot send faster",
    "return-path": "unknown, as the return path is too slow for the answers",
    "unanswered": "unknown, as too few packets of a train were answered",
}


def _capacities(report: dict[str, Any]) -> Table | None:
    rows = []
    for hop in report["hops"]:
        found = hop["capacity"]
        if found is None:
            return None
        bps, least = found["bps"], found["at_least_bps"]
        if bps:
            shown = text.rate(bps["value"])
            interval = f"{text.rate(bps['low'])} to {text.rate(bps['high'])}"
        else:
            shown = text.ABSENT if least is None else f"at least {text.rate(least)}"
            interval = text.ABSENT
        methods = {"trains": "spacing of trains", "sizes": "round-trip times of two sizes"}
        how = methods.get(found["method"]) or _UNKNOWN[found["method"]]
        rows.append((f"{found['from_hop']} to {hop['ttl']}", shown, interval, how))
    columns = (Column("hops"), Column("capacity"), Column("interval"), Column("by", "left"))
    note = "Of IP packets of the path MTU. Of several links, the narrowest."
    return Table("Capacity of links", columns, tuple(rows), note)


_AVAILABLE_UNKNOWN = {
    "unanswered": "no packet arrived",
    "limit": "as much as this host or the responder allows",
    "sender": "this host could not send evenly",
    "lossy": "packets are lost or delayed at every rate",
    "volume": "as many bytes were sent as this host or the responder allows",
}


def _available(report: dict[str, Any]) -> Table | None:
    if "available" not in report:
        return None
    rows = []
    for found in report["available"]:
        least, most, bps = found["at_least_bps"], found["at_most_bps"], found["bps"]
        shown = text.rate(bps["value"]) if bps else "unknown"
        bounds = f"{text.rate(least)} to {text.rate(most)}"
        if most is None:
            bounds = f"at least {text.rate(least)}" if least else text.ABSENT
        why = _AVAILABLE_UNKNOWN[found["unknown"]] if found["unknown"] else ""
        rows.append((mark(found["sent"]), shown, bounds, str(found["streams"]), why))
    columns = (
        Column("sent", "left"),
        *map(Column, ("available bandwidth", "interval", "streams")),
        Column("remarks", "left"),
    )
    note = "Of IP packets. Streams below the interval filled no queue, those above it did."
    return Table("Available bandwidth", columns, tuple(rows), note)


def _buckets(report: dict[str, Any]) -> Table | None:
    if "buckets" not in report:
        return None
    rows = []
    for found in report["buckets"]:
        kind = "none exceeded" if found["train_bytes"] else "not measured"
        bucket = found["bucket"] or {"kind": kind, "bps": None, "burst": None, "disturbed": False}
        unknown = found["bucket"] is not None and not (bucket["bps"] and bucket["burst"])
        rows.append(
            (
                mark(found["sent"]),
                bucket["kind"],
                _estimate(bucket["bps"], text.rate),
                _estimate(bucket["burst"], text.size),
                f"{text.size(found['train_bytes'])} at {text.rate(found['train_bps'])}",
                text.rate(found["narrow_bps"]),
                _BUCKET_UNKNOWN[bucket["disturbed"]] if unknown else "",
            )
        )
    columns = (
        Column("sent", "left"),
        Column("token bucket", "left"),
        *map(Column, ("rate", "burst", "longest train", "narrowest link")),
        Column("remarks", "left"),
    )
    note = "Rates and bursts of IP packets. A bucket that the train does not empty is not found."
    return Table("Policers and shapers", columns, tuple(rows), note)


_BUCKET_UNKNOWN = {
    False: "trains tell too little",
    True: "trains were delayed, or packets were lost elsewhere",
}


def _estimate(found: Mapping[str, float] | None, shown: Callable[[float | None], str]) -> str:
    """Return an estimate with half the width of its interval: `7 Mb/s ±0.1%`."""
    if found is None:
        return text.ABSENT
    half = (found["high"] - found["low"]) / 2 / found["value"]
    return f"{shown(found['value'])} ±{half:.1%}"


def _marks(report: dict[str, Any]) -> Table | None:
    hops = report["hops"]
    if not hops or len(hops[0]["marks"]) < 2:
        return None
    rows = []
    for hop in hops:
        for seen in hop["marks"]:
            rtt = seen["rtt_s"] or {}
            rows.append(
                (
                    str(hop["ttl"]),
                    mark(seen["sent"]),
                    text.ABSENT if seen["received"] is None else mark(seen["received"]),
                    seen["address"] or "*",
                    f"{seen['answered']} of {seen['probes']}",
                    text.duration(rtt.get("min")),
                    text.duration(rtt.get("median")),
                )
            )
    columns = (
        Column("hop"),
        *(Column(name, "left") for name in ("sent", "received", "address")),
        *map(Column, ("answered", "RTT min", "median")),
    )
    return Table("Hops by mark", columns, tuple(rows))


def _rewrites(report: dict[str, Any]) -> Table | None:
    rows = tuple(
        (
            mark(found["sent"]),
            f"{found['after_hop']} and {found['by_hop']}",
            mark(found["before"]),
            mark(found["after"]),
        )
        for found in report["rewrites"]
    )
    if not rows:
        return None
    columns = (
        *(Column(name, "left") for name in ("sent", "between hops", "before")),
        Column("after", "left"),
    )
    note = "Errors quote what a hop received. Hop 0 is this host."
    return Table("Changes of marks", columns, rows, note)


def _parallel_paths(report: dict[str, Any], names: Mapping[str, str]) -> Table | None:
    if all(len(hop["addresses"]) < 2 for hop in report["hops"]):
        return None
    rows = []
    for hop in report["hops"]:
        for node in hop["addresses"]:
            before = sorted(
                {
                    link["from"] or "*"
                    for link in report["links"]
                    if link["ttl"] == hop["ttl"] and link["to"] == node["address"]
                }
            )
            row = (str(hop["ttl"]), _node(node, names), ", ".join(before))
            rows.append((*row, str(node["source_port"])))
    columns = (
        Column("hop"),
        Column("address", "left"),
        Column("from", "left"),
        Column("a source port"),
    )
    note = (
        f"With a confidence of {report['confidence']:.4g} per router that shares load by flow."
        if report["complete"]
        else "There may be more: too few flows went through some routers."
    )
    return Table("Parallel paths", columns, tuple(rows), note)
