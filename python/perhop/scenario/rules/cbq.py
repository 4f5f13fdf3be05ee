"""Rules on policies of ALTQ's class-based queueing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.scenario.model.cbq import ALTQ_CBQ
from perhop.scenario.rules.findings import Finding
from perhop.units import MILLISECOND, format_duration, format_rate, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.cbq import Cbq
    from perhop.scenario.resolve.scenario import ResolvedScenario

LEAST_TICK: Final = MILLISECOND // 10
"""The least time between two ticks: a clock of 10,000 Hz."""


def altq_cbq(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find settings that ALTQ's class-based queueing does not have."""
    for name, policy in scenario.policies.items():
        if policy.cbq is not None and policy.scheduler != ALTQ_CBQ:
            yield Finding(
                ("policies", name, "cbq"),
                f"is given without `scheduler: {ALTQ_CBQ}`",
                at_key=True,
            )
        elif policy.cbq is not None:
            yield from _settings(("policies", name, "cbq"), policy.cbq)
    yield from _roots(scenario)
    for loc, policy in scenario.all_policies():
        for key, class_ in policy.classes.items():
            nested = scenario.policies.get(class_.policy or "")
            if policy.scheduler != ALTQ_CBQ:
                if nested is not None and nested.scheduler == ALTQ_CBQ:
                    yield Finding(
                        (*loc, key, "policy"),
                        f"{quote(class_.policy or '')} has `scheduler: {ALTQ_CBQ}`, which divides "
                        "links only; expected another policy",
                    )
                continue
            for word, given, what, better in (
                (
                    "priority",
                    class_.priority == "strict",
                    "is strict",
                    "a number from 0 to 7",
                ),
                ("limit", class_.limit is not None, "is a ceiling", "`borrow: false`"),
                ("shape", class_.shape is not None, "is a ceiling", "`borrow: false`"),
                ("policy", class_.policy is not None, "is another scheduler", "`classes`"),
            ):
                if given:
                    yield Finding(
                        (*loc, key, word),
                        f"{what}, which a class of `scheduler: {ALTQ_CBQ}` cannot have; "
                        f"expected {better}",
                        at_key=word != "priority",
                    )
            if class_.classes is not None:
                for word, given in (
                    ("priority", class_.borrows_late),
                    ("police", class_.police is not None),
                ):
                    if given:
                        yield Finding(
                            (*loc, key, word),
                            f"is given beside `classes`, which have their own under "
                            f"`scheduler: {ALTQ_CBQ}`; expected one of the two",
                            at_key=True,
                        )


def _settings(loc: Loc, cbq: Cbq) -> Iterator[Finding]:
    if cbq.tick < LEAST_TICK:
        yield Finding(
            (*loc, "tick"),
            f"{format_duration(cbq.tick)} is too short; expected {format_duration(LEAST_TICK)} "
            "or more",
        )
    if cbq.maxburst is not None and cbq.maxburst < cbq.minburst:
        yield Finding(
            (*loc, "maxburst"),
            f"is less than `minburst`, which is {cbq.minburst}; expected no less",
        )


def _roots(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find roots with more than their link's rate."""
    told: set[str] = set()
    for direction, (link, node) in scenario.queueing.items():
        name = link.egress.get(node, "")
        policy = scenario.policies.get(name)
        if policy is None or policy.cbq is None or policy.cbq.rate is None or name in told:
            continue
        if policy.cbq.rate > link.capacity(node):
            told.add(name)
            yield Finding(
                ("policies", name, "cbq", "rate"),
                f"is more than the {format_rate(link.capacity(node))} of link {quote(direction)}; "
                "expected no more",
            )
