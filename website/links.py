"""Links between pages: where they lead in the repository, and in the site.

A page of the site is a file of `docs/`, or one of `OTHERS`, which lie elsewhere in the repository.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parent.parent

OTHERS: Final = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "validation/RESULTS.md": "validation/RESULTS.md",
    "validation/QUEUES.md": "validation/QUEUES.md",
    "validation/HOSTS.md": "validation/HOSTS.md",
}
"""Pages outside `docs/`, with their places in the site."""

REFERENCE: Final = "reference"
"""The folder of the generated pages, in `docs/` as links see it, and in the site."""

_FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_NO_LETTER = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a page.

    Attributes:
        text: Its text.
        target: What the page says.
        path: The file in the repository to which it leads; "" for another site.
        anchor: The heading there, "" for the page as a whole.
    """

    text: str
    target: str
    path: str
    anchor: str


def pages() -> list[str]:
    """Return the written pages, by their paths in the repository."""
    docs = (ROOT / "docs").glob("**/*.md")
    return sorted([*OTHERS, *(path.relative_to(ROOT).as_posix() for path in docs)])


def links(page: str, text: str) -> Iterator[Link]:
    """Yield the links of a page, those in code left out."""
    for part in _outside_code(text):
        for found in _LINK.finditer(part):
            yield _link(page, found[1], found[2])


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a page."""
    slugs: dict[str, int] = {}
    found = set()
    for part in _outside_code(text):
        for heading in _HEADING.finditer(part):
            slug = slug_of(heading[1])
            count = slugs.get(slug, 0)
            slugs[slug] = count + 1
            found.add(f"{slug}_{count}" if count else slug)
    return found


def slug_of(heading: str) -> str:
    """Return the anchor of a heading, as forges of Git make it."""
    plain = _LINK.sub(r"\1", heading).replace("`", "")
    return _NO_LETTER.sub("", plain.lower()).replace(" ", "-")


def in_site(path: str) -> str | None:
    """Return the place in the site of a file of the repository; None if it has none."""
    return OTHERS.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)


def for_site(page: str, text: str) -> str:
    """Return a page with links for the site; a link to what the site lacks becomes its text."""
    here = posixpath.dirname(in_site(page) or page)

    def replaced(found: re.Match[str]) -> str:
        link = _link(page, found[1], found[2])
        if not link.path:
            return found[0]
        target = in_site(link.path)
        if target is None:
            return link.text
        anchor = f"#{link.anchor}" if link.anchor else ""
        return f"[{link.text}]({posixpath.relpath(target, here or '.')}{anchor})"

    return "".join(
        part if part.lstrip(" ").startswith("```") else _LINK.sub(replaced, part)
        for part in _parts(text)
    )


def _link(page: str, text: str, target: str) -> Link:
    if re.match(r"[a-z]+:", target):
        return Link(text, target, "", "")
    file, _, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), file)) if file else page
    return Link(text, target, path, anchor)


def _outside_code(text: str) -> list[str]:
    return [part for part in _parts(text) if not part.lstrip(" ").startswith("```")]


def _parts(text: str) -> list[str]:
    """Return a text in parts: fenced blocks, and what is between them."""
    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [text[end : fence.start()], fence[0]]
        end = fence.end()
    return [*parts, text[end:]]
