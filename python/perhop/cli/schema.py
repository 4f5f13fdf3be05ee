"""`perhop schema`: the JSON Schema of scenario files."""

from __future__ import annotations

import json

import click

from perhop.cli.output import document

__all__ = ["schema"]


@click.command()
def schema() -> int:
    """Print the JSON Schema of scenarios.

    Editors can complete and check scenario files with it.
    """
    from perhop.scenario import json_schema

    document(json.dumps(json_schema(), indent=2))
    return 0
