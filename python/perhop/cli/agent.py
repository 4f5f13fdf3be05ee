"""`perhop agent`: the program of live hosts, as `perhop-agent` without Python."""

from __future__ import annotations

import click

__all__ = ["agent"]

_EXAMPLES = """\b
Examples:
  perhop agent key
  perhop agent serve --allow 'perhop-ed25519 …' --listen '[::]:4861'
  perhop agent serve --help
"""


@click.command(
    epilog=_EXAMPLES,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND…")
def agent(arguments: tuple[str, ...]) -> int:
    """Send and receive on this host for a controller.

    `perhop agent` alone lists the commands; each has `--help`. They are those of the program
    perhop-agent, which needs neither Python nor this package.
    """
    from perhop._core import agent

    return agent(list(arguments))
