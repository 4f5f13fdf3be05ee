"""`perhop find`: the value of a key at which a metric crosses a bound."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from perhop.cli import clusters, options
from perhop.cli.output import document, echo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.report import Table
    from perhop.search import Search, Trial

__all__ = ["find"]

_EXAMPLES = """\b
Examples:
  perhop find qbss-1-70 flows.best_effort.streams --between 1..64 \\
    --until "throughput(priority, during: 62 s..90 s) < 6 Mbps"
  perhop find branch.yaml flows.web.streams --until "rtt_p99(voice) > 30 ms"
  perhop find office.yaml links.1.rate --between "20 Mbps..1 Mbps" \\
    --while "rtt_p99(voice) <= 30 ms" --seeds 20
"""


@click.command(epilog=_EXAMPLES)
@options.scenario
@click.argument("path")
@click.option(
    "--between",
    metavar="A..B",
    help="The range of values, from where the search begins: 1..64, '20 Mbps..1 Mbps'; by default "
    "sought around the present value, up to 64 times and a 64th of it.",
)
@click.option(
    "--until", metavar="CONDITION", help="Find where this begins to hold: 'rtt_p99(voice) > 30 ms'."
)
@click.option(
    "--while", "while_", metavar="CONDITION", help="Find where this ceases to hold, instead."
)
@click.option(
    "--step",
    metavar="VALUE",
    help="The difference of two values, or their ratio, such as x1.05; by default 1 for whole "
    "numbers, otherwise x1.01.",
)
@click.option(
    "--seeds",
    type=int,
    help="The number of runs of each value, 1 or 6 to 1000; by default as the file says.",
)
@options.overrides
@options.engine
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="The number of processes; by default as many as help, and one with real hosts.",
)
@clusters.option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def find(
    scenario: str,
    path: str,
    between: str | None,
    until: str | None,
    while_: str | None,
    step: str | None,
    seeds: int | None,
    overrides: tuple[str, ...],
    engine: str,
    jobs: int | None,
    cluster: str | None,
    as_json: bool,
) -> int:
    """Find the value at which a metric crosses a bound.

    PATH is a key of SCENARIO, as for --set. A condition is METRIC(TARGET) > VALUE, or with <, >= or
    <=, in the words of `expect`: 'drops(r1>r2, class: voice) > 0', 'mos(call, during: 5 s..20 s) <
    4'.

    Without --between, the present value of the key is doubled and halved until the condition
    changes. Tries nine values over the range, and then bisects. With several seeds, a condition is
    about the median of all possible runs, and is undecided where its 95% confidence interval has
    the bound.

    The exit code is 0 if a value is found, and 1 if the condition does not change in the range.
    """
    from perhop import rights

    if engine in rights.REAL_ENGINES:
        rights.enable()

    from perhop import search
    from perhop.cli.progress import counting

    condition = until or while_
    if condition is None or (until and while_):
        raise click.UsageError("expected --until or --while, and not both")
    with clusters.connected(cluster, jobs, engine) as pool, counting("find") as watch:
        found = search.find(
            scenario,
            path,
            between,
            condition,
            until=until is not None,
            step=step,
            seeds=seeds,
            overrides=overrides,
            engine=engine,
            jobs=jobs,
            cluster=pool,
            watch=watch,
        )
    if as_json:
        document(json.dumps({"found": found.found, **asdict(found)}, indent=2, allow_nan=False))
        return int(not found.found)
    from perhop.cli.render import print_table

    if found.probes:
        echo(_sought(found))
        echo()
    print_table(_table(found))
    echo()
    for line in _answer(found):
        echo(line)
    for warning in found.warnings:
        echo(f"perhop: warning: {warning}", err=True)
    return int(not found.found)


def _table(found: Search) -> Table:
    """Return a table of what was tried."""
    from perhop.report import Column, Table, text

    single = all(trial.runs == 1 for trial in found.tried)
    values = ("measured",) if single else ("median", "95% interval")
    words = {True: "yes", False: "no", None: "undecided"}
    rows = []
    for trial in found.tried:
        ends = " to ".join(text.quantity(end, found.unit) for end in (trial.low, trial.high))
        cells = (text.quantity(trial.median, found.unit), ends)
        rows.append((trial.value, *cells[: len(values)], words[trial.holds]))
    columns = (*map(Column, (found.path, *values)), Column(found.condition, "left"))
    note = "" if single else f"Of {max(trial.runs for trial in found.tried)} runs for each value."
    return Table("What was tried", columns, tuple(rows), note)


def _sought(found: Search) -> str:
    """Return the range that was searched, and how it was found."""
    first, _, last = found.between.partition("..")
    tried = f"{found.path}={found.present} doubled and halved: {_listed(found.probes)}"
    return f"Range searched: {first} to {last}, from {tried}"


def _answer(found: Search) -> Iterator[str]:
    """Yield the result in sentences."""
    condition, ends = found.condition, f"from {found.tried[0].value} to {found.tried[-1].value}"
    if found.last is not None and found.first is not None:
        if found.until:
            yield f"{condition} from {found.path}={found.first.value} on, not at {found.last.value}"
        else:
            yield f"{condition} up to {found.path}={found.last.value}, not at {found.first.value}"
    elif found.first is not None and found.probes:
        always = "holds at every value" if found.until else "holds at no value"
        yield f"{condition} {always} that was tried {ends}"
    elif found.first is not None:
        already = "holds already" if found.until else "does not hold"
        yield f"{condition} {already} at {found.first.value}; the range begins too late"
    elif found.last is not None and found.undecided:
        last = "does not hold" if found.until else "holds"
        yield f"{condition} {last} up to {found.path}={found.last.value}, and is undecided after it"
    elif found.last is not None:
        never = "holds at no value" if found.until else "holds at every value"
        yield f"{condition} {never} that was tried {ends}"
    else:
        yield f"{condition} is undecided at every value that was tried {ends}"
    if found.probes and not found.found:
        yield "the condition does not change around the present value; --between tries other values"
    if found.undecided:
        yield f"undecided at {_listed(found.undecided)}: more seeds may decide"
    if found.back:
        as_before = "does not hold again" if found.until else "holds again"
        yield f"not monotone: {condition} {as_before} at {_listed(found.back)}"


def _listed(trials: Sequence[Trial]) -> str:
    return ", ".join(trial.value for trial in trials)
