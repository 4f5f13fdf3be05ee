"""Options that several commands have."""

from __future__ import annotations

import click

__all__ = ["captures", "seed"]

seed = click.option(
    "--seed",
    default=1,
    show_default=True,
    type=click.IntRange(0, 2**64 - 1),
    help="The seed of all random numbers.",
)

captures = click.option(
    "--pcap",
    "captures",
    multiple=True,
    metavar="LINK=FILE",
    help="Capture the packets at r1's end of a link, 'r1>r2', to a pcapng file. Repeatable.",
)
