"""`perhop reproduce`: published experiments, compared with their documents."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from perhop.cli import clusters, options
from perhop.cli.output import document, echo

if TYPE_CHECKING:
    from perhop.experiments import Reproduction
    from perhop.stores import Place

__all__ = ["reproduce"]


_EXAMPLES = """\b
Examples:
  perhop reproduce
  perhop reproduce qbss-1-70 altq-cbq --out compared
  perhop reproduce oscars-burst --runs 400
"""


def _experiments() -> tuple[str, ...]:
    from perhop import experiments

    return experiments.names()


@click.command(epilog=_EXAMPLES)
@click.argument(
    "names", nargs=-1, metavar="[NAME]...", shell_complete=options.among(found=_experiments)
)
@options.engine
@options.seed
@click.option(
    "--runs",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="Runs of each experiment over its unknowns; 0 for none.",
)
@click.option(
    "--jobs", type=click.IntRange(1), help="The number of processes; by default one per core."
)
@clusters.option
@click.option(
    "--out",
    type=click.Path(),
    callback=options.as_place,
    default="runs/reproduced",
    show_default=True,
    metavar="DIR",
    help="The folder for pages, pictures and runs, or a URL such as s3://bucket/name; existing "
    "ones are replaced.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def reproduce(
    names: tuple[str, ...],
    engine: str,
    seed: int,
    runs: int,
    jobs: int | None,
    cluster: str | None,
    out: Place,
    as_json: bool,
) -> int:
    """Compare published experiments with their documents.

    Runs all experiments, or those named. Conditions that a document leaves open are drawn from
    ranges. Prints every published value beside the interval of the results, with a verdict:
    reproduced, undecided, not explained, assumed or not stated. Writes a page for each
    experiment, its charts as PNG and SVG, and an index. The exit code is 1 if an expectation of a
    scenario fails; a difference to a document is not a failure.

    Engines with real hosts take as long as the experiments did. Their values are printed beside
    those of the simulator. If the command is interrupted, the same one continues.
    """
    from perhop import experiments
    from perhop.cli.progress import counting
    from perhop.errors import ClusterError

    chosen = [experiments.get(name) for name in dict.fromkeys(names or experiments.names())]
    began = time.perf_counter()
    with clusters.connected(cluster, jobs, engine) as pool, counting("reproduce") as watch:
        try:
            found = experiments.reproduce(
                chosen,
                out,
                engine=engine,
                seed=seed,
                runs=runs,
                jobs=jobs,
                cluster=pool,
                watch=watch,
            )
        except (KeyboardInterrupt, ClusterError):
            echo("perhop: finished runs are kept; the same command continues", err=True)
            raise
    pages = experiments.write(found, out)
    if as_json:
        result = {
            "engine": engine,
            "seed": seed,
            "wall_s": time.perf_counter() - began,
            "index": str(pages[0].resolve()),
            "score": _score(found),
            "experiments": experiments.summary(found),
        }
        document(json.dumps(result, indent=2, allow_nan=False))
    else:
        _print(found, engine, pages[0])
    return 1 if any(each.failed for each in found) else 0


def _score(found: list[Reproduction]) -> dict[str, int]:
    from perhop.experiments import score

    return score([value for each in found for value in each.values])


def _print(found: list[Reproduction], engine: str, index: Place) -> None:
    from perhop.cli.render import print_table
    from perhop.experiments.tables import change_tables, counted, judged_table
    from perhop.report import Table

    for each in found:
        if each.values:
            title = f"{each.experiment.name}: {each.experiment.title}"
            title += "" if engine == "sim" else f" ({engine})"
            table = judged_table(each, title)
            print_table(Table(table.title, table.columns, table.rows))
        for table in change_tables(each) if engine != "sim" else ():
            print_table(table)
        for failure in each.failed:
            echo(f"FAILS: {failure}")
        echo(f"{each.experiment.name}: {counted(each.score)}")
        echo()
    total = counted(_score(found))
    echo(f"Values of the documents: {total}")
    echo(f"pages: {index}")
