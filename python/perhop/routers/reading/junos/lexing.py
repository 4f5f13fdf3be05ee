"""The words and lists of a line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TOKEN: Final = re.compile(
    r"""
      (?P<comment> \#.* | /\*.* )
    | (?P<mark> [;{}\[\]] )
    | "(?P<text> (?:[^"\\]|\\.)* )"?
    | (?P<word> (?: <[^<>\s;{}"]{0,256}> | [^\s;{}\[\]"<] | < )
                (?: [^\s;{}\[\]"] | \[[^\s\[\]]{0,64}\] )* )
    """,
    re.X,
)
_COMMENT: Final = re.compile(r"(?<![^\s;{}\[\]])/\*")
"""Where a comment begins: a name such as ``ge-1/*/*`` has none."""
_SPECIAL: Final = re.compile(r"[#;{}\[\]\"<]|/\*")


def tokens(line: str) -> list[tuple[str, str]]:
    """Return the kinds and texts of the tokens of a line."""
    if _SPECIAL.search(line) is None:
        return [("word", word) for word in line.split()]
    return [(str(match.lastgroup), match[match.lastgroup or 0]) for match in _TOKEN.finditer(line)]


def words(found: Sequence[tuple[str, str]]) -> Iterator[str | list[tuple[str, Place]]]:
    """Yield the words of a command, and its lists."""
    listed: list[tuple[str, Place]] | None = None
    for kind, text in found:
        if kind == "comment":
            break
        if kind == "mark":
            if text == "[":
                listed = listed or []
            elif text == "]" and listed is not None:
                yield listed
                listed = None
        elif listed is not None:
            listed.append((text, _NOWHERE))
        else:
            yield text
    if listed is not None:
        yield listed


_NOWHERE: Final = Place("", 0)


def without_comments(line: str) -> tuple[bool, str]:
    """Return whether a comment goes on after a line, and the line without those in ``/* */``."""
    if "/*" not in line:
        return False, line
    kept: list[str] = []
    while True:
        # In a string, `/*` begins no comment.
        begins = _COMMENT.search(line)
        before = line[: begins.start()] if begins else line
        if begins is None or before.count('"') % 2:
            return False, "".join((*kept, line))
        _, ends, line = line[begins.end() :].partition("*/")
        kept += [before, " "]
        if not ends:
            return True, "".join(kept)


def at_line(part: str | list[tuple[str, Place]], place: Place) -> str | list[tuple[str, Place]]:
    """Return a word or list with the line on which it stands."""
    return part if isinstance(part, str) else [(word, place) for word, _ in part]
