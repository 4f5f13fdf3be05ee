"""Metrics of `expect` and `published`, with their units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from perhop.scenario.model.quantities import ANY_COUNT, ANY_DURATION, ANY_RATE, ANY_SHARE

if TYPE_CHECKING:
    from perhop.scenario.model.text import Text

MetricName = Literal[
    "throughput",
    "rtt_min",
    "rtt_mean",
    "rtt_median",
    "rtt_p95",
    "rtt_p99",
    "rtt_max",
    "owd_min",
    "owd_mean",
    "owd_median",
    "owd_p95",
    "owd_p99",
    "owd_max",
    "jitter",
    "loss",
    "reordered",
    "duplicates",
    "retransmits",
    "sack_share",
    "settling",
    "dscp_kept",
]
Quantity = Literal["rate", "duration", "share", "count"]
TargetKind = Literal["flow", "ping", "total"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that a run yields for a flow or a ping.

    Attributes:
        name: Its key in a scenario.
        label: Its name in a sentence.
        quantity: Its unit: rates in bits per second, durations in picoseconds, shares in parts per
            billion, counts as they are.
        targets: Objects that it is measured of; "total" is the sum over all flows.
    """

    name: MetricName
    label: str
    quantity: Quantity
    targets: tuple[TargetKind, ...]

    def format(self, value: int) -> str:
        """`value` as people write it: ``6.5 Mbps``."""
        return str(_WRITTEN[self.quantity].format(value))

    def write(self, value: int) -> object:
        """`value` as a file says it: text, or a whole number for a count."""
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
    "count": ANY_COUNT,
}

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("throughput", "throughput", "rate", ("flow", "total")),
        Metric("rtt_min", "minimum RTT", "duration", ("ping",)),
        Metric("rtt_mean", "mean RTT", "duration", ("ping",)),
        Metric("rtt_median", "median RTT", "duration", ("ping",)),
        Metric("rtt_p95", "95th percentile of the RTT", "duration", ("ping",)),
        Metric("rtt_p99", "99th percentile of the RTT", "duration", ("ping",)),
        Metric("rtt_max", "maximum RTT", "duration", ("ping",)),
        Metric("owd_min", "minimum one-way delay", "duration", ("flow",)),
        Metric("owd_mean", "mean one-way delay", "duration", ("flow",)),
        Metric("owd_median", "median one-way delay", "duration", ("flow",)),
        Metric("owd_p95", "95th percentile of the one-way delay", "duration", ("flow",)),
        Metric("owd_p99", "99th percentile of the one-way delay", "duration", ("flow",)),
        Metric("owd_max", "maximum one-way delay", "duration", ("flow",)),
        Metric("jitter", "jitter", "duration", ("flow",)),
        Metric("loss", "loss", "share", ("flow", "ping")),
        Metric("reordered", "reordered share", "share", ("flow",)),
        Metric("duplicates", "duplicates", "count", ("flow",)),
        Metric("retransmits", "retransmits", "count", ("flow",)),
        Metric("sack_share", "share of SACKs", "share", ("flow",)),
        Metric("settling", "settling time", "duration", ("flow",)),
        Metric("dscp_kept", "share of kept DSCPs", "share", ("flow", "ping")),
    )
}
"""Every metric by its key."""
