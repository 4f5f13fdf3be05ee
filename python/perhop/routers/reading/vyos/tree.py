"""Configurations of VyOS as a tree of words: braces, or `set` commands."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.routers.reading.configuration import Source

__all__ = ["Node", "parse"]

_WORD: Final = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^\s'\"]+)")
_COMMANDS: Final = (
    "set",
    "delete",
    "edit",
    "top",
    "up",
    "exit",
    "commit",
    "save",
    "configure",
    "show",
)
_PROMPT: Final = re.compile(r"(?:\[edit[^\]]*\] *)?[\w.@~:-]{1,80}[#$>] *(?=[a-z])", re.ASCII)
_MOST_WORDS: Final = 32
_MOST_DEPTH: Final = 32


class Node:
    """A word of a configuration, and the words that follow it.

    Attributes:
        word: The word.
        place: The line of its first occurrence.
        text: The text of that line.
        children: The words after it.
        used: True if the reader knows it.
        deleted: True if a later command deletes or replaces it.
    """

    __slots__ = ("children", "deleted", "place", "text", "used", "word")

    def __init__(self, word: str, place: Place, text: str) -> None:
        self.word = word
        self.place = place
        self.text = text
        self.children: dict[str, Node] = {}
        self.used = False
        self.deleted = False

    def get(self, *path: str) -> Node | None:
        """Return the node at a path, which is known from then on."""
        node: Node | None = self
        for word in path:
            node = node.children.get(word) if node is not None else None
            if node is not None:
                node.used = True
        return node

    def value(self, *path: str) -> Node | None:
        """Return the only, or last, word after a path."""
        node = self.get(*path)
        found = None
        for each in node.children.values() if node is not None else ():
            if found is not None:
                found.deleted = True
            found = each
        if found is not None:
            found.used = True
        return found

    def text_of(self, *path: str) -> str | None:
        """Return the value at a path as text."""
        node = self.value(*path)
        return node.word if node is not None else None

    def each(self, *path: str) -> list[Node]:
        """Return the nodes below a path, which are known from then on."""
        node = self.get(*path)
        found = list(node.children.values()) if node is not None else []
        for child in found:
            child.used = True
        return found

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it."""
        todo = [self]
        while todo:
            node = todo.pop()
            yield node
            todo += reversed(node.children.values())


def parse(source: Source, top: Node) -> Iterator[tuple[Place, str, tuple[Node, ...]]]:
    """Add a configuration to the tree `top`; yield each statement with the nodes of its path.

    Commands change the level by `edit`, `up`, `top` and `exit`.
    """
    level: list[str] = []
    stack: list[tuple[Node, ...]] = []
    base: tuple[Node, ...] = (top,)
    comment = False
    for number, line in enumerate(source.text.split("\n"), 1):
        stripped = line.strip()
        if comment or stripped.startswith("/*"):
            comment = "*/" not in stripped
            continue
        if not stripped or stripped.startswith(("#", "//")):
            continue
        place = Place(source.file, number)
        prompt = _PROMPT.match(stripped)
        if prompt is not None:
            stripped = stripped[prompt.end() :]
        if stripped == "}":
            if stack:
                base = stack.pop()
            continue
        found = islice(_WORD.finditer(stripped), _MOST_WORDS)
        words = ["".join(match.groups("")) for match in found]
        if not words:
            continue
        if words[0] in _COMMANDS and not stack:
            command, path_of = words[0], [*level, *words[1:]]
            if command == "set":
                yield place, line, _add((top,), path_of, place, line)
            elif command == "delete":
                yield place, line, _delete(top, path_of, place, line)
            elif command == "edit":
                level = path_of[:_MOST_WORDS]
            elif command == "up":
                level = level[:-1]
            elif command in ("top", "exit", "configure"):
                level = []
            continue
        opens = words[-1] == "{"
        path = _add(base, words[:-1] if opens else words, place, line)
        yield place, line, path
        if opens:
            if len(stack) < _MOST_DEPTH:
                stack.append(base)
                base = path
            else:
                stack.append(base)


def _add(base: tuple[Node, ...], words: list[str], place: Place, line: str) -> tuple[Node, ...]:
    path = list(base)
    for word in words:
        child = path[-1].children.get(word)
        if child is None:
            child = path[-1].children[word] = Node(word, place, line)
        path.append(child)
    if words and not path[-1].children:  # a value that is set again is the last one
        path[-2].children[words[-1]] = path[-2].children.pop(words[-1])
    return tuple(path)


def _delete(top: Node, words: list[str], place: Place, line: str) -> tuple[Node, ...]:
    """Remove a node; return the path of a node of its own, which no reader needs to know."""
    node: Node | None = top
    above = top
    for word in words:
        above = node if node is not None else above
        node = node.children.get(word) if node is not None else None
    if node is not None and words:
        del above.children[words[-1]]
        for each in node.walk():
            each.deleted = True
    path = [top]
    for word in words:
        path.append(Node(word, place, line))
        path[-1].used = True
    return tuple(path)
