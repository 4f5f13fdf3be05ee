"""Reading text as a tree: braces, `set` commands, and parts of configurations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from perhop.routers.reading.configuration import Place, Source
from perhop.routers.reading.junos.lexing import at_line, tokens, without_comments, words
from perhop.routers.reading.junos.siblings import separated
from perhop.routers.reading.junos.tree import MAX_DEPTH, Tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading.junos.siblings import Statement
    from perhop.routers.reading.junos.tree import Node

MAX_LINES: Final = 250_000
"""The most lines that are read as statements."""

MAX_LENGTH: Final = 2**16
"""The most characters of a line."""

_PROMPT: Final = re.compile(r"\s*(?:\{[\w:-]+\}\s*)?[\w.-]+@[\w.-]+[#>%]\s*")
_COMMANDS: Final = frozenset(
    (
        *("set", "delete", "del", "deactivate", "activate", "edit", "top", "up", "exit"),
        "quit",
        *("insert", "rename", "copy", "annotate", "protect", "unprotect", "replace", "wildcard"),
        *("show", "commit", "rollback", "run", "load", "save", "status", "update", "configure"),
    )
)
_SET: Final = re.compile(
    r"\s*(?:[\w.-]+@[\w.-]+[#>%]\s*)?(?:set|delete|deactivate|activate)\s+"
    r"(?:class-of-service|firewall|interfaces|policy-options|routing-options|groups)\s[^;{}]*$"
)
_MASTER: Final = re.compile(r"\s*\{[\w:-]+\}\s*")
"""What a router prints above its prompt, such as ``{master:0}``."""
_COMPARED: Final = re.compile(r"[+-]\s")
"""A line of the output of ``show | compare``, which marks each line in its first column."""
_TAGS: Final = frozenset(("inactive:", "protect:", "replace:", "delete:", "active:"))

_CLASS_OF_SERVICE: Final = frozenset(
    (
        *("schedulers", "scheduler-maps", "forwarding-classes", "classifiers", "drop-profiles"),
        *("rewrite-rules", "traffic-control-profiles", "code-point-aliases", "fragmentation-maps"),
        *("host-outbound-traffic", "tri-color", "forwarding-class-sets", "forwarding-policy"),
        *("shared-buffer", "congestion-notification-profile", "multi-destination"),
    )
)
_FIREWALL: Final = frozenset(
    (
        *("policer", "three-color-policer", "hierarchical-policer", "filter", "family"),
        *("prefix-action", "enhanced-hierarchical-policer"),
    )
)
_INTERFACE: Final = re.compile(
    r"(?:ge|xe|et|fe|so|t1|t3|e1|e3|at|gr|ip|ms|lsq|sp|mge|pp|st|ae|reth|fab|irb|lo)"
    r"-?[\d*]+(?:[/.:][\d*/.:]*)?"
)

FORWARDING: Final = ("routing-instances", "vlans", "bridge-domains")
"""Lists of forwarding tables of their own."""

TOP: Final = frozenset(
    (
        *("class-of-service", "firewall", "interfaces", "policy-options", "routing-options"),
        *("groups", "apply-groups", "apply-groups-except", "dynamic-profiles"),
        *("logical-systems", "tenants", "protocols", "forwarding-options", "chassis"),
        *FORWARDING,
    )
)
"""The parts of a configuration that can say something about quality of service."""

_ONLY: Final = {
    # Of routing protocols, label-switched paths may have policers.
    "protocols": (1, ("mpls",)),
    "forwarding-options": (1, ("family",)),
    "chassis": (1, ("fpc",)),
    **dict.fromkeys(FORWARDING, (2, ("forwarding-options", "filter"))),
}
"""For large parts, the words that are read at a level of theirs."""
_PARTS: Final = frozenset(("groups", "logical-systems", "tenants"))
"""Statements of which each instance has such parts."""
_LEVELS: Final = 5
"""The most words that tell whether a statement is read."""

_NAMED: Final = frozenset(
    (
        *("family", "filter", "term", "policer", "three-color-policer", "hierarchical-policer"),
        *("unit", "prefix-list", "forwarding-class", "loss-priority", "class", "queue"),
        *("dscp", "dscp-ipv6", "inet-precedence", "ieee-802.1", "exp"),
    )
)
"""Words that are one level with the name after them, from which `up` leaves at once."""

REPEATED: Final = frozenset(("fill-level", "drop-probability"))
"""Settings with lists in which values may be repeated."""


def read_tree(texts: Sequence[Source]) -> Tree:
    """Return the tree of a configuration."""
    tree = Tree(Place(texts[0].file if texts else "", 0))
    for text in texts:
        _Reader(tree, text).read()
    return tree


class _Brace(NamedTuple):
    """An open brace.

    Attributes:
        node: Its node; None if it is not read.
        place: Its line.
        depth: The number of words before it.
        about: True if it stands in a part that can be about quality of service.
        path: The first words before it, by which that is known.
    """

    node: Node | None
    place: Place
    depth: int
    about: bool
    path: Statement


class _Reader:
    """The state of reading one file.

    Attributes:
        edit: The path to which commands and statements are relative.
        before: The paths before each `edit`, to which `exit` returns.
        open: The open braces.
        statement: The words and lists of the statement so far.
        listed: The words of an open list.
        started: The line on which the statement began.
    """

    def __init__(self, tree: Tree, text: Source) -> None:
        self.tree = tree
        self.text = text
        self.edit: list[str] = []
        self.before: list[list[str]] = []
        self.open: list[_Brace] = []
        self.statement: Statement = []
        self.listed: list[tuple[str, Place]] | None = None
        self.started = Place(text.file, 0)

    def read(self) -> None:
        """Read the file into the tree."""
        commented = False
        began = 0
        for number, line in enumerate(self.text.text.split("\n"), 1):
            if len(self.tree.statements) + len(self.tree.faults) >= MAX_LINES:
                place = Place(self.text.file, number)
                self.tree.faults[place] = f"after {MAX_LINES:,} lines, nothing more is read"
                break
            if len(line) > MAX_LENGTH and not commented:
                place = Place(self.text.file, number)
                self.tree.faults[place] = f"has more than {MAX_LENGTH:,} characters"
                continue
            if commented:
                _, closed, line = line.partition("*/")
                if not closed:
                    continue
            commented, line = without_comments(line)
            began = number if commented else 0
            if not line or line.isspace():
                continue
            if not self.open and _MASTER.fullmatch(line) is not None:
                continue
            place = Place(self.text.file, number)
            if _COMPARED.match(line) is not None:
                self.tree.faults[place] = "a line of `show | compare`, which perhop does not apply"
                continue
            if self.statement and self.listed is None and line.lstrip()[0] not in "{}[];":
                # A statement ends with its line, even without a semicolon.
                self._end(self.started, opens=False)
            if self.open and _SET.match(line) is not None:
                self.tree.faults.setdefault(self.open[0].place, "its brace is not closed")
                self.open.clear()
            if not self.open and not self.statement and self.listed is None:
                prompt = _PROMPT.match(line)
                line = line[prompt.end() :] if prompt is not None else line
                if line.isspace() or not line or self._command(line.strip(), place):
                    continue
            self._braces(line, place)
        if self.statement or self.listed:
            self._end(self.started, opens=False)
        if self.open:
            self.tree.faults.setdefault(self.open[0].place, "its brace is not closed")
        if began:
            self.tree.faults[Place(self.text.file, began)] = "its comment is not closed"

    # Braces

    def _braces(self, line: str, place: Place) -> None:
        for kind, text in tokens(line):
            if kind == "comment":
                break
            if kind != "mark":
                if not self.statement and self.listed is None:
                    self.started = place
                if self.listed is not None:
                    self.listed.append((text, place))
                else:
                    self.statement.append(text)
            elif text == "[":
                if not self.statement:
                    self.started = place
                self.listed = self.listed or []
            elif text == "]":
                if self.listed is not None:
                    self.statement.append(self.listed)
                self.listed = None
            elif text == "}":
                if self.statement or self.listed is not None:
                    self._end(place, opens=False)
                if self.open:
                    self.open.pop()
                else:
                    self.tree.faults.setdefault(place, "closes no brace")
            else:
                self._end(place, opens=text == "{")

    def _end(self, place: Place, *, opens: bool) -> None:
        """End a statement at a semicolon or a brace."""
        if self.listed is not None:
            self.statement.append(self.listed)
            self.listed = None
        statement, self.statement = self.statement, []
        if not statement and not opens:
            return
        inactive = False
        while statement and isinstance(statement[0], str) and statement[0] in _TAGS:
            inactive = inactive or statement[0] in ("inactive:", "delete:")
            statement = statement[1:]
        node: Node | None = None
        if self.open:
            above = self.open[-1]
            depth = len(statement) + above.depth
            about = above.about
            path = [*above.path, *statement][:_LEVELS]
            if above.node is not None:
                about = _is_read(path)
                if about:
                    node = self._add(above.node, statement, self.started, depth, inactive=inactive)
            elif about:
                self.tree.faults.setdefault(self.started, "inside a statement that is not read")
        else:
            full = [*self.edit, *statement] if self.edit else _whole(statement)
            path = full[:_LEVELS]
            depth, about = len(full), _is_read(full)
            if about:
                node = self._add(self.tree.root, full, self.started, depth, inactive=inactive)
        if opens:
            self.open.append(_Brace(node, self.started, depth, about, path))
        self.started = place

    def _add(
        self, node: Node, statement: Statement, place: Place, depth: int, *, inactive: bool = False
    ) -> Node | None:
        """Add a statement; return its last node, None if it cannot be a part of the tree."""
        if depth > MAX_DEPTH:
            self.tree.faults.setdefault(place, f"nested deeper than {MAX_DEPTH} words")
            return None
        last = node
        for part in separated(node.word, statement):
            found = self._add_one(node, part, place, inactive=inactive)
            if found is None:
                return None
            last = found
        return last

    def _add_one(
        self, node: Node, statement: Statement, place: Place, *, inactive: bool
    ) -> Node | None:
        start = 0
        for part in statement:
            # The words before the first list; most statements have none.
            if not isinstance(part, str) or node.word in REPEATED:
                break
            child = node.children.get(part) or self.tree.add(node, part, place)
            if child is None:
                self.tree.faults.setdefault(place, "the configuration is too large")
                return None
            node = child
            start += 1
        last: list[tuple[Node, Place]] = [(node, place)]
        for part in statement[start:]:
            words = part if isinstance(part, list) else [(part, place)]
            after: list[tuple[Node, Place]] = []
            for parent, _ in last[-1:] if isinstance(part, list) else last:
                for word, at in words:
                    child = self.tree.add(parent, word, at)
                    if child is None:
                        self.tree.faults.setdefault(at, "the configuration is too large")
                        return None
                    if parent.word in REPEATED:
                        parent.values = parent.values or []
                        parent.values.append(word)
                    after.append((child, at))
            last = after or last
        for child, at in last:
            child.inactive = child.inactive or inactive
            self.tree.ends(child, at)
        if last[0][1] != place:
            self.tree.ends(last[0][0], place)
        return last[-1][0]

    # Commands

    def _command(self, line: str, place: Place) -> bool:
        """Read a line of commands; return false if it is none."""
        if line.startswith("[edit") and line.endswith("]"):
            self.edit = line[1:-1].split()[1 : MAX_DEPTH + 1]
            return True
        verb = line.split(None, 1)[0]
        verb = "delete" if verb == "del" else verb
        if verb not in _COMMANDS or line.endswith("{"):
            return False
        rest = list(words(tokens(line)))[1:]
        flat = [word for word in rest if isinstance(word, str)]
        if self.edit and flat[:1] == self.edit[:1]:
            path, full = flat, rest
        else:
            path, full = [*self.edit, *flat], [*self.edit, *rest]
        full = full if self.edit else _whole(full)
        if len(flat) < len(rest):
            full = [at_line(part, place) for part in full]
        match verb:
            case "set":
                if _is_read(full):
                    self._add(self.tree.root, full, place, len(full))
            case "edit":
                self.before = [*self.before[-MAX_DEPTH:], self.edit]
                self.edit = path[:MAX_DEPTH]
            case "top":
                self._from_above([], line.split(None, 1)[1:], place)
            case "up":
                stated = bool(flat and re.fullmatch("[0-9]{1,3}", flat[0]))
                levels = int(flat[0]) if stated else 1
                above = self.edit
                for _ in range(levels):
                    above = above[: -2 if set(above[-2:-1]) & _NAMED else -1]
                self._from_above(above, line.split(None, 1 + stated)[1 + stated :], place)
            case "exit" | "quit":
                self.edit = self.before.pop() if self.before and not flat else []
            case "delete" | "deactivate" | "activate":
                last = rest[-1] if rest and isinstance(rest[-1], list) else []
                if len(rest) - len(flat) > bool(last):
                    self.tree.faults[place] = "a list before the last word is not read"
                else:
                    for each in [[*path, word] for word, _ in last] or [path]:
                        self._change(verb, each, place)
            case "show":
                # The answer that follows is relative to the path.
                shown = flat[1:] if flat[:1] == ["configuration"] else flat
                self.edit = shown if shown[:1] and shown[0] in TOP else self.edit
            case "insert" | "rename" | "copy" | "replace" | "wildcard":
                if verb == "replace" or TOP.intersection(path[:2]):
                    self.tree.faults[place] = f"the command `{verb}` is not read"
            case _:
                pass
        return True

    def _from_above(self, above: list[str], command: Sequence[str], place: Place) -> None:
        """Go to a level above, or only apply the command there that follows on the line."""
        level, self.edit = self.edit, above
        verb = command[0].split(None, 1)[0] if command else ""
        if verb in _COMMANDS - {"top", "up"}:
            self._command(command[0], place)
            if verb == "edit":
                self.before[-1] = level
            elif verb != "show":
                self.edit = level

    def _change(self, verb: str, path: Sequence[str], place: Place) -> None:
        """Delete, deactivate or activate the statements at a path."""
        parent: Node | None = self.tree.root
        for word in path[:-1]:
            parent = parent.children.get(word) if parent is not None else None
        node = parent.children.get(path[-1]) if parent is not None and path else None
        if node is None or parent is None:
            if path and path[0] in ("class-of-service", "firewall"):
                self.tree.faults[place] = "there is no such statement before it"
            return
        self.tree.changes[place] = list(path)
        if verb == "delete":
            self.tree.remove(parent, node)
            parent.values = None
            node.ignored(f"deleted by line {place.line}")
            self.tree.removed.append((list(path), node))
        else:
            node.inactive = verb == "deactivate"


def _whole(statement: Statement) -> Statement:
    """Return a statement below the hierarchy that is left out above it."""
    first = statement[0] if statement else ""
    if not isinstance(first, str):
        return statement
    if first in _CLASS_OF_SERVICE:
        return ["class-of-service", *statement]
    if first in _FIREWALL and len(statement) > 1:
        return ["firewall", *statement]
    if first == "prefix-list":
        return ["policy-options", *statement]
    if _INTERFACE.fullmatch(first):
        return ["interfaces", *statement]
    return statement


def _is_read(statement: Statement) -> bool:
    """Return whether a statement stands in a part that can be about quality of service."""
    first = statement[0] if statement else ""
    if not isinstance(first, str) or first not in TOP:
        return False
    if first in _PARTS and len(statement) > 2:
        part = statement[2]
        return not isinstance(part, str) or part not in _ONLY or _is_read(statement[2:])
    level, words = _ONLY.get(first, (len(statement), ()))
    return len(statement) <= level or statement[level] in words
