"""What Junos refuses when a configuration is committed.

A commit that is refused changes nothing, so that no interface has a policy of the configuration.
The rules are those of Juniper's documents: Configuring Forwarding Classes (a class in two queues),
Configuring Scheduler Transmission Rate (`remainder` with `exact`), Example: Configuring Excess Rate
for PTX Series (at most 100%), Example: Configuring Strict-Priority Scheduling (a scheduler map
beside a profile), Firewall Filter Match Conditions for IPv4 Traffic (conditions that exclude each
other), Firewall Filter Nonterminating Actions (actions that do), and the CLI reference (limits of
policers). The reasons are perhop's words for them.

A name that is not defined is refused, too, if the configuration defines others of its kind: else
another file may define it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Refused
from perhop.routers.reading.junos.classification import QUEUES
from perhop.routers.reading.junos.tree import chosen
from perhop.routers.reading.junos.values import percent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from perhop.routers.reading.junos.tree import Node

__all__ = ["refused"]

_EXCLUDE: Final = (
    ("port", ("source-port", "destination-port")),
    ("address", ("source-address", "destination-address")),
)
"""Conditions that stand in no term beside others."""

_ACTIONS: Final = (
    ("next", ("accept", "discard", "reject")),
    ("three-color-policer", ("loss-priority",)),
)
"""Actions that stand in no term beside others."""

_ELSEWHERE: Final = frozenset(
    ("fcoe", "no-loss", "mcast", "mcast-be", "mcast-af", "mcast-ef", "mcast-nc")
)
"""Forwarding classes that switches have without a definition."""


def refused(root: Node, cos: Node) -> list[Refused[Node]]:
    """Return the statements that Junos refuses, each by its last word, in their order."""
    found = [*_classes(cos), *_maps(cos), *_interfaces(cos)]
    firewall = root.get("firewall")
    if firewall is not None:
        found += [*_policers(firewall), *_terms(firewall)]
    found = [
        each._replace(node=next(node for node in each.node.walk() if not node.children))
        for each in found
    ]
    return sorted(found, key=lambda each: each.node.place)


def _queues(cos: Node) -> list[tuple[str, str, Node]]:
    """Return forwarding classes with their queues, each with its statement, in their order."""
    found = [
        (each.word, number.word, number)
        for each in cos.under("forwarding-classes", "class")
        if (number := each.value("queue-num")) is not None
    ]
    for queue in cos.under("forwarding-classes", "queue"):
        last = chosen(list(queue))
        if last is not None:
            found.append((last.word, queue.word, last))
    return sorted(found, key=lambda each: each[2].place)


def _classes(cos: Node) -> Iterator[Refused[Node]]:
    """Yield forwarding classes in two queues."""
    queues: dict[str, str] = {}
    for name, number, node in _queues(cos):
        if queues.setdefault(name, number) != number:
            yield Refused(node, f"class {name[:40]} is in queue {queues[name]} already")


def _names(cos: Node, *path: str) -> set[str]:
    return {each.word for each in cos.under(*path)}


def _maps(cos: Node) -> Iterator[Refused[Node]]:
    """Yield what is wrong with schedulers and scheduler maps."""
    queues = {name: queue for name, queue, _ in _queues(cos)}
    classes = queues.keys() | _names(cos, "forwarding-classes", "class")
    classes = classes | QUEUES.keys() | _ELSEWHERE if classes else set()
    schedulers = {each.word: each for each in cos.under("schedulers")}
    for scheduler in schedulers.values():
        rest = scheduler.get("transmit-rate", "remainder")
        rate = scheduler.get("transmit-rate")
        if rest is not None and rate is not None:
            exact = rate.get("exact") or next(
                (e for n in rest.walk() if (e := n.get("exact"))), None
            )
            if exact is not None:
                yield Refused(exact, "`remainder` and `exact` exclude each other")
    for each in cos.under("scheduler-maps"):
        total = Fraction(0)
        last: Node | None = None
        counted: set[str] = set()
        for forwarding in each.under("forwarding-class"):
            name = forwarding.value("scheduler")
            if classes and forwarding.word not in classes:
                reason = f"forwarding class {forwarding.word[:40]} is not defined"
                yield Refused(forwarding, reason, undefined=True)
                continue
            if name is None:
                continue
            if schedulers and name.word not in schedulers:
                yield Refused(name, f"scheduler {name.word[:40]} is not defined", undefined=True)
                continue
            queue = queues.get(forwarding.word, forwarding.word)
            if queue in counted:
                continue  # its queue has the scheduler of another class
            counted.add(queue)
            rate = cos.get("schedulers", name.word, "transmit-rate", "percent")
            share = (
                chosen([part for part in rate if percent(part.word) is not None]) if rate else None
            )
            if share is not None:
                total += percent(share.word) or 0
                last = share if total > 100 and last is None else last
        if last is not None:
            reason = (
                f"the transmit rates of scheduler map {each.word[:40]} are {float(total):g}% in sum"
            )
            yield Refused(last, f"{reason}; at most 100%")


def _interfaces(cos: Node) -> Iterator[Refused[Node]]:
    """Yield scheduler maps that are not defined, or that stand beside a profile."""
    maps, profiles = _names(cos, "scheduler-maps"), _names(cos, "traffic-control-profiles")
    for interface in cos.under("interfaces"):
        for level in (interface, *interface.under("unit")):
            profile = level.value("output-traffic-control-profile")
            name = level.value("scheduler-map")
            if name is not None and maps and name.word not in maps:
                yield Refused(
                    name, f"scheduler map {name.word[:40]} is not defined", undefined=True
                )
            if profile is None:
                continue
            if profiles and profile.word not in profiles:
                reason = f"traffic control profile {profile.word[:40]} is not defined"
                yield Refused(profile, reason, undefined=True)
            for word in ("scheduler-map", "shaping-rate"):
                node = level.get(word)
                if node is not None:
                    reason = f"`{word}` and an output traffic control profile exclude each other"
                    yield Refused(node, reason)


def _policers(firewall: Node) -> Iterator[Refused[Node]]:
    """Yield policers without a rate or burst."""
    for policer in firewall.under("policer"):
        limits = policer.get("if-exceeding")
        if limits is None:
            continue
        for words in (("bandwidth-limit", "bandwidth-percent"), ("burst-size-limit",)):
            if not any(limits.get(word) for word in words):
                needed = " or ".join(f"`{word}`" for word in words)
                yield Refused(limits, f"policer {policer.word[:40]} has no {needed}")


def _terms(firewall: Node) -> Iterator[Refused[Node]]:
    """Yield conditions that exclude each other, and policers that are not defined."""
    kinds = ("policer", "three-color-policer", "hierarchical-policer")
    known = {kind: names for kind in kinds if (names := _names(firewall, kind))}
    filters = [each for family in firewall.under("family") for each in family.under("filter")]
    for each in (*filters, *firewall.under("filter")):
        for term in (*each.under("term"), each):
            for part, rules in (("from", _EXCLUDE), ("then", _ACTIONS)):
                if (inside := term.get(part)) is not None:
                    yield from _excluded(inside, rules)
            for kind, names in known.items():
                for name in _policers_of(term, kind):
                    if name.word not in names:
                        reason = f"policer {name.word[:40]} is not defined"
                        yield Refused(name, reason, undefined=True)


def _policers_of(term: Node, kind: str) -> Collection[Node]:
    if kind != "three-color-policer":
        return term.under("then", kind)
    return [name for rates in term.under("then", kind) for name in rates]


def _excluded(part: Node, rules: Sequence[tuple[str, Sequence[str]]]) -> Iterator[Refused[Node]]:
    for one, others in rules:
        first = part.get(one)
        for other in others:
            second = part.get(other)
            if first and second and not (first.emptied or second.emptied):
                reason = f"`{one}` and `{other}` exclude each other in a term"
                yield Refused(second, reason)
