"""Statements in the text of nft: its blocks, separators and variables.

Source: nft(8), Input file formats.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perhop.routers.reading.configuration import Place

__all__ = ["FAMILIES", "Statement", "named", "statements"]

FAMILIES: Final = frozenset({"ip", "ip6", "inet", "arp", "bridge", "netdev"})
_TOKEN: Final = re.compile(r"[{};,]|#.*|\"[^\"]*\"|[^\s{};,\"#]+")
_MOST_TOKENS: Final = 2**14
_BRACES: Final = {"{": 1, "}": -1}


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement.

    Attributes:
        place: The line that it begins on.
        text: That line.
        words: Its words, with the values of variables.
        table: The family and the name of the table that it stands in; "" outside.
        chain: The chain that it stands in; "" outside.
    """

    place: Place
    text: str
    words: list[str]
    table: str = ""
    chain: str = ""


def named(words: list[str]) -> tuple[str, list[str]]:
    """Return the family and the name of a table, and the words after them."""
    family, rest = (words[0], words[1:]) if words[:1] and words[0] in FAMILIES else ("ip", words)
    return f"{family} {rest[0] if rest else ''}", rest[1:]


def statements(lines: Iterable[tuple[Place, str]]) -> Iterator[Statement]:
    """Yield the statements of a file. A block that opens is the command that adds it."""
    blocks: list[tuple[str, str]] = []
    values: dict[str, list[str]] = {}
    said: list[str] = []
    start, first, depth = None, "", 0
    for place, line in lines:
        for token in (*_TOKEN.findall(line), "\n"):
            if not said:
                start, first = place, line
            if token.startswith("#") or (token == "\n" and depth):
                continue
            if depth:
                said.append(token)
                depth += _BRACES.get(token, 0)
                continue
            if token == "{":
                opened = _opened(said, blocks)
                if opened is None:
                    said.append(token)
                    depth = 1
                    continue
                blocks.append(opened)
                if opened != ("", ""):
                    words = _expanded(said, values)
                    yield Statement(start or place, first, words, opened[0] if opened[1] else "")
                said = []
            elif token not in (";", "\n", "}"):
                said.append(token)
            elif token == "\n" and said[-1:] == ["\\"]:
                said.pop()
            else:
                if said:
                    yield from _statement(Statement(start or place, first, said), blocks, values)
                said = []
                if token == "}" and blocks:
                    blocks.pop()
    if said and start is not None:
        yield from _statement(Statement(start, first, said), blocks, values)


def _opened(said: list[str], blocks: list[tuple[str, str]]) -> tuple[str, str] | None:
    """Return the table and the chain that a brace opens, "" for others; None for a set's."""
    words = said[1:] if said[:1] and said[0] in ("add", "create") else said
    kind, rest = words[0] if words else "", words[1:]
    if not blocks:
        table, rest = named(rest)
        if kind == "table":
            return table, ""
        return (table, rest[0]) if kind == "chain" and rest else None
    table, chain = blocks[-1]
    if table and not chain:
        return (table, rest[0]) if kind == "chain" and rest else ("", "")
    return None if chain else ("", "")


def _statement(
    found: Statement, blocks: list[tuple[str, str]], values: dict[str, list[str]]
) -> Iterator[Statement]:
    words = _expanded(found.words, values)
    if words[0] in ("define", "redefine") and words[2:3] == ["="]:
        values[words[1]] = words[3:]
    elif words[0] == "undefine":
        values.pop(words[-1], None)
    elif blocks[-1:] != [("", "")]:
        yield Statement(found.place, found.text, words, *(blocks[-1] if blocks else ()))


def _expanded(words: list[str], values: dict[str, list[str]]) -> list[str]:
    """Return words with the values of variables; a set in a set is part of it."""
    found: list[str] = []
    depth = 0
    for word in words:
        depth += _BRACES.get(word, 0)
        value = values.get(word[1:]) if word.startswith("$") else None
        if value is None or len(found) + len(value) > _MOST_TOKENS:
            found.append(word)
        else:
            found += value[1:-1] if depth and value[:1] == ["{"] else value
    return found
