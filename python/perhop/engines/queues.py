"""The queues of a scenario as values of the core's plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from perhop.scenario.model.cake import Cake
from perhop.scenario.model.queues import (
    Codel,
    DualPi2,
    FqCodel,
    FqPie,
    Pie,
    Red,
    Sfq,
    Wred,
    wred_defaults,
)

if TYPE_CHECKING:
    from perhop.engines import plans
    from perhop.scenario import Limit, Queue
    from perhop.scenario.model.cake import Framing

__all__ = ["framing_plan", "queue_plan"]

_PICOBITS = 8 * 10**12


def queue_plan(queue: Queue, rate: int, *, in_class: bool) -> plans.QueueConfig:
    """Return a queue as the core takes it.

    Args:
        queue: The queue.
        rate: Its guaranteed rate in bit/s.
        in_class: True if it belongs to a class, not to a link.
    """
    limit = _limit(queue.effective_limit(in_class=in_class), rate)
    match queue.discipline:
        case None:
            return {"fifo": {"limit": limit, "drop": queue.drop}}
        case Red() as red:
            return {"red": _red(red, limit, rate)}
        case Wred() as wred:
            return {"red": _wred(wred, limit, rate, in_class=in_class)}
        case Codel() as codel:
            return {"codel": _codel(codel, limit)}
        case FqCodel() as fq_codel:
            return {
                "fq-codel": {
                    "codel": _codel(fq_codel, limit),
                    "flows": fq_codel.flows,
                    "quantum": fq_codel.quantum,
                    "standing": fq_codel.standing,
                }
            }
        case Cake() as cake:
            return {"cake": _cake(cake, limit)}
        case FqPie() as fq_pie:
            return {
                "fq-pie": {
                    "pie": _pie(fq_pie, limit),
                    "flows": fq_pie.flows,
                    "quantum": fq_pie.quantum,
                }
            }
        case Pie() as pie:
            return {"pie": _pie(pie, limit)}
        case Sfq() as sfq:
            return {
                "sfq": {
                    "limit": limit,
                    "depth": sfq.depth,
                    "flows": sfq.flows,
                    "divisor": sfq.divisor,
                    "quantum": sfq.quantum,
                    "perturb": sfq.perturb,
                    "drop": sfq.drop,
                }
            }
        case DualPi2() as dualpi2:
            return {
                "dualpi2": {
                    "limit": limit,
                    "target": dualpi2.target,
                    "max_rtt": dualpi2.max_rtt,
                    "coupling": dualpi2.coupling,
                    "threshold": dualpi2.threshold,
                    "range": dualpi2.range,
                    "classic_share": dualpi2.classic_share,
                }
            }
        case unknown:
            assert_never(unknown)


def _limit(limit: Limit, rate: int) -> plans.Limit:
    if limit.unit == "packets":
        return {"packets": limit.amount}
    return {"bytes": limit.size(rate)}


def _amount(limit: Limit, rate: int) -> int:
    """Return packets or bytes; for a limit in time, the bytes that drain in it."""
    return limit.amount * rate // _PICOBITS if limit.unit == "time" else limit.amount


def _red(red: Red, limit: plans.Limit, rate: int) -> plans.RedSpec:
    thresholds: plans.RedProfile = {
        "min": _amount(red.min, rate),
        "max": max(_amount(red.effective_max, rate), 1),
        "probability": red.probability,
    }
    in_packets = red.min.unit == "packets"
    return {
        "config": {
            "limit": limit,
            "measure": "packets" if in_packets else {"bytes": {"mean": red.packet}},
            "weight": red.weight,
            "packet_time": _packet_time(red, rate),
            "gentle": red.gentle,
            "ecn": red.ecn,
            "harddrop": red.harddrop,
        },
        "rules": [{"dscps": [], "thresholds": thresholds}],
    }


def _wred(wred: Wred, limit: plans.Limit, rate: int, *, in_class: bool) -> plans.RedSpec:
    defaults = wred_defaults(wred.by, in_class=in_class)
    thresholds = {dscp: (low.min, low.max, 10**8) for dscp, low in defaults.items()}
    for profile in wred.profiles:
        own = (profile.min.amount, profile.max.amount, profile.probability)
        thresholds |= dict.fromkeys(profile.dscp, own)
    dscps: dict[tuple[int, int, int], list[int]] = {}
    for dscp, own in thresholds.items():
        dscps.setdefault(own, []).append(dscp)
    return {
        "config": {
            "limit": limit,
            "measure": "packets",
            "weight": wred.weight,
            "packet_time": _packet_time(wred, rate),
            "gentle": False,
            "ecn": wred.ecn,
            "harddrop": True,
        },
        "rules": [
            {"dscps": those, "thresholds": {"min": low, "max": high, "probability": share}}
            for (low, high, share), those in dscps.items()
        ],
    }


def _packet_time(red: Red | Wred, rate: int) -> int:
    """Return the transmission time of a typical packet in picoseconds."""
    return -(-red.packet * _PICOBITS // rate)


def _cake(cake: Cake, limit: plans.Limit) -> plans.CakeConfig:
    return {
        "limit": limit,
        "bandwidth": cake.bandwidth,
        "framing": framing_plan(cake.overhead),
        "diffserv": cake.diffserv,
        "isolation": cake.isolation,
        "rtt": cake.rtt,
        "target": cake.target,
        "ack_filter": cake.ack_filter,
        "wash": cake.wash,
        "ingress": cake.ingress,
    }


def _codel(codel: Codel | FqCodel, limit: plans.Limit) -> plans.CodelConfig:
    return {
        "limit": limit,
        "target": codel.target,
        "interval": codel.interval,
        "ecn": codel.ecn,
    }


def _pie(pie: Pie, limit: plans.Limit) -> plans.PieConfig:
    return {
        "limit": limit,
        "target": pie.target,
        "update": pie.update,
        "burst": pie.burst,
        "ecn": pie.ecn,
    }


def framing_plan(framing: Framing) -> plans.Framing:
    """Return the bytes of layer 2 that rates count."""
    return {"overhead": framing.overhead, "mpu": framing.mpu, "coding": framing.coding}
