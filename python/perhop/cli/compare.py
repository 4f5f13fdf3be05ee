"""`perhop compare`: the differences between saved runs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from perhop.cli import options
from perhop.cli.output import document, echo

__all__ = ["compare"]


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(),
    callback=options.as_folder,
    metavar="DIR",
    help="Write a page, compare.html, and its chart as PNG and SVG into this folder.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="The name of a run in tables and charts; one for each run, in their order.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def compare(runs: tuple[Path, ...], out: Path | None, names: tuple[str, ...], as_json: bool) -> int:
    """Compare saved runs, phase by phase and flow by flow.

    RUNS are two or more folders of runs, of any engine, seed and scenario. Ratios are to the
    first run. The differences between the scenarios are listed.
    """
    from perhop import analysis
    from perhop.dataset import Dataset
    from perhop.errors import UsageError

    if names and len(names) != len(runs):
        raise UsageError(f"--name: {len(names)} names for {len(runs)} runs; give one for each")
    datasets = [Dataset.read(run) for run in runs]
    found = analysis.compare(datasets, names or None)
    first = datasets[0].scenario
    written = []
    if out is not None:
        from perhop.report import save_comparison

        title = f"{first.title or first.name}: runs side by side"
        written = save_comparison(found, title, out, datasets)
    if as_json:
        folders = [str(run.resolve()) for run in runs]
        files = [str(path) for path in written]
        result = {"folders": folders, **analysis.compared(found), "written": files}
        document(json.dumps(result, indent=2, allow_nan=False))
        return 0
    from perhop import report
    from perhop.cli.render import print_table

    for name, run in zip(found.names, runs, strict=True):
        echo(f"{name}: {run}")
    for table in report.comparison_tables(found):
        echo()
        print_table(table)
    for path in written:
        echo(path)
    return 0
