"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from perhop.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from click.shell_completion import CompletionItem

    from perhop.stores import Place

__all__ = [
    "ENGINES",
    "above_zero",
    "agents",
    "among",
    "as_folder",
    "as_place",
    "captures",
    "direction",
    "engine",
    "no_rate",
    "overrides",
    "pairs",
    "rate",
    "rate_of",
    "scenario",
    "scenario_or_none",
    "scenarios",
    "seed",
]

ENGINES: Final = ("sim", "emu", "kernel", "live")
"""The names of `perhop.engines`, which takes longer to import than a shell should wait."""


def among(
    *names: str, found: Callable[[], Iterable[str]] = tuple
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return the completion of an option or an argument that is one of some names.

    Args:
        names: The names.
        found: A function that returns further ones; it is called when a shell asks.
    """

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        del context, parameter
        return [name for name in (*names, *found()) if name.startswith(incomplete)]

    return complete


engine = click.option(
    "--engine",
    default="sim",
    show_default=True,
    help="The engine: sim, emu or kernel.",
    shell_complete=among(*ENGINES[:3]),
)

seed = click.option(
    "--seed",
    default=1,
    show_default=True,
    type=click.IntRange(0, 2**64 - 1),
    help="The seed of all random numbers.",
)


def _complete_scenario(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the scenarios and files that begin so; the shell completes what begins no scenario."""
    from click.shell_completion import CompletionItem

    from perhop import gallery

    del context, parameter
    named = [name for name in gallery.names() if incomplete and name.startswith(incomplete)]
    if not named:
        return [CompletionItem(incomplete, type="file")]
    files = sorted(path.name for path in Path().iterdir() if path.name.startswith(incomplete))
    return [*map(CompletionItem, named), *map(CompletionItem, files)]


scenario = click.argument("scenario", shell_complete=_complete_scenario)

scenario_or_none = click.argument("scenario", required=False, shell_complete=_complete_scenario)

scenarios = click.argument(
    "scenarios", nargs=-1, required=True, metavar="FILE…", shell_complete=_complete_scenario
)

agents = click.option(
    "--agents",
    type=click.Path(),
    metavar="FILE",
    help="A file with the section `agents`, which replaces the scenario's; for the engine live.",
)

overrides = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a value first, such as flows.bulk.streams=10. Repeatable.",
)

captures = click.option(
    "--pcap",
    "captures",
    multiple=True,
    metavar="LINK=FILE",
    help="Capture the packets at r1's end of a link, 'r1>r2', to a pcapng file. Repeatable.",
)

direction = click.option(
    "--direction",
    type=click.Choice(["in", "out"]),
    help="The direction of the policy; by default out, if the interface has a policy there.",
)

rate = click.option(
    "--rate",
    metavar="RATE",
    help="The rate of a configuration's interface, such as '100 Mbps'; default: as the file says.",
)


def as_place(context: click.Context, parameter: click.Parameter, value: str | None) -> Place | None:
    """Return a folder of this machine, or one of an object store for a URL."""
    from perhop.stores import place

    del context, parameter
    return None if value is None else place(value)


def as_folder(context: click.Context, parameter: click.Parameter, value: str | None) -> Path | None:
    """Return a folder of this machine.

    Raises:
        BadParameter: It is a URL, of which `Path` would make a folder such as ``s3:/bucket``.
    """
    if value is not None and "://" in value:
        message = f"{value} is a URL; this command writes folders of this machine only"
        raise click.BadParameter(message, context, parameter)
    return None if value is None else Path(value)


def rate_of(text: str | None) -> int | None:
    """Return the value of `rate` in bit/s; None if the option is not given.

    Raises:
        UsageError: The text is not a rate above zero.
    """
    from perhop.units import parse_rate

    return None if text is None else above_zero("--rate", text, parse_rate, "a rate", "100 Mbps")


def pairs(option: str, given: tuple[str, ...], expected: str) -> dict[str, str]:
    """Return the values of a repeatable option ``NAME=VALUE``, by name.

    Raises:
        UsageError: A value is malformed, or a name is given twice.
    """
    found: dict[str, str] = {}
    for text in given:
        name, _, value = text.partition("=")
        if not (name and value) or name in found:
            raise UsageError(f"{option} {text}: expected {expected}, once for each name")
        found[name] = value
    return found


def no_rate(given: int | None, source: str) -> None:
    """Refuse `rate` with a scenario, whose links have rates.

    Raises:
        UsageError: The option is given.
    """
    if given is not None:
        raise UsageError(
            f"--rate: {source} is not the configuration of a router; --set links.0.rate=RATE "
            "changes the rate of a link of a scenario"
        )


def above_zero(
    option: str, text: str, parse: Callable[[str], int], expected: str, example: str
) -> int:
    """Return the value of an option that is a quantity.

    Args:
        option: The option.
        text: Its value.
        parse: The parser of the quantity.
        expected: The quantity in words, such as ``a rate``.
        example: A value.

    Raises:
        UsageError: The text is not such a quantity, or is zero.
    """
    try:
        found = parse(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
    if not found:
        raise UsageError(f"{option}: is zero; expected {expected} such as '{example}'")
    return found
