"""`perhop diff`: what changes for each class from one policy to another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

import click

from perhop.cli import options
from perhop.cli.output import document, echo

if TYPE_CHECKING:
    from pathlib import Path

    from perhop.routers.difference import Side

__all__ = ["diff"]


@click.command()
@click.argument("old")
@click.argument("new")
@click.option(
    "--interface",
    "interfaces",
    multiple=True,
    metavar="NAME",
    help="The interface with the policy, such as Gi0/1. Twice: that of OLD, then that of NEW.",
)
@options.direction
@options.rate
@click.option(
    "--family",
    "families",
    multiple=True,
    metavar="NAME",
    help="The family of the configuration; detected by default. Twice: that of OLD, then of NEW.",
)
@options.seed
@click.option(
    "--out",
    type=click.Path(),
    callback=options.as_folder,
    metavar="DIR",
    help="Write a page, diff.html, and its chart as PNG and SVG into this folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def diff(
    old: str,
    new: str,
    interfaces: tuple[str, ...],
    direction: Literal["in", "out"] | None,
    rate: str | None,
    families: tuple[str, ...],
    seed: int,
    out: Path | None,
    as_json: bool,
) -> int:
    """Compare two policies by running both under the same traffic.

    OLD and NEW are configurations of routers, of any family, or scenarios.

    Configurations run with each class alone and with all classes together, each of which offers
    more than the link carries. Scenarios run with the traffic of OLD. Prints throughput, delay and
    loss of each class before and after the change.
    """
    from perhop.cli.loading import is_configuration, refuse_other
    from perhop.cli.progress import watching
    from perhop.routers import difference

    speed = options.rate_of(rate)

    def side(file: str, number: int) -> Side:
        family, interface = (
            values[min(number, len(values) - 1)] if values else None
            for values in (families, interfaces)
        )
        named = family is not None or is_configuration(file)
        if not named:
            refuse_other(file)
        return difference.Side(file, named, family, interface, direction, speed)

    sides = side(old, 0), side(new, 1)
    if not any(each.is_configuration for each in sides):
        options.no_rate(speed, old)
    with watching("diff") as watch:
        found = difference.compare(*sides, seed=seed, watch=watch)
    written = []
    if out is not None:
        from perhop.report.difference_page import save_difference

        written = save_difference(found, f"From {found.names[0]} to {found.names[1]}", out)
    if as_json:
        result = {**difference.as_object(found), "written": [str(path) for path in written]}
        document(json.dumps(result, indent=2, allow_nan=False))
        return 0
    from perhop.cli.render import print_table
    from perhop.report.difference import difference_lines, difference_tables

    for line in difference_lines(found):
        echo(line)
    for table in difference_tables(found):
        echo()
        print_table(table)
    for path in written:
        echo(path)
    return 0
