"""Elements of XML for edits of a configuration (RFC 6241, 7.2); their names have no namespace.

Lists are elements of one name in a row, each with its key in an element inside, mostly `name`.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

__all__ = ["NETCONF", "OPERATION", "child", "copied", "entry", "written"]

NETCONF: Final = "urn:ietf:params:xml:ns:netconf:base:1.0"

OPERATION: Final = "nc:operation"
"""The attribute of an element that tells what becomes of it, such as ``replace``."""


def child(parent: Element, name: str) -> Element:
    """Return an element below another one, which is added if needed."""
    found = parent.find(name)
    return ElementTree.SubElement(parent, name) if found is None else found


def entry(parent: Element | None, name: str, key: str, *, make: bool = False) -> Element:
    """Return the entry of a list; an empty element if there is none, added below with `make`."""
    for each in parent.findall(name) if parent is not None else ():
        if each.findtext("name") == key:
            return each
    added = ElementTree.Element(name)
    ElementTree.SubElement(added, "name").text = key
    if make and parent is not None:
        parent.append(added)
    return added


def copied(element: Element) -> Element:
    """Return a copy of an element without attributes."""
    copy = ElementTree.Element(element.tag)
    copy.text = element.text
    for each in element:
        copy.append(copied(each))
    return copy


def written(root: Element, namespace: str) -> str:
    """Return an edit as XML for NETCONF.

    Args:
        root: The edit; `OPERATION` tells what becomes of an element.
        namespace: The XML namespace of the root, and of those inside without another one.
    """
    root.set("xmlns", namespace)
    root.set("xmlns:nc", NETCONF)
    return ElementTree.tostring(root, encoding="unicode")
