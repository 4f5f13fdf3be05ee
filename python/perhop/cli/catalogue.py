"""`perhop list`: the scenarios that come with perhop."""

from __future__ import annotations

import json

import click

from perhop.cli.output import document, echo

__all__ = ["list_"]


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def list_(as_json: bool) -> int:
    """List the published experiments that come with perhop."""
    from perhop import gallery

    scenarios = {name: gallery.load(name) for name in gallery.names()}
    if as_json:
        listed = {
            name: {"title": scenario.title, "source": scenario.source}
            for name, scenario in scenarios.items()
        }
        document(json.dumps(listed, indent=2))
        return 0
    width = max(map(len, scenarios))
    for name, scenario in scenarios.items():
        echo(f"{name:<{width}}  {scenario.title} ({scenario.source})")
    return 0
