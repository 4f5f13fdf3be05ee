"""`perhop reproduce`: published experiments, run and put beside their documents."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perhop.cli import options

if TYPE_CHECKING:
    from perhop.experiments import Reproduction

__all__ = ["reproduce"]


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--engine", default="sim", show_default=True, help="What runs them.")
@options.seed
@click.option("--jobs", type=click.IntRange(1), help="How many processes; one a core by default.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs", "reproduced"),
    show_default=True,
    metavar="DIR",
    help="The folder for pages, pictures and runs; earlier ones there are replaced.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def reproduce(
    names: tuple[str, ...],
    engine: str,
    seed: int,
    jobs: int | None,
    out: Path,
    as_json: bool,
) -> int:
    r"""Run published experiments beside their documents.

    All of them, or those that are named. Prints every published value beside the measured one, how
    far they differ, and whether that is within the value's yardstick; writes a page for each
    experiment, its charts as PNG and SVG, and an index. A difference is no failure; the exit code
    is 1 if an expectation of a scenario does not hold.

    Engines with real hosts take as long as the experiments did, and have what the simulator
    measures beside it.

    \b
      perhop reproduce
      perhop reproduce qbss-1-70 altq-cbq --out compared
    """
    from perhop import experiments
    from perhop.cli.progress import counting

    chosen = [experiments.get(name) for name in dict.fromkeys(names or experiments.names())]
    began = time.perf_counter()
    with counting("reproduce") as watch:
        found = experiments.reproduce(chosen, out, engine=engine, seed=seed, jobs=jobs, watch=watch)
    pages = experiments.write(found, out)
    if as_json:
        result = {
            "engine": engine,
            "seed": seed,
            "wall_s": time.perf_counter() - began,
            "index": str(pages[0].resolve()),
            "experiments": experiments.summary(found),
        }
        click.echo(json.dumps(result, indent=2, allow_nan=False))
    else:
        _print(found, engine, pages[0])
    return 1 if any(each.failed for each in found) else 0


def _print(found: list[Reproduction], engine: str, index: Path) -> None:
    from perhop.cli.render import print_table
    from perhop.experiments.pages import change_tables
    from perhop.report import value_table

    for each in found:
        if each.values:
            title = f"{each.experiment.name}: {each.experiment.title}"
            title += "" if engine == "sim" else f" ({engine})"
            print_table(value_table(each.comparisons, title))
        for table in change_tables(each) if engine != "sim" else ():
            print_table(table)
        for failure in each.failed:
            click.echo(f"FAILS: {failure}")
        click.echo()
    agree, judged = (sum(part) for part in zip(*(each.judged for each in found), strict=True))
    click.echo(f"{agree} of {judged} values that the documents state are as published")
    click.echo(f"pages: {index}")
