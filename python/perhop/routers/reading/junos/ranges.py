"""Ranges of interfaces: statements of `interface-range` that its members inherit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.junos.interfaces import applies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.routers.reading.junos.tree import Node, Tree

MAX_MEMBERS: Final = 1024
"""The most members of the ranges of a configuration."""

MAX_STATEMENTS: Final = 100_000
"""The most words that members inherit."""

MAX_WILDCARDS: Final = 32
"""The most names with wildcards in the ranges of a configuration."""

_NOT_INHERITED: Final = frozenset(("member", "member-range", "description"))
_NUMBERED: Final = re.compile(r"(.*?)([0-9]{1,4})", re.ASCII)
_LIST: Final = re.compile(r"(.*)\[([0-9,\-]{1,64})\]", re.ASCII)


def expand_ranges(tree: Tree) -> None:
    """Add the statements of each range of interfaces to its members.

    What an interface states itself comes first. A name with a wildcard such as ``ge-*`` stands for
    the interfaces that the configuration has; ``ge-0/0/[0-3]`` and ``member-range`` name all
    members.
    """
    top = tree.root.get("interfaces")
    if top is None:
        return
    room = MAX_STATEMENTS
    members = wildcards = 0
    for found in top.under("interface-range"):
        wildcards += sum("*" in each.word for each in found.under("member"))
        for name in _members(found, top) if wildcards <= MAX_WILDCARDS else ("",):
            members += 1
            room -= sum(1 for _ in found.walk())
            node = tree.add(top, name, found.place) if name else None
            if node is None or members > MAX_MEMBERS or room < 0:
                fault = "ranges of interfaces have more members than perhop expands"
                tree.faults.setdefault(found.place, fault)
                return
            _inherit(tree, node, found)


def _members(found: Node, top: Node) -> Iterator[str]:
    """Yield the names of the members of a range."""
    for each in found.under("member"):
        listed = _LIST.fullmatch(each.word)
        if listed is not None:
            for part in listed[2].split(","):
                low, _, high = part.partition("-")
                yield from _numbered(listed[1], low, high or low)
        elif "*" in each.word:
            yield from [
                node.word
                for node in list(top)
                if node.word != "interface-range" and applies(each.word, node.word)
            ]
        else:
            yield each.word
    for each in found.under("member-range"):
        first = _NUMBERED.fullmatch(each.word)
        for end in each.under("to"):
            last = _NUMBERED.fullmatch(end.word)
            if first is not None and last is not None and first[1] == last[1]:
                yield from _numbered(first[1], first[2], last[2])


def _numbered(begin: str, low: str, high: str) -> Iterator[str]:
    if low.isdecimal() and high.isdecimal() and int(high) - int(low) <= MAX_MEMBERS:
        for number in range(int(low), int(high) + 1):
            yield f"{begin}{number}"


def _inherit(tree: Tree, node: Node, source: Node) -> None:
    """Add the statements below `source` to `node`, beside those that it has itself."""
    todo = [(node, source)]
    while todo:
        into, level = todo.pop()
        for each in level:
            if level is source and each.word in _NOT_INHERITED:
                continue
            own = into.children.get(each.word)
            if own is None:
                own = tree.add(into, each.word, each.place)
                if own is None:
                    return
                own.inherited = True
            if own.origin is None and own is not each:
                own.origin = each
            todo.append((own, each))
