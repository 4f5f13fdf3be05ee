"""The tables of a report as plain text, for the page and the terminal."""

from dataclasses import dataclass
from typing import Any, Final, Literal

import polars as pl

from perhop import analysis
from perhop.analysis import Distribution
from perhop.dataset import Dataset
from perhop.report import text
from perhop.scenario import format_dscp

PLAIN: Final = "Plain queues without drops"
"""The title of the table that matters least."""

_SPREAD: Final = ("min", "median", "mean", "p95", "p99", "max", "IQR", "st. dev.")


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading and alignment."""

    name: str
    align: Literal["left", "right"] = "right"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a title. `note` explains the values, if that is necessary."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def largest_flows(dataset: Dataset, most: int) -> list[str]:
    """Return the flows that delivered most, at most `most` of them, in the scenario's order."""
    flows = list(dataset.scenario.flows)
    if len(flows) <= most:
        return flows
    largest = {
        *sorted(flows, key=lambda flow: -(analysis.count(dataset, flow, "bytes") or 0.0))[:most]
    }
    return [flow for flow in flows if flow in largest]


def flow_table(dataset: Dataset) -> Table:
    """Return the results of each flow over the time when it was active."""
    flows = analysis.flow_summaries(dataset)
    # A column of its own only where some flow has an end of its own.
    volumes = any(flow.volume is not None for flow in dataset.scenario.flows.values())
    # Round-trip times of single segments, if they are known.
    smoothed = all(flow["rtt_s"] is None for flow in flows.values())
    rows = []
    for name, flow in flows.items():
        rtt = flow["srtt_s" if smoothed else "rtt_s"] or {}
        rows.append(
            (
                name,
                text.size(flow["bytes"]),
                *([text.duration(flow["completion_s"])] if volumes else []),
                text.rate(flow["throughput_bps"]),
                text.count(flow["retransmits"]),
                text.share(flow["loss"]),
                text.duration(rtt.get("median")),
                text.duration(rtt.get("p99")),
            )
        )
    arrived = ("delivered", "completed in") if volumes else ("delivered",)
    rtt_name = "SRTT" if smoothed else "RTT"
    spread = (f"{rtt_name} median", f"{rtt_name} p99")
    names = (*arrived, "throughput", "retransmitted", "loss", *spread)
    columns = (Column("flow", "left"), *map(Column, names))
    return Table("Flows while active", columns, tuple(rows))


def loss_table(dataset: Dataset) -> Table | None:
    """Return where and why packets were lost, per flow or else per class; None without losses."""
    if dataset.losses.is_empty():
        owner = "class"
        lost = analysis.class_losses(dataset).to_dicts()
    else:
        owner = "flow"
        lost = [
            {"flow": flow, **row}
            for flow in dataset.scenario.flows
            for row in analysis.losses(dataset, flow).iter_rows(named=True)
        ]
    if not lost:
        return None
    rows = tuple(
        (
            row[owner] or text.ABSENT,
            row["cause"],
            row["link"] or text.ABSENT,
            text.count(row["packets"]),
            text.share(row["share"]),
        )
        for row in lost
    )
    columns = (*(Column(name, "left") for name in (owner, "by", "at")), Column("packets"))
    note = f"Shares are of the {owner}'s packets."
    return Table("Where packets were lost", (*columns, Column("share")), rows, note)


def delay_table(dataset: Dataset) -> Table | None:
    """Return one-way delays and reordering; None without UDP and reordering."""
    flows = analysis.flow_summaries(dataset)
    udp = any(flow.datagrams is not None for flow in dataset.scenario.flows.values())
    if not udp and not any(flow["reordered"] for flow in flows.values()):
        return None
    rows = []
    for name, flow in flows.items():
        owd = flow["owd_s"] or {}
        extents = (flow["extent_mean"], flow["extent_max"])
        rows.append(
            (
                name,
                *(text.duration(owd.get(key)) for key in ("min", "median", "p99", "max")),
                text.duration(flow["jitter_s"]),
                text.share(flow["reordered_share"]),
                *(text.ABSENT if extent is None else f"{extent:.3g}" for extent in extents),
                text.count(flow["duplicates"]),
            )
        )
    spread = ("min", "median", "p99", "max")
    names = (*spread, "jitter", "reordered", "extent", "max extent", "duplicates")
    columns = (Column("flow", "left"), *map(Column, names))
    note = "Jitter by RFC 3550; reordering and its extent in packets by RFC 4737."
    bounds = {name: flow["owd_bound_s"] for name, flow in flows.items() if flow["owd_bound_s"]}
    if bounds:
        said = ", ".join(f"{name} ± {text.duration(bound)}" for name, bound in bounds.items())
        note += f" Delays between clocks that were compared: {said}."
    return Table("One-way delay and order", columns, tuple(rows), note)


