"""Calls: the key `voice` of a flow."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    StrictBool,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from perhop.hints import did_you_mean
from perhop.scenario.model.base import Model, with_short_form
from perhop.scenario.model.codecs import CODECS, Codec
from perhop.scenario.model.quantities import Duration, PositiveDuration, Rate
from perhop.scenario.model.text import Text
from perhop.units import MILLISECOND, quote

CodecName = Literal["g711", "g711-plc", "g729a", "g723.1", "gsm-efr", "opus"]

TALK_SPURT = 1004 * MILLISECOND
PAUSE = 1587 * MILLISECOND
"""The mean lengths of talk spurts and of pauses: ITU-T P.59, table 1."""


def _factor(low: float, high: float) -> Text:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{quote(text)} is not a number such as 4.3") from None
        if not low <= value <= high:
            raise ValueError(f"{text} is out of range; expected {low:g} to {high:g}")
        return value

    schema = {"type": "number", "minimum": low, "maximum": high}
    return Text(parse, lambda value: value, "a number such as 4.3", schema, accepts=(int, float))


class JitterBuffer(Model):
    """The jitter buffer of a call: ``adaptive``, or ``{fixed: 60 ms}``."""

    short_form: ClassVar[str] = "`adaptive`"

    fixed: Duration | None = None
    """The time that the first packet of each talk spurt waits. The others keep in step with it."""

    @model_validator(mode="wrap")
    @classmethod
    def _from_text(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, str):
            return handler(value)
        if value != "adaptive":
            message = f"{quote(value)} is unknown; expected `adaptive` or `{{fixed: 60 ms}}`"
            hint = did_you_mean(value, ["adaptive"])
            raise ValueError(f"{message}; {hint}" if hint else message)
        return handler({})

    @model_serializer(mode="wrap")
    def _to_text(self, handler: SerializerFunctionWrapHandler) -> Any:
        return "adaptive" if self.fixed is None else handler(self)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """``adaptive``, or a time."""
        whole = with_short_form(schema, handler, {"const": "adaptive"})
        whole["anyOf"][1]["required"] = ["fixed"]
        return whole


ADAPTIVE = JitterBuffer()


class Voice(Model):
    """Calls: speech in RTP packets to a receiver with a jitter buffer.

    Written ``voice: g711``, or as a mapping. Each of the flow's `streams` is a call.
    """

    short_form: ClassVar[str] = "a codec such as `g711`"

    codec: CodecName
    """The codec. It determines the size of packets and, for the E-model, the impairments."""

    ptime: PositiveDuration | None = None
    """The speech in a packet; by default the codec's usual value."""

    rate: Rate | None = None
    """The rate of coded speech, if the codec has several."""

    silence_suppression: StrictBool = False
    """With `true`, nothing is sent in pauses. Talk spurts and pauses have exponential lengths with
    the means of ITU-T P.59: 1.004 s and 1.587 s."""

    jitter_buffer: JitterBuffer = ADAPTIVE
    """The receiver's jitter buffer."""

    ie: Annotated[float, _factor(0, 95)] | None = None
    """The equipment impairment factor (G.107: Ie); by default that of G.113 for the codec."""

    bpl: Annotated[float, _factor(0.1, 100)] | None = None
    """The packet-loss robustness factor (G.107: Bpl); by default that of G.113 for the codec."""

    @property
    def preset(self) -> Codec:
        """The properties of the codec."""
        return CODECS[self.codec]

    @property
    def effective_ptime(self) -> int:
        """The speech in a packet, in picoseconds."""
        return self.preset.frames[0] if self.ptime is None else self.ptime

    @property
    def size(self) -> int:
        """The payload of a datagram in bytes, with the RTP header."""
        return self.preset.payload(self.rate or self.preset.rate, self.effective_ptime)

    @property
    def codec_delay(self) -> int:
        """The delay of packetisation and of the codec's look-ahead, in picoseconds."""
        return self.effective_ptime + self.preset.look_ahead

    @property
    def impairment(self) -> tuple[float, float] | None:
        """Ie and Bpl; None if neither G.113 nor the scenario has both."""
        ie = self.preset.ie if self.ie is None else self.ie
        bpl = self.preset.bpl if self.bpl is None else self.bpl
        return None if ie is None or bpl is None else (ie, bpl)

    @model_validator(mode="before")
    @classmethod
    def _from_codec(cls, value: object) -> object:
        return {"codec": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """A codec's name, or a mapping with one."""
        return with_short_form(schema, handler, {"enum": list(CODECS)})
