"""Commands of other distributions, such as perhop-services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from perhop.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PLUGINS", "Plugin"]

GROUP: Final = "perhop.commands"
"""The group of entry points by which distributions offer commands."""


class Plugin(click.Command):
    """A command of another distribution, which is looked for and imported only when it runs."""

    def __init__(self, name: str, summary: str, *, project: str, folder: str) -> None:
        """Name the command.

        Args:
            name: Name of the command and of its entry point.
            summary: Line in `perhop --help`; the first line of the command's own help.
            project: Distribution that has the command.
            folder: Folder of the distribution in perhop's sources.
        """
        super().__init__(name, help=summary)
        self._missing = (
            f"`perhop {name}` needs {project}, which is not installed: in the folder of perhop's "
            f"sources, pip install ./{folder}"
        )

    def load(self) -> click.Command:
        """Import the command.

        Raises:
            UnsupportedError: The distribution is not installed.
        """
        from importlib.metadata import entry_points

        for each in entry_points(group=GROUP, name=self.name or ""):
            command: click.Command = each.load()
            return command
        raise UnsupportedError(self._missing)

    def make_context(
        self,
        info_name: str | None,
        args: Sequence[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parse arguments as the imported command does, which is then the context's command."""
        return self.load().make_context(info_name, list(args), parent, **extra)


PLUGINS: Final = (
    Plugin(
        "reserve",
        "Book bandwidth for a time, and have it enforced.",
        project="perhop-services",
        folder="services",
    ),
)
"""Commands that `perhop --help` lists whether or not they are installed."""
