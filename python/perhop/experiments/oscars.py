"""OSCARS Results (SLAC and ESnet, 2006): reservations enforced by a policer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from perhop import analysis, gallery
from perhop.experiments.model import Case, Experiment, Unknown, Value
from perhop.experiments.oscars_unknowns import hosts, path, slow
from perhop.experiments.windows import granted
from perhop.report import Column, Table, change_table, class_tables, phase_table, ping_table, text
from perhop.report.charts import ping_chart, throughput_chart
from perhop.report.plots import Scale, line_plot, scatter_plot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perhop.analysis import Window
    from perhop.dataset import Dataset
    from perhop.experiments.model import Pictures, Runs

_SOURCE: Final = "SLAC and ESnet, OSCARS Results, 2006"

_FLOWS: Final = {
    "oscars-10M": ("best_effort", "reserved", "best_effort_20", "reserved_20"),
    "oscars-1M": ("best_effort", "reserved", "thrulay_best_effort", "thrulay_reserved"),
    "oscars-burst": ("burst_1MB", "burst_100kB"),
}

FIRST: Final = (102.0, 600.0)
"""Of what the document gives the statistics with a burst of 1 MB, in seconds."""

SECOND: Final = (660.0, 1140.0)
"""The 480 s with a burst of 100 kB."""


def _all(name: str, setting: str) -> tuple[str, ...]:
    """A setting of the TCP of every flow of a scenario."""
    return tuple(f"flows.{flow}.tcp.{setting}" for flow in _FLOWS[name])


def _spread(
    dataset: Dataset, part: str, flow: str, window: Window, interval_s: float = 1.0
) -> float | None:
    """A statistic of a flow's throughput in intervals."""
    found = analysis.rate_spread(dataset, flow, window, interval_s)
    return None if found is None else getattr(found, part)


def _of(part: str, flow: str, window: Window) -> Callable[[Dataset], float | None]:
    return partial(_spread, part=part, flow=flow, window=window)


def _ratio(dataset: Dataset, over: str, under: str, window: Window, other: Window) -> float | None:
    """The throughput of a flow in a window, as a part of that of a flow in another."""
    one = analysis.throughput(dataset, over, window)
    two = analysis.throughput(dataset, under, other)
    return one / two if one is not None and two else None


def _longer(dataset: Dataset, flow: str, first: Window, later: Window) -> float | None:
    """The mean round-trip time in a window, as a part of that in a later one."""
    means = []
    for window in (first, later):
        pairs = analysis.rates_and_rtts(dataset, flow, window)
        means.append(None if pairs.is_empty() else pairs["rtt_s"].mean())
    one, two = means
    return one / two if isinstance(one, float) and isinstance(two, float) and two else None


def _policed(dataset: Dataset, window: Window) -> float:
    """The packets that the policer dropped in a window."""
    start, end = window
    rows = dataset.queues.filter(
        (pl.col("class") == "reserved") & (pl.col("start_s") >= start) & (pl.col("end_s") <= end)
    )
    return float(rows["dropped_policer"].sum())


def _spreads() -> tuple[Value, ...]:
    """The document's table, with the digits of its text where that has more."""
    rows = (
        ("1 MB", "burst_1MB", FIRST, (0.944, 0.26, 0.332, 1.654)),
        ("100 kB", "burst_100kB", SECOND, (0.93, 0.26, 0.31, 1.389)),
    )
    return tuple(
        Value(
            label=f"{label} with a burst of {burst}",
            case="main",
            published=1e6 * published,
            unit="bps",
            measure=_of(part, flow, window),
            during=window,
            qualifier="exactly",
            within=0.05 if part == "median" else 0.2,
        )
        for burst, flow, window, values in rows
        for (part, label), published in zip(
            (("median", "median"), ("iqr", "IQR"), ("min", "least"), ("max", "most")),
            values,
            strict=True,
        )
    )


def _start_up(dataset: Dataset) -> float | None:
    """The fastest of the first ten seconds with a burst of 100 kB, by that with 1 MB."""
    small = _spread(dataset, "max", "burst_100kB", (660.0, 670.0))
    large = _spread(dataset, "max", "burst_1MB", (0.0, 10.0))
    return small / large if small is not None and large else None


def _correlation(dataset: Dataset) -> float | None:
    pairs = analysis.rates_and_rtts(dataset, "burst_1MB", FIRST)
    return analysis.correlation(pairs["throughput_bps"], pairs["rtt_s"])


def _per_stream(dataset: Dataset) -> float | None:
    rates = analysis.stream_rates(dataset, "reserved_20", (210.0, 270.0))
    spread = analysis.distribution(rates)
    return None if spread is None else spread.median


