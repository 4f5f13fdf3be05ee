"""`perhop doctor`: check the features of this host for each engine."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from perhop.cli import options
from perhop.cli.output import document, echo

__all__ = ["doctor"]


@click.command()
@click.argument("engine", required=False, shell_complete=options.among(*options.ENGINES))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def doctor(engine: str | None, as_json: bool) -> int:
    """Check what this host lacks for each engine.

    ENGINE is sim, emu (also for labs), kernel, or live, which checks what an agent on this host
    needs; all by default.

    Prints what each engine needs, what was found, and what to do. With ENGINE the exit code is 3 if
    that engine cannot run here.
    """
    from perhop import doctor

    checks = doctor.examine(None if engine is None else [engine])
    if as_json:
        subjects = dict.fromkeys(each.engine for each in checks)
        found = {
            name: doctor.runs(each for each in checks if each.engine == name) for name in subjects
        }
        result = {"runs": found, "checks": [asdict(each) for each in checks]}
        document(json.dumps(result, indent=2, allow_nan=False))
    else:
        for each in checks:
            echo(f"{each.engine:<6}  {each.state:<7}  {each.need}: {each.found}")
            if each.remedy:
                echo(f"{'':<17}what to do: {each.remedy}")
    return 0 if engine is None or doctor.runs(checks) else 3
