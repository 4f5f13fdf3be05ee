"""QBSS Measurements (SLAC, 2001): ping beside bulk TCP, for each pair of TOS values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop import analysis, gallery
from perhop.experiments.model import Case, Experiment, Unknown, Value
from perhop.experiments.qbss import SCHEDULER
from perhop.report import Column, Table, codepoint_table, text
from perhop.report.plots import heat_map

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.dataset import Dataset
    from perhop.experiments.model import Pictures, Runs

TOS: Final = {"best effort": "be", "QBSS": "cs1", "priority": "af11"}
"""The document's TOS values 0, 32 and 40 as code points."""

_SHORT: Final = ("flows.bulk.stop=24 s", "pings.ping.stop=22 s", "published.0.during=2 s..22 s")
"""A fifth of the document's 100 s: the throughput is the same from the first second on."""


def _there_and_back(dataset: Dataset) -> float | None:
    """The bytes that crossed the bottleneck towards pharlap, times those that came back."""
    sent = dict(analysis.link_loads(dataset).select("link", "sent_bytes").iter_rows())
    back = sent["second>first"]
    return float(sent["first>second"] / back) if back else None


def _pairs() -> dict[str, tuple[str, str]]:
    return {
        f"iperf-{flow}-ping-{ping}": (bulk, asked)
        for bulk, flow in TOS.items()
        for asked, ping in TOS.items()
    }


def _ping_tables(runs: Runs) -> Sequence[Table]:
    """Return the document's table, and the places where TOS bits were cleared."""
    rows = []
    for case, (bulk, asked) in _pairs().items():
        found = analysis.rtt(runs[case], "ping")
        spread = (None,) * 4 if found is None else (found.min, found.mean, found.max, found.stdev)
        got = text.rate(analysis.throughput(runs[case], "bulk", (2.0, 102.0)))
        rows.append((bulk, asked, *map(text.duration, spread), got))
    left = (Column("iperf as", "left"), Column("ping as", "left"))
    names = ("min", "avg", "max", "st. dev.", "iperf")
    unloaded = analysis.rtt(runs["unloaded"], "ping")
    note = f"Without load a ping takes {text.duration(unloaded.mean if unloaded else None)}."
    table = Table("Round-trip times of ping", (*left, *map(Column, names)), tuple(rows), note)
    lost = codepoint_table(runs["iperf-cs1-ping-af11"])
    return [table, *([lost] if lost else [])]


def _ping_charts(runs: Runs) -> Pictures:
    cells = []
    for case, (bulk, asked) in _pairs().items():
        found = analysis.rtt(runs[case], "ping")
        mean = None if found is None else found.mean
        shown = text.duration(mean)
        cells.append((asked, bulk, None if mean is None else 1e3 * mean, shown))
    return {
        "ping-means": heat_map(
            "Ping beside bulk TCP waits where both are in one class",
            "ping sent as",
            "iperf sent as",
            "mean RTT (ms)",
            cells,
        )
    }


def experiments() -> tuple[Experiment, ...]:
    """Read the scenarios of the document, and return its experiments."""
    base = gallery.load("qbss-ping")
    return (
        Experiment.of_scenario(
            base,
            cases={
                **{
                    case: Case(
                        "qbss-ping",
                        (
                            f"flows.bulk.dscp={TOS[bulk]}",
                            f"pings.ping.dscp={TOS[asked]}",
                            f"published.0.label=iperf as {bulk}, ping as {asked}",
                        ),
                        member=_SHORT,
                    )
                    for case, (bulk, asked) in _pairs().items()
                },
                "unloaded": Case(
                    "qbss-ping",
                    ("flows.bulk.start=103 s", "expect=[]", "published=[]"),
                ),
            },
            values=(
                Value(
                    "bytes from antonia, times those back",
                    "iperf-be-ping-be",
                    100.0,
                    "ratio",
                    _there_and_back,
                    qualifier="above",
                    precision=0.0,
                    note="over 100 to 1",
                ),
            ),
            unknowns=(
                Unknown(
                    "delay of the bottleneck, one way",
                    "not in the document: a test bed in one room or building",
                    5e-6,
                    500e-6,
                    "s",
                    {"links.1.delay={:.7f} s": 1.0},
                    log=True,
                ),
                Unknown(
                    "queues of the classes",
                    "not in the document: IOS has 64 packets by default, which the window of 128 "
                    "KB overfills; a port of a Catalyst 6500 has some hundreds",
                    40,
                    500,
                    "packets",
                    {
                        f"policies.qbss.classes.{name}.queue={{{{limit: {{:.0f}} packets}}}}": 1.0
                        for name in ("scavenger", "priority", "best_effort")
                    },
                    log=True,
                ),
                Unknown(
                    "delay of acknowledgements",
                    "Solaris 8 documents 100 ms, versions before it had 50 ms",
                    0.05,
                    0.1,
                    "s",
                    {"flows.bulk.tcp.delayed_ack={:.4f} s": 1.0},
                ),
                SCHEDULER,
            ),
            effort=0.6,
            account="""\
The tables show what the captures at both ends showed: at pharlap nothing is marked any more,
whatever antonia sent, and so replies and acknowledgements come back as best effort.
""",
            between_hosts="""\
No pair gets more than 94.1 Mb/s, which is what layer 2, headers and timestamps leave of 100. A ping
in the class of the bulk flow waits some 6 ms, in another class 0.1 ms longer than modelled hosts
take. Through Linux's own queues both depend on how soon the machine sees to its interfaces: with
more to do than its cores can, bulk TCP gets down to 87 Mb/s and some pings take tens of
milliseconds, in every class.
""",
            tables=_ping_tables,
            pictures=_ping_charts,
        ),
    )
