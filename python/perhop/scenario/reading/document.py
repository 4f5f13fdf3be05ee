"""YAML as plain data, with the line and column of every value.

Files may be hostile. Features of YAML that scenarios do not need are refused: aliases and anchors
(and with them bombs), tags, keys that are not text, duplicate keys, several documents, deep
nesting. Scalars follow YAML 1.2's core schema: ``yes`` is text, ``1:20`` is text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import yaml
from yaml._yaml import CParser

from perhop.errors import Problem, ScenarioError
from perhop.scenario.reading.replay import read_packets
from perhop.scenario.reading.trace import read_trace
from perhop.units import quote

if TYPE_CHECKING:
    from perhop.scenario.model.base import Loc

MAX_DEPTH = 20
"""The maximum depth of mappings and lists; a scenario needs ten."""

MAX_VALUES = 200_000
"""The maximum number of scalars, mappings and lists in a file."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The position of a value and of its key: line and column, from 1.

    `file` is the name of the file, if it is not the document's.
    """

    line: int
    column: int
    key_line: int
    key_column: int
    file: str = ""


@dataclass(slots=True)
class Document:
    """The data of a file, with positions.

    Attributes:
        file: The name of the file, as given.
        data: Mappings, lists and scalars as Python values.
        marks: The position of each part of `data` in the file, by path.
        origins: The override that set a part of `data`, by path.
        problems: The problems after which the rest was readable.
        empty: The paths of keys without a value.
    """

    file: str
    data: Any = None
    marks: dict[Loc, Mark] = field(default_factory=dict)
    origins: dict[Loc, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    empty: list[Loc] = field(default_factory=list)

    def packets(self, name: str) -> tuple[tuple[int, int], ...]:
        """Return the packets in a CSV file in the folder of this one, or below; see `Files`."""
        return read_packets(name, Path(self.file).parent)

    def trace(self, name: str) -> dict[str, str]:
        """Return the content of a trace in the folder of this one, or below; see `Files`."""
        return read_trace(name, Path(self.file).parent)

    @property
    def broken(self) -> bool:
        """True if parts of the file, or overrides, have problems."""
        return bool(self.problems)

    def place(self, loc: Loc, *, at_key: bool) -> tuple[str, int, int]:
        """Return file, line and column of `loc`, or of the nearest existing part around it."""
        for length in range(len(loc), -1, -1):
            part = loc[:length]
            if part in self.origins:
                return self.origins[part], 0, 0
            if part in self.marks:
                mark = self.marks[part]
                if at_key and length == len(loc):
                    return mark.file or self.file, mark.key_line, mark.key_column
                return mark.file or self.file, mark.line, mark.column
        return self.file, 1, 1

    def include(self, section: str, part: Document) -> None:
        """Replace a section by the document `part`, which keeps its places."""
        self.data[section] = part.data
        self.problems += part.problems
        self.empty = [loc for loc in self.empty if loc[0] != section]
        self.empty += [(section, *loc) for loc in part.empty]
        self.marks = {loc: mark for loc, mark in self.marks.items() if loc[:1] != (section,)}
        self.marks[(section,)] = Mark(1, 1, 1, 1, part.file)
        for loc, mark in part.marks.items():
            self.marks[(section, *loc)] = replace(mark, file=part.file)


def read_yaml(text: str, file: str) -> Document:
    """Return the document in `text`; problems after which the rest is readable are in `problems`.

    Raises:
        ScenarioError: If `text` is not YAML, has no or several documents, or is too large.
    """
    refuse_controls(text, file)
    reader = _Reader(Document(file))
    try:
        reader.read(text)
    except yaml.YAMLError as error:
        raise ScenarioError([*reader.document.problems, _syntax(error, file)]) from None
    except _StopReading as stop:
        raise ScenarioError([*reader.document.problems, stop.problem]) from None
    return reader.document


_CONTROL = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


def refuse_controls(text: str, file: str) -> None:
    """Raise ScenarioError if `text` has a character that YAML does not allow."""
    found = _CONTROL.search(text)
    if found is not None:
        line, column = line_and_column(text, found.start())
        message = f"the character U+{ord(found[0]):04X} is not allowed in a scenario"
        raise ScenarioError([Problem(file, line, column, "", message)])


def line_and_column(text: str, index: int) -> tuple[int, int]:
    """Return line and column of character `index` of `text`, both from 1."""
    start = text.rfind("\n", 0, index) + 1
    return text.count("\n", 0, index) + 1, index - start + 1


# From events to data


class _StopReading(Exception):  # noqa: N818
    """The rest of the file cannot be read."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__()


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not been read.

    Attributes:
        loc: Its path; None if its values are not kept, as under a refused key.
        data: The values so far.
        key: In a mapping, the path of the next value; None if it is not kept.
        key_mark: Line and column of the key.
        awaits_key: In a mapping, whether a key is next.
    """

    loc: Loc | None
    data: dict[str, Any] | list[Any]
    key: Loc | None = None
    key_mark: tuple[int, int] = (1, 1)
    awaits_key: bool = True


class _Reader:
    """Builds a document from the parser's events, with a stack instead of recursion."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.stack: list[_Open] = []
        self.values = 0

    def read(self, text: str) -> None:
        parser = CParser(text)
        documents = 0
        while parser.check_event():
            event = parser.get_event()
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self.stop(event, "another document starts here; expected a single one")
            elif isinstance(event, yaml.NodeEvent):
                self.node(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self.stack.pop()
        if not documents:
            raise _StopReading(
                Problem(self.document.file, 1, 1, "", "is empty; expected a scenario")
            )

    def node(self, event: yaml.NodeEvent) -> None:
        """Process a scalar, an alias, or the start of a mapping or list."""
        self.values += 1
        if self.values > MAX_VALUES:
            self.stop(event, f"more than {MAX_VALUES:,} values, the most that are allowed")
        if len(self.stack) >= MAX_DEPTH and not isinstance(event, yaml.ScalarEvent):
            self.stop(event, f"nested more than {MAX_DEPTH} deep, the most that is allowed")
        self.refuse_features(event)
        parent = self.stack[-1] if self.stack else None
        data = self.content(event)
        loc = self.slot(parent, event)
        if loc is not None:
            self.keep(parent, loc, data, event)
        if isinstance(event, yaml.CollectionStartEvent):
            self.stack.append(_Open(loc, data))

    def content(self, event: yaml.NodeEvent) -> Any:
        """Return the value of a scalar, or an empty collection."""
        match event:
            case yaml.MappingStartEvent():
                return {}
            case yaml.SequenceStartEvent():
                return []
            case yaml.ScalarEvent(implicit=(True, _)):
                return resolve(event.value)
            case yaml.ScalarEvent():
                return event.value
            case _:
                return None

    def slot(self, parent: _Open | None, event: yaml.NodeEvent) -> Loc | None:
        """Return the path of the value of `event`; None if it is a key, or is not kept."""
        if parent is None:
            return ()
        if parent.loc is None:
            return None
        if isinstance(parent.data, list):
            return (*parent.loc, len(parent.data))
        if parent.awaits_key:
            parent.awaits_key = False
            parent.key_mark = _position(event.start_mark)
            parent.key = self.key(parent.loc, parent.data, event)
            return None
        parent.awaits_key = True
        return parent.key

    def key(self, loc: Loc, data: dict[str, Any], event: yaml.NodeEvent) -> Loc | None:
        """Return the path of the value of the key `event`; None, with a problem, if it is wrong."""
        if not isinstance(event, yaml.ScalarEvent):
            self.refuse(event, "a key cannot be a list, mapping or alias; expected text")
            return None
        place = (*loc, event.value)
        if event.value in data:
            first = self.document.marks[place]
            self.refuse(
                event,
                f"{quote(event.value)} stands here twice; the first is in line {first.key_line}, "
                f"column {first.key_column}",
            )
            return None
        return place

    def keep(self, parent: _Open | None, loc: Loc, data: Any, event: yaml.NodeEvent) -> None:
        """Store a value and its position."""
        line, column = _position(event.start_mark)
        if parent is None:
            self.document.data = data
        elif isinstance(parent.data, list):
            parent.data.append(data)
        else:
            parent.data[str(loc[-1])] = data
        of_key = parent is not None and isinstance(parent.data, dict)
        key_line, key_column = parent.key_mark if parent and of_key else (line, column)
        if isinstance(event, yaml.ScalarEvent) and data is None and of_key:
            line, column = key_line, key_column  # an empty value has no position
        self.document.marks[loc] = Mark(line, column, key_line, key_column)
        if isinstance(event, yaml.ScalarEvent) and data is None:
            self.document.empty.append(loc)

    def refuse_features(self, event: yaml.NodeEvent) -> None:
        """Report features of YAML that scenarios do not have."""
        if isinstance(event, yaml.AliasEvent):
            self.refuse(event, "aliases are not allowed; expected the value itself")
        elif event.anchor is not None:
            self.refuse(event, "anchors are not allowed; expected the value alone")
        elif getattr(event, "tag", None) is not None:
            self.refuse(event, "tags are not allowed; expected the value alone")

    def refuse(self, event: yaml.Event, message: str) -> None:
        """Report a problem and continue."""
        line, column = _position(event.start_mark)
        self.document.problems.append(Problem(self.document.file, line, column, "", message))

    def stop(self, event: yaml.Event, message: str) -> NoReturn:
        """Report a problem after which reading stops."""
        line, column = _position(event.start_mark)
        raise _StopReading(Problem(self.document.file, line, column, "", message))


def _position(mark: Any) -> tuple[int, int]:
    return mark.line + 1, mark.column + 1


# Scalars: YAML 1.2, chapter 10.3

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
    re.ASCII,
)
_LONGEST_NUMBER = 40


