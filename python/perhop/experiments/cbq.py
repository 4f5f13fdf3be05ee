"""ALTQ Package - CBQ Testing (about 1999): class-based queueing, its shares and its borrowing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from perhop import analysis, gallery
from perhop.experiments.model import Case, Experiment, Unknown, Value
from perhop.report import Column, Table, text
from perhop.report.charts import throughput_chart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from perhop.dataset import Dataset
    from perhop.experiments.model import Runs

_SCENARIO: Final = "altq-cbq"
_DURING: Final = (5.0, 65.0)
_KILOBIT: Final = 1024
"""TTCP divides by 1024; see the scenario."""

_ROOT: Final = "1 Mbps"

_TRAFFIC: Final = {
    "tcp": (
        "tcp: {congestion_control: reno, sack: false, window: 16 KiB, window_scaling: false, "
        "delayed_ack: 200 ms, rto_rule: rfc6298, initial_window: 1 packets, "
        "limited_transmit: false}"
    ),
    "udp": "udp: {rate: 4 Mbps, size: 1472 B}",
}
"""Traffic of a flow, as a scenario has it."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the document's tables.

    Attributes:
        shares: The two classes' shares, in percent of the root or of the class above them.
        flows: Traffic of the slow and the fast class: "tcp", "udp" or nothing.
        got: Their throughput, in Kbps as printed.
        borrows: The class that borrows, "slow" or "fast".
        within: A class of this share, in percent, between the root and the two.
        by: Field that the classifier reads.
    """

    shares: tuple[int, int]
    flows: tuple[str | None, str | None]
    got: tuple[float | None, float | None]
    borrows: str = ""
    within: int | None = None
    by: str = "port"

    @property
    def name(self) -> str:
        """The name of its run."""
        flows = "-".join(flow or "none" for flow in self.flows)
        more = (f"-borrow-{self.borrows}" if self.borrows else "") + (
            "-protocol" if self.by == "protocol" else ""
        )
        return f"{self.shares[0]}-{self.shares[1]}-{flows}{more}"

    @property
    def parts(self) -> list[str]:
        """The flow names of the row: "slow" and "fast"."""
        return [part for part, kind in zip(("slow", "fast"), self.flows, strict=True) if kind]

    @property
    def label(self) -> str:
        """Its label in tables."""
        flows = " + ".join(flow.upper() for flow in self.flows if flow)
        alone = "" if all(self.flows) else " alone"
        borrows = f", {self.share(self.borrows)}% borrows" if self.borrows else ""
        above = f" under {self.within}%" if self.within else ""
        by = " by protocol" if self.by == "protocol" else ""
        return f"{self.shares[0]}/{self.shares[1]}{above}{by}, {flows}{alone}{borrows}"

    def share(self, part: str) -> int:
        """Return the share of the slow or the fast class."""
        return self.shares[part == "fast"]

    def settings(self, *, ideal: bool) -> list[str]:
        """Return the scenario's settings for this row, with ideal link sharing or ALTQ's CBQ."""
        slow, fast = (self._class(part) for part in ("slow", "fast"))
        classes = f"slow: {slow}, fast: {fast}"
        if self.within is not None:
            outer = f"match: any, bandwidth: {self.within}%, borrow: false"
            rest = (
                f"match: {{dscp: ef}}, bandwidth: {100 - self.within}%, unused: true, borrow: false"
            )
            classes = f"rest: {{{rest}}}, secondary: {{{outer}, classes: {{{classes}}}}}"
        scheduler = "link-sharing" if ideal else "altq-cbq"
        cbq = "" if ideal else f"cbq: {{rate: {_ROOT}}}, "
        flows = {
            part: f"{part}: {{from: sender, to: receiver, port: {port}, {_TRAFFIC[kind]}}}"
            for part, port, kind in zip(("slow", "fast"), (2000, 3000), self.flows, strict=True)
            if kind
        }
        by = "ideal link sharing" if ideal else "altq-cbq"
        return [
            f'title="{self.label}, by {by}"',
            f"policies.edge={{scheduler: {scheduler}, {cbq}classes: {{{classes}}}}}",
            f"flows={{{', '.join(flows.values())}}}",
            # A shaper of the root's rate stands before the faster wire.
            *([f"links.1.shape={{altq: {{rate: {_ROOT}}}}}"] if ideal else []),
        ]

    def _class(self, part: str) -> str:
        # Of the class above them, shares are of what that has.
        share = self.share(part) * 100 // (self.within or 100)
        matches = {
            ("slow", "port"): "{destination_port: 2000}",
            ("slow", "protocol"): "{protocol: udp}",
        }
        borrow = str(self.borrows == part).lower()
        match = matches.get((part, self.by), "any")
        return (
            f"{{match: {match}, bandwidth: {share}%, borrow: {borrow}, unused: {_unused(part)}, "
            "queue: {limit: 30 packets}}"
        )


def _unused(part: str) -> str:
    return "true" if part == "slow" else "false"


ROWS: Final = (
    Row((40, 60), ("tcp", "tcp"), (377.12, 542.32)),
    Row((40, 60), ("udp", "udp"), (384.4, 551.04)),
    Row((20, 80), ("tcp", "tcp"), (187.68, 698.64)),
    Row((20, 80), ("udp", "udp"), (191.52, 731.12)),
    Row((20, 80), ("tcp", "udp"), (187.92, 730.16)),
    Row((20, 80), ("udp", "tcp"), (191.68, 701.04)),
    Row((20, 80), ("udp", "tcp"), (191.76, 699.6), by="protocol"),
    Row((40, 60), ("udp", None), (378.32, None)),
    Row((40, 60), (None, "udp"), (None, 560.72)),
    Row((20, 80), ("tcp", None), (188.4, None)),
)
"""The rows without borrowing."""

BORROWING: Final = (
    Row((40, 60), ("udp", "udp"), (1906.64, 356.56), borrows="slow"),
    Row((40, 60), ("udp", None), (1997.52, None), borrows="slow"),
    Row((40, 60), (None, "udp"), (None, 560.88), borrows="slow"),
    Row((40, 60), ("udp", "udp"), (282.08, 1909.44), borrows="fast"),
    Row((20, 30), ("udp", "udp"), (253.12, 262.08), borrows="slow", within=50),
    Row((10, 40), ("udp", "udp"), (304.64, 358.64), borrows="slow", within=50),
)
"""The rows with borrowing."""


def _values(rows: Sequence[Row], within: float) -> tuple[Value, ...]:
    return tuple(
        Value(
            f"{row.label}: {row.share(part)}% class",
            row.name,
            got * _KILOBIT,
            "bps",
            partial(analysis.throughput, flow=part, window=_DURING),
            during=_DURING,
            qualifier="exactly",
            within=within,
            note=f"printed as {got:g} Kbps",
            precision=0.04 * _KILOBIT,
        )
        for row in rows
        for part, got in zip(("slow", "fast"), row.got, strict=True)
        if got is not None
    )


def _slow_to_fast(dataset: Dataset) -> float | None:
    """Return the throughput of the slow class divided by that of the fast one."""
    slow, fast = (analysis.throughput(dataset, part, _DURING) for part in ("slow", "fast"))
    return None if slow is None or not fast else slow / fast


def _ratios(rows: Sequence[Row]) -> Iterator[Value]:
    """Return the ratios of two classes, without settings that affect both equally."""
    for row in rows:
        slow, fast = row.got
        if slow is not None and fast is not None:
            yield Value(
                f"{row.label}: {row.shares[0]}% class, times the other",
                row.name,
                slow / fast,
                "ratio",
                _slow_to_fast,
                during=_DURING,
                within=0.02,
                precision=0.04 / fast,
                note=f"{slow:g} and {fast:g} Kbps",
            )


def _highest_of_tcp(runs: Runs) -> float | None:
    """Return the highest throughput of TCP divided by that of UDP in the same class."""
    ratios = []
    for shares in ((40, 60), (20, 80)):
        tcp, udp = (Row(shares, (kind, kind), (None, None)).name for kind in ("tcp", "udp"))
        for part in ("slow", "fast"):
            got = [analysis.throughput(runs[name], part, _DURING) for name in (tcp, udp)]
            if got[0] is None or not got[1]:
                return None
            ratios.append(got[0] / got[1])
    return max(ratios)


def _cases(rows: Sequence[Row], changes: Mapping[str, tuple[str, ...]]) -> dict[str, Case]:
    """Each row by ALTQ, with each change, and by ideal link sharing.

    A change is settings; one with `{flow}` in it is made for each flow that the row has.
    """
    cases = {}
    for row in rows:
        altq = tuple(row.settings(ideal=False))
        cases[row.name] = Case(_SCENARIO, altq)
        ideal = tuple(row.settings(ideal=True))
        cases[f"{row.name}-ideal"] = Case(_SCENARIO, ideal, row.name, "ideal link sharing")
        for number, (change, settings) in enumerate(changes.items(), 1):
            each = dict.fromkeys(s.format(flow=part) for s in settings for part in row.parts)
            case = Case(_SCENARIO, (*altq, *each), row.name, change)
            cases[f"{row.name}-{number}"] = case
    return cases


_CLOCK: Final = "policies.edge.cbq.tick=1 ms"
_NO_BUCKET: Final = "policies.edge.cbq.token_bucket=false"

_CHANGES: Final = {
    "a tick of 1 ms": (_CLOCK,),
    "no token bucket": (_NO_BUCKET,),
    "packets up to ATM's 9180 B": ("policies.edge.cbq.packet=9180 B",),
}

_BORROWING_CHANGES: Final = {
    "no token bucket": (_NO_BUCKET,),
    "no token bucket, and efficient": (_NO_BUCKET, "policies.edge.cbq.efficient=true"),
    "both, and senders of 2 Mb/s at most": (
        _NO_BUCKET,
        "policies.edge.cbq.efficient=true",
        "flows.{flow}.udp.rate=2 Mbps",
    ),
}


_CBQ: Final = "policies.edge.cbq"

CLOCK_AND_DRIVER: Final = (
    Unknown(
        "tick of the clock",
        "not in the document: BSD's is 10 ms, and ALTQ's manual asks for 1 ms",
        choices={"1 ms": (f"{_CBQ}.tick=1 ms",), "10 ms": (f"{_CBQ}.tick=10 ms",)},
    ),
    Unknown(
        "longest packet that CBQ is told of",
        "not in the document: that of Ethernet, or the MTU of the ATM interface",
        choices={"1500 B": (f"{_CBQ}.packet=1500 B",), "9180 B": (f"{_CBQ}.packet=9180 B",)},
    ),
    Unknown(
        "token bucket before the driver",
        "versions of 1999 had none, those of 2000 have one; the document's date is not certain",
        choices={
            "yes": (f"{_CBQ}.token_bucket=true",),
            "no": (f"{_CBQ}.token_bucket=false",),
        },
    ),
)
"""Unknowns of the machine that runs CBQ, in all of the document's experiments."""

