"""QBSS Measurements (SLAC, 2001): a scavenger, best effort and priority share a link."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from perhop import analysis, gallery
from perhop.experiments.model import Case, Experiment, Value
from perhop.report import Column, Table, codepoint_table, phase_table, text
from perhop.report.charts import throughput_chart
from perhop.report.plots import heat_map

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.dataset import Dataset
    from perhop.experiments.model import Pictures, Runs

SOURCE: Final = "SLAC, QBSS Measurements, revised August 9, 2001"

TOS: Final = {"best effort": "be", "QBSS": "cs1", "priority": "af11"}
"""The document's TOS values 0, 32 and 40 as code points."""

_QUEUES: Final = tuple(
    f"policies.qbss.classes.{name}.queue={{limit: 4 packets}}"
    for name in ("scavenger", "priority", "best_effort")
)

_RANDOM_DETECT: Final = tuple(
    f"policies.qbss.classes.{name}.queue={{wred: {{by: dscp}}}}"
    for name in ("scavenger", "priority", "best_effort")
)

_REVERSE: Final = (
    *(
        f"flows.{flow}.{end}={host}"
        for flow in ("scavenger", "best_effort", "priority")
        for end, host in (("from", "pharlap"), ("to", "evagore"))
    ),
    "links.1.egress={slac: qbss}",
)

_VARIANTS: Final = {
    "random-detect in the classes, as one version of the configuration has it": _RANDOM_DETECT,
    "a path of 2 ms more each way, which the window of 8 KB does not fill": (
        "links.1.delay=2200 us",
    ),
    "queues of 4 packets a class, which a window fills": _QUEUES,
    "deficit round robin": ("policies.qbss.scheduler=drr",),
}

_ACCOUNT: Final = """\
What dominates a phase (best effort beside the scavenger, then priority) comes within 6% of the
document. Its minor shares do not. The document's two states agree with each other, though: 87 to 5
is 17 to 1, and 19 to 1 beside priority. A scheduler with weights of 70, 19 and 1 would give both,
and the percentages of its configuration are 70, 29 and 1: the router did not share as configured.
The total was 90 to 92% of the link in all states, where headers leave 95%. The link is in full
duplex, so that acknowledgements take nothing of it. A longer path or shorter queues let the
scavenger have more and lower the total, but they take the first phase below 90%, or change nothing
beside priority.
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


FLOWS: Final = ("scavenger", "best_effort", "priority")

PHASES: Final = ((2.0, 30.0), (32.0, 60.0), (62.0, 90.0), (92.0, 120.0), (122.0, 150.0))
"""The phases without the two seconds after each change."""

_LINK_BPS: Final = 10e6


def _apart(runs: Runs, other: str) -> float | None:
    """How far two runs are apart in a flow's part of the link, in the phase where that is most."""
    return max(
        abs(
            (analysis.throughput(runs["main"], flow, phase) or 0.0)
            - (analysis.throughput(runs[other], flow, phase) or 0.0)
        )
        / _LINK_BPS
        for flow in FLOWS
        for phase in PHASES
    )


def _unsteadiness(dataset: Dataset) -> float | None:
    """The standard deviation of the total, by reports of 3 s, times its mean."""
    found = analysis.rate_spread(dataset, "total", (3.0, 150.0), 3.0)
    return found.stdev / found.mean if found and found.stdev is not None and found.mean else None


_STEADY: Final = Value(
    "standard deviation of the total, times its mean, by 3 s",
    "main",
    0.05,
    "share",
    _unsteadiness,
    during=(3.0, 150.0),
    qualifier="below",
    note="pretty constant: read as 5%",
)

_TRANSITIONS: Final = tuple(
    Value(
        f"transition when {change}",
        "fine",
        1.0,
        "s",
        partial(analysis.settling, flow=flow, window=window),
        during=window,
        qualifier="below",
        note="less than 1-2 s, by reports of 1 s",
    )
    for change, flow, window in (
        ("best effort starts", "best_effort", (30.0, 60.0)),
        ("priority starts", "priority", (60.0, 90.0)),
        ("priority stops", "best_effort", (90.0, 120.0)),
        ("best effort stops", "scavenger", (120.0, 150.0)),
    )
)


def _shares(
    name: str,
    account: str,
    between_hosts: str,
    *,
    cases: dict[str, Case],
    values: tuple[Value, ...],
) -> Experiment:
    scenario = gallery.load(name)
    # Reports of a tenth of a second show transitions that take less than the document's reports.
    fine = Case(name, ("report.interval=100 ms", "published=[]"))
    return Experiment(
        name=name,
        title=scenario.title,
        source=SOURCE,
        about=scenario.description,
        cases={"main": Case(name), "fine": fine, **cases},
        values=(*values, *_TRANSITIONS),
        account=account,
        between_hosts=between_hosts,
        tables=lambda runs: [phase_table(runs["main"])],
        pictures=_charts,
    )


def _variants(name: str, changes: dict[str, tuple[str, ...]]) -> dict[str, Case]:
    return {
        f"variant-{number}": Case(name, settings, "main", change)
        for number, (change, settings) in enumerate(changes.items(), 1)
    }


def _alike(label: str, other: str, note: str) -> Value:
    """That two runs give the flows the same parts of the link."""
    return Value(
        label,
        None,
        0.02,
        "share",
        across=partial(_apart, other=other),
        qualifier="below",
        note=f"{note}: read as 2% of the link",
    )


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
    _shares(
        "qbss-1-70",
        _ACCOUNT,
        _BETWEEN_HOSTS,
        cases={
            "reverse": Case("qbss-1-70", (*_REVERSE, "published=[]")),
            **_variants("qbss-1-70", _VARIANTS),
        },
        values=(_STEADY, _alike("from pharlap to evagore, apart", "reverse", "similar results")),
    ),
    _shares(
        "qbss-10-streams",
        "The document has no percentages for ten streams; what it says of them is judged.",
        _STREAMS_BETWEEN_HOSTS,
        cases={"one-stream": Case("qbss-1-70", ("published=[]",))},
        values=(
            _STEADY,
            _alike("from one stream of best effort, apart", "one-stream", "almost identical"),
        ),
    ),
    _shares(
        "qbss-30-1",
        "Priority is 5.1% below “about 30%”, because headers and layer 2 take 5.1% of what it is "
        "guaranteed; as a router counts, it has 30%.",
        _STREAMS_BETWEEN_HOSTS,
        cases=_variants(
            "qbss-30-1",
            {"a link whose rate does not include layer 2": ("links.1.overhead=none",)},
        ),
        values=(),
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
        values=(
            Value(
                "bytes from antonia, times those back",
                "iperf-be-ping-be",
                100.0,
                "ratio",
                _there_and_back,
                qualifier="above",
                note="over 100 to 1",
            ),
        ),
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
