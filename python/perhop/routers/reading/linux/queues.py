"""Queueing disciplines without classes, as queues of scenarios."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perhop.units import (
    WHOLE,
    format_duration,
    format_rate,
    format_share,
    format_size,
)

if TYPE_CHECKING:
    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.linux.ledger import Ledger
    from perhop.routers.reading.linux.model import Options, Qdisc

__all__ = ["LENGTH", "PLAIN", "queue"]

LENGTH: Final = 1000
"""The packets of an interface's transmit queue (`DEFAULT_TX_QUEUE_LEN`)."""

_MS: Final = 10**9
_MTU: Final = 1514
_MOST: Final = 65535
_MEMORY: Final = 2**25
_DROP_BATCH: Final = 64
_SFQ_DEPTH: Final = 127
_NEVER: Final = {"target": "100 s", "interval": "200 s"}
_KNOWN: Final = {
    "pfifo": "limit",
    "bfifo": "limit",
    "pfifo_head_drop": "limit",
    "codel": "limit target interval ecn noecn",
    "fq_codel": "limit flows target interval quantum ecn noecn memory_limit drop_batch",
    "pie": "limit target tupdate alpha beta ecn noecn",
    "fq_pie": "limit flows target tupdate alpha beta quantum ecn noecn",
    "red": "limit min max avpkt burst probability ecn harddrop adaptive",
    "sfq": "limit flows depth divisor perturb quantum headdrop",
    "fq": "limit quantum buckets",
}

PLAIN: Final = frozenset(_KNOWN)
"""The qdiscs without classes and without a rate of their own."""

_DROPS_ALL: Final = ("pfifo", "bfifo", "pfifo_head_drop", "fq")
"""Disciplines with a `limit 0` that is not the default."""


def queue(
    qdisc: Qdisc | None, place: Place, length: int | None, ledger: Ledger
) -> dict[str, Any] | None:
    """Return the queue of a scenario for a qdisc without classes; None if it is not modelled.

    Args:
        qdisc: The qdisc; None for the kernel's default.
        place: The line of the class that the queue belongs to.
        length: The transmit queue of the interface in packets, if known.
        ledger: Where defaults, and differences, are noted.
    """
    packets = LENGTH if length is None else max(length, 1)
    if qdisc is None:
        ledger.default(place, "qdisc", f"pfifo limit {packets}", "Linux, qdisc_create_dflt")
        return {"limit": f"{packets} packets"}
    options = qdisc.options
    if qdisc.kind not in _KNOWN:
        ledger.ignored(
            qdisc.place, f"the discipline {qdisc.kind[:20]} is not modelled; a FIFO is in its place"
        )
        return {"limit": f"{packets} packets"}
    known = _KNOWN[qdisc.kind].split()
    for key in options.values:
        if key not in known:
            ledger.approximated(options.at(key), f"`{key[:30]}` is not modelled")
    if qdisc.kind in _DROPS_ALL and options.values.get("limit") == "0":
        ledger.approximated(options.at("limit"), "`limit 0` drops all packets: not modelled")
    match qdisc.kind:
        case "pfifo" | "pfifo_head_drop":
            limit = options.number("limit")
            found: dict[str, Any] = {"limit": f"{max(limit or packets, 1)} packets"}
            if limit is None:
                ledger.default(qdisc.place, "limit", f"{packets} packets", "Linux, fifo_init")
            if qdisc.kind == "pfifo_head_drop":
                found["drop"] = "head"
            return found
        case "bfifo":
            limit = options.size("limit") or packets * _MTU
            return {"limit": format_size(limit)}
        case "codel":
            return _codel(options, ledger, 1000, ecn=False)
        case "fq_codel":
            return _fq_codel(options, ledger)
        case "red":
            return _red(options, ledger)
        case "pie" | "fq_pie":
            return _pie(qdisc, options, ledger)
        case "sfq":
            return _sfq(options, ledger)
        case _:
            return _fair(qdisc, options, ledger)


def _value(options: Options, ledger: Ledger, key: str, default: int, kind: str, source: str) -> int:
    """Return a setting, or its default, which is noted."""
    found: int | None = getattr(options, kind)(key)
    if found:
        return found
    shown = format_duration(default) if kind == "time" else f"{default}"
    if kind == "size":
        shown += " B"
    ledger.default(options.place, key, shown, f"Linux, {source}")
    return default


def _codel(options: Options, ledger: Ledger, limit: int, *, ecn: bool) -> dict[str, Any]:
    name = "net/sched/sch_codel.c"
    packets = _value(options, ledger, "limit", limit, "number", name)
    marks = "ecn" in options.values or (ecn and "noecn" not in options.values)
    target = _value(options, ledger, "target", 5 * _MS, "time", name)
    interval = max(_value(options, ledger, "interval", 100 * _MS, "time", name), target + _MS)
    settings = {
        "target": format_duration(target),
        "interval": format_duration(interval),
        "ecn": marks,
    }
    return {"limit": f"{packets} packets", "codel": settings}


def _fq_codel(options: Options, ledger: Ledger) -> dict[str, Any]:
    found = _codel(options, ledger, 10240, ecn=True)
    settings = found.pop("codel")
    name = "net/sched/sch_fq_codel.c"
    for key, usual in (("memory_limit", _MEMORY), ("drop_batch", _DROP_BATCH)):
        if options.size(key) not in (None, usual):
            ledger.approximated(options.at(key), f"`{key}` is not modelled")
    settings |= _flows(options, ledger, name, _MTU)
    return {**found, "fq-codel": settings}


