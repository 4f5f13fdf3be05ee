"""Values of a link that may differ between its two directions."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import core_schema

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

__all__ = ["BY_END", "VALUE", "ByEnd", "by_end", "of_end"]

T = TypeVar("T")

VALUE = "<value>"
BY_END = "<by end>"
"""The two forms, as pydantic names them in the places of errors."""


class ByEnd:
    """An annotation: one value for both directions, or a value for each sending end, by node.

    ``Annotated[Rate | dict[Name, Rate], ByEnd()]`` is written ``10 Mbps`` or
    ``{edge: 2 Mbps, isp: 20 Mbps}``. Where a value is itself a mapping, a mapping with its keys
    alone is one value, whatever the names of nodes. So is one that holds something else than
    values, so that messages name a misspelt key.
    """

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Choose the form by the value."""
        one, ends = (form for form in get_args(source) if form is not type(None))
        keys, scalar = _forms(one)

        def form(value: object) -> str:
            if not isinstance(value, Mapping) or (keys and value.keys() <= keys):
                return VALUE
            found = [each for each in value.values() if not _is_empty(each)]
            misspelt = keys and not found and len(value) == 1
            return BY_END if all(map(is_value, found)) and not misspelt else VALUE

        def is_value(each: object) -> bool:
            if isinstance(each, Mapping):
                return bool(keys & each.keys())
            return scalar or isinstance(each, BaseModel)

        mapping: Any = {**handler.generate_schema(ends), "min_length": 1}
        return core_schema.tagged_union_schema(
            {VALUE: handler.generate_schema(one), BY_END: mapping}, form
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema of either form."""
        one, ends = handler(schema)["oneOf"]
        return {"anyOf": [one, ends]}


def _is_empty(value: object) -> bool:
    """Return whether this is a mapping without keys, which any model with defaults may be."""
    return isinstance(value, Mapping) and not value


def _forms(annotation: Any) -> tuple[set[str], bool]:
    """Return the keys of values that are mappings, and whether a value may be a scalar."""
    kinds = [annotation]
    while get_origin(kinds[0]) in (Annotated, Union, UnionType):
        several = get_origin(kinds[0]) is not Annotated
        kinds = [*kinds[1:], *(get_args(kinds[0]) if several else get_args(kinds[0])[:1])]
    models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
    fields = (item for model in models for item in model.model_fields.items())
    return {field.alias or name for name, field in fields}, len(models) < len(kinds)


def of_end(value: T | dict[str, T], node: str, default: T | None = None) -> T:
    """Return the value of the direction in which `node` sends.

    Args:
        value: One value, or values by node.
        node: The sending end.
        default: The value of an end that is not named; by default that of the other end.
    """
    if not isinstance(value, dict):
        return value
    if node in value:
        return value[node]
    return next(iter(value.values())) if default is None else default


def by_end(value: object) -> dict[str, Any]:
    """Return the values by node; none if one value is that of both directions."""
    return value if isinstance(value, dict) else {}