def resolve(text: str) -> str | int | float | bool | None:
    """Return the value of a plain scalar; a number of more than 40 characters stays text."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _LONGEST_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FLOAT.fullmatch(text):
        return float(re.sub(r"\.(?=[a-zA-Z])", "", text))
    return text


# Messages of the parser

_SYNTAX = {
    "found unexpected ':'": "a `:` needs a space after it, and a value",
    "did not find expected node content": "expected a value",
    "found a tab character where an indentation space is expected": "expected spaces, not a tab",
    "found unexpected document indicator": "the document ends inside a quoted text",
    "did not find URI escaped octet": "a tag, which scenarios do not have",
    "found duplicate %YAML directive": "two %YAML directives; expected at most one",
    "found incompatible YAML document": "another version of YAML; expected 1.1 or 1.2",
    "found undefined tag handle": "a tag, which scenarios do not have",
    "mapping values are not allowed in this context": "a `:` is not allowed here; expected a new "
    "line before the key, or quotes around the text",
    "found unexpected end of stream": "the file ends inside a quoted text",
    "could not find expected ':'": "a key without `:`; expected `key: value`",
    "did not find expected key": "expected a key; check the indentation",
    "did not find expected '-' indicator": "expected `-`, as in the lines above; check the "
    "indentation",
    "did not find expected ',' or ']'": "expected `,` or `]`",
    "did not find expected ',' or '}'": "expected `,` or `}`",
    "block sequence entries are not allowed in this context": "a `-` cannot start a list here; "
    "expected it on a new line",
    "found unknown escape character": "an unknown escape; expected one such as `\\n`, or single "
    "quotes",
    "found character that cannot start any token": "a value cannot start with this character; "
    "expected spaces instead of tabs, or quotes around the text",
    "did not find expected <document start>": "the document has ended before this; expected "
    "nothing more",
}


def _syntax(error: yaml.YAMLError, file: str) -> Problem:
    """Return the problem that an error of the parser stands for."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line, column = _position(mark) if mark is not None else (1, 1)
    said = getattr(error, "problem", None) or "cannot be read"
    message = _SYNTAX.get(said, said)
    return Problem(file, line, column, "", f"is not YAML: {message}")
