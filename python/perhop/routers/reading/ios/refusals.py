"""What IOS refuses in a policy map, with its reasons.

Cisco IOS Quality of Service Solutions Command Reference, `bandwidth`, `bandwidth remaining` and
`priority`; Distribution of Remaining Bandwidth Using Ratio, Restrictions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading.ios.actions import Settings
    from perhop.routers.reading.ios.tree import Statement

__all__ = ["refused"]


def refused(classes: Sequence[Settings]) -> tuple[Statement, str] | None:
    """Return the first statement of a policy map that IOS refuses, with the reason.

    Args:
        classes: The classes in the order of the configuration.
    """
    found = [*_in_a_class(classes), *_mixed(classes), *_levels(classes)]
    return min(found, key=lambda each: each[0].place.line, default=None)


def _in_a_class(classes: Sequence[Settings]) -> list[tuple[Statement, str]]:
    """Return guarantees of classes that have priority."""
    found = []
    for each in classes:
        priority = each.statements.get("priority")
        for key in ("bandwidth", "remaining"):
            if priority is not None and key in each.statements:
                later = max(each.statements[key], priority, key=lambda one: one.place.line)
                found.append((later, "`bandwidth` and `priority` exclude each other in a class"))
    return found


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
