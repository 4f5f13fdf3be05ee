"""The charts and tables of the OSCARS experiments' pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from perhop import analysis
from perhop.experiments.oscars_measures import FIRST, SECOND, burst_correlation
from perhop.report import Column, Table, change_table, class_tables, phase_table, ping_table, text
from perhop.report.charts import ping_chart, throughput_chart
from perhop.report.plots import Scale, line_plot, scatter_plot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.experiments.model import Pictures, Runs


def ten_charts(runs: Runs) -> Pictures:
    """The throughput of all flows, by seconds."""
    return {"throughput": throughput_chart(runs["main"], interval_s=1.0, capacity=False)}


def ten_tables(runs: Runs) -> Sequence[Table]:
    """Phases, the twenty streams, and the policer's counters."""
    rates = analysis.stream_rates(runs["main"], "reserved_20", (210.0, 270.0))
    fair = analysis.fairness(rates)
    cells = [text.rate(rate) for rate in rates]
    note = f"Jain's fairness index: {text.ratio(fair)}."
    streams = Table(
        "The twenty reserved streams",
        tuple(Column(str(number)) for number in range(1, 11)),
        (tuple(cells[:10]), tuple(cells[10:])),
        note,
    )
    return [phase_table(runs["main"]), streams, *class_tables(runs["main"])[:1]]


def one_charts(runs: Runs) -> Pictures:
    """The ten seconds of thrulay, and the throughput of all flows."""

    def seconds(case: str, flow: str, start: float) -> list[tuple[float, float | None]]:
        rates = analysis.rates(runs[case], flow, (start, start + 10.0), 1.0)
        return [(second, rate / 1e6) for second, rate in enumerate(rates, 1)]

    return {
        "thrulay": line_plot(
            "thrulay second by second: the reserved stream spends its burst of 1 MB first",
            Scale("second", "ordinal"),
            Scale("throughput (Mb/s)"),
            {
                "with SACK": seconds("main", "thrulay_reserved", 170.0),
                "without SACK": seconds("no-sack", "thrulay_reserved", 170.0),
            },
        ),
        "throughput": throughput_chart(runs["main"], interval_s=1.0, capacity=False),
    }


def burst_charts(runs: Runs) -> Pictures:
    """The throughput by seconds, and beside the round-trip time."""
    main = runs["main"]
    groups = {
        label: [
            (row["throughput_bps"] / 1e6, 1e3 * row["rtt_s"])
            for row in analysis.rates_and_rtts(main, flow, window).to_dicts()
        ]
        for label, flow, window in (
            ("burst of 1 MB", "burst_1MB", FIRST),
            ("burst of 100 kB", "burst_100kB", SECOND),
        )
    }
    found = burst_correlation(main)
    return {
        "throughput": throughput_chart(main, interval_s=1.0, capacity=False),
        "scatter": scatter_plot(
            "Throughput and round-trip time of each second",
            Scale("throughput (Mb/s)"),
            Scale("mean RTT (ms)", domain=(165.0, 195.0)),
            groups,
            captions=[f"correlation with a burst of 1 MB: {text.ratio(found)}"],
        ),
    }


def burst_tables(runs: Runs) -> Sequence[Table]:
    """Changes, and the policer's counters before and after."""
    return [
        t for t in (change_table(runs["main"]), *class_tables(runs["main"])[:2]) if t is not None
    ]


def ping_charts(runs: Runs) -> Pictures:
    """The pings over time, and their distribution."""
    main = runs["main"]
    lines: dict[str, list[tuple[float, float | None]]] = {}
    for ping in ("best_effort", "reserved"):
        rows = analysis.sent(main, ping).filter(pl.col("sent_s") % 4 == 0)
        times = zip(rows["sent_s"], rows["rtt_s"], strict=True)
        lines[ping] = [(at, None if rtt is None else 1e3 * rtt) for at, rtt in times]
    chart = ping_chart(main)
    return {
        "pings": line_plot(
            "Round-trip times before, beside and after forty streams of iperf",
            Scale("time (s)", domain=(0.0, 740.0)),
            Scale("RTT (ms)"),
            lines,
            captions=["every fourth ping"],
            points=False,
        ),
        **({"distribution": chart} if chart else {}),
    }


def ping_tables(runs: Runs) -> Sequence[Table]:
    """The pings' spread beside the load, and the whole."""
    table = ping_table(runs["main"])
    rows = []
    for ping in ("best_effort", "reserved"):
        found = analysis.rtt(runs["main"], ping, (80.0, 680.0))
        if found is not None:
            parts = (found.iqr, found.stdev, found.p5, found.p95, found.min, found.max)
            rows.append((ping, *map(text.duration, parts)))
    names = ("IQR", "st. dev.", "5%", "95%", "min", "max")
    columns = (Column("ping", "left"), *map(Column, names))
    jitter = Table("Round-trip times beside the load (80 to 680 s)", columns, tuple(rows))
    return [jitter, *([table] if table else [])]
