"""The base of all messages, and the types of their fields."""

from __future__ import annotations

from typing import Annotated, Any, Self, cast

from pydantic import BaseModel, ConfigDict, Field

MAX_RATE = 2**61
MAX_SECOND = 2**40

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]
Text = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00]*$")]
Second = Annotated[int, Field(ge=0, le=MAX_SECOND)]
RateBps = Annotated[int, Field(ge=1, le=MAX_RATE)]
BurstBytes = Annotated[int, Field(ge=1500, le=2**31 - 1)]
PortNumber = Annotated[int, Field(ge=1, le=65535)]
Number = Annotated[int, Field(ge=1, le=2**53)]


class Message(BaseModel):
    """The base of all messages: no unknown fields, no conversions, immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def _of(cls, *things: object, **given: Any) -> Self:
        """Return a message from `given` values, and from those of `things` under a field's name."""
        for name in cls.model_fields.keys() - given.keys():
            given[name] = next(getattr(each, name) for each in things if hasattr(each, name))
        return cast("Self", cls.model_construct(None, **given))


class Problem(Message):
    """The reason of an error."""

    error: str
    detail: dict[str, Any] = {}