def _pie(qdisc: Qdisc, options: Options, ledger: Ledger) -> dict[str, Any]:
    fair = qdisc.kind == "fq_pie"
    name = f"net/sched/sch_{qdisc.kind}.c"
    limit = _value(options, ledger, "limit", 10240 if fair else 1000, "number", name)
    settings: dict[str, Any] = {
        "target": format_duration(_value(options, ledger, "target", 15 * _MS, "time", name)),
        "update": format_duration(_value(options, ledger, "tupdate", 15 * _MS, "time", name)),
        "ecn": "ecn" in options.values,
    }
    for key in ("alpha", "beta"):
        if key in options.values:
            ledger.approximated(options.at(key), f"`{key}` is that of RFC 8033")
    if not fair:
        return {"limit": f"{limit} packets", "pie": settings}
    settings |= _flows(options, ledger, name, _MTU)
    return {"limit": f"{limit} packets", "fq-pie": settings}


def _flows(options: Options, ledger: Ledger, source: str, quantum: int) -> dict[str, Any]:
    """Return the number of flow queues, and the bytes of a turn."""
    flows = _value(options, ledger, "flows", 1024, "number", source)
    size = _value(options, ledger, "quantum", quantum, "size", source)
    return {"flows": min(flows, _MOST), "quantum": f"{min(max(size, 64), _MOST)} B"}


def _sfq(options: Options, ledger: Ledger) -> dict[str, Any]:
    """SFQ; the numbers bound each other as in `sfq_change`."""
    name = "net/sched/sch_sfq.c"
    depth = min(_value(options, ledger, "depth", _SFQ_DEPTH, "number", name), _SFQ_DEPTH)
    divisor = _value(options, ledger, "divisor", 1024, "number", name)
    flows = min(_value(options, ledger, "flows", 128, "number", name), divisor)
    limit = min(_value(options, ledger, "limit", 127, "number", name), depth * flows)
    quantum = _value(options, ledger, "quantum", _MTU, "size", name)
    settings: dict[str, Any] = {
        "depth": depth,
        "divisor": min(divisor, _MOST),
        "flows": min(flows, limit, _MOST),
        "quantum": f"{min(max(quantum, 64), _MOST)} B",
        "perturb": f"{options.number('perturb') or 0} s",
    }
    if "headdrop" in options.values:
        settings["drop"] = "head"
    return {"limit": f"{limit} packets", "sfq": settings}


def _fair(qdisc: Qdisc, options: Options, ledger: Ledger) -> dict[str, Any]:
    """FQ: flow queues of equal turns that drop only what they cannot hold."""
    name = "net/sched/sch_fq.c"
    limit = _value(options, ledger, "limit", 10_000, "number", name)
    flows = _value(options, ledger, "buckets", 1024, "number", name)
    quantum = _value(options, ledger, "quantum", 2 * _MTU, "size", name)
    ledger.approximated(qdisc.place, "flow queues of FQ-CoDel with a target that no packet reaches")
    settings = {
        **_NEVER,
        "flows": min(flows, _MOST),
        "quantum": f"{min(max(quantum, 64), _MOST)} B",
        "ecn": False,
    }
    return {"limit": f"{limit} packets", "fq-codel": settings}


def _red(options: Options, ledger: Ledger) -> dict[str, Any] | None:
    """RED, whose settings tc computes from one another (red_parse_opt in iproute2)."""
    name = "iproute2, red_parse_opt"
    limit = options.size("limit")
    if not limit:
        ledger.ignored(options.place, "RED needs a `limit`")
        return {"limit": f"{LENGTH} packets"}
    packet = options.size("avpkt") or 1000
    high = options.size("max") or limit // 4
    low = options.size("min") or high // 3
    burst = options.number("burst") or (2 * low + high) // (3 * packet)
    given = options.share("probability")
    for key, value in (("avpkt", packet), ("max", high), ("min", low), ("burst", burst)):
        if key not in options.values:
            ledger.default(options.place, key, f"{value}", name)
    if given is None:
        ledger.default(options.place, "probability", "0.02", name)
    low, high = max(low, 1), max(high, low + 1, 2)
    weight = _weight(low, burst, packet)
    probability = round((given if given is not None else 0.02) * WHOLE)
    if "adaptive" in options.values:
        ledger.approximated(options.at("adaptive"), "the probability stays as it begins")
    settings: dict[str, Any] = {
        "min": format_size(low),
        "max": format_size(high),
        "probability": format_share(min(probability, WHOLE)),
        "weight": format_share(round(WHOLE / 2**weight)),
        "gentle": False,
        "ecn": "ecn" in options.values,
        "packet": f"{min(max(packet, 64), 65535)} B",
    }
    if "ecn" in options.values:
        settings["harddrop"] = "harddrop" in options.values
    return {"limit": format_size(limit), "red": settings}


def _weight(low: int, burst: int, packet: int) -> int:
    """Return the power of two of the weight that tc computes (tc_red_eval_ewma)."""
    room, weight = burst + 1 - low / packet, 0.5
    if room < 1:
        return 9
    for power in range(1, 32):
        if room <= (1 - (1 - weight) ** min(burst, 10**6)) / weight:
            return power
        weight /= 2
    return 9


def rate_text(rate: int) -> str:
    """Return a rate above zero as text."""
    return format_rate(max(rate, 1))
