"""From a file to a scenario, and back."""

from __future__ import annotations

import os
import re
from typing import Any

import yaml

from perhop.errors import Problem, ScenarioError
from perhop.files import read_file, too_large
from perhop.scenario.reading.document import Document, line_and_column, read_yaml
from perhop.scenario.reading.overrides import Overrides, override
from perhop.scenario.rules.scenario import Scenario

MAX_FILE = 2**20
"""The largest scenario file, in bytes."""


def load(source: str | os.PathLike[str], *, overrides: Overrides = ()) -> Scenario:
    """The scenario in the file `source`.

    Args:
        source: The path of a YAML file.
        overrides: Changes to make first, such as ``{"links.1.rate": "5 Mbps"}`` or
            ``["links.1.rate=5 Mbps"]``.

    Raises:
        ScenarioError: The file cannot be read, or what it says, as changed, is not a scenario.
    """
    return parse(_read(os.fspath(source)), os.fspath(source), overrides=overrides)


def parse(text: str | bytes, filename: str = "<string>", *, overrides: Overrides = ()) -> Scenario:
    """The scenario that `text` says.

    Args:
        text: YAML; bytes must be UTF-8.
        filename: What messages call it.
        overrides: Changes to make first, as for `load`.

    Raises:
        ScenarioError: What `text` says, as changed, is not a scenario.
    """
    document = read_yaml(_decode(text, filename), filename)
    override(document, overrides, Scenario)
    found = list(document.problems)
    told = {(problem.file, problem.line, problem.column) for problem in found if problem.line}
    try:
        scenario = Scenario.model_validate(
            document.data, context=document, by_alias=True, by_name=False
        )
    except ScenarioError as error:
        # What follows from something that could not be used is left out.
        found += [p for p in error.found if (p.file, p.line, p.column) not in told]
    found += _empty(document, found)
    if found:
        raise ScenarioError(found)
    return scenario


def dump(scenario: Scenario) -> str:
    """The scenario as a file says it: what differs from the defaults, with units.

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
    """What `dump` writes, as mappings, lists and scalars that JSON knows.

    ``Scenario.model_validate`` takes it back.
    """
    return scenario.model_dump(mode="json", exclude_defaults=True)


def _read(path: str) -> bytes:
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
    """A problem for each key without a value that has no problem yet."""
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
    """Quotes all text that YAML 1.1 or 1.2 would read as something else."""

    def ignore_aliases(self, data: object) -> bool:
        """Write equal parts twice."""
        del data
        return True


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|0o[0-7]+$"),
    list("-+.0123456789"),
)
