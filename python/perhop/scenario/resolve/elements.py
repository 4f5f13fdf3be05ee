"""All elements of one kind in a scenario, with their paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.scenario.model.encapsulation import CLASS_KEYS
from perhop.scenario.model.matching import placed_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.classes import Class, Police, Policer, Policy
    from perhop.scenario.model.expectations import Measured
    from perhop.scenario.model.marking import MarkRule
    from perhop.scenario.model.matching import Matching
    from perhop.scenario.model.queues import Queue
    from perhop.scenario.model.traffic import Flow, Ping
    from perhop.scenario.resolve.scenario import ResolvedScenario


def senders(scenario: ResolvedScenario) -> Iterator[tuple[str, str, Flow | Ping]]:
    """Yield every flow and ping with its section and name."""
    yield from (("flows", name, flow) for name, flow in scenario.flows.items())
    yield from (("pings", name, ping) for name, ping in scenario.pings.items())


def measured(scenario: ResolvedScenario) -> Iterator[tuple[Loc, Measured]]:
    """Yield every expectation and published figure."""
    yield from ((("expect", index), item) for index, item in enumerate(scenario.expect))
    yield from ((("published", index), item) for index, item in enumerate(scenario.published))


def classes(scenario: ResolvedScenario) -> Iterator[tuple[Loc, Policy, Class]]:
    """Yield every class, nested ones included, with the policy that it belongs to."""
    for loc, policy in scenario.all_policies():
        for key, class_ in policy.classes.items():
            yield (*loc, key), policy, class_


def policers(scenario: ResolvedScenario) -> Iterator[tuple[Loc, Policer]]:
    """Yield every policer before classes."""
    for name, policy in scenario.policies.items():
        for key, policer in policy.policers.items():
            yield ("policies", name, "policers", key), policer


def polices(scenario: ResolvedScenario) -> Iterator[tuple[Loc, Matching, Police]]:
    """Yield the policer of every class and policy that has one, with its place and packets."""
    for loc, policer in policers(scenario):
        yield (*loc, "police"), policer.match, policer.police
    for loc, _, class_ in classes(scenario):
        if class_.police is not None:
            yield (*loc, "police"), class_.match, class_.police


def queues(scenario: ResolvedScenario) -> Iterator[tuple[Loc, Queue]]:
    """Yield the queue of every link, and the queues that classes have in the file."""
    for index, link in enumerate(scenario.links):
        if isinstance(link.queue, dict):
            yield from ((("links", index, "queue", end), own) for end, own in link.queue.items())
        else:
            yield ("links", index, "queue"), link.queue
    for loc, _, class_ in classes(scenario):
        if class_.queue is not None:
            yield (*loc, "queue"), class_.queue


def link_classes(scenario: ResolvedScenario) -> Iterator[Loc]:
    """Yield the places of all matches and marks of classes at layer 2."""
    matches = [((*loc, "match"), class_.match) for loc, _, class_ in classes(scenario)]
    matches += [((*loc, "match"), policer.match) for loc, policer in policers(scenario)]
    matches += [
        ((*loc, index, "match"), rule.match)
        for loc, rules in markings(scenario)
        for index, rule in enumerate(rules)
    ]
    for loc, match in matches:
        for place, rule in placed_rules(match, loc):
            yield from (
                (*place, key)
                for key in CLASS_KEYS.values()
                if getattr(rule.conditions, key) is not None
            )
    for loc, _, class_ in classes(scenario):
        if class_.mark is not None:
            yield from (
                (*loc, "mark", key)
                for key in CLASS_KEYS.values()
                if getattr(class_.mark, key) is not None
            )


def markings(scenario: ResolvedScenario) -> Iterator[tuple[Loc, tuple[MarkRule, ...]]]:
    """Yield the marking rules of every node and of every end of a link."""
    for name, node in scenario.nodes.items():
        yield ("nodes", name, "remark"), node.remark
    for index, link in enumerate(scenario.links):
        for end, rules in link.remark.items():
            yield ("links", index, "remark", end), rules
