"""`perhop export --push`: a configuration set on a router."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from perhop.cli.output import echo
from perhop.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perhop.routers.writing import Family

__all__ = ["links", "options", "push"]

_KEPT: Final = {
    "ios": ", in its running configuration; `write memory` on the router keeps it over a restart"
}
"""What the user has to do for routers that start with another configuration than they run."""


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a push to a command, as its argument `pushed`."""
    added = (
        click.option(
            "--push",
            metavar="URL",
            help="Set the policy on a router: netconf://USER@HOST[:PORT] or ssh://root@HOST[:PORT].",
        ),
        click.option("--dry-run", is_flag=True, help="With --push: show the changes, and stop."),
        click.option("--yes", is_flag=True, help="With --push: do not ask before the change."),
        click.option(
            "--confirm",
            type=click.IntRange(1, 3600),
            default=120,
            show_default=True,
            metavar="SECONDS",
            help="With --push: the router undoes a change that is not confirmed by then.",
        ),
        click.option("--key", metavar="FILE", help="With --push: the private key."),
        click.option("--known-hosts", metavar="FILE", help="With --push: the keys of hosts."),
        click.option(
            "--ask-password", is_flag=True, help="With --push: ask for a password or passphrase."
        ),
    )
    for option in reversed(added):
        command = option(command)
    return command


def links(
    url: str | None,
    family: Family,
    selected: Sequence[str],
    interfaces: Sequence[str],
    **given: Any,
) -> Sequence[str]:
    """Check the options of a push, and return the links to cover.

    A push covers the links whose interface is given, so that none is set on an interface of a name
    that perhop made up.

    Raises:
        UsageError: If an option needs --push, an interface is missing, or the address does not go
            with the family.
    """
    if url is None:
        for name, value in given.items():
            if value:
                raise UsageError(f"--{name.replace('_', '-')} needs --push URL")
        return selected
    from perhop.routers.pushing import check, target

    check(target(url), family)
    named = [each.partition("=")[0] for each in interfaces]
    missing = [link for link in selected if link not in named] if named else ["r1>r2"]
    if missing:
        raise UsageError(
            f"--push needs the interface of the router: --interface '{missing[0]}=NAME'; expected "
            "one for each end of a link that the router has"
        )
    return selected or named


def push(url: str, family: Family, text: str, **given: Any) -> int:
    """Set a configuration on a router, after the user has seen the changes."""
    from perhop.routers.pushing import Settings, target
    from perhop.routers.pushing import push as set_on

    where = target(url)
    password = None
    if given["ask_password"]:
        password = click.prompt(f"Password of {where}", hide_input=True, err=True)
    settings = Settings(
        key=given["key"],
        password=password,
        known_hosts=given["known_hosts"],
        confirm=given["confirm"],
        dry=given["dry_run"],
    )

    def approve(changes: tuple[str, ...]) -> bool:
        _show(changes)
        if given["yes"]:
            return True
        if not sys.stdin.isatty():
            raise UsageError("--push changes the router only with --yes, or after a question")
        return click.confirm(f"Change {where}?", err=True)

    outcome = set_on(where, family, text, settings, approve)
    if given["dry_run"]:
        _show(outcome.changes)
    said = {
        "unchanged": "the router has this policy already",
        "dry run": "the router accepts these changes; nothing was changed",
        "not approved": "nothing was changed",
        "set": "the router has the policy: read back and confirmed",
    }
    more = _KEPT.get(family, "") if outcome.state == "set" else ""
    echo(f"{where}: {said[outcome.state]}{more}", err=True)
    return 0


def _show(changes: Sequence[str]) -> None:
    from perhop.printable import printable

    for line in changes:
        echo(printable(line))
