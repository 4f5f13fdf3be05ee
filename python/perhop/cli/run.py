"""`perhop run`: run a scenario and check its expectations."""

from __future__ import annotations

import json
import shlex
from contextlib import contextmanager, nullcontext, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perhop import interruption
from perhop.cli import clusters, options
from perhop.cli.output import document, echo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perhop.dataset import Dataset
    from perhop.scenario import Scenario
    from perhop.stores import Place

__all__ = ["captured", "execute", "exit_code", "print_tables", "run", "summarised"]


@click.command()
@options.scenario
@click.option(
    "--engine",
    default="sim",
    show_default=True,
    help="The engine: sim, emu, kernel or live.",
    shell_complete=options.among(*options.ENGINES),
)
@options.seed
@click.option(
    "--seeds",
    type=int,
    help="Run with seeds 1 to N, 1 or 6 to 1000, and show medians and intervals; by default as "
    "the file says. --out keeps the runs.",
)
@clusters.option
@options.rate
@options.overrides
@click.option(
    "--out",
    type=click.Path(),
    callback=options.as_place,
    metavar="DIR",
    help="The folder for the results, or a URL such as s3://bucket/name; by default runs/NAME-1, "
    "runs/NAME-2, …",
)
@click.option("--no-save", is_flag=True, help="Keep no results.")
@click.option(
    "--threads",
    default=1,
    show_default=True,
    type=click.IntRange(1, 1024),
    metavar="N",
    help="The most threads of a simulation; results do not depend on it.",
)
@options.captures
@click.option(
    "--pcap-snaplen",
    "snaplen",
    default=128,
    show_default=True,
    type=click.IntRange(0, 2**31 - 1),
    metavar="BYTES",
    help="The bytes of each packet that a capture keeps; 0 for all.",
)
@options.agents
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.pass_context
def run(
    context: click.Context,
    scenario: str,
    engine: str,
    seed: int,
    seeds: int | None,
    cluster: str | None,
    rate: str | None,
    overrides: tuple[str, ...],
    out: Place | None,
    no_save: bool,
    threads: int,
    captures: tuple[str, ...],
    snaplen: int,
    agents: str | None,
    as_json: bool,
) -> int:
    """Run a scenario and report the results of every flow.

    SCENARIO is a file, or a name that `perhop list` prints. The configuration of a router runs as
    the scenario that `perhop import` makes of it. Of a script of tc and nft, `--engine kernel` runs
    the commands themselves.

    Prints the throughput of each flow in each phase, published figures beside the measured ones,
    and the result of every expectation.

    With --seeds N, or `seeds: N` in the file, the tables have the median of N runs and its 95%
    confidence interval. An expectation holds or fails if it does in the whole interval, and is
    undecided otherwise. With --out, DIR/runs has a folder for each run, and DIR/ensemble.html is
    the page of all; if it is interrupted, the same command continues it. --seed, --pcap and
    --threads make one run, whatever the file says.
    """
    from perhop import rights

    if engine in rights.REAL_ENGINES:
        rights.enable()

    from perhop.cli.loading import load

    if no_save and out is not None:
        raise click.UsageError("--no-save: with --out, results are saved; give one of them")
    files, speed = captured(captures), options.rate_of(rate)
    if seeds is not None and (seed != 1 or captures):
        raise click.UsageError("--seeds: has no effect with --seed or --pcap; remove one")
    if seeds is not None and threads != 1:
        raise click.UsageError("--threads: runs with several seeds have one each; remove it")
    loaded = load(scenario, overrides=overrides, agents=agents, rate=speed)
    if seeds is None and not (captures or _given(context, "seed", "threads")):
        seeds = None if loaded.seeds == 1 else loaded.seeds
    if cluster is not None and seeds is None:
        raise click.UsageError("--cluster: makes several runs side by side; add --seeds N")
    if seeds is not None:
        code = _ensemble(loaded, engine, seeds, cluster, out, as_json)
        if out is None and not (no_save or as_json):
            echo("results: not kept; --out DIR keeps the runs and writes their page")
        return code
    dataset, folder = execute(
        loaded, engine, seed, out, files, snaplen, save=not no_save, threads=threads
    )
    if as_json:
        document(json.dumps(summarised(dataset, folder), indent=2, allow_nan=False))
    else:
        print_tables(dataset, folder)
    return exit_code(dataset)


def _given(context: click.Context, *names: str) -> bool:
    """Return whether the command line has one of some options."""
    there = click.core.ParameterSource.COMMANDLINE
    return any(context.get_parameter_source(name) is there for name in names)


def _ensemble(
    loaded: Scenario, engine: str, seeds: int, cluster: str | None, out: Place | None, as_json: bool
) -> int:
    """Run a scenario with several seeds, print the results and return the exit code."""
    from perhop import ensembles, report
    from perhop.cli.progress import counting
    from perhop.dataset.ensembles import replacing
    from perhop.errors import ClusterError

    with nullcontext() if out is None else replacing(out) as folder:
        with clusters.connected(cluster, None, engine) as pool, counting(loaded.name) as watch:
            try:
                found = ensembles.run(
                    loaded, seeds, engine=engine, cluster=pool, watch=watch, folder=folder
                )
            except (KeyboardInterrupt, ClusterError):
                if folder is not None:
                    echo("perhop: finished runs are kept; the same command continues", err=True)
                raise
        if folder is not None:
            from perhop.report.output import save_ensemble

            save_ensemble(found, folder, out)
    if as_json:
        kept = {} if out is None else {"folder": str(out.resolve())}
        document(json.dumps({**found.as_object(), **kept}, indent=2, allow_nan=False))
        return found.exit_code
    from perhop.cli.render import print_table

    echo(loaded.title or loaded.name)
    others = _after_caution(found.warnings)
    tables = [*report.spread_tables(found.throughput, found.metrics)]
    if found.verdicts:
        tables.append(report.ensemble_table(found.verdicts))
    for table in tables:
        echo()
        print_table(table)
    for warning in others:
        echo(f"perhop: warning: {warning}", err=True)
    if out is not None:
        echo()
        echo(f"results: {out}")
        echo(f"page:    {out / 'ensemble.html'}")
    return found.exit_code


