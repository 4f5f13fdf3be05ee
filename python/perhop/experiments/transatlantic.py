"""Scavenger performance (CERN and Caltech, 2002): QBSS over a long path, and what came after it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from perhop import analysis, gallery
from perhop.experiments.model import Case, Experiment, Unknown, Value
from perhop.experiments.windows import granted
from perhop.report import Column, Table, text
from perhop.report.charts import throughput_chart
from perhop.report.plots import Scale, line_plot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.dataset import Dataset
    from perhop.experiments.model import Pictures, Runs

_SCENARIO: Final = "qbss-transatlantic"

CAPACITY: Final = 155e6 * 1448 / 1507
"""Greatest goodput of a TCP flow: 1448 bytes of 1500, and 7 of POS, in bits per second."""

LIMITS: Final = (16, 32, 64, 128, 256, 512, 1024, 2048)
"""The queue limits of the sweep, in packets."""

_STEADY: Final = (40.0, 80.0)
"""Time of the comparison of services: 20 s after the scavenger has begun."""

_QUEUE: Final = "policies.qos-policy.classes.qbss.queue"
_UNMARKED: Final = ("flows.scavenger.dscp=be", "policies.qos-policy.classes.qbss.unused=true")
_LEDBAT: Final = "flows.scavenger.tcp.congestion_control=ledbat++"
_FQ_CODEL: Final = "policies.qos-policy.classes.class-default.queue={fq-codel: {}}"
_PIE: Final = "policies.qos-policy.classes.class-default.queue={pie: {}}"


@dataclass(frozen=True, slots=True)
class ScavengerService:
    """A way to let traffic use only the bandwidth that others leave.

    Attributes:
        label: Its name for people.
        settings: Its settings of network and flow.
        base: The network that best effort has alone, for comparison: "wred", "fq-codel" or "pie".
    """

    label: str
    settings: tuple[str, ...]
    base: str = "wred"


SERVICES: Final = {
    "qbss": ScavengerService("QBSS: 1%, queue-limit 64, random-detect", ()),
    "qbss-1024": ScavengerService(
        "QBSS with a queue of 1024 packets", (f"{_QUEUE}={{limit: 1024 packets}}",)
    ),
    "le": ScavengerService(
        "LE (RFC 8622), after everything else, 1000 packets",
        (
            "flows.scavenger.dscp=le",
            "policies.qos-policy={scheduler: priority, classes: {class-default: "
            "{match: {dscp: be}, queue: {limit: 1000 packets, wred: {by: precedence, profiles: "
            "[{dscp: be, min: 250 packets, max: 500 packets}]}}}, "
            "le: {match: any, queue: {limit: 1000 packets}}}}",
        ),
    ),
    "unmarked": ScavengerService("none: a second best-effort flow", _UNMARKED),
    "ledbat": ScavengerService("LEDBAT++, unmarked", (*_UNMARKED, _LEDBAT)),
    "qbss-ledbat": ScavengerService("LEDBAT++ as QBSS", (_LEDBAT,)),
    "fq-codel": ScavengerService("none, FQ-CoDel for all", (*_UNMARKED, _FQ_CODEL), "fq-codel"),
    "fq-codel-ledbat": ScavengerService(
        "LEDBAT++, FQ-CoDel for all", (*_UNMARKED, _LEDBAT, _FQ_CODEL), "fq-codel"
    ),
    "pie-ledbat": ScavengerService("LEDBAT++, PIE for all", (*_UNMARKED, _LEDBAT, _PIE), "pie"),
}
"""Compared quantities."""

_BASES: Final = {"wred": (), "fq-codel": (_FQ_CODEL,), "pie": (_PIE,)}
_SHORT: Final = (
    "flows.best_effort.stop=80 s",
    "flows.scavenger.start=20 s",
    "flows.scavenger.stop=80 s",
    "flows.other.stop=1 ms",
    "duration=82 s",
)
_LATE: Final = "duration=82 s"
_ESTIMATE: Final = (
    "flows.scavenger={from: pcgiga, to: lxusa, dscp: cs1, start: 20 s, stop: 80 s, "
    "udp: {rate: 150 Mbps, size: 1472 B}}",
    "flows.best_effort.tcp.window=1 MiB",
    "flows.best_effort.stop=80 s",
    "flows.other.stop=1 ms",
    _LATE,
)
"""Best effort that its window limits, and UDP as a scavenger that asks for all the circuit."""


def _one(flow: str, dscp: str, stop: str) -> tuple[str, ...]:
    """Return the scenario of one flow beside the other traffic."""
    other = "scavenger" if flow == "best_effort" else "best_effort"
    return (
        f"flows.{flow}.dscp={dscp}",
        f"flows.{flow}.stop={stop}",
        f"flows.{other}.stop=1 ms",
        f"flows.other.stop={stop}",
    )


_UNUSED: Final = "policies.qos-policy.classes.qbss.unused=true"


def _cases() -> dict[str, Case]:
    cases = {
        "main": Case(_SCENARIO, member=("flows.best_effort.stop=60 s", "duration=62 s")),
        "alone": Case(_SCENARIO, _one("scavenger", "cs1", "120 s")),
        "alone-unmarked": Case(_SCENARIO, (*_one("scavenger", "be", "120 s"), _UNUSED)),
        "estimate": Case(_SCENARIO, _ESTIMATE),
        "estimate-tail-drop": Case(_SCENARIO, (*_ESTIMATE, f"{_QUEUE}={{limit: 64 packets}}")),
    }
    for limit in LIMITS:
        queue = f"{_QUEUE}={{limit: {limit} packets}}"
        settings = (*_one("scavenger", "cs1", "80 s"), queue, "flows.other.stop=1 ms", _LATE)
        cases[f"limit-{limit}"] = Case(_SCENARIO, settings)
    for base, settings in _BASES.items():
        alone = (*_one("best_effort", "be", "80 s"), *settings, "flows.other.stop=1 ms", _LATE)
        cases[f"best-effort-{base}"] = Case(_SCENARIO, alone)
    for name, service in SERVICES.items():
        cases[f"{name}-beside"] = Case(_SCENARIO, (*_SHORT, *service.settings))
        # Best effort ends as the other begins: what it then uses is free.
        free = ("flows.best_effort.stop=1 ms",)
        cases[f"{name}-free"] = Case(_SCENARIO, (*_SHORT, *service.settings, *free))
    return cases


def harm(runs: Runs, name: str) -> float | None:
    """Return the share of best effort's throughput that is lost beside a service's traffic."""
    alone = runs[f"best-effort-{SERVICES[name].base}"]
    before = analysis.throughput(alone, "best_effort", _STEADY)
    beside = analysis.throughput(runs[f"{name}-beside"], "best_effort", _STEADY)
    return 1 - beside / before if before and beside is not None else None


def used(runs: Runs, name: str) -> float | None:
    """Return the share of a free circuit that a service's traffic uses."""
    got = analysis.throughput(runs[f"{name}-free"], "scavenger", _STEADY)
    return None if got is None else got / CAPACITY


