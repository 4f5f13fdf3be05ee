"""Configurations of IOS as XML of the native models of IOS-XE for NETCONF, and back.

`text` of the writer becomes the element `native`. What the router then says comes back as commands
of IOS, for comparison and for the reader of IOS.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import TYPE_CHECKING, Final

from perhop.errors import UnsupportedError
from perhop.routers.pushing.commands import NoElementError
from perhop.routers.pushing.comparison import altered, differences, policies
from perhop.routers.pushing.elements import OPERATION, child, copied, entry, written
from perhop.routers.pushing.errors import PushError
from perhop.routers.pushing.iosxe_schema import (
    ACL,
    BLOCKS,
    INTERFACES,
    NATIVE,
    OWNED,
    POLICY,
    value,
)
from perhop.routers.reading.configuration import Source
from perhop.routers.reading.ios import read
from perhop.routers.reading.ios.tree import read_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from xml.etree.ElementTree import Element

    from perhop.routers.pushing.comparison import Policies
    from perhop.routers.reading.ios.tree import Statement

__all__ = ["IosXe", "statements", "text", "tree"]

_NAMESPACES: Final = {
    "class-map": POLICY,
    "policy-map": POLICY,
    "service-policy": POLICY,
    "extended": ACL,
    "named-acl": ACL,
}
"""The namespace of elements that another module adds to the native one, with all inside."""

_INTERFACE: Final = re.compile(r"([A-Za-z-]+)([0-9].*)")
_LISTS: Final = {
    ("class-map",): "policy/class-map",
    ("policy-map",): "policy/policy-map",
    ("ip", "access-list"): "ip/access-list/extended",
    ("ipv6", "access-list"): "ipv6/access-list/named-acl",
}
"""The list of a block by its first words."""

_ELSEWHERE: Final = ("Port-channel", "Serial")
"""The interfaces whose subinterfaces are in another list."""

_STEP: Final = 10
"""The difference of sequence numbers of an access list, as IOS numbers entries."""


class IosXe:
    """A policy for a router with IOS-XE.

    Attributes:
        filter: The parts of a configuration to ask the router for, as XML.
        remedies: What to do about a missing capability.
    """

    remedies: Final = {
        "candidate": "configure `netconf-yang feature candidate-datastore` (IOS-XE 16.9 and later; "
        "NETCONF restarts), or paste the configuration",
        "confirmed-commit": "expected IOS-XE 17.1 or later with `netconf-yang feature "
        "candidate-datastore`; otherwise paste the configuration",
    }

    def __init__(self, configuration: str) -> None:
        """Take a configuration as `perhop.routers.writing` writes it, for one router.

        Raises:
            UnsupportedError: If the native models have no elements for it.
        """
        self._wanted = tree(configuration)
        self._lines = statements(self._wanted)
        self._policies = _policies(self._wanted)
        asked = ElementTree.Element("native")
        for path, name in self._names():
            below, _, last = path.rpartition("/")
            into = entry(_inside(asked, below), last, name, make=True)
            if path not in OWNED:
                for part in ("bandwidth", "service-policy"):
                    child(into, part)
        self.filter: str = _xml(asked)

    def edit(self, current: Element | None) -> str:
        """Return the edit that gives a router the policy, as XML.

        Entries of the policy's names are replaced. An output policy of the interface is deleted if
        the policy has none. All other commands stay.

        Args:
            current: The configuration that the router has; None if it has none.

        Raises:
            PushError: If the router does not have an interface: to configure it would create one.
        """
        edited = copied(self._wanted)
        for path, name in self._names():
            above, _, last = path.rpartition("/")
            changed = entry(edited.find(above), last, name)
            if path in OWNED:
                changed.set(OPERATION, "replace")
                continue
            found = None if current is None else current.find(f"{path}[name='{name}']")
            if found is None:
                raise PushError(
                    f"the router has no interface {last}{name}; expected one of `show interfaces`"
                )
            output = "service-policy/output"
            if found.find(output) is not None and changed.find(output) is None:
                gone = child(child(changed, "service-policy"), "output")
                gone.set(OPERATION, "delete")
        return _xml(edited)

    def lines(self, configuration: Element | None) -> tuple[str, ...]:
        """Return a configuration as commands, each after those of the blocks that it is in."""
        return () if configuration is None else tuple(statements(configuration))

    def differences(self, configuration: Element | None) -> list[str]:
        """Return how what a router has differs from the policy, as messages; none if it does not.

        Every command of the policy must be there, blocks of its names must have no others, and the
        reader of IOS must find the same policy at the interfaces in what the router has as in what
        perhop wrote.
        """
        found = self.lines(configuration)
        owned = [
            f"{line} "
            for path, name in self._names()
            if path in OWNED
            for line in OWNED[path].head.pop(copied(self._entry(path, name)), value)
        ]
        messages = differences(self._lines, found, owned)
        if messages or configuration is None:
            return messages
        return altered(self._policies, _policies(configuration))

    def _names(self) -> Iterator[tuple[str, str]]:
        """Yield the entries of the policy: the list of each, and its name."""
        for path in BLOCKS:
            for each in self._wanted.findall(path):
                yield path, each.findtext("name") or ""

    def _entry(self, path: str, name: str) -> Element:
        above, _, last = path.rpartition("/")
        return entry(self._wanted.find(above), last, name)


def tree(configuration: str) -> Element:
    """Return a configuration as the element `native`.

    Raises:
        UnsupportedError: If the models have no elements for some commands; the message has all of
            them, each with its block and the reason.
    """
    native = ElementTree.Element("native")
    gaps: list[str] = []
    for statement in read_tree(Source("configuration", configuration)):
        words = statement.words
        if words[0] == "interface":
            found = _INTERFACE.fullmatch(words[1])
            kind, name = (found[1], found[2]) if found is not None else ("", "")
            if kind not in INTERFACES or (kind in _ELSEWHERE and "." in name):
                gaps.append(
                    f"{statement.text}: perhop sets no policy there by NETCONF; expected the full "
                    "name of an interface such as GigabitEthernet0/0/1"
                )
                continue
            path, words = f"interface/{kind}", ["interface", kind, name]
        else:
            path = next(each for start, each in _LISTS.items() if statement.starts(*start))
        _add(native, path, words, statement, "", gaps)
    if gaps:
        raise UnsupportedError(
            "the native models of IOS-XE cannot express all of this policy, and nothing was "
            f"changed: {'; '.join(gaps)}"
        )
    return native


def _add(
    above: Element,
    path: str,
    words: Sequence[str],
    statement: Statement,
    place: str,
    gaps: list[str],
) -> None:
    """Add a block to the elements above it."""
    block = BLOCKS[path] if not place else BLOCKS["policy/policy-map"].inside[path]
    parent, _, last = path.rpartition("/")
    into = ElementTree.SubElement(_inside(above, parent), last)
    assert block.head.add(into, words), statement.text
    place = f"{place}{statement.text}, "
    if path.startswith("ip") and not (into.findtext("name") or "")[:1].isalpha():
        gaps.append(f"{statement.text}: the name of an access list begins with a letter")
    for number, inner in enumerate(statement.children, 1):
        words = inner.words
        if words[0] in block.inside:
            _add(into, words[0], words, inner, place, gaps)
            continue
        if "access-list" in path and not words[0].isdigit():
            words = [str(_STEP * number), *words]
        elif words[0] == "queue-limit" and len(words) == 2:
            words = [*words, "packets"]
        try:
            if not any(command.add(into, words) for command in block.commands):
                gaps.append(f"{place}{inner.text}: no element")
        except NoElementError as error:
            gaps.append(f"{place}{inner.text}: {error}")


def statements(native: Element) -> list[str]:
    """Return the commands of a configuration, each after those of the blocks that it is in."""
    found = []
    blocks: list[str] = []
    lines = list(_lines(native))
    for (depth, line), (next_depth, _) in zip(lines, [*lines[1:], (0, "")], strict=True):
        blocks[depth:] = [line]
        if next_depth <= depth:
            found.append(" ".join(blocks))
    return found


def text(native: Element) -> str:
    """Return a configuration as IOS has it."""
    return "".join(f"{' ' * depth}{line}\n" for depth, line in _lines(native))


def _lines(native: Element) -> Iterator[tuple[int, str]]:
    """Yield the lines of a configuration, each with its depth."""
    for path, block in BLOCKS.items():
        for each in native.findall(path):
            there = copied(each)
            if "access-list" in path:
                there[:] = sorted(there, key=_sequence)
            for depth, line in block.lines(there, value):
                yield depth, _plain(path, line)


def _plain(path: str, line: str) -> str:
    """Return a line as IOS shows it, which has no unit for packets, for example."""
    if line.startswith("queue-limit "):
        return line.removesuffix(" packets")
    start = f"interface {path.removeprefix('interface/')} "
    return line.replace(start, start.rstrip(), 1) if line.startswith(start) else line


def _sequence(element: Element) -> int:
    """Return the number of an entry of an access list; -1 for other elements."""
    number = element.findtext("sequence") or ""
    return int(number) if number.isascii() and number.isdigit() else -1


def _inside(element: Element, path: str) -> Element:
    for name in path.split("/") if path else ():
        element = child(element, name)
    return element


def _policies(native: Element) -> Policies:
    """Return what the reader of IOS finds at each interface."""
    return policies(read([Source("configuration", text(native))]))


def _xml(native: Element) -> str:
    """Return an edit or a filter as XML for NETCONF."""
    for each in native.iter():
        if each.tag in _NAMESPACES:
            each.set("xmlns", _NAMESPACES[each.tag])
    return written(native, NATIVE)
