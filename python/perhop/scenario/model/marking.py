"""Marking: what a node makes of the code points of the packets that reach it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, get_args

from pydantic import BeforeValidator

from perhop.hints import did_you_mean
from perhop.scenario.model.base import Model
from perhop.scenario.model.dscp import Dscp, parse_dscp
from perhop.scenario.model.matching import Matching  # noqa: TC001 (pydantic evaluates it)
from perhop.scenario.model.text import kind_of
from perhop.units import quote

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema


class MarkRule(Model):
    """Packets that match get a code point."""

    match: Matching
    """The packets of the rule, among those that no earlier rule matched."""

    dscp: Dscp
    """Their new DSCP."""


def _rules(value: object) -> object:
    """``clear`` and a mapping from old to new code points as rules."""
    if isinstance(value, str):
        if value != "clear":
            hint = did_you_mean(value, ["clear"])
            message = (
                f"{quote(value)} is not a valid marking; "
                "expected `clear`, new code points such as {cs1: be}, or rules"
            )
            raise ValueError(f"{message}; {hint}" if hint else message)
        return [{"match": "any", "dscp": "be"}]
    if value in ({}, []):
        raise ValueError("marks nothing; expected a new code point such as {cs1: be}")
    if isinstance(value, dict):
        # `any` stands for the rest, wherever it stands.
        return [_rule(str(old), value[old]) for old in sorted(value, key=lambda old: old == "any")]
    return value


def _rule(old: str, new: object) -> dict[str, Any]:
    if isinstance(new, bool) or not isinstance(new, (str, int)):
        raise ValueError(f"{kind_of(new)} cannot be the new code point of {quote(old)}")
    parse_dscp(str(new))
    return {"match": "any" if old == "any" else {"dscp": parse_dscp(old)}, "dscp": new}


class _Forms:
    """The forms of a marking in the JSON Schema."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        points = {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": dict(get_args(Dscp)[1].schema),
        }
        return {"anyOf": [{"const": "clear"}, points, {**handler(schema), "minItems": 1}]}


Marking = Annotated[
    tuple[MarkRule, ...],
    BeforeValidator(_rules),
    _Forms(),
]
"""Rules; the first that matches decides, and packets that match none keep their DSCP. Written
``clear`` (all become ``be``), ``{cs1: be, any: af11}``, or as a list of rules."""
