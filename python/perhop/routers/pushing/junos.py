"""Configurations of Junos as XML for NETCONF, and back.

`text` of the writer becomes the element `configuration`, which NETCONF edits as it does any XML
(RFC 6241, 7.2), without extensions of Junos. What the router then says comes back as `set`
commands, for comparison and for the reader of Junos.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import TYPE_CHECKING, Final

from perhop.routers.pushing.comparison import altered, differences, policies
from perhop.routers.pushing.elements import OPERATION, child, copied, entry, written
from perhop.routers.pushing.errors import PushError
from perhop.routers.pushing.junos_schema import (
    CLASSIFIERS,
    CONFIGURATION,
    NAMESPACE,
    REWRITES,
    Block,
    Kind,
)
from perhop.routers.reading.configuration import Source
from perhop.routers.reading.junos import read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from xml.etree.ElementTree import Element

    from perhop.routers.pushing.comparison import Policies

__all__ = ["Junos", "in_digits", "made", "statements", "tree"]

Words = tuple[str, ...]

_FAMILY: Final = re.compile(
    r"(interfaces \S+ unit \S+ family inet6?)\b(?: (filter .*put|policer) .*)?", re.ASCII
)
_NUMBER: Final = re.compile(r"[0-9]{1,18}[kmg]")
_UNITS: Final = {"k": 10**3, "m": 10**6, "g": 10**9}

_OWNED: Final[tuple[Words, ...]] = (
    ("class-of-service", "schedulers"),
    ("class-of-service", "scheduler-maps"),
    ("class-of-service", "traffic-control-profiles"),
    *(("class-of-service", "classifiers", kind) for kind in CLASSIFIERS),
    *(("class-of-service", "rewrite-rules", kind) for kind in REWRITES),
    ("firewall", "policer"),
    ("firewall", "three-color-policer"),
    ("firewall", "family", "inet", "filter"),
    ("firewall", "family", "inet6", "filter"),
)
"""Lists whose entries a push replaces as a whole, if the policy has one of the same name."""

_SHAPERS: Final[tuple[Words, ...]] = (
    ("scheduler-map",),
    ("output-traffic-control-profile",),
    ("shaping-rate",),
)
_OF_INTERFACE: Final[dict[str, dict[str, tuple[Words, ...]]]] = {
    "interfaces": {
        "interface": (),
        "unit": tuple(("family", each, "filter", "output") for each in ("inet", "inet6")),
    },
    "class-of-service/interfaces": {
        "interface": _SHAPERS,
        "unit": (*_SHAPERS, *(("rewrite-rules", kind) for kind in REWRITES)),
    },
}
"""The settings of an interface that a push removes if the policy has none; of the interface
itself, or of the units of the policy."""


class Junos:
    """A policy for a router with Junos.

    Attributes:
        filter: The parts of a configuration to ask the router for, as XML.
        remedies: What to do about a missing capability.
    """

    remedies: Final = dict.fromkeys(
        ("candidate", "confirmed-commit"), "enable it, or configure the router by hand"
    )

    def __init__(self, text: str) -> None:
        """Take a configuration as `perhop.routers.writing` writes it, for one router."""
        self._wanted = tree(_statements(text))
        self._lines = statements(self._wanted)
        names = [each.text or "" for each in self._wanted.findall("interfaces/interface/name")]
        self._interfaces = frozenset(names)
        asked = ElementTree.Element("configuration", xmlns=NAMESPACE)
        for name in names:
            interfaces = ElementTree.SubElement(asked, "interfaces")
            interface = ElementTree.SubElement(interfaces, "interface")
            ElementTree.SubElement(interface, "name").text = name
        ElementTree.SubElement(asked, "class-of-service")
        ElementTree.SubElement(asked, "firewall")
        self.filter: str = ElementTree.tostring(asked, encoding="unicode")

    def edit(self, current: Element | None) -> str:
        """Return the edit that gives a router the policy, as XML.

        Entries of the policy's names are replaced. What else the interfaces have in the way of the
        policy is deleted. All other statements stay.

        Args:
            current: The configuration that the router has; None if it has none.
        """
        edited = copied(self._wanted)
        for path in _OWNED:
            for each in edited.findall("/".join(path)):
                each.set(OPERATION, "replace")
        if current is not None:
            self._delete(edited, current)
        return made(edited)

    def _delete(self, edited: Element, current: Element) -> None:
        """Add the deletion of settings of the interfaces that the policy does not have."""
        for part, settings in _OF_INTERFACE.items():
            for there in current.findall(f"{part}/interface"):
                name = there.findtext("name") or ""
                if name not in self._interfaces:
                    continue
                wanted = entry(self._wanted.find(part), "interface", name)
                units = _units(entry(self._wanted.find("interfaces"), "interface", name))
                target = edited
                for word in part.split("/"):
                    target = child(target, word)
                target = entry(target, "interface", name, make=True)
                for path in settings["interface"]:
                    _delete_others(target, path, there, wanted)
                for unit in there.findall("unit"):
                    number = unit.findtext("name") or ""
                    if number in units:
                        own = entry(wanted, "unit", number)
                        for path in settings["unit"]:
                            _delete_others(target, path, unit, own, unit=number)

    def lines(self, configuration: Element | None) -> tuple[str, ...]:
        """Return a configuration as the statements of `set` commands, without the word `set`."""
        return () if configuration is None else tuple(statements(configuration))

    def differences(self, configuration: Element | None) -> list[str]:
        """Return how what a router has differs from the policy, as messages; none if it does not.

        Every statement of the policy must be there, entries of its names must have no others, and
        the reader of Junos must find the same policy at the interfaces in what the router has as
        in what perhop wrote.
        """
        found = self.lines(configuration)
        owned = [
            " ".join((*path, each.findtext("name") or "", ""))
            for path in _OWNED
            for each in self._wanted.findall("/".join(path))
        ]
        # An empty block of the policy may have other statements on the router.
        opened = [line for line in self._lines if any(one.startswith(f"{line} ") for one in found)]
        messages = differences(self._lines, (*found, *opened), owned, in_digits)
        # The policy says nothing of packets of a version of IP for which it has no family.
        ours = {match[1] for line in self._lines if (match := _FAMILY.match(line))}
        told = [
            line
            for line in found
            if (match := _FAMILY.match(line)) is None or match[1] in ours or match[2]
        ]
        return messages or altered(_policies(self._lines), _policies(told))


def _statements(text: str) -> Iterator[Words]:
    """Yield the statements of a text that perhop wrote, each with all words before it."""
    path: list[tuple[str, ...]] = []
    for line in text.splitlines():
        words = line.split()
        if not words or words[0] == "#":
            continue
        before = tuple(word for each in path for word in each)
        if words[-1] == "{":
            path.append(tuple(words[:-1]))
        elif words == ["}"]:
            path.pop()
        elif words[-1] == "];":
            opened = words.index("[")
            for word in words[opened + 1 : -1]:
                yield (*before, *words[:opened], word)
        else:
            yield (*before, *words[:-1], words[-1].removesuffix(";"))


def _add(parent: Element, block: Block, words: Sequence[str]) -> None:
    """Add a statement below an element."""
    left = list(words)
    while left:
        name = left[0] if left[0] in block.inside else block.unnamed
        if not name:
            raise PushError(f"perhop cannot send this statement over NETCONF: {' '.join(words)}")
        if left[0] in block.inside:
            del left[0]
        kind = block.inside[name]
        if isinstance(kind, Block):
            key = left.pop(0) if kind.keyed else ""
            parent = entry(parent, name, key, make=True) if key else child(parent, name)
            block = kind
        elif kind is Kind.FLAG:
            child(parent, name)
        else:
            ElementTree.SubElement(parent, name).text = left.pop(0)


def _units(interface: Element) -> set[str]:
    return {each.findtext("name") or "" for each in interface.findall("unit")}


def _delete_others(
    target: Element, path: Words, there: Element, own: Element, *, unit: str = ""
) -> None:
    """Add the deletion of a setting that a router has and the policy has not.

    Entries of a list are compared by name.

    Args:
        target: The interface in the edit.
        path: The setting.
        there: The interface of the router, or its unit.
        own: The same of the policy.
        unit: The name of the unit.
    """
    names = {each.findtext("name") for each in own.findall("/".join(path))}
    for found in there.findall("/".join(path)):
        key = found.findtext("name")
        if key in names:
            continue
        above = entry(target, "unit", unit, make=True) if unit else target
        for name in path[:-1]:
            above = child(above, name)
        gone = ElementTree.SubElement(above, path[-1])
        gone.set(OPERATION, "delete")
        if key is not None:
            ElementTree.SubElement(gone, "name").text = key


def tree(found: Iterable[Words]) -> Element:
    """Return statements as the element `configuration`.

    Raises:
        PushError: If perhop does not know the element of a statement.
    """
    configuration = ElementTree.Element("configuration")
    for words in found:
        _add(configuration, CONFIGURATION, words)
    return configuration


def made(configuration: Element) -> str:
    """Return an edit as XML for NETCONF; attributes `nc:operation` tell what becomes of a part."""
    return written(configuration, NAMESPACE)


def statements(configuration: Element) -> list[str]:
    """Return the statements of a configuration, in its order and each once."""
    found = [" ".join(map(_quoted, words)) for words in _words(configuration, CONFIGURATION)]
    return list(dict.fromkeys(found))


def _words(element: Element, block: Block | Kind | None) -> Iterator[Words]:
    """Yield the words of each statement in an element."""
    inside = block.inside if isinstance(block, Block) else {}
    unnamed = block.unnamed if isinstance(block, Block) else ""
    for each in element:
        name = each.tag
        own = inside.get(name)
        head: Words = () if name == unnamed else (name,)
        children = list(each)
        if children and children[0].tag == "name":
            head = (*head, children[0].text or "")
            each = _without_name(each)
        text = (each.text or "").strip()
        below = list(_words(each, own))
        if below:
            yield from ((*head, *words) for words in below)
        elif text and not children:
            yield (*head, text)
        else:
            yield head


def _without_name(element: Element) -> Element:
    rest = ElementTree.Element(element.tag)
    rest.extend(list(element)[1:])
    return rest


def _quoted(word: str) -> str:
    """Return a word as `set` commands have it."""
    plain = all(char.isalnum() or char in "-_./:*+<>,%@" for char in word)
    return word if word and plain else '"' + word.replace("\\", "").replace('"', "") + '"'


def in_digits(line: str) -> str:
    """Return a statement with numbers in digits: Junos shows 10000000 as ``10m``."""
    return " ".join(
        str(int(word[:-1]) * _UNITS[word[-1]]) if _NUMBER.fullmatch(word) else word
        for word in line.split(" ")
    )


def _policies(lines: Sequence[str]) -> Policies:
    """Return what the reader of Junos finds at each interface."""
    text = "".join(f"set {line}\n" for line in lines)
    return policies(read([Source("configuration", text)]))
