"""Handles of filters, and the order in which Linux tries the filters of a priority.

Sources: cls_u32.c, cls_flower.c, cls_basic.c, cls_fw.c and cls_matchall.c of net/sched; measured
with Linux 6.18 for u32.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from perhop.routers.reading.linux import units
from perhop.routers.reading.linux.ledger import PresentError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ROOT_TABLE", "Handles", "has_handle"]

ROOT_TABLE: Final = 0x800
"""The first hash table of u32 that Linux makes by itself."""

_FIRST: Final = 0x800
_MOST: Final = 0xFFF
_WRONG_TABLE: Final = "Error: cls_u32: Handle specified hash table address mismatch."
_NO_TABLE: Final = "Error: cls_u32: Specified hash table not found."
_MASKS: Final = "RTNETLINK answers: Invalid argument: filters of fw of one priority have one mask"

_Group = tuple[int, int]


class _Filter(Protocol):
    """What handles tell of a filter; its meaning is in `model`."""

    prio: int
    kind: str
    handle: str
    table: int
    made: int
    bucket: int
    node: int
    order: int
    masks: tuple[object, ...]
    key: tuple[object, ...]


@dataclass(slots=True)
class Handles:
    """The handles of the filters below a parent.

    Attributes:
        roots: The hash table of u32 of each priority.
        nodes: The numbers of filters: of u32 by hash table and bucket, of others by priority.
        masks: The masks of filters of each priority, by the time of their creation.
        keys: What filters of flower compare, for each priority.
    """

    roots: dict[int, int] = field(default_factory=dict)
    nodes: dict[_Group, set[int]] = field(default_factory=lambda: defaultdict(set))
    masks: dict[int, dict[tuple[object, ...], int]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    keys: dict[int, set[tuple[object, ...]]] = field(default_factory=lambda: defaultdict(set))
    _next: dict[_Group, int] = field(default_factory=dict)
    _root: int = ROOT_TABLE
    _basic: int = 0

    def number(self, made: _Filter, *, shown: bool) -> bool:
        """Give a filter its hash table and its order, and its number if its handle tells it.

        Returns:
            True if there is a filter with this number.

        Raises:
            RefusedError: Linux refuses the handle.
        """
        prio = made.prio
        if made.kind == "u32":
            if prio not in self.roots:
                self.roots[prio] = self._root
                self._root += 1
            if made.table >= ROOT_TABLE and made.table not in self.roots.values():
                raise RefusedError(_NO_TABLE)
            if not made.table:
                made.table = self.roots[prio]
            if made.made:
                return False
            table, _, made.node = _u32(made.handle)
            if table not in (0, made.table) and not shown:
                raise PresentError(_WRONG_TABLE)
        elif made.kind == "fw":
            made.node = _plain(made.handle)
            known = self.masks[prio]
            if made.masks and known and made.masks not in known and not shown:
                raise PresentError(_MASKS)
        elif made.handle:
            made.node = _plain(made.handle)
        elif made.kind == "matchall":
            made.node = 1
        return made.node in self.nodes[_group(made)] and bool(made.node)

    def same(self, made: _Filter) -> bool:
        """Return whether there is a filter of flower that compares the same."""
        return bool(made.key) and made.key in self.keys[made.prio]

    def add(self, made: _Filter, *, shown: bool) -> str:
        """Add a filter, which gets the first free number if its handle does not tell one.

        Returns:
            A note on what is not modelled; empty for nothing.
        """
        group, note = _group(made), ""
        taken = self.nodes[group]
        if not (made.node or made.made or made.kind == "fw"):
            of_u32 = made.kind == "u32"
            node = self._next.get(group, _FIRST if of_u32 else 1)
            if of_u32 and len(taken) >= _MOST:
                node, note = _MOST + len(taken), f"a bucket has {_MOST:,} filters at most"
            while node in taken:
                # Linux goes on with 1, before the others (`gen_new_kid`).
                node = 1 if of_u32 and node == _MOST else node + 1
            made.node, self._next[group] = node, node
        taken.add(made.node)
        self.order(made, shown=shown)
        return note

    def order(self, made: _Filter, *, shown: bool) -> None:
        """Give a filter its place among those of its priority."""
        if made.kind == "u32":
            made.order = made.node
        elif made.kind == "basic" and not shown:
            self._basic -= 1
            made.order = self._basic
        elif made.masks:
            known = self.masks[made.prio]
            rank = known.setdefault(made.masks, max(known.values(), default=-1) + 1)
            made.order = rank if made.kind == "flower" else 0
        if made.key:
            self.keys[made.prio].add(made.key)

    def without(self, kept: Iterable[_Filter]) -> Handles:
        """Return the handles after filters are gone: those of the filters that stay."""
        found = Handles(_basic=self._basic)
        for each in kept:
            if each.kind == "u32" and each.prio in self.roots:
                found.roots[each.prio] = self.roots[each.prio]
            found.nodes[_group(each)].add(each.node)
            if each.masks:
                found.masks[each.prio][each.masks] = each.order
            if each.key:
                found.keys[each.prio].add(each.key)
        if found.roots:
            found._root = self._root
        return found


def _group(each: _Filter) -> _Group:
    return (each.table, each.bucket) if each.kind == "u32" else (-1 - each.prio, 0)


def _u32(text: str) -> tuple[int, int, int]:
    """Return the hash table, the bucket and the number of a handle of u32."""
    if ":" not in text:
        number = int(text or "0", 16)
        return number >> 20, number >> 12 & 0xFF, number & 0xFFF
    table, bucket, node = (int(part or "0", 16) for part in [*text.split(":"), ""][:3])
    return table & 0xFFF, bucket & 0xFF, node & 0xFFF


def _plain(text: str) -> int:
    value = text.partition("/")[0]
    return units.number(value) if value else 0


def has_handle(each: _Filter, kind: str, text: str) -> bool:
    """Return whether a filter has a handle, which is that of its hash table for all in it."""
    try:
        if kind != "u32":
            return each.kind == kind and each.node == _plain(text)
        table, bucket, node = _u32(text)
    except ValueError:
        return False
    if each.kind != "u32":
        return False
    if not node:
        return table in (each.made, each.table if table < ROOT_TABLE else 0) and table > 0
    return not each.made and (each.table, each.bucket, each.node) == (table, bucket, node)
