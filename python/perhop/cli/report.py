"""`perhop report`: the page and the pictures of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perhop.cli import options
from perhop.cli.output import echo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perhop.report.named import Format
    from perhop.stores import Place

__all__ = ["report"]

_EXAMPLES = """\b
Examples:
  perhop report runs/qbss-1-70
  perhop report runs/qbss-1-70 --list-charts
  perhop report runs/qbss-1-70 --chart rtt --chart backlog --format csv
"""


def _charts() -> Iterable[str]:
    from perhop.report.named import CHARTS

    return CHARTS


@click.command(epilog=_EXAMPLES)
@click.argument("run", type=click.Path(), callback=options.as_place)
@click.option(
    "--out",
    type=click.Path(),
    callback=options.as_place,
    metavar="DIR",
    help="The folder for the files; by default the folder of the run.",
)
@click.option(
    "--chart",
    "names",
    multiple=True,
    metavar="NAME",
    shell_complete=options.among("all", "network", found=_charts),
    help="Write only this chart, in place of the page. Repeatable; `all` is every chart.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["png", "svg", "csv", "json"]),
    help="The format of --chart: a picture, its data, or its specification in Vega-Lite; by "
    "default svg.",
)
@click.option("--list-charts", "listing", is_flag=True, help="List the charts of the run.")
def report(
    run: Place, out: Place | None, names: tuple[str, ...], kind: Format | None, listing: bool
) -> int:
    """Write a page and pictures of a run.

    RUN is the folder of a run, or its URL such as s3://bucket/run; or the folder of `perhop run
    --seeds`, whose runs then all get their pages. The page, report.html, is self-contained and
    needs no network. The throughput chart is also written as PNG and SVG; --chart writes any chart
    by its name.
    """
    from perhop.dataset import Dataset
    from perhop.dataset.ensembles import ENSEMBLE
    from perhop.errors import UsageError
    from perhop.report import write

    if kind is not None and not names:
        raise UsageError("--format: needs --chart NAME; --list-charts lists the names")
    if (run / ENSEMBLE).is_file():
        if out is not None or names or listing:
            raise UsageError(
                f"{run} has several runs; give the folder of one, such as {run}/runs/1"
            )
        from perhop import ensembles
        from perhop.report.output import save_ensemble

        for path in save_ensemble(ensembles.read(run), run, singles=True):
            echo(path)
        return 0
    dataset = Dataset.read(run)
    folder: Place = out or run
    if not names and not listing:
        for written in write(dataset, folder):
            echo(written)
        return 0
    from perhop.report.named import chart_file, described
    from perhop.report.output import write_all

    there = described(dataset) if listing or "all" in names else {}
    if listing:
        width = max(map(len, there), default=0)
        for name, shown in there.items():
            echo(f"{name:{width}}  {shown}")
        return 0
    chosen = dict.fromkeys(each for name in names for each in (there if name == "all" else [name]))
    form = kind or "svg"
    files = {f"{name}.{form}": chart_file(dataset, name, form) for name in chosen}
    for written in write_all(folder.resolve(), files):
        echo(written)
    return 0
