"""Matches: the packets of a class, or of a rule that remarks."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_serializer,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from perhop.hints import did_you_mean
from perhop.scenario.model.base import Loc, Model, with_short_form
from perhop.scenario.model.dscp import Dscp
from perhop.scenario.model.names import IpVersion, MatchEnd
from perhop.scenario.model.network import MatchPorts
from perhop.scenario.model.quantities import PriorityCode
from perhop.scenario.model.queues import one_or_more
from perhop.units import quote

MOST_ELEMENTS: Final = 4096
"""The most elements of a list of matches."""


class Match(Model):
    """Conditions on a packet, which matches if it meets every one given.

    A condition that is a list is met by any of its elements. No condition at all, written ``any``,
    matches every packet.
    """

    short_form: ClassVar[str] = "`any`"

    dscp: Annotated[tuple[Dscp, ...] | None, BeforeValidator(one_or_more)] = None
    """Code points: names such as ``cs1``, ``af11``, ``ef``, ``le``, or numbers from 0 to 63."""

    ip: Annotated[tuple[IpVersion, ...] | None, BeforeValidator(one_or_more)] = None
    """Versions of the internet protocol: 4 or 6."""

    protocol: Annotated[
        tuple[Literal["tcp", "udp", "icmp"], ...] | None, BeforeValidator(one_or_more)
    ] = None
    """Protocols."""

    port: Annotated[tuple[MatchPorts, ...] | None, BeforeValidator(one_or_more)] = None
    """Source or destination ports, singly or as ranges."""

    source_port: Annotated[tuple[MatchPorts, ...] | None, BeforeValidator(one_or_more)] = None
    """Source ports."""

    destination_port: Annotated[tuple[MatchPorts, ...] | None, BeforeValidator(one_or_more)] = None
    """Destination ports."""

    source: Annotated[tuple[MatchEnd, ...] | None, BeforeValidator(one_or_more)] = None
    """Sources: nodes, or address prefixes."""

    destination: Annotated[tuple[MatchEnd, ...] | None, BeforeValidator(one_or_more)] = None
    """Destinations: nodes, or address prefixes."""

    pcp: Annotated[tuple[PriorityCode, ...] | None, BeforeValidator(one_or_more)] = None
    """Priority code points of the VLAN tags with which packets arrive, from 0 to 7."""

    mpls_tc: Annotated[tuple[PriorityCode, ...] | None, BeforeValidator(one_or_more)] = None
    """Traffic classes of the MPLS labels with which packets arrive, from 0 to 7."""

    @property
    def is_any(self) -> bool:
        """True if every packet matches."""
        return all(getattr(self, name) is None for name in type(self).model_fields)

    @model_serializer(mode="wrap")
    def _to_text(self, handler: SerializerFunctionWrapHandler) -> Any:
        if self.is_any:
            return "any"
        written = handler(self)
        return {
            key: value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value
            for key, value in written.items()
        }

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """``any``, or conditions, each one value or a list."""
        whole = with_short_form(schema, handler, {"const": "any"})
        conditions = whole["anyOf"][1]
        conditions["minProperties"] = 1
        for condition in conditions["properties"].values():
            lists = next(form for form in condition.pop("anyOf") if form.get("type") == "array")
            condition["anyOf"] = [lists["items"], {**lists, "minItems": 1}]
        return whole


def _from_text(value: object) -> object:
    """``any`` is the match without conditions; a mapping must have one."""
    if isinstance(value, str):
        if value != "any":
            hint = did_you_mean(value, ["any"])
            expected = "expected `any` or conditions like {dscp: cs1}"
            message = f"{quote(value)} is not a valid match; {expected}"
            raise ValueError(f"{message}; {hint}" if hint else message)
        return {}
    if value == {}:
        raise ValueError("has no condition; expected one such as {dscp: cs1}, or `any`")
    return value


class Except(Model):
    """Element of a list of matches that excludes packets."""

    except_: Annotated[Match, BeforeValidator(_from_text)] = Field(alias="except")
    """Conditions on the packets that do not match, among those to which no earlier element
    applies."""


def _element(value: object, _: ValidatorFunctionWrapHandler) -> Match | Except:
    """Return an element of a list: `except` tells its kind."""
    if isinstance(value, dict) and "except" in value and len(value) > 1:
        raise ValueError("has other keys beside `except`; expected all conditions inside it")
    if isinstance(value, Except) or (isinstance(value, dict) and "except" in value):
        return Except.model_validate(value, by_alias=True, by_name=False)
    return _conditions(value)


def _conditions(value: object) -> Match:
    return Match.model_validate(_from_text(value), by_alias=True, by_name=False)


Element = Annotated[Match | Except, WrapValidator(_element)]
"""An element of a list of matches."""

Elements = Annotated[
    tuple[Element, ...],
    Field(max_length=MOST_ELEMENTS, json_schema_extra={"minItems": 1}),
]
"""A list of matches: the first element that applies to a packet decides whether it matches. A
packet to which no element applies does not match."""

_elements: Final = TypeAdapter[tuple[Match | Except, ...]](
    Elements, config=ConfigDict(defer_build=True)
)


def _match(value: object, _: ValidatorFunctionWrapHandler) -> Match | tuple[Match | Except, ...]:
    """Return a match, or a list of them; a list of one match is that match."""
    if isinstance(value, dict) and "except" in value:
        raise ValueError(
            "is an `except` alone; expected a list such as [{except: {dscp: cs1}}, any]"
        )
    if not isinstance(value, (list, tuple)):
        return _conditions(value)
    if not value:
        raise ValueError("is empty; expected one or more")
    found = _elements.validate_python(value)
    if len(found) == 1 and isinstance(found[0], Match):
        return found[0]
    return found


Matching = Annotated[Match | Elements, WrapValidator(_match)]
"""A match, or a list of them."""


class MatchRule(NamedTuple):
    """One rule of a match: the first that applies to a packet decides whether it matches.

    Attributes:
        permit: True if packets that meet the conditions match, false if they do not.
        conditions: Conditions under which the rule applies.
    """

    permit: bool
    conditions: Match


def match_rules(match: Match | tuple[Match | Except, ...]) -> tuple[MatchRule, ...]:
    """Return the rules of a match; conditions alone are one rule."""
    if isinstance(match, Match):
        return (MatchRule(True, match),)
    return tuple(
        MatchRule(True, element)
        if isinstance(element, Match)
        else MatchRule(False, element.except_)
        for element in match
    )


def matches_any(match: Match | tuple[Match | Except, ...]) -> bool:
    """Return whether every packet matches, as an ``any`` before the first exception says."""
    return next(
        (rule.permit for rule in match_rules(match) if rule.conditions.is_any or not rule.permit),
        False,
    )


def placed_rules(
    match: Match | tuple[Match | Except, ...], loc: Loc
) -> Iterator[tuple[Loc, MatchRule]]:
    """Yield the rules of a match at `loc`, each with the place of its conditions."""
    rules = match_rules(match)
    if isinstance(match, Match):
        yield loc, rules[0]
        return
    for index, rule in enumerate(rules):
        yield ((*loc, index) if rule.permit else (*loc, index, "except")), rule
