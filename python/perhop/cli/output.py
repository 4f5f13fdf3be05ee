"""Everything that commands print except tables: nothing in it steers the terminal."""

from __future__ import annotations

import re

import click

from perhop.printable import printable_lines

__all__ = ["document", "echo"]


def echo(message: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a message as `click.echo` does: one line, and those that are indented by two spaces.

    Other line ends come from texts of others, and are printed as escapes.
    """
    document(re.sub(r"\n(?!  )", r"\\n", str(message)), err=err, nl=nl)


def document(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print lines whose names were made printable, such as JSON."""
    click.echo(printable_lines(text), err=err, nl=nl)
