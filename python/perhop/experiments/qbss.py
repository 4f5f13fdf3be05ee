"""QBSS Measurements (SLAC, 2001): a scavenger, best effort and priority share a link."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from perhop import analysis, gallery
from perhop.experiments.model import Case, Experiment, Unknown, Value
from perhop.report import phase_table
from perhop.report.charts import throughput_chart

if TYPE_CHECKING:
    from perhop.dataset import Dataset
    from perhop.experiments.model import Pictures, Runs


_REVERSE: Final = (
    *(
        f"flows.{flow}.{end}={host}"
        for flow in ("scavenger", "best_effort", "priority")
        for end, host in (("from", "pharlap"), ("to", "evagore"))
    ),
    "links.1.egress={slac: qbss}",
)

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
scavenger's small share: windows of 8 KB do not explain the unused share of the document's link.
Through Linux's own queues one best-effort stream gets a little less, and the scavenger up to a
quarter more beside it: five segments leave their queue empty for moments, in which HTB serves the
next class. With ten streams (qbss-10-streams), which never leave it empty, both are as
simulated.
"""

_STREAMS_BETWEEN_HOSTS: Final = """\
Shares are those of the simulator to 1%, on its network and through Linux's own queues.
"""


def _charts(runs: Runs) -> Pictures:
    """Return the document's charts: reports per 3 s and per 1 s, the total, and the log scale."""
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
    """Return the largest difference of two runs in a flow's share of the link, over all phases."""
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
    """Return the standard deviation of the total over reports of 3 s, relative to its mean."""
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
    precision=0.0,
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
        precision=0.0,
        note="less than 1-2 s, by reports of 1 s",
    )
    for change, flow, window in (
        ("best effort starts", "best_effort", (30.0, 60.0)),
        ("priority starts", "priority", (60.0, 90.0)),
        ("priority stops", "best_effort", (90.0, 120.0)),
        ("best effort stops", "scavenger", (120.0, 150.0)),
    )
)


def _queues(settings: str) -> tuple[str, ...]:
    return tuple(
        f"policies.qbss.classes.{name}.queue={{{settings}}}"
        for name in ("scavenger", "priority", "best_effort")
    )


SCHEDULER: Final = Unknown(
    "scheduler",
    "not in the document: IOS's is a weighted fair queue of a kind of its own; here an ideal one "
    "and deficit round robin",
    choices={
        "WF2Q+": ("policies.qbss.scheduler=wfq",),
        "deficit round robin": ("policies.qbss.scheduler=drr",),
    },
)

_UNKNOWNS: Final = (
    Unknown(
        "delay of the link, one way",
        "not in the document: the hosts are at one site, behind routers and hosts of 2001",
        50e-6,
        1e-3,
        "s",
        {"links.1.delay={:.7f} s": 1.0},
        log=True,
    ),
    Unknown(
        "window",
        "8 KB were asked for; Solaris offers whole segments, six of 1460 B",
        choices={
            f"{size} B": tuple(f"flows.{flow}.tcp.window={size} B" for flow in FLOWS)
            for size in (8192, 8760)
        },
    ),
    Unknown(
        "delay of acknowledgements",
        "Solaris 8 documents 100 ms, versions before it had 50 ms",
        0.05,
        0.1,
        "s",
        {f"flows.{flow}.tcp.delayed_ack={{:.4f}} s": 1.0 for flow in FLOWS},
    ),
    Unknown(
        "queues of the classes",
        "not in the document: IOS has 64 packets by default; one version of the configuration has "
        "random-detect",
        choices={
            "16 packets": _queues("limit: 16 packets"),
            "64 packets": _queues("limit: 64 packets"),
            "random-detect": _queues("wred: {by: dscp}"),
        },
    ),
    SCHEDULER,
)


def _shares(
    name: str,
    account: str,
    between_hosts: str,
    *,
    cases: dict[str, Case],
    values: tuple[Value, ...],
) -> Experiment:
    # Reports of a tenth of a second show transitions that take less than the document's reports.
    fine = Case(name, ("report.interval=100 ms", "published=[]"))
    return Experiment.of_scenario(
        gallery.load(name),
        cases={"main": Case(name), "fine": fine, **cases},
        values=(*values, *_TRANSITIONS),
        unknowns=_UNKNOWNS,
        effort=0.4,
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
    """Return whether two runs give the flows the same shares of the link."""
    return Value(
        label,
        None,
        0.02,
        "share",
        across=partial(_apart, other=other),
        qualifier="below",
        precision=0.0,
        note=f"{note}: read as 2% of the link",
        needs=("main", other),
    )


_VARIANTS: Final = {
    "random-detect in the classes, as one version of the configuration has it": _queues(
        "wred: {by: dscp}"
    ),
    "a path of 2 ms more each way, which the window of 8 KB does not fill": (
        "links.1.delay=2200 us",
    ),
    "queues of 4 packets a class, which a window fills": _queues("limit: 4 packets"),
    "deficit round robin": ("policies.qbss.scheduler=drr",),
}


def experiments() -> tuple[Experiment, ...]:
    """Read the scenarios of the document, and return its experiments."""
    return (
        _shares(
            "qbss-1-70",
            _ACCOUNT,
            _BETWEEN_HOSTS,
            cases={
                "reverse": Case("qbss-1-70", (*_REVERSE, "published=[]")),
                **_variants("qbss-1-70", _VARIANTS),
            },
            values=(
                _STEADY,
                _alike("from pharlap to evagore, apart", "reverse", "similar results"),
            ),
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
            "Priority is 5.1% below “about 30%”, because headers and layer 2 take 5.1% of what it "
            "is guaranteed; as a router counts, it has 30%.",
            _STREAMS_BETWEEN_HOSTS,
            cases=_variants(
                "qbss-30-1",
                {"a link whose rate does not include layer 2": ("links.1.overhead=none",)},
            ),
            values=(),
        ),
    )