QUEUES: Final = Unknown(
    "queues of the classes",
    "not in the document; ALTQ's examples have 30 packets, BSD's interfaces 50",
    20,
    60,
    "packets",
    {
        f"policies.edge.classes.{part}.queue.limit={{:.0f}} packets": 1.0
        for part in ("slow", "fast")
    },
)

_EFFICIENT: Final = Unknown(
    "efficient",
    "not in the document: whether a class may send where all are over their limits",
    choices={"yes": (f"{_CBQ}.efficient=true",), "no": (f"{_CBQ}.efficient=false",)},
)


def _side_by_side(rows: Sequence[Row]) -> Callable[[Runs], Sequence[Table]]:
    """Return the table of published values, ALTQ's and ideal link sharing's."""

    def tables(runs: Runs) -> Sequence[Table]:
        lines = []
        for row in rows:
            cells = [row.label]
            for name in (row.name, f"{row.name}-ideal"):
                got = [analysis.throughput(runs[name], part, _DURING) or 0.0 for part in row.parts]
                cells += [" + ".join(map(text.rate, got)), text.rate(sum(got))]
            printed = [got * _KILOBIT for got in row.got if got is not None]
            cells[1:1] = [" + ".join(map(text.rate, printed)), text.rate(sum(printed))]
            lines.append(tuple(cells))
        heads = ("published", "total", "altq-cbq", "total", "ideal", "total")
        columns = (Column("shares and traffic", "left"), *map(Column, heads))
        note = "The root has 1 Mb/s of IP packets; headers take 2 to 3% of it."
        return [Table("Published, altq-cbq and ideal link sharing", columns, tuple(lines), note)]

    return tables


