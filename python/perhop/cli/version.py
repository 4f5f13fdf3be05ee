"""`perhop --version`: the versions of perhop and of its core."""

from __future__ import annotations

import click

from perhop.cli.output import echo

__all__ = ["version"]


def _show(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the versions, and end the command."""
    if not wanted or context.resilient_parsing:
        return
    import importlib.metadata
    import platform

    from perhop import _core

    echo(f"perhop {importlib.metadata.version('perhop')}")
    system = f"Python {platform.python_version()}, {platform.machine()}"
    echo(f"core {_core.__version__} ({_core.BUILD} build), {system}")
    context.exit()


version = click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show,
    help="Show the version and how its core was built, and exit.",
)
