"""HTML that cannot be injected into: text is escaped unless it was made here."""

import html
import json
from typing import Any

from perhop.printable import printable_lines

_VOID = {"meta", "br", "hr"}


class Html(str):
    """A piece of HTML, safe to put into a page as it is."""

    __slots__ = ()


def element(tag: str, *content: str, **attributes: str) -> Html:
    """An element; content that is not `Html` is escaped, and so is every attribute.

    A trailing underscore of an attribute's name is dropped (`class_`), inner ones become hyphens.
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_safe(value)}"'
        for name, value in attributes.items()
    )
    return Html(f"<{tag}{written}>" + ("" if tag in _VOID else f"{join(*content)}</{tag}>"))


def join(*content: str) -> Html:
    """Pieces one after the other, those that are not `Html` escaped."""
    return Html("".join(c if isinstance(c, Html) else _safe(c) for c in content))


def data(identifier: str, value: Any) -> Html:
    """A script element that holds JSON for the page's code to read."""
    # In a script element only `<` can begin something that the HTML parser heeds.
    text = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return element("script", Html(text), type="application/json", id=identifier)


def code(source: str) -> Html:
    """A script element that holds trusted code.

    Raises:
        ValueError: If the code would end its element early.
    """
    if "</script" in source.lower() or "<!--" in source:
        raise ValueError("the script would end its own element")
    return element("script", Html(source))


def _safe(text: str) -> str:
    """Escape text for an element or an attribute in quotes."""
    return html.escape(printable_lines(text))
