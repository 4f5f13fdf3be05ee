"""`perhop agent`: the program of live hosts, as `perhop-agent` without Python."""

from __future__ import annotations

import click

from perhop.cli.output import echo

__all__ = ["agent"]

_EXAMPLES = """\b
Examples:
  perhop agent key
  perhop agent serve --allow 'perhop-ed25519 …' --listen '[::]:4861'
  perhop agent serve --help
  perhop agent iperf3 --records tests
  perhop agent records tests --out run
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
    if arguments[:1] == ("records",):
        records.main(arguments[1:], prog_name="perhop agent records", standalone_mode=False)
        return 0
    from perhop._core import agent

    return agent(list(arguments))


@click.command()
@click.argument("source", type=click.Path(exists=True))
@click.option("--out", type=click.Path(), required=True, help="The folder of the dataset.")
def records(source: str, out: str) -> None:
    """Make a dataset of SOURCE, a folder of records of iperf3's tests or one of its files."""
    from perhop.records import dataset, read

    echo(dataset(read(source)).write(out))
