"""Bulk Thruput Measurements - Stanford to Daresbury (SLAC, 2001): windows, streams and the path."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from perhop import analysis, gallery
from perhop.experiments.model import Case, Experiment, Unknown, Value
from perhop.report import Column, Table, text
from perhop.report.plots import Scale, heat_map, line_plot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perhop.analysis import Basis
    from perhop.dataset import Dataset
    from perhop.experiments.model import Pictures, Runs

_SCENARIO: Final = "bulk-throughput"

WINDOWS: Final = (8, 16, 32, 64, 128)
"""In KB of 1024 bytes; iperf on Linux gave no more than 128."""

STREAMS: Final = (1, 2, 4, 8, 16, 32)

_DURING: Final = (5.0, 25.0)

# Solaris asks for no selective acknowledgements, and agrees to them; each end acknowledges as its
# own system does: after 40 ms at most on Linux, after 100 ms on Solaris.
_FROM_SOLARIS: Final = "stack: solaris-8, delayed_ack: 40 ms"
_TO_SOLARIS: Final = "stack: linux-2.2, delayed_ack: 100 ms"
_BETWEEN_LINUX: Final = "stack: linux-2.2"

WAYS: Final = {
    "SU>DL": ("elaine", "rtlin1", _FROM_SOLARIS),
    "SUL>DL": ("loggy", "rtlin1", _BETWEEN_LINUX),
    "SLAC>DL": ("pharlap", "rtlin1", _FROM_SOLARIS),
    "DL>SU": ("rtlin1", "elaine", _TO_SOLARIS),
    "DL>SUL": ("rtlin1", "loggy", _BETWEEN_LINUX),
    "DL>SLAC": ("rtlin1", "pharlap", _TO_SOLARIS),
}
"""The document's columns: source, destination, and the flow's TCP."""


BOTH_WAYS: Final = ("SUL>DL", "DL>SUL")
"""The two ways between the Linux hosts."""

_EVEN: Final = ("links.6.rate=10 Mbps", "links.6.shape={}")


def _name(way: str, window: int, streams: int) -> str:
    return f"{way.lower().replace('>', '-to-')}-{window}k-{streams}"


def _cases() -> dict[str, Case]:
    cases = {"path": Case(_SCENARIO, ("flows={}", "duration=6 s"))}
    for way, (source, destination, tcp) in WAYS.items():
        for window in WINDOWS:
            for streams in STREAMS:
                flow = (
                    f"{{from: {source}, to: {destination}, streams: {streams}, start: 5 s, "
                    f"stop: 25 s, tcp: {{{tcp}, window: {window} KiB}}}}"
                )
                settings = (f"flows.bulk={flow}", "pings={}")
                cases[_name(way, window, streams)] = Case(_SCENARIO, settings)
                if way in BOTH_WAYS and window == max(WINDOWS):
                    name = f"even-{_name(way, window, streams)}"
                    cases[name] = Case(_SCENARIO, (*settings, *_EVEN))
    return cases


def throughputs(runs: Runs, way: str) -> list[float]:
    """Return iperf's throughput in one direction, per window and number of streams, in bit/s."""
    return [
        analysis.throughput(runs[_name(way, window, streams)], "bulk", _DURING) or 0.0
        for window in WINDOWS
        for streams in STREAMS
    ]


def statistics(runs: Runs) -> pl.DataFrame:
    """Return the document's table: statistics of columns, averages of columns, and their ratios."""
    table = analysis.distribution_table({way: throughputs(runs, way) for way in WAYS})
    table = analysis.with_averages(
        table,
        {
            "Avg DL>US": [way for way in WAYS if way.startswith("DL>")],
            "Avg US>DL": [way for way in WAYS if way.endswith(">DL")],
        },
    )
    return analysis.with_ratios(
        table,
        {
            "Sce Linux / Solaris": ("SUL>DL", "SU>DL"),
            "Dst Linux / Solaris": ("DL>SUL", "DL>SU"),
        },
    )


def _ratio(runs: Runs, statistic: str, one: str, other: str) -> float | None:
    """Return a statistic of a column divided by that of another column."""
    row = statistics(runs).filter(pl.col("statistic") == statistic)
    below = row[other].item()
    return float(row[one].item() / below) if below else None


_DL_US: Final = partial(_ratio, one="Avg DL>US", other="Avg US>DL")


