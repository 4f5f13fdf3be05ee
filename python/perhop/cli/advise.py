"""`perhop advise`: settings of a network from many runs of the simulator."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from perhop.cli import options
from perhop.cli.output import document, echo

if TYPE_CHECKING:
    from pathlib import Path

    from perhop.advice import PolicerQuestion

__all__ = ["advise"]


@click.group()
def advise() -> None:
    """Recommend settings by runs of the simulator."""


_EXAMPLES = """\b
Examples:
  perhop advise policer --rate 10Mbps --rtt 50ms
  perhop advise policer --rate 100Mbps --rtt 20ms --cc cubic --streams 4 --out advice
"""


@advise.command(epilog=_EXAMPLES)
@click.option("--rate", required=True, metavar="RATE", help="The rate of the policer: 10Mbps.")
@click.option(
    "--rtt", required=True, metavar="TIME", help="The round-trip time without queues: 50ms."
)
@click.option(
    "--cc",
    "controls",
    default="cubic,reno,bbr",
    show_default=True,
    metavar="NAME,…",
    help="The congestion controls of the senders, as `tcp.congestion_control` of scenarios.",
)
@click.option(
    "--streams",
    default=1,
    show_default=True,
    type=click.IntRange(1, 100),
    help="The number of connections that share the policer.",
)
@click.option(
    "--interface",
    metavar="RATE",
    help="The rate of the interfaces before and behind the policer; by default the least of 100 "
    "Mb/s, 1, 10 and 100 Gb/s that is ten times the policer's rate.",
)
@click.option(
    "--goal",
    "goals",
    multiple=True,
    default=("90%", "95%"),
    show_default=True,
    metavar="SHARE",
    help="A share of the rate that TCP is to get. Repeatable.",
)
@click.option(
    "--jobs", type=click.IntRange(1), help="The number of processes; by default one per core."
)
@click.option(
    "--out",
    type=click.Path(),
    callback=options.as_folder,
    metavar="DIR",
    help="Write a page with a chart into this folder, and the chart as PNG and SVG.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def policer(
    rate: str,
    rtt: str,
    controls: str,
    streams: int,
    interface: str | None,
    goals: tuple[str, ...],
    jobs: int | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Find the burst of a policer with which TCP gets most of its rate.

    Simulates long transfers through policers with bursts from two packets to 1.5 s of the rate.
    Prints the smallest burst for each goal, what rules of thumb recommend, and what TCP gets for
    each burst.
    """
    from perhop.advice import advise_policer
    from perhop.cli.progress import counting

    question = _question(rate, rtt, controls, streams, interface, goals)
    with counting("policer") as watch:
        advice = advise_policer(question, jobs=jobs, watch=watch)
    written = []
    if out is not None:
        from perhop.report.advice import save_advice

        written = save_advice(advice, out)
    if as_json:
        result = {**advice.as_object(), "written": [str(path) for path in written]}
        document(json.dumps(result, indent=2, allow_nan=False))
        return 0
    from perhop.cli.render import print_table
    from perhop.report.advice import advice_lines, advice_tables

    for line in advice_lines(advice):
        echo(line)
    for table in advice_tables(advice):
        echo()
        print_table(table)
    for path in written:
        echo(path)
    return 0


def _question(
    rate: str,
    rtt: str,
    controls: str,
    streams: int,
    interface: str | None,
    goals: tuple[str, ...],
) -> PolicerQuestion:
    """Return the question that the options ask.

    Raises:
        UsageError: An option is wrong.
    """
    from perhop.advice import PolicerQuestion, congestion_controls, usual_interface
    from perhop.errors import UsageError
    from perhop.units import WHOLE, parse_duration, parse_rate, parse_share

    policed = options.above_zero("--rate", rate, parse_rate, "a rate", "10 Mbps")
    fast = (
        usual_interface(policed)
        if interface is None
        else options.above_zero("--interface", interface, parse_rate, "a rate", "1 Gbps")
    )
    wanted = []
    for goal in goals:
        share = options.above_zero("--goal", goal, parse_share, "a share", "95%")
        if share > WHOLE:
            raise UsageError(f"--goal: {goal} is more than the rate; expected at most 100%")
        wanted.append(share)
    try:
        return PolicerQuestion(
            rate=policed,
            rtt=options.above_zero("--rtt", rtt, parse_duration, "a round-trip time", "50 ms"),
            controls=congestion_controls(controls),
            streams=streams,
            interface=fast,
            goals=tuple(sorted(set(wanted))),
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
