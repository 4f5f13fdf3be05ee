"""`perhop counters`: what routers counted, as a table and as a dataset."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from perhop.cli import options
from perhop.cli.output import document, echo
from perhop.errors import UsageError
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.report import Table
    from perhop.routers.counters import Counted

__all__ = ["counters"]


@click.command()
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--out",
    type=click.Path(),
    callback=options.as_folder,
    metavar="DIR",
    help="Write a dataset into this folder, for `perhop compare` and `perhop report`.",
)
@click.option(
    "--over",
    metavar="DURATION",
    help="The time in which it was counted, such as '5min': between two readings, or since the "
    "counters were cleared. By default that of the router's clock, if the output has it.",
)
@click.option(
    "--interface",
    "interfaces",
    multiple=True,
    metavar="[LINK=]NAME",
    help="The interface, such as 'Gi0/1', and its link in the run to compare with, such as "
    "'r1>r2=Gi0/1'. By default the only one, and the link of `perhop import`. Repeatable.",
)
@click.option(
    "--direction", type=click.Choice(["in", "out"]), help="The direction; by default the only one."
)
@click.option("--policy", help="The policy, where several count at an interface.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def counters(
    files: tuple[str, ...],
    out: Path | None,
    over: str | None,
    interfaces: tuple[str, ...],
    direction: str | None,
    policy: str | None,
    as_json: bool,
) -> int:
    """Read what routers counted for each class.

    FILES are outputs of `show policy-map interface` (IOS), `show interfaces queue` and `show
    firewall` (Junos), `tc -s qdisc` and `tc -s class`, or `pfctl -vsq`.

    Of two readings of an interface, the earlier one first, the result is the difference.
    """
    from perhop.routers import counters as routers
    from perhop.routers.reading import scenario_name
    from perhop.units import parse_duration

    over_ps = None
    if over is not None:
        over_ps = options.above_zero("--over", over, parse_duration, "a time", "5min")
    found = [
        each
        for each in routers.read(files)
        if direction is None or each.direction in (None, direction)
    ]
    if direction is not None:
        # What the output does not tell, the option does.
        found = [replace(each, direction="in" if direction == "in" else "out") for each in found]
    if not found:
        raise UsageError(f"{files[0]}: has no counters of direction `{direction}`")
    if policy is not None:
        named = [each for each in found if each.policy in ("", policy)]
        if not any(each.policy for each in named):
            names = ", ".join(dict.fromkeys(each.policy for each in found if each.policy))
            raise UsageError(
                f"--policy: {quote(policy)} is not one of several policies of an interface"
                f"{f'; expected one of {names}' if names else ''}"
            )
        found = named
    chosen = {}
    if interfaces or out is not None:
        chosen = _chosen(found, interfaces)
        found = list(chosen.values())
    if out is not None:
        run = routers.dataset(chosen, scenario_name(Path(files[-1]).stem), over_ps, files)
        folder = run.write(out)
    if as_json:
        result = {
            "counters": routers.as_object(found),
            "folder": None if out is None else str(folder),
        }
        document(json.dumps(result, indent=2, allow_nan=False))
        return 0
    from perhop.cli.render import print_table

    for number, each in enumerate(found):
        if number:
            echo()
        print_table(_table(each, over_ps))
    for each in found:
        for note in each.notes:
            echo(f"perhop: warning: {note}", err=True)
    if out is not None:
        echo()
        echo(folder)
    return 0


def _chosen(found: Sequence[Counted], interfaces: Sequence[str]) -> dict[str, Counted]:
    """Return the counters of the chosen interfaces, by link.

    Raises:
        UsageError: An interface is unknown, or not the only one of this name or link.
    """
    from perhop.routers.counters import IN, OUT
    from perhop.routers.reading.selection import meant

    if not interfaces and len(found) > 1:
        names = "; ".join(each.name for each in found[:12])
        raise UsageError(
            f"there are counters of several interfaces: {names}; expected --interface, and "
            "perhaps --direction or --policy"
        )
    chosen: dict[str, Counted] = {}
    for text in interfaces or [found[0].interface]:
        link, equals, name = text.rpartition("=")
        those = meant(name, [each.interface for each in found])
        here = [each for each in found if each.interface in those]
        if len(here) != 1:
            listed = ", ".join(each.name for each in (here or found)[:12])
            problem = "could be" if here else "has no counters; there is"
            raise UsageError(f"--interface: {quote(name)} {problem} {listed}")
        if not equals and here[0].direction is None:
            raise UsageError(
                f"{here[0].name}: the output does not tell the direction; expected --direction"
            )
        link = link if equals else OUT if here[0].direction == "out" else IN
        if link in chosen:
            raise UsageError(f"--interface: {quote(link)} has two interfaces; expected one")
        chosen[link] = here[0]
    return chosen


_COLUMNS: Final = (
    ("offered", "offered_bytes", "size"),
    ("packets", "offered_packets", "count"),
    ("sent", "sent_bytes", "size"),
    ("packets", "sent_packets", "count"),
    ("dropped", "dropped_packets", "count"),
    ("dropped", "dropped_bytes", "size"),
    ("full queue", "dropped_limit", "count"),
    ("policer", "dropped_policer", "count"),
    ("early", "dropped_early", "count"),
    ("marked", "marked_packets", "count"),
    ("remarked", "remarked_packets", "count"),
    ("conformed", "conformed_bytes", "size"),
    ("exceeded", "exceeded_packets", "count"),
    ("violated", "violated_packets", "count"),
    ("waiting", "backlog_packets", "count"),
    ("offered rate", "offered_bps", "rate"),
    ("sent rate", "sent_bps", "rate"),
    ("drop rate", "dropped_bps", "rate"),
)
"""The columns of the table; those without values are left out."""


def _table(counted: Counted, over_ps: int | None) -> Table:
    from perhop.report import Table, text
    from perhop.report.tables import Column

    columns = [
        column
        for column in _COLUMNS
        if any(column[1] in counts for counts in counted.classes.values())
    ]
    rows = tuple(
        (path, *(getattr(text, form)(counts.get(name)) for _, name, form in columns))
        for path, counts in counted.classes.items()
    )
    seconds = counted.over_s if over_ps is None else over_ps / 1e12
    over = "" if seconds is None else f" in {text.duration(seconds)}"
    between = "between two readings" if counted.readings > 1 else "since they were cleared"
    return Table(
        f"{counted.name}: counted{over} {between}",
        (Column("class", "left"), *(Column(name) for name, _, _ in columns)),
        rows,
    )
