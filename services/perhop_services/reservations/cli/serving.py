"""Commands of the service itself: serving, and the first administrator."""

from __future__ import annotations

import ipaddress
import secrets
from pathlib import Path
from typing import Final

import click

from perhop.cli.output import echo
from perhop_services.reservations.cli.asking import ask_password

__all__ = ["COMMANDS"]

_DATABASE: Final = "perhop-reservations.db"


def _told(_context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Refuse a password on the command line, which every user can read (`ps`)."""
    source = _context.get_parameter_source(parameter.name or "")
    if source is click.core.ParameterSource.COMMANDLINE and "://" in value:
        user, at, _ = value.partition("://")[2].partition("@")
        if (at and ":" in user) or "password=" in value:
            raise click.BadParameter(
                "everybody on this machine can read a password on a command line; set "
                "PERHOP_RESERVE_DATABASE to the URL, or PGPASSWORD to the password"
            )
    return value


_database = click.option(
    "--database",
    default=_DATABASE,
    show_default=True,
    envvar="PERHOP_RESERVE_DATABASE",
    callback=_told,
    help="An SQLite file, or postgresql://USER@HOST/NAME with the password in PGPASSWORD.",
)


@click.command()
@click.argument("network")
@_database
@click.option(
    "--driver",
    "drivers",
    multiple=True,
    metavar="ROUTER=KIND[:…]",
    help="The driver of a router (* for all others): file:PATH, lab[:NAME], "
    "linux[:netns=NAME], ios or junos. Repeatable.",
)
@click.option(
    "--listen",
    default="127.0.0.1:8471",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="The address and port. Other than loopback only with TLS, or --insecure.",
)
@click.option("--certificate", type=click.Path(path_type=Path), help="The TLS certificate.")
@click.option("--key", type=click.Path(path_type=Path), help="The private key of the certificate.")
@click.option(
    "--host-name", "names", multiple=True, help="A host name that browsers may use. Repeatable."
)
@click.option("--insecure", is_flag=True, help="Allow other addresses than loopback without TLS.")
@click.option(
    "--every",
    default=10.0,
    show_default=True,
    type=click.FloatRange(0.1, 3600),
    help="The interval of counter readings, in seconds.",
)
@click.option(
    "--log",
    "logs",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the log on standard error.",
)
@click.option(
    "--max-reservations",
    type=click.IntRange(0),
    help="Default quota of new users: the number of reservations that are not over.",
)
@click.option("--max-rate", help="Default quota: the rate at the same time, such as `100 Mbps`.")
@click.option("--max-duration", help="Default quota: the duration of each, such as `24 h`.")
@click.option(
    "--trusted-proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="A proxy whose header X-Forwarded-For is trusted. Repeatable.",
)
@click.option(
    "--webhooks-to",
    "webhooks",
    multiple=True,
    metavar="NETWORK",
    help="A private network that webhooks may use. Repeatable.",
)
@click.option(
    "--accept-clock",
    is_flag=True,
    help="The clock is right, though more than a day off the last time on file.",
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
    proxies: tuple[str, ...],
    webhooks: tuple[str, ...],
    logs: str,
    max_reservations: int | None,
    max_rate: str | None,
    max_duration: str | None,
    accept_clock: bool,
) -> int:
    """Run the reservation service.

    NETWORK is a scenario file with `reservable` links.
    """
    from perhop.errors import UsageError
    from perhop.scenario import load
    from perhop_services.common.http.server import Listening
    from perhop_services.common.users import Quota
    from perhop_services.reservations import drivers as kinds
    from perhop_services.reservations.cli import moments
    from perhop_services.reservations.http import Serving
    from perhop_services.reservations.http import serve as run
    from perhop_services.reservations.network import Network

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
        echo(
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
        echo(
            "perhop: no --driver is given: nothing enforces reservations, and they fail when they "
            "start",
            err=True,
        )
    address = f"http{'s' if certificate else ''}://{listen.rpartition(':')[0]}"
    run(
        Serving(
            known,
            database,
            enforcing,
            Listening(
                host,
                int(port),
                frozenset(names),
                certificate,
                key,
                tuple(str(_address(each)) for each in proxies),
            ),
            every,
            tuple(_network(each) for each in webhooks),
            Quota(
                max_reservations,
                None if max_rate is None else moments.rate(max_rate),
                None if max_duration is None else moments.seconds(max_duration),
            ),
            logs == "json",
            accept_clock,
        ),
        lambda at: echo(f"{address}:{at}  (Ctrl-C ends it)"),
    )
    return 0


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    from perhop.errors import UsageError

    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise UsageError(f"--trusted-proxy {text}: expected an address") from None


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    from perhop.errors import UsageError

    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise UsageError(f"--webhooks-to {text}: expected a network such as 10.0.0.0/8") from None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@click.command()
@click.argument("name")
@_database
@click.option("--generate", is_flag=True, help="Generate a password and print it.")
def init(name: str, database: str, generate: bool) -> int:
    """Make NAME an administrator, while the service is not running."""
    from perhop_services.common.people import People
    from perhop_services.common.users import Role
    from perhop_services.reservations.schema import open_database

    opened = open_database(database)
    try:
        password = secrets.token_urlsafe(15) if generate else ask_password(new=True)
        People(opened).add(name, password, Role.ADMINISTRATOR)
    finally:
        opened.close()
    echo(f"{name} is an administrator" + (f"; password: {password}" if generate else ""))
    return 0


COMMANDS: Final = (serve, init)
"""In the order of the help."""
