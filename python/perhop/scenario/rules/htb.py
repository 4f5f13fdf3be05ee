"""Rules on policies with hierarchical token buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.scenario.model.cake import Framing
from perhop.scenario.model.cbq import ALTQ_CBQ
from perhop.scenario.model.htb import DEEPEST, HTB
from perhop.scenario.resolve.elements import classes
from perhop.scenario.rules.findings import Finding
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.classes import Class
    from perhop.scenario.resolve.scenario import ResolvedScenario


def token_buckets(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find classes whose keys hierarchical token buckets do not have."""
    for name, policy in scenario.policies.items():
        if policy.htb is not None and policy.scheduler != HTB:
            yield Finding(
                ("policies", name, "htb"), f"is given without `scheduler: {HTB}`", at_key=True
            )
        if policy.overhead != Framing() and policy.scheduler in (HTB, ALTQ_CBQ):
            better = "`htb: {overhead: …}`" if policy.scheduler == HTB else "none"
            yield Finding(
                ("policies", name, "overhead"),
                f"is a setting that `scheduler: {policy.scheduler}` does not have here; "
                f"expected {better}",
                at_key=True,
            )
    for loc, policy, class_ in classes(scenario):
        nested = scenario.policies.get(class_.policy or "")
        if nested is not None and nested.scheduler == HTB:
            yield Finding(
                (*loc, "policy"),
                f"{quote(class_.policy or '')} has `scheduler: {HTB}`, which divides links only; "
                "expected another policy",
            )
        if policy.scheduler == HTB:
            yield from _keys(loc, class_)


def _keys(loc: Loc, class_: Class) -> Iterator[Finding]:
    """Find keys that a class cannot have in its place."""
    depth = len(loc[3::2])
    if depth > DEEPEST:
        yield Finding(loc, f"is more than {DEEPEST} levels deep, the most of `scheduler: {HTB}`")
    if class_.priority == "strict" and (depth > 1 or class_.classes is not None):
        yield Finding(
            (*loc, "priority"),
            f"is strict, which only a class of the link with a queue can be under "
            f"`scheduler: {HTB}`; expected a number from 0 to 7",
        )
    if class_.classes is not None:
        for key in ("priority", "police", "quantum"):
            if getattr(class_, key) is not None:
                yield Finding(
                    (*loc, key),
                    f"is given beside `classes`, which have their own under `scheduler: {HTB}`; "
                    "expected one of the two",
                    at_key=True,
                )
