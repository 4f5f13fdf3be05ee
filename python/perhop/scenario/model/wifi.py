"""Wi-Fi: links whose senders contend for a channel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from pydantic import StrictBool, model_serializer, model_validator

from perhop.scenario.model.base import Model, with_short_form
from perhop.scenario.model.quantities import (  # noqa: TC001 (pydantic evaluates them)
    ContentionWindow,
    Frames,
    PositiveDuration,
    Retries,
)
from perhop.units import MICROSECOND, MILLISECOND

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler, SerializerFunctionWrapHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

Standard = Literal["b", "a", "g", "n", "ac"]
"""The amendments of IEEE 802.11 whose timing perhop has."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Times and lengths of a physical layer; times in picoseconds.

    Attributes:
        slot: Slot time.
        sifs: Short interframe space.
        aifsn: Slots after the SIFS for which the channel is idle before a backoff counts.
        cw_min: Least contention window.
        preamble: Preamble and header of the physical layer.
        symbol: OFDM symbol; 0 without OFDM.
        ack: Acknowledgement of a frame of 14 B.
        block_ack: Acknowledgement of an aggregate: a compressed block ack of 32 B.
        header: Bytes of a frame beside the packet: header, LLC and SNAP (8), check sequence (4).
        frames: Frames in an aggregate.
        size: Bytes of an aggregate.
        airtime: Duration of an aggregate.
    """

    slot: int
    sifs: int
    aifsn: int
    cw_min: int
    preamble: int
    symbol: int
    ack: int
    block_ack: int
    header: int
    frames: int
    size: int
    airtime: int


_US: Final = MICROSECOND

# OFDM: acknowledgements at 24 Mb/s, with 96 bits in a symbol of 4 us behind a preamble of 20 us.
_OFDM: Final = Timing(
    slot=9 * _US,
    sifs=16 * _US,
    aifsn=2,
    cw_min=15,
    preamble=20 * _US,
    symbol=4 * _US,
    ack=28 * _US,
    block_ack=32 * _US,
    header=36,
    frames=1,
    size=65_535,
    airtime=4 * MILLISECOND,
)

# HT-mixed format with one spatial stream (clause 19). The default parameters of the access
# category of best effort. ath9k limits aggregates to 4 ms (T. Høiland-Jørgensen et al., "Ending
# the Anomaly", USENIX ATC 2017).
_HT: Final = Timing(
    slot=9 * _US,
    sifs=16 * _US,
    aifsn=3,
    cw_min=15,
    preamble=36 * _US,
    symbol=4 * _US,
    ack=28 * _US,
    block_ack=32 * _US,
    header=38,
    frames=64,
    size=65_535,
    airtime=4 * MILLISECOND,
)

TIMINGS: Final[dict[Standard, Timing]] = {
    # High-rate DSSS with the long preamble, and acknowledgements at 2 Mb/s (IEEE 802.11-2020,
    # clause 16).
    "b": Timing(
        slot=20 * _US,
        sifs=10 * _US,
        aifsn=2,
        cw_min=31,
        preamble=192 * _US,
        symbol=0,
        ack=248 * _US,
        block_ack=248 * _US,
        header=36,
        frames=1,
        size=65_535,
        airtime=4 * MILLISECOND,
    ),
    # OFDM (clause 17), and ERP-OFDM (clause 18): there the SIFS is 10 us, and 6 us of signal
    # extension follow each transmission, which is the same in sum.
    "a": _OFDM,
    "g": _OFDM,
    "n": _HT,
    # VHT with one spatial stream (clause 21), whose transmissions take 5.484 ms at most.
    "ac": replace(_HT, preamble=40 * _US, size=1_048_575, airtime=5484 * _US),
}
"""Timing by standard."""


class Wifi(Model):
    """Carrier sense with random backoff, aggregates, and retransmissions, as in IEEE 802.11.

    Written ``ac``, or ``{standard: ac, airtime_fairness: true}``.
    """

    short_form: ClassVar[str] = "`b`, `a`, `g`, `n`, `ac`"

    standard: Standard = "ac"
    """The amendment of IEEE 802.11 whose timing the channel has."""

    frames: Frames | None = None
    """The most frames in an aggregate, 1 for no aggregation: 64 for `n` and `ac`, otherwise 1."""

    airtime: PositiveDuration | None = None
    """The longest transmission of an aggregate: 4 ms, for `ac` 5.484 ms."""

    cw_min: ContentionWindow | None = None
    """The least contention window: 15 slots, for `b` 31."""

    cw_max: ContentionWindow = 1023
    """The greatest contention window, in slots."""

    retries: Retries = 7
    """The number of times that a frame is sent again before it is given up."""

    airtime_fairness: StrictBool = False
    """With `true`, a node with several receivers gives them equal times on the channel, as Linux
    does. With `false`, they take turns, a transmission each."""

    @property
    def timing(self) -> Timing:
        """The timing of the standard."""
        return TIMINGS[self.standard]

    @property
    def effective_cw_min(self) -> int:
        """The least contention window."""
        return self.timing.cw_min if self.cw_min is None else self.cw_min

    @model_validator(mode="before")
    @classmethod
    def _from_standard(cls, value: object) -> object:
        return {"standard": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _windows(self) -> Self:
        if self.effective_cw_min > self.cw_max:
            raise ValueError(
                f"cw_min of {self.effective_cw_min} is more than cw_max of {self.cw_max}"
            )
        return self

    @model_serializer(mode="wrap")
    def _to_standard(self, handler: SerializerFunctionWrapHandler) -> Any:
        return self.standard if self == type(self)(standard=self.standard) else handler(self)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """A standard, or a mapping."""
        return with_short_form(schema, handler, {"enum": list(TIMINGS)})
