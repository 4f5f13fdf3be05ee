"""What MkDocs calls while it builds the site (`mkdocs.yml`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from website import links, reference

if TYPE_CHECKING:
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_FETCHED = re.compile(r'<(?:script|img|iframe|link rel="(?:stylesheet|preconnect)")[^>]*https?://')
"""An element for which a browser asks another host."""


def on_files(files: Files, *, config: Any) -> Files:
    """Add what is not in `docs/`: pages of the repository, the reference, style and script."""
    for path, place in links.OTHERS.items():
        text = (links.ROOT / path).read_text("utf-8")
        files.append(File.generated(config, place, content=links.for_site(path, text)))
    for name, text in reference.pages().items():
        place = f"{links.REFERENCE}/{name}"
        files.append(File.generated(config, place, content=links.for_site(f"docs/{place}", text)))
    for name in ("site.css", "site.js"):
        content = (links.ROOT / "website" / name).read_text("utf-8")
        files.append(File.generated(config, f"assets/{name}", content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Make the links of pages of `docs/` those of the site."""
    if page.file.generated_by is not None:
        return markdown
    return links.for_site(f"docs/{page.file.src_uri}", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Make the empty corner of a table a cell, because headers have text (WCAG 2.1, 1.3.1)."""
    return html.replace("<th></th>", "<td></td>")


def on_post_page(output: str, *, page: Page, **_: Any) -> str:
    """Refuse a page that asks another host for a part of it."""
    if found := _FETCHED.search(output):
        raise PluginError(f"{page.file.src_uri} fetches {found[0]}")
    return output
