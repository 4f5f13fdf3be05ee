"""`perhop reserve`: the reservation service, and its client."""

from __future__ import annotations

from typing import Final

import click

from perhop_services.reservations.cli import bookings, people, serving

__all__ = ["reserve"]


_EXAMPLES: Final = """\b
Examples:
  perhop reserve init admin      the first administrator
  perhop reserve serve office.yaml --driver '*=linux'
  perhop reserve login admin
  perhop reserve book lan cloud "10 Mbps" --for "1 h" --port 5011
"""


@click.group(epilog=_EXAMPLES)
def reserve() -> None:
    """Book bandwidth for a time, and have it enforced."""


for command in (*serving.COMMANDS, *people.COMMANDS, *bookings.COMMANDS):
    reserve.add_command(command)
