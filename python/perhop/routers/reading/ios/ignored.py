"""Statements about QoS that are not modelled, outside policy maps, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_SWITCHES: Final = "the queues of switches are not modelled"
_FRAGMENTS: Final = "fragmentation and interleaving are not modelled"

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
    ("mls", "qos"): _SWITCHES,
    ("auto", "qos"): "what it stands for is not in this line",
    ("srr-queue",): _SWITCHES,
    ("wrr-queue",): _SWITCHES,
    ("rcv-queue",): _SWITCHES,
    ("queue-set",): _SWITCHES,
    ("priority-queue",): _SWITCHES,
    ("qos",): "policies see packets as they are sent, also those of tunnels",
    ("trust",): "trust of ports is not modelled",
    ("frame-relay", "fragment"): _FRAGMENTS,
    ("frame-relay", "ip", "rtp"): "not modelled; `priority` in a class is",
}
"""Statements of interfaces, by their first words."""

_GLOBAL: Final[dict[tuple[str, ...], str]] = {
    ("mls", "qos"): _SWITCHES,
    ("auto", "qos"): "what it stands for is not in this line",
    ("access-list", "rate-limit"): "rate-limit access lists are not modelled",
    ("priority-list",): "priority lists are not modelled",
    ("queue-list",): "custom queues are not modelled",
    ("table-map",): "tables of marks are not modelled",
    ("ip", "cef", "load-sharing"): "the hash of load sharing is not modelled",
    ("port-channel", "load-balance"): "the hash of bundles is not modelled",
    ("platform", "qos"): "settings of the hardware are not modelled",
    ("wrr-queue",): _SWITCHES,
    ("qos",): "settings of the platform are not modelled",
    ("random-detect-group",): "groups of thresholds are not modelled",
}
"""Statements outside interfaces, by their first words."""

_MODELLED: Final = frozenset(
    ("service-policy", "rate-limit", "traffic-shape", "random-detect", "fair-queue", "hold-queue")
)


def reason(words: tuple[str, ...]) -> str | None:
    """Return why a statement of an interface is ignored; None if it is not about QoS."""
    return _find(_INTERFACES, words)


def global_reason(words: tuple[str, ...]) -> str | None:
    """Return why a statement outside interfaces is ignored; None if it is not about QoS."""
    return _find(_GLOBAL, words)


def is_qos(words: tuple[str, ...]) -> bool:
    """Return whether a statement of an interface is about QoS."""
    return words[:1] != () and (words[0] in _MODELLED or reason(words) is not None)


def _find(reasons: Mapping[tuple[str, ...], str], words: tuple[str, ...]) -> str | None:
    return next((reasons[words[:n]] for n in (3, 2, 1) if words[:n] in reasons), None)
