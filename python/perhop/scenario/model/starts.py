"""The start of a flow: an instant, several of them, or a random one."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_serializer,
    model_validator,
)

from perhop.scenario.model.base import Model
from perhop.scenario.model.quantities import ANY_DURATION, Duration, PositiveDuration

__all__ = ["FlowStart", "Starts", "random_delay"]

MOST_STARTS = 1000


class Starts(Model):
    """Several starts, or random ones.

    Written ``[0 s, 30 s]``, ``{at: 1 s, jitter: 500 ms}`` or ``{at: [0 s, 30 s], jitter: 1 s}``.
    """

    at: Annotated[tuple[Duration, ...], Field(min_length=1, max_length=MOST_STARTS)]
    """The starts, or one of them. At each start, the flow's `streams` begin."""

    jitter: PositiveDuration | None = None
    """The largest random delay of the start of a stream; each stream draws a delay from the seed,
    uniformly from zero."""

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, value: object) -> object:
        if isinstance(value, (list, tuple)):
            return {"at": value}
        if isinstance(value, dict) and isinstance(value.get("at"), (str, int, float)):
            return {**value, "at": [value["at"]]}
        return value

    @model_serializer(mode="wrap")
    def _to_list(self, handler: SerializerFunctionWrapHandler) -> Any:
        written = handler(self)
        at = written["at"]
        if self.jitter is None:
            return list(at)
        return {**written, "at": at[0] if len(at) == 1 else list(at)}


def _kind(value: object, _: ValidatorFunctionWrapHandler) -> int | Starts:
    if isinstance(value, (dict, list, tuple, Starts)):
        return Starts.model_validate(value, by_alias=True, by_name=False)
    found: int = ANY_DURATION.validate(value)
    return found


FlowStart = Annotated[Duration | Starts, WrapValidator(_kind)]
"""Picoseconds, or several or random starts."""


def random_delay(most: int, seed: int, flow: str, stream: int) -> int:
    """Return the random delay of the start of a stream in picoseconds, from 0 to `most`.

    It depends on the seed, the flow's name and the stream's number only: another flow changes
    nothing, and all engines start a stream at the same instant.
    """
    digest = hashlib.sha256(f"{seed} {flow} {stream} start".encode()).digest()
    return int.from_bytes(digest[:8]) * (most + 1) >> 64
