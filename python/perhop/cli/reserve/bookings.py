"""`perhop reserve`: the reservation service, and its client."""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from perhop.reservations.client import Client

__all__ = ["reserve"]

_URL = "http://127.0.0.1:8471"
_TOKEN = Path("~/.config/perhop/token")
_DATABASE = "perhop-reservations.db"


@click.group()
def reserve() -> None:
    r"""Book bandwidth for a time, have it enforced, see what it did.

    \b
      perhop reserve init admin                        the first administrator
      perhop reserve serve office.yaml --driver '*=linux'
      perhop reserve login admin
      perhop reserve book lan cloud "10 Mbps" --for "1 h" --port 5011
    """


# The service


@reserve.command()
@click.argument("network")
@click.option(
    "--database",
    default=_DATABASE,
    show_default=True,
    help="An SQLite file, or postgresql://USER:PASSWORD@HOST/NAME.",
)
@click.option(
    "--driver",
    "drivers",
    multiple=True,
    metavar="ROUTER=KIND[:…]",
    help="What enforces at a router (* for all others): file:PATH, lab[:NAME], "
    "linux[:netns=NAME], ios or junos.",
)
@click.option(
    "--listen",
    default="127.0.0.1:8471",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Where to listen. Beyond this machine only with TLS, or --insecure.",
)
@click.option("--certificate", type=click.Path(path_type=Path), help="A certificate, for TLS.")
@click.option("--key", type=click.Path(path_type=Path), help="Its private key.")
@click.option("--host-name", "names", multiple=True, help="A name by which browsers call it.")
@click.option("--insecure", is_flag=True, help="Listen beyond this machine without TLS.")
@click.option(
    "--every",
    default=10.0,
    show_default=True,
    type=click.FloatRange(0.1, 3600),
    help="Seconds between two readings of counters.",
)
def serve(
    network: str,
    database: str,
    drivers: tuple[str, ...],
    listen: str,
    certificate: Path | None,
    key: Path | None,
    names: tuple[str, ...],
    insecure: bool,
    every: float,
) -> int:
    """Serve reservations of NETWORK, a scenario file with `reservable` links."""
    _needs_extra()
    from perhop.errors import UsageError
    from perhop.reservations import drivers as kinds
    from perhop.reservations.http import Serving
    from perhop.reservations.http import serve as run
    from perhop.reservations.network import Network
    from perhop.scenario import load

    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    if not port.isdigit() or int(port) > 65535 or not host:
        raise UsageError(f"--listen {listen}: expected an address and a port")
    if (certificate is None) != (key is None):
        raise UsageError("--certificate and --key belong together")
    if not _is_loopback(host) and certificate is None:
        if not insecure:
            raise UsageError(
                f"--listen {listen}: beyond this machine passwords would be sent in the clear; "
                "give --certificate and --key, or --insecure"
            )
        click.echo(
            f"perhop: WARNING: listening at {listen} without TLS; passwords and tokens can be "
            "read on the way",
            err=True,
        )
    enforcing = {}
    known = Network(load(network))
    for each in drivers:
        router, _, kind = each.partition("=")
        if router != "*" and (router not in known.nodes or router in known.hosts):
            raise UsageError(f"--driver {each}: there is no router {router!r} in {network}")
        enforcing[router] = kinds.driver(kind)
    if not enforcing:
        click.echo(
            "perhop: no --driver is given: nothing enforces reservations, and they fail when they "
            "start",
            err=True,
        )
    click.echo(f"http{'s' if certificate else ''}://{listen}  (Ctrl-C ends it)")
    run(
        Serving(
            known, database, enforcing, host, int(port), frozenset(names), certificate, key, every
        )
    )
    return 0


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@reserve.command()
@click.argument("name")
@click.option("--database", default=_DATABASE, show_default=True, help="As for `serve`.")
@click.option("--generate", is_flag=True, help="Make up a password, and print it.")
def init(name: str, database: str, generate: bool) -> int:
    """Make NAME an administrator, while the service is not running."""
    _needs_extra()
    from perhop.reservations.database import Database
    from perhop.reservations.model import Role
    from perhop.reservations.people import People

    opened = Database(database)
    try:
        password = secrets.token_urlsafe(15) if generate else _new_password()
        People(opened).add(name, password, Role.ADMINISTRATOR)
    finally:
        opened.close()
    click.echo(f"{name} is an administrator" + (f"; password: {password}" if generate else ""))
    return 0


