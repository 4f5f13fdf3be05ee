"""What `tc show` and `nft list` print, as objects of JSON and lines of text with their places.

Several outputs can follow one another. tc prints some text in spite of `-j`: iproute2 6.1 all
classes, and the options of some disciplines, which are no valid JSON then.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.configuration import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.routers.reading.configuration import Source

__all__ = ["Item", "Object", "is_output", "items"]

_OUTPUT: Final = re.compile(
    r"^[ \t]*(?:\[\s*\{|\{\s*\"(?:nftables|kind|class|protocol|parent)\""
    r"|(?:qdisc|class) [a-z_]+ [0-9a-f]*:[0-9a-f]* (?:root|dev|parent)\b"
    r"|filter (?:\S+ ){0,4}protocol \S+ pref \d)",
    re.M,
)
_BLANK: Final = re.compile(r"\s*")
_PROMPT: Final = re.compile(r"\[[\w.@:~/ -]{1,80}\][#$%]? ")
_TOKEN: Final = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"?|[\[\]{}]')
_WRAPPER: Final = re.compile(r'\{\s*"nftables"')
_DATA: Final = re.compile(r'\{\s*"(?:set|map|element|metainfo|table)"')
_TEXT_OPTIONS: Final = re.compile(r'("options"\s*:\s*)\{([^{}"\[\]\\]*)\}')
_DEEPEST: Final = 32
_MOST_TEXT: Final = 2**20
_MOST_LINE: Final = 4096
_MOST_ITEMS: Final = 100_000
_SHOWN: Final = 200


class Object(dict[str, Any]):
    """An object of JSON, whose keys can be repeated; a key has its last value."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs

    def every(self, key: str) -> list[Any]:
        """Return all values of a key."""
        return [value for name, value in self.pairs if name == key]

    def inner(self, key: str) -> Object:
        """Return an object in this one; an empty one if there is none."""
        value = self.get(key)
        return value if isinstance(value, Object) else Object([])


_DECODER: Final = json.JSONDecoder(object_pairs_hook=Object)


@dataclass(frozen=True, slots=True)
class Item:
    """An object, or a line of text.

    Attributes:
        place: Where it begins.
        text: Its beginning.
        value: The object; None for a line.
        words: The words of a line.
        output: The number of the array that it is in.
        problem: Why an object cannot be read.
    """

    place: Place
    text: str
    value: Object | None = None
    words: tuple[str, ...] = ()
    output: int = 0
    problem: str = ""


def is_output(text: str) -> bool:
    """Return whether a text is the output of tc or nft, not a script."""
    return _OUTPUT.search(text) is not None


def items(source: Source) -> Iterator[Item]:
    """Yield the objects and lines of a text, up to a bounded number."""
    for number, item in enumerate(_items(source)):
        if number == _MOST_ITEMS:
            problem = f"perhop reads {_MOST_ITEMS:,} objects of a file at most"
            yield Item(item.place, item.text, problem=problem)
            return
        yield item


def _items(source: Source) -> Iterator[Item]:
    text = source.text
    at = output = counted = 0
    part = -1
    place = Place(source.file, 1)
    while (at := _BLANK.match(text, at).end()) < len(text):  # type: ignore[union-attr]
        if text[at] in "[{" and not _PROMPT.match(text, at):
            output += 1
            found = _elements(text, at)
        else:
            end = text.find("\n", at)
            found = iter([(at, len(text) if end < 0 else end, -1, None)])
        for start, end, depth, value in found:
            line = place.line + text.count("\n", counted, max(start, counted))
            part = part + 1 if line == place.line else 0
            place, counted = Place(source.file, line, part), max(start, counted)
            at = end
            if start == end:
                continue
            if depth < 0:
                said = text[start : min(end, start + _MOST_LINE)].strip()
                yield Item(place, said[:_SHOWN], words=tuple(said.split()))
            elif value is not None:
                said = " ".join(text[start : min(end, start + _SHOWN)].split())
                yield Item(place, said, value, output=output)
            elif not _DATA.match(text, start):
                yield _item(place, text, start, end, depth, output)


def _item(place: Place, text: str, start: int, end: int, depth: int, output: int) -> Item:
    said = " ".join(text[start : min(end, start + _SHOWN)].split())
    if depth > _DEEPEST:
        return Item(place, said, problem=f"it is nested more than {_DEEPEST} levels deep")
    if end - start > _MOST_TEXT:
        return Item(place, said, problem=f"it is longer than {_MOST_TEXT:,} characters")
    whole = text[start:end]
    for written in (whole, _TEXT_OPTIONS.sub(_quoted, whole)):
        try:
            value = _DECODER.decode(written)
        except ValueError:
            continue
        return Item(place, said, value, output=output)
    return Item(place, said, problem="it is no valid JSON")


def _quoted(match: re.Match[str]) -> str:
    return f'{match[1]}"{" ".join(match[2].split())}"'


def _elements(text: str, at: int) -> Iterator[tuple[int, int, int, Object | None]]:
    """Yield begin, end, depth and value of each object in a value that begins at `at`.

    The value is None for an object that is malformed, long or deep. The last object is empty, at
    the end of the value.
    """
    opened = ["", "", ""]
    depth = deepest = 0
    start = -1
    base = 0
    while (match := _TOKEN.search(text, at)) is not None:
        token, at = match[0], match.end()
        if token in ("[", "{"):
            if start < 0 and token == "{":
                top = depth == 0 and not _WRAPPER.match(text, match.start())
                inside = (depth == 1 and opened[0] == "[") or (
                    depth == 2 and opened[:2] == ["{", "["]
                )
                if top or inside:
                    value, end = _decoded(text, match.start())
                    if value is not None:
                        yield match.start(), end, 1, value
                        if depth == 0:
                            yield end, end, 0, None
                            return
                        at = end
                        continue
                    start, base, deepest = match.start(), depth, depth
            if depth < len(opened):
                opened[depth] = token
            depth += 1
            deepest = max(deepest, depth)
        elif token in ("]", "}"):
            depth -= 1
            if start >= 0 and depth <= base:
                yield start, match.end(), deepest - base, None
                start = -1
            if depth <= 0:
                yield match.end(), match.end(), 0, None
                return
    if start >= 0:
        yield start, len(text), deepest - base, None
    yield len(text), len(text), 0, None


def _decoded(text: str, at: int) -> tuple[Object | None, int]:
    """Return an object that begins at `at`, and its end; None if it needs a closer look."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, at
    opened = text.count("{", at, end) + text.count("[", at, end)
    if opened > _DEEPEST or end - at > _MOST_TEXT:
        return None, at
    return value, end
