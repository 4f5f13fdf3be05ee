"""The ends of links that a configuration covers, with values and places resolved."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from perhop.routers.writing.packets import rules_of
from perhop.scenario.model.classes import CEILING_BURST, Class
from perhop.scenario.model.matching import Match
from perhop.scenario.resolve import rates

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from perhop.routers.reading.matching import Rules
    from perhop.scenario import Link, Queue, Scenario
    from perhop.scenario.model.cbq import Cbq
    from perhop.scenario.model.classes import Policy, Scheduler

__all__ = ["Ceiling", "Division", "End", "Mark", "Part", "ends", "only_polices", "opposite"]

QUEUE: Final = "queue"
"""The name of the policy that stands for a link's queue."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A token bucket that delays packets.

    Attributes:
        rate: Bits per second.
        burst: Bytes; 0 for a leaky bucket.
        place: Its place in the scenario.
    """

    rate: int
    burst: int
    place: str


@dataclass(frozen=True, slots=True)
class Part:
    """A class of a policy at the end of a link.

    Attributes:
        name: Its name in the policy.
        place: Its place in the scenario.
        class_: The class.
        rules: The packets that it matches, among those that no earlier class matched.
        rate: Its guarantee in bit/s; None for a strict class without a policer.
        capacity: The bandwidth that its policy divides, in bit/s.
        strict: True if it is served before all classes after it.
        ceiling: Its greatest rate; None without one.
        inside: The division of its bandwidth; None if it has a queue.
    """

    name: str
    place: str
    class_: Class
    rules: Rules
    rate: int | None
    capacity: int
    strict: bool
    ceiling: Ceiling | None
    inside: Division | None
    in_class: bool = True
    """False for a link's queue as a policy with one class, whose defaults differ."""

    @property
    def mark(self) -> int | None:
        """The code point that packets of the class get, before its policer."""
        return self.class_.dscp_mark

    @property
    def queue(self) -> Queue:
        """The queue of a class that is not divided."""
        return self.class_.effective_queue


@dataclass(frozen=True, slots=True)
class Division:
    """A policy that divides some bandwidth.

    Attributes:
        name: Its name: that of the policy, or of the class that it divides.
        place: Its place in the scenario.
        capacity: The bandwidth in bit/s.
        scheduler: The scheduler of the classes that are not strict.
        cbq: Settings of ALTQ's class-based queueing.
        parts: The classes in the order of matching; the last one matches every packet.
    """

    name: str
    place: str
    capacity: int
    scheduler: Scheduler
    cbq: Cbq | None
    parts: tuple[Part, ...]

    def walk(self) -> Iterator[tuple[Division, Part]]:
        """Yield all classes with the division that they belong to, each before those inside it."""
        for part in self.parts:
            yield self, part
            if part.inside is not None:
                yield from part.inside.walk()


@dataclass(frozen=True, slots=True)
class Mark:
    """Packets that get a code point on arrival.

    Attributes:
        place: The place of the rule in the scenario.
        rules: The packets, among those that no earlier rule matched.
        dscp: The new code point.
    """

    place: str
    rules: Rules
    dscp: int


@dataclass(frozen=True, slots=True)
class End:
    """A node's end of a link.

    Attributes:
        direction: Its name in results: "r1>r2".
        node: The sending node.
        number: The position of the link among the node's links.
        place: The place of the link in the scenario.
        link: The link.
        interface: The interface; "" for the default name of the family.
        shape: The shaper of everything that the node sends.
        division: The policy, or the queue as a policy with one class; None if the scenario leaves
            both to the default, and has no shaper.
        marks: Marking of what the node receives over the link; the first rule decides.
        receives: True if the division is for what the node receives over the link.
        inputs: The interfaces of the node's other links by their position; "" for default names.
    """

    direction: str
    node: str
    number: int
    place: str
    link: Link
    interface: str
    shape: Ceiling | None
    division: Division | None
    marks: tuple[Mark, ...]
    receives: bool = False
    inputs: Mapping[int, str] = field(default_factory=dict)


