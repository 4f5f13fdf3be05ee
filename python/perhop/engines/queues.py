"""A scenario's queues as the core's plan has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perhop.scenario.model.queues import CLASS_LIMIT, LINK_LIMIT, wred_defaults

if TYPE_CHECKING:
    from perhop.scenario import Limit, Queue
    from perhop.scenario.model.queues import Codel, DualPi2, Red, Wred

__all__ = ["Place", "queue_plan"]

_PICOBITS = 8 * 10**12


@dataclass(frozen=True, slots=True)
class Place:
    """Where a queue stands.

    Attributes:
        name: The directed link and the path of its class, after which random streams are named.
        rate: What it is guaranteed, in bits per second.
        in_class: Whether it is a class's, not a link's.
    """

    name: str
    rate: int
    in_class: bool


def queue_plan(queue: Queue, place: Place) -> dict[str, Any]:
    """A queue as the core takes it: times in ps, sizes in bytes, shares in parts per billion."""
    plain = CLASS_LIMIT if place.in_class else LINK_LIMIT
    limit = _limit(queue.effective_limit(plain), place.rate)
    if queue.red is not None:
        return {"red": _red(queue.red, limit, place)}
    if queue.wred is not None:
        return {"red": _wred(queue.wred, limit, place)}
    if queue.codel is not None:
        return {"codel": _codel(queue.codel, limit)}
    if queue.fq_codel is not None:
        fq_codel = queue.fq_codel
        return {
            "fq-codel": {
                "stream": place.name,
                "codel": _codel(fq_codel, limit),
                "flows": fq_codel.flows,
                "quantum": fq_codel.quantum,
                "standing": fq_codel.standing,
            }
        }
    if queue.pie is not None:
        pie = queue.pie
        return {
            "pie": {
                "stream": place.name,
                "limit": limit,
                "target": pie.target,
                "update": pie.update,
                "burst": pie.burst,
                "ecn": pie.ecn,
            }
        }
    if queue.dualpi2 is not None:
        return {"dualpi2": _dualpi2(queue.dualpi2, limit)}
    return {"head-drop" if queue.drop == "head" else "fifo": limit}


def _limit(limit: Limit, rate: int) -> dict[str, int]:
    if limit.unit == "packets":
        return {"packets": limit.amount}
    # A limit in time holds at least a packet, as a queue must hold something.
    size = limit.amount if limit.unit == "bytes" else max(_amount(limit, rate), 1500)
    return {"bytes": size}


def _amount(limit: Limit, rate: int) -> int:
    """Packets or bytes; of a time what drains in it."""
    return limit.amount * rate // _PICOBITS if limit.unit == "time" else limit.amount


def _red(red: Red, limit: dict[str, int], place: Place) -> dict[str, Any]:
    profile = {
        "dscps": [],
        "min": _amount(red.min, place.rate),
        "max": max(_amount(red.effective_max, place.rate), 1),
        "probability_ppb": red.probability,
    }
    return {
        **_average(red, limit, place),
        "bytes": red.min.unit != "packets",
        "gentle": red.gentle,
        "harddrop": red.harddrop,
        "profiles": [profile],
    }


def _wred(wred: Wred, limit: dict[str, int], place: Place) -> dict[str, Any]:
    defaults = wred_defaults(wred.by, in_class=place.in_class)
    thresholds = {dscp: (low.min, low.max, 10**8) for dscp, low in defaults.items()}
    for profile in wred.profiles:
        own = (profile.min.amount, profile.max.amount, profile.probability)
        thresholds |= dict.fromkeys(profile.dscp, own)
    dscps: dict[tuple[int, int, int], list[int]] = {}
    for dscp, own in thresholds.items():
        dscps.setdefault(own, []).append(dscp)
    profiles = [
        {"dscps": those, "min": low, "max": high, "probability_ppb": share}
        for (low, high, share), those in dscps.items()
    ]
    return {
        **_average(wred, limit, place),
        "bytes": False,
        "gentle": False,
        "harddrop": True,
        "profiles": profiles,
    }


def _average(red: Red | Wred, limit: dict[str, int], place: Place) -> dict[str, Any]:
    """What RED and WRED have in common."""
    return {
        "stream": place.name,
        "limit": limit,
        "packet": red.packet,
        "packet_time": -(-red.packet * _PICOBITS // place.rate),
        "weight_ppb": red.weight,
        "ecn": red.ecn,
    }


def _codel(codel: Codel, limit: dict[str, int]) -> dict[str, Any]:
    return {
        "limit": limit,
        "target": codel.target,
        "interval": codel.interval,
        "ecn": codel.ecn,
    }


def _dualpi2(dualpi2: DualPi2, limit: dict[str, int]) -> dict[str, Any]:
    return {
        "limit": limit,
        "target": dualpi2.target,
        "max_rtt": dualpi2.max_rtt,
        "coupling": dualpi2.coupling,
        "threshold": dualpi2.threshold,
        "range": dualpi2.range,
        "classic_share_ppb": dualpi2.classic_share,
    }
