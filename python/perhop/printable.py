r"""Texts of others (files, routers, agents, services) made safe for a terminal, a log or a page.

A name may have escape sequences that move the cursor of a terminal, line ends that forge a line of
a log, and characters that turn the direction of writing. They are shown as escapes: ``\x1b``.
"""

from __future__ import annotations

from typing import Any

__all__ = ["printable", "printable_data", "printable_lines"]


def printable(text: str, limit: int | None = None) -> str:
    """Return `text` in one line, with what Unicode does not call printable as escapes.

    Args:
        text: Any text.
        limit: Number of characters of `text` after which it ends with `…`.
    """
    if limit is not None and len(text) > limit:
        text = f"{text[: limit - 1]}…"
    return text if text.isprintable() else "".join(map(_escaped, text))


def printable_lines(text: str) -> str:
    """Return `text` with its lines and tabs, and other characters as `printable` has them."""
    if text.isprintable():
        return text
    return "".join(char if char in "\n\t" else _escaped(char) for char in text)


def printable_data(value: Any) -> Any:
    """Return data of JSON types whose strings, keys among them, are `printable`."""
    match value:
        case str():
            return printable(value)
        case dict():
            return {printable_data(key): printable_data(each) for key, each in value.items()}
        case list() | tuple():
            return [printable_data(each) for each in value]
        case _:
            return value


def _escaped(char: str) -> str:
    return char if char.isprintable() else ascii(char)[1:-1]
