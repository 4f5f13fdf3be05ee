"""`perhop lab`: an emulated network that stays up, to run one's own programs in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from perhop.cli import options

if TYPE_CHECKING:
    from typing import Any

__all__ = ["lab"]

_EXAMPLES = """\b
Examples:
  perhop lab up qbss-1-70
  perhop lab exec pharlap -- iperf3 -s -D
  perhop lab exec testbed -- iperf3 -c pharlap
  perhop lab status
  perhop lab policy 'slac>pharlap' --set classes.scavenger.bandwidth=5%
  perhop lab down
"""

_named = click.option("--lab", "name", metavar="NAME", help="Which lab, where several are up.")


@click.group(epilog=_EXAMPLES)
def lab() -> None:
    """Keep an emulated network up and run any program in its hosts."""


@lab.command()
@click.argument("scenario")
@click.option("--name", help="What to call the lab; by default as the scenario is called.")
@options.seed
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a value first, such as links.0.rate='1 Gbps'. May be given often.",
)
@options.captures
def up(
    scenario: str,
    name: str | None,
    seed: int,
    overrides: tuple[str, ...],
    captures: tuple[str, ...],
) -> int:
    """Start a lab with a scenario's network.

    SCENARIO is a file, or a name that `perhop list` prints. Its flows, pings and changes are left
    to you. The lab stays up until `perhop lab down`.
    """
    from perhop import gallery, lab
    from perhop.cli.run import captured

    files = captured(captures)
    loaded = gallery.load(scenario, overrides=overrides)
    started = lab.up(loaded, name, seed=seed)
    try:
        for link, file in files.items():
            started.capture([link], file, 0)
    except BaseException:
        started.down()
        raise
    click.echo(f"lab {started.name} is up; its hosts are {', '.join(started.record.hosts)}")
    return 0


@lab.command(
    "exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@_named
@click.argument("host")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_(name: str | None, host: str, command: tuple[str, ...]) -> None:
    """Run a program in a host, with this terminal.

    What follows HOST is the program with its arguments; `--` keeps its options from being taken for
    perhop's.
    """
    from perhop.lab.client import Lab

    Lab.find(name).execute(host, command[1:] if command[0] == "--" else command)


@lab.command()
@_named
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--watch", is_flag=True, help="Print it anew every second, until Ctrl-C.")
def status(name: str | None, as_json: bool, watch: bool) -> int:
    """Show what each link and class carries now, and what it has counted."""
    from time import sleep

    from perhop.lab.client import Lab

    found = Lab.find(name)
    while True:
        stands = found.status()
        if as_json:
            click.echo(json.dumps(stands, indent=None if watch else 2, allow_nan=False))
        else:
            if watch:
                click.clear()
            _print(stands)
        if not watch:
            return 0
        sleep(1)


@lab.command()
@_named
@click.argument("link")
@click.argument("policy", required=False)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a value in the policy, such as classes.voice.bandwidth=20%. May be given often.",
)
def policy(name: str | None, link: str, policy: str | None, overrides: tuple[str, ...]) -> int:
    """Change the policy on a directed link while traffic runs.

    LINK is a direction such as 'r1>r2', POLICY one of the scenario's or `none`; by default it is
    the one that stands there. What waits moves to the new classes.
    """
    from perhop.lab.client import Lab

    Lab.find(name).policy(link, policy, overrides)
    return 0


@lab.command()
@_named
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE…")
def change(name: str | None, settings: tuple[str, ...]) -> int:
    """Change a link, a policer in place, or begin counters anew.

    KEY is a key of an entry of a scenario's `changes`, but for `at`: on='r1>r2' rate='5 Mbps', or
    on='r1>r2' class=assured police.rate='1 Mbps', or clear=counters.
    """
    from perhop.errors import UsageError
    from perhop.lab.client import Lab

    change: dict[str, Any] = {}
    for text in settings:
        path, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{text}: expected KEY=VALUE such as rate='5 Mbps'")
        *outer, key = path.split(".")
        inside = change
        for step in outer:
            inside = inside.setdefault(step, {})
            if not isinstance(inside, dict):
                raise UsageError(f"{text}: {step} has a value already")
        inside[key] = value
    Lab.find(name).change(change)
    return 0


@lab.command()
@_named
def down(name: str | None) -> int:
    """End a lab, and what still runs in its hosts."""
    from perhop.lab.client import Lab

    found = Lab.find(name)
    for command in found.down():
        click.echo(f"ended {command}")
    click.echo(f"lab {found.name} is down")
    return 0


def _print(stands: dict[str, Any]) -> None:
    from perhop.cli.render import print_table
    from perhop.report.tables import Column, Table
    from perhop.units import format_rate

    columns = ("sent_packets", "sent_bytes", "dropped_packets", "backlog_packets")
    rows = []
    for link, found in stands["links"].items():
        reserved = {f"{name} (reserved)": each for name, each in found.get("reserved", {}).items()}
        for class_name, counters in {**found["classes"], **reserved}.items():
            police = [counters[key] for key in ("conformed_packets", "exceeded_packets")]
            rows.append(
                (
                    link,
                    class_name,
                    format_rate(round(counters["rate_bps"])),
                    *(f"{counters[key]:,}" for key in columns),
                    *(f"{count:,}" if any(police) else "" for count in police),
                )
            )
    names = ("rate", "packets", "bytes", "dropped", "waiting", "conformed", "exceeded")
    heads = [Column("link", "left"), Column("class", "left")]
    title = f"{stands['name']}, up for {stands['up_s']:.0f} s"
    print_table(Table(title, (*heads, *(Column(each, "right") for each in names)), tuple(rows)))
