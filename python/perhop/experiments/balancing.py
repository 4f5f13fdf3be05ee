"""Load balancing performance (CERN and Caltech, 2002): two circuits, per destination or packet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from perhop import analysis, gallery
from perhop.experiments.model import Case, Experiment, Unknown, Value
from perhop.experiments.windows import granted
from perhop.report import Column, Table, delay_table, link_table, text
from perhop.report.charts import throughput_chart
from perhop.report.plots import Scale, line_plot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.dataset import Dataset
    from perhop.experiments.model import Pictures, Runs

_SCENARIO: Final = "load-balancing"
_CIRCUITS: Final = {
    "link 1": "#circuit1",
    "link 2": "#circuit2",
}
_THERE: Final = "cernh9>ar1-chicago"
_BACK: Final = "ar1-chicago>cernh9"

_PER_DESTINATION: Final = (
    "nodes.cernh9.balance=per-destination",
    "nodes.ar1-chicago.balance=per-destination",
)

# The traffic of the document's charts: from Chicago to CERN, most of it between one pair of hosts.
_FROM_CHICAGO: Final = (
    "flows={bulk: {from: lxusa, to: pcgiga, "
    "tcp: {stack: linux-2.4, window: 8550 KiB}, stop: 60 s}, "
    "other: {from: chicago, to: cern, udp: {rate: 10 Mbps, size: 700 B, pattern: poisson}}}",
    "expect=[]",
    "published=[]",
)

_VARIANTS: Final = {
    "threshold": (
        "three duplicates always, and nothing taken back",
        ("flows.tcp.tcp.adaptive_reordering=false", "flows.tcp.tcp.undo=false"),
    ),
    "by-time": ("losses found by time (RACK)", ("flows.tcp.tcp.loss_detection=rack",)),
    "rack": ("Linux 6: RACK, CUBIC", ("flows.tcp.tcp.stack=linux-6",)),
    "rack-reno": (
        "Linux 6, Reno",
        ("flows.tcp.tcp.stack=linux-6", "flows.tcp.tcp.congestion_control=reno"),
    ),
    "queue-500": (
        "queues of 500 packets",
        ("links.1.queue={limit: 500 packets}", "links.2.queue={limit: 500 packets}"),
    ),
    "queue-40": (
        "queues of 40 packets",
        ("links.1.queue={limit: 40 packets}", "links.2.queue={limit: 40 packets}"),
    ),
    "jitter": ("circuits that differ by 0.446 ms", ("links.2.delay=58346 us",)),
    "bursts": (
        "the same, and UDP in bursts: 2 ms of every 20",
        (
            "links.2.delay=58346 us",
            "flows.udp.udp.rate=209715200 bps",
            "flows.udp.udp.bursts={on: 2 ms, off: 18 ms, lengths: equal}",
        ),
    ),
    "longer": ("circuits that differ by 5 ms", ("links.2.delay=62900 us",)),
}


def _datagrams(dataset: Dataset) -> float | None:
    return analysis.count(dataset, "udp", "packets")


def _charts(runs: Runs) -> Pictures:
    """The circuits' utilisation from Chicago to CERN in both ways to share, and the flows'."""
    lines: dict[str, list[tuple[float, float | None]]] = {}
    for label, circuit in _CIRCUITS.items():
        points: list[tuple[float, float | None]] = []
        for part, case in enumerate(("back-destination", "back-packet", "back-destination")):
            links = runs[case].links
            rows = links.filter((pl.col("link") == _BACK + circuit) & (pl.col("end_s") % 1 == 0))
            points += [
                (60.0 * part + end, 100 * busy)
                for end, busy in rows.select("end_s", "utilisation").iter_rows()
                if end <= 60
            ]
        lines[label] = points
    return {
        "utilisation": line_plot(
            "From Chicago to CERN: per destination one circuit is busy, per packet both",
            Scale("time (s)", domain=(0.0, 180.0)),
            Scale("utilisation (% of 155 Mb/s)", domain=(0.0, 105.0)),
            lines,
            captions=["per destination until 60 s and from 120 s, per packet between; three runs"],
            points=False,
        ),
        "throughput": throughput_chart(runs["main"], interval_s=1.0, capacity=False),
    }


def _tables(runs: Runs) -> Sequence[Table]:
    rows = []
    for case, way in (("per-destination", "per destination"), ("main", "per packet")):
        loads = {row["link"]: row for row in analysis.link_loads(runs[case]).to_dicts()}
        cells = [text.share(loads[_THERE + end]["utilisation_max"]) for end in _CIRCUITS.values()]
        got = analysis.throughput(runs[case], "tcp", (30.0, 60.0))
        rows.append((way, *cells, text.rate(got)))
    columns = (Column("shared", "left"), *map(Column, ("link 1", "link 2", "TCP")))
    busiest = Table("The busiest stretch of each circuit", columns, tuple(rows))
    tables = (busiest, delay_table(runs["main"]), link_table(runs["main"]))
    return [table for table in tables if table is not None]


_UNKNOWNS: Final = (
    Unknown(
        "difference of the circuits' delays, each way",
        "not in the document: two circuits of one provider; 5 ms are a way of 1000 km",
        0.0001,
        0.005,
        "s",
        {"links.2.delay={:.7f} s": (1.0, 0.0579)},
        log=True,
    ),
    Unknown(
        "queue of each circuit",
        "not in the document; 40 packets are IOS's default, and 1000 are 78 ms of a circuit",
        40,
        1000,
        "packets",
        {f"links.{link}.queue={{{{limit: {{:.0f}} packets}}}}": 1.0 for link in (1, 2)},
        log=True,
    ),
    Unknown(
        "other traffic",
        "not in the document, whose charts show that there was some",
        0.2e6,
        60e6,
        "bps",
        {"flows.other.udp.rate={:.0f} bps": 1.0},
    ),
    Unknown(
        "length of the other datagrams",
        "not in the document; the mean of traffic between sites was some hundred bytes",
        300,
        1000,
        "bytes",
        {"flows.other.udp.size={:.0f} B": 1.0},
    ),
    Unknown(
        "spacing of the UDP datagrams",
        "not in the document; iperf waits in a loop, or until the system's next tick of 10 ms",
        choices={
            "even": (),
            "all of 10 ms at once": (
                "flows.udp.udp.rate=209715200 bps",
                "flows.udp.udp.bursts={on: 1 ms, off: 9 ms, lengths: equal}",
            ),
        },
    ),
    granted({"tcp": 5700 * 1024}),
    Unknown(
        "delay of the program's start",
        "a program takes a moment to connect",
        0.0,
        0.2,
        "s",
        {"flows.tcp.start={:.4f} s": (1.0, 30.0)},
    ),
)


def experiments() -> tuple[Experiment, ...]:
    """Read the scenarios of the document, and return its experiments."""
    base = gallery.load(_SCENARIO)
    return (
        Experiment.of_scenario(
            base,
            cases={
                "main": Case(_SCENARIO),
                "per-destination": Case(_SCENARIO, (*_PER_DESTINATION, "published=[]")),
                "back-packet": Case(_SCENARIO, _FROM_CHICAGO),
                "back-destination": Case(_SCENARIO, (*_FROM_CHICAGO, *_PER_DESTINATION)),
                **{
                    name: Case(_SCENARIO, settings, "main", change)
                    for name, (change, settings) in _VARIANTS.items()
                },
            },
            unknowns=_UNKNOWNS,
            effort=0.4,
            values=(
                Value(
                    "UDP datagrams",
                    "main",
                    35716,
                    "packets",
                    _datagrams,
                    qualifier="exactly",
                    within=0.05,
                    basis="assumed",
                    note="the rate that iperf was given, in datagrams",
                ),
            ),
            account="""\
No datagram is lost, whatever is drawn. One in two is late where one circuit takes longer by more
than the spacing of the datagrams, 0.56 ms, and little other traffic changes whose turn it is;
with less difference none is late. Jitter is that difference, or what iperf's own timing makes of
it. TCP's throughput hangs most on the queues, which the document does not state.
""",
            between_hosts="""\
Measured with a window of 5700 KB and no other traffic. What the network does to datagrams is as
simulated: one in two is late, none is lost. TCP of Linux finds losses by time (RACK), as the
modelled hosts do here, and so does not mind; it gets what they get, half as much again as Linux
2.4. Through Linux's own queues it gets as much until a moment in which the machine does
something else: what has come meanwhile comes at once, overfills a queue, and at 116 ms it takes
minutes to make up for that. Whether acknowledgements were selective no socket tells.
""",
            tables=_tables,
            pictures=_charts,
        ),
    )
