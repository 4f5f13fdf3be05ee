"""`perhop new`: a commented scenario of a usual network."""

from __future__ import annotations

from pathlib import Path

import click

from perhop.cli import options
from perhop.cli.output import echo

__all__ = ["new"]


class _Templates(click.Command):
    """A command whose help lists the templates."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and descriptions of the templates."""
        from perhop import templates

        del ctx
        with formatter.section("Templates"):
            formatter.write_dl(list(templates.descriptions().items()))


def _templates() -> tuple[str, ...]:
    from perhop import templates

    return templates.names()


@click.command(cls=_Templates)
@click.argument("template", required=False, shell_complete=options.among(found=_templates))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The new file; TEMPLATE.yaml unless set. An existing file is an error.",
)
def new(template: str | None, out: Path | None) -> int:
    """Write a commented scenario to start from."""
    from perhop import templates
    from perhop.errors import UsageError

    if template is None:
        there = ", ".join(templates.names())
        raise UsageError(f"name a template, as in `perhop new dsl`; there are {there}")

    path = out or Path(f"{template}.yaml")
    templates.write(template, path)
    echo(f"{path}: run it by `perhop run {path}`")
    return 0