def ends(
    scenario: Scenario, links: Collection[str] = (), interfaces: Mapping[str, str] | None = None
) -> list[End]:
    """Return the ends of links that have a policy, a shaper, a queue of their own or marking.

    Args:
        scenario: The scenario.
        links: The directed links to cover; all of them by default, except hosts' ends with only a
            queue.
        interfaces: The name of the interface of each directed link.
    """
    found = []
    count = dict.fromkeys(scenario.nodes, 0)
    places = {id(link): f"links.{number}" for number, link in enumerate(scenario.links)}
    named: dict[str, list[str]] = {node: [] for node in scenario.nodes}
    for direction, (_, node) in scenario.directions.items():
        named[node].append((interfaces or {}).get(direction, ""))
    for direction, (link, node) in scenario.directions.items():
        number = count[node]
        count[node] += 1
        if links and direction not in links:
            continue
        place, policy, shape = places[id(link)], link.egress.get(node), link.shape.get(node)
        division = None
        if policy is not None:
            at = f"policies.{policy}"
            division = _division(
                scenario, policy, scenario.policies[policy], link.capacity(node), at
            )
        elif shape is not None or (
            "queue" in link.model_fields_set and (links or scenario.nodes[node].kind == "router")
        ):
            division = _queue(scenario, link, node, place)
        end = End(
            direction,
            node,
            number,
            place,
            link,
            (interfaces or {}).get(direction, ""),
            None
            if shape is None
            else Ceiling(
                shape.rate.of(link.medium(node).rate), shape.burst, f"{place}.shape.{node}"
            ),
            division,
            tuple(_marks(scenario, link, node, place)),
            inputs={at: name for at, name in enumerate(named[node]) if at != number},
        )
        if end.division is not None or end.shape is not None or end.marks:
            found.append(end)
    return found


def only_polices(division: Division | None) -> bool:
    """Return whether the classes of a policy match and police packets, and say nothing else."""
    if division is None or division.scheduler != "wfq" or division.name == QUEUE:
        return False
    said = {key for part in division.parts for key in part.class_.model_fields_set}
    return "police" in said and said <= {"match", "police", "unused"}


def opposite(scenario: Scenario, end: End, interfaces: Mapping[str, str]) -> End:
    """Return the other end of a link, where what the end sends is received.

    Args:
        scenario: The scenario.
        end: The sending end, with a policy.
        interfaces: The name of the interface of each directed link.
    """
    directions = [
        (direction, node)
        for direction, (link, node) in scenario.directions.items()
        if link is end.link and node != end.node
    ]
    [(direction, node)] = directions
    own = [link for link, at in scenario.directions.values() if at == node]
    number = next(index for index, link in enumerate(own) if link is end.link)
    return replace(
        end,
        node=node,
        number=number,
        interface=interfaces.get(direction, ""),
        marks=(),
        receives=True,
    )


def _queue(scenario: Scenario, link: Link, node: str, place: str) -> Division:
    """Return the queue of a link as a policy with one class."""
    queue = link.queue_of(node)
    limit = queue.effective_limit(in_class=False)
    queue = queue.model_copy(update={"limit": limit})
    class_ = Class.model_construct(match=Match(), queue=queue)
    capacity = link.capacity(node)
    part = Part(
        name="all",
        place=place,
        class_=class_,
        rules=rules_of(scenario, class_.match),
        rate=capacity,
        capacity=capacity,
        strict=False,
        ceiling=None,
        inside=None,
        in_class=False,
    )
    return Division(QUEUE, place, capacity, "wfq", None, (part,))


def _marks(scenario: Scenario, link: Link, node: str, place: str) -> Iterator[Mark]:
    """Yield the rules for packets that a node receives over a link, in the order of matching."""
    for at, rules in (
        (f"{place}.remark.{node}", link.remark.get(node, ())),
        (f"nodes.{node}.remark", scenario.nodes[node].remark),
    ):
        for number, rule in enumerate(rules):
            packets = rules_of(scenario, rule.match)
            if packets.rules:
                yield Mark(f"{at}.{number}", packets, rule.dscp)


def _division(scenario: Scenario, name: str, policy: Policy, capacity: int, place: str) -> Division:
    capacity = policy.root(capacity)
    parts = []
    for key, rate in rates(policy, capacity).items():
        class_ = policy.classes[key]
        at = f"{place}.classes.{key}"
        nested, inside = scenario.divided(policy, class_), None
        if nested is not None:
            within = f"policies.{class_.policy}" if class_.policy else at
            inside = _division(scenario, class_.policy or key, nested, rate or capacity, within)
        parts.append(
            Part(
                name=key,
                place=at,
                class_=class_,
                rules=rules_of(scenario, class_.match),
                rate=rate,
                capacity=capacity,
                strict=policy.strict(class_),
                ceiling=_ceiling(class_, rate, capacity, at),
                inside=inside,
            )
        )
    return Division(name, place, capacity, policy.effective_scheduler, policy.cbq, tuple(parts))


def _ceiling(class_: Class, rate: int | None, capacity: int, place: str) -> Ceiling | None:
    """Return the ceiling of a class with guaranteed `rate`."""
    if class_.limit is not None:
        return Ceiling(class_.limit.of(capacity), CEILING_BURST, f"{place}.limit")
    if not class_.borrow and rate is not None:
        return Ceiling(rate, CEILING_BURST, f"{place}.borrow")
    if class_.shape is not None:
        return Ceiling(class_.shape.rate.of(capacity), class_.shape.burst, f"{place}.shape")
    return None
