"""Marking: what a node makes of the code points of the packets that reach it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, get_args

from pydantic import BeforeValidator

from perhop.scenario.base import Model
from perhop.scenario.classes import Match, match_from_text
from perhop.scenario.dscp import Dscp, parse_dscp
from perhop.scenario.findings import Finding
from perhop.scenario.text import did_you_mean, kind_of
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

    from perhop.scenario.findings import Loc
    from perhop.scenario.model import Scenario


class MarkRule(Model):
    """Packets that match get a code point."""

    match: Annotated[Match, BeforeValidator(match_from_text)]
    """Which packets, among those that no earlier rule matched."""

    dscp: Dscp
    """Their new code point."""


def _rules(value: object) -> object:
    """``clear`` and a mapping from old to new code points as rules."""
    if isinstance(value, str):
        if value != "clear":
            hint = did_you_mean(value, ["clear"])
            message = (
                f"{quote(value)} is no marking; "
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
"""Rules of which the first that matches decides; what none matches keeps its code point.

Written ``clear`` (all become ``be``), ``{cs1: be, any: af11}``, or as a list of rules.
"""


def markings(scenario: Scenario) -> Iterator[tuple[Loc, tuple[MarkRule, ...]]]:
    """Every marking, and where it stands."""
    for name, node in scenario.nodes.items():
        yield ("nodes", name, "remark"), node.remark
    for index, link in enumerate(scenario.links):
        for end, rules in link.remark.items():
            yield ("links", index, "remark", end), rules


def marking_rules(scenario: Scenario) -> Iterator[Finding]:
    """Rules name nodes that exist, and can be reached."""
    for loc, rules in markings(scenario):
        for index, rule in enumerate(rules):
            if rule.match.is_any and index < len(rules) - 1:
                yield Finding(
                    (*loc, index + 1), "comes after a rule that matches `any`; expected it before"
                )
            for key in ("source", "destination"):
                for place, end in enumerate(getattr(rule.match, key) or ()):
                    if isinstance(end, str) and end not in scenario.nodes:
                        yield Finding(
                            (*loc, index, "match", key, place),
                            f"{quote(end)} is not a node",
                            did_you_mean(end, scenario.nodes),
                        )
