"""Responsiveness under working conditions, and the increase of round-trip times under load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from perhop.analysis.completions import exchanges
from perhop.analysis.distributions import histogram, rtt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perhop.analysis.windows import Window
    from perhop.dataset import Dataset

_KEPT: Final = 0.95
"""Share of the samples, the smallest ones, in a trimmed mean."""

_GRADES: Final = ((0.005, "A+"), (0.03, "A"), (0.06, "B"), (0.2, "C"), (0.4, "D"))
_RATINGS: Final = ((300, "poor"), (1000, "fair"), (6000, "good"))


@dataclass(frozen=True, slots=True)
class Responsiveness:
    """Responsiveness in round trips per minute (RPM).

    Attributes:
        foreign: That of calls on connections of their own.
        loaded: That of the connections that load the path.
        rpm: The mean of both.
    """

    foreign: float
    loaded: float

    @property
    def rpm(self) -> float:
        """The mean of both."""
        return (self.foreign + self.loaded) / 2

    @property
    def rating(self) -> str:
        """The category of draft-ietf-ippm-responsiveness: poor, fair, good or excellent."""
        return next((name for limit, name in _RATINGS if self.rpm < limit), "excellent")


def responsiveness(
    dataset: Dataset, probes: str, load: Sequence[str], window: Window | None = None
) -> Responsiveness | None:
    """Return the responsiveness by draft-ietf-ippm-responsiveness-06, the case without TLS.

    A trimmed mean is that of the smallest 95% of the samples. A call on a new connection takes two
    round trips, the handshake and the call, so that the mean of both is half of its completion
    time. This holds for TCP without TLS, and for QUIC, whose handshake contains that of TLS
    (RFC 9001, section 4). The loaded round trips are the smoothed round-trip times of the load's
    senders, which the draft permits where calls cannot share the connections of the load. All load
    flows have equal weight.

    Args:
        dataset: The run.
        probes: A flow with `rpc` over new connections.
        load: TCP or QUIC flows that load the path.
        window: Seconds of the run; the whole run by default.

    Returns:
        None if no call ended in the window, or a load flow has no sample.
    """
    calls = exchanges(dataset, probes, window).filter(pl.col("opened") > 0)["completion_s"]
    loaded: list[tuple[float, float]] = []
    for flow in load:
        bins = histogram(dataset, flow, "srtt", window)
        if bins is None or bins.is_empty():
            return None
        total = bins["samples"].sum()
        middle = (pl.col("low_s") + pl.col("high_s")) / 2
        loaded += bins.select(middle, pl.col("samples") / total).iter_rows()
    if calls.is_empty() or not loaded:
        return None
    foreign = trimmed_mean((took / 2, 1.0) for took in calls)
    return Responsiveness(60 / foreign, 60 / trimmed_mean(loaded))


def trimmed_mean(samples: Iterable[tuple[float, float]]) -> float:
    """Return the mean of the smallest 95% of samples, which are values with their weights."""
    ordered = sorted(samples)
    total = left = _KEPT * sum(weight for _, weight in ordered)
    added = 0.0
    for value, weight in ordered:
        taken = min(weight, left)
        added += value * taken
        left -= taken
    return added / total


@dataclass(frozen=True, slots=True)
class Bufferbloat:
    """Mean round-trip times of a ping before the first flow starts, and under load, in seconds."""

    idle: float
    loaded: float

    @property
    def increase(self) -> float:
        """The increase under load in seconds."""
        return self.loaded - self.idle

    @property
    def grade(self) -> str:
        """The grade of DSLReports: below 5 ms A+, 30 ms A, 60 ms B, 200 ms C, 400 ms D, else F."""
        return next((grade for limit, grade in _GRADES if self.increase < limit), "F")


def bufferbloat(dataset: Dataset, ping: str, window: Window | None = None) -> Bufferbloat | None:
    """Return the increase of a ping's mean round-trip time under load.

    Args:
        dataset: The run.
        ping: The ping, of which requests were sent before the first flow started.
        window: Seconds of the run under load; the time before the first flow does not count.

    Returns:
        None without replies in one of both times.
    """
    first = min((flow.starts[0] for flow in dataset.scenario.flows.values()), default=0) / 1e12
    begins, ends = window or (0.0, dataset.covered_s)
    idle, loaded = rtt(dataset, ping, (0.0, first)), rtt(dataset, ping, (max(begins, first), ends))
    return None if idle is None or loaded is None else Bufferbloat(idle.mean, loaded.mean)
