"""Rules on guarantees: bandwidth that is promised twice, or to no one."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

from perhop.routers.lint.findings import Finding, Rule, Severity
from perhop.routers.lint.wording import percent, rate_text
from perhop.scenario.model.dscp import DSCP_NAMES
from perhop.scenario.model.hfsc import HFSC
from perhop.scenario.resolve.shares import guarantee
from perhop.units import WHOLE, format_share, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.routers.lint.policies import AttachedPolicy, JudgedClass

ABOVE_CAPACITY: Final = Rule(
    "guarantees-above-capacity",
    Severity.ERROR,
    "Guarantees, and rates of policed strict classes, above the rate of the interface in sum.",
    "In congestion not all classes can get what they are guaranteed. Routers refuse the policy, or "
    "scale guarantees down, or let strict classes take the bandwidth of the others.",
    "Lower guarantees until they fit the rate, or correct the rate of the interface.",
    "Cisco IOS Quality of Service Solutions Command Reference, `bandwidth (policy-map class)`",
)

ABOVE_PARENT: Final = Rule(
    "children-above-parent",
    Severity.ERROR,
    "Guarantees of nested classes above the bandwidth of the class around them.",
    "The class around them is shaped, limited or guaranteed less than its classes promise. Linux's "
    "HTB serves a class within its own rate without asking those above: the shaper does not hold, "
    "and more than its rate is sent.",
    "Lower the guarantees of the nested classes, or raise the rate of the class around them.",
    "Cisco IOS QoS: Hierarchical Queueing Framework Configuration Guide",
)

PLATFORM_LIMIT: Final = Rule(
    "platform-limit",
    Severity.WARNING,
    "Guarantees above the share of an interface that the platform lets be guaranteed.",
    "Cisco IOS before 12.4(20)T reserves at most 75% of the interface's bandwidth for classes, and "
    "refuses a policy above that when it is attached.",
    "Lower guarantees, or set `max-reserved-bandwidth` on the interface.",
    "Cisco IOS Quality of Service Solutions Command Reference, `max-reserved-bandwidth`",
)

DEFAULT: Final = Rule(
    "default-without-bandwidth",
    Severity.WARNING,
    "A default class that has no bandwidth of its own, and to which the other classes leave "
    "1% at most.",
    "All unclassified traffic, mostly of TCP, gets nothing in congestion. That includes routing "
    "protocols on platforms that do not mark and queue them apart.",
    "Guarantee the default class a share; Cisco's design guide recommends 25%.",
    "Cisco Enterprise QoS Solution Reference Network Design Guide, Best-Effort Data",
)

CEILING: Final = Rule(
    "ceiling-below-guarantee",
    Severity.WARNING,
    "A limit, shaper or dropping policer below the guarantee of its class.",
    "The class never gets what it is guaranteed. The reservation only takes bandwidth from the sum "
    "that can be guaranteed to others.",
    "Raise the ceiling, or lower the guarantee.",
)

SCAVENGER: Final = Rule(
    "scavenger-share",
    Severity.WARNING,
    "A class for CS1 or LE that is guaranteed more than the default class.",
    "A scavenger service is meant to yield to best effort. Here it is the better service.",
    "Guarantee the scavenger class a small share, such as 1%.",
    "RFC 8622, section 2; RFC 3662, section 4.1",
)

NO_CEILING: Final = Rule(
    "no-ceiling",
    Severity.NOTE,
    "A class of VyOS without a ceiling above its bandwidth.",
    "The ceiling is the bandwidth by default: the class cannot use what others leave idle.",
    "Set `ceiling`, often to 100%, unless the class is meant to be limited.",
    "VyOS documentation, Traffic Policy, Shaper: ceiling",
)

RULES: Final = (
    NO_CEILING,
    ABOVE_CAPACITY,
    ABOVE_PARENT,
    PLATFORM_LIMIT,
    DEFAULT,
    CEILING,
    SCAVENGER,
)

LEAST_DEFAULT: Final = WHOLE // 100
"""The least share of a default class, in parts per billion: what Cisco IOS keeps for it."""

_LESS_THAN_BEST_EFFORT: Final = frozenset({DSCP_NAMES["cs1"], DSCP_NAMES["le"]})


def findings(policy: AttachedPolicy) -> Iterator[Finding]:
    """Find guarantees of an output policy that cannot be kept or defeat their purpose."""
    if not policy.is_output:
        return
    for parent, classes in policy.levels:
        yield from _sum(policy, parent, classes)
        yield from _scavengers(classes)
        yield from _without_ceiling(policy, classes)
        for judged in classes:
            yield from _ceilings(judged)


def _sum(
    policy: AttachedPolicy, parent: JudgedClass | None, classes: Sequence[JudgedClass]
) -> Iterator[Finding]:
    """Find guarantees of the classes of one level that do not fit their bandwidth."""
    capacity = classes[0].capacity
    # Without a rate, shares are compared with the whole, and rates with nothing.
    whole = WHOLE if capacity is None else capacity * WHOLE
    given = []
    for judged in classes:
        bandwidth = guarantee(judged.policy, judged.class_)
        if judged.policy.scheduler == HFSC:
            # Link-sharing curves are weights, whatever their sum. Real-time curves are guarantees.
            curve = judged.class_.realtime
            bandwidth = None if curve is None else curve.last
        if bandwidth is None or (capacity is None and bandwidth.share is None):
            continue
        unit = 1 if capacity is None else capacity
        amount = (
            (bandwidth.rate or 0) * WHOLE if bandwidth.share is None else bandwidth.share * unit
        )
        given.append((judged, amount))
    total = sum(amount for _, amount in given)

    def shown(amount: int) -> str:
        if capacity is None:
            return format_share(amount)
        return f"{rate_text(amount // WHOLE)} ({percent(amount, whole)})"

    if total > whole:
        sums = accumulate(amount for _, amount in given)
        last = next(each for (each, _), reached in zip(given, sums, strict=True) if reached > whole)
        rule = ABOVE_CAPACITY if parent is None else ABOVE_PARENT
        of = _whose(policy, parent, capacity)
        key = "police" if last.strict else "bandwidth"
        yield Finding(
            rule,
            last.place(key),
            f"the classes of policy {quote(policy.attachment.name)} are guaranteed {shown(total)} "
            f"of {of}: {_listed(given, capacity)}",
            f"lower guarantees by {shown(total - whole)} in sum",
        )
        return
    yield from _defaults(classes, whole, total)
    limit = policy.platform_limit
    shaped = parent is not None or policy.shape is not None
    if limit is not None and not shaped and total * WHOLE > whole * limit:
        yield Finding(
            PLATFORM_LIMIT,
            given[-1][0].place("bandwidth"),
            f"the classes of policy {quote(policy.attachment.name)} are guaranteed {shown(total)}; "
            f"IOS before 12.4(20)T accepts at most {format_share(limit)} of "
            f"{_whose(policy, parent, capacity)}",
            f"lower guarantees, or set `max-reserved-bandwidth {-(-total * 100 // whole)}`",
        )


def _defaults(classes: Sequence[JudgedClass], whole: int, total: int) -> Iterator[Finding]:
    """Find a default class to which the others leave nothing."""
    last = classes[-1]
    if len(classes) == 1 or not last.is_default or last.strict:
        return
    if last.has_share or last.policy.effective_scheduler == "priority":
        return
    takers = sum(not each.has_share and not each.strict for each in classes)
    left = (whole - total) // takers
    if left * WHOLE <= whole * LEAST_DEFAULT:
        yield Finding(
            DEFAULT,
            last.place(),
            f"{last} has no bandwidth, and the other classes leave it "
            f"{percent(left, whole, 10) if left else 'nothing'}",
            "guarantee it a share, such as 25%, and the others less",
        )


def _without_ceiling(policy: AttachedPolicy, classes: Sequence[JudgedClass]) -> Iterator[Finding]:
    """Find classes of VyOS that can have no more than their guarantee."""
    if policy.family != "vyos":
        return
    for judged in classes[:-1]:
        given, class_ = judged.class_.bandwidth, judged.class_
        if given is None or (class_.borrow and given != class_.limit):
            continue
        if (judged.of(given) or 0) < (judged.capacity or 0):
            yield Finding(
                NO_CEILING,
                judged.place(),
                f"{judged} has no `ceiling` above its bandwidth: it gets no more, however idle the "
                "link is",
                "set `ceiling`, such as to 100%",
            )


def _scavengers(classes: Sequence[JudgedClass]) -> Iterator[Finding]:
    """Find scavenger classes that are guaranteed more than the default class."""
    default = classes[-1]
    best = default.guaranteed_or_rest
    if not default.is_default or best is None:
        return
    for judged in classes[:-1]:
        points, own = judged.code_points, judged.guaranteed
        if points and points <= _LESS_THAN_BEST_EFFORT and own is not None and own > best:
            yield Finding(
                SCAVENGER,
                judged.place("bandwidth"),
                f"{judged} is for traffic below best effort and is guaranteed {rate_text(own)}, "
                f"more than the {rate_text(best)} of {quote(default.class_name)}",
                "guarantee it less, such as 1%",
            )


def _ceilings(judged: JudgedClass) -> Iterator[Finding]:
    """Find ceilings of a class below its guarantee."""
    guaranteed = judged.guaranteed
    class_ = judged.class_
    if guaranteed is None:
        return
    police = class_.police if not judged.strict and judged.polices else None
    policed = None if police is None else police.peak_rate or police.rate
    shaped = None if class_.shape is None else class_.shape.rate
    # An upper limit is one of the share; a guarantee in real time goes before it.
    curved = None if class_.upperlimit is None else class_.upperlimit.last
    for keys, ceiling, what, own in (
        (("limit",), class_.limit, "limited to", guaranteed),
        (("upperlimit",), curved, "limited to", judged.share),
        (("shape", "rate"), shaped, "shaped to", guaranteed),
        (("police", "rate"), policed, "policed to", guaranteed),
    ):
        rate = None if ceiling is None else judged.of(ceiling)
        if rate is not None and own is not None and rate < own:
            yield Finding(
                CEILING,
                judged.place(*keys),
                f"{judged} is guaranteed {rate_text(own)} and {what} {rate_text(rate)}",
                f"raise it to {rate_text(own)}, or guarantee {rate_text(rate)}",
            )


def _whose(policy: AttachedPolicy, parent: JudgedClass | None, capacity: int | None) -> str:
    """Return the bandwidth that a level divides and its owner, for messages."""
    amount = "the bandwidth" if capacity is None else f"the {rate_text(capacity)}"
    if parent is not None:
        return f"{amount} of class {quote(parent.class_name)} around them"
    told = policy.attachment.rate_place
    line = f" ({told})" if told is not None and policy.shape is None else ""
    return f"{amount} of {policy.where}{line}"


def _listed(given: Sequence[tuple[JudgedClass, int]], capacity: int | None) -> str:
    """Return the guarantees of classes, for messages."""
    some = [
        f"{judged.class_name} "
        f"{format_share(amount) if capacity is None else rate_text(amount // WHOLE)}"
        for judged, amount in given
    ]
    return ", ".join(some[:8]) + (f" and {len(some) - 8} more" if len(some) > 8 else "")
