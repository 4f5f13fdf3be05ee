"""What changes while a scenario runs: policies, policers, links, and counters that are cleared."""

from typing import Annotated, Any, Literal

from pydantic import Field

from perhop.scenario.model.base import Model
from perhop.scenario.model.names import ClassPath, Direction, Name
from perhop.scenario.model.network import ClassBandwidth
from perhop.scenario.model.quantities import Duration, Loss, Rate, Size

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
