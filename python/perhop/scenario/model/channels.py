"""Radio channels that several links share."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from perhop.scenario.model.base import Model
from perhop.scenario.model.lte import Lte  # noqa: TC001 (pydantic evaluates it)
from perhop.scenario.model.wifi import Wifi  # noqa: TC001 (pydantic evaluates it)


class Channel(Model):
    """A radio channel that links share: all of both directions of these."""

    wifi: Wifi | None = None
    """A channel for which the senders contend."""

    lte: Lte | None = None
    """A cell, whose base station schedules both directions."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.wifi is None) == (self.lte is None):
            said = "has both `wifi` and `lte`" if self.wifi else "has no kind"
            raise ValueError(f"{said}; expected `wifi: ac`, or `lte` with the base station")
        return self
