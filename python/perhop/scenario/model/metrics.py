"""Metrics of `expect` and `published`, with their units and their targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from perhop.hints import nearest
from perhop.scenario.model.quantities import (
    ANY_COUNT,
    ANY_DURATION,
    ANY_RATE,
    ANY_RATIO,
    ANY_SHARE,
    ANY_SIZE,
)
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perhop.scenario.model.text import Text

Quantity = Literal["rate", "duration", "share", "size", "count", "ratio"]
TargetKind = Literal["flow", "ping", "link", "channel", "tunnel", "total"]
FlowKind = Literal["tcp", "udp", "quic", "voice", "game"]

KINDS: tuple[FlowKind, ...] = ("tcp", "udp", "quic", "voice", "game")
"""The keys of a flow that say its kind, of which it has one."""

DATAGRAMS: tuple[FlowKind, ...] = ("udp", "voice", "game")
"""The kinds of flows that send datagrams."""

RELIABLE: tuple[FlowKind, ...] = ("tcp", "quic")
"""The kinds of flows whose transport repairs losses."""

LINK: Literal["link"] = "link"
"""The kind of target of metrics of a directed link."""

CLASS = "class_"
"""The key that limits a metric of a link to a class."""

CAUSE = "cause"
"""The key that limits drops to a cause."""

ENTRY = "entry"
"""The key that limits a metric of a tunnel to the direction that begins at a node."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that a run yields for a flow, a ping, a link, a radio channel or a tunnel.

    Attributes:
        name: Its key in a scenario.
        label: Its name in a sentence.
        quantity: Its unit: rates in bits per second, durations in picoseconds, shares in parts per
            billion, ratios in parts per million, sizes in bytes, counts as they are.
        targets: Objects that it is measured of; "total" is the sum over all flows.
        description: Its meaning, for the schema.
        kinds: The kinds of flows that have it.
        applications: The applications of which a flow needs one to have it; none for any flow.
        several: The number of targets, at least and at most.
        takes: Further keys that it may have.
        needs: Those of them that it must have.
        cuts: True if it is a statistic of a histogram, which is cut at the edges of windows.
    """

    name: str
    label: str
    quantity: Quantity
    targets: tuple[TargetKind, ...]
    description: str
    kinds: tuple[FlowKind, ...] = KINDS
    applications: tuple[str, ...] = ()
    several: tuple[int, int] = (1, 1)
    takes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    cuts: bool = False

    def format(self, value: int) -> str:
        """`value` as people write it: ``6.5 Mbps``."""
        return str(_WRITTEN[self.quantity].format(value))

    def write(self, value: int) -> object:
        """`value` as a file says it: text, or a number for a count or a ratio."""
        return _WRITTEN[self.quantity].format(value)

    def validate(self, value: object) -> int:
        """The value that a file says; ValueError says what is wrong."""
        return int(_WRITTEN[self.quantity].validate(value))

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of what a file may say."""
        return dict(_WRITTEN[self.quantity].schema)


_WRITTEN: dict[Quantity, Text] = {
    "rate": ANY_RATE,
    "duration": ANY_DURATION,
    "share": ANY_SHARE,
    "size": ANY_SIZE,
    "count": ANY_COUNT,
    "ratio": ANY_RATIO,
}

_STATISTICS = {
    "min": "minimum",
    "mean": "mean",
    "median": "median",
    "p95": "95th percentile",
    "p99": "99th percentile",
    "max": "maximum",
}


def _statistics(
    name: str,
    label: str,
    target: TargetKind,
    description: str,
    *,
    but: str = "",
    quantity: Quantity = "duration",
    **more: Any,
) -> list[Metric]:
    """The statistics of a distribution, as a metric each."""
    return [
        Metric(
            f"{name}_{key}",
            f"{words} {label}"
            if key in ("min", "mean", "median", "max")
            else f"{words} of the {label}",
            quantity,
            (target,),
            f"The {words} of {description}.",
            **more,
        )
        for key, words in _STATISTICS.items()
        if key != but
    ]


def _of_calls(
    name: str, label: str, quantity: Quantity, description: str, worst: str
) -> list[Metric]:
    """A metric of calls: the mean of all, and that of the worst one."""
    mean = f"The {description} of this flow's calls: the mean of all."
    least = f"The {description} of the worst call of this flow: the {worst} of all."
    flow: tuple[TargetKind, ...] = ("flow",)
    voice: tuple[FlowKind, ...] = ("voice",)
    return [
        Metric(name, label, quantity, flow, mean, voice),
        Metric(f"{name}_worst", f"{label} of the worst call", quantity, flow, least, voice),
    ]


