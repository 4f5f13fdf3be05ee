"""`perhop lint`: faults in configurations of routers and in scenarios."""

from __future__ import annotations

import click

from perhop.cli import options
from perhop.cli.output import document

__all__ = ["lint"]


@click.command()
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option(
    "--family",
    metavar="NAME",
    help="The family of the configurations: ios, junos, altq, linux or vyos. Detected by default.",
)
@click.option(
    "--rtt",
    "rtts",
    multiple=True,
    metavar="TIME",
    help="A round-trip time of paths across the router, such as '20 ms'. Repeatable. By default "
    "10, 50 and 100 ms; for scenarios, those of its flows.",
)
@click.option(
    "--untrusted",
    multiple=True,
    metavar="INTERFACE",
    help="An interface whose senders may set any DSCP, such as 'Gi0/1' or 'ge-0/0/*'. Repeatable.",
)
@click.option("--ignore", multiple=True, metavar="RULE", help="Switch a rule off. Repeatable.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note", "never"]),
    default="error",
    show_default=True,
    help="Exit with code 1 if there is a finding of this severity or above.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "sarif", "github", "json"]),
    default="text",
    show_default=True,
    help="The output: text, a SARIF 2.1.0 log, annotations of GitHub Actions, or JSON.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--rules", is_flag=True, help="Print the reference of all rules as Markdown.")
def lint(
    files: tuple[str, ...],
    family: str | None,
    rtts: tuple[str, ...],
    untrusted: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: str,
    form: str,
    as_json: bool,
    rules: bool,
) -> int:
    """Find faults in configurations of routers and in scenarios.

    Each FILE is a configuration of any family, a scenario, or a name that `perhop list` prints.
    Several configurations are judged as one network. Each finding has its line, its effect and a
    fix; docs/lint.md describes all rules. A comment `perhop-lint: ignore RULE` anywhere in a file
    switches a rule off for that file.
    """
    from importlib.metadata import version

    from perhop.errors import UsageError
    from perhop.routers import lint as linter
    from perhop.units import parse_duration

    if rules:
        document(linter.reference())
        return 0
    if not files:
        raise UsageError("expected a configuration or a scenario; `perhop lint --help` has all")
    times = [
        options.above_zero("--rtt", text, parse_duration, "a round-trip time", "20 ms")
        for text in rtts
    ]
    found = linter.lint(
        files,
        family=family,
        rtts=times,
        untrusted=untrusted,
        ignore=[linter.rule(name).name for name in ignore],
    )
    match "json" if as_json else form:
        case "sarif":
            output = linter.as_sarif(found, version("perhop"))
        case "github":
            output = linter.as_github(found)
        case "json":
            output = linter.as_json(found)
        case _:
            output = linter.as_text(found)
    if output:
        document(output)
    if fail_on == "never":
        return 0
    least = linter.RANKS[linter.Severity(fail_on)]
    return int(any(linter.RANKS[finding.rule.severity] >= least for finding in found))
