"""What changes while a scenario runs: policies, policers, links, and counters that are cleared."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

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


def steps(scenario: "Scenario") -> "Iterator[Step]":
    """The changes on links that there are, in order of time and then of the file."""
    directions = scenario.directions
    links = list(scenario.links)
    numbers = {name: index // 2 for index, name in enumerate(directions)}
    attached = {
        name: (link.egress.get(node), link.capacity(node))
        for name, (link, node) in directions.items()
        if node in link.ends
    }
    police: dict[str, dict[str, PoliceChange]] = {name: {} for name in directions}
    order = sorted(enumerate(scenario.changes), key=lambda item: item[1].at)
    for index, change in order:
        if change.on not in directions:
            continue
        number, node = numbers[change.on], directions[change.on][1]
        wire = {
            key: value
            for key in ("rate", "delay", "loss")
            if (value := getattr(change, key)) is not None
        }
        link = links[number] = links[number].model_copy(update=wire)
        if change.policy is not None:
            policy = None if change.policy == NO_POLICY else change.policy
            attached[change.on] = policy, link.capacity(node)
            police[change.on] = {}
        policers = police[change.on]
        if change.part is not None and change.police is not None:
            earlier = policers.get(change.part, PoliceChange())
            policers[change.part] = earlier.model_copy(update=change.police.given)
        loc = ("changes", index)
        yield Step(loc, change, number, link, node, *attached[change.on], dict(policers))


def attachments(scenario: "Scenario") -> "Iterator[tuple[Loc, str, str, int]]":
    """Every policy that stands at the end of a link at some time.

    Yields:
        The place that says so, the directed link, the policy's name, and the bits per second that
        it divides.
    """
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
