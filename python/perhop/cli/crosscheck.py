"""`perhop crosscheck`: a scenario in several engines."""

from __future__ import annotations

import json
from contextlib import ExitStack, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from perhop.cli import clusters, options
from perhop.cli.output import document, echo

if TYPE_CHECKING:
    from collections.abc import Callable

    from perhop.engines import Progress
    from perhop.stores import Place

__all__ = ["crosscheck"]


@click.command()
@options.scenario
@click.option(
    "--engines",
    metavar="A,B,…",
    help="The engines, separated by commas; by default all, live if there are agents. The first "
    "is the reference.",
)
@options.rate
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a value first, such as duration='30 s'. Repeatable.",
)
@options.seed
@click.option(
    "--tolerance",
    "tolerances",
    multiple=True,
    metavar="KIND=PART",
    help="The largest difference: share=5, codepoint=1, loss=1, order=1 (points), goodput=5, "
    "rtt=10, queueing=25, call=10, application=10 (%). Repeatable.",
)
@click.option(
    "--out",
    type=click.Path(),
    callback=options.as_place,
    metavar="DIR",
    help="Save each engine's run in this folder, or below a URL such as s3://bucket/name, by the "
    "engine's name.",
)
@clusters.option
@options.agents
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def crosscheck(
    scenario: str,
    engines: str | None,
    rate: str | None,
    overrides: tuple[str, ...],
    seed: int,
    tolerances: tuple[str, ...],
    out: Place | None,
    cluster: str | None,
    agents: str | None,
    as_json: bool,
) -> int:
    """Run a scenario in every engine and compare the results.

    SCENARIO is a file, or a name that `perhop list` prints. The configuration of a router runs as
    the scenario that `perhop import` makes of it. Of a script of tc and nft, the kernel engine runs
    the commands themselves.

    Engines agree if the flows' shares of each phase differ by at most 5 percentage points, the
    goodput of each phase by 5%, median round-trip times by 10%, queueing delays by 25%, and code
    points on arrival, loss and order by 1 point. The exit code is 1 if they do not agree, and 3 if
    fewer than two engines can run the scenario.
    """
    from perhop import rights
    from perhop.errors import UnsupportedError

    here = cluster is None or cluster.partition(":")[0] == "local"
    if here and (engines is None or rights.REAL_ENGINES & set(engines.split(","))):
        # Engines that cannot do without say so themselves. Workers of this machine inherit it.
        with suppress(UnsupportedError):
            rights.enable()

    from perhop.cli.loading import load
    from perhop.cli.progress import watching
    from perhop.crosscheck import crosscheck as check
    from perhop.engines import ENGINES

    allowed = _tolerances(tolerances)
    loaded = load(scenario, overrides=overrides, agents=agents, rate=options.rate_of(rate))
    usual = [each for each in ENGINES if each != "live" or loaded.agents]
    chosen = engines.split(",") if engines else usual
    with clusters.connected(cluster, None) as pool, ExitStack() as shown:

        def watch(engine: str) -> Callable[[Progress], None]:
            shown.close()
            return shown.enter_context(watching(f"{loaded.name}, {engine}"))

        found = check(
            loaded,
            engines=chosen,
            seed=seed,
            tolerances=allowed,
            out=out,
            watch=watch,
            cluster=pool,
        )
    if as_json:
        result = {
            "scenario": loaded.name,
            "engines": list(found.runs),
            "lacking": found.lacking,
            "ok": found.ok,
            "deviations": [{**asdict(each), "ok": each.ok} for each in found.deviations],
        }
        document(json.dumps(result, indent=2, allow_nan=False))
    else:
        from perhop import report
        from perhop.cli.render import print_table

        for engine, reason in found.lacking.items():
            echo(f"{engine} cannot run it: {reason}")
        if found.compared is not None:
            print_table(report.agreement_table(found.compared, found.deviations))
    if found.compared is None:
        echo("perhop: fewer than two engines can run it", err=True)
        return 3
    return 0 if found.ok else 1


def _tolerances(given: tuple[str, ...]) -> dict[str, float]:
    """Return the tolerances by kind, as fractions, from texts such as ``share=5``."""
    from perhop.analysis import TOLERANCES
    from perhop.errors import UsageError
    from perhop.hints import did_you_mean

    found = {}
    for text in given:
        kind, _, part = text.partition("=")
        try:
            found[kind] = float(part.removesuffix("%")) / 100
        except ValueError:
            raise UsageError(f"--tolerance {text}: expected one such as rtt=10") from None
        if kind not in TOLERANCES or not found[kind] >= 0:
            hint = did_you_mean(kind, TOLERANCES) or f"expected one of {', '.join(TOLERANCES)}"
            raise UsageError(f"--tolerance {text}: {hint}, and a number from 0")
    return found
