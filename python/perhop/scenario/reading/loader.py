"""Reading of a file as a scenario, and writing."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import yaml

from perhop.errors import Problem, ScenarioError
from perhop.files import read_file, too_large
from perhop.scenario.reading.configurations import changes_reference, expand
from perhop.scenario.reading.document import Document, line_and_column, read_yaml
from perhop.scenario.reading.mappings import document_of
from perhop.scenario.reading.overrides import Overrides, override, override_texts
from perhop.scenario.rules.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_FILE = 2**22
"""The largest scenario file, in bytes."""


def load(
    source: str | os.PathLike[str],
    *,
    overrides: Overrides = (),
    agents: str | os.PathLike[str] | None = None,
) -> Scenario:
    """Return the scenario in the file `source`.

    Args:
        source: The path of a YAML file.
        overrides: Changes to make first, such as ``{"links.1.rate": "5 Mbps"}`` or
            ``["links.1.rate=5 Mbps"]``.
        agents: The path of a YAML file with the section `agents`, which replaces the scenario's.

    Raises:
        ScenarioError: If the file cannot be read, or is not a scenario after the changes.
    """
    return parse(read(source), os.fspath(source), overrides=overrides, agents=agents)


def parse(
    text: str | bytes,
    filename: str = "<string>",
    *,
    overrides: Overrides = (),
    agents: str | os.PathLike[str] | None = None,
) -> Scenario:
    """Return the scenario in `text`.

    Args:
        text: YAML; bytes must be UTF-8.
        filename: The name of the file in messages.
        overrides: Changes to make first, as for `load`.
        agents: A file with the section `agents`, as for `load`.

    Raises:
        ScenarioError: If `text` is not a scenario after the changes.
    """
    return validated(_document(text, filename, agents), overrides)


def build(
    data: Mapping[str, Any],
    *,
    overrides: Overrides = (),
    agents: str | os.PathLike[str] | None = None,
) -> Scenario:
    """Return the scenario in a mapping with the content of a file.

    Args:
        data: Keys and values as in a file; parts of scenarios, such as a `Flow`, are values too.
            Files to which it refers are in the current folder.
        overrides: Changes to make first, as for `load`.
        agents: A file with the section `agents`, as for `load`.

    Raises:
        ScenarioError: If `data` is not a scenario after the changes. Its problems have paths.
    """
    return validated(_with_agents(document_of(data), agents), overrides)


def validated(document: Document, overrides: Overrides = ()) -> Scenario:
    """Return the scenario in a document, after changes to it.

    Raises:
        ScenarioError: If the document is not a scenario after the changes.
    """
    _change(document, overrides)
    found = list(document.problems)
    told = {(problem.file, problem.line, problem.column) for problem in found if problem.line}
    try:
        scenario = Scenario.model_validate(
            document.data, context=document, by_alias=True, by_name=False
        )
    except ScenarioError as error:
        # Problems that follow from a value that could not be read are left out.
        found += [p for p in error.found if (p.file, p.line, p.column) not in told]
    found += _empty(document, found)
    if found:
        raise ScenarioError(found)
    return scenario


def locate(
    text: str | bytes, filename: str, paths: Iterable[str], *, overrides: Overrides = ()
) -> dict[str, str]:
    """Return the place of each value in a valid scenario, such as ``wan.yaml:12:7``.

    Args:
        text: YAML, as for `parse`.
        filename: The name of the file.
        paths: Dotted paths of values; one that the file does not have is where the nearest value
            above it is.
        overrides: The changes with which the scenario was read; values that they set are there.
    """
    return places(changed(text, filename, overrides), paths)


def changed(text: str | bytes, filename: str, overrides: Overrides = ()) -> Document:
    """Return the data of a scenario file after changes, with positions."""
    document = _document(text, filename)
    _change(document, overrides)
    return document


def places(document: Document, paths: Iterable[str]) -> dict[str, str]:
    """Return the place of each value in a document, as `locate` does."""
    found = positions(document, paths)
    return {
        path: f"{file}:{line}:{column}" if line else file
        for path, (file, line, column) in found.items()
    }


def positions(document: Document, paths: Iterable[str]) -> dict[str, tuple[str, int, int]]:
    """Return the file, the line and the column of each value; 0 and 0 for a whole file."""
    locs = {
        path: tuple(int(key) if key.isdigit() else key for key in path.split(".")) for path in paths
    }
    return {path: document.place(loc, at_key=True) for path, loc in locs.items()}


def dump(scenario: Scenario) -> str:
    """Return the text of a scenario file: values that differ from the defaults, with units.

    Parsing the text gives an equal scenario.
    """
    return yaml.dump(
        to_mapping(scenario),
        Dumper=_Dumper,
        default_flow_style=None,
        sort_keys=False,
        allow_unicode=True,
        width=96,
    )


def to_mapping(scenario: Scenario) -> dict[str, Any]:
    """Return the content of `dump` as mappings, lists and scalars of JSON.

    ``Scenario.model_validate`` accepts it.
    """
    return scenario.model_dump(mode="json", exclude_defaults=True)


def _document(
    text: str | bytes, filename: str, agents: str | os.PathLike[str] | None = None
) -> Document:
    """Return the data of a scenario file, with positions."""
    return _with_agents(read_yaml(_decode(text, filename), filename), agents)


def _with_agents(document: Document, agents: str | os.PathLike[str] | None) -> Document:
    """Return a document with the section `agents` of another file, if there is one."""
    if agents is not None and isinstance(document.data, dict):
        path = os.fspath(agents)
        document.include("agents", read_yaml(_decode(read(path), path), path))
    return document


def _change(document: Document, overrides: Overrides) -> None:
    """Make changes to a document, and replace its references to configurations.

    A change of a part of a reference, such as its file, comes before its replacement.
    """
    for text in override_texts(overrides):
        if not changes_reference(document, text.partition("=")[0].strip().split(".")):
            expand(document)
        override(document, text, Scenario)
    expand(document)


def read(source: str | os.PathLike[str]) -> bytes:
    """Return the content of a scenario file.

    Raises:
        ScenarioError: If it cannot be read, or is too large.
    """
    path = os.fspath(source)
    try:
        return read_file(path, MAX_FILE)
    except ValueError as error:
        raise _unreadable(path, str(error)) from None


def _decode(text: str | bytes, filename: str) -> str:
    if isinstance(text, str):
        if len(text) > MAX_FILE:
            raise _too_large(filename, f"{len(text):,} characters")
        return text.removeprefix("\ufeff")
    if len(text) > MAX_FILE:
        raise _too_large(filename, f"{len(text):,} bytes")
    try:
        return text.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = text[: error.start].decode("utf-8")
        line, column = line_and_column(before, len(before))
        message = f"the byte 0x{text[error.start]:02X} is not UTF-8; expected a file saved as UTF-8"
        raise ScenarioError([Problem(filename, line, column, "", message)]) from None


def _empty(document: Document, found: list[Problem]) -> list[Problem]:
    """Return a problem for each key without a value, if it has none yet."""
    told = {problem.path for problem in found}
    problems = []
    for loc in document.empty:
        path = ".".join(map(str, loc))
        if path not in told:
            file, line, column = document.place(loc, at_key=False)
            message = "has no value; expected one, or no such key"
            problems.append(Problem(file, line, column, path, message))
    return problems


def _unreadable(path: str, message: str) -> ScenarioError:
    return ScenarioError([Problem(path, 0, 0, "", message)])


def _too_large(path: str, size: str) -> ScenarioError:
    return _unreadable(path, str(too_large(size, MAX_FILE)))


class _Dumper(yaml.SafeDumper):
    """A dumper that quotes text which YAML 1.1 or 1.2 would read as another type."""

    def ignore_aliases(self, data: object) -> bool:
        """Write no aliases for repeated values."""
        del data
        return True


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|0o[0-7]+$"),
    list("-+.0123456789"),
)
