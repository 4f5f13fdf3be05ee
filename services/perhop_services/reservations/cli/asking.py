"""Common parts of the client commands: the service's URL, the token, and the output."""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from perhop.cli.output import document, echo
from perhop.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from perhop_services.reservations.client import Client

__all__ = ["ask_password", "asks", "connected", "forget_token", "keep_token", "url"]

_TOKENS: Final = Path("~/.config/perhop/token")
"""A file with the token of each service, by its address."""

url = click.option(
    "--url",
    envvar="PERHOP_RESERVE_URL",
    default="http://127.0.0.1:8471",
    show_default=True,
    help="The URL of the service.",
)


def asks(words: Callable[[Any, Mapping[str, Any]], Iterable[str]]) -> Callable[..., Any]:
    """Make a command of a function that takes a client and returns an answer to print.

    Args:
        words: Return the lines to print without `--json`, from the answer and the arguments.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., int]:
        @url
        @click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
        @functools.wraps(command)
        def run(url: str, *, as_json: bool, **given: Any) -> int:
            with connected(url) as client:
                found = command(client, **given)
            if as_json:
                from pydantic_core import to_jsonable_python

                document(json.dumps(to_jsonable_python(found, by_alias=True)))
            else:
                for line in words(found, given):
                    echo(printable(line))
            return 0

        return run

    return decorate


def connected(url: str) -> Client:
    """Connect to a service, with the stored token if there is one."""
    from perhop_services.reservations.client import Client

    return Client(url, token=os.environ.get("PERHOP_RESERVE_TOKEN") or _tokens().get(url, ""))


def keep_token(url: str, token: str) -> None:
    """Store a token in a file that only its owner can read."""
    _write(_tokens() | {url: token})


def forget_token(url: str) -> None:
    """Delete the stored token of a service."""
    kept = _tokens()
    if kept.pop(url, None) is not None:
        _write(kept)


def _tokens() -> dict[str, str]:
    from perhop.errors import UsageError

    place = _TOKENS.expanduser()
    if not place.exists():
        return {}
    try:
        kept: dict[str, str] = json.loads(place.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{place} cannot be read: {error}; remove it, and log in again") from None
    return kept


def _write(tokens: dict[str, str]) -> None:
    place = _TOKENS.expanduser()
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_suffix(".new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(tokens, file)
    beside.replace(place)


def ask_password(*, new: bool) -> str:
    """Prompt for a password on a terminal; without one, read it from standard input."""
    if sys.stdin.isatty():
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=new))
    return sys.stdin.readline().rstrip("\n")
