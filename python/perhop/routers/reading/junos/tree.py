"""The tree of a configuration of Junos: one level for each word of a statement.

Braces and `set` commands that say the same give the same tree: ``unit 0 { family inet; }`` and
``set unit 0 family inet`` are the path ``unit``, ``0``, ``family``, ``inet``.
"""

from __future__ import annotations

from sys import intern
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Fault, Treatment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perhop.routers.reading.configuration import Place

MAX_NODES: Final = 500_000
"""The most words of a tree; statements beyond are noted and left out."""

MAX_DEPTH: Final = 64
"""The most words of a path."""

MAX_NOTES: Final = 3
"""The most notes of one statement."""

APPLIED: Final = frozenset(("apply-groups", "apply-groups-except", "apply-macro"))
"""Statements that every level may have, beside those of its own."""

_NO_CHILDREN: Final[Mapping[str, Node]] = MappingProxyType({})
"""What every leaf has."""

_ORDER: Final = (Treatment.MODELLED, Treatment.APPROXIMATED, Treatment.NOT_MODELLED)


def is_pattern(word: str) -> bool:
    """Return whether a word of a group stands for all names that match it, such as ``<ge-*>``."""
    return word[:1] == "<" and word[-1:] == ">"


class Node:
    """A word of a configuration, and the words that may follow it.

    Attributes:
        word: The word, without quotation marks.
        place: The line of its first occurrence.
        children: The words after it, in the order of the configuration.
        origin: The node of a group that says the same, or None.
        inherited: True if only a group says it.
        patterns: The number of names in angle brackets after it.
        inactive: True if the statement is deactivated.
        treatment: What became of the statement that ends here; None if nothing has looked at it.
        notes: How it was approximated, or why it is not modelled.
        fault: A fault of the configuration in the statement, and that in words.
        values: The words after it in the order of their statements, with repetitions.
        about: True if it is of a statement about quality of service.
        selects: True if it is of a statement that selects packets.
    """

    __slots__ = (
        "about",
        "children",
        "fault",
        "inactive",
        "inherited",
        "notes",
        "origin",
        "patterns",
        "place",
        "selects",
        "treatment",
        "values",
        "word",
    )

    def __init__(self, word: str, place: Place) -> None:
        self.word = word
        self.place = place
        self.children: Mapping[str, Node] = _NO_CHILDREN
        self.origin: Node | None = None
        self.inherited = False
        self.patterns = 0
        self.inactive = False
        self.treatment: Treatment | None = None
        self.notes: tuple[str, ...] = ()
        self.fault: tuple[Fault, str] | None = None
        self.values: list[str] | None = None
        self.about = False
        self.selects = False

    def __iter__(self) -> Iterator[Node]:
        """Yield the active nodes below this one, each once, but not those of `APPLIED`."""
        return (
            child
            for child in self.children.values()
            if not child.inactive and child.word not in APPLIED
        )

    @property
    def emptied(self) -> bool:
        """True if it had values, of which none is active any more: Junos has no such statement."""
        return isinstance(self.children, dict) and next(iter(self), None) is None

    def get(self, *path: str) -> Node | None:
        """Return the active node at a path below this one."""
        node: Node | None = self
        for word in path:
            node = node.children.get(word) if node is not None else None
            if node is None or node.inactive:
                return None
        return node

    def under(self, *path: str) -> list[Node]:
        """Return the active nodes directly below a path, such as all instances of a list."""
        node = self.get(*path)
        return list(node) if node is not None else []

    def value(self, *path: str) -> Node | None:
        """Return the value of a setting that has one, see `chosen`; None if it has none."""
        return chosen(self.under(*path))

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it, inactive ones included."""
        todo = [self]
        while todo:
            node = todo.pop()
            yield node
            todo.extend(node.children.values())

    def mark(self, treatment: Treatment, note: str = "", *, whole: bool = True) -> None:
        """Record what became of a statement, and by default of all below it.

        A statement that is used several times keeps the treatment that models least of it.
        """
        for node in self.walk() if whole else (self,):
            target: Node | None = node
            while target is not None:
                target._mark(treatment, note)
                target = target.origin

    def _mark(self, treatment: Treatment, note: str) -> None:
        if self.treatment is None or _ORDER.index(treatment) >= _ORDER.index(self.treatment):
            if self.treatment is not treatment:
                self.notes = ()
            self.treatment = treatment
            if note and note not in self.notes and len(self.notes) < MAX_NOTES:
                self.notes = (*self.notes, note)

    def modelled(self, *, whole: bool = True) -> None:
        """Record that the policy does what the statement says."""
        self.mark(Treatment.MODELLED, whole=whole)

    def mark_name(self) -> None:
        """Record that the policy has this level, whatever becomes of the statements in it."""
        self.mark(Treatment.MODELLED, whole=False)

    def approximated(self, note: str, *, whole: bool = True) -> None:
        """Record that the policy does something similar."""
        self.mark(Treatment.APPROXIMATED, note, whole=whole)

    def ignored(self, note: str, *, whole: bool = True) -> None:
        """Record that the policy ignores the statement."""
        self.mark(Treatment.NOT_MODELLED, note, whole=whole)

    def undefined(self, note: str) -> None:
        """Record that the policy ignores the statement: it names what nothing defines."""
        self.ignored(note)
        self.faulty(Fault.UNDEFINED, note)

    def faulty(self, fault: Fault, note: str) -> None:
        """Record a fault of the statement, and of all below it."""
        for node in self.walk():
            target: Node | None = node
            while target is not None:
                target.fault = target.fault or (fault, note)
                target = target.origin


def chosen(nodes: Sequence[Node]) -> Node | None:
    """Return the one of several values of a setting that has one: the last, inherited ones last.

    Values that another one replaces are marked as such.
    """
    if len(nodes) < 2:
        return nodes[0] if nodes else None
    own = [node for node in nodes if not node.inherited]
    found = own[-1] if own else nodes[0]
    for node in nodes:
        if node is not found:
            # What a group says may count elsewhere.
            origin, node.origin = node.origin, None if node.inherited else node.origin
            node.ignored(f"replaced by line {found.place.line}")
            node.origin = origin
    return found


class Tree:
    """A configuration: the root of its nodes, and which nodes stand on which line.

    Attributes:
        root: The node above the top of the configuration.
        statements: For each line, the last node of the statement that stands on it, or those of
            several.
        size: The number of nodes.
        faults: Lines that cannot be read, with the reason.
        changes: The lines and paths of commands that delete, deactivate or activate statements.
        removed: The paths and nodes of deleted statements.
    """

    def __init__(self, place: Place) -> None:
        self.root = Node("", place)
        self.statements: dict[Place, Node | list[Node]] = {}
        self.size = 0
        self.faults: dict[Place, str] = {}
        self.changes: dict[Place, list[str]] = {}
        self.removed: list[tuple[list[str], Node]] = []

    def add(self, parent: Node, word: str, place: Place) -> Node | None:
        """Return the node of a word below another, which is added if needed.

        Returns:
            None if the tree is full.
        """
        node = parent.children.get(word)
        if node is None:
            if self.size >= MAX_NODES:
                return None
            self.size += 1
            # Most nodes are leaves, and many have the same word.
            node = Node(intern(word), place)
            if isinstance(parent.children, dict):
                parent.children[node.word] = node
            else:
                parent.children = {node.word: node}
            parent.patterns += is_pattern(word)
        return node

    def remove(self, parent: Node, node: Node) -> None:
        """Remove a node below another."""
        if isinstance(parent.children, dict):
            del parent.children[node.word]

    def ends(self, node: Node, place: Place) -> None:
        """Record that a statement on the line `place` ends with a node."""
        others = self.statements.setdefault(place, node)
        if isinstance(others, list):
            others.append(node)
        elif others is not node:
            self.statements[place] = [others, node]