def _greatest_high(runs: Runs) -> float | None:
    """Ratio of the speeds from Daresbury at the 95th percentile, times that at the median."""
    high, middle = (_DL_US(runs, statistic=statistic) for statistic in ("95%", "median"))
    return None if high is None or not middle else high / middle


def _capacity(dataset: Dataset, node: str) -> float | None:
    hops = analysis.capacities(dataset, "path")
    return next((hop.rate_bps for hop in hops if node in hop.nodes), None)


def _last_hop(dataset: Dataset) -> float | None:
    """Return 1 if the bottleneck is the hop into rtlin1, 0 if it is another."""
    narrow = analysis.narrowest(analysis.capacities(dataset, "path"))
    return None if narrow is None else float("rtlin1" in narrow.nodes)


def _tables(runs: Runs) -> Sequence[Table]:
    found = statistics(runs)
    names = found.columns[1:]
    rows = tuple(
        (
            row["statistic"],
            *((text.ratio if "/" in name else text.rate)(row[name]) for name in names),
        )
        for row in found.iter_rows(named=True)
    )
    columns = (Column("", "left"), *map(Column, names))
    note = (
        "SU: elaine (Solaris). SUL: loggy (Linux). SLAC: pharlap (Solaris). DL: rtlin1 (Linux). "
        "Sce: source. Dst: destination."
    )
    spread = Table("TCP throughput over windows and streams", columns, rows, note)
    hops = tuple(
        (
            text.count(hop.ttl),
            ", ".join(hop.nodes),
            text.rate(hop.rate_bps),
            "narrows the path" if hop.narrows else "",
        )
        for hop in analysis.capacities(runs["path"], "path")
    )
    narrow = analysis.narrowest(analysis.capacities(runs["path"], "path"))
    named = f"The bottleneck is the hop into {', '.join(narrow.nodes)}. " if narrow else ""
    path = Table(
        "The path from loggy to rtlin1, by trains of 20 packets to each hop",
        (Column("hop"), Column("node", "left"), Column("carries up to here"), Column("", "left")),
        hops,
        f"{named}Rates are of IP packets.",
    )
    return [spread, path, _even(runs)]


def _even(runs: Runs) -> Table:
    """Return the throughput of the largest window if the last hop were slow in both directions."""

    def got(way: str, streams: int, case: str) -> str:
        run = runs[f"{case}{_name(way, max(WINDOWS), streams)}"]
        return text.rate(analysis.throughput(run, "bulk", _DURING))

    rows = tuple(
        (
            f"{way}, {how}",
            *(got(way, streams, case) for streams in STREAMS),
        )
        for case, how in (("", "slow into rtlin1 only"), ("even-", "slow both ways"))
        for way in BOTH_WAYS
    )
    heads = tuple(
        Column(f"{streams} streams" if streams > 1 else "1 stream") for streams in STREAMS
    )
    title = f"The last hop, with windows of {max(WINDOWS)} KB"
    return Table(title, (Column("", "left"), *heads), rows)


def _charts(runs: Runs) -> Pictures:
    pictures = {}
    for way, (source, destination, _) in WAYS.items():
        got = iter(throughputs(runs, way))
        cells = []
        for window in WINDOWS:
            for streams in STREAMS:
                bps = next(got)
                cells.append((str(streams), f"{window} KB", bps / 1e6, text.rate(bps)))
        pictures[f"heat-{_name(way, 0, 0).removesuffix('-0k-0')}"] = heat_map(
            f"TCP from {source} to {destination}",
            "streams",
            "window",
            "throughput (Mb/s)",
            cells,
        )
    lines = {}
    for way in ("SUL>DL", "DL>SUL"):
        got = iter(throughputs(runs, way))
        table = {(window, streams): next(got) for window in WINDOWS for streams in STREAMS}
        for window in (8, 32, 128):
            lines[f"{way}, {window} KB"] = [
                (float(streams), table[window, streams] / 1e6) for streams in STREAMS
            ]
    pictures["streams"] = line_plot(
        "More streams or larger windows: what counts is their product",
        Scale("parallel streams", "log", (0.9, 36.0)),
        Scale("throughput (Mb/s)"),
        lines,
    )
    return pictures


_GRID: Final = tuple(
    _name(way, window, streams) for way in WAYS for window in WINDOWS for streams in STREAMS
)


