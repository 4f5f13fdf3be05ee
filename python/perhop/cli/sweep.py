"""`perhop sweep`: run a scenario with every combination of some values."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perhop.cli import clusters, options
from perhop.cli.output import echo

if TYPE_CHECKING:
    import polars as pl

    from perhop.stores import Place

__all__ = ["sweep"]


_EXAMPLES = """\b
Examples:
  perhop sweep qbss-1-70 --vary links.1.rate="5 Mbps,10 Mbps,20 Mbps" \\
    --vary flows.best_effort.streams=1,10 --show throughput=priority
"""


@click.command(epilog=_EXAMPLES)
@options.scenario
@click.option(
    "--vary",
    multiple=True,
    required=True,
    metavar="PATH=V1,V2,…",
    help="A key and its values. Repeatable; every combination is run.",
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a value first, at every point. Repeatable.",
)
@click.option(
    "--seeds",
    default=1,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="The number of seeds for each combination, from 1.",
)
@options.engine
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="The number of processes; by default one per core, and one with real hosts.",
)
@clusters.option
@click.option(
    "--show",
    "shows",
    multiple=True,
    default=["throughput=total"],
    show_default=True,
    metavar="METRIC=TARGET",
    help="The metric of the table, and of the chart. Repeatable; the chart shows the first.",
)
@click.option(
    "--out",
    type=click.Path(),
    callback=options.as_place,
    metavar="DIR",
    help="The folder for the results, or a URL such as s3://bucket/name; by default "
    "runs/NAME-sweep, or if another sweep is there runs/NAME-sweep-2 and so on. An interrupted "
    "sweep continues there.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def sweep(
    scenario: str,
    vary: tuple[str, ...],
    overrides: tuple[str, ...],
    seeds: int,
    engine: str,
    jobs: int | None,
    cluster: str | None,
    shows: tuple[str, ...],
    out: Place | None,
    as_json: bool,
) -> int:
    """Run SCENARIO with every combination of values, on all cores.

    All combinations are checked before the first run. Writes sweep.parquet and sweep.csv with a row
    per point, target and metric, a page and pictures of the first --show, and a folder per point,
    which `perhop report` accepts. If a sweep is interrupted, the same command continues it.
    """
    from perhop import rights

    if engine in rights.REAL_ENGINES:
        rights.enable()  # workers inherit it

    from perhop import gallery
    from perhop.cli.progress import counting
    from perhop.errors import ClusterError, UsageError
    from perhop.report import sweeps
    from perhop.sweep import Sweep, parse_vary

    varied = dict(map(parse_vary, vary))
    if len(varied) < len(vary):
        raise UsageError("--vary names a path twice; give all its values at once")
    shown = [*map(_metric_and_target, dict.fromkeys(shows))]
    name = gallery.load(scenario, overrides=overrides).name
    first = out or Path("runs", f"{name}-sweep")
    planned = Sweep(scenario, varied, first, range(1, seeds + 1), overrides, engine)
    for metric, target in shown:
        planned.check_metric(metric, target)
    for number in count(2) if out is None else ():
        if planned.fits():
            break
        planned = replace(planned, folder=Path("runs", f"{name}-sweep-{number}"))
    folder = planned.place
    if folder != first:
        echo(f"perhop: {first} holds another sweep; this one is in {folder}", err=True)
    warnings = planned.warnings()
    for warning in warnings:
        echo(f"perhop: warning: {warning}", err=True)
    with clusters.connected(cluster, jobs, engine) as pool, counting(name) as watch:
        try:
            table = planned.run(jobs=jobs, cluster=pool, watch=watch)
        except (KeyboardInterrupt, ClusterError):
            kept = f"finished runs are in {folder}; the same command continues the sweep"
            echo(f"perhop: {kept}", err=True)
            raise
    tables = [sweeps.sweep_table(table, metric, target) for metric, target in shown]
    _save(table, *shown[0], folder, name)
    if as_json:
        rows = table.to_dicts()
        result = {"scenario": name, "vary": varied, "seeds": seeds, "folder": str(folder.resolve())}
        json.dump(
            {**result, "warnings": warnings, "rows": rows}, sys.stdout, indent=2, allow_nan=False
        )
        print()
        return 0
    from perhop.cli.render import print_table

    for each in tables:
        print_table(each)
    echo(f"results: {folder}")
    return 0


def _metric_and_target(show: str) -> tuple[str, str]:
    """Return the two parts of ``METRIC=TARGET``."""
    from perhop.errors import UsageError

    metric, equals, target = show.partition("=")
    if not equals:
        raise UsageError(f"--show {show}: expected METRIC=TARGET such as `throughput=total`")
    return metric, target


def _save(table: pl.DataFrame, metric: str, target: str, folder: Place, name: str) -> None:
    from perhop.report.output import save_sweep

    save_sweep(table, metric, target, folder, name)
