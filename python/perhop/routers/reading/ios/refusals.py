"""What IOS refuses in a policy map, or where one is attached, with its reasons.

The documents: Cisco IOS Quality of Service Solutions Command Reference, `bandwidth`, `bandwidth
remaining` and `priority`; Distribution of Remaining Bandwidth Using Ratio, Restrictions; Cisco
10000 Series Router Quality of Service Configuration Guide, Restrictions and Limitations for
Priority Queuing; 3-Level User-Defined Queuing Policy Support (IOS XE); Applying QoS Features to
Ethernet Subinterfaces, and Quality of Service Options on GRE Tunnel Interfaces, which quote the
router's messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.routers.reading.ios.classes import DEFAULT_CLASS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perhop.routers.reading.ios.actions import Settings
    from perhop.routers.reading.ios.tree import Statement

    Inner = Callable[[Settings], Sequence[Settings]]
    """The classes of the policy inside a class; none without one."""

__all__ = ["NEVER_CONGESTED", "refused", "refused_for_input", "refused_reserve", "refused_unshaped"]

_INPUT: Final = "the command is not supported in input direction"
_TUNNEL: Final = "Class Based Weighted Fair Queueing not supported on this interface"

NEVER_CONGESTED: Final = {
    "subinterface": (
        "CBWFQ : Not supported on subinterfaces",
        "CBWFQ : Hierarchy supported only if shaping is configured in this class",
    ),
    "tunnel": (_TUNNEL, _TUNNEL),
}
"""Interfaces whose queues nothing but a shaper fills, with why IOS refuses queues there, and a
policy with queues inside a class, without one."""


def refused(classes: Sequence[Settings], inner: Inner, *, xe: bool) -> tuple[Statement, str] | None:
    """Return the first statement of a policy map that IOS refuses, with the reason.

    Args:
        classes: The classes in the order of the configuration.
        inner: Returns the classes of the policy inside one.
        xe: True for IOS-XE.
    """
    found = [*_in_a_class(classes), *_mixed(classes), *_levels(classes)]
    if xe:
        found += _above_queues(classes, inner)
    return min(found, key=lambda each: each[0].place.line, default=None)


def refused_for_input(classes: Sequence[Settings]) -> tuple[Statement, str] | None:
    """Return the first statement about queues, with the reason why an input policy has none."""
    for each in classes:
        for statement in _queueing(each):
            return statement, _INPUT
    return None


def refused_unshaped(
    classes: Sequence[Settings], inner: Inner, kind: str
) -> tuple[Statement, str] | None:
    """Return the first statement about queues without a shaper around them, with the reason.

    Args:
        classes: The classes of the policy at an interface.
        inner: Returns the classes of the policy inside one.
        kind: The kind of the interface, a key of `NEVER_CONGESTED`.
    """
    flat, nested = NEVER_CONGESTED[kind]
    for each in classes:
        if each.shape is not None:
            continue
        for statement in _queueing(each):
            return statement, flat
        if any(True for within in inner(each) for _ in _queueing(within)):
            return each.statements["child"], nested
    return None


def refused_reserve(
    classes: Sequence[Settings], rate: int, percent: int
) -> tuple[Statement, str] | None:
    """Return the first guarantee that does not fit what an interface reserves, with the reason.

    Cisco, IP to ATM Class of Service, max-reserved-bandwidth (document 10466): the sum of
    `bandwidth` and `priority` is at most 75% of the bandwidth, or `max-reserved-bandwidth`.

    Args:
        classes: The classes of the policy at an interface.
        rate: The rate of the interface in bit/s.
        percent: What it reserves for classes, in per cent.
    """
    left = rate * percent // 100
    for each in classes:
        for key, given in (("priority", each.priority), ("bandwidth", each.bandwidth)):
            if given is None:
                continue
            if given.of(rate) > left:
                reason = (
                    f"more than the {percent}% that `max-reserved-bandwidth` lets be guaranteed"
                )
                return each.statements[key], reason
            left -= given.of(rate)
    return None


def _queueing(each: Settings) -> Iterator[Statement]:
    """Yield the statements of a class that are about its queue."""
    for key in ("bandwidth", "remaining", "priority", "shape"):
        if key in each.statements:
            yield each.statements[key]
    yield from each.queue.statements


def _in_a_class(classes: Sequence[Settings]) -> list[tuple[Statement, str]]:
    """Return statements that exclude each other in a class, and priority of the default class."""
    found = []
    for each in classes:
        priority = each.statements.get("priority")
        if priority is None:
            continue
        if each.header.word(1) == DEFAULT_CLASS:
            found.append((priority, f"`{DEFAULT_CLASS}` cannot have priority"))
        keys = [key for key in ("bandwidth", "remaining", "shape") if key in each.statements]
        others = [each.statements[key] for key in keys]
        others += [] if each.queue.wred is None else each.queue.wred.statements[:1]
        for other in others:
            later = max(other, priority, key=lambda one: one.place.line)
            reason = f"`{other.word(0)}` and `priority` exclude each other in a class"
            found.append((later, reason))
    return found


def _above_queues(classes: Sequence[Settings], inner: Inner) -> list[tuple[Statement, str]]:
    """Return the guarantees of classes with a policy of queues inside."""
    return [
        (
            each.statements["bandwidth"],
            "a class with `bandwidth` cannot have a policy with queues inside; `bandwidth "
            "remaining` can",
        )
        for each in classes
        if "bandwidth" in each.statements
        and any(True for within in inner(each) for _ in _queueing(within))
    ]


def _mixed(classes: Sequence[Settings]) -> list[tuple[Statement, str]]:
    """Return the first `bandwidth` of another kind than the one before it."""
    stated: list[tuple[Statement, str]] = []
    for each in classes:
        if "bandwidth" in each.statements and each.bandwidth is not None:
            kind = "percent" if each.bandwidth.share else "kbps"
            stated.append((each.statements["bandwidth"], kind))
        if "remaining" in each.statements:
            kind = "remaining percent" if each.ratio is None else "remaining ratio"
            stated.append((each.statements["remaining"], kind))
    stated.sort(key=lambda one: one[0].place.line)
    for statement, kind in stated:
        first, usual = stated[0]
        if kind != usual:
            reason = (
                "All classes with bandwidth should have consistent units: "
                f"{kind} here, {usual} in line {first.place.line}"
            )
            return [(statement, reason)]
    return []


def _levels(classes: Sequence[Settings]) -> list[tuple[Statement, str]]:
    """Return the first `priority` with a level beside one without, or the other way round."""
    stated = [each.statements["priority"] for each in classes if "priority" in each.statements]
    stated.sort(key=lambda one: one.place.line)
    for statement in stated:
        if _has_level(statement) != _has_level(stated[0]):
            reason = "`priority` and `priority level` exclude each other in a policy map"
            return [(statement, reason)]
    return []


def _has_level(statement: Statement) -> bool:
    return statement.word(1) == "level"
