"""Commands for users: login, tokens, users, webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from perhop.cli.output import echo
from perhop_services.reservations.cli.asking import (
    ask_password,
    asks,
    connected,
    forget_token,
    keep_token,
    url,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perhop_services.reservations.client import Client
    from perhop_services.reservations.messages import QuotaMessage, UserMessage

__all__ = ["COMMANDS"]


def _said(_found: Any, given: Mapping[str, Any]) -> Iterator[str]:
    yield f"{given.get('number') or given['name']} is no more"


@click.command()
@click.argument("name")
@url
def login(name: str, url: str) -> int:
    """Log in as NAME, for twelve hours.

    The token is stored in ~/.config/perhop/token.
    """
    with connected(url) as client:
        keep_token(url, client.log_in(name, ask_password(new=False)))
    echo(f"logged in as {name}")
    return 0


@click.command()
@url
def logout(url: str) -> int:
    """Log out: revoke the token of `login`."""
    with connected(url) as client:
        client.log_out()
    forget_token(url)
    echo("logged out")
    return 0


@click.command()
@url
def password(url: str) -> int:
    """Change your password; prompts for the old and the new one."""
    with connected(url) as client:
        client.change_password(ask_password(new=False), ask_password(new=True))
    forget_token(url)
    echo("changed; log in again")
    return 0


# Tokens


@click.group()
def token() -> None:
    """Manage your tokens, for programs and calendars."""


def _tokens_in_words(found: Any, _: Mapping[str, Any]) -> Iterator[str]:
    from perhop_services.reservations.cli.moments import when

    for each in found:
        until = "for ever" if each.expires is None else f"until {when(each.expires)}"
        yield f"{each.id:>6}  {each.kind:<8} {each.label:<24} {until}"


def _token_in_words(found: Any, given: Mapping[str, Any]) -> Iterator[str]:
    address = "the service's /api/calendar.ics?token="
    yield (address if given["feed"] else "") + found.token


@token.command("new")
@click.argument("label")
@click.option(
    "--feed", is_flag=True, help="For a calendar: the token can only read /api/calendar.ics."
)
@click.option("--for", "duration", help="Its lifetime, such as `24 h`; without end unless set.")
@asks(_token_in_words)
def new_token(client: Client, label: str, duration: str | None, *, feed: bool) -> Any:
    """Create a token and print it once."""
    from perhop_services.reservations import messages as m
    from perhop_services.reservations.cli import moments

    given = {
        "label": label,
        "kind": "feed" if feed else "api",
        "seconds": None if duration is None else moments.seconds(duration),
    }
    return client.new_token(moments.checked(m.NewToken, given))


@token.command("list")
@asks(_tokens_in_words)
def list_tokens(client: Client) -> Any:
    """List your tokens and logins."""
    return client.tokens()


@token.command("revoke")
@click.argument("number", type=int)
@asks(_said)
def revoke(client: Client, number: int) -> None:
    """Revoke a token or a login."""
    client.revoke(number)


# Users


@click.group()
def user() -> None:
    """Manage users, as an administrator."""


def _users_in_words(found: Any, _: Mapping[str, Any]) -> Iterator[str]:
    for each in found:
        yield f"{each.name:<24} {each.role}{'  disabled' if each.disabled else ''}{_limits(each)}"


def _limits(user: UserMessage) -> str:
    from perhop.units import format_rate

    quota, parts = user.quota, []
    if quota.reservations is not None:
        parts.append(f"{quota.reservations} reservations")
    if quota.rate is not None:
        parts.append(f"{format_rate(quota.rate)} at once")
    if quota.seconds is not None:
        parts.append(f"{quota.seconds} s each")
    return f"  up to {', '.join(parts)}" if parts else ""


def _user_in_words(found: Any, _: Mapping[str, Any]) -> Iterator[str]:
    yield f"{found.name} is {found.role}{_limits(found)}"


def _user_options(command: Any) -> Any:
    for option in (
        click.option("--role", type=click.Choice(["requester", "operator", "administrator"])),
        click.option("--max-reservations", type=click.IntRange(0)),
        click.option(
            "--max-rate",
            help="Quota: the rate of all reservations at the same time, such as `100 Mbps`.",
        ),
        click.option(
            "--max-duration", help="Quota: the duration of each reservation, such as `24 h`."
        ),
    ):
        command = option(command)
    return command


def _quota(
    max_reservations: int | None, max_rate: str | None, max_duration: str | None
) -> QuotaMessage:
    from perhop_services.reservations.cli import moments
    from perhop_services.reservations.messages import QuotaMessage

    return QuotaMessage(
        reservations=max_reservations,
        rate=None if max_rate is None else moments.rate(max_rate),
        seconds=None if max_duration is None else moments.seconds(max_duration),
    )


@user.command("add")
@click.argument("name")
@_user_options
@asks(_user_in_words)
def add_user(client: Client, name: str, role: str | None, **quota: Any) -> Any:
    """Create a user.

    The command prompts for the password, or reads it from standard input.

    Without a quota, the user has the default quota of the service.
    """
    from perhop_services.reservations import messages as m
    from perhop_services.reservations.cli import moments

    limits = _quota(**quota) if any(v is not None for v in quota.values()) else None
    given = {"name": name, "role": role or "requester", "quota": limits}
    return client.add_user(moments.checked(m.NewUser, given | {"password": ask_password(new=True)}))


@user.command("set")
@click.argument("name")
@click.option("--password", "new_password", is_flag=True, help="Ask for a new password.")
@click.option("--disable/--enable", "disabled", default=None, help="Disable or enable logins.")
@_user_options
@asks(_user_in_words)
def set_user(
    client: Client,
    name: str,
    role: str | None,
    *,
    new_password: bool,
    disabled: bool | None,
    **quota: Any,
) -> Any:
    """Change a user; any quota option replaces all three quotas."""
    from perhop_services.reservations import messages as m
    from perhop_services.reservations.cli import moments

    given = {
        "disabled": disabled,
        "role": role,
        "quota": _quota(**quota) if any(v is not None for v in quota.values()) else None,
        "password": ask_password(new=True) if new_password else None,
    }
    return client.set_user(name, moments.checked(m.UserChange, given))


@user.command("list")
@asks(_users_in_words)
def list_users(client: Client) -> Any:
    """List the users."""
    return client.users()


def _audit_in_words(found: Any, _: Mapping[str, Any]) -> Iterator[str]:
    from perhop_services.reservations.cli.moments import when

    for each in found:
        by = f"{each.author or '?'} from {each.address or 'here'}"
        yield f"{when(each.at)}  {by}: {each.action} {each.subject}  {each.detail}".rstrip()


@user.command("audit")
@click.option("--after", type=int, default=0, help="Show the entries after this one.")
@asks(_audit_in_words)
def audit(client: Client, after: int) -> Any:
    """Show the logins, and the changes of users."""
    found: list[Any] = []
    while page := client.audit(found[-1].id if found else after):
        found += page
    return found


# Webhooks


@click.group()
def webhook() -> None:
    """Manage webhooks for the log, as an operator."""


def _webhooks_in_words(found: Any, _: Mapping[str, Any]) -> Iterator[str]:
    for each in found:
        yield f"{each.id:>6}  {each.url}" + (f"  trouble: {each.trouble}" if each.trouble else "")


def _webhook_in_words(found: Any, _: Mapping[str, Any]) -> Iterator[str]:
    yield f"webhook {found.id}; what it is sent is signed with {found.secret}"


@webhook.command("add")
@click.argument("address")
@asks(_webhook_in_words)
def add_webhook(client: Client, address: str) -> Any:
    """Send every entry of the log to ADDRESS; prints the secret once."""
    from perhop_services.reservations import messages as m
    from perhop_services.reservations.cli import moments

    return client.add_webhook(moments.checked(m.NewWebhook, {"url": address}))


@webhook.command("list")
@asks(_webhooks_in_words)
def list_webhooks(client: Client) -> Any:
    """List your webhooks."""
    return client.webhooks()


@webhook.command("remove")
@click.argument("number", type=int)
@asks(_said)
def remove_webhook(client: Client, number: int) -> None:
    """Remove a webhook."""
    client.remove_webhook(number)


COMMANDS: Final = (login, logout, password, token, user, webhook)
"""In the order of the help."""
