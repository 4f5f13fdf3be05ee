"""The network after each change."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Self

from perhop.scenario.model.changes import NO_POLICY, PoliceChange
from perhop.scenario.model.ends import by_end
from perhop.scenario.resolve.shares import walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.changes import Change
    from perhop.scenario.model.topology import Link
    from perhop.scenario.resolve.scenario import ResolvedScenario
    from perhop.scenario.resolve.shares import Placed


@dataclass(frozen=True, slots=True)
class Step:
    """A change, and the state of its link after it.

    Attributes:
        loc: Its path in the scenario.
        change: The change.
        number: The number of its link.
        link: The link after the change.
        node: The sending node of the changed direction.
        policy: The policy of that node's end after the change; None for a queue.
        capacity: The bandwidth that the policy divides, in bit/s.
        police: The changes of the policers of that policy, by class.
        rewired: The directions whose rate, delay or loss changes: their names, and their senders.
    """

    loc: Loc
    change: Change
    number: int
    link: Link
    node: str
    policy: str | None
    capacity: int
    police: Mapping[str, PoliceChange]
    rewired: tuple[tuple[str, str], ...]


class NetworkState:
    """The links of a scenario's network after some changes.

    Attributes:
        directions: Both directions of every original link: the link, and the sending node.
        links: The current links, by number.
        attached: By directed link, the policy of its end, None for the link's queue, and the
            bandwidth that the policy divides, in bit/s.
        police: The changes of policers, by directed link and class.
        down: The numbers of the links that are down.
    """

    def __init__(self, scenario: ResolvedScenario) -> None:
        """Start with the network at time zero."""
        self.directions = scenario.directions
        self.links = list(scenario.links)
        self.attached: dict[str, tuple[str | None, int]] = {
            name: (link.egress.get(node), link.capacity(node))
            for name, (link, node) in self.directions.items()
        }
        self.police: dict[str, dict[str, PoliceChange]] = {name: {} for name in self.directions}
        self.down: set[int] = set()
        self._names = list(self.directions)
        self._numbers = {name: index // 2 for index, name in enumerate(self._names)}

    def copy(self) -> Self:
        """Return an independent copy of the state."""
        other = copy(self)
        other.links, other.attached = list(self.links), dict(self.attached)
        other.police, other.down = dict(self.police), set(self.down)
        return other

    def apply(self, change: Change, loc: Loc = ()) -> Step:
        """Apply a change of a known directed link; `loc` is the path of the change."""
        on = str(change.on)
        number, node = self._numbers[on], self.directions[on][1]
        senders = self._rewire(change, number, node)
        link = self.links[number]
        if change.state is not None:
            self.down = self.down - {number} | ({number} if change.state == "down" else set())
        if change.policy is not None:
            policy = None if change.policy == NO_POLICY else change.policy
            self.attached[on] = policy, link.capacity(node)
            self.police[on] = {}
        if change.class_ is not None and change.police is not None:
            earlier = self.police[on].get(change.class_, PoliceChange())
            changed = earlier.model_copy(update=change.police.given)
            self.police[on] = {**self.police[on], change.class_: changed}
        both = self._names[2 * number : 2 * number + 2]
        rewired = tuple(
            (name, end) for name, end in zip(both, link.ends, strict=True) if end in senders
        )
        return Step(loc, change, number, link, node, *self.attached[on], self.police[on], rewired)

    def _rewire(self, change: Change, number: int, node: str) -> set[str]:
        """Change a link's rate, delay and loss; return the ends that send by new values.

        One value is that of both directions, or of the direction in which `node` sends if the
        scenario states the key by end.
        """
        original, link = self.directions[self._names[2 * number]][0], self.links[number]
        senders: set[str] = set()
        wire: dict[str, Any] = {}
        for key in ("rate", "delay", "loss"):
            value = getattr(change, key)
            if value is None:
                continue
            ends = by_end(value)
            if not ends:
                ends = dict.fromkeys([node] if by_end(getattr(original, key)) else link.ends, value)
            present = {end: getattr(link.medium(end), key) for end in link.ends}
            values = {**present, **ends}
            same = len(set(values.values())) == 1
            wire[key] = values[node] if same else values
            senders |= ends.keys()
        if wire:
            self.links[number] = link.model_copy(update=wire)
        return senders

    def steps(self, changes: Sequence[Change]) -> Iterator[Step]:
        """Apply the changes of a timeline in order of time; those of unknown links are left out."""
        for index, change in sorted(enumerate(changes), key=lambda item: item[1].at):
            if change.on in self.directions:
                yield self.apply(change, ("changes", index))

    def number(self, direction: str) -> int:
        """Return the number of the link with this direction."""
        return self._numbers[direction]


def steps(scenario: ResolvedScenario) -> Iterator[Step]:
    """Return the changes of known links, in order of time and then of the file."""
    return NetworkState(scenario).steps(scenario.changes)


def states(scenario: ResolvedScenario) -> Iterator[tuple[int, NetworkState]]:
    """Yield the network at first, and after each instant at which it changes.

    Yields:
        The instant in picoseconds, and the network at that instant: always the same object.
    """
    state = NetworkState(scenario)
    yield 0, state
    changes = sorted(scenario.changes, key=lambda change: change.at)
    known = (change for change in changes if change.on in state.directions)
    for at, together in groupby(known, key=lambda change: change.at):
        for change in together:
            state.apply(change)
        yield at, state


def sending_rate(scenario: ResolvedScenario, state: NetworkState, direction: str) -> int:
    """Return the rate at which a node can send into a directed link now, in bit/s.

    It is the least of the rates of the link, of its shaper and of the root of its policy.
    """
    link, node = scenario.directions[direction]
    rate = state.links[state.number(direction)].medium(node).rate
    if node in link.shape:
        # A share in a shaper refers to the initial rate of the link.
        rate = min(rate, link.capacity(node))
    policy, _ = state.attached[direction]
    return rate if policy is None else min(rate, scenario.policies[policy].root(rate))


Attachment = tuple[tuple[str | int, ...], str, str, int]
"""A policy at the end of a link or tunnel: the path of its key in the scenario, the directed link
or device, the name of the policy, and the bandwidth that it divides, in bit/s."""


def attachments(scenario: ResolvedScenario) -> Iterator[Attachment]:
    """Yield every policy that is used at the end of a link or tunnel at some time."""
    names = {(id(link), end): name for name, (link, end) in scenario.directions.items()}
    for index, link in enumerate(scenario.links):
        for node, policy in link.egress.items():
            if (id(link), node) in names:
                loc: Loc = ("links", index, "egress", node)
                yield loc, names[id(link), node], policy, link.capacity(node)
    for name, (device, node) in scenario.devices.items():
        if node in device.egress:
            loc = ("tunnels", str(device.name), "egress", node)
            yield loc, name, device.egress[node], device.capacity(node)
    for step in steps(scenario):
        if step.change.policy is not None and step.policy is not None:
            assert step.change.on is not None
            yield (*step.loc, "policy"), step.change.on, step.policy, step.capacity


def changed_class(scenario: ResolvedScenario, step: Step) -> Placed | list[str]:
    """Return the class that a change names; if it is unknown, the names of all classes."""
    if step.policy is None:
        return []
    found = list(walk(scenario, scenario.policies[step.policy], step.capacity))
    wanted = next((placed for placed in found if placed.path == step.change.class_), None)
    return wanted or [placed.path for placed in found]