def _across(
    label: str,
    measure: Callable[[Runs], float | None],
    qualifier: str,
    note: str,
    basis: Basis = "stated",
) -> Value:
    similar = 0.2 if qualifier == "about" else None
    return Value(
        label,
        None,
        1.0,
        "ratio",
        across=measure,
        qualifier=qualifier,
        within=similar,
        precision=similar or 0.0,
        note=note,
        basis=basis,
        needs=_GRID,
    )


def _values() -> tuple[Value, ...]:
    similar = "similar: read as 20%"
    return (
        Value(
            "the bottleneck before the last hop",
            "path",
            45e6,
            "bps",
            partial(_capacity, node="daresbury"),
            within=0.05,
            basis="assumed",
        ),
        Value(
            "the main bottleneck is the last hop (1: it is)",
            "path",
            1.0,
            "ratio",
            _last_hop,
            qualifier="exactly",
            within=0.01,
            basis="assumed",
        ),
        *(
            _across(
                f"{label} from Daresbury, times that to it",
                partial(_DL_US, statistic=statistic),
                "above",
                "better than the inverse",
                "assumed",
            )
            for statistic, label in (("mean", "mean"), ("75%", "75th percentile"))
        ),
        *(
            _across(
                f"maximum from Daresbury, times that to it ({host})",
                partial(_ratio, statistic="max", one=f"DL>{host}", other=f"{host}>DL"),
                "above",
                "maxima are higher",
                "assumed",
            )
            for host in ("SU", "SUL")
        ),
        _across(
            "how much faster from Daresbury, 95th percentile times median",
            _greatest_high,
            "above",
            "especially for the higher percentiles",
            "assumed",
        ),
        _across(
            "maximum to Daresbury, Linux times Solaris",
            partial(_ratio, statistic="max", one="SUL>DL", other="SU>DL"),
            "about",
            similar,
        ),
        _across(
            "maximum from Daresbury, Linux times Solaris",
            partial(_ratio, statistic="max", one="DL>SUL", other="DL>SU"),
            "about",
            similar,
        ),
        *(
            _across(
                f"maximum from Daresbury to SLAC, times that from {host} to Daresbury",
                partial(_ratio, statistic="max", one="DL>SLAC", other=f"{host}>DL"),
                "about",
                similar,
            )
            for host in ("SU", "SUL")
        ),
    )


_UNKNOWNS: Final = (
    Unknown(
        "round-trip time",
        "not in the document: light in fibre takes 85 ms along the great circle and back; routes "
        "by the east coast are half as long again and more",
        0.13,
        0.17,
        "s",
        {"links.2.delay={:.5f} s": (0.5, -0.0049), "links.4.delay={:.5f} s": (0.5, -0.0049)},
    ),
    Unknown(
        "rate of the last hop, into rtlin1",
        "not in the document: it is the main bottleneck, below 45 Mb/s",
        4e6,
        40e6,
        "bps",
        {"links.6.shape={{daresbury: {{rate: {:.0f} bps}}}}": 1.0},
        log=True,
        cases=("path", *_GRID),
    ),
    Unknown(
        "queues of routers",
        "not in the document: IOS has 40 packets by default; carriers set more",
        40,
        400,
        "packets",
        {
            "links.2.queue.limit={:.0f} packets": 1.0,
            "links.4.queue.limit={:.0f} packets": 1.0,
            "links.5.queue.limit={:.0f} packets": 1.0,
            "policies.last-hop.classes.all.queue.limit={:.0f} packets": 1.0,
        },
        log=True,
    ),
    Unknown(
        "loss on the way",
        "not in the document: other traffic, which is not modelled",
        1e-6,
        1e-3,
        "share",
        {"links.5.loss={:.7f}%": 100.0},
        log=True,
    ),
    Unknown(
        "window where iperf on Linux said 128 KB",
        "Linux doubles what is asked, says that, and offers a half (2.2); its limit is 65,535 B "
        "unless it was raised, which iperf reports as 128 KB",
        choices={
            "65,535 B": ("flows.bulk.tcp.window=65535 B",),
            "128 KiB": ("flows.bulk.tcp.window=128 KiB",),
        },
        cases=tuple(name for name in _GRID if "-128k-" in name),
    ),
)


def experiments() -> tuple[Experiment, ...]:
    """Read the scenarios of the document, and return its experiments."""
    base = gallery.load(_SCENARIO)
    return (
        Experiment.of_scenario(
            base,
            cases=_cases(),
            values=_values(),
            unknowns=_UNKNOWNS,
            effort=0.2,
            tables=_tables,
            pictures=_charts,
        ),
    )