def _tables(runs: Runs) -> Sequence[Table]:
    rows = []
    for name, service in SERVICES.items():
        beside = analysis.throughput(runs[f"{name}-beside"], "scavenger", _STEADY)
        cells = (text.share(harm(runs, name)), text.share(used(runs, name)), text.rate(beside))
        rows.append((service.label, *cells))
    heads = ("harm done to best effort", "use of a free circuit", "beside best effort")
    columns = (Column("service", "left"), *map(Column, heads))
    note = (
        "20 to 60 s after the service's flow began. Harm: the part of its throughput that best "
        "effort, one flow of Reno, loses to it. Use: what it gets of the 149 Mb/s that TCP can."
    )
    services = Table("Scavengers compared", columns, tuple(rows), note)
    lines = []
    for case, queue in (("estimate", "random-detect"), ("estimate-tail-drop", "tail drop")):
        best = analysis.throughput(runs[case], "best_effort", _STEADY) or 0.0
        found = analysis.throughput(runs[case], "scavenger", _STEADY)
        lines.append((queue, text.rate(best), text.rate(CAPACITY - best), text.rate(found)))
    estimate = Table(
        "What was future work: the free bandwidth, by UDP as a scavenger",
        (
            Column("64 packets with", "left"),
            *map(Column, ("best effort", "left by it", "UDP of 150 Mb/s got")),
        ),
        tuple(lines),
        "Best effort is limited by its window of 1 MB; rates are of payload.",
    )
    return [services, estimate]


def _charts(runs: Runs) -> Pictures:
    def over_time(case: str, flow: str) -> list[tuple[float, float | None]]:
        cells = analysis.series(runs[case], (0.0, 120.0), 2.0)
        rows = cells.filter(cells["flow"] == flow).select("end_s", "throughput_bps")
        return [(end, bps / 1e6) for end, bps in rows.iter_rows()]

    swept: list[tuple[float, float | None]] = []
    for limit in LIMITS:
        got = analysis.throughput(runs[f"limit-{limit}"], "scavenger", _STEADY)
        swept.append((float(limit), None if got is None else 100 * got / CAPACITY))
    return {
        "beside": throughput_chart(runs["main"], interval_s=1.0),
        "alone": line_plot(
            "One connection, marked and unmarked",
            Scale("time (s)", domain=(0.0, 120.0)),
            Scale("throughput (Mb/s)", domain=(0.0, 160.0)),
            {
                "scavenger, queue-limit 64": over_time("alone", "scavenger"),
                "unmarked": over_time("alone-unmarked", "scavenger"),
            },
            points=False,
        ),
        "queue-limit": line_plot(
            "A scavenger alone uses what its queue allows",
            Scale("queue-limit (packets)", "log", (12.0, 2600.0)),
            Scale("use of the free circuit, 40 to 80 s (%)", domain=(0.0, 105.0)),
            {"without random-detect": swept},
            captions=["one flow of Reno; the path holds 1490 packets"],
        ),
    }


