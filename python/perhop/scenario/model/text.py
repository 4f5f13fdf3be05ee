"""Conversion of values written as text into fields of the model, and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_core import core_schema

from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue


@dataclass(frozen=True)
class Text:
    """An annotation: this field is written as text in a file, and held as a parsed value.

    ``Annotated[int, Text(parse_rate, format_rate, "a rate such as `10 Mbps`", …)]`` is a field that
    holds bits per second, is read from ``10 Mbps``, and is written as ``10 Mbps``.

    Attributes:
        parse: From text to value; its ValueError is the message that people read.
        format: From value to what a file says.
        expected: Values that the field takes, for messages: "a rate such as `10 Mbps`".
        schema: The JSON Schema of what a file may say.
        accepts: The kinds of YAML scalar that are taken; others but text are told what is expected.
    """

    parse: Callable[[str], Any]
    format: Callable[[Any], object]
    expected: str
    schema: Mapping[str, Any] = field(hash=False)
    accepts: tuple[type, ...] = (str,)

    def validate(self, value: object) -> Any:
        """The parsed value of a YAML scalar.

        Raises:
            ValueError: The scalar is of another kind, or its text is wrong.
        """
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ValueError(f"{refusal(value)}; expected {self.expected}")
        if isinstance(value, str) and str not in self.accepts:
            raise ValueError(f"{quote(value)} is text; expected {self.expected}")
        if isinstance(value, (str, *self.accepts)):
            return self.parse(str(value))
        if str in self.accepts and int not in self.accepts:
            return self.parse(str(value))  # a bare number: the parser says what it lacks
        raise ValueError(f"{quote(str(value))} is not a whole number; expected {self.expected}")

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Validate with `parse`, serialise with `format`."""
        del source, handler
        return core_schema.no_info_plain_validator_function(
            self.validate,
            serialization=core_schema.plain_serializer_function_ser_schema(self.format),
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema of the text."""
        del schema, handler
        return dict(self.schema)


def refusal(value: object) -> str:
    """Return the words of a message for a YAML value of the wrong kind."""
    return "has no value" if value is None else f"{kind_of(value)} is not allowed here"


def kind_of(value: object) -> str:
    """Return the name in messages of a YAML value of the wrong kind."""
    match value:
        case None:
            return "`null`"
        case bool():
            return f"`{str(value).lower()}`"
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            return quote(value)
