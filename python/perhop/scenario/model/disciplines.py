"""The base of disciplines of queues."""

from typing import ClassVar

from perhop.scenario.model.base import Model
from perhop.scenario.model.network import Limit


class DisciplineModel(Model):
    """A discipline that drops or marks packets before the queue is full."""

    usual_limit: ClassVar[Limit]
    """The limit of the queue if none is set, and the settings do not say otherwise."""

    random: ClassVar[bool]
    """True if the discipline uses random numbers."""

    def default_limit(self) -> Limit:
        """Return the limit of the queue if none is set."""
        return self.usual_limit

    def aim(self, limit: Limit) -> Limit:
        """Return the long-run queue length that the discipline permits, `limit` at most."""
        return limit
