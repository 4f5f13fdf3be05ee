"""pf.conf as statements: words, macros, lists over several lines."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.altq.ledger import Statement
from perhop.routers.reading.configuration import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perhop.routers.reading.configuration import Source

_TOKEN: Final = re.compile(
    r'"[^"]*"?|\#.*|<[A-Za-z_][\w.-]*>|<=|>=|><|<>|!=|[{}(),=!<>]|[^\s{}(),"\#=!<>]+', re.ASCII
)
_MACRO: Final = re.compile(r"\$([A-Za-z_]\w{0,63})(.*)", re.ASCII | re.DOTALL)

STARTS: Final = frozenset(
    ("pass", "block", "match", "altq", "set", "scrub", "antispoof", "anchor", "table", "nat", "rdr")
)
"""Words that begin a statement, so that a list that is still open ends before them."""

ANCHORS: Final = frozenset(("anchor", "nat-anchor", "rdr-anchor", "binat-anchor"))

_MAX_WORDS: Final = 20_000
"""The most words of a macro or statement."""

_MAX_LINES: Final = 5_000
"""The most lines of a statement."""


@dataclass(slots=True)
class Macros:
    """Macros, by name."""

    words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    statements: dict[str, Statement] = field(default_factory=dict)

    def define(self, statement: Statement) -> None:
        """Read ``name = value``; a value in quotes is read as words."""
        name, _, *value = statement.words
        words, _ = self.expand(value)
        self.words[name] = tuple(
            inner for word in words for inner in (tokens(word[1:]) if word[:1] == '"' else (word,))
        )[:_MAX_WORDS]
        self.statements[name] = statement

    def expand(self, words: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return words with the values of macros, and the names of these macros."""
        found: list[str] = []
        used: list[str] = []
        words = list(words)
        if not any(word[0] == "$" for word in words):
            return words[:_MAX_WORDS], used
        for word in words:
            match = _MACRO.fullmatch(word) if word[:1] == "$" else None
            if match is None or match[1] not in self.words:
                found.append(word)
            else:
                values = self.words[match[1]]
                used.append(match[1])
                found += [values[0] + match[2]] if match[2] and len(values) == 1 else values
            if len(found) > _MAX_WORDS:
                break
        return found[:_MAX_WORDS], used


def tokens(text: str) -> list[str]:
    """Return the words of a line without comments; a quoted one begins with its quote."""
    found = _TOKEN.findall(text)
    if found and found[-1][0] == "#":
        found.pop()
    return ['"' + word.strip('"') if word[0] == '"' else word for word in found]


def statements(source: Source) -> Iterator[Statement]:
    """Return the statements of a file, with macros as they are written.

    Lines belong together within braces, and where one ends in a backslash.
    """
    lines: list[tuple[Place, str]] = []
    words: list[str] = []
    depth = 0
    for number, line in enumerate(source.text.split("\n"), 1):
        joined = line.endswith("\\")
        found = tokens(line[:-1] if joined else line)
        if not found and not joined and not depth:
            if words:
                yield Statement(tuple(lines), tuple(words))
                lines, words = [], []
            continue
        if depth and found and found[0] in STARTS and words and words[0] not in ANCHORS:
            yield Statement(tuple(lines), tuple(words))
            lines, words, depth = [], [], 0
        if found:
            lines.append((Place(source.file, number), line.strip()))
            words += found
            depth = max(depth + found.count("{") - found.count("}"), 0)
        if words and ((not depth and not joined) or len(lines) >= _MAX_LINES):
            yield Statement(tuple(lines), tuple(words))
            lines, words, depth = [], [], 0
    if words:
        yield Statement(tuple(lines), tuple(words))


def bare(word: str) -> str:
    """Return a word without its quote."""
    return word[1:] if word[:1] == '"' else word


def items(words: list[str], start: int) -> tuple[list[str], int]:
    """Return the items of a list or a single word at `start`, and the index after it.

    A list of lists is one list.
    """
    if start >= len(words):
        return [], start
    if words[start] != "{":
        return [bare(words[start])], start + 1
    found: list[str] = []
    depth = 0
    for index in range(start, len(words)):
        word = words[index]
        if word == "{":
            depth += 1
        elif word == "}":
            depth -= 1
            if not depth:
                return found, index + 1
        elif word != ",":
            found.append(bare(word))
    return found, len(words)
