"""Options that several commands have."""

from __future__ import annotations

import click

__all__ = ["agents", "captures", "seed"]

seed = click.option(
    "--seed",
    default=1,
    show_default=True,
    type=click.IntRange(0, 2**64 - 1),
    help="The seed of all random numbers.",
)

agents = click.option(
    "--agents",
    type=click.Path(),
    metavar="FILE",
    help="A file with the section `agents`, which replaces the scenario's; for the engine live.",
)

captures = click.option(
    "--pcap",
    "captures",
    multiple=True,
    metavar="LINK=FILE",
    help="Capture the packets at r1's end of a link, 'r1>r2', to a pcapng file. Repeatable.",
)
