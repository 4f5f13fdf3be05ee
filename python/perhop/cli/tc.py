"""`perhop tc`: a scenario's policies as commands of Linux."""

from __future__ import annotations

from typing import Literal

import click

__all__ = ["tc"]


@click.command()
@click.argument("scenario")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a value first, such as links.1.rate='5 Mbps'. Repeatable.",
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="LINK=NAME",
    help="The interface at r1's end of a link, 'r1>r2', such as eth1. Repeatable.",
)
@click.option(
    "--police",
    type=click.Choice(["tc", "nft"]),
    default="tc",
    show_default=True,
    help="The policer: tc's action, or nft's limit, for kernels without act_police.",
)
def tc(
    scenario: str,
    overrides: tuple[str, ...],
    devices: tuple[str, ...],
    police: Literal["tc", "nft"],
) -> int:
    """Print the commands that configure policies on Linux routers.

    SCENARIO is a file, or a name that `perhop list` prints.

    Prints commands of tc, nft and ip for each node, with comments. If Linux cannot express a part
    of the scenario, names the part and prints no commands.
    """
    from perhop import gallery, linux
    from perhop.errors import UsageError
    from perhop.hints import did_you_mean

    loaded = gallery.load(scenario, overrides=overrides)
    named = dict(device.partition("=")[::2] for device in devices)
    for link, name in named.items():
        if link not in loaded.directions:
            hint = did_you_mean(link, loaded.directions) or "expected LINK=NAME such as r1>r2=eth1"
            raise UsageError(f"--device {link}={name}: there is no such link; {hint}")
    found = linux.mapping(loaded, devices=named, police=police)
    linux.refuse(found.gaps, loaded.name)
    click.echo(linux.script(loaded, found), nl=False)
    return 0
