"""What changes while a scenario runs: policies, policers, links, and counters that are cleared."""

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field

from perhop.scenario.base import Model
from perhop.scenario.names import ClassPath, Direction, Name
from perhop.scenario.network import ClassBandwidth
from perhop.scenario.quantities import Duration, Loss, Rate, Size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perhop.scenario.findings import Loc
    from perhop.scenario.model import Scenario
    from perhop.scenario.topology import Link

NO_POLICY = "none"
"""What a change names instead of a policy to take one away."""


class PoliceChange(Model):
    """New settings of a policer; it keeps its tokens, as far as its bucket holds them."""

    rate: ClassBandwidth | None = None
    """How fast tokens come from now on."""

    burst: Size | None = None
    """How many bytes the bucket holds from now on."""

    @property
    def given(self) -> dict[str, Any]:
        """What is set, by its name in `Police`."""
        return {key: value for key, value in self if value is not None}


class Change(Model):
    """Something that changes at an instant, after everything else that happens then.

    What has been transmitted by then keeps its fate.
    """

    at: Duration
    """When."""

    on: Direction | None = None
    """The directed link, as results name it: ``r1>r2``. What is said of the link itself holds both
    ways."""

    rate: Rate | None = None
    """What the link sends from its next packet on. Shares in policies stay what they were."""

    delay: Duration | None = None
    """The link's delay for packets that are sent from now on; none overtakes another."""

    loss: Loss | None = None
    """The link's probability of loss from now on."""

    state: Literal["up", "down"] | None = None
    """Whether the link transmits. Routes follow at once; what waits before a link that is down
    waits until it is up."""

    policy: Name | None = None
    """The policy by which `on` is sent into from now on; ``none`` leaves the link's `queue`. What
    waits moves to the new classes as if it came now; what they do not take is dropped."""

    part: Annotated[ClassPath | None, Field(alias="class")] = None
    """The class of the policy on `on` that `police` is about, as results name it."""

    police: PoliceChange | None = None
    """New settings of that class's policer."""

    clear: Literal["counters"] | None = None
    """Begins the counters of classes anew, on `on` or everywhere."""


@dataclass(frozen=True, slots=True)
class Step:
    """A change in its order, and what it leaves.

    Attributes:
        loc: Its place in the scenario.
        change: The change.
        number: The number of its link.
        link: The link as it is from now on.
        node: The node that sends in the direction that it is about.
        policy: The policy by which that node sends from now on; None for a queue.
        capacity: What that policy divides.
        police: What has changed by now of the policers of that policy's classes.
    """

    loc: "Loc"
    change: Change
    number: int
    link: "Link"
    node: str
    policy: str | None
    capacity: int
    police: "Mapping[str, PoliceChange]"

    @property
    def rewires(self) -> bool:
        """Whether the link's rate, delay or loss changes."""
        change = self.change
        return any(value is not None for value in (change.rate, change.delay, change.loss))


class NetworkState:
    """The links of a scenario's network as changes have left them.

    Attributes:
        directions: Both directions of every link as the scenario has it: the link, and who sends.
        links: The links as they are now, by number.
        attached: By directed link, the policy by which its node sends, None for the link's queue,
            and the bits per second that the policy divides.
        police: By directed link and class, what has changed of the policers of that policy.
        down: The numbers of the links that are down.
    """

    def __init__(self, scenario: "Scenario") -> None:
        """Begin with what the scenario says of time zero."""
        self.directions = scenario.directions
        self.links = list(scenario.links)
        self.attached: dict[str, tuple[str | None, int]] = {
            name: (link.egress.get(node), link.capacity(node))
            for name, (link, node) in self.directions.items()
        }
        self.police: dict[str, dict[str, PoliceChange]] = {name: {} for name in self.directions}
        self.down: set[int] = set()
        self._numbers = {name: index // 2 for index, name in enumerate(self.directions)}

    def copy(self) -> Self:
        """Return a state that changes apart from this one."""
        other = copy(self)
        other.links, other.attached = list(self.links), dict(self.attached)
        other.police, other.down = dict(self.police), set(self.down)
        return other

    def apply(self, change: Change, loc: "Loc" = ()) -> "Step":
        """Make a change of a directed link that exists, which stands at `loc`."""
        on = str(change.on)
        number, node = self._numbers[on], self.directions[on][1]
        wire = {
            key: value
            for key in ("rate", "delay", "loss")
            if (value := getattr(change, key)) is not None
        }
        if wire:
            self.links[number] = self.links[number].model_copy(update=wire)
        link = self.links[number]
        if change.state is not None:
            self.down = self.down - {number} | ({number} if change.state == "down" else set())
        if change.policy is not None:
            policy = None if change.policy == NO_POLICY else change.policy
            self.attached[on] = policy, link.capacity(node)
            self.police[on] = {}
        if change.part is not None and change.police is not None:
            earlier = self.police[on].get(change.part, PoliceChange())
            changed = earlier.model_copy(update=change.police.given)
            self.police[on] = {**self.police[on], change.part: changed}
        return Step(loc, change, number, link, node, *self.attached[on], self.police[on])


def steps(scenario: "Scenario") -> "Iterator[Step]":
    """The changes on links that there are, in order of time and then of the file."""
    state = NetworkState(scenario)
    for index, change in sorted(enumerate(scenario.changes), key=lambda item: item[1].at):
        if change.on in state.directions:
            yield state.apply(change, ("changes", index))


Attachment = tuple[tuple[str | int, ...], str, str, int]
"""A policy at the end of a link: the place that says so, the directed link, the policy's name, and
the bits per second that it divides."""


def attachments(scenario: "Scenario") -> "Iterator[Attachment]":
    """Every policy that stands at the end of a link at some time."""
    names = {(id(link), end): name for name, (link, end) in scenario.directions.items()}
    for index, link in enumerate(scenario.links):
        for node, policy in link.egress.items():
            if (id(link), node) in names:
                loc: Loc = ("links", index, "egress", node)
                yield loc, names[id(link), node], policy, link.capacity(node)
    for step in steps(scenario):
        if step.change.policy is not None and step.policy is not None:
            assert step.change.on is not None
            yield (*step.loc, "policy"), step.change.on, step.policy, step.capacity
