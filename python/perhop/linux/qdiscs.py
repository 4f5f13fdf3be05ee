"""A scenario's queues as queueing disciplines of Linux."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING, Final, assert_never

from perhop.linux.gaps import Gap
from perhop.scenario.model.cake import Cake
from perhop.scenario.model.queues import Codel, DualPi2, FqCodel, FqPie, Pie, Red, Sfq, Wred
from perhop.units import MILLISECOND, SECOND

if TYPE_CHECKING:
    from perhop.scenario import Limit, Queue

__all__ = ["Qdisc", "qdisc"]

_MICROSECOND: Final = MILLISECOND // 1000
_PIE_BURST: Final = 150 * MILLISECOND
_SFQ_DEPTH: Final = 127
_ACK_FILTERS: Final = {
    "off": "no-ack-filter",
    "on": "ack-filter",
    "aggressive": "ack-filter-aggressive",
}
_CODINGS: Final = {"none": "noatm", "atm": "atm", "ptm": "ptm"}
_RED_WEIGHT: Final = 0.03
"""Greatest relative distance of a weight from a power of two, which Linux requires."""


@dataclass(frozen=True, slots=True)
class Qdisc:
    """A queueing discipline.

    Attributes:
        kind: Its name.
        settings: Its settings in tc's words.
        gaps: Features of the queue that it lacks.
    """

    kind: str
    settings: str
    gaps: tuple[Gap, ...] = ()


def qdisc(queue: Queue, rate: int, path: str, *, in_class: bool) -> Qdisc:
    """Return the qdisc for a queue that is guaranteed `rate` bits per second.

    Sizes are those of IP packets: the classes above count them so (see `tree`).

    Args:
        queue: The queue.
        rate: Rate that limits in time refer to.
        path: The place of the queue in the scenario.
        in_class: True for a class's queue, false for a link's.
    """
    limit = queue.effective_limit(in_class=in_class)
    match queue.discipline:
        case None:
            return _fifo(queue, limit, rate, path)
        case Red() as red:
            return _red(red, limit, rate, f"{path}.red")
        case Wred():
            reason = "its GRED has a profile for each mark, not for each DSCP"
            return _missing(f"{path}.wred", reason)
        case Codel() as codel:
            return _codel("codel", codel, limit, path, "")
        case FqCodel() as fq_codel:
            return _fq_codel(fq_codel, limit, path)
        case Cake() as cake:
            return _cake(cake, queue.limit, path)
        case FqPie() as fq_pie:
            more = f" flows {fq_pie.flows} quantum {fq_pie.quantum}"
            return _pie("fq_pie", fq_pie, limit, path, more)
        case Pie() as pie:
            return _pie("pie", pie, limit, path, "")
        case Sfq() as sfq:
            return _sfq(sfq, limit, f"{path}.sfq", path)
        case DualPi2():
            return _missing(f"{path}.dualpi2", "perhop does not write its dualpi2, which is new")
        case unknown:
            assert_never(unknown)


def _fifo(queue: Queue, limit: Limit, rate: int, path: str) -> Qdisc:
    if limit.unit == "packets":
        kind = "pfifo_head_drop" if queue.drop == "head" else "pfifo"
        return Qdisc(kind, f"limit {limit.amount}")
    if queue.drop == "head":
        return _missing(f"{path}.drop", "its pfifo_head_drop has a limit in packets only")
    return Qdisc("bfifo", f"limit {limit.size(rate)}")


def _missing(path: str, reason: str) -> Qdisc:
    return Qdisc("pfifo", "limit 1000", (Gap(path, reason),))


def _packets(kind: str, limit: Limit, path: str) -> tuple[Gap, ...]:
    if limit.unit == "packets":
        return ()
    return (Gap(f"{path}.limit", f"its {kind} has a limit in packets only"),)


def _codel(kind: str, codel: Codel | FqCodel, limit: Limit, path: str, more: str) -> Qdisc:
    settings = (
        f"limit {limit.amount} target {_us(codel.target)} interval {_us(codel.interval)}{more} "
        f"{'ecn' if codel.ecn else 'noecn'}"
    )
    return Qdisc(kind, settings, _packets(kind, limit, path))


def _fq_codel(fq_codel: FqCodel, limit: Limit, path: str) -> Qdisc:
    more = f" flows {fq_codel.flows} quantum {fq_codel.quantum}"
    found = _codel("fq_codel", fq_codel, limit, path, more)
    if fq_codel.standing == "all":
        return found
    reason = "its fq_codel compares the backlog of all flows with a packet; expected all"
    gaps = (*found.gaps, Gap(f"{path}.fq-codel.standing", reason))
    return Qdisc(found.kind, found.settings, gaps)


def _cake(cake: Cake, limit: Limit | None, path: str) -> Qdisc:
    """Settings of CAKE. `raw`, because the classes above count IP packets already."""
    framing, gaps = cake.overhead, []
    memory = ""
    if limit is not None:
        memory = f" memlimit {limit.amount}"
        if limit.unit != "bytes":
            gaps.append(Gap(f"{path}.limit", "its cake has a limit in bytes of memory only"))
    bandwidth = "unlimited" if cake.bandwidth is None else f"bandwidth {cake.bandwidth}bit"
    settings = (
        f"{bandwidth} {cake.diffserv} {cake.isolation} nonat {'wash' if cake.wash else 'nowash'} "
        f"{_ACK_FILTERS[cake.ack_filter]} {'ingress' if cake.ingress else 'egress'} "
        f"rtt {_us(cake.rtt)} raw overhead {framing.overhead} "
        f"{_CODINGS[framing.coding]}{f' mpu {framing.mpu}' if framing.mpu else ''}{memory}"
    )
    return Qdisc("cake", settings, tuple(gaps))


def _pie(kind: str, pie: Pie, limit: Limit, path: str, more: str) -> Qdisc:
    gaps = list(_packets(kind, limit, path))
    if pie.burst != _PIE_BURST:
        key = kind.replace("_", "-")
        gaps.append(Gap(f"{path}.{key}.burst", f"its {kind} always allows a burst of 150 ms"))
    settings = (
        f"limit {limit.amount} target {_us(pie.target)} tupdate {_us(pie.update)}{more} "
        f"{'ecn' if pie.ecn else 'noecn'}"
    )
    return Qdisc(kind, settings, tuple(gaps))


def _sfq(sfq: Sfq, limit: Limit, place: str, path: str) -> Qdisc:
    """Settings of SFQ, as `sfq_change` in Linux takes them."""
    gaps = list(_packets("sfq", limit, path))
    if sfq.depth > _SFQ_DEPTH:
        gaps.append(Gap(f"{place}.depth", f"a queue of its sfq holds up to {_SFQ_DEPTH} packets"))
    if sfq.divisor & (sfq.divisor - 1):
        gaps.append(Gap(f"{place}.divisor", "its sfq has a power of two; expected one, as 1024"))
    if sfq.flows > sfq.divisor:
        gaps.append(Gap(f"{place}.flows", f"its sfq has {sfq.divisor} queues, the divisor"))
    if sfq.perturb % SECOND:
        gaps.append(Gap(f"{place}.perturb", "its sfq counts whole seconds"))
    if limit.unit == "packets" and limit.amount > sfq.depth * sfq.flows:
        most = f"{sfq.depth * sfq.flows} packets, depth times flows"
        gaps.append(Gap(f"{path}.limit", f"its sfq holds up to {most}"))
    settings = (
        f"limit {limit.amount} depth {sfq.depth} flows {sfq.flows} divisor {sfq.divisor} "
        f"quantum {sfq.quantum} perturb {sfq.perturb // SECOND}"
        f"{' headdrop' if sfq.drop == 'head' else ''}"
    )
    return Qdisc("sfq", settings, tuple(gaps))


def _red(red: Red, limit: Limit, rate: int, path: str) -> Qdisc:
    gaps = []
    for key, each in (("min", red.min), ("max", red.effective_max), ("limit", limit)):
        if each.unit == "packets":
            gaps.append(Gap(f"{path}.{key}", "its red counts bytes, not packets"))
    if red.gentle:
        gaps.append(Gap(f"{path}.gentle", "its red has one step at `max`; expected false"))
    share = red.weight / 1e9
    power = round(-log2(share))
    if abs(2.0**-power / share - 1) > _RED_WEIGHT or not 1 <= power <= 31:
        gaps.append(Gap(f"{path}.weight", "its red takes powers of two, such as 0.1953125%"))
    low, high = red.min.size(rate), red.effective_max.size(rate)
    # tc finds the weight from `burst`: the largest W with burst + 1 - min/avpkt at least
    # (1 - (1 - 1/W)^burst)·W; see tc_red_eval_ewma in iproute2.
    burst = _burst_of(power, low, red.packet)
    if burst is None:
        gaps.append(Gap(f"{path}.weight", "tc has no burst that makes this weight"))
    settings = (
        f"limit {limit.size(rate)} min {low} max {high} avpkt {red.packet} "
        f"burst {burst or 1} probability {red.probability / 1e9:g} bandwidth {rate}bit"
        f"{' ecn' if red.ecn else ''}{' harddrop' if red.ecn and red.harddrop else ''}"
    )
    return Qdisc("red", settings, tuple(gaps))


def _burst_of(power: int, low: int, packet: int) -> int | None:
    """The least burst from which tc computes the weight 2^-`power`."""
    for burst in range(1, 100_000):
        found = ewma(low, burst, packet)
        if found == power:
            return burst
        if found is not None and found > power:
            return None
    return None


def ewma(low: int, burst: int, packet: int) -> int | None:
    """Return the power of two by which tc has RED divide weights; None if there is none.

    Source: tc_red_eval_ewma in iproute2.

    Args:
        low: The lower threshold in bytes.
        burst: The burst in packets.
        packet: The size of a typical packet in bytes.
    """
    weight = 0.5
    room = burst + 1 - low / packet
    if room < 1.0:
        return None
    for power in range(1, 32):
        if room <= (1 - (1 - weight) ** burst) / weight:
            return power
        weight /= 2
    return None


def _us(picoseconds: int) -> str:
    return f"{max(1, round(picoseconds / _MICROSECOND))}us"