def _ten_charts(runs: Runs) -> Pictures:
    return {"throughput": throughput_chart(runs["main"], interval_s=1.0, capacity=False)}


def _ten_tables(runs: Runs) -> Sequence[Table]:
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


def _one_charts(runs: Runs) -> Pictures:
    def seconds(case: str, flow: str, start: float) -> list[tuple[float, float | None]]:
        rates = analysis.rates(runs[case], flow, (start, start + 10.0), 1.0)
        return [(second, rate / 1e6) for second, rate in enumerate(rates, 1)]

    return {
        "thrulay": line_plot(
            "thrulay second by second: the reserved stream spends its burst of 1 MB at once",
            Scale("second", "ordinal"),
            Scale("throughput (Mb/s)"),
            {
                "best effort": seconds("main", "thrulay_best_effort", 150.0),
                "reserved": seconds("main", "thrulay_reserved", 170.0),
                "reserved, without SACK": seconds("no-sack", "thrulay_reserved", 170.0),
            },
        ),
        "throughput": throughput_chart(runs["main"], interval_s=1.0, capacity=False),
    }


def _burst_charts(runs: Runs) -> Pictures:
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
    found = _correlation(main)
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


def _burst_tables(runs: Runs) -> Sequence[Table]:
    return [
        t for t in (change_table(runs["main"]), *class_tables(runs["main"])[:2]) if t is not None
    ]


def _ping_charts(runs: Runs) -> Pictures:
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


def _ping_tables(runs: Runs) -> Sequence[Table]:
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


def _less(dataset: Dataset, part: str) -> float | None:
    """A statistic of the reserved pings' RTT beside the load, as a share of best effort's."""
    found = [analysis.rtt(dataset, ping, (80.0, 680.0)) for ping in ("reserved", "best_effort")]
    reserved, other = (each and getattr(each, part) for each in found)
    return reserved / other if reserved is not None and other else None


def _experiment(
    name: str,
    cases: Mapping[str, Case],
    *,
    values: tuple[Value, ...] = (),
    unknowns: tuple[Unknown, ...] = (),
    account: str = "",
    effort: float = 1.0,
    tables: Callable[[Runs], Sequence[Table]],
    pictures: Callable[[Runs], Pictures],
    between_hosts: str = "",
) -> Experiment:
    scenario = gallery.load(name)
    return Experiment(
        name=name,
        title=scenario.title,
        source=_SOURCE,
        about=scenario.description,
        cases=cases,
        values=values,
        unknowns=unknowns,
        account=account,
        effort=effort,
        between_hosts=between_hosts,
        tables=tables,
        pictures=pictures,
    )


_PINGS: Final = ("reserved", "best_effort")

_PING_UNKNOWNS: Final = (
    Unknown(
        "round-trip time",
        "not in the document; from California to New York and back light takes 40 ms in a straight "
        "fibre",
        0.06,
        0.1,
        "s",
        {"links.1.delay={:.6f} s": (0.5, -0.0001)},
    ),
    Unknown(
        "rate of the path",
        "not in the document",
        choices={
            "OC-3": ("links.1.rate=155 Mbps",),
            "OC-12": ("links.1.rate=622 Mbps",),
        },
    ),
    Unknown(
        "queue of the path",
        "not in the document; routers had from tens of packets to a second's worth",
        50,
        2000,
        "packets",
        {"policies.oscars.classes.best_effort.queue={{limit: {:.0f} packets}}": 1.0},
        log=True,
    ),
    Unknown(
        "scheduling of the reserved class",
        "not in the document",
        choices={
            "strictly first": (),
            "a share of 10 Mb/s": (
                "policies.oscars.classes.reserved={match: {dscp: le}, bandwidth: 10 Mbps, "
                "police: {rate: 10 Mbps, burst: 1 MB}}",
            ),
        },
    ),
    granted({"iperf": 262144}),
)

_BURST_VARIANTS: Final = {
    "a sender with 161500 B": "send_window=161500 B",
    "acknowledges each segment": "delayed_ack=0 s",
    "CUBIC": "congestion_control=cubic",
    "without SACK": "sack=false",
    "without limited transmit": "limited_transmit=false",
}

