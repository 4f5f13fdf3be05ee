"""Rules on the timeline of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.hints import did_you_mean, listed
from perhop.scenario.model.changes import NO_POLICY
from perhop.scenario.model.ends import by_end
from perhop.scenario.resolve.nesting import has_cycles
from perhop.scenario.resolve.steps import Step, changed_class, steps
from perhop.scenario.rules.findings import Finding, known, not_an_end
from perhop.scenario.rules.policies import excess_guarantees
from perhop.units import format_duration, format_rate, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.changes import Change
    from perhop.scenario.model.classes import Class
    from perhop.scenario.model.topology import Link
    from perhop.scenario.resolve.scenario import ResolvedScenario

_OF_A_LINK = ("rate", "delay", "loss", "state", "policy", "class", "police")


def changes(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find changes without effect, of unknown links, or outside the scenario."""
    directions = scenario.directions
    for index, change in enumerate(scenario.changes):
        loc: Loc = ("changes", index)
        if scenario.end_ps and change.at > scenario.end_ps:
            yield Finding(
                (*loc, "at"),
                f"{format_duration(change.at)} is after the end of the scenario, "
                f"{format_duration(scenario.end_ps)}",
            )
        yield from keys_of_change(change, directions, loc)
        yield from balance_of_change(scenario, change, loc)


def keys_of_change(
    change: Change, directions: Mapping[str, tuple[Link, str]], loc: Loc
) -> Iterator[Finding]:
    """Find keys of a change that do not belong together, or to its link."""
    given = [
        key
        for key in _OF_A_LINK
        if getattr(change, "class_" if key == "class" else key) is not None
    ]
    if change.on is not None and change.on not in directions:
        yield Finding(
            (*loc, "on"),
            f"{quote(change.on)} is not a directed link{listed(directions)}",
            did_you_mean(change.on, directions),
        )
    link, _ = directions.get(change.on or "", (None, ""))
    traces = [] if link is None else list(link.trace.values())
    for key in ("rate", "delay", "loss"):
        if key in given and any(trace.sets(key) for trace in traces):
            yield Finding(
                (*loc, key),
                f"{quote(str(change.on))} has a trace of its {key}; expected no change of it",
                at_key=True,
            )
    if not given and change.clear is None and change.balance is None and change.node is None:
        keys = ", ".join(_OF_A_LINK)
        yield Finding(loc, f"changes nothing; expected one of {keys}, balance or clear")
    elif given and change.on is None:
        yield Finding(
            (*loc, given[0]),
            "is given without `on`; expected the directed link, such as `on: r1>r2`",
            at_key=True,
        )
    if change.on is not None and change.on in directions:
        link, _ = directions[change.on]
        for key in ("rate", "delay", "loss"):
            for node in by_end(getattr(change, key)):
                if node not in link.ends:
                    yield not_an_end(node, link.ends, "link", (*loc, key, node))
    if (change.class_ is None) != (change.police is None):
        key, missing = ("class", "police") if change.police is None else ("police", "class")
        yield Finding((*loc, key), f"is given without `{missing}`; expected both", at_key=True)
    if change.police is not None and not change.police.given:
        yield Finding((*loc, "police"), "changes nothing; expected a `rate` or a `burst`")


def balance_of_change(scenario: ResolvedScenario, change: Change, loc: Loc) -> Iterator[Finding]:
    """Find a node without a new load balancing, and the other way round."""
    if (change.node is None) != (change.balance is None):
        key, missing = ("node", "balance") if change.balance is None else ("balance", "node")
        yield Finding((*loc, key), f"is given without `{missing}`; expected both", at_key=True)
    if change.node is not None:
        yield from known(change.node, scenario.nodes, "node", (*loc, "node"))


def policies_of_changes(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find unknown policies and policers, and guarantees above the capacity."""
    if NO_POLICY in scenario.policies:
        yield Finding(
            ("policies", NO_POLICY),
            f"`{NO_POLICY}` stands for no policy; expected another name",
            at_key=True,
        )
    if has_cycles(scenario):
        return
    for step in steps(scenario):
        yield from policy_of_step(scenario, step)


def policy_of_step(scenario: ResolvedScenario, step: Step) -> Iterator[Finding]:
    """Find an unknown policy of a step, and policers that guarantee too much."""
    if step.policy is None or step.policy in scenario.policies:
        yield from _policer(scenario, step)
    elif step.change.policy is not None:
        yield Finding(
            (*step.loc, "policy"),
            f"{quote(step.policy)} is not a policy{listed(scenario.policies)}",
            did_you_mean(step.policy, scenario.policies),
        )


def _policer(scenario: ResolvedScenario, step: Step) -> Iterator[Finding]:
    """Find invalid new settings of a policer."""
    change = step.change
    on = str(change.on)
    if change.class_ is None or change.police is None:
        return
    placed = changed_class(scenario, step)
    if isinstance(placed, list):
        where = f"of {quote(step.policy)}" if step.policy else f"on {quote(on)}"
        yield Finding(
            (*step.loc, "class"),
            f"{quote(change.class_)} is not a class {where} at {format_duration(change.at)}"
            f"{listed(placed)}",
            did_you_mean(change.class_, placed),
        )
        return
    above = change.class_.removesuffix(placed.name)
    classes = {
        name: _now(step, above, name, class_) for name, class_ in placed.policy.classes.items()
    }
    police = classes[placed.name].police
    if police is None:
        yield Finding(
            (*step.loc, "class"), f"{quote(change.class_)} has no policer; expected one that has"
        )
        return
    loc: Loc = (*step.loc, "police", "rate")
    rate = police.rate.of(placed.capacity)
    if rate < 1:
        yield Finding(loc, f"is less than 1 bps of the {format_rate(placed.capacity)} there")
    elif police.peak_rate is not None and police.peak_rate.of(placed.capacity) < rate:
        peak = format_rate(police.peak_rate.of(placed.capacity))
        yield Finding(loc, f"is above the policer's peak rate of {peak}; expected no more")
    elif placed.policy.strict(placed.class_):
        policy = placed.policy.model_copy(update={"classes": classes})
        for finding in excess_guarantees(loc, policy, placed.capacity, f"link {quote(on)}"):
            yield Finding(loc, f"is too high: with it, the classes {finding.message}")
            break


def _now(step: Step, above: str, name: str, class_: Class) -> Class:
    """Return a class as it is from `step` on."""
    change = step.police.get(above + name)
    if change is None or class_.police is None:
        return class_
    return class_.model_copy(update={"police": class_.police.model_copy(update=change.given)})
