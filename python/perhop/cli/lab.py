"""`perhop lab`: an emulated network that stays up, to run any program in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from perhop.cli import options
from perhop.cli.output import document, echo

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
  perhop lab capture 'slac>pharlap=slac.pcapng' --for '10 s'
  perhop lab down
"""

_named = click.option("--lab", "name", metavar="NAME", help="The lab, if several are up.")


@click.group(epilog=_EXAMPLES)
def lab() -> None:
    """Keep an emulated network up and run any program in its hosts."""


@lab.command()
@options.scenario
@click.option("--name", help="The name of the lab; by default the name of the scenario.")
@options.seed
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a value first, such as links.0.rate='1 Gbps'. Repeatable.",
)
@options.captures
@click.option(
    "--congestion-control",
    metavar="NAME",
    help="The default congestion control of the hosts' TCP, by its Linux name; cubic unless set.",
)
@click.option(
    "--host",
    "namespaces",
    multiple=True,
    metavar="HOST=PID|PATH",
    help="A container as a host, by a process in it or its network namespace. Repeatable.",
)
@click.option("--nat", metavar="NODE", help="Connect a node to this machine's networks by NAT.")
@click.option(
    "--attach",
    multiple=True,
    metavar="NODE=INTERFACE,ADDRESS/LENGTH",
    help="Connect a node to an interface of this machine, such as r=eth1,192.168.7.1/24. "
    "Repeatable.",
)
def up(
    scenario: str,
    name: str | None,
    seed: int,
    overrides: tuple[str, ...],
    captures: tuple[str, ...],
    congestion_control: str | None,
    namespaces: tuple[str, ...],
    nat: str | None,
    attach: tuple[str, ...],
) -> int:
    """Start a lab with a scenario's network.

    SCENARIO is a file, or a name that `perhop list` prints. Its flows, pings and changes are not
    started. The lab stays up until `perhop lab down`.
    """
    from perhop import gallery, lab
    from perhop.cli.run import captured

    files = captured(captures)
    loaded = gallery.load(scenario, overrides=overrides)
    started = lab.up(
        loaded,
        name,
        seed=seed,
        congestion_control=congestion_control,
        namespaces=options.pairs("--host", namespaces, "HOST=PID or HOST=PATH"),
        nat=nat,
        attach=options.pairs("--attach", attach, "NODE=INTERFACE,ADDRESS/LENGTH"),
    )
    try:
        for file, links in _by_file(files).items():
            started.capture(links, file)
    except BaseException:
        started.down()
        raise
    echo(f"lab {started.name} is up; its hosts are {', '.join(started.record.hosts)}")
    return 0


