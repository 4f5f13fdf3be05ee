"""The JSON Schema of scenario files."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from perhop.scenario.model.base import Model
from perhop.scenario.model.classes import PolicyReference
from perhop.scenario.model.expectations import MetricNames
from perhop.scenario.rules.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of scenario files, for completion in editors.

    It describes the keys and values of a file, not the rules between its parts.
    """
    schema = Scenario.model_json_schema(by_alias=True, mode="validation")
    _refer(schema["$defs"])
    for model in _models(Model):
        part = schema if model is Scenario else schema["$defs"].get(model.__name__)
        if part is not None:
            _describe(part, model)
    return {"$schema": DIALECT, "$id": "urn:perhop:scenario:1", **_tidy(schema)}


def _refer(definitions: dict[str, Any]) -> None:
    """Let a policy be a reference, which is replaced before a scenario is validated."""
    policy = definitions["Policy"]
    definitions["PolicyReference"] = PolicyReference.model_json_schema(by_alias=True)
    definitions["Policy"] = {
        "description": policy.pop("description"),
        "anyOf": [{"$ref": "#/$defs/PolicyReference"}, policy],
    }


def _models(base: type[Model]) -> Iterator[type[Model]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)


def _describe(schema: dict[str, Any], model: type[Model]) -> None:
    """Give the properties of `model` the docstrings of its fields as descriptions.

    Pydantic can do this when it creates classes, but it would read the source at every start of
    perhop; only the schema needs it.
    """
    texts = _field_docstrings(model)
    for form in (schema, *schema.get("anyOf", ())):
        for name, field in model.model_fields.items():
            described = form.get("properties", {}).get(field.alias or name)
            if described is not None and name in texts:
                form["properties"][field.alias or name] = {"description": texts[name], **described}


def _field_docstrings(model: type[Model]) -> dict[str, str]:
    """Return the docstring of each field of `model` and of its bases.

    A base without source has its fields from a table, with their descriptions.
    """
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if issubclass(each, Model) and each is not MetricNames:
            [body] = ast.parse(textwrap.dedent(inspect.getsource(each))).body
            assert isinstance(body, ast.ClassDef)
            for field, text in pairwise(body.body):
                match field, text:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(said))),
                    ):
                        found[name] = inspect.cleandoc(said)
    return found


def _tidy(schema: Any) -> Any:
    """Return a schema without pydantic's titles from names and nulls of optional keys."""
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
