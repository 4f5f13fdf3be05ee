"""LTE: a cell whose base station schedules its users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import field_validator, model_serializer, model_validator

from perhop.scenario.model.base import Model, with_short_form
from perhop.scenario.model.names import Name  # noqa: TC001 (pydantic evaluates it)
from perhop.scenario.model.quantities import (  # noqa: TC001 (pydantic evaluates them)
    Chance,
    Duration,
    Loss,
    PositiveDuration,
    Retries,
)
from perhop.units import MILLISECOND, format_duration

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler, SerializerFunctionWrapHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

Bandwidth = Literal["1.4 MHz", "3 MHz", "5 MHz", "10 MHz", "15 MHz", "20 MHz"]
"""The bandwidths of a carrier."""

RESOURCE_BLOCKS: Final[dict[Bandwidth, int]] = {
    "1.4 MHz": 6,
    "3 MHz": 15,
    "5 MHz": 25,
    "10 MHz": 50,
    "15 MHz": 75,
    "20 MHz": 100,
}
"""Resource blocks by bandwidth (3GPP TS 36.104, table 5.6-1)."""

BYTE_PER_TTI: Final = 8000
"""The rate in bit/s of one byte in each transmission time interval of 1 ms."""

REQUEST_PERIODS: Final = tuple(each * MILLISECOND for each in (1, 2, 5, 10, 20, 40, 80))
"""The periods of scheduling requests (3GPP TS 36.213, table 10.1.5-1)."""


class Lte(Model):
    """A cell: a base station schedules its users in both directions, as in LTE.

    Written ``enodeb``, or ``{base_station: enodeb, scheduler: round-robin}``.
    """

    short_form: ClassVar[str] = "the base station's node"

    base_station: Name
    """The node that schedules: an end of all links on the channel."""

    bandwidth: Bandwidth = "20 MHz"
    """The bandwidth of each direction: 6 to 100 resource blocks in a millisecond."""

    scheduler: Literal["proportional-fair", "round-robin"] = "proportional-fair"
    """The order of users with data: by the ratio of their rate to the mean of what they got in the
    last 100 ms, or in turn."""

    bler: Loss = 100_000_000
    """The probability that the first transmission of a transport block fails: 10%, the target of
    link adaptation. A `loss` of a link above 0% replaces it."""

    retries: Retries = 3
    """The number of retransmissions of a block by HARQ. RLC then sends it again."""

    combining: Chance = 200_000_000
    """The probability that a retransmission fails, as a share of that of the transmission before:
    the receiver combines them. 20%, as in SimuLTE."""

    request_period: PositiveDuration = 10 * MILLISECOND
    """The time between two opportunities of a user to request a grant: 1, 2, 5, 10, 20, 40 or 80
    ms."""

    grant: Duration = 8 * MILLISECOND
    """The time from a request, or from a report of what waits, to the transmission."""

    reordering: Duration = 35 * MILLISECOND
    """The time from the first transmission of a block to the report of its loss to RLC, if HARQ has
    given it up."""

    @property
    def resource_blocks(self) -> int:
        """The number of resource blocks in a millisecond."""
        return RESOURCE_BLOCKS[self.bandwidth]

    @property
    def least_rate(self) -> int:
        """The rate in bit/s with one byte in a resource block, the least of a user."""
        return self.resource_blocks * BYTE_PER_TTI

    @field_validator("request_period")
    @classmethod
    def _standard_period(cls, period: int) -> int:
        if period not in REQUEST_PERIODS:
            raise ValueError(
                f"`{format_duration(period)}` is not a period of scheduling requests; "
                "expected 1, 2, 5, 10, 20, 40 or 80 ms"
            )
        return period

    @model_validator(mode="before")
    @classmethod
    def _from_base_station(cls, value: object) -> object:
        return {"base_station": value} if isinstance(value, str) else value

    @model_serializer(mode="wrap")
    def _to_base_station(self, handler: SerializerFunctionWrapHandler) -> Any:
        short = self == type(self)(base_station=self.base_station)
        return self.base_station if short else handler(self)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """A base station, or a mapping."""
        whole = handler.resolve_ref_schema(handler(schema))
        name = {
            key: value
            for key, value in whole["properties"]["base_station"].items()
            if key in ("type", "pattern", "maxLength")
        }
        return with_short_form(schema, handler, name)