_ACCOUNT: Final = """\
Each class is near what the document has with one of two settings: the slow one where CBQ is told of
packets of 1500 B, the fast one where it is told of 9180 B. No setting has both: in relation to the
fast class, the slow one has 3 to 10% less than in the document. This is not explained.
"""

_BORROW_ACCOUNT: Final = """\
Ideal link sharing gives the class that borrows what the other leaves, and never more than the
root: both classes keep their shares. So does ALTQ's model with the defaults of FreeBSD of 2000,
whose token bucket holds the driver to the root's rate. Versions of 1999 had none. Without it, and
with the flag that lets a class send where all are over their limits (efficient), the class that
borrows sends over the root whatever it is offered. In the document it ended at 2.0 Mb/s. A link of
2 Mb/s does not explain that: two flows together had 2.3 and 2.2 Mb/s, more than one that borrows
had alone. Senders of 2 Mb/s at most, where that rate is put in and comes out again, leave the other
class its share, of which the document's had two thirds.
"""


def experiments() -> tuple[Experiment, ...]:
    """Read the scenarios of the document, and return its experiments."""
    base = gallery.load(_SCENARIO)
    return (
        Experiment.of_scenario(
            base,
            cases=_cases(ROWS, _CHANGES),
            values=(
                *_values(ROWS, 0.05),
                *_ratios(ROWS),
                Value(
                    "TCP, times UDP in the same class, where that is highest",
                    None,
                    1.0,
                    "ratio",
                    across=_highest_of_tcp,
                    during=_DURING,
                    qualifier="below",
                    precision=0.0,
                    note="TCP is a bit less than UDP",
                    needs=("40-60-tcp-tcp", "40-60-udp-udp", "20-80-tcp-tcp", "20-80-udp-udp"),
                ),
            ),
            account=_ACCOUNT,
            unknowns=(*CLOCK_AND_DRIVER, QUEUES),
            effort=0.6,
            tables=_side_by_side(ROWS),
            pictures=lambda runs: {
                "tcp-udp": throughput_chart(runs["20-80-tcp-udp"], interval_s=1.0, capacity=False),
            },
        ),
        Experiment(
            name="altq-cbq-borrow",
            title="ALTQ's CBQ with borrowing",
            source=base.source,
            about=(
                "As altq-cbq; one class may borrow, from the root or from a class between. What "
                "the document saw is a fault of that implementation: shares are lost and the root "
                "exceeded."
            ),
            cases=_cases(BORROWING, _BORROWING_CHANGES),
            values=_values(BORROWING, 0.2),
            account=_BORROW_ACCOUNT,
            unknowns=(*CLOCK_AND_DRIVER, _EFFICIENT),
            tables=_side_by_side(BORROWING),
            pictures=lambda runs: {
                "borrowing": throughput_chart(
                    runs["40-60-udp-udp-borrow-slow"], interval_s=1.0, capacity=False
                ),
                "borrowing-efficient": throughput_chart(
                    runs["40-60-udp-udp-borrow-slow-2"], interval_s=1.0, capacity=False
                ),
            },
        ),
    )
