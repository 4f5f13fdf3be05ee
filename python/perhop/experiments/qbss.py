"""QBSS Measurements (SLAC, 2001): a scavenger, best effort and priority share a link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop import analysis, gallery
from perhop.experiments.model import Case, Experiment
from perhop.report import Column, Table, codepoint_table, phase_table, text
from perhop.report.charts import throughput_chart
from perhop.report.plots import heat_map

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.experiments.model import Pictures, Runs

SOURCE: Final = "SLAC, QBSS Measurements, revised August 9, 2001"

TOS: Final = {"best effort": "be", "QBSS": "cs1", "priority": "af11"}
"""The document's TOS values 0, 32 and 40 as code points."""

_QUEUES: Final = tuple(
    f"policies.qbss.classes.{name}.queue={{limit: 4 packets}}"
    for name in ("scavenger", "priority", "best_effort")
)

# Two segments of 1538 bytes on the wire go with one acknowledgement of 84, the least Ethernet
# frame with preamble and gap: 10 Mb/s times 3076 / (3076 + 84).
_HALF_DUPLEX: Final = "links.1.rate=9734 kbps"

_VARIANTS: Final = {
    "best effort has a weight of 19%, as it got, instead of the rest, 29%": (
        "policies.qbss.classes.best_effort.bandwidth=19%",
    ),
    "Ethernet in half duplex: acknowledgements take their part of the 10 Mb/s": (_HALF_DUPLEX,),
    "a path of 2 ms more each way, which the window of 8 KB does not fill": (
        "links.1.delay=2200 us",
    ),
    "queues of 4 packets a class, which a window fills": _QUEUES,
    "deficit round robin": ("policies.qbss.scheduler=drr",),
}

_ACCOUNT: Final = """\
What dominates a phase (best effort beside the scavenger, then priority) comes within 6% of the
document. Its minor shares do not, and no single cause explains all of them. A smaller weight for
best effort than “the rest” brings two of the three classes nearer: 19 to 1 is near the 87 to 5 that
the document has without priority, so that its router seems to have shared what was left otherwise
than the percentages say. A link in half duplex, as Ethernets of 10 Mb/s were, explains a part of
what the document's link left to nobody. A longer path or shorter queues let the scavenger have more
and lower the total, but they take the first phase below 90%, or change nothing beside priority.
"""


_BETWEEN_HOSTS: Final = """\
Real hosts on the simulator's network get what modelled ones do, to 4% and to a tenth of the
scavenger's small share: what the document's link left to nobody is not what a TCP makes of windows
of 8 KB. Through Linux's own queues one best-effort stream gets a little less, and the scavenger up
to a quarter more beside it: five segments leave their queue empty for moments, in which HTB serves
the next class. With ten streams (qbss-10-streams), which leave it empty never, both are as
simulated.
"""

_STREAMS_BETWEEN_HOSTS: Final = """\
Shares are those of the simulator to 1%, on its network and through Linux's own queues.
"""


def _charts(runs: Runs) -> Pictures:
    """The document's charts: reports every 3 s and every 1 s, the total, and the log scale."""
    return {
        "throughput-3s": throughput_chart(runs["main"], interval_s=3.0),
        "throughput-1s": throughput_chart(runs["main"], interval_s=1.0),
        "throughput-log": throughput_chart(runs["main"], "log", interval_s=1.0),
    }


def _shares(
    name: str, account: str, variants: dict[str, tuple[str, ...]], between_hosts: str
) -> Experiment:
    scenario = gallery.load(name)
    changed = {
        f"variant-{number}": Case(name, settings, "main", change)
        for number, (change, settings) in enumerate(variants.items(), 1)
    }
    return Experiment(
        name=name,
        title=scenario.title,
        source=SOURCE,
        about=scenario.description,
        cases={"main": Case(name), **changed},
        account=account,
        between_hosts=between_hosts,
        tables=lambda runs: [phase_table(runs["main"])],
        pictures=_charts,
    )


def _pairs() -> dict[str, tuple[str, str]]:
    return {
        f"iperf-{flow}-ping-{ping}": (bulk, asked)
        for bulk, flow in TOS.items()
        for asked, ping in TOS.items()
    }


def _ping_tables(runs: Runs) -> Sequence[Table]:
    """The document's table, and where TOS bits were lost."""
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


_PING: Final = gallery.load("qbss-ping")

EXPERIMENTS: Final = (
    _shares("qbss-1-70", _ACCOUNT, _VARIANTS, _BETWEEN_HOSTS),
    _shares(
        "qbss-10-streams",
        "See qbss-1-70, of which this is the same with ten streams.",
        {},
        _STREAMS_BETWEEN_HOSTS,
    ),
    _shares(
        "qbss-30-1",
        "Priority is 5.1% below “about 30%”, because headers and layer 2 take 5.1% of what it is "
        "guaranteed; as a router counts, it has 30%.",
        {"a link whose rate does not include layer 2": ("links.1.overhead=none",)},
        _STREAMS_BETWEEN_HOSTS,
    ),
    Experiment(
        name=_PING.name,
        title=_PING.title,
        source=SOURCE,
        about=_PING.description,
        cases={
            **{
                case: Case(
                    "qbss-ping",
                    (
                        f"flows.bulk.dscp={TOS[bulk]}",
                        f"pings.ping.dscp={TOS[asked]}",
                        f"published.0.label=iperf as {bulk}, ping as {asked}",
                    ),
                )
                for case, (bulk, asked) in _pairs().items()
            },
            "unloaded": Case(
                "qbss-ping",
                ("flows.bulk.start=103 s", "expect=[]", "published=[]"),
            ),
        },
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
