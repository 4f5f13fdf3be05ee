"""Commands of a configuration as elements of XML, and back, by one table for both directions.

A `Command` has parts in a row, each with alternatives, the first of which that fits is taken. An
alternative is a text of words: a word stands for itself, ``{path}`` for one word that is the value
of an element, ``{path*}`` for all words left, each the value of an element of its own, and
``<path>`` for no word and an element without value. The alternative ``""`` makes a part optional.
Paths are those of `xml.etree`: ``list[key='value']`` is the entry of a list, ``.`` the element.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perhop.routers.pushing.elements import child, copied

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from xml.etree.ElementTree import Element

__all__ = ["Block", "Command", "NoElementError"]

_STEP: Final = re.compile(r"([^/\[]+)(?:\[([^=]+)='([^']*)'\])?(?:/|$)")


class NoElementError(ValueError):
    """A command without an element."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a block.

    Attributes:
        parts: The alternatives of each part.
        at: The element that the paths are relative to; "" for that of the block.
        entries: True if each such command is an entry of the list `at`.
        once: What to do where two such commands stand in a block; "" if that is another value of
            the same element.
    """

    parts: tuple[tuple[str, ...], ...]
    at: str = ""
    entries: bool = False
    once: str = ""

    def add(self, block: Element, words: Sequence[str]) -> bool:
        """Add a command to the element of its block; return False if it is another command.

        Raises:
            NoElementError: If the block has such a command already, and its element can have one.
        """
        taken: list[tuple[str, str | None]] = []
        left = list(words)
        for alternatives in self.parts:
            for alternative in alternatives:
                found = _taken(alternative, left)
                if found is not None:
                    values, length = found
                    taken += values
                    del left[:length]
                    break
            else:
                return False
        if left:
            return False
        above, _, name = self.at.rpartition("/")
        into = (
            ElementTree.SubElement(_made(block, above), name)
            if self.entries
            else _made(block, self.at)
        )
        if self.once and any(into.find(path) is not None for path, _ in taken):
            raise NoElementError(self.once)
        for path, value in taken:
            above, _, name = path.rpartition("/")
            at = into if path == "." else ElementTree.SubElement(_made(into, above), name)
            at.text = value
        return True

    def pop(self, block: Element, value: Callable[[str, str], str]) -> Iterator[str]:
        """Yield these commands of a block, and remove their elements.

        Args:
            block: The element of the block.
            value: Returns the word for the value of an element with this name.
        """
        for into in block.findall(self.at) if self.at else [block]:
            words: list[str] = []
            gone: list[str] = []
            for alternatives in self.parts:
                for alternative in alternatives:
                    found = _said(alternative, into, value)
                    if found is not None:
                        words += found
                        gone += _paths(alternative)
                        break
                else:
                    break
            else:
                for path in gone:
                    _remove(into, path)
                yield " ".join(words)
        _remove_empty(block, self.at)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of commands, which is an entry of a list.

    Attributes:
        head: The first line, with the keys as in commands.
        commands: Its commands.
        inside: The blocks in it by the list; each command has another first word than these.
        implied: Elements that only repeat what commands say: their path and value.
    """

    head: Command
    commands: tuple[Command, ...] = ()
    inside: Mapping[str, Block] = field(default_factory=dict)
    implied: Collection[tuple[str, ...]] = ()

    def lines(
        self, element: Element, value: Callable[[str, str], str]
    ) -> Iterator[tuple[int, str]]:
        """Yield the lines of an entry, each with its depth.

        What no command says is yielded as a path of elements and a value.
        """
        left = copied(element)
        yield from ((0, line) for line in self.head.pop(left, value))
        for name, block in self.inside.items():
            for each in left.findall(name):
                left.remove(each)
                yield from ((depth + 1, line) for depth, line in block.lines(each, value))
        for command in self.commands:
            yield from ((1, line) for line in command.pop(left, value))
        for path in _leaves(left):
            if path not in self.implied:
                yield 1, " ".join(path)


def _taken(
    alternative: str, words: Sequence[str]
) -> tuple[list[tuple[str, str | None]], int] | None:
    """Return the values of elements that words say, and the number of words; None if others."""
    values: list[tuple[str, str | None]] = []
    at = 0
    for token in alternative.split():
        path = token[1:-1]
        if token[0] == "<":
            values.append((path, None))
        elif at == len(words):
            return None
        elif token[0] != "{":
            if words[at] != token:
                return None
            at += 1
        elif path[-1] == "*":
            values += ((path[:-1], word) for word in words[at:])
            at = len(words)
        else:
            values.append((path, words[at]))
            at += 1
    return values, at


def _said(alternative: str, into: Element, value: Callable[[str, str], str]) -> list[str] | None:
    """Return the words of elements; None if one is missing."""
    words: list[str] = []
    for token in alternative.split():
        if token[0] not in "{<":
            words.append(token)
            continue
        path = token[1:-1].removesuffix("*")
        found = into.findall(path)
        if not found:
            return None
        name = path.rpartition("/")[2]
        if token[0] == "{":
            words += sorted(value(name, (each.text or "").strip()) for each in found)
    return words


def _paths(alternative: str) -> list[str]:
    return [token[1:-1].removesuffix("*") for token in alternative.split() if token[0] in "{<"]


def _made(element: Element, path: str) -> Element:
    """Return an element by its path, which is added if needed."""
    for name, key, value in _STEP.findall(path):
        found = element.find(f"{name}[{key}='{value}']") if key else child(element, name)
        if found is None:
            found = ElementTree.SubElement(element, name)
            ElementTree.SubElement(found, key).text = value
        element = found
    return element


def _remove_empty(element: Element, path: str) -> None:
    """Remove elements without elements and value, and those around them that are empty then."""
    first, _, rest = path.partition("/")
    for each in element.findall(first) if first else ():
        _remove_empty(each, rest)
        if not len(each) and not (each.text or "").strip():
            element.remove(each)


def _remove(element: Element, path: str) -> None:
    """Remove elements, and those around them that are empty then."""
    if path == ".":
        element.text = None
        return
    first, _, rest = path.partition("/")
    for each in element.findall(first):
        if rest:
            _remove(each, rest)
        if not rest or not len(each):
            element.remove(each)


def _leaves(element: Element) -> Iterator[tuple[str, ...]]:
    """Yield the path of each element without elements inside, and its value if it has one."""
    for each in element:
        text = (each.text or "").strip()
        if len(each):
            yield from ((each.tag, *path) for path in _leaves(each))
        else:
            yield (each.tag, text) if text else (each.tag,)
