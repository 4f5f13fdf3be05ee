"""Load balancing performance (CERN and Caltech, 2002): two circuits, per destination or packet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from perhop import analysis, gallery
from perhop.experiments.model import Case, Experiment, Value
from perhop.report import Column, Table, delay_table, link_table, text
from perhop.report.charts import throughput_chart
from perhop.report.plots import Scale, line_plot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.dataset import Dataset
    from perhop.experiments.model import Pictures, Runs

_SCENARIO: Final = "load-balancing"
_CIRCUITS: Final = {
    "link 1": "cernh9>ar1-chicago#circuit1",
    "link 2": "cernh9>ar1-chicago#circuit2",
}

_VARIANTS: Final = {
    "threshold": (
        "three duplicates always, as without what 2.4 measured",
        ("flows.tcp.tcp.loss_detection=sack",),
    ),
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
    """The circuits' utilisation, in one chart for both ways to share, and the flows'."""
    lines = {}
    for case, way in (("per-destination", "per destination"), ("main", "per packet")):
        links = runs[case].links
        for label, link in _CIRCUITS.items():
            rows = links.filter((pl.col("link") == link) & (pl.col("end_s") % 1 == 0))
            lines[f"{label}, {way}"] = [
                (end, 100 * busy) for end, busy in rows.select("end_s", "utilisation").iter_rows()
            ]
    return {
        "utilisation": line_plot(
            "What two circuits carry: per destination one of them, per packet both",
            Scale("time (s)", domain=(0.0, 62.0)),
            Scale("utilisation (% of 155 Mb/s)", domain=(0.0, 105.0)),
            lines,
            captions=["UDP of 20 Mb/s until 20 s, TCP from 30 to 60 s, one pair of hosts"],
            points=False,
        ),
        "throughput": throughput_chart(runs["main"], interval_s=1.0, capacity=False),
    }


def _tables(runs: Runs) -> Sequence[Table]:
    rows = []
    for case, way in (("per-destination", "per destination"), ("main", "per packet")):
        loads = {row["link"]: row for row in analysis.link_loads(runs[case]).to_dicts()}
        cells = [text.share(loads[link]["utilisation_max"]) for link in _CIRCUITS.values()]
        got = analysis.throughput(runs[case], "tcp", (30.0, 60.0))
        rows.append((way, *cells, text.rate(got)))
    columns = (Column("shared", "left"), *map(Column, ("link 1", "link 2", "TCP")))
    busiest = Table("The busiest stretch of each circuit", columns, tuple(rows))
    tables = (busiest, delay_table(runs["main"]), link_table(runs["main"]))
    return [table for table in tables if table is not None]


_BASE: Final = gallery.load(_SCENARIO)

EXPERIMENTS: Final = (
    Experiment(
        name=_SCENARIO,
        title=_BASE.title,
        source=_BASE.source,
        about=_BASE.description,
        cases={
            "main": Case(_SCENARIO),
            "per-destination": Case(
                _SCENARIO,
                (
                    "nodes.cernh9.balance=per-destination",
                    "nodes.ar1-chicago.balance=per-destination",
                    "published=[]",
                ),
            ),
            **{
                name: Case(_SCENARIO, settings, "main", change)
                for name, (change, settings) in _VARIANTS.items()
            },
        },
        values=(
            Value(
                "UDP datagrams",
                "main",
                35716,
                "packets",
                _datagrams,
                qualifier="exactly",
                within=0.05,
            ),
        ),
        between_hosts="""\
What the network does to datagrams is as simulated: one in two is late, none is lost. TCP of Linux
finds losses by time (RACK), as the modelled hosts do here, and so does not mind; it gets what they
get, half as much again as Linux 2.4. Through Linux's own queues it gets as much until a moment in
which the machine does something else: what has come meanwhile comes at once, overfills a queue, and
at 116 ms it takes minutes to make up for that. Whether acknowledgements were selective no socket
tells.
""",
        tables=_tables,
        pictures=_charts,
    ),
)