def _after_caution(warnings: Iterable[str]) -> list[str]:
    """Print, above the tables, that lines of a configuration can change what these say.

    Returns:
        The other warnings.
    """
    from perhop.routers.reading import CAUTION

    others = []
    for warning in warnings:
        if CAUTION in warning:
            echo()
            echo(f"warning: {warning}")
        else:
            others.append(warning)
    return others


def execute(
    loaded: Scenario,
    engine: str = "sim",
    seed: int = 1,
    out: Place | None = None,
    captures: dict[str, str] | None = None,
    snaplen: int = 128,
    *,
    save: bool = True,
    threads: int = 1,
) -> tuple[Dataset, Place | None]:
    """Run a scenario with a progress display; return the results and their folder.

    Args:
        loaded: The scenario.
        engine: The engine.
        seed: The seed.
        out: The folder for the results; by default the first unused one of runs/NAME-1, ….
        captures: A file for each link whose packets are captured.
        snaplen: The bytes of each packet that a capture keeps.
        save: False to save no results; there is no folder then.
        threads: The greatest number of threads of a simulation.
    """
    from perhop import engines
    from perhop.cli.progress import watching

    place = _folder(out, loaded.name) if save else nullcontext()
    with place as folder, watching(loaded.name) as watch:
        dataset = engines.run(
            loaded,
            engine=engine,
            seed=seed,
            out=None if folder is None else str(folder),
            captures=captures,
            snaplen=snaplen,
            threads=threads,
            watch=watch,
        )
    return dataset, folder


def captured(given: tuple[str, ...], option: str = "--pcap ") -> dict[str, str]:
    """Return the file for each link, from the ``LINK=FILE`` values of `option`."""
    from perhop.errors import UsageError

    files: dict[str, str] = {}
    for text in given:
        link, _, file = text.partition("=")
        if not (link and file):
            raise UsageError(
                f"{option}{text}: expected LINK=FILE such as 'r1>r2=r1.pcapng', in quotes, as "
                "shells take > for something else"
            )
        if files.setdefault(link, file) != file:
            raise UsageError(f"{option}{text}: {link} is captured to {files[link]} already")
    return files


@contextmanager
def _folder(out: Place | None, name: str) -> Iterator[Place]:
    """Return the folder for the results: `out`, or the first unused of runs/NAME-1, ….

    The latter is created at once, so that concurrent runs get different folders, and removed if
    it stays empty.
    """
    if out is not None:
        yield out
        return
    from perhop.dataset import Dataset

    made: Path | None = None
    try:
        with interruption.uninterruptible():
            for folder in (Path("runs", f"{name}-{number}") for number in count(1)):
                if not folder.exists():
                    Dataset.check_writable(folder)
                    with suppress(FileExistsError):
                        folder.mkdir(parents=True)
                        made = folder
                        break
        yield folder
    finally:
        if made is not None:
            with suppress(OSError):
                made.rmdir()
                made.parent.rmdir()


def exit_code(dataset: Dataset) -> int:
    """Return the exit code of a run: 1 if an expectation failed."""
    from perhop.analysis import verdicts

    if not dataset.manifest.complete:
        return interruption.exit_code()
    return 0 if all(verdict.ok for verdict in verdicts(dataset)) else 1


def summarised(dataset: Dataset, folder: Place | None) -> dict[str, Any]:
    """Return the results of a run as an object of JSON types."""
    from perhop.analysis import summary

    return {**summary(dataset), "dataset": None if folder is None else str(folder.resolve())}


def print_tables(dataset: Dataset, folder: Place | None) -> None:
    """Print the results of a run."""
    from perhop import report
    from perhop.cli.render import print_table

    manifest = dataset.manifest
    echo(dataset.scenario.title or dataset.scenario.name)
    others = _after_caution(map(str, dataset.warnings))
    for table in (
        report.call_table(dataset),
        report.phase_table(dataset) if dataset.scenario.flows else None,
        report.change_table(dataset),
        *report.application_tables(dataset),
        report.loss_table(dataset),
        report.delay_table(dataset) if dataset.scenario.flows else None,
        *report.sharing_tables(dataset),
        report.ping_table(dataset),
        *report.responsiveness_tables(dataset),
        *report.hop_tables(dataset),
        report.codepoint_table(dataset),
        report.ecn_table(dataset),
        report.published_table(dataset),
        report.expectation_table(dataset),
    ):
        if table is not None:
            echo()
            print_table(table)
    if others:
        echo()
        for warning in others:
            echo(f"warning: {warning}")
    ending = "" if manifest.complete else ", interrupted"
    echo()
    echo(f"{manifest.duration_s:g} s in {manifest.wall_s:.2f} s of wall time{ending}")
    if folder is None:
        return
    echo(f"results: {folder}")
    echo(f"charts:  perhop report {shlex.quote(str(folder))}")
