"""Queues of VyOS' classes and policies, as the qdiscs that VyOS makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.linux.model import Options, Qdisc
from perhop.routers.reading.linux.queues import queue
from perhop.units import WHOLE, format_share

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop.routers.reading.linux.ledger import Ledger
    from perhop.routers.reading.linux.model import Device
    from perhop.routers.reading.vyos.tree import Node

__all__ = ["KINDS", "older_red", "put", "random_detect"]

KINDS: Final = {
    "fair-queue": "sfq",
    "fq-codel": "fq_codel",
    "drop-tail": "pfifo",
    "priority": "prio",
    "random-detect": "red",
}
"""The qdisc of each kind of queue."""

_WORDS: Final = {
    "sfq": {"queue-limit": "limit", "hash-interval": "perturb"},
    "fq_codel": {
        "queue-limit": "limit",
        "codel-quantum": "quantum",
        "flows": "flows",
        "interval": "interval",
        "target": "target",
    },
    "pfifo": {"queue-limit": "limit"},
    "prio": {"queue-limit": "limit"},
}
"""The settings of VyOS that each qdisc has, and tc's words for them."""

_ALL: Final = (
    *("queue-limit", "codel-quantum", "flows", "interval", "target", "hash-interval"),
    *("average-packet", "maximum-threshold", "minimum-threshold", "mark-probability"),
)
_RED: Final = {"average-packet": 1024, "maximum-threshold": 18, "mark-probability": 10}
_OLD_WORDS: Final = {"maximum-threshold": "max-threshold", "minimum-threshold": "min-threshold"}
_PRECEDENCES: Final = 8
_OLD_PACKET: Final = 1024
"""The average packet of RED's queues of classes in VyOS 1.3, in bytes."""

_OLD_ODDS: Final = "the script of VyOS 1.3 does not read it: the probability is 10%"


def put(
    device: Device,
    node: Node,
    kind: str,
    parent: int,
    ledger: Ledger,
    source: str,
    red: Mapping[str, str] | None = None,
) -> None:
    """Add the queue that a class or policy states.

    Args:
        device: The interface.
        node: The class or policy.
        kind: The qdisc, a value of `KINDS`; other words are not modelled.
        parent: The class that the queue is in, or the root.
        ledger: Where defaults and differences are noted.
        source: The source of defaults.
        red: The settings of RED, if those of `_calc_random_detect_queue_params` do not hold.
    """
    for key in _ALL:
        node.value(key)  # VyOS ignores what the kind does not have.
    if kind == "red":
        values = _red(node, 0, ledger, source) if red is None else dict(red)
    else:
        values = {}
        for key, word in _WORDS.get(kind, {}).items():
            text = node.text_of(key)
            if text is not None:
                timed = key in ("interval", "target") and text.isdecimal()
                values[word] = f"{text}ms" if timed else text
    if kind == "fq_codel":
        values["noecn"] = ""
    handle = device.new_handle()
    limit = {key: values.pop(key) for key in ("limit",) if kind == "prio" and key in values}
    device.put(Qdisc(kind, handle, parent, Options(node.place, values, ledger), node.place))
    for band in range(1, 4) if limit else ():
        options = Options(node.place, dict(limit), ledger)
        inner = Qdisc("pfifo", device.new_handle(), handle << 16 | band, options, node.place)
        device.put(inner)


def _number(node: Node, key: str) -> int | None:
    text = node.text_of(key) or node.text_of(_OLD_WORDS.get(key, key))
    return int(text) if text is not None and text.isdecimal() and len(text) < 8 else None


def _red(node: Node, precedence: int, ledger: Ledger, source: str) -> dict[str, str]:
    """Return the settings of RED (`_calc_random_detect_queue_params`)."""
    found = {}
    for key, usual in _RED.items():
        given = _number(node, key)
        found[key] = max(given or usual, 1)
        if given is None:
            ledger.default(node.place, key, str(usual), source)
    packet, high, odds = found.values()
    given = _number(node, "minimum-threshold")
    low = given or (9 + precedence) * high // 18
    if given is None:
        ledger.default(node.place, "minimum-threshold", str(low), source)
    limit = _number(node, "queue-limit") or 4 * high
    if "queue-limit" not in node.children:
        ledger.default(node.place, "queue-limit", str(limit), source)
    return {
        "limit": str(limit * packet),
        "avpkt": str(packet),
        "min": str(max(low, 1) * packet),
        "max": str(max(high, low + 1) * packet),
        "burst": str(max((2 * low + high) // 3, 1)),
        "probability": f"{1 / odds:.9f}",
    }


def older_red(node: Node, rate: int | None) -> dict[str, str]:
    """Return the settings of RED in a class of VyOS 1.3 (`redQdisc` of ShaperClass.pm).

    Args:
        node: The class.
        rate: The bandwidth of the shaper in bit/s, of which the greatest threshold is 250 ms; None
            in other policies.
    """
    high = 18 * _OLD_PACKET if rate is None else rate // 32
    low = max(high // 3, _OLD_PACKET)
    limit = _number(node, "queue-limit")
    return {
        "limit": str(4 * high if limit is None else limit * _OLD_PACKET),
        "avpkt": str(_OLD_PACKET),
        "min": str(low),
        "max": str(high),
        "burst": str(max((2 * low + high) // (3 * _OLD_PACKET), 1)),
        "probability": "0.1",
        "ecn": "",
    }


def random_detect(
    node: Node, ledger: Ledger, source: str, *, older: bool
) -> Mapping[str, Any] | None:
    """Return the queue of a policy `random-detect`.

    VyOS 1.4 leaves the index of packets at 0, so that all of them have precedence 0; 1.3 sets it to
    the precedence.
    """
    given = {each.word: each for each in node.each("precedence")}
    for word, each in given.items():
        for child in each.walk():
            child.used = True
            if older and child.word == "mark-probability":
                ledger.ignored(child.place, _OLD_ODDS)
            if not older and word != "0":
                note = "VyOS 1.4 handles all packets as those of precedence 0"
                ledger.ignored(child.place, note)
    if not older:
        own = given.get("0", node)
        return queue(_qdisc(own, _red(own, 0, ledger, source), ledger), own.place, None, ledger)
    ledger.approximated(node.place, "one average length of the queue for all precedences")
    profiles = []
    limit = 0
    for precedence in range(_PRECEDENCES):
        own = given.get(str(precedence), node)
        values = _red(own, precedence, ledger, source)
        packet = int(values["avpkt"])
        limit = max(limit, int(values["limit"]) // packet)
        profiles.append(
            {
                "dscp": list(range(8 * precedence, 8 * precedence + 8)),
                "min": f"{int(values['min']) // packet} packets",
                "max": f"{int(values['max']) // packet} packets",
                "probability": format_share(WHOLE // 10),
            }
        )
    return {"limit": f"{limit} packets", "wred": {"profiles": profiles, "weight": "12.5%"}}


def _qdisc(node: Node, values: dict[str, str], ledger: Ledger) -> Qdisc:
    return Qdisc("red", 1, 0, Options(node.place, values, ledger), node.place)
