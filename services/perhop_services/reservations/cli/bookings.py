"""Commands for reservations: search, book, change and show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from perhop_services.reservations.cli.asking import asks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perhop_services.reservations.client import Client

__all__ = ["COMMANDS"]


def _in_words(found: Any, _: Mapping[str, Any]) -> Iterator[str]:
    """A reservation."""
    from perhop_services.reservations.cli import moments

    yield moments.line(found)
    yield f"  path {' '.join(found.path)}, burst {found.burst} B"
    if found.state == "held":
        yield f"  held until {moments.when(found.hold_until)}, to be committed"
    if found.trouble:
        yield f"  trouble: {found.trouble}"


def _number(command: Any) -> Any:
    return click.argument("number", type=int)(command)


def _packets_options(command: Any) -> Any:
    for option in (
        click.option("--protocol", type=click.Choice(["tcp", "udp", "icmp"])),
        click.option("--port", help="Port, or range, at the destination."),
        click.option("--source-port", help="Port, or range, at the source."),
        click.option("--dscp", help="A code point: a name such as ef, or 0 to 63."),
        click.option("--burst", help="Such as `100 kB`."),
        click.option("--purpose", help="The purpose, as text."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("source")
@click.argument("destination")
@click.argument("rate")
@click.option(
    "--start", default="now", show_default=True, help="UTC, as `2026-12-01 10:00`, or `+10 min`."
)
@click.option("--end", help="UTC, as --start.")
@click.option("--for", "duration", help="The duration instead of --end, such as `1 h`.")
@click.option(
    "--direction",
    type=click.Choice(["forward", "reverse", "both"]),
    default="forward",
    show_default=True,
)
@click.option("--class", "class_", help="The class of service.")
@click.option("--via", multiple=True, help="A node that the path must pass. Repeatable.")
@click.option("--avoid", multiple=True, help="A node that the path must avoid. Repeatable.")
@click.option("--hold", help="Hold it for this time, such as `5 min`, until `commit`.")
@click.option("--idempotency-key", help="Repeated requests with the same key book once.")
@_packets_options
@asks(_in_words)
def book(
    client: Client,
    source: str,
    destination: str,
    rate: str,
    start: str,
    end: str | None,
    duration: str | None,
    direction: Any,
    class_: str | None,
    via: tuple[str, ...],
    avoid: tuple[str, ...],
    hold: str | None,
    idempotency_key: str | None,
    **packets: Any,
) -> Any:
    """Book RATE from SOURCE to DESTINATION."""
    from perhop.errors import UsageError
    from perhop_services.reservations import messages as m
    from perhop_services.reservations.cli import moments

    if (end is None) == (duration is None):
        raise UsageError("expected either --end or --for")
    given: dict[str, Any] = {
        "source": source,
        "destination": destination,
        "rate": moments.rate(rate),
        "start": None if start == "now" else moments.instant(start),
        "end": None if end is None else moments.instant(end),
        "seconds": None if duration is None else moments.seconds(duration),
        "direction": direction,
        "class_": class_,
        "wishes": m.WishesMessage(via=list(via), avoid_nodes=list(avoid)),
        "hold": None if hold is None else moments.seconds(hold),
        **moments.packets(packets),
    }
    return client.book(moments.checked(m.Booking, given), idempotency_key)


def _all_in_words(found: Any, _: Mapping[str, Any]) -> Iterator[str]:
    from perhop_services.reservations.cli import moments

    yield from map(moments.line, found)


@click.command("list")
@click.option("--all", "everything", is_flag=True, help="Include finished reservations.")
@asks(_all_in_words)
def list_(client: Client, *, everything: bool) -> Any:
    """List your reservations; an operator sees those of everybody."""
    from perhop_services.reservations.model import LIVE

    found: list[Any] = []
    while page := client.reservations(
        () if everything else sorted(LIVE), after=found[-1].id if found else 0, limit=1000
    ):
        found += page
    return found


def _shown(found: Any, given: Mapping[str, Any]) -> Iterator[str]:
    from perhop_services.reservations.cli import moments

    if given["configuration"]:
        yield found["configuration"].rstrip("\n")
        return
    yield from _in_words(found, given)
    for entry in found.log:
        said = f"  {entry.reason}" if entry.reason else ""
        yield f"  {moments.when(entry.at)}  {entry.author}: {entry.action}{said}"


@click.command()
@_number
@click.option(
    "--configuration",
    type=click.Choice(["set", "change", "remove"]),
    help="Show the router configuration instead.",
)
@asks(_shown)
def show(client: Client, number: int, configuration: str | None) -> Any:
    """Show a reservation and its log."""
    if configuration:
        return {"configuration": client.configuration(number, configuration)}
    from perhop_services.reservations import messages as m

    class Shown(m.ReservationMessage):
        log: list[m.LogMessage]

    return Shown.model_construct(**dict(client.show(number)), log=client.log(number))


@click.command()
@_number
@click.option("--rate", help="Such as `1 Mbps`.")
@click.option("--start", help="UTC, as `2026-12-01 10:00`, or `+10 min`.")
@click.option("--end", help="UTC, as --start.")
@click.option("--reason", default="", help="The reason, for the log.")
@_packets_options
@asks(_in_words)
def change(
    client: Client,
    number: int,
    rate: str | None,
    start: str | None,
    end: str | None,
    reason: str,
    **packets: Any,
) -> Any:
    """Change a reservation in place; other values stay."""
    from perhop.errors import UsageError
    from perhop_services.reservations import messages as m
    from perhop_services.reservations.cli import moments

    given = {
        "rate": None if rate is None else moments.rate(rate),
        "start": None if start is None else moments.instant(start),
        "end": None if end is None else moments.instant(end),
        **moments.packets(packets, client.show(number).selector),
    }
    if all(each is None for each in given.values()):
        raise UsageError("nothing to change; expected an option such as --rate or --end")
    return client.change(number, moments.checked(m.Change, given | {"reason": reason}))


@click.command()
@_number
@click.option("--reason", default="", help="The reason, for the log.")
@asks(_in_words)
def cancel(client: Client, number: int, reason: str) -> Any:
    """Cancel a reservation."""
    return client.cancel(number, reason)


@click.command()
@_number
@asks(_in_words)
def commit(client: Client, number: int) -> Any:
    """Commit a held reservation."""
    return client.commit(number)


@click.command()
@_number
@asks(_in_words)
def confirm(client: Client, number: int) -> Any:
    """Confirm that its routers were configured by hand."""
    return client.confirm(number)


def _free_in_words(found: Any, given: Mapping[str, Any]) -> Iterator[str]:
    from perhop.units import format_rate
    from perhop_services.reservations.cli.moments import when

    yield " ".join(found.path)
    for each in found.stretches:
        yield f"  {when(each.start)} to {when(each.end)}  {format_rate(each.free)}"
    if given["rate"] is not None:
        fit = "never" if found.earliest is None else f"from {when(found.earliest)}"
        yield f"{given['rate']} for {given['duration']}: {fit}"
        for path in found.alternatives:
            yield f"  free throughout: {' '.join(path)}"
    yield f"widest: {' '.join(found.widest)} with {format_rate(found.widest_rate)}"


@click.command()
@click.argument("source")
@click.argument("destination")
@click.option("--rate", help="The rate; with it, also the earliest possible start.")
@click.option("--start", default="now", show_default=True, help="UTC, or `+10 min`.")
@click.option("--for", "duration", default="24 h", show_default=True, help="The duration.")
@click.option("--class", "class_", help="The class of service.")
@click.option("--via", multiple=True, help="A node that the path must pass. Repeatable.")
@click.option("--avoid", multiple=True, help="A node that the path must avoid. Repeatable.")
@asks(_free_in_words)
def free(
    client: Client,
    source: str,
    destination: str,
    rate: str | None,
    start: str,
    duration: str,
    class_: str | None,
    via: tuple[str, ...],
    avoid: tuple[str, ...],
) -> Any:
    """Show free bandwidth, and the earliest start for RATE."""
    from perhop_services.reservations.cli import moments

    begin = moments.instant("+0 s" if start == "now" else start)
    return client.free(
        source,
        destination,
        begin,
        begin + moments.seconds(duration),
        1 if rate is None else moments.rate(rate),
        via=list(via),
        avoid_nodes=list(avoid),
        class_=class_,
    )


def _counters_in_words(found: Any, _: Mapping[str, Any]) -> Iterator[str]:
    from perhop_services.reservations.cli.moments import when

    yield "time                     conformed packets, bytes    exceeded packets, bytes"
    for each in found:
        yield (
            f"{when(each.at_ms // 1000)}  {each.conformed_packets:>11} {each.conformed_bytes:>14}  "
            f"{each.exceeded_packets:>10} {each.exceeded_bytes:>14}"
        )


@click.command()
@_number
@click.option("--clear", is_flag=True, help="Clear the counters.")
@click.option(
    "--most",
    type=click.IntRange(2, 10_000),
    default=10_000,
    show_default=True,
    help="The approximate number of readings, over the whole reservation.",
)
@asks(_counters_in_words)
def counters(client: Client, number: int, most: int, *, clear: bool) -> Any:
    """Show the counters of a reservation's policers."""
    if clear:
        client.clear_counters(number)
    return client.counters(number, most)


COMMANDS: Final = (book, list_, show, change, cancel, commit, confirm, free, counters)
"""In the order of the help."""
