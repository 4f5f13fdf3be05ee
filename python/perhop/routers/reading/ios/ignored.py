"""Statements about QoS that are not modelled, outside policy maps, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop.routers.reading.ios.tree import Statement

_SWITCHES: Final = "the queues of switches are not modelled"
_COMPRESSION: Final = "header compression is not modelled"
_HARDWARE: Final = "settings of the hardware are not modelled"
_CIRCUITS: Final = "classes of ATM circuits are not modelled"
_BLOCKS: Final = "not modelled in such blocks"
_FRAGMENTS: Final = "fragmentation and interleaving are not modelled"

_QPPB: Final = "marks of BGP's routes are not modelled"
_TRUST: Final = "trust of ports is not modelled"
_TABLES: Final = "tables of marks are not modelled"
_MLS: Final[dict[tuple[str, ...], str]] = {
    ("mls", "qos"): _SWITCHES,
    ("mls", "qos", "trust"): _TRUST,
    ("mls", "qos", "cos"): _TRUST,
    ("mls", "qos", "map"): _TABLES,
    ("mls", "qos", "dscp-mutation"): _TABLES,
    ("mls", "qos", "aggregate-policer"): "policers of several classes are not modelled",
}

_INTERFACES: Final[dict[tuple[str, ...], str]] = {
    ("tx-ring-limit",): "the transmit ring is not modelled",
    ("max-reserved-bandwidth",): "it limits what may be guaranteed, and reserves nothing",
    ("priority-group",): "priority lists are not modelled",
    ("custom-queue-list",): "custom queues are not modelled",
    ("ip", "rsvp"): "RSVP is not modelled",
    ("ip", "rtp", "priority"): "not modelled; `priority` in a class is",
    ("ip", "nbar"): "it measures only",
    ("ppp", "multilink", "interleave"): _FRAGMENTS,
    ("ppp", "multilink", "fragment"): _FRAGMENTS,
    **_MLS,
    ("auto", "qos"): "what it stands for is not in this line",
    ("srr-queue",): _SWITCHES,
    ("wrr-queue",): _SWITCHES,
    ("rcv-queue",): _SWITCHES,
    ("queue-set",): _SWITCHES,
    ("priority-queue",): _SWITCHES,
    ("qos",): "policies see packets as they are sent, also those of tunnels",
    ("trust",): _TRUST,
    ("frame-relay", "fragment"): _FRAGMENTS,
    ("frame-relay", "ip", "rtp"): "not modelled; `priority` in a class is",
    ("ip", "rtp", "reserve"): "not modelled; `priority` in a class is",
    ("ip", "rtp", "header-compression"): _COMPRESSION,
    ("ip", "rtp", "compression-connections"): _COMPRESSION,
    ("ip", "tcp", "header-compression"): _COMPRESSION,
    ("switchport", "priority"): _TRUST,
    ("priority-flow-control",): "pause frames are not modelled",
    ("platform", "qos"): _HARDWARE,
    ("mls", "rate-limit"): _SWITCHES,
    ("tx-queue",): _SWITCHES,
    ("shape",): "not modelled at interfaces; `shape` in a class is",
    ("class-vc",): _CIRCUITS,
    ("class-int",): _CIRCUITS,
    ("bgp-policy", "source"): _QPPB,
    ("bgp-policy", "destination"): _QPPB,
    ("compress",): "compression of packets is not modelled",
}
"""Statements of interfaces, by their first words."""

_GLOBAL: Final[dict[tuple[str, ...], str]] = {
    **_MLS,
    ("auto", "qos"): "what it stands for is not in this line",
    ("access-list", "rate-limit"): "rate-limit access lists are not modelled",
    ("priority-list",): "priority lists are not modelled",
    ("queue-list",): "custom queues are not modelled",
    ("table-map",): _TABLES,
    ("ip", "cef", "load-sharing"): "the hash of load sharing is not modelled",
    ("port-channel", "load-balance"): "the hash of bundles is not modelled",
    ("platform", "qos"): _HARDWARE,
    ("ip", "rsvp"): "RSVP is not modelled",
    ("ip", "nbar"): "NBAR's recognition is not modelled",
    ("mls", "mpls", "qos"): _SWITCHES,
    ("mls", "rate-limit"): _SWITCHES,
    ("policer",): "policers of several classes are not modelled",
    ("priority-queue",): _SWITCHES,
    ("wrr-queue",): _SWITCHES,
    ("qos",): "settings of the platform are not modelled",
    ("random-detect-group",): "groups of thresholds are not modelled",
}
"""Statements outside interfaces, by their first words."""

_ANYWHERE: Final[dict[tuple[str, ...], str]] = {
    **dict.fromkeys(
        [("set", layer, mark) for layer in ("ip", "ipv6") for mark in ("precedence", "dscp")],
        "marks of policy routing are not modelled",
    ),
    ("set", "ip", "tos"): "marks of policy routing are not modelled",
    ("set", "ip", "qos-group"): "marks of policy routing are not modelled",
    ("ip", "qos", "dscp"): "packets of the router itself are not modelled",
    ("qos-group",): "there are no QoS groups",
    ("req-qos",): "RSVP is not modelled",
    ("acc-qos",): "RSVP is not modelled",
    **dict.fromkeys([("vbr-nrt",), ("vbr-rt",), ("cbr",)], "it has no policy of its own"),
    ("tx-ring-limit",): _INTERFACES["tx-ring-limit",],
    ("class-vc",): _CIRCUITS,
    ("service-policy",): "policies in such blocks are not modelled",
    ("auto", "qos"): _INTERFACES["auto", "qos"],
    ("trust", "device"): _INTERFACES["trust",],
    **dict.fromkeys(
        [
            ("bandwidth", "percent"),
            ("bandwidth", "remaining"),
            ("priority", "percent"),
            ("priority", "level"),
            ("mls", "qos"),
            *((word,) for word in ("police", "policer", "qos", "queue-limit", "random-detect")),
            *((word,) for word in ("fair-queue", "shape", "srr-queue", "wrr-queue", "queue-set")),
            *((word,) for word in ("traffic-shape", "rate-limit", "priority-queue", "hold-queue")),
        ],
        _BLOCKS,
    ),
}
"""Statements of any other block, by their first words."""

_FIRST: Final = frozenset(words[0] for words in _ANYWHERE)

_MODELLED: Final = frozenset(
    ("service-policy", "rate-limit", "traffic-shape", "random-detect", "fair-queue", "hold-queue")
)


def reason(words: tuple[str, ...]) -> str | None:
    """Return why a statement of an interface is ignored; None if it is not about QoS."""
    return _find(_INTERFACES, words)


def global_reason(words: tuple[str, ...]) -> str | None:
    """Return why a statement outside interfaces is ignored; None if it is not about QoS."""
    return _find(_GLOBAL, words)


def reason_anywhere(statement: Statement) -> str | None:
    """Return why a statement that nothing has read is ignored; None if it is not about QoS."""
    first = statement.word(0)
    negated = first in ("no", "default")
    found: str | None = None
    if (statement.word(1) if negated else first) in _FIRST:
        found = _find(_ANYWHERE, tuple(word.lower() for word in statement.words[negated:][:3]))
    if "service-policy" in statement.words and first not in ("description", "remark"):
        return found or "such policies are not modelled"
    return found


def is_qos(words: tuple[str, ...]) -> bool:
    """Return whether a statement of an interface is about QoS."""
    return words[:1] != () and (words[0] in _MODELLED or reason(words) is not None)


def _find(reasons: Mapping[tuple[str, ...], str], words: tuple[str, ...]) -> str | None:
    return next((reasons[words[:n]] for n in (3, 2, 1) if words[:n] in reasons), None)
