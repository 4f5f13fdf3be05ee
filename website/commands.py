"""The page of the commands: what `--help` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perhop.cli import perhop

if TYPE_CHECKING:
    from collections.abc import Iterator

_WIDTH = 88


def page() -> str:
    """Return the page of all commands."""
    parts = ["# Commands", "", "Each command prints its help with `--help`.", ""]
    for name, text in helps(perhop, None, "perhop"):
        parts += [f"## {name}", "", "```text", text, "```", ""]
    return "\n".join(parts)


def helps(
    command: click.Command, parent: click.Context | None, name: str
) -> Iterator[tuple[str, str]]:
    """Yield the name and the help of a command, and of the commands below it."""
    context = click.Context(
        command,
        parent=parent,
        info_name=name.rpartition(" ")[2],
        max_content_width=_WIDTH,
        terminal_width=_WIDTH,
    )
    yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            if found is not None and not found.hidden:
                yield from helps(found, context, f"{name} {inner}")