def class_tables(dataset: Dataset) -> list[Table]:
    """Return the counters of each class of each directed link, one table per link and reading.

    First come the links that divide traffic into classes or dropped some; then one table for all
    plain queues without drops.
    """
    names = (
        "sent",
        "packets",
        "dropped: full",
        "dropped: policer",
        "dropped: early",
        "marked",
        "remarked",
        "conformed",
        "exceeded",
        "violated",
    )
    plain = []
    tables = []
    readings = analysis.counter_readings(dataset)
    again = set(readings.filter(pl.n_unique("start_s").over("link") > 1)["link"])
    for (link, *stretch), rows in readings.group_by(
        "link", "start_s", "end_s", maintain_order=True
    ):
        cells = [_class_row(row) for row in rows.iter_rows(named=True)]
        if rows["class"].to_list() == ["all"] and rows["dropped_packets"].to_list() == [0]:
            plain += [(link, *row[1:]) for row in cells]
            continue
        columns = (Column("class", "left"), *map(Column, names))
        when = f", {text.window(*stretch)}" if link in again else ""
        tables.append(Table(f"Classes of {link}{when}", columns, tuple(cells)))
    if plain:
        columns = (Column("link", "left"), *map(Column, names))
        tables.append(Table(PLAIN, columns, tuple(plain)))
    return tables


def link_table(dataset: Dataset) -> Table | None:
    """Return the traffic of each directed link; None without traffic."""
    hosts = dataset.scenario.background_hosts
    ends = {name: {*link.ends} for name, (link, _) in dataset.scenario.directions.items()}
    shown = [name for name, both in ends.items() if not hosts & both]
    loads = analysis.link_loads(dataset).filter(
        (pl.col("sent_packets").is_null() | (pl.col("sent_packets") > 0))
        & pl.col("link").is_in(shown)
    )
    if loads.is_empty():
        return None
    rows = tuple(
        (
            row["link"],
            text.size(row["sent_bytes"]),
            text.count(row["sent_packets"]),
            text.count(row["lost_packets"]),
            text.share(row["utilisation"]),
            text.share(row["utilisation_max"]),
        )
        for row in loads.iter_rows(named=True)
    )
    names = ("sent", "packets", "lost", "busy", "busiest stretch")
    columns = (Column("link", "left"), *map(Column, names))
    note = "Bytes and time include layer-2 overhead."
    return Table("Links", columns, rows, note)


def ping_table(dataset: Dataset) -> Table | None:
    """Return round-trip times and loss of each ping of one node; None if the scenario has none."""
    pings = [name for name, ping in dataset.scenario.pings.items() if not ping.is_trace]
    if not pings:
        return None
    rows = []
    for ping in pings:
        requests = analysis.sent(dataset, ping)
        spread = _spread(analysis.rtt(dataset, ping))
        lost = text.share(analysis.loss(dataset, ping))
        rows.append((ping, text.count(len(requests)), lost, *spread))
    columns = (Column("ping", "left"), *map(Column, ("sent", "lost", *_SPREAD)))
    return Table("Pings: round-trip times", columns, tuple(rows))


