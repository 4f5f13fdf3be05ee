"""Tables on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
import rich.box
import rich.table
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from perhop.printable import printable, printable_lines

if TYPE_CHECKING:
    from perhop.report import Table

__all__ = ["print_table"]

_BETWEEN: Final = 3
"""The space between two columns."""


def print_table(table: Table) -> None:
    """Print a table on stdout; if stdout is not a terminal, as wide as the table needs."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=1000)
    with console.capture() as capture:
        # Names and notes come from files: never markup.
        console.print(Text(printable(table.title), "bold"))
        for number, part in enumerate(_parts(table, console.width)):
            if number:
                console.print()
            console.print(_grid(table, part))
        if table.note:
            console.print(Text(printable_lines(table.note), "dim"))
    # Rich would end the program by itself if the output has no reader any more.
    click.echo(capture.get(), nl=False)


def _parts(table: Table, width: int) -> list[list[int]]:
    """Split the columns into tables that fit the terminal.

    Every table repeats the first column. Text can be wrapped, numbers cannot.
    """
    everything = list(range(len(table.columns)))
    if any(column.align == "left" for column in table.columns[1:]):
        return [everything]
    widths = [
        max(map(cell_len, (column.name, *(row[index] for row in table.rows))))
        for index, column in enumerate(table.columns)
    ]
    parts: list[list[int]] = []
    left = 0
    for index in everything[1:]:
        needed = _BETWEEN + widths[index]
        if not parts or left < needed:
            parts.append([0])
            left = width - widths[0]
        parts[-1].append(index)
        left -= needed
    return parts


def _grid(table: Table, part: list[int]) -> rich.table.Table:
    """Some columns of a table."""
    grid = rich.table.Table(box=rich.box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index in part:
        column = table.columns[index]
        grid.add_column(
            Text(printable(column.name)), justify=column.align, no_wrap=column.align == "right"
        )
    for row in table.rows:
        grid.add_row(*(Text(printable(row[index])) for index in part))
    return grid
