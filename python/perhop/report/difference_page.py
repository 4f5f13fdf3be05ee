"""Comparisons of two policies as a page."""

import os
from pathlib import Path

from perhop.report.comparison import comparison_tables
from perhop.report.difference import difference_chart, difference_lines, difference_tables
from perhop.report.document import document, figure, grid
from perhop.report.html import element, join
from perhop.report.output import pictures, write_all
from perhop.report.style import Spec
from perhop.routers.difference import Difference

__all__ = ["save_difference"]


def save_difference(
    difference: Difference, title: str, folder: str | os.PathLike[str]
) -> list[Path]:
    """Write `diff.html`, the page, and its chart as PNG and SVG.

    Raises:
        OutputError: If the folder cannot be written.
    """
    chart = difference_chart(difference)
    contents = {"diff.html": _page(difference, title, chart).encode()}
    if chart is not None:
        contents |= pictures("diff", chart)
    return write_all(Path(folder).resolve(), contents)


def _page(difference: Difference, title: str, chart: Spec | None) -> str:
    """Return a comparison as one HTML document without external references."""
    more = [
        table
        for load in difference.loads
        if len(difference.loads) == 1
        for table in comparison_tables(load.compared)
    ]
    body = join(
        element("h1", title),
        element("ul", *(element("li", line) for line in difference_lines(difference))),
        figure("difference", chart) if chart else "",
        *(grid(table) for table in difference_tables(difference)),
        *(grid(table) for table in more),
    )
    return document(title, body)
