"""Rules on policies with service curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.scenario.model.hfsc import CURVES, HFSC
from perhop.scenario.resolve.curves import steepest
from perhop.scenario.resolve.elements import classes
from perhop.scenario.resolve.shares import walk
from perhop.scenario.resolve.steps import attachments
from perhop.scenario.rules.findings import Finding
from perhop.units import format_rate, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.classes import Class, Policy
    from perhop.scenario.model.hfsc import Curve, Slopes
    from perhop.scenario.resolve.scenario import ResolvedScenario

_EXCLUDED = {
    "priority": ("is an order", "`realtime` curves"),
    "limit": ("is a ceiling", "`upperlimit`"),
    "shape": ("is a ceiling", "`upperlimit`"),
    "borrow": ("is a ceiling", "`upperlimit`"),
    "policy": ("is another scheduler", "`classes`"),
}
"""The keys of a class that exclude service curves: what each is, and what does the same."""


def service_curves(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find classes whose keys do not go with their scheduler, and curves without a form."""
    for loc, policy, class_ in classes(scenario):
        nested = scenario.policies.get(class_.policy or "")
        if policy.scheduler != HFSC:
            for key in CURVES:
                if getattr(class_, key) is not None:
                    yield Finding((*loc, key), f"is given without `scheduler: {HFSC}`", at_key=True)
            if nested is not None and nested.scheduler == HFSC:
                yield Finding(
                    (*loc, "policy"),
                    f"{quote(class_.policy or '')} has `scheduler: {HFSC}`, which divides "
                    "links only; expected another policy",
                )
            continue
        yield from _keys(loc, class_)
        for key in CURVES:
            curve: Curve | None = getattr(class_, key)
            if curve is not None:
                yield from _form((*loc, key), curve)


def _keys(loc: Loc, class_: Class) -> Iterator[Finding]:
    """Find keys that a class with service curves cannot have."""
    for key, (what, better) in _EXCLUDED.items():
        if getattr(class_, key) not in (None, True):
            yield Finding(
                (*loc, key),
                f"{what}, which a class of `scheduler: {HFSC}` cannot have; expected {better}",
                at_key=True,
            )
    if class_.bandwidth is not None and class_.linkshare is not None:
        yield Finding(
            (*loc, "linkshare"), "is given beside `bandwidth`; expected one of the two", at_key=True
        )
    if class_.classes is not None:
        for key in ("realtime", "police"):
            if getattr(class_, key) is not None:
                yield Finding(
                    (*loc, key),
                    f"is given beside `classes`, which have their own under `scheduler: {HFSC}`; "
                    "expected one of the two",
                    at_key=True,
                )


def _form(loc: Loc, curve: Curve) -> Iterator[Finding]:
    """Find curves that have none of the three forms."""
    given = {key for key in type(curve).model_fields if getattr(curve, key) is not None}
    if given in ({"rate"}, {"umax", "dmax", "rate"}, {"d", "m2"}, {"m1", "d", "m2"}):
        return
    words = ", ".join(f"`{key}`" for key in type(curve).model_fields if key in given)
    yield Finding(
        loc,
        f"has {words or 'no key'}; expected `rate`, or `m1`, `d` and `m2`, or `umax`, `dmax` and "
        "`rate`",
    )


def realtime_curves(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Warn of real-time curves that together exceed their link."""
    told: set[str] = set()
    for _, directed, name, capacity in attachments(scenario):
        policy = scenario.policies.get(name)
        if policy is None or policy.scheduler != HFSC or name in told:
            continue
        most = steepest(_realtime(scenario, policy, capacity))
        if most > capacity:
            told.add(name)
            yield Finding(
                ("policies", name, "classes"),
                f"real-time curves demand {format_rate(most)} of link {quote(directed)}, which has "
                f"{format_rate(capacity)}: packets may miss their deadlines",
            )


def _realtime(scenario: ResolvedScenario, policy: Policy, capacity: int) -> list[Slopes]:
    placed = walk(scenario, policy, capacity)
    curves = ((each.class_.realtime, each.capacity) for each in placed)
    return [curve.slopes(within) for curve, within in curves if curve is not None]
