"""The JSON Schema of scenario files."""

from __future__ import annotations

from typing import Any

from perhop.scenario.model import Scenario

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of scenario files, by which editors complete and check them.

    It says what a file may hold, not what must agree between its parts.
    """
    schema = Scenario.model_json_schema(by_alias=True, mode="validation")
    return {"$schema": DIALECT, "$id": "urn:perhop:scenario:1", **_tidy(schema)}


def _tidy(schema: Any) -> Any:
    """Without what pydantic adds: titles from names, and null for what may be left out."""
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    tidy = {
        key: {name: _tidy(value) for name, value in item.items()}
        if key in _BY_NAME
        else _tidy(item)
        for key, item in schema.items()
        if not (key == "title" and isinstance(item, str))
        and not (key == "default" and item is None)
    }
    if "anyOf" in tidy:
        forms = [form for form in tidy.pop("anyOf") if form != {"type": "null"}]
        tidy = {**forms[0], **tidy} if len(forms) == 1 else {"anyOf": forms, **tidy}
    return tidy


_BY_NAME = ("properties", "$defs")
