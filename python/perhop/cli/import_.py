"""`perhop import`: a router's configuration as a scenario."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.routers.reading import Configuration

__all__ = ["import_"]


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--family",
    metavar="NAME",
    help="The family of the configuration: ios, junos, altq, linux or vyos; detected by default.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def import_(files: tuple[str, ...], family: str | None, as_json: bool) -> int:
    """Read the configuration of a router.

    FILE is a configuration of Cisco IOS or IOS-XE, Junos, ALTQ, pf or VyOS, or a script or JSON of
    tc and nft; several files are one configuration.

    Prints the lines about quality of service that are approximated or not modelled, with the
    reasons, and the defaults of the platform that apply.
    """
    from perhop.routers.reading import detect

    configuration = detect.read(files, family)
    if as_json:
        click.echo(json.dumps(_object(configuration), indent=2, allow_nan=False))
        return 0
    for line in _summary(configuration, " ".join(files)):
        click.echo(line)
    return 0


def _object(configuration: Configuration) -> dict[str, object]:
    """Return a configuration as an object of JSON types."""
    from perhop.routers.reading import Treatment

    return {
        "family": configuration.family,
        "counts": {each.value: configuration.counts[each] for each in Treatment},
        "lines": [
            {
                "file": line.place.file,
                "line": line.place.line,
                "text": line.text,
                "treatment": line.treatment.value,
                "note": line.note,
            }
            for line in configuration.lines
        ],
        "defaults": [
            {
                "file": each.place.file,
                "line": each.place.line,
                "setting": each.setting,
                "value": each.value,
                "source": each.source,
            }
            for each in configuration.defaults
        ],
        "policies": [
            {
                "name": each.name,
                "interface": each.interface or None,
                "direction": each.direction,
                "rate_bps": each.rate,
                "shape": each.shape,
                "policy": each.policy,
            }
            for each in configuration.attachments
        ],
    }


def _summary(configuration: Configuration, files: str) -> Iterator[str]:
    """Yield the lines of the summary of a configuration."""
    from perhop.routers.reading import Treatment, described

    if not configuration.lines:
        yield f"{files} ({configuration.family}): no line is about quality of service"
        return
    counts = ", ".join(f"{configuration.counts[each]} {each.value}" for each in Treatment)
    yield (
        f"{files} ({configuration.family}): {len(configuration.lines)} lines about quality of "
        f"service: {counts}"
    )
    for treatment in (Treatment.APPROXIMATED, Treatment.NOT_MODELLED):
        chosen = [line for line in configuration.lines if line.treatment is treatment]
        if chosen:
            yield ""
            yield f"{treatment.value}:"
            yield from (f"  {line.place}: {line.text}: {line.note}" for line in chosen)
    if configuration.defaults:
        yield ""
        yield "defaults of the platform:"
        for each in configuration.defaults:
            yield f"  {each.place}: {each.setting} {each.value} ({each.source})"
    if configuration.attachments:
        yield ""
        yield "policies:"
        yield from (f"  {described(each)}" for each in configuration.attachments)
