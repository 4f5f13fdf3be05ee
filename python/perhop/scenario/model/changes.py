"""Changes during a scenario: policies, policers, links, and counters that are cleared."""

from typing import Annotated, Any, Literal

from pydantic import Field

from perhop.scenario.model.base import Model
from perhop.scenario.model.ends import ByEnd
from perhop.scenario.model.loss import LinkLoss
from perhop.scenario.model.names import ClassPath, Direction, Name
from perhop.scenario.model.network import ClassBandwidth
from perhop.scenario.model.quantities import Duration, Rate, Size
from perhop.scenario.model.topology import Balance

NO_POLICY = "none"
"""The name that removes a policy in a change."""


class PoliceChange(Model):
    """New settings of a policer; it keeps its tokens, as far as its bucket holds them."""

    rate: ClassBandwidth | None = None
    """The new rate of tokens."""

    burst: Size | None = None
    """The new size of the bucket in bytes."""

    @property
    def given(self) -> dict[str, Any]:
        """Return the values that are set, by name in `Police`."""
        return {key: value for key, value in self if value is not None}


class Change(Model):
    """Something that changes at an instant, after everything else that happens then.

    What has been transmitted by then keeps its fate.
    """

    at: Duration
    """The instant of the change."""

    on: Direction | None = None
    """The directed link, as results name it: ``r1>r2``. A `state` is that of both directions."""

    node: Name | None = None
    """The node with a new `balance`."""

    balance: Balance | None = None
    """The new load balancing of `node` among next hops of equal cost, from its next packet on."""

    rate: Annotated[Rate | dict[Name, Rate], ByEnd()] | None = None
    """The link's new rate, from its next packet on. Shares in policies do not change. One value is
    that of both directions or, where the link states this key by end, of the direction `on`. A
    mapping changes the directions of the ends that it names."""

    delay: Annotated[Duration | dict[Name, Duration], ByEnd()] | None = None
    """The link's new delay, for packets that are sent from now on; packets stay in order. The same
    directions as with `rate`."""

    loss: Annotated[LinkLoss | dict[Name, LinkLoss], ByEnd()] | None = None
    """The link's new losses. The same directions as with `rate`."""

    state: Literal["up", "down"] | None = None
    """The state of the link. Routes change at once; packets wait before a link that is `down` until
    it is `up`."""

    policy: Name | None = None
    """The new policy of `on`; ``none`` leaves the link's `queue`. Queued packets move to the new
    classes as if they arrived now; packets that do not fit are dropped."""

    class_: Annotated[ClassPath | None, Field(alias="class")] = None
    """The class with the policer `police`, as results name it."""

    police: PoliceChange | None = None
    """New settings of the class's policer."""

    clear: Literal["counters"] | None = None
    """Clears the counters of classes, of `on` or of all links."""
