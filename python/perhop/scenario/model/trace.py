"""Traces: the rate of a direction of a link over time, from a file or as text."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, NamedTuple, Self

from pydantic import GetJsonSchemaHandler, StrictBool, ValidationInfo, model_validator

from perhop.scenario.model.base import Model, with_short_form
from perhop.scenario.model.replay import Files
from perhop.scenario.model.text import Text
from perhop.units import (
    MILLISECOND,
    WHOLE,
    format_duration,
    format_rate,
    format_share,
    parse_duration,
    parse_rate,
    parse_share,
    quote,
)

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

MAX_STEPS: Final = 20_000
"""Maximum number of steps of a trace of rates, which are part of the scenario."""

MAX_INSTANTS: Final = 250_000
"""Maximum number of milliseconds with delivery opportunities."""

MAX_OPPORTUNITIES: Final = 4_000_000
"""Maximum number of delivery opportunities of a trace."""

LONGEST_MS: Final = 2**32 - 1
"""Longest trace of delivery opportunities, in milliseconds."""

OPPORTUNITY: Final = 1500
"""Bytes of a delivery opportunity."""


class Step(NamedTuple):
    """Values from an instant of a trace on.

    Attributes:
        at: Picoseconds since the begin of the trace.
        rate: Bits per second, perhaps zero.
        delay: Picoseconds; None if the trace has no delays.
        jitter: Picoseconds; None if the trace has no jitter.
        loss: Parts per billion; None if the trace has no losses.
    """

    at: int
    rate: int
    delay: int | None = None
    jitter: int | None = None
    loss: int | None = None


_INSTANT = re.compile(r"([0-9]{1,10})(?:x([0-9]{1,7}))?", re.ASCII)
_STEP = re.compile(
    r" *([0-9.]+ *[a-zµ]+) +([0-9.]+ *[A-Za-z/]+)(?: +delay +([0-9.]+ *[a-zµ]+))?"
    r"(?: +jitter +([0-9.]+ *[a-zµ]+))?(?: +loss +([0-9.]+ *%))? *",
    re.ASCII,
)


def _parse_opportunities(text: str) -> tuple[tuple[int, int], ...]:
    parts = text.split(maxsplit=MAX_INSTANTS)
    if len(parts) > MAX_INSTANTS:
        raise ValueError(f"has more than {MAX_INSTANTS:,} instants, the most that are allowed")
    found: list[tuple[int, int]] = []
    at = 0
    for part in parts:
        match = _INSTANT.fullmatch(part)
        if match is None or match[2] == "0":
            raise ValueError(f"{quote(part)} is not a time in milliseconds such as `5` or `5x2`")
        if found and match[1] == "0":
            raise ValueError(f"{quote(part)} is no time after the one before; expected `5x2`")
        at += int(match[1])
        found.append((at, int(match[2] or 1)))
    check_opportunities(found)
    return tuple(found)


def check_opportunities(found: list[tuple[int, int]]) -> None:
    """Check the instants in milliseconds, and the numbers, of delivery opportunities.

    Raises:
        ValueError: They are too many, take too long, or no time at all.
    """
    if not found or not found[-1][0]:
        raise ValueError("has no opportunity after 0 ms; expected one or more")
    if found[-1][0] > LONGEST_MS:
        raise ValueError("lasts longer than 2^32 - 1 ms, the longest time")
    if sum(number for _, number in found) > MAX_OPPORTUNITIES:
        raise ValueError(f"has more than {MAX_OPPORTUNITIES:,} opportunities, the most allowed")
    if any(number * OPPORTUNITY > MILLISECOND for _, number in found):
        raise ValueError("has more opportunities in a millisecond than fit into it")


def format_opportunities(found: tuple[tuple[int, int], ...]) -> str:
    """Return delivery opportunities as a scenario states them: ``3 5x2``."""
    before, words = 0, []
    for at, number in found:
        words.append(f"{at - before}" + (f"x{number}" if number > 1 else ""))
        before = at
    return " ".join(words)


def _parse_steps(text: str) -> tuple[Step, ...]:
    parts = text.split(";", MAX_STEPS)
    if len(parts) > MAX_STEPS:
        raise ValueError(f"has more than {MAX_STEPS:,} steps, the most that are allowed")
    found = []
    for part in parts:
        match = _STEP.fullmatch(part)
        if match is None:
            raise ValueError(
                f"{quote(part.strip())} is not a step such as `2 s 5 Mbps` or "
                "`2 s 5 Mbps delay 20 ms jitter 1 ms loss 1%`"
            )
        found.append(
            Step(
                parse_duration(match[1]),
                parse_rate(match[2]),
                None if match[3] is None else parse_duration(match[3]),
                None if match[4] is None else parse_duration(match[4]),
                None if match[5] is None else parse_share(match[5]),
            )
        )
    check_steps(found)
    return tuple(found)


def check_steps(steps: list[Step]) -> None:
    """Check that steps begin at zero, rise, and have the same columns.

    Raises:
        ValueError: They do not, or a loss is 100%.
    """
    if not steps or steps[0].at:
        raise ValueError("begins after 0 s; expected a first step at 0 s")
    columns = [value is not None for value in steps[0]]
    for before, step in pairwise(steps):
        if step.at <= before.at:
            raise ValueError(
                f"{quote(format_duration(step.at))} is not after the time of the step before"
            )
        if [value is not None for value in step] != columns:
            raise ValueError(
                f"the step at {format_duration(step.at)} has other values than the first; "
                "expected delay, jitter and loss in all steps or in none"
            )
    if any(step.loss == WHOLE for step in steps):
        raise ValueError("`100%` loses every packet; expected less")


def format_steps(steps: tuple[Step, ...]) -> str:
    """Return steps as a scenario states them: ``0 s 5 Mbps; 2 s 3 Mbps``."""
    words = []
    for step in steps:
        parts = [format_duration(step.at), format_rate(step.rate)]
        parts += [] if step.delay is None else ["delay", format_duration(step.delay)]
        parts += [] if step.jitter is None else ["jitter", format_duration(step.jitter)]
        parts += [] if step.loss is None else ["loss", format_share(step.loss)]
        words.append(" ".join(parts))
    return "; ".join(words)


Opportunities = Annotated[
    tuple[tuple[int, int], ...],
    Text(
        _parse_opportunities,
        format_opportunities,
        "times in milliseconds such as `3 5x2`",
        {"type": "string", "examples": ["3 5x2"]},
        accepts=(str, int),
    ),
]
"""Instants in milliseconds and the number of opportunities at each; written as the time after the
instant before, and ``xN`` for several."""

Steps = Annotated[
    tuple[Step, ...],
    Text(
        _parse_steps,
        format_steps,
        "steps such as `0 s 5 Mbps; 2 s 3 Mbps`",
        {"type": "string", "examples": ["0 s 5 Mbps; 2 s 3 Mbps"]},
    ),
]
"""Steps of a trace."""


class Trace(Model):
    """The rate of a direction of a link over time, in place of the link's rate.

    Written ``lte.trace``, ``{file: rates.csv, repeat: true}``, ``{steps: 0 s 5 Mbps; 2 s 3 Mbps}``
    or ``{opportunities: 3 5x2}``. The content of a file becomes `steps` or `opportunities`, so that
    a loaded scenario does not depend on the file.
    """

    short_form: ClassVar[str] = "a file's name"

    file: str | None = None
    """A file in the scenario's folder, or below. A CSV file has a first line that names its
    columns: ``time_s,rate_bps``, and perhaps ``delay_s``, ``jitter_s`` and ``loss``. Any other file
    is one of mahimahi: a line for each delivery opportunity of 1500 B, its time in milliseconds."""

    steps: Steps | None = None
    """Rates, and perhaps delay, jitter and loss, each from an instant on."""

    opportunities: Opportunities | None = None
    """Delivery opportunities of 1500 B. The trace begins again at the last of them."""

    repeat: StrictBool = False
    """With `true`, `steps` begin again at the time of the last one, whose values are not used."""

    @model_validator(mode="before")
    @classmethod
    def _from_file(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, str):
            value = {"file": value}
        if not isinstance(value, dict) or not isinstance(value.get("file"), str):
            return value
        for key in ("steps", "opportunities"):
            if key in value:
                raise ValueError(f"has both `file` and `{key}`; expected one of the two")
        if not isinstance(info.context, Files):
            raise ValueError("names a file, but this scenario is in none; expected `steps`")
        rest = {key: part for key, part in value.items() if key != "file"}
        return {**rest, **info.context.trace(value["file"])}

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.steps is None) == (self.opportunities is None):
            raise ValueError("expected `file`, `steps` or `opportunities`, and only one of them")
        if self.steps is None:
            if self.repeat:
                raise ValueError("has `repeat`, but opportunities always repeat; expected none")
        elif self.repeat and (len(self.steps) < 2 or not any(s.rate for s in self.steps[:-1])):
            raise ValueError("repeats no rate; expected a rate above zero before the last step")
        elif not self.repeat and not self.steps[-1].rate:
            raise ValueError(
                "ends with a rate of zero, so that packets would wait for ever; expected a rate, "
                "or `repeat: true`"
            )
        return self

    @property
    def effective_steps(self) -> tuple[Step, ...]:
        """The steps whose values are used: all, or all but the last if they repeat."""
        assert self.steps is not None
        return self.steps[:-1] if self.repeat else self.steps

    def sets(self, key: str) -> bool:
        """Return whether the trace has values of a key of links: rate, delay, jitter or loss."""
        return key == "rate" or (self.steps is not None and getattr(self.steps[0], key) is not None)

    @property
    def mean_rate(self) -> float | None:
        """The mean rate in bit/s of what repeats; None without repetition."""
        if self.opportunities is not None:
            number = sum(number for _, number in self.opportunities)
            return number * OPPORTUNITY * 8 * 1000 / self.opportunities[-1][0]
        assert self.steps is not None
        if not self.repeat:
            return None
        pairs = pairwise(self.steps)
        return sum(step.rate * (after.at - step.at) for step, after in pairs) / self.steps[-1].at

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """A file's name, or a mapping with one of three keys."""
        whole = with_short_form(schema, handler, {"type": "string"})
        full: dict[str, Any] = whole["anyOf"][1]
        full["oneOf"] = [{"required": [key]} for key in ("file", "steps", "opportunities")]
        return whole
