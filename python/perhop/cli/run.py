"""`perhop run`: a scenario, run and judged."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from perhop.dataset import Dataset

__all__ = ["run"]


@click.command()
@click.argument("scenario")
@click.option("--engine", default="sim", show_default=True, help="What runs it.")
@click.option(
    "--seed",
    default=1,
    show_default=True,
    type=click.IntRange(0, 2**64 - 1),
    help="Decides every random number.",
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a value first, such as flows.bulk.streams=10. May be given often.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The folder for the results; runs/NAME-1, runs/NAME-2, … by default.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def run(
    scenario: str,
    engine: str,
    seed: int,
    overrides: tuple[str, ...],
    out: Path | None,
    as_json: bool,
) -> int:
    """Run SCENARIO, a file or a name that `perhop list` prints.

    Prints what each flow got in each phase, the published figures beside the measured ones where
    the scenario has some, and a verdict on everything it expects.
    """
    from perhop import engines, gallery
    from perhop.cli.progress import watching

    loaded = gallery.load(scenario, overrides=overrides)
    folder = out or _next_folder(Path("runs"), loaded.name)
    with watching(loaded.name) as watch:
        dataset = engines.run(loaded, engine=engine, seed=seed, out=folder, watch=watch)
    if as_json:
        _print_json(dataset, folder)
    else:
        _print_tables(dataset, folder)
    return _exit_code(dataset)


def _next_folder(parent: Path, name: str) -> Path:
    number = 1
    while (folder := parent / f"{name}-{number}").exists():
        number += 1
    return folder


def _exit_code(dataset: Dataset) -> int:
    from perhop.analysis import verdicts

    if not dataset.manifest.complete:
        return 130
    return 0 if all(verdict.ok for verdict in verdicts(dataset)) else 1


def _print_json(dataset: Dataset, folder: Path) -> None:
    from perhop.analysis import summary

    result = {**summary(dataset), "dataset": str(folder.resolve())}
    json.dump(result, sys.stdout, indent=2, allow_nan=False)
    print()


def _print_tables(dataset: Dataset, folder: Path) -> None:
    from perhop import report
    from perhop.cli.render import print_table

    manifest = dataset.manifest
    click.echo(dataset.scenario.title or dataset.scenario.name)
    for table in (
        report.phase_table(dataset),
        report.ping_table(dataset),
        report.published_table(dataset),
        report.expectation_table(dataset),
    ):
        if table is not None:
            click.echo()
            print_table(table)
    ending = "" if manifest.complete else ", interrupted"
    click.echo()
    click.echo(f"{manifest.duration_s:g} s in {manifest.wall_s:.2f} s of wall time{ending}")
    click.echo(f"results: {folder}")
    click.echo(f"charts:  perhop report {folder}")
