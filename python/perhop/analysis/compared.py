"""What a comparison of runs has."""

from dataclasses import dataclass, field
from typing import Any, Final

from perhop.analysis.windows import Window
from perhop.displays import settings, show
from perhop.scenario import format_dscp


@dataclass(frozen=True, slots=True)
class ComparedQuantity:
    """One quantity in every run.

    Attributes:
        unit: "bps", "s", "share" (0 to 1) or "packets".
        values: The value in each run; None if it is undefined or was not measured.
        packets: The number of packets of which a share is, in each run; empty if it is of no
            packets.
    """

    unit: str
    values: tuple[float | None, ...]
    packets: tuple[float | None, ...] = ()

    @property
    def ratios(self) -> tuple[float | None, ...]:
        """Each value divided by the first; None if one of them is missing, or the first is zero."""
        first = self.values[0]
        return tuple(None if value is None or not first else value / first for value in self.values)


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that differs between runs: its dotted path, and each run's value.

    A value is None in a run that does not have it.
    """

    path: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ComparedPhase:
    """A phase in every run: by flow, and for "total", the goodput, and its share of the total.

    `queueing` is the queueing delay of each flow of datagrams, as `queueing_in` defines it.
    Without `sending`, no flow sends in it: what arrives is the rest of flows that have stopped.
    """

    window: Window
    throughput: dict[str, ComparedQuantity]
    share: dict[str, ComparedQuantity]
    sending: bool = True
    queueing: dict[str, ComparedQuantity] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, order=True)
class CodePointPath:
    """The host at which packets arrived, and their code points (0 to 63) as sent and there."""

    node: str
    sent: int
    arrived: int

    def __str__(self) -> str:
        """Return ``ef as be at cloud``."""
        return f"{format_dscp(self.sent)} as {format_dscp(self.arrived)} at {self.node}"


_FIELDS: Final = ("Not-ECT", "ECT(1)", "ECT(0)", "CE")


@dataclass(frozen=True, slots=True, order=True)
class EcnPath:
    """The host at which packets arrived, and their ECN fields (0 to 3) as sent and there.

    `sent` is -1 for TCP and QUIC, which send data with ECT and some other packets without.
    """

    node: str
    sent: int
    arrived: int

    def __str__(self) -> str:
        """Return ``ECT(0) as CE at cloud``, or ``CE at cloud``."""
        as_sent = "" if self.sent < 0 else f"{_FIELDS[self.sent]} as "
        return f"{as_sent}{_FIELDS[self.arrived]} at {self.node}"


@dataclass(frozen=True, slots=True, repr=False)
class RunComparison:
    """A comparison of runs, in the order in which they were given.

    Attributes:
        names: A short distinct name of each run.
        differences: The differences between their scenarios, engines and seeds.
        covered_s: The part of the scenario that all runs cover; nothing after it is compared.
        phases: The phases of the first run.
        flows: By flow and quantity: `throughput` while active, `loss`, `retransmits`, `reordered`
            (the share of datagrams that came out of order), `rtt_median`,
            `rtt_p99`, `srtt_median`, `srtt_p99`, `owd_median`, `owd_p99`, `completion`, `mos`,
            `mouth_to_ear`, `completion_median`, `completion_p95`, `page_load_median`,
            `page_load_p95`, `startup`, `bitrate`, `stall_time`.
        pings: By ping and quantity: `loss`, `rtt_median`, `rtt_p95`, `rtt_p99`.
        classes: By directed link and class, the `share` of the bytes that the link's end sent, and
            the packets that it `dropped`. Links with a single class in one run are left out.
        codepoints: By flow or ping, the shares of its packets by code points: of those that arrived
            at a host and were sent with one code point, those that had one when they arrived.
        ecn: The same by ECN field, of flows and pings of which one packet had one in a run.
        tcp: The flows whose senders retransmit what is lost: TCP and QUIC.
    """

    names: tuple[str, ...]
    differences: tuple[Difference, ...]
    covered_s: float
    phases: tuple[ComparedPhase, ...]
    flows: dict[str, dict[str, ComparedQuantity]]
    pings: dict[str, dict[str, ComparedQuantity]]
    classes: dict[str, dict[str, dict[str, ComparedQuantity]]]
    codepoints: dict[str, dict[CodePointPath, ComparedQuantity]]
    ecn: dict[str, dict[EcnPath, ComparedQuantity]]
    tcp: frozenset[str]

    def __repr__(self) -> str:
        """Return ``<RunComparison of 1%, 5%: 3 flows, 1 difference>``."""
        parts = {"flow": self.flows, "ping": self.pings, "difference": self.differences}
        counts = (f"{len(each)} {kind}{'s' * (len(each) != 1)}" for kind, each in parts.items())
        return f"<RunComparison of {', '.join(self.names)}: {', '.join(counts)}>"

    def _repr_html_(self) -> str:
        """Return what notebooks show: the differences of the runs, and each quantity in each."""
        differences = ((d.path, *(_shown(value) for value in d.values)) for d in self.differences)
        quantities = (
            (f"{name} {kind} ({quantity.unit})", *map(_shown, quantity.values))
            for part in (self.flows, self.pings)
            for name, quantities in part.items()
            for kind, quantity in quantities.items()
            if any(value is not None for value in quantity.values)
        )
        return show(
            repr(self).strip("<>"),
            (("setting", *self.names), differences),
            (("quantity", *self.names), quantities),
        )


def _shown(value: object) -> str:
    match value:
        case None:
            return "\N{EN DASH}"
        case float():
            return f"{value:.4g}"
        case _:
            return settings(value)
