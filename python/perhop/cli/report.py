"""`perhop report`: the page and the pictures of a run."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["report"]


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The folder for the files; by default the folder of the run.",
)
def report(run: Path, out: Path | None) -> int:
    """Write a page and pictures of a run.

    RUN is the folder of a run. The page, report.html, is self-contained and needs no network. The
    throughput chart is also written as PNG and SVG.
    """
    from perhop.dataset import Dataset
    from perhop.report import write

    for path in write(Dataset.read(run), out or run):
        click.echo(path)
    return 0
