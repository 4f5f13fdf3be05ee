"""Agreement of runs: their differences, and the tolerances."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Final

from perhop.analysis.compared import ComparedQuantity, RunComparison
from perhop.analysis.throughput import TOTAL

TOLERANCES: Final[Mapping[str, float]] = {
    "share": 0.05,
    "goodput": 0.05,
    "rtt": 0.10,
    "codepoint": 0.01,
    "ecn": 0.01,
    "loss": 0.01,
    "order": 0.01,
    "queueing": 0.25,
    "call": 0.10,
    "application": 0.10,
}
"""Tolerances between runs of one scenario: of the share that a flow has of a phase's goodput
(0.05 are 5 points), in the goodput of a phase, in median round-trip times, of flows smoothed ones,
of the shares of packets that arrive with a code point or an ECN field, are lost, or come out of
order (points), in the queueing delay of datagrams in a phase, in scores and mouth-to-ear delays of
calls, and in what clients of applications get: median completion and page load times, start-up
times and bit rates of video (0.05 are 5%)."""

LEAST_QUEUEING_S: Final = 0.005
"""A difference in queueing delays, in seconds, that is never judged: hosts that share a processor
delay packets by as much."""

POINTS: Final = frozenset({"share", "codepoint", "ecn", "loss", "order"})
"""The kinds whose differences are points of a share, not relative."""

_CHANCE: Final = 3.0
"""Standard errors of the difference between two shares of packets that chance may explain."""

_MEASURES: Final = {
    "call": {"mos": "MOS", "mouth_to_ear": "mouth to ear"},
    "application": {
        "completion_median": "median completion",
        "page_load_median": "median page load",
        "startup": "start-up",
        "bitrate": "bit rate",
    },
}
"""Quantities of flows by kind, and their names."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """One quantity in all runs, and its difference.

    Attributes:
        kind: A key of `TOLERANCES`.
        name: The name of the quantity, for people.
        beside: Its value in each run.
        difference: The greatest value less the least: of shares, and of queueing in seconds; of
            others relative to the first run. None if fewer than two runs have a value.
        tolerance: The largest difference of runs that agree.
    """

    kind: str
    name: str
    beside: ComparedQuantity
    difference: float | None
    tolerance: float

    @property
    def ok(self) -> bool:
        """True if the runs agree, or have nothing to compare."""
        # Differences of numbers that look like the tolerance are not to exceed it by rounding.
        return self.difference is None or self.difference <= self.tolerance + 1e-9


def agreement(
    side_by_side: RunComparison, tolerances: Mapping[str, float] | None = None
) -> list[Deviation]:
    """Return the deviations of runs, of each kind in `TOLERANCES`.

    Lost, marked and late packets are few and random. Their shares may differ by what chance
    explains in so many packets, if that is more than the tolerance. TCP causes most of its losses
    and marks itself, in bursts: they may be twice those of the first run. Code points
    with which some of the packets arrive in each run may differ by one packet.

    Args:
        side_by_side: The runs. Phases in which no flow sends are left out. A flow's share is looked
            at where there is more than one flow; its own round-trip time, as its sender smooths
            it, beside those of pings.
        tolerances: Tolerances in place of `TOLERANCES`, by kind.
    """
    allowed = {**TOLERANCES, **(tolerances or {})}
    return [
        Deviation(
            kind,
            ", ".join(filter(None, (name, part))),
            beside,
            _apart(beside, relative=kind not in {*POINTS, "queueing"}),
            _tolerance(kind, beside, allowed[kind], of_tcp=name in side_by_side.tcp),
        )
        for kind, name, part, beside in _quantities(side_by_side)
    ]


def _tolerance(kind: str, beside: ComparedQuantity, allowed: float, *, of_tcp: bool) -> float:
    """Return the largest difference of a quantity in runs that agree."""
    first = next((value for value in beside.values if value is not None), 0.0)
    if kind == "queueing":
        return max(allowed * first, LEAST_QUEUEING_S)
    if kind in ("loss", "ecn") and of_tcp:
        # Of the packets that are not marked, it is the rest that may be twice as many.
        return max(allowed, min(first, 1 - first))
    if kind == "codepoint" and all(value is None or 0 < value < 1 for value in beside.values):
        # Of few packets, one alone may be more than the tolerance.
        return max([allowed, *(1 / count for count in beside.packets if count)])
    return max(allowed, _chance(beside)) if kind in ("loss", "ecn", "order") else allowed


def _chance(beside: ComparedQuantity) -> float:
    """Return the difference between the extremes of shares that chance may explain."""
    pairs = zip(beside.values, beside.packets, strict=False)
    known = sorted((value, count) for value, count in pairs if value is not None and count)
    if len(known) < 2:
        return 0.0
    (low, few), (high, many) = known[0], known[-1]
    pooled = (low * few + high * many) / (few + many)
    return _CHANCE * sqrt(pooled * (1 - pooled) * (1 / few + 1 / many))


def _quantities(found: RunComparison) -> Iterator[tuple[str, str, str, ComparedQuantity]]:
    """Yield the kind of each quantity, what it is of, which part of it, and its values."""
    for phase in found.phases:
        if not phase.sending:
            continue  # the rest of a flow is what waits in its host
        when = f"{phase.window[0]:g}\N{EN DASH}{phase.window[1]:g} s"
        flows = [flow for flow in phase.share if flow != TOTAL]
        for flow in flows:
            if len(flows) > 1 and any(phase.throughput[flow].values):
                yield "share", flow, when, phase.share[flow]
        if any(phase.throughput[TOTAL].values):
            yield "goodput", "total", when, phase.throughput[TOTAL]
        for flow, delays in phase.queueing.items():
            yield "queueing", flow, when, delays
    for traffic, median in ((found.flows, "srtt_median"), (found.pings, "rtt_median")):
        for name, quantities in traffic.items():
            if median in quantities:
                yield "rtt", name, "", quantities[median]
    for name, shares in found.codepoints.items():
        for path, share in shares.items():
            yield "codepoint", name, str(path), share
    for name, fields in found.ecn.items():
        for field, share in fields.items():
            yield "ecn", name, str(field), share
    for traffic in (found.flows, found.pings):
        for name, quantities in traffic.items():
            for kind, quantity in (("loss", "loss"), ("order", "reordered")):
                if quantity in quantities:
                    yield kind, name, "", quantities[quantity]
    for name, quantities in found.flows.items():
        for kind, measures in _MEASURES.items():
            for value, words in measures.items():
                if value in quantities:
                    yield kind, name, words, quantities[value]


def _apart(beside: ComparedQuantity, *, relative: bool) -> float | None:
    values = [value for value in beside.values if value is not None]
    if len(values) < 2:
        return None
    apart = max(values) - min(values)
    if not relative:
        return apart
    base = values[0]
    if not base:
        return None if not apart else float("inf")
    return apart / base