def _new_password() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().rstrip("\n")


# The client


def _client_options(command: Any) -> Any:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else."),
        click.option(
            "--url",
            envvar="PERHOP_RESERVE_URL",
            default=_URL,
            show_default=True,
            help="The service.",
        ),
    ):
        command = option(command)
    return command


def _client(url: str) -> Client:
    _needs_extra()
    from perhop.reservations.client import Client

    token = os.environ.get("PERHOP_RESERVE_TOKEN", "")
    place = _TOKEN.expanduser()
    if not token and place.exists():
        kept: dict[str, str] = json.loads(place.read_text("utf-8"))
        token = kept.get(url, "")
    return Client(url, token=token)


@reserve.command()
@click.argument("name")
@click.option("--url", envvar="PERHOP_RESERVE_URL", default=_URL, show_default=True)
def login(name: str, url: str) -> int:
    """Log in as NAME; the token is kept for twelve hours in ~/.config/perhop/token."""
    with _client(url) as client:
        if sys.stdin.isatty():
            password = str(click.prompt("Password", hide_input=True))
        else:
            password = sys.stdin.readline().rstrip("\n")
        token = client.log_in(name, password)
    place = _TOKEN.expanduser()
    kept = json.loads(place.read_text("utf-8")) if place.exists() else {}
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_suffix(".new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(kept | {url: token}, file)
    beside.replace(place)
    click.echo(f"logged in as {name}")
    return 0


def _terms_options(command: Any) -> Any:
    for option in (
        click.option("--protocol", type=click.Choice(["tcp", "udp", "icmp"])),
        click.option("--port", help="Port, or range, at the destination."),
        click.option("--source-port", help="Port, or range, at the source."),
        click.option("--dscp", help="A code point: a name such as ef, or 0 to 63."),
        click.option("--burst", help="Such as `100 kB`."),
        click.option("--purpose", help="What it is for."),
    ):
        command = option(command)
    return command


@reserve.command()
@click.argument("source")
@click.argument("destination")
@click.argument("rate")
@click.option(
    "--start", default="now", show_default=True, help="UTC, as `2026-12-01 10:00`, or `+10 min`."
)
@click.option("--end", help="The same.")
@click.option("--for", "duration", help="Instead of --end: how long, such as `1 h`.")
@click.option(
    "--direction",
    type=click.Choice(["forward", "reverse", "both"]),
    default="forward",
    show_default=True,
)
@click.option("--class", "class_", help="The class of service.")
@click.option("--via", multiple=True, help="A node that the path must touch.")
@click.option("--avoid", multiple=True, help="A node that it must not.")
@click.option("--hold", help="Only hold it for so long, such as `5 min`, to be committed.")
@click.option("--idempotency-key", help="Asked again with the same key, it is booked once.")
@_terms_options
@_client_options
def book(
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
    url: str,
    as_json: bool,
    **packets: Any,
) -> int:
    """Book RATE from SOURCE to DESTINATION."""
    from perhop.cli import moments
    from perhop.errors import UsageError

    if (end is None) == (duration is None):
        raise UsageError("expected either --end or --for")
    with _client(url) as client:
        from perhop.reservations import messages as m

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
        _show(client.book(moments.checked(m.Booking, given), idempotency_key), as_json)
    return 0


@reserve.command("list")
@click.option("--all", "everything", is_flag=True, help="Those that are over, too.")
@_client_options
def list_(everything: bool, url: str, as_json: bool) -> int:
    """List your reservations; an operator's are everybody's."""
    with _client(url) as client:
        from perhop.reservations.model import LIVE

        found: list[Any] = []
        while page := client.reservations(
            () if everything else sorted(LIVE), after=found[-1].id if found else 0, limit=1000
        ):
            found += page
    if as_json:
        click.echo(json.dumps([each.model_dump(mode="json", by_alias=True) for each in found]))
        return 0
    from perhop.cli import moments

    for each in found:
        click.echo(moments.line(each))
    return 0


@reserve.command()
@click.argument("number", type=int)
@click.option(
    "--configuration",
    type=click.Choice(["set", "change", "remove"]),
    help="What its routers are told, instead.",
)
@_client_options
def show(number: int, configuration: str | None, url: str, as_json: bool) -> int:
    """Show a reservation and its log."""
    with _client(url) as client:
        if configuration:
            click.echo(client.configuration(number, configuration), nl=False)
            return 0
        found, log = client.show(number), client.log(number)
    if as_json:
        whole = found.model_dump(mode="json", by_alias=True)
        click.echo(json.dumps(whole | {"log": [each.model_dump(mode="json") for each in log]}))
        return 0
    _show(found, as_json)
    from perhop.cli import moments

    for entry in log:
        said = f"  {entry.reason}" if entry.reason else ""
        click.echo(f"  {moments.when(entry.at)}  {entry.author}: {entry.action}{said}")
    return 0


@reserve.command()
@click.argument("number", type=int)
@click.option("--rate", help="Such as `1 Mbps`.")
@click.option("--start", help="UTC, as `2026-12-01 10:00`, or `+10 min`.")
@click.option("--end", help="The same.")
@click.option("--reason", default="", help="Why.")
@_terms_options
@_client_options
def change(
    number: int,
    rate: str | None,
    start: str | None,
    end: str | None,
    reason: str,
    url: str,
    as_json: bool,
    **packets: Any,
) -> int:
    """Change a reservation in place; what is not given stays."""
    with _client(url) as client:
        from perhop.cli import moments
        from perhop.reservations import messages as m

        given = {
            "rate": None if rate is None else moments.rate(rate),
            "start": None if start is None else moments.instant(start),
            "end": None if end is None else moments.instant(end),
            "reason": reason,
            **moments.packets(packets, client.show(number).selector),
        }
        _show(client.change(number, moments.checked(m.Change, given)), as_json)
    return 0


@reserve.command()
@click.argument("number", type=int)
@click.option("--reason", default="", help="Why.")
@_client_options
def cancel(number: int, reason: str, url: str, as_json: bool) -> int:
    """Cancel a reservation."""
    with _client(url) as client:
        _show(client.cancel(number, reason), as_json)
    return 0


@reserve.command()
@click.argument("number", type=int)
@_client_options
def commit(number: int, url: str, as_json: bool) -> int:
    """Book what is held."""
    with _client(url) as client:
        _show(client.commit(number), as_json)
    return 0


@reserve.command()
@click.argument("number", type=int)
@_client_options
def confirm(number: int, url: str, as_json: bool) -> int:
    """Say that its routers are configured, where people do that."""
    with _client(url) as client:
        _show(client.confirm(number), as_json)
    return 0


@reserve.command()
@click.argument("source")
@click.argument("destination")
@click.option("--rate", default="1 bps", help="How much; then the earliest fit is found, too.")
@click.option("--start", default="now", show_default=True, help="UTC, or `+10 min`.")
@click.option("--for", "duration", default="24 h", show_default=True, help="How long.")
@_client_options
def free(
    source: str, destination: str, rate: str, start: str, duration: str, url: str, as_json: bool
) -> int:
    """Say what is free from SOURCE to DESTINATION, and from when on RATE is."""
    with _client(url) as client:
        from perhop.cli import moments
        from perhop.units import format_rate

        begin = moments.instant("+0 s" if start == "now" else start)
        end = begin + moments.seconds(duration)
        found = client.free(source, destination, begin, end, moments.rate(rate))
    if as_json:
        click.echo(found.model_dump_json())
        return 0
    click.echo(f"{' '.join(found.path)}")
    for each in found.stretches:
        click.echo(
            f"  {moments.when(each.start)} to {moments.when(each.end)}  {format_rate(each.free)}"
        )
    if found.earliest is not None:
        click.echo(f"{rate} for {duration}: from {moments.when(found.earliest)}")
    else:
        click.echo(f"{rate} for {duration}: never")
    click.echo(f"widest: {' '.join(found.widest)} with {format_rate(found.widest_rate)}")
    return 0


@reserve.command()
@click.argument("number", type=int)
@click.option("--clear", is_flag=True, help="Set them to zero.")
@_client_options
def counters(number: int, clear: bool, url: str, as_json: bool) -> int:
    """Show what a reservation's policers counted."""
    with _client(url) as client:
        if clear:
            client.clear_counters(number)
        found = client.counters(number)
    if as_json:
        click.echo(json.dumps([each.model_dump() for each in found]))
        return 0
    from perhop.cli import moments

    click.echo("time                     conformed packets, bytes    exceeded packets, bytes")
    for each in found:
        click.echo(
            f"{moments.when(each.at_ms // 1000)}  {each.conformed_packets:>11} "
            f"{each.conformed_bytes:>14}  {each.exceeded_packets:>10} {each.exceeded_bytes:>14}"
        )
    return 0


@reserve.group()
def user() -> None:
    """Look after users, as an administrator."""


_ROLES = click.Choice(["requester", "operator", "administrator"])


def _user_options(command: Any) -> Any:
    for option in (
        click.option("--role", type=_ROLES),
        click.option("--max-reservations", type=click.IntRange(0)),
        click.option("--max-rate", help="At once, such as `100 Mbps`."),
        click.option("--max-duration", help="Such as `24 h`."),
    ):
        command = option(command)
    return command


def _quota(max_reservations: int | None, max_rate: str | None, max_duration: str | None) -> Any:
    from perhop.cli import moments
    from perhop.reservations import messages as m

    return m.QuotaMessage(
        reservations=max_reservations,
        rate=None if max_rate is None else moments.rate(max_rate),
        seconds=None if max_duration is None else moments.seconds(max_duration),
    )


@user.command("add")
@click.argument("name")
@_user_options
@_client_options
def add_user(name: str, role: str | None, url: str, as_json: bool, **quota: Any) -> int:
    """Make a user; the password is asked for, or read from standard input."""
    with _client(url) as client:
        from perhop.cli import moments
        from perhop.reservations import messages as m

        given = {
            "name": name,
            "password": _new_password(),
            "role": role or "requester",
            "quota": _quota(**quota),
        }
        made = client.add_user(moments.checked(m.NewUser, given))
    click.echo(made.model_dump_json() if as_json else f"{made.name} is {made.role}")
    return 0


@user.command("set")
@click.argument("name")
@click.option("--password", "new_password", is_flag=True, help="Ask for a new password.")
@click.option("--disable/--enable", "disabled", default=None, help="May no longer log in, or may.")
@_user_options
@_client_options
def set_user(
    name: str,
    new_password: bool,
    disabled: bool | None,
    role: str | None,
    url: str,
    as_json: bool,
    **quota: Any,
) -> int:
    """Change a user; a quota that is given replaces all three."""
    with _client(url) as client:
        from perhop.cli import moments
        from perhop.reservations import messages as m

        given = {
            "password": _new_password() if new_password else None,
            "disabled": disabled,
            "role": role,
            "quota": _quota(**quota) if any(v is not None for v in quota.values()) else None,
        }
        made = client.set_user(name, moments.checked(m.UserChange, given))
    click.echo(made.model_dump_json() if as_json else f"{made.name} is {made.role}")
    return 0


@user.command("list")
@_client_options
def list_users(url: str, as_json: bool) -> int:
    """List everybody."""
    with _client(url) as client:
        found = client.users()
    if as_json:
        click.echo(json.dumps([each.model_dump(mode="json") for each in found]))
        return 0
    for each in found:
        click.echo(f"{each.name:<24} {each.role}{'  disabled' if each.disabled else ''}")
    return 0


def _show(reservation: Any, as_json: bool) -> None:
    if as_json:
        click.echo(reservation.model_dump_json(by_alias=True))
        return
    from perhop.cli import moments

    click.echo(moments.line(reservation))
    click.echo(f"  path {' '.join(reservation.path)}, burst {reservation.burst} B")
    if reservation.trouble:
        click.echo(f"  trouble: {reservation.trouble}")


def _needs_extra() -> None:
    """Say what to install where plain perhop is."""
    from importlib.util import find_spec

    from perhop.errors import UnsupportedError

    missing = [
        name
        for name in ("fastapi", "uvicorn", "sqlalchemy", "alembic", "argon2", "httpx")
        if find_spec(name) is None
    ]
    if missing:
        raise UnsupportedError(
            f"`perhop reserve` needs {', '.join(missing)}: pip install 'perhop[reserve]'"
        )
