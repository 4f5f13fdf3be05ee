"""Scenarios as mappings of Python: the content of a file, without its text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perhop.errors import Problem, ScenarioError
from perhop.scenario.model.base import Model
from perhop.scenario.model.text import kind_of
from perhop.scenario.reading.document import MAX_DEPTH, Document

if TYPE_CHECKING:
    from perhop.scenario.model.base import Loc


def document_of(data: Mapping[str, Any]) -> Document:
    """Return a copy of a mapping as a document; its values have paths, and no lines.

    Values are mappings, lists, tuples, scalars, and parts of scenarios such as a `Flow`.

    Raises:
        ScenarioError: A key is not text, or the mapping is nested too deeply.
    """
    document = Document("", origins={(): ""})
    document.data = _plain(data, ())
    return document


def _plain(value: object, loc: Loc) -> Any:
    """Return `value` in dictionaries, lists and scalars."""
    if len(loc) > MAX_DEPTH:
        raise _wrong(loc[:3], f"nested more than {MAX_DEPTH} deep, the most that is allowed")
    if isinstance(value, Model):
        return value.model_dump(mode="json", exclude_defaults=True)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise _wrong(loc, f"has the key {kind_of(key)}; expected text")
        return {key: _plain(each, (*loc, key)) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each, (*loc, index)) for index, each in enumerate(value)]
    return value


def _wrong(loc: Loc, message: str) -> ScenarioError:
    return ScenarioError([Problem("", 0, 0, ".".join(map(str, loc)), message)])
