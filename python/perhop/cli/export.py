"""`perhop export` and `perhop tc`: a scenario's policies as configurations of routers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.linux import Gap
    from perhop.routers.writing import Family

__all__ = ["export", "tc"]

_OVERRIDES = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a value first, such as links.1.rate='5 Mbps'. Repeatable.",
)
_POLICE = click.option(
    "--police",
    type=click.Choice(["tc", "nft"]),
    default="tc",
    show_default=True,
    help="On Linux, the policer: tc's action, or nft's limit, for kernels without act_police.",
)


@click.command()
@click.argument("scenario")
@click.option(
    "--to",
    "family",
    required=True,
    type=click.Choice(["ios", "junos", "tc", "altq", "pf"]),
    help="The family of the routers.",
)
@click.option(
    "--link",
    "links",
    multiple=True,
    metavar="LINK",
    help="Write only r1's end of a link, 'r1>r2'. Repeatable.",
)
@click.option(
    "--interface",
    "interfaces",
    multiple=True,
    metavar="LINK=NAME",
    help="The interface at r1's end of a link, 'r1>r2'. Repeatable.",
)
@click.option(
    "--approximate",
    is_flag=True,
    help="Write approximations, each with a comment, where the family has nothing equal.",
)
@click.option("--out", type=click.Path(), metavar="FILE", help="Write a file; default: print.")
@_OVERRIDES
@_POLICE
def export(
    scenario: str,
    family: Family,
    links: tuple[str, ...],
    interfaces: tuple[str, ...],
    approximate: bool,
    out: str | None,
    overrides: tuple[str, ...],
    police: Literal["tc", "nft"],
) -> int:
    """Write the policies of a scenario as the configuration of routers.

    SCENARIO is a file, or a name that `perhop list` prints.

    Covers policies, queues, shapers and marking at all routers. If the family cannot express a part
    of the scenario, names each such part and writes nothing.
    """
    text = _written(
        scenario, family, overrides, interfaces, police, links=links, approximate=approximate
    )
    if out is None:
        click.echo(text, nl=False)
    else:
        _save(text, out)
    return 0


@click.command()
@click.argument("scenario")
@_OVERRIDES
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="LINK=NAME",
    help="The interface at r1's end of a link, 'r1>r2', such as eth1. Repeatable.",
)
@_POLICE
def tc(
    scenario: str,
    overrides: tuple[str, ...],
    devices: tuple[str, ...],
    police: Literal["tc", "nft"],
) -> int:
    """Print the commands that configure policies on Linux routers.

    SCENARIO is a file, or a name that `perhop list` prints. The same as `perhop export --to tc`.

    Prints commands of tc, nft and ip for each node, with comments. If Linux cannot express a part
    of the scenario, names the part and prints no commands.
    """
    text = _written(scenario, "tc", overrides, devices, police)
    click.echo(text, nl=False)
    return 0


def _written(
    scenario: str,
    family: Family,
    overrides: Sequence[str],
    interfaces: Sequence[str],
    police: Literal["tc", "nft"],
    links: Sequence[str] = (),
    approximate: bool = False,
) -> str:
    """Return the configuration of a scenario's routers."""
    from dataclasses import replace

    from perhop import gallery
    from perhop.linux import refuse
    from perhop.routers.writing import FAMILIES, write

    loaded = gallery.load(scenario, overrides=overrides)
    named = dict(each.partition("=")[::2] for each in interfaces)
    text, gaps = write(
        loaded,
        family,
        links=links,
        interfaces=named,
        approximate=approximate,
        police=police,
    )
    places = gallery.locate(scenario, (gap.path for gap in gaps), overrides=overrides)
    placed: list[Gap] = [replace(gap, place=places[gap.path]) for gap in gaps]
    refuse(placed, loaded.name, f"{FAMILIES[family]} cannot express")
    return text


def _save(text: str, path: str) -> None:
    """Write a file."""
    from pathlib import Path

    from perhop.errors import OutputError

    try:
        Path(path).write_text(text, encoding="ascii")
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write {path}: {error}; give another file") from None
