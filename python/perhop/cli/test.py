"""`perhop test` and `perhop check`: tests of policies for continuous integration."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from perhop.cli import clusters, options
from perhop.cli.output import document, echo
from perhop.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.gallery import Source
    from perhop.testing import Result

__all__ = ["check", "test"]

_STDIN: Final = "-"
_PLURAL: Final = {"holds": "hold", "fails": "fail"}

_overrides = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a value of each first, such as flows.bulk.streams=10. Repeatable.",
)
_github = click.option(
    "--github", is_flag=True, help="Also print annotations for a workflow of GitHub."
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object only.")

_EXAMPLES = """\b
Examples:
  perhop test policies/*.yaml --seeds 20
  git show HEAD~1:policy.yaml | perhop test -
"""


@click.command(epilog=_EXAMPLES)
@options.scenarios
@options.engine
@click.option(
    "--seeds",
    type=int,
    help="The number of runs of each scenario, 1 or 6 to 1000; by default as its file says.",
)
@_overrides
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="The number of processes; by default one per core, and one with real hosts.",
)
@clusters.option
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="XML",
    help="Also write the results as the XML of JUnit.",
)
@_github
@_json
def test(
    scenarios: tuple[str, ...],
    engine: str,
    seeds: int | None,
    overrides: tuple[str, ...],
    jobs: int | None,
    cluster: str | None,
    junit: Path | None,
    github: bool,
    as_json: bool,
) -> int:
    """Run scenarios and check their expectations, on all cores.

    FILE is a scenario, a name that `perhop list` prints, or - for standard input. Nothing is saved.

    With several seeds, an expectation is about the median of all possible runs. It holds or fails
    if the 95% confidence interval of the median says so, and is undecided otherwise.

    The exit code is 0 if every expectation holds, 1 if one fails or is undecided, 2 if a file is
    wrong or has no expectations, and 3 if this machine cannot run one.
    """
    from perhop import rights

    if engine in rights.REAL_ENGINES:
        rights.enable()

    from perhop import testing
    from perhop.cli.progress import counting
    from perhop.testing import formats

    sources, tested = _read(scenarios)
    if sources:
        with clusters.connected(cluster, jobs, engine) as pool, counting("test") as watch:
            tested += testing.run(
                sources,
                seeds=seeds,
                engine=engine,
                overrides=overrides,
                jobs=jobs,
                cluster=pool,
                watch=watch,
            )
    if junit is not None:
        _write(junit, formats.junit(tested))
    if as_json:
        document(json.dumps({"files": [_as_json(each) for each in tested]}, indent=2))
    else:
        _show(tested)
    if github:
        for line in formats.workflow_commands(tested):
            echo(line, err=as_json)
    return max(each.exit_code for each in tested)


@click.command()
@options.scenarios
@_overrides
@_github
def check(scenarios: tuple[str, ...], overrides: tuple[str, ...], github: bool) -> int:
    """Check scenarios without running them.

    FILE is a scenario, a name that `perhop list` prints, or - for standard input. Prints every
    problem with its place, and the warnings that a run would have. The exit code is 0, or 2 if a
    file is wrong.
    """
    from perhop import testing
    from perhop.testing import formats

    sources, checked = _read(scenarios)
    for source in sources:
        result = testing.check(source, overrides)
        checked.append(result)
        if result.error is None:
            echo(f"{source.filename}: is valid")
    for each in checked:
        _warn(each)
        if each.error is not None:
            _show_error(each.error)
    for line in formats.workflow_commands(checked) if github else ():
        echo(line)
    return max((each.exit_code for each in checked), default=0)


def _read(names: Sequence[str]) -> tuple[list[Source], list[Result]]:
    """Return the texts of scenarios, and results for those that cannot be read."""
    from perhop import gallery
    from perhop.errors import PerhopError
    from perhop.testing import Result

    sources, wrong = [], []
    for name in dict.fromkeys(names):
        try:
            if name == _STDIN:
                sources.append(gallery.read_stream(sys.stdin.buffer, "<stdin>"))
            else:
                sources.append(gallery.read(name))
        except PerhopError as error:
            wrong.append(Result(name, error=error))
    return sources, wrong


def _write(path: Path, text: str) -> None:
    from perhop.errors import OutputError

    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; give another --junit") from error


def _warn(checked: Result) -> None:
    """Print the warnings about a file."""
    for warning in checked.warnings:
        echo(f"perhop: warning: {checked.file}: {warning}", err=True)


def _show(tested: Sequence[Result]) -> None:
    """Print a line for each file, a table for those that fail, and a summary."""
    from perhop.cli.render import print_table
    from perhop.report import ensemble_table

    states: Counter[str] = Counter()
    for each in tested:
        _warn(each)
        if each.error is not None:
            echo(f"ERROR {each.file}")
            _show_error(each.error)
            continue
        states.update(verdict.state for verdict in each.verdicts)
        held = sum(verdict.state == "holds" for verdict in each.verdicts)
        state = "FAIL " if each.exit_code else "ok   "
        echo(f"{state} {each.file}: {held} of {len(each.verdicts)} hold")
        if each.exit_code:
            print_table(ensemble_table(each.verdicts))
            echo()
    wrong = sum(each.error is not None for each in tested)
    parts = [
        f"{count} {state if count == 1 else _PLURAL.get(state, state)}"
        for state, count in states.items()
    ]
    parts += [f"{wrong} cannot run"] if wrong else []
    echo(f"{len(tested)} {'file' if len(tested) == 1 else 'files'}: {', '.join(parts)}")


def _as_json(tested: Result) -> dict[str, Any]:
    verdicts = [
        {**asdict(verdict), "line": place.line, "column": place.column}
        for verdict, place in zip(tested.verdicts, tested.places, strict=True)
    ]
    error = None if tested.error is None else str(tested.error)
    return {
        "file": tested.file,
        "exit_code": tested.exit_code,
        "runs": tested.runs,
        "expect": verdicts,
        "warnings": list(tested.warnings),
        "error": error,
    }


def _show_error(error: Exception) -> None:
    """Print an error; those of a scenario have a line for each problem."""
    show = document if isinstance(error, ScenarioError) else echo
    show(str(error), err=True)
