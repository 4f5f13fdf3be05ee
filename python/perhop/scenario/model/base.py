"""Common base of the model."""

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

Loc = tuple[str | int, ...]
"""A place in a scenario: keys and indices from the top, such as ``("links", 1, "rate")``."""


class Model(BaseModel):
    """The base of every part of a scenario: frozen, and without unknown keys."""

    short_form: ClassVar[str] = ""
    """The short form that may be written instead of a mapping."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_by_alias=True,
        validate_by_name=True,
        serialize_by_alias=True,
    )


def with_short_form(
    schema: CoreSchema, handler: GetJsonSchemaHandler, short: dict[str, Any]
) -> JsonSchemaValue:
    """The JSON Schema of a model that has a short form in text: either of the two."""
    whole = handler.resolve_ref_schema(handler(schema))
    full = dict(whole)
    whole.clear()
    whole["anyOf"] = [short, full]
    if "description" in full:
        whole["description"] = full.pop("description")
    return whole