@lab.command(
    "exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@_named
@click.argument("host")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def exec_(name: str | None, host: str, command: tuple[str, ...]) -> None:
    """Run a program in a host, with this terminal.

    Without a program, your shell is started. The exit code is the program's, 127 if the program
    does not exist, and 126 if it cannot be executed. The arguments after HOST are the program and
    its arguments; `--` separates its options from perhop's.
    """
    from perhop.cli.lab_shell import login_shell
    from perhop.lab.client import Lab

    program = command[1:] if command[:1] == ("--",) else command
    Lab.find(name).execute(host, program or login_shell())


@lab.command()
@_named
def shell(name: str | None) -> int:
    """Read commands for a lab, with completion of names.

    A host's name and a program run the program in the host. A host's name alone starts your shell
    there. All commands of `perhop lab` work as `status` and `policy r1>r2 NAME` do, without quotes
    around links. Commands may come from a file or a pipe; the first that fails ends the shell then.
    """
    from perhop.cli.lab_shell import Shell
    from perhop.lab.client import Lab

    return Shell(Lab.find(name), lab).run()


@lab.command()
@_named
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--watch", is_flag=True, help="Print the status every second, until Ctrl-C.")
def status(name: str | None, as_json: bool, watch: bool) -> int:
    """Show the rates and counters of each link and class."""
    from time import sleep

    from perhop.cli.lab_status import show
    from perhop.lab.client import Lab

    found = Lab.find(name)
    while True:
        stands = found.status()
        if as_json:
            document(json.dumps(stands, indent=None if watch else 2, allow_nan=False))
        else:
            if watch:
                click.clear()
            show(stands)
        if not watch:
            return 0
        sleep(1)


@lab.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list and nothing else.")
def list_(as_json: bool) -> int:
    """List your labs, with those that ended by themselves."""
    from dataclasses import asdict

    from perhop.lab import endings, records
    from perhop.lab.record import clock

    up, ended = records(starting=True), endings()
    if as_json:
        found: list[dict[str, Any]] = [
            {key: getattr(each, key) for key in ("name", "state", "scenario", "since", "pid")}
            | {"hosts": list(each.hosts)}
            for each in up
        ]
        found += [{"state": "ended", **asdict(each)} for each in ended]
        document(json.dumps(found, indent=2, allow_nan=False))
        return 0
    if not (up or ended):
        echo("no lab is up; `perhop lab up FILE` starts one")
        return 0

    from perhop.cli.render import print_table
    from perhop.report.tables import Column, Table

    rows = [(each.name, str(each.state), each.scenario, clock(each.since), "") for each in up]
    for one in ended:
        how = f"{clock(one.ended)}: {one.how}"
        rows.append((one.name, "ended", one.scenario, clock(one.since), how))
    names = ("lab", "state", "scenario", "since", "ended")
    print_table(Table("", tuple(Column(name, "left") for name in names), tuple(rows)))
    return 0


@lab.command()
@_named
@click.argument("captures", nargs=-1, metavar="LINK=FILE…")
@click.option(
    "--for",
    "span",
    metavar="TIME",
    help="Wait, and end the captures after this time, such as `10 s`.",
)
@click.option(
    "--stop", is_flag=True, help="End captures instead of starting them: all, or those to FILE."
)
def capture(name: str | None, captures: tuple[str, ...], span: str | None, stop: bool) -> int:
    """Capture packets to files while a lab is up.

    LINK is a direction such as 'r1>r2'. FILE receives the packets at r1's end; `-` is standard
    output. A capture ends with `--stop`, with the lab, or if its file cannot be written; the lab
    goes on then. `status` shows the captures.
    """
    from time import sleep

    from perhop.cli.run import captured
    from perhop.errors import UsageError
    from perhop.lab.client import Lab
    from perhop.units import SECOND, parse_duration

    found = Lab.find(name)
    if stop:
        for file in [text.rpartition("=")[2] for text in captures]:
            found.end_capture(file)
        if not captures:
            found.end_capture()
        return 0
    if not captures:
        raise UsageError("name what to capture, such as 'r1>r2=r1.pcapng'")
    try:
        seconds = None if span is None else parse_duration(span) / SECOND
    except ValueError as error:
        raise UsageError(f"--for: {error}") from None
    begun, complete = [], False
    try:
        for file, links in _by_file(captured(captures, "")).items():
            found.capture(links, file)
            begun.append(file)
        complete = True
        if seconds is not None:
            sleep(seconds)
    finally:
        # Those that go on stay if all have begun.
        if seconds is not None or not complete:
            for file in begun:
                found.end_capture(file)
    return 0


@lab.command("open")
@_named
@click.argument("place", metavar="LINK|NODE")
@click.option(
    "--with",
    "reader",
    metavar="COMMAND",
    help="The program, which reads pcapng from its standard input, such as `tcpdump -nr -`.",
)
def open_(name: str | None, place: str, reader: str | None) -> int:
    """Open the packets of a link in Wireshark while they pass.

    LINK is a direction such as 'r1>r2': the packets at r1's end. NODE is the node's end of all its
    links. Without Wireshark or a display, tshark or tcpdump prints the packets on this terminal.
    The capture ends with the program, and the lab goes on.
    """
    from perhop.cli.lab_open import reader_of, watched
    from perhop.cli.lab_shell import wait_for
    from perhop.lab.client import Lab

    found = Lab.find(name)
    return wait_for(found.open(watched(found, place), reader_of(reader)))


@lab.command()
@_named
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="The port; any by default.")
def page(name: str | None, port: int) -> int:
    """Serve a page of a lab while it is up.

    It shows the network, its rates, queues and drops, until Ctrl-C. Only this machine can reach it,
    by an address with a secret, which is printed.
    """
    from perhop.lab.client import Lab
    from perhop.lab.page import Page

    served = Page(Lab.find(name), port)
    echo(served.address)
    served.serve()
    return 0


@lab.command()
@_named
@click.argument("link")
@click.argument("policy", required=False)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a value of the policy, such as classes.voice.bandwidth=20%. Repeatable.",
)
def policy(name: str | None, link: str, policy: str | None, overrides: tuple[str, ...]) -> int:
    """Change the policy of a directed link while traffic runs.

    LINK is a direction such as 'r1>r2'. POLICY is a policy of the scenario or `none`; by default
    the present policy of the link. Queued packets move to the new classes.
    """
    from perhop.lab.client import Lab

    Lab.find(name).policy(link, policy, overrides)
    return 0


@lab.command()
@_named
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE…")
def change(name: str | None, settings: tuple[str, ...]) -> int:
    """Change a link or a policer, or clear counters.

    KEY is a key of an entry of a scenario's `changes`, except `at`: on='r1>r2' rate='5 Mbps', or
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
    """End a lab and all programs in its hosts."""
    from perhop.lab.client import Lab

    found = Lab.find(name)
    for command in found.down():
        echo(f"ended {command}")
    echo(f"lab {found.name} is down")
    return 0


def _by_file(files: dict[str, str]) -> dict[str, list[str]]:
    """Return the links of each file; each link is an interface of its file."""
    links: dict[str, list[str]] = {}
    for link, file in files.items():
        links.setdefault(file, []).append(link)
    return links