def codepoint_table(dataset: Dataset) -> Table | None:
    """Return the DSCPs of flows and pings that changed on the path; None if none did."""
    names = [
        *dataset.scenario.flows,
        *(name for name, ping in dataset.scenario.pings.items() if not ping.is_trace),
    ]
    changed = []
    for name in names:
        found = analysis.codepoints(dataset, name)
        changed += found.filter(pl.col("dscp_sent") != pl.col("dscp_arrived")).to_dicts()
    if not changed:
        return None
    rows = tuple(
        (
            row["name"],
            row["node"],
            str(format_dscp(row["dscp_sent"])),
            str(format_dscp(row["dscp_arrived"])),
            text.count(row["packets"]),
            text.share(row["share"]),
        )
        for row in changed
    )
    left = ("flow or ping", "at", "sent as", "arrived as")
    columns = (*(Column(name, "left") for name in left), Column("packets"), Column("share"))
    return Table("Code points that changed on the way", columns, rows)


def ecn_table(dataset: Dataset) -> Table | None:
    """Return the ECN fields of flows and pings on arrival; None if no packet supported ECN."""
    names = [
        *dataset.scenario.flows,
        *(name for name, ping in dataset.scenario.pings.items() if not ping.is_trace),
    ]
    rows = []
    for name in names:
        found = analysis.ecn_fields(dataset, name)
        for (node, sent), some in found.group_by("node", "ecn_sent", maintain_order=True):
            packets = dict(some.select("ecn_arrived", "packets").iter_rows())
            if not sent and packets.keys() == {0}:
                continue
            counts = (text.count(packets.get(field, 0)) for field in _ECN)
            named = text.ABSENT if sent is None else _ECN[int(str(sent))]
            rows.append((name, str(node), named, *counts))
    if not rows:
        return None
    left = ("flow or ping", "at", "sent as")
    columns = (*(Column(name, "left") for name in left), *map(Column, _ECN.values()))
    note = "Packets by the ECN field with which they arrived. A flow of TCP sends several fields."
    return Table("ECN", columns, tuple(rows), note)


_ECN: Final = {0: "Not-ECT", 2: "ECT(0)", 1: "ECT(1)", 3: "CE"}
"""The names of ECN fields (RFC 3168)."""


def hop_tables(dataset: Dataset) -> list[Table]:
    """Return the hops of each ping of several nodes, one table per ping."""
    tables = []
    for name, ping in dataset.scenario.pings.items():
        if not ping.is_trace:
            continue
        rows = tuple(
            (
                text.count(hop.ttl),
                ", ".join(hop.nodes) or text.ABSENT,
                ", ".join(hop.answers) or text.ABSENT,
                text.count(hop.sent),
                text.share(hop.loss),
                *map(text.duration, _least_median_most(hop.rtt)),
                ", ".join(str(format_dscp(dscp)) for dscp in hop.dscps) or text.ABSENT,
            )
            for hop in analysis.hops(dataset, name)
        )
        sides = ("right", "left", "left", *("right",) * 5, "left")
        names = ("hop", "node", "answer", "sent", "lost", "min", "median", "max", "arrived as")
        columns = tuple(Column(*column) for column in zip(names, sides, strict=True))  # type: ignore[arg-type]
        ends = f"from {ping.source} to {ping.destination} as {format_dscp(ping.dscp)}"
        note = "An answer says with which code point the request arrived where it was given."
        tables.append(Table(f"Hops of {name}, {ends}", columns, rows, note))
    return tables


def _class_row(row: dict[str, Any]) -> tuple[str, ...]:
    counts = (
        row["sent_packets"],
        row["dropped_limit"],
        row["dropped_policer"],
        row["dropped_early"],
        row["marked_packets"],
        row["remarked_packets"],
        row["conformed_packets"],
        row["exceeded_packets"],
        row["violated_packets"],
    )
    return row["class"], text.size(row["sent_bytes"]), *map(text.count, counts)


def _spread(found: Distribution | None) -> tuple[str, ...]:
    if found is None:
        return (text.ABSENT,) * 8
    values = (found.min, found.median, found.mean, found.p95, found.p99, found.max)
    return tuple(map(text.duration, (*values, found.iqr, found.stdev)))


def _least_median_most(found: Distribution | None) -> tuple[float | None, ...]:
    return (None,) * 3 if found is None else (found.min, found.median, found.max)
