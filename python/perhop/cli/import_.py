"""`perhop import`: a router's configuration as a scenario."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import click

from perhop.cli import options
from perhop.cli.output import document, echo
from perhop.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from perhop.routers.reading import Configuration
    from perhop.routers.scenario import Imported

__all__ = ["import_"]


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--family",
    metavar="NAME",
    help="The family of the configuration: ios, junos, altq, linux or vyos; detected by default.",
)
@click.option(
    "--interface",
    metavar="NAME",
    help="The interface, such as Gi0/1; by default the first with a policy.",
)
@options.direction
@options.rate
@click.option(
    "--out",
    type=click.Path(),
    callback=options.as_folder,
    metavar="FILE",
    help="Write the scenario into this file, which must not exist.",
)
@click.option("--run", "runs", is_flag=True, help="Run the scenario, and report the results.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def import_(
    files: tuple[str, ...],
    family: str | None,
    interface: str | None,
    direction: Literal["in", "out"] | None,
    rate: str | None,
    out: Path | None,
    runs: bool,
    as_json: bool,
) -> int:
    """Read the configuration of a router as a scenario.

    FILE is a configuration of Cisco IOS or IOS-XE, Junos, ALTQ, pf or VyOS, or a script or JSON of
    tc and nft; several files are one configuration.

    Prints the lines about quality of service that are approximated or not modelled, with the
    reasons, and the defaults of the platform that apply. The scenario has one policy of the
    configuration, in a small network with a flow for each class.
    """
    from perhop.routers import scenario
    from perhop.routers.reading import detect

    speed = options.rate_of(rate)
    configuration = detect.read_at(speed, files, family, interface=interface, direction=direction)
    wanted = (interface, direction, rate, out, runs) != (None, None, None, None, False)
    imported, why = None, ""
    if wanted or configuration.attachments:
        try:
            imported = scenario.around(configuration, files[0], interface, direction, speed)
        except UsageError as error:
            # Without a rate there is no scenario; the summary does not need one.
            if wanted:
                if not (as_json or configuration.attachments):
                    # What is not modelled says why no policy is left.
                    for line in _summary(configuration, None, files, None, runs, ""):
                        echo(line)
                raise
            why = str(error)
    loaded = None if imported is None or not (out or runs) else imported.scenario()
    if loaded is not None and out is not None:
        from perhop.scenario import dump

        _write(out, dump(loaded))
    found = _object(configuration, imported)
    if not as_json:
        for line in _summary(configuration, imported, files, out, runs, why):
            echo(line)
    if loaded is not None and runs:
        from perhop.cli.run import execute, exit_code, print_tables, summarised

        dataset, folder = execute(loaded)
        if as_json:
            found |= {"run": summarised(dataset, folder)}
        else:
            echo()
            print_tables(dataset, folder)
    if as_json:
        document(json.dumps(found, indent=2, allow_nan=False))
    return exit_code(dataset) if loaded is not None and runs else 0


def _write(out: Path, text: str) -> None:
    """Write a scenario into a file that does not exist yet."""
    from perhop.errors import OutputError

    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"cannot write {out}: {reason}; give another file") from error


def _object(configuration: Configuration, imported: Imported | None) -> dict[str, Any]:
    """Return a configuration, and the scenario of it, as an object of JSON types."""
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
        "scenario": None if imported is None else imported.document.data,
        "flows": {} if imported is None else {n: "/".join(p) for n, p in imported.flows.items()},
        "remarks": [] if imported is None else list(imported.remarks),
    }


def _defaults(configuration: Configuration) -> Iterator[str]:
    """Yield the defaults of the platform, each once with all lines of a file that have it."""
    lines: dict[tuple[str, str], dict[int, None]] = {}
    for each in configuration.defaults:
        said = f"{each.setting} {each.value} ({each.source})"
        lines.setdefault((each.place.file, said), {})[each.place.line] = None
    for (file, said), numbers in lines.items():
        known = ", ".join(str(number) for number in numbers if number)
        yield f"{file}{':' if known else ''}{known}: {said}"


def _summary(
    configuration: Configuration,
    imported: Imported | None,
    files: tuple[str, ...],
    out: Path | None,
    runs: bool,
    why: str,
) -> Iterator[str]:
    """Yield the lines of the summary of a configuration."""
    from perhop.routers.reading import Treatment, described

    head = f"{' '.join(files)} ({configuration.family})"
    if not configuration.lines:
        yield f"{head}: no line is about quality of service"
        return
    counts = ", ".join(f"{configuration.counts[each]} {each.value}" for each in Treatment)
    number = len(configuration.lines)
    yield f"{head}: {number} line{'s'[: number != 1]} about quality of service: {counts}"
    parts = {
        treatment.value: [
            f"{line.place}: {line.text}: {line.note}"
            for line in configuration.lines
            if line.treatment is treatment
        ]
        for treatment in (Treatment.APPROXIMATED, Treatment.NOT_MODELLED)
    }
    parts["defaults of the platform"] = list(_defaults(configuration))
    parts["policies"] = [described(each) for each in configuration.attachments] or ["none"]
    if imported is not None:
        parts["scenario"] = [described(imported.attachment), *imported.remarks]
    for title, lines in parts.items():
        if lines:
            yield ""
            yield f"{title}:"
            yield from (f"  {line}" for line in lines)
    if out is not None:
        yield ""
        yield f"{out}"
    elif imported is not None and not runs:
        yield ""
        yield "--out FILE writes the scenario; --run runs it"
    elif imported is None and configuration.attachments:
        yield ""
        unknown = not why or "does not tell the rate" in why
        needs = "--rate RATE gives the rate of the interface, which a scenario needs"
        yield needs if unknown else f"no scenario: {why}"