_OF_TUNNELS: tuple[tuple[str, str, Quantity, str], ...] = (
    (
        "tunnel_rate",
        "rate behind the tunnel",
        "rate",
        "The inner IP packets that leave this tunnel, in bits per second.",
    ),
    (
        "tunnel_overhead",
        "overhead",
        "share",
        "The share of the tunnel's headers and padding in the bytes of its outer IP packets.",
    ),
    (
        "tunnel_loss",
        "loss in the tunnel",
        "share",
        "The share of this tunnel's outer packets whose inner packets do not leave it: lost on "
        "the way, dropped at the exit, or on the way at the end of the window.",
    ),
    (
        "tunnel_drops",
        "drops at the ends",
        "count",
        "The packets that the ends of this tunnel drop: too long to enter, without a route for "
        "the outer packet, or with an ECN error at the exit (RFC 6040).",
    ),
)

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "throughput",
            "throughput",
            "rate",
            ("flow", "total"),
            "The goodput of this flow, or of ``total``.",
        ),
        *_statistics("rtt", "RTT", "ping", "the round-trip time of this ping"),
        *_statistics(
            "srtt",
            "smoothed RTT",
            "flow",
            "the smoothed round-trip time of this TCP or QUIC flow's senders (RFC 6298, RFC 9002)",
            kinds=RELIABLE,
            cuts=True,
        ),
        *_statistics(
            "owd", "one-way delay", "flow", "the one-way delay of this flow's data", cuts=True
        ),
        *_statistics(
            "queueing",
            "queueing delay",
            "flow",
            "the one-way delay of this flow's data above the smallest one of the run",
            but="min",
            cuts=True,
        ),
        Metric(
            "jitter",
            "jitter",
            "duration",
            ("flow",),
            "The interarrival jitter of this UDP flow (RFC 3550).",
            kinds=DATAGRAMS,
        ),
        Metric(
            "loss",
            "loss",
            "share",
            ("flow", "ping"),
            "The share of lost packets of this flow or ping.",
        ),
        Metric(
            "reordered",
            "reordered share",
            "share",
            ("flow",),
            "The share of this flow's packets that arrived after a later one (RFC 4737).",
        ),
        Metric(
            "duplicates",
            "duplicates",
            "count",
            ("flow",),
            "The number of duplicates of this UDP flow.",
            kinds=DATAGRAMS,
        ),
        Metric(
            "retransmits",
            "retransmits",
            "count",
            ("flow",),
            "The number of this flow's packets with data that was sent before: segments of TCP, or "
            "packets of QUIC.",
            kinds=RELIABLE,
        ),
        Metric(
            "sack_share",
            "share of SACKs",
            "share",
            ("flow",),
            "The share of this TCP flow's acknowledgements that are selective.",
            kinds=("tcp",),
        ),
        Metric(
            "settling",
            "settling time",
            "duration",
            ("flow",),
            "The time from the start of `during` until this flow's throughput stays near its "
            "level.",
        ),
        Metric(
            "completion",
            "completion time",
            "duration",
            ("flow",),
            "The time from the start of this flow until the `volume` of all its streams had "
            "arrived.",
        ),
        *_statistics(
            "completion",
            "completion time",
            "flow",
            "the time from a request of this flow's `transfers` or `rpc` to the end of its "
            "response",
            applications=("transfers", "rpc"),
        ),
        *_statistics(
            "slowdown",
            "slowdown",
            "flow",
            "the completion time of this flow's `transfers` or `rpc`, divided by that on the empty "
            "path",
            quantity="ratio",
            applications=("transfers", "rpc"),
        ),
        *_statistics(
            "page_load",
            "page load time",
            "flow",
            "the load time of this flow's pages",
            applications=("web",),
        ),
        Metric(
            "startup",
            "start-up time",
            "duration",
            ("flow",),
            "The mean time from the start of this flow's videos to that of their playback.",
            applications=("video",),
        ),
        Metric(
            "stalls",
            "number of stalls",
            "count",
            ("flow",),
            "The number of stalls of this flow's videos.",
            applications=("video",),
        ),
        Metric(
            "stall_time",
            "time in stalls",
            "duration",
            ("flow",),
            "The time that this flow's videos spent in stalls, in sum.",
            applications=("video",),
        ),
        Metric(
            "bitrate",
            "mean bit rate",
            "rate",
            ("flow",),
            "The mean bit rate of the segments of this flow's videos.",
            applications=("video",),
        ),
        Metric(
            "switches",
            "switches of the bit rate",
            "count",
            ("flow",),
            "The number of changes of the bit rate between segments of this flow's videos.",
            applications=("video",),
        ),
        Metric(
            "dscp_kept",
            "share of kept DSCPs",
            "share",
            ("flow", "ping"),
            "The share of packets of this flow, or requests of this ping, that arrived with the "
            "DSCP with which they were sent.",
        ),
        Metric(
            "fairness",
            "fairness",
            "share",
            ("flow",),
            "Jain's index of the goodputs of these flows, or of the streams of one flow.",
            several=(1, 1000),
        ),
        Metric(
            "ratio",
            "ratio",
            "ratio",
            ("flow", "ping"),
            "The metric `of` of the first of these flows or pings, divided by that of the second.",
            several=(2, 2),
            takes=("of",),
        ),
        Metric(
            "bufferbloat",
            "increase of the RTT under load",
            "duration",
            ("ping",),
            "The mean round-trip time of this ping, above that before the first flow starts.",
        ),
        Metric(
            "rpm",
            "responsiveness (RPM)",
            "ratio",
            ("flow",),
            "Round trips per minute under load by draft-ietf-ippm-responsiveness: of a flow with "
            "`rpc` over new connections, and the TCP or QUIC flows that load the path.",
            kinds=RELIABLE,
            several=(2, 1000),
            cuts=True,
        ),
        *_of_calls("mos", "MOS", "ratio", "mean opinion score by ITU-T G.107", "lowest"),
        *_of_calls("r_factor", "R-factor", "ratio", "rating factor by ITU-T G.107", "lowest"),
        *_of_calls(
            "mouth_to_ear", "mouth-to-ear delay", "duration", "mouth-to-ear delay", "greatest"
        ),
        *_of_calls(
            "late",
            "share of late packets",
            "share",
            "share of packets that arrived after their time of playout",
            "greatest",
        ),
        Metric(
            "utilisation",
            "utilisation",
            "share",
            ("link", "channel"),
            "The share of the time that this directed link, or radio channel, is busy; of a cell, "
            "the share of the resource blocks in its busier direction.",
        ),
        Metric(
            "airtime",
            "share of the channel",
            "share",
            ("link",),
            "The share of the time of its radio channel, or of the resource blocks of its "
            "direction in a cell, that this directed link uses.",
        ),
        Metric(
            "retries",
            "share of retransmitted frames",
            "share",
            ("link",),
            "The share of retransmissions in the frames, or transport blocks in a cell, that this "
            "directed link sends on its radio channel.",
        ),
        Metric(
            "sent_rate",
            "rate",
            "rate",
            ("link",),
            "The IP packets that this directed link, or a class of it, sends, in bits per second.",
            takes=(CLASS,),
        ),
        Metric(
            "share",
            "share",
            "share",
            ("link",),
            "The share of a class in the bytes that this directed link sends.",
            takes=(CLASS,),
            needs=(CLASS,),
        ),
        Metric(
            "drops",
            "drops",
            "count",
            ("link",),
            "The packets that the queue of this directed link, or of a class of it, drops.",
            takes=(CLASS, CAUSE),
        ),
        Metric(
            "drop_share",
            "share of drops",
            "share",
            ("link",),
            "The share of drops in the packets that leave the queue of this directed link, or of a "
            "class of it.",
            takes=(CLASS, CAUSE),
        ),
        Metric(
            "marks",
            "marks",
            "count",
            ("link",),
            "The packets that this directed link, or a class of it, marks with congestion "
            "experienced.",
            takes=(CLASS,),
        ),
        Metric(
            "backlog_mean",
            "mean backlog",
            "size",
            ("link",),
            "The mean of the bytes that wait for this directed link, or in a class of it, at the "
            "end of each report interval.",
            takes=(CLASS,),
        ),
        Metric(
            "backlog_max",
            "maximum backlog",
            "size",
            ("link",),
            "The maximum of the bytes that wait for this directed link, or in a class of it, at "
            "the end of each report interval.",
            takes=(CLASS,),
        ),
        *(
            Metric(name, label, quantity, ("tunnel",), description, takes=(ENTRY,))
            for name, label, quantity, description in _OF_TUNNELS
        ),
    )
}
"""Every metric by its key."""

_DESCRIBED = "docs/scenario.md describes all metrics under Results"


def metric_hint(name: object, beside: Iterable[str] = ()) -> str:
    """Return the metrics nearest to a name that is none, and where all are described.

    Args:
        name: The name, which may begin those of several metrics: `page_load`.
        beside: Metrics that are not meant.
    """
    known = [metric for metric in METRICS if metric not in beside]
    if near := nearest(name, known):
        *others, last = map(quote, near)
        meant = f"{', '.join(others)} or {last}" if others else last
        return f"did you mean {meant}? {_DESCRIBED}"
    return f"there are metrics such as `throughput`, `loss` and `rtt_p99`; {_DESCRIBED}"


CALLS = frozenset(metric.name for metric in METRICS.values() if metric.kinds == ("voice",))
"""Metrics of flows with calls."""

RADIO = frozenset({"airtime", "retries"})
"""Metrics of directed links on radio channels."""

SCORES = frozenset(name for name in CALLS if name.startswith(("mos", "r_factor")))
"""Those of them that need impairment factors of the codec."""
