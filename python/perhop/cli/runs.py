"""`perhop runs`: the runs in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import click

from perhop.cli.output import document, echo

__all__ = ["runs"]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default="runs", metavar="[DIR]")
@click.option("--page", is_flag=True, help="Write a page with links to reports, DIR/index.html.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def runs(folder: Path, page: bool, as_json: bool) -> int:
    """List the runs and sweeps in a folder, with their verdicts.

    DIR is `runs` by default. Runs in folders of DIR are listed, too.
    """
    from perhop.runs import listed_runs

    found = listed_runs(folder)
    written = []
    if page:
        from perhop.report.index import index_page
        from perhop.report.output import write_all

        title = f"Runs in {folder.resolve().name}"
        written = write_all(folder.resolve(), {"index.html": index_page(found, title).encode()})
    if as_json:
        result = {
            "folder": str(folder.resolve()),
            "runs": [run.as_json() for run in found],
            "written": [str(path) for path in written],
        }
        document(json.dumps(result, indent=2, allow_nan=False))
        return 0
    from perhop.cli.render import print_table
    from perhop.report.index import index_table

    print_table(index_table(found))
    for run in found:
        if run.problem:
            echo(f"perhop: {run.folder}: {run.problem}", err=True)
    for path in written:
        echo(path)
    return 0