EXPERIMENTS: Final = (
    _experiment(
        "oscars-10M",
        cases={
            "main": Case("oscars-10M"),
            "sender": Case(
                "oscars-10M",
                ("links.1.loss=0%", *_all("oscars-10M", "send_window=161500 B")),
                "main",
                "no loss, and a sender with 161500 B, which are 7.6 Mb/s in 170 ms",
            ),
            "no-sack": Case("oscars-10M", _all("oscars-10M", "sack=false"), "main", "without SACK"),
        },
        unknowns=(
            *path("oscars"),
            granted(dict(zip(_FLOWS["oscars-10M"], (10e6, 10e6, 262144, 262144), strict=True))),
            slow(_FLOWS["oscars-10M"]),
            *hosts(dict(zip(_FLOWS["oscars-10M"], (0.0, 70.0, 140.0, 210.0), strict=True))),
        ),
        effort=0.5,
        values=(
            Value(
                "packets policed with one stream",
                "main",
                0.0,
                "packets",
                partial(_policed, window=(70.0, 140.0)),
                during=(70.0, 130.0),
                qualifier="exactly",
            ),
            Value(
                "reserved, part of best effort, with one stream",
                "main",
                1.0,
                "share",
                partial(
                    _ratio,
                    over="reserved",
                    under="best_effort",
                    window=(70.0, 130.0),
                    other=(0.0, 60.0),
                ),
                during=(0.0, 130.0),
                precision=0.02,
                within=0.05,
                note="the document: about 7.6 Mb/s in both cases",
            ),
            Value(
                "best effort with 20 streams, times that with one",
                "main",
                150 / 7.6,
                "ratio",
                partial(
                    _ratio,
                    over="best_effort_20",
                    under="best_effort",
                    window=(140.0, 200.0),
                    other=(0.0, 60.0),
                ),
                during=(0.0, 200.0),
                precision=0.8,
                within=0.05,
                note="150 ± 5 by 7.6 ± 0.05",
            ),
            Value(
                "each of the 20 reserved streams",
                "main",
                0.5e6,
                "bps",
                _per_stream,
                during=(210.0, 270.0),
                within=0.2,
            ),
            Value(
                "packets policed with 20 streams",
                "main",
                1.0,
                "packets",
                partial(_policed, window=(210.0, 275.0)),
                during=(210.0, 270.0),
                qualifier="above",
                note="the document: a considerable number",
            ),
        ),
        account="""\
That twenty streams got twenty times what one got is what a limit of each stream does, by loss or
by the sender; it does not say which. With loss, one stream of one minute says little: it gets 7
to 50 Mb/s with selective acknowledgements and 0.6 to 18 without. Behind the policer, 9.45 Mb/s
are what TCP without selective acknowledgements leaves; with them it gets 9.66 Mb/s and more.
""",
        tables=_ten_tables,
        pictures=_ten_charts,
    ),
    _experiment(
        "oscars-1M",
        account="""\
Whether the hosts acknowledged selectively decides nearly all. With selective acknowledgements
the stream gets 1.57 Mb/s and more in ten seconds, which is what the burst of 1 MB and 1 Mb/s
allow; the document's 0.961 Mb/s, and its seconds of 0.064 Mb/s (a segment a round-trip time),
come only from a TCP without them, which mends one loss a round-trip time. But in the ten minutes
of oscars-burst the same hosts had no second below 0.33 Mb/s, which TCP without them has here and
TCP with them has not. One stack does not explain both. That best effort got 8.2 Mb/s in ten
seconds and 7.6 in sixty speaks for a sender that had no more under way: a loss that makes 7.6
Mb/s of a minute leaves much more in the first ten seconds here. No queue makes round-trip times
of the first second visibly longer.
""",
        between_hosts="""\
Measured with windows of 196606 B and no loss: a connection that begins with ten segments has spent
more of its burst after a second, so that the second second has 5.7 to 5.8 Mb/s instead of 8;
modelled hosts with an initial window of ten have as much. After the burst Linux mends in a
round-trip time what the document's stream took many for. Through Linux's own queues, a burst of
1 MB at 10 Mb/s takes tc's police action.
""",
        cases={
            "main": Case("oscars-1M"),
            "no-sack": Case("oscars-1M", _all("oscars-1M", "sack=false"), "main", "without SACK"),
            "sender": Case(
                "oscars-1M",
                ("links.1.loss=0%", *_all("oscars-1M", "send_window=161500 B")),
                "main",
                "no loss, and a sender with 161500 B, which are 7.6 Mb/s in 170 ms",
            ),
            "small-burst": Case(
                "oscars-1M",
                ("policies.oscars.classes.reserved.police.burst=100 kB",),
                "main",
                "a burst of 100 kB",
            ),
        },
        unknowns=(
            *path("oscars"),
            granted(dict.fromkeys(_FLOWS["oscars-1M"], 10e6)),
            slow(_FLOWS["oscars-1M"]),
            *hosts(dict(zip(_FLOWS["oscars-1M"], (10.0, 80.0, 150.0, 170.0), strict=True))),
        ),
        values=(
            Value(
                "the least of its seconds 3 to 10",
                "main",
                0.064e6,
                "bps",
                _of("min", "thrulay_reserved", (172.0, 180.0)),
                during=(172.0, 180.0),
                qualifier="exactly",
                within=0.2,
            ),
            Value(
                "the most of its seconds 3 to 10",
                "main",
                0.6e6,
                "bps",
                _of("max", "thrulay_reserved", (172.0, 180.0)),
                during=(172.0, 180.0),
                qualifier="exactly",
                within=0.2,
            ),
            Value(
                "best effort (thrulay), first second, part of seconds 2 to 10",
                "main",
                1.0,
                "share",
                partial(
                    _ratio,
                    over="thrulay_best_effort",
                    under="thrulay_best_effort",
                    window=(150.0, 151.0),
                    other=(151.0, 160.0),
                ),
                during=(150.0, 160.0),
                qualifier="below",
                note="the document: less than in the following 9 seconds",
            ),
            Value(
                "best effort (thrulay), RTT of the first second, times that of seconds 2 to 10",
                "main",
                1.01,
                "ratio",
                partial(
                    _longer,
                    flow="thrulay_best_effort",
                    first=(150.0, 151.0),
                    later=(151.0, 160.0),
                ),
                during=(150.0, 160.0),
                qualifier="above",
                note="the document: longer during the first second only; 1% would be seen",
            ),
        ),
        tables=lambda runs: [phase_table(runs["main"]), *class_tables(runs["main"])[:1]],
        pictures=_one_charts,
    ),
    _experiment(
        "oscars-burst",
        cases={
            "main": Case("oscars-burst"),
            **{
                f"variant-{number}": Case(
                    "oscars-burst", _all("oscars-burst", setting), "main", change
                )
                for number, (change, setting) in enumerate(_BURST_VARIANTS.items(), 1)
            },
            "short-path": Case(
                "oscars-burst", ("links.1.delay=42 ms",), "main", "half the round-trip time"
            ),
        },
        unknowns=(
            *path("oscars"),
            granted(dict.fromkeys(_FLOWS["oscars-burst"], 10e6)),
            slow(_FLOWS["oscars-burst"]),
            *hosts({"burst_1MB": 0.0, "burst_100kB": 660.0}),
        ),
        values=(
            *_spreads(),
            Value(
                "most of the first ten seconds with 100 kB, part of that with 1 MB",
                "main",
                1.0,
                "share",
                _start_up,
                during=(0.0, 670.0),
                qualifier="below",
                note="the document: start-up is much better behaved",
            ),
            Value(
                "correlation of throughput and RTT",
                "main",
                0.0,
                "ratio",
                _correlation,
                during=FIRST,
                qualifier="below",
                note="published as a scatter plot",
            ),
        ),
        account="""\
Median and start-up follow from the policer, whatever the hosts were. Spread, least and most are
the hosts': with selective acknowledgements those of the burst of 1 MB are in reach, without them
the least second has a segment a round-trip time, and the most several Mb/s; see oscars-1M, whose
ten seconds say the opposite. The document's greatest second with 100 kB is less than any here.
""",
        tables=_burst_tables,
        pictures=_burst_charts,
    ),
    _experiment(
        "oscars-ping",
        cases={
            "main": Case(
                "oscars-ping",
                # Pings of 30 s beside the load, five a second, say as much as those of ten minutes.
                member=(
                    "flows.iperf.stop=110 s",
                    *(f"pings.{name}.every=200 ms" for name in _PINGS),
                    *(f"pings.{name}.stop=120 s" for name in _PINGS),
                    "duration=121 s",
                    "report.interval=1 s",
                ),
            )
        },
        unknowns=_PING_UNKNOWNS,
        effort=0.4,
        values=tuple(
            Value(
                f"{label} of the reserved pings' RTT, part of best effort's",
                "main",
                bound,
                "share",
                partial(_less, part=part),
                during=(80.0, 680.0),
                qualifier="below",
                # The document says each of these once, of one pair of distributions.
                number="floor" if bound < 1 else "jitter",
                note=note,
            )
            for part, label, bound, note in (
                ("iqr", "IQR", 1.0, "published as pictures"),
                ("stdev", "standard deviation", 1.0, "published as pictures"),
                ("p95", "95th percentile", 1.0, "published as pictures"),
                ("max", "most", 1.0, "published as pictures"),
                ("p5", "5th percentile", 0.999, "published as pictures; 0.1% is what ping prints"),
                ("min", "least", 0.999, "published as pictures; 0.1% is what ping prints"),
            )
        ),
        tables=_ping_tables,
        pictures=_ping_charts,
    ),
)