def _got(dataset: Dataset, flow: str) -> float | None:
    """Return the throughput of a flow while connection 2 sends."""
    sent = analysis.active(dataset, "scavenger")
    return None if sent is None else analysis.throughput(dataset, flow, sent)


def _kept(runs: Runs) -> float | None:
    """Return best effort's throughput beside the scavenger, relative to an unmarked flow's."""
    beside, alone = _got(runs["main"], "best_effort"), _got(runs["alone-unmarked"], "scavenger")
    return beside / alone if beside is not None and alone else None


_DEFAULT: Final = "policies.qos-policy.classes.class-default.queue"

_UNKNOWNS: Final = (
    Unknown(
        "queue of class-default",
        "not in the document, whose configuration has only `random-detect`; 64 packets are IOS's "
        "default, 1000 were not unusual on long paths; random-detect from a quarter to a half",
        64,
        1024,
        "packets",
        {
            f"{_DEFAULT}.limit={{:.0f}} packets": 1.0,
            f"{_DEFAULT}.wred.profiles.0.min={{:.0f}} packets": 0.25,
            f"{_DEFAULT}.wred.profiles.0.max={{:.0f}} packets": 0.5,
        },
        log=True,
    ),
    Unknown(
        "other traffic",
        "the document: more than 120 Mb/s of 155 were free",
        1e6,
        25e6,
        "bps",
        {"flows.other.udp.rate={:.0f} bps": 1.0},
    ),
    Unknown(
        "round-trip time",
        "the document: 116 ms",
        0.1155,
        0.1165,
        "s",
        {"links.1.delay={:.6f} s": (0.5, -0.0001)},
    ),
    granted({"best_effort": 4 * 1024**2, "scavenger": 4 * 1024**2}),
    Unknown(
        "length of a test",
        "not in the document; iperf's default is 10 s, and the load-balancing tests of the same "
        "day took 20 and 30 s",
        choices={
            f"{seconds} s": (f"flows.scavenger.stop={seconds} s", f"flows.other.stop={seconds} s")
            for seconds in (10, 30, 60)
        },
    ),
    Unknown(
        "delay of the second program's start",
        "the document: at the same time; two programs were started by hand",
        0.0,
        1.0,
        "s",
        {"flows.scavenger.start={:.4f} s": 1.0},
        cases=("main",),
    ),
)

_ACCOUNT: Final = """\
That a scavenger alone stays below 120 Mb/s follows from its queue of 64 packets and the round-
trip time, whatever else is drawn. That the same flow unmarked had more does not: in tests of 10
to 60 s one Reno flow gets 16 to 77 Mb/s with the queues that are drawn, because it leaves slow
start by losing and then climbs by a segment a round trip. With 1000 packets of tail drop, which
are not drawn, it gets 125 Mb/s in 60 s: the queue of best effort, which the document does not
give, decides. Linux 2.4 also remembers the slow-start threshold of earlier connections to the
same host, which modelled hosts do not: another candidate. Best effort
beside the scavenger keeps what a connection has alone; the document gives no number for that.

The sweep is of single runs, 40 to 80 s after the start. One Reno flow needs a queue of a round
trip's packets to keep the circuit full when it halves its window; 64 are 4% of that, and what is
lost in slow start costs a minute at 116 ms. The scavenger's use of a free circuit goes from a
third to all of it, and what it does to best effort stays as little, because that is for the
scheduler to decide. LE as RFC 8622 means it has both. LEDBAT++ needs nothing of the network, but
gives way only to a queue of 60 ms, which neither random-detect (500 packets are 39 ms) nor FQ-
CoDel nor PIE lets grow: without a class below best effort it takes half of best effort's
throughput.

UDP as a scavenger finds the free bandwidth, as the document hoped, and leaves best effort alone;
its datagrams have a little more payload than TCP's segments.
"""


def experiments() -> tuple[Experiment, ...]:
    """Read the scenarios of the document, and return its experiments."""
    base = gallery.load(_SCENARIO)
    return (
        Experiment.of_scenario(
            base,
            cases=_cases(),
            unknowns=_UNKNOWNS,
            effort=0.4,
            values=(
                Value(
                    "scavenger alone, queue-limit 64",
                    "alone",
                    120e6,
                    "bps",
                    partial(_got, flow="scavenger"),
                    qualifier="below",
                ),
                Value(
                    "the same flow unmarked",
                    "alone-unmarked",
                    120e6,
                    "bps",
                    partial(_got, flow="scavenger"),
                    qualifier="above",
                ),
                Value(
                    "best effort beside the scavenger, of what an unmarked flow gets alone",
                    None,
                    1.0,
                    "share",
                    across=_kept,
                    needs=("main", "alone-unmarked"),
                    within=0.05,
                    precision=0.05,
                    basis="unstated",
                    note="the document: does not affect",
                ),
            ),
            account=_ACCOUNT,
            tables=_tables,
            pictures=_charts,
        ),
    )
