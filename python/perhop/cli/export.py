"""`perhop export` and `perhop tc`: a scenario's policies as configurations of routers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from perhop.cli import options, pushing
from perhop.cli.output import document, echo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from perhop.linux import Gap
    from perhop.routers.reading import Configuration
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
@options.scenario
@click.option(
    "--to",
    "family",
    required=True,
    type=click.Choice(["ios", "junos", "vyos", "tc", "altq", "pf"]),
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
    "--from-interface",
    metavar="NAME",
    help="If SCENARIO is a configuration, the interface whose policy to write; default: the first.",
)
@options.rate
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
@pushing.options
def export(
    scenario: str,
    family: Family,
    links: Sequence[str],
    from_interface: str | None,
    rate: str | None,
    interfaces: tuple[str, ...],
    approximate: bool,
    out: str | None,
    overrides: tuple[str, ...],
    police: Literal["tc", "nft"],
    push: str | None,
    confirm: int,
    **pushed: Any,
) -> int:
    """Write policies of a scenario as configurations of routers.

    SCENARIO is a file, or a name that `perhop list` prints, or the configuration of a router of
    another family, of which one interface's policy is written.

    Covers policies, queues, shapers and marking at all routers. If the family cannot express a part
    of the scenario, names each such part and writes nothing.

    --push sets the policy on a router: the router checks it and shows the changes, commits them for
    a limited time, and keeps them if it then reads back this policy. Otherwise it undoes them.
    """
    links = pushing.links(push, family, links, interfaces, **pushed)
    text = _written(
        scenario,
        family,
        overrides,
        interfaces,
        police,
        links,
        approximate,
        from_interface,
        options.rate_of(rate),
    )
    if push is not None:
        return pushing.push(push, family, text, confirm=confirm, **pushed)
    if out is None:
        document(text, nl=False)
    else:
        _save(text, out)
    return 0


@click.command()
@options.scenario
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
    document(text, nl=False)
    return 0


def _written(
    scenario: str,
    family: Family,
    overrides: Sequence[str],
    interfaces: Sequence[str],
    police: Literal["tc", "nft"],
    links: Sequence[str] = (),
    approximate: bool = False,
    from_interface: str | None = None,
    rate: int | None = None,
) -> str:
    """Return the configuration of a scenario's routers."""
    from dataclasses import replace
    from functools import partial

    from perhop import gallery
    from perhop.cli.loading import is_configuration
    from perhop.errors import UsageError
    from perhop.linux import refuse
    from perhop.routers.writing import FAMILIES, write

    locate: Callable[[Iterable[str]], dict[str, str]]
    if is_configuration(scenario):
        from perhop.routers.scenario import build

        imported = build([scenario], interface=from_interface, direction="out", rate=rate)
        loaded, locate = imported.scenario(overrides), imported.places
        _warn(imported.configuration)
    elif from_interface is not None:
        raise UsageError(f"--from-interface: {scenario} is not the configuration of a router")
    else:
        options.no_rate(rate, scenario)
        loaded = gallery.load(scenario, overrides=overrides)
        locate = partial(gallery.locate, scenario, overrides=overrides)
    text, gaps = write(
        loaded,
        family,
        links=links,
        interfaces=dict(each.partition("=")[::2] for each in interfaces),
        approximate=approximate,
        police=police,
    )
    places = locate(gap.path for gap in gaps)
    placed: list[Gap] = [replace(gap, place=places[gap.path]) for gap in gaps]
    refuse(placed, loaded.name, f"{FAMILIES[family]} cannot express")
    return text


def _warn(configuration: Configuration) -> None:
    """Print the lines of a configuration that the written one does not have, or not exactly."""
    from perhop.routers.reading import Treatment

    for line in configuration.lines:
        if line.treatment is not Treatment.MODELLED:
            said = f"{line.place}: {line.text}: {line.treatment.value}: {line.note}"
            echo(f"perhop: warning: {said}", err=True)


def _save(text: str, path: str) -> None:
    """Write a file."""
    from pathlib import Path

    from perhop.errors import OutputError

    try:
        Path(path).write_text(text, encoding="ascii")
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write {path}: {error}; give another file") from None
