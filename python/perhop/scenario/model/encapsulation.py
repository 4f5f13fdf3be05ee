"""VLAN tags and MPLS labels of links, and the marks of classes that go into them."""

from typing import Any, ClassVar, Final, Literal

from pydantic import (
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from perhop.scenario.model.base import Model, with_short_form
from perhop.scenario.model.dscp import Dscp, format_dscp
from perhop.scenario.model.quantities import Headers, PriorityCode

EncapsulationKind = Literal["dot1q", "mpls"]
"""VLAN tags of IEEE 802.1Q, or MPLS labels."""

CLASS_KEYS: Final[dict[EncapsulationKind, Literal["pcp", "mpls_tc"]]] = {
    "dot1q": "pcp",
    "mpls": "mpls_tc",
}
"""The key of a match or a mark for the class that each encapsulation carries."""

HEADER_BYTES: Final = 4
"""Length of a VLAN tag (IEEE 802.1Q) and of an MPLS label stack entry (RFC 3032)."""


class Encapsulation(Model):
    """VLAN tags or MPLS labels of all packets on a link.

    Written ``dot1q``, ``mpls``, or with their number: ``{mpls: 2}``.
    """

    short_form: ClassVar[str] = "`dot1q`, `mpls`"

    dot1q: Headers | None = None
    """The number of VLAN tags of IEEE 802.1Q; the outer one has the priority code point."""

    mpls: Headers | None = None
    """The number of MPLS labels; the top one has the traffic class."""

    @property
    def kind(self) -> EncapsulationKind:
        """The kind of the headers."""
        return "mpls" if self.dot1q is None else "dot1q"

    @property
    def size(self) -> int:
        """The bytes that a packet has more on the link."""
        return HEADER_BYTES * (self.dot1q or self.mpls or 0)

    @model_validator(mode="before")
    @classmethod
    def _from_kind(cls, value: object) -> object:
        return {value: 1} if isinstance(value, str) and value in CLASS_KEYS else value

    @model_validator(mode="after")
    def _one(self) -> "Encapsulation":
        if (self.dot1q is None) == (self.mpls is None):
            raise ValueError("expected one of `dot1q` and `mpls`")
        return self

    @model_serializer
    def _to_kind(self) -> Any:
        number = self.dot1q or self.mpls
        return self.kind if number == 1 else {self.kind: number}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """A kind, or a mapping."""
        whole = with_short_form(schema, handler, {"enum": list(CLASS_KEYS)})
        whole["anyOf"][1] |= {"minProperties": 1, "maxProperties": 1}
        return whole


class Mark(Model):
    """New marks of the packets of a class.

    Written as a DSCP, or ``{dscp: af21, pcp: 3}``.
    """

    short_form: ClassVar[str] = "a DSCP such as `cs1`"

    dscp: Dscp | None = None
    """The DSCP."""

    pcp: PriorityCode | None = None
    """The priority code point on the next link, if that has VLAN tags."""

    mpls_tc: PriorityCode | None = None
    """The MPLS traffic class on the next link, if that has MPLS labels."""

    def on(self, encapsulation: Encapsulation | None) -> int | None:
        """Return the class at layer 2 on a link with this encapsulation."""
        return None if encapsulation is None else getattr(self, CLASS_KEYS[encapsulation.kind])

    @model_validator(mode="before")
    @classmethod
    def _from_dscp(cls, value: object) -> object:
        if value == {}:
            raise ValueError("marks nothing; expected a DSCP such as `cs1`, or {pcp: 5}")
        return {"dscp": value} if isinstance(value, (str, int)) else value

    @model_serializer(mode="wrap")
    def _to_dscp(self, handler: SerializerFunctionWrapHandler) -> Any:
        if self.dscp is not None and self.pcp is None and self.mpls_tc is None:
            return format_dscp(self.dscp)
        return handler(self)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """A DSCP, or a mapping."""
        full = handler.resolve_ref_schema(handler(schema))
        dscp = next(
            form for form in full["properties"]["dscp"]["anyOf"] if form != {"type": "null"}
        )
        whole = with_short_form(schema, handler, dscp)
        whole["anyOf"][1]["minProperties"] = 1
        return whole
