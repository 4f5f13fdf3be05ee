"""Configuration groups: statements that `apply-groups` inherits."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.junos.tree import is_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.routers.reading.junos.tree import Node, Tree

MAX_STEPS: Final = 400_000
"""The most levels of groups that are compared with the levels of the configuration."""

_NO_INSTANCE: Final = frozenset(
    ("apply-groups", "apply-groups-except", "apply-macro", "groups", "when")
)


def expand(tree: Tree) -> None:
    """Add to each level the statements of the groups that apply to it.

    The levels of a group with a name in angle brackets, such as ``<ge-*>``, apply to the existing
    instances that match. What a level states itself comes before what it inherits, and earlier
    groups before later ones. A group that is applied within itself has no further effect.
    """
    _Expansion(tree).run()


Levels = list[tuple[str, "Node"]]
"""Levels of groups, each with the name of its group."""


class _Expansion:
    """The expansion of all groups.

    Attributes:
        steps: The number of levels that may still be compared.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.groups = tree.root.get("groups")
        self.steps = MAX_STEPS

    def run(self) -> None:
        todo: list[tuple[Node, tuple[str, ...], Levels, frozenset[str]]]
        todo = [(self.tree.root, (), [], frozenset())]
        while todo:
            node, path, levels, without = todo.pop()
            if "apply-groups-except" in node.children:
                names = node.under("apply-groups-except")
                without |= {name.word for name in names}
                for name in names:
                    name.modelled()
                levels = [level for level in levels if level[0] not in without]
            levels = self._applied(node, path, levels, without)
            if not self._inherit(node, levels):
                self.tree.faults.setdefault(
                    node.place, "its groups inherit more statements than perhop expands"
                )
                return
            for child in node:
                if child.word not in _NO_INSTANCE or path:
                    self.steps -= len(levels)
                    below = list(_below(levels, child.word)) if levels else []
                    todo.append((child, (*path, child.word), below, without))

    def _applied(
        self, node: Node, path: Sequence[str], levels: Levels, without: frozenset[str]
    ) -> Levels:
        """Return the levels of groups that apply to a level, first those that it names itself."""
        named: Levels = []
        sources = [node, *(level for _, level in levels)]
        seen: set[str] = set(without)
        for source in sources:
            if "apply-groups" not in source.children:
                continue
            for name in source.under("apply-groups"):
                if name.word in seen:
                    continue
                seen.add(name.word)
                group = self.groups.get(name.word) if self.groups is not None else None
                if group is None:
                    name.undefined("the configuration has no such group")
                    continue
                name.modelled()
                if (when := group.get("when")) is not None:
                    when.approximated("taken as true at all times: the group applies")
                found = [(name.word, group)]
                for word in path:
                    found = list(_below(found, word))
                named += found
                sources += [level for _, level in found]
        if not named:
            return levels
        return list({id(level[1]): level for level in (*named, *levels)}.values())

    def _inherit(self, node: Node, levels: Levels) -> bool:
        """Add the statements of levels to a node; return false if there are too many."""
        for _, level in levels:
            for source in level.children.values():
                self.steps -= 1
                if self.steps < 0:
                    return False
                if is_pattern(source.word) or source.word in _NO_INSTANCE or source.inactive:
                    continue
                own = node.children.get(source.word)
                if own is None:
                    own = self.tree.add(node, source.word, source.place)
                    if own is None:
                        return False
                    own.inherited = True
                if own.origin is None and own is not source:
                    own.origin = source
            if level.values is not None and node.values is None:
                node.values = level.values
        return True


def _below(levels: Levels, word: str) -> Iterator[tuple[str, Node]]:
    """Yield the levels below others that apply to an instance."""
    for group, level in levels:
        exact = level.get(word)
        if exact is not None:
            yield group, exact
        for child in level if level.patterns else ():
            if child is not exact and _covers(child.word, word):
                yield group, child


def _covers(pattern: str, word: str) -> bool:
    """Return whether a name in angle brackets stands for an instance."""
    instance = is_pattern(pattern) and word not in _NO_INSTANCE
    return instance and _pattern(pattern).match(word) is not None


@lru_cache(maxsize=1024)
def _pattern(word: str) -> re.Pattern[str]:
    try:
        return re.compile(translate(word[1:-1]))
    except re.error:
        return re.compile(re.escape(word))
