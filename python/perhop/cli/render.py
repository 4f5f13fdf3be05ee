"""Tables on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import rich.box
import rich.table
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from perhop.report import Table

__all__ = ["print_table"]


def print_table(table: Table) -> None:
    """Print a table on stdout, as wide as it needs to be where that is not a terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=1000)
    shown = rich.table.Table(
        title=Text(table.title, "bold"),
        title_justify="left",
        box=rich.box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    for column in table.columns:
        # Names and notes come from files: never markup.
        shown.add_column(Text(column.name), justify=column.align)
    for row in table.rows:
        shown.add_row(*map(Text, row))
    with console.capture() as capture:
        console.print(shown)
        if table.note:
            console.print(Text(table.note, "dim"))
    # Rich would end the program by itself if nobody reads the output any more.
    click.echo(capture.get(), nl=False)
