"""ALTQ Package - CBQ Testing (about 1999): class-based queueing, its shares and its borrowing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perhop import analysis, gallery
from perhop.experiments.model import Case, Experiment, Value
from perhop.report import Column, Table, text
from perhop.report.charts import throughput_chart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perhop.analysis import Window
    from perhop.dataset import Dataset
    from perhop.experiments.model import Pictures, Runs

_SOURCE: Final = "ALTQ Package - CBQ Testing, about 1999"
_SCENARIO: Final = "altq-cbq"
_DURING: Final = (5.0, 65.0)
_KILOBIT: Final = 1024
"""TTCP divides by 1024; see the scenario."""

_TCP: Final = (
    "tcp: {congestion_control: reno, sack: false, window: 16 KiB, window_scaling: false, "
    "delayed_ack: 200 ms, min_rto: 1 s, initial_window: 1 packets, limited_transmit: false}"
)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the document's tables.

    Attributes:
        shares: The two classes' shares, in percent of the root or of the class above them.
        flows: What the slow and the fast class carry: "tcp", "udp" or nothing.
        got: What they got, in Kbps as printed.
        borrows: Which class borrows, "slow" or "fast".
        within: A class of this share, in percent, between the root and the two.
        by: What the classifier looks at.
    """

    shares: tuple[int, int]
    flows: tuple[str | None, str | None]
    got: tuple[float | None, float | None]
    borrows: str = ""
    within: int | None = None
    by: str = "port"

    @property
    def name(self) -> str:
        """What its run is called."""
        flows = "-".join(flow or "none" for flow in self.flows)
        more = (f"-borrow-{self.borrows}" if self.borrows else "") + (
            "-protocol" if self.by == "protocol" else ""
        )
        return f"{self.shares[0]}-{self.shares[1]}-{flows}{more}"

    @property
    def label(self) -> str:
        """What it is called in tables."""
        flows = " + ".join(flow.upper() for flow in self.flows if flow)
        alone = "" if all(self.flows) else " alone"
        borrows = f", {self.share(self.borrows)}% borrows" if self.borrows else ""
        above = f" under {self.within}%" if self.within else ""
        by = " by protocol" if self.by == "protocol" else ""
        return f"{self.shares[0]}/{self.shares[1]}{above}{by}, {flows}{alone}{borrows}"

    def share(self, part: str) -> int:
        """The share of the slow or the fast class."""
        return self.shares[part == "fast"]

    def settings(self, *, ideal: bool, root: str = "1 Mbps", rate: str = "10 Mbps") -> list[str]:
        """The scenario's settings for this row, with ideal link sharing or ALTQ's."""
        slow, fast = (self._class(part) for part in ("slow", "fast"))
        classes = f"slow: {slow}, fast: {fast}"
        if self.within is not None:
            outer = f"match: any, bandwidth: {self.within}%, borrow: false"
            rest = (
                f"match: {{dscp: ef}}, bandwidth: {100 - self.within}%, unused: true, borrow: false"
            )
            classes = f"rest: {{{rest}}}, secondary: {{{outer}, classes: {{{classes}}}}}"
        scheduler = "link-sharing" if ideal else "altq-cbq"
        cbq = "" if ideal else f"cbq: {{rate: {root}}}, "
        flows = {
            part: f"{part}: {{from: sender, to: receiver, port: {port}, {_traffic(kind, rate)}}}"
            for part, port, kind in zip(("slow", "fast"), (2000, 3000), self.flows, strict=True)
            if kind
        }
        by = "ideal link sharing" if ideal else "altq-cbq"
        return [
            f'title="{self.label}, by {by}"',
            f"policies.edge={{scheduler: {scheduler}, {cbq}classes: {{{classes}}}}}",
            f"flows={{{', '.join(flows.values())}}}",
            # A shaper of the root's rate stands before the faster wire.
            *([f"links.0.shape={{sender: {{rate: {root}}}}}"] if ideal else []),
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


def _traffic(kind: str, rate: str) -> str:
    return _TCP if kind == "tcp" else f"udp: {{rate: {rate}, size: 1472 B}}"


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


def _throughput(flow: str, window: Window = _DURING) -> Callable[[Dataset], float | None]:
    return lambda dataset: analysis.throughput(dataset, flow, window)


def _values(rows: Sequence[Row], within: float) -> tuple[Value, ...]:
    return tuple(
        Value(
            f"{row.label}: {row.share(part)}% class",
            row.name,
            got * _KILOBIT,
            "bps",
            _throughput(part),
            during=_DURING,
            qualifier="exactly",
            within=within,
            note=f"printed as {got:g} Kbps",
        )
        for row in rows
        for part, got in zip(("slow", "fast"), row.got, strict=True)
        if got is not None
    )


def _cases(rows: Sequence[Row], changes: Mapping[str, tuple[str, ...]]) -> dict[str, Case]:
    """Each row by ALTQ, with each change, and by ideal link sharing."""
    cases = {}
    for row in rows:
        altq = tuple(row.settings(ideal=False))
        cases[row.name] = Case(_SCENARIO, altq)
        ideal = tuple(row.settings(ideal=True))
        cases[f"{row.name}-ideal"] = Case(_SCENARIO, ideal, row.name, "ideal link sharing")
        for number, (change, settings) in enumerate(changes.items(), 1):
            case = Case(_SCENARIO, (*altq, *settings), row.name, change)
            cases[f"{row.name}-{number}"] = case
    return cases


_CLOCK: Final = "policies.edge.cbq.tick=1 ms"
_NO_BUCKET: Final = "policies.edge.cbq.token_bucket=false"

# 1500 bytes are 32 cells, 1696 bytes: 2 Mb/s of IP packets.
_SLOW_WIRE: Final = "links.0.rate=2261 kbps"

_CHANGES: Final = {
    "a tick of 1 ms": (_CLOCK,),
    "no token bucket": (_NO_BUCKET,),
    "packets up to ATM's 9180 B": ("policies.edge.cbq.packet=9180 B",),
}

_BORROWING_CHANGES: Final = {
    "no token bucket": (_NO_BUCKET,),
    "no token bucket, and efficient": (_NO_BUCKET, "policies.edge.cbq.efficient=true"),
    "both, and a wire that ends at 2 Mb/s": (
        _NO_BUCKET,
        "policies.edge.cbq.efficient=true",
        _SLOW_WIRE,
    ),
}


def _side_by_side(rows: Sequence[Row]) -> Callable[[Runs], Sequence[Table]]:
    """Published, ALTQ's and ideal link sharing, and what the root had."""

    def tables(runs: Runs) -> Sequence[Table]:
        lines = []
        for row in rows:
            cells = [row.label]
            for name in (row.name, f"{row.name}-ideal"):
                parts = [
                    part for part, kind in zip(("slow", "fast"), row.flows, strict=True) if kind
                ]
                got = [analysis.throughput(runs[name], part, _DURING) or 0.0 for part in parts]
                cells += [" + ".join(map(text.rate, got)), text.rate(sum(got))]
            printed = [got * _KILOBIT for got in row.got if got is not None]
            cells[1:1] = [" + ".join(map(text.rate, printed)), text.rate(sum(printed))]
            lines.append(tuple(cells))
        heads = ("published", "total", "altq-cbq", "total", "ideal", "total")
        columns = (Column("shares and traffic", "left"), *map(Column, heads))
        note = "The root has 1 Mb/s of IP packets; headers take 2 to 3% of it."
        return [Table("Published, altq-cbq and ideal link sharing", columns, tuple(lines), note)]

    return tables


# The four traces: a root of 10 Mb/s, two flows, the second from 20 s on; the document's times are
# in its pictures.

_TRACES: Final = {
    "tcp-tcp-one-class": (("tcp", "tcp"), "protocol"),
    "udp-tcp-by-protocol": (("udp", "tcp"), "protocol"),
    "tcp-tcp-by-port": (("tcp", "tcp"), "port"),
    "udp-udp-by-port": (("udp", "udp"), "port"),
}
_TIMES: Final = (
    "flows.slow.start=20 s",
    "flows.slow.stop=80 s",
    "flows.fast.stop=60 s",
    "duration=82 s",
)
_BOTH: Final = (25.0, 60.0)

_TRACE_CHANGES: Final = {
    "ideal": "ideal link sharing",
    "1M": "a root of 1 Mb/s",
    "tick-20ms": "a tick of 20 ms",
    "tick-1ms": "a tick of 1 ms",
    "starved": "a driver that is not asked again, two packets at once",
}


def _trace_cases() -> dict[str, Case]:
    cases = {}
    for name, (flows, by) in _TRACES.items():
        row = Row((20, 80), flows, (None, None), by=by)
        altq = (*row.settings(ideal=False, root="10 Mbps", rate="20 Mbps"), *_TIMES)
        settings: dict[str, tuple[str, ...]] = {
            "ideal": (*row.settings(ideal=True, root="10 Mbps", rate="20 Mbps"), *_TIMES),
            "1M": (*row.settings(ideal=False, root="1 Mbps", rate="20 Mbps"), *_TIMES),
            "tick-20ms": (*altq, "policies.edge.cbq.tick=20 ms"),
            "tick-1ms": (*altq, _CLOCK),
            "starved": (
                *altq,
                _NO_BUCKET,
                "policies.edge.cbq.kick=false",
                "policies.edge.cbq.maxburst=2",
            ),
        }
        cases[name] = Case(_SCENARIO, altq)
        for change, words in _TRACE_CHANGES.items():
            cases[f"{name}-{change}"] = Case(_SCENARIO, settings[change], name, words)
    return cases


def _trace_values() -> tuple[Value, ...]:
    return tuple(
        Value(
            f"total, {name.replace('-', ' ')}",
            name,
            1.8e6,
            "bps",
            _throughput("total", _BOTH),
            during=_BOTH,
            within=0.2,
            note="of a root of 10 Mb/s",
        )
        for name in _TRACES
    )


def _trace_charts(runs: Runs) -> Pictures:
    return {name: throughput_chart(runs[name], interval_s=0.5, capacity=False) for name in _TRACES}


_BORROW_ACCOUNT: Final = """\
Ideal link sharing gives the class that borrows what the other leaves, and never more than the
root: both classes keep their shares. So does ALTQ's model with the defaults of FreeBSD of 2000,
whose token bucket holds the driver to the root's rate. Versions of 1999 had none. Without it, and
with the flag that lets a class send where all are over their limits (efficient), the class that
borrows sends over the root whatever it is offered, as in the document. There something ended it at
2.0 Mb/s; with a wire of that rate the class that is alone comes to 4% below the published
figure. That the other class then falls below its share as well this does not explain.
"""

_TRACE_ACCOUNT: Final = """\
The document's machine never sent more than about 1.8 Mb/s below a root of 10 Mb/s, whoever sent,
and was right below one of 1 Mb/s; here a root of 1 Mb/s is right, too. What the knobs say about its
clock: with a tick of 10 ms a TCP flow that is alone in its class gets 5.8 of its 8 Mb/s, because a
class that sleeps is woken two ticks later at the earliest and then has a few packets' worth; with
20 ms half of that, with 1 ms all. So a slow clock caps TCP in proportion to the tick: 1.8 Mb/s
would be a tick of some 30 ms, or of 20 ms where a class has two packets at once and nobody asks the
driver again. UDP is not capped in this way, because each arrival asks the driver. That UDP was
capped as well, and at 2.0 Mb/s where borrowing let it exceed the root, speaks for something below
CBQ that took packets at ticks only: 1.8 Mb/s is 2250 bytes a tick, three packets in two of 10 ms.
"""

_BASE: Final = gallery.load(_SCENARIO)

EXPERIMENTS: Final = (
    Experiment(
        name="altq-cbq",
        title=_BASE.title,
        source=_SOURCE,
        about=_BASE.description,
        cases=_cases(ROWS, _CHANGES),
        values=_values(ROWS, 0.05),
        tables=_side_by_side(ROWS),
        pictures=lambda runs: {
            "tcp-udp": throughput_chart(runs["20-80-tcp-udp"], interval_s=1.0, capacity=False),
        },
    ),
    Experiment(
        name="altq-cbq-borrow",
        title="ALTQ's CBQ with borrowing",
        source=_SOURCE,
        about=(
            "As altq-cbq; one class may borrow, from the root or from a class between. What the "
            "document saw is a fault of that implementation: shares are lost and the root exceeded."
        ),
        cases=_cases(BORROWING, _BORROWING_CHANGES),
        values=_values(BORROWING, 0.2),
        account=_BORROW_ACCOUNT,
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
    Experiment(
        name="altq-cbq-traces",
        title="ALTQ's CBQ below a root of 10 Mb/s",
        source=_SOURCE,
        about=(
            "As altq-cbq with 20% and 80% of 10 Mb/s and two flows, of which the second starts at "
            "20 s here: two TCP flows in the fast class; TCP and UDP by protocol; two TCP flows, "
            "and two UDP flows, by port. The document's traces are pictures; its text says that in "
            "all of them the maximum is nearly 1.8 Mb/s, that one flow alone takes all of it, and "
            "that the classes then influence each other."
        ),
        cases=_trace_cases(),
        values=_trace_values(),
        account=_TRACE_ACCOUNT,
        pictures=_trace_charts,
    ),
)
