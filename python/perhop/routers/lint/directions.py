"""Rules on the two directions of an interface or link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.routers.lint.findings import Finding, Rule, Severity
from perhop.routers.lint.wording import listed, rate_text
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.routers.lint.policies import AttachedPolicy, JudgedClass

ONE_WAY: Final = Rule(
    "one-way-class",
    Severity.NOTE,
    "Code points with a class of their own in one direction of a link, and none in the other.",
    "A conversation has two directions. Replies, acknowledgements and the other half of a call are "
    "in the default class on the way back.",
    "Give both directions classes for the same code points.",
)

UNEQUAL: Final = Rule(
    "unequal-policers",
    Severity.NOTE,
    "Policers of all packets at an interface that have different rates in its two directions.",
    "Where a service has one rate, one of the two is wrong; services such as ADSL have two.",
    "Set both to the rate of the service.",
)

UNUSED: Final = Rule(
    "unused-policy",
    Severity.NOTE,
    "A policy that no interface uses, where others are used.",
    "It has no effect. Often the statement that attaches it was forgotten.",
    "Attach it to an interface, or remove it.",
)

RULES: Final = (ONE_WAY, UNEQUAL, UNUSED)


def findings(policies: Sequence[AttachedPolicy]) -> Iterator[Finding]:
    """Find directions that do not fit each other, and policies without an interface."""
    for one, other in _pairs(policies):
        yield from _one_way(one, other)
        yield from _one_way(other, one)
        yield from _unequal(one, other)
    if any(policy.attachment.interface for policy in policies):
        for policy in policies:
            # Scenarios themselves refuse policies that nothing uses. A name that a file has once
            # more may be used where no reader looks.
            used = policy.attachment.interface or policy.referenced
            if not used and policy.family != "scenario":
                yield Finding(
                    UNUSED,
                    policy.place,
                    f"policy {quote(policy.attachment.name)} is at no interface",
                    "attach it to an interface, or remove it",
                )


def _pairs(policies: Sequence[AttachedPolicy]) -> Iterator[tuple[AttachedPolicy, AttachedPolicy]]:
    """Yield the policies of the two directions of each interface or link."""
    by_link: dict[tuple[str, ...], list[AttachedPolicy]] = {}
    for policy in policies:
        interface = policy.attachment.interface
        if not interface:
            continue
        ends, separator, name = interface.partition("#")
        link = (policy.place.file, *sorted(ends.split(">")), separator, name)
        by_link.setdefault(
            link if policy.family == "scenario" else (link[0], interface), []
        ).append(policy)
    for pair in by_link.values():
        if len(pair) == 2 and pair[0].policy != pair[1].policy:
            yield pair[0], pair[1]


def _one_way(one: AttachedPolicy, other: AttachedPolicy) -> Iterator[Finding]:
    """Find classes of `one` for code points that have no class in `other`."""
    if not (_by_code_points(one) and _by_code_points(other)):
        return
    back = frozenset().union(*(judged.named_code_points for judged in other.classes))
    for judged in one.classes:
        points = judged.code_points
        if points and points.isdisjoint(back):
            names = listed(points)
            yield Finding(
                ONE_WAY,
                judged.place("match"),
                f"{judged} matches {names}, and {other.where} has no class for that",
                f"give policy {quote(other.attachment.name)} a class for {names}",
            )


def _by_code_points(policy: AttachedPolicy) -> bool:
    """Return whether a policy selects by code points, and does not set them."""
    return any(judged.code_points for judged in policy.classes) and all(
        judged.mark is None for judged in policy.classes
    )


def _unequal(one: AttachedPolicy, other: AttachedPolicy) -> Iterator[Finding]:
    """Find policers of everything with different rates."""
    mine, theirs = _policer_of_all(one), _policer_of_all(other)
    if mine is None or theirs is None:
        return
    (judged, rate), (_, back) = mine, theirs
    if rate != back:
        yield Finding(
            UNEQUAL,
            judged.place("police", "rate"),
            f"{one.where} is policed at {rate_text(rate)}, and {other.where} at {rate_text(back)}",
            "set both to the rate of the service, or ignore this if it has two",
        )


def _policer_of_all(policy: AttachedPolicy) -> tuple[JudgedClass, int] | None:
    """Return the only class of a policy, and the rate of its policer."""
    if len(policy.classes) != 1 or not policy.classes[0].polices:
        return None
    judged = policy.classes[0]
    police = judged.class_.police
    rate = judged.of(police.rate) if police is not None else None
    return None if rate is None else (judged, rate)
