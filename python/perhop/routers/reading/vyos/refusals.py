"""What VyOS refuses: `verify` of `src/conf_mode/qos.py`, and the limits of its definitions.

A commit that is refused changes nothing, so that no interface has a policy. The reasons are VyOS'
own (release 1.5 of October 2024).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perhop.routers.reading.vyos.tree import Node

__all__ = ["refused"]


_FREE: Final = ("priority-queue", "round-robin", "shaper-hfsc")
"""Kinds of policies whose classes need no bandwidth."""

_AUTOMATIC: Final = "shaper"
"""The kind of policy whose classes have a bandwidth by default."""

_CLASSES: Final[Mapping[str, tuple[int, int, str]]] = {
    "limiter": (1, 4090, "Class identifier must be between 1 and 4090"),
    "priority-queue": (1, 7, "Class handle must be between 1 and 7"),
    "round-robin": (1, 4095, "Class identifier must be between 1 and 4095"),
    "shaper": (2, 4095, "Class identifier must be between 2 and 4095"),
    "shaper-hfsc": (1, 4095, "Class identifier must be between 1 and 4095"),
}
_QUEUE_LIMITS: Final[Mapping[str, tuple[int, int, str]]] = {
    "fair-queue": (1, 127, "Queue limit must be in range 1 to 127"),
    "fq-codel": (2, 10999, "Queue limit must greater than 1 and less than 11000"),
}
_RANGES: Final[Mapping[str, tuple[int, int, str]]] = {
    "queue-limit": (1, 2**32 - 1, "Queue limit must be greater than zero"),
    "codel-quantum": (0, 1048576, "Interval must be in range 0 to 1048576"),
    "flows": (1, 65536, "Interval must be in range 1 to 65536"),
    "interval": (0, 2**32 - 1, "Interval must be in range 0 to 4294967295"),
    "target": (0, 2**32 - 1, "Delay must be in range 0 to 4294967295"),
    "hash-interval": (0, 2**31 - 1, "Interval must be in range 0 to 2147483647"),
    "average-packet": (16, 10240, "Average packet size must be between 16 and 10240"),
    "maximum-threshold": (0, 4096, "Threshold must be between 0 and 4096"),
    "minimum-threshold": (0, 4096, "Threshold must be between 0 and 4096"),
    "quantum": (1, 2**32 - 1, "Quantum must be in range 1 to 4294967295"),
    "latency": (0, 4096, "Threshold must be between 0 and 4096"),
    "rtt": (1, 3600000, "RTT must be in range 1 to 3600000 milli-seconds"),
    "priority": (0, 20, "Priority must be between 0 and 20"),
    "max-length": (1, 65535, "Maximum packet length is 65535"),
    "mtu": (256, 65535, "mtu must be in range 256 to 65535"),
}
"""The least and the greatest value of settings."""

_PRECEDENCES: Final = (0, 7, "IP precedence value must be between 0 and 7")
_DEFAULT: Final = (0, 7, "Priority must be between 0 and 7")

_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "queue-type": ("drop-tail", "fair-queue", "fq-codel", "priority", "random-detect"),
    "exceed": ("continue", "drop", "ok", "reclassify", "pipe"),
    "not-exceed": ("continue", "drop", "ok", "reclassify", "pipe"),
}
_USUAL_MAXIMUM: Final = 18
_INGRESS: Final = "limiter"


def refused(top: Node) -> list[Refused[Node]]:
    """Return the statements that VyOS refuses, in their order; those without a value count, too."""
    qos = top.children.get("qos")
    if qos is None or "interface" not in qos.children:
        return []
    found: list[Refused[Node]] = []
    names: dict[str, str] = {}
    for level in _below(qos, "policy"):
        kind = level.word
        for name, policy in level.children.items():
            if name in names:
                found.append(
                    Refused(policy, f'Conflicting policy name "{name[:40]}", already in use!')
                )
            names[name] = kind
            found += [*_policy(kind, policy), *_values(kind, policy)]
    for group in _below(qos, "traffic-match-group"):
        found += _matches(group)
    found += _interfaces(qos.children["interface"], names)
    return sorted(found, key=lambda each: each.node.place)


def _policy(kind: str, policy: Node) -> Iterator[Refused[Node]]:
    """Yield what `verify` refuses in a policy."""
    name, default = policy.word[:40], policy.children.get("default")
    for each in _below(policy, "class"):
        if "bandwidth" not in each.children and kind not in (*_FREE, _AUTOMATIC):
            number = each.word[:40]
            reason = f'Bandwidth must be defined for policy "{name}" class "{number}"!'
            yield Refused(each, reason)
        yield from _matches(each)
    if kind == "random-detect":
        for each in _below(policy, "precedence"):
            yield from _thresholds(name, each)
    if kind == "priority-queue" and default is None:
        yield Refused(policy, f'Policy {name} misses "default" class!')
    if default is not None and "bandwidth" not in default.children and kind not in _FREE:
        yield Refused(default, "Bandwidth not defined for default traffic!")


def _matches(each: Node) -> Iterator[Refused[Node]]:
    for match in _below(each, "match"):
        if {"ip", "ipv6"} <= match.children.keys():
            reason = f"Can not use both IPv6 and IPv4 in one match ({match.word[:40]})!"
            yield Refused(match, reason)


def _thresholds(policy: str, level: Node) -> Iterator[Refused[Node]]:
    low, high = _number(level, "minimum-threshold"), _number(level, "maximum-threshold")
    limit, most = _number(level, "queue-limit"), _USUAL_MAXIMUM if high is None else high
    begin = f'Policy "{policy}" uses'
    if low is not None and low >= most:
        yield Refused(level, f'{begin} min-threshold "{low}" >= max-threshold "{most}"!')
    if limit is not None and limit < most:
        yield Refused(level, f'{begin} queue-limit "{limit}" < max-threshold "{most}"!')


def _number(node: Node, key: str) -> int | None:
    value = node.children.get(key)
    text = next(reversed(value.children), "") if value is not None else ""
    return int(text) if text.isdecimal() and len(text) < 12 else None


def _values(kind: str, policy: Node) -> Iterator[Refused[Node]]:
    """Yield values that the definition of a setting does not allow."""
    levels = [policy]
    for key, limits in (("class", _CLASSES.get(kind)), ("precedence", _PRECEDENCES)):
        for each in _below(policy, key):
            levels.append(each)
            yield from _outside(each, limits)
    if (default := policy.children.get("default")) is not None:
        levels.append(default)
        for value in _below(default, "priority"):
            yield from _outside(value, _DEFAULT)
    for level in levels:
        ranges = dict(_RANGES)
        if level is policy and kind in _QUEUE_LIMITS:
            ranges["queue-limit"] = _QUEUE_LIMITS[kind]
        for key, setting in level.children.items():
            for value in setting.children.values():
                yield from _outside(value, ranges.get(key))
                if key in _WORDS and value.word not in _WORDS[key]:
                    yield Refused(value, f"`{value.word[:40]}` is none of {', '.join(_WORDS[key])}")


def _below(node: Node, key: str) -> list[Node]:
    level = node.children.get(key)
    return list(level.children.values()) if level is not None else []


def _outside(value: Node, limits: tuple[int, int, str] | None) -> Iterator[Refused[Node]]:
    if limits is None:
        return
    least, most, reason = limits
    text = value.word
    if not (text.isdecimal() and text.isascii() and len(text) < 12 and least <= int(text) <= most):
        yield Refused(value, reason)


def _interfaces(interfaces: Node, names: Mapping[str, str]) -> Iterator[Refused[Node]]:
    """Yield policies at interfaces that do not exist, or that are for the other direction."""
    for interface in interfaces.children.values():
        for direction in ("egress", "ingress"):
            node = interface.children.get(direction)
            name = next(reversed(node.children.values()), None) if node is not None else None
            if name is None:
                continue
            kind = names.get(name.word)
            if kind is None:
                reason = f'Selected QoS policy "{name.word[:40]}" does not exist!'
                yield Refused(name, reason, undefined=True)
            elif (direction == "ingress") != (kind == _INGRESS):
                only = "['ingress']" if kind == _INGRESS else "['egress']"
                at = f'on interface "{interface.word[:40]}" only supports "{only}"!'
                yield Refused(name, f"Selected QoS policy {at}")
