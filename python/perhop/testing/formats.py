"""Results of tests as other programs read them: JUnit's XML, and annotations of GitHub."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

from perhop.errors import ScenarioError
from perhop.printable import printable_lines as clean
from perhop.report.text import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from perhop.analysis import EnsembleVerdict
    from perhop.errors import PerhopError
    from perhop.report import Table
    from perhop.testing import Result

__all__ = ["junit", "plain", "result", "workflow_commands"]


def result(verdict: EnsembleVerdict) -> str:
    """Return a verdict in one line: `fails: 3.2 Mb/s, of 20 runs 3.1 Mb/s to 3.4 Mb/s`."""
    value = quantity(verdict.median, verdict.unit)
    if verdict.runs > 1:
        ends = (quantity(end, verdict.unit) for end in (verdict.low, verdict.high))
        value += f" (95% interval of {verdict.runs} runs: {' to '.join(ends)})"
    return f"{verdict.state}: {verdict.text}; measured {value}"


def junit(tested: Sequence[Result]) -> str:
    """Return results as the XML of JUnit: a suite for each file, a case for each expectation."""
    root = ElementTree.Element("testsuites", name="perhop")
    for each in tested:
        failed = [verdict for verdict in each.verdicts if verdict.state != "holds"]
        counts = {
            "tests": str(len(each.verdicts) or 1),
            "failures": str(len(failed)),
            "errors": str(int(each.error is not None)),
        }
        suite = ElementTree.SubElement(root, "testsuite", {"name": clean(each.file), **counts})
        if each.error is not None:
            case = ElementTree.SubElement(
                suite, "testcase", classname=clean(each.file), name="runs"
            )
            kind = type(each.error).__name__
            ElementTree.SubElement(case, "error", type=kind, message=clean(str(each.error)))
        for verdict, place in zip(each.verdicts, each.places, strict=True):
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=clean(each.file),
                name=clean(verdict.text),
                file=clean(place.file),
                line=str(place.line),
            )
            if verdict.state != "holds":
                message = clean(result(verdict))
                ElementTree.SubElement(case, "failure", type=verdict.state, message=message)
        if each.warnings:
            ElementTree.SubElement(suite, "system-err").text = clean("\n".join(each.warnings))
    ElementTree.indent(root)
    return ElementTree.tostring(root, "unicode", xml_declaration=True) + "\n"


def workflow_commands(tested: Iterable[Result]) -> Iterator[str]:
    """Yield the commands by which a workflow of GitHub shows results at their lines."""
    for each in tested:
        if each.error is not None:
            yield from _error_commands(each.file, each.error)
        for verdict, place in zip(each.verdicts, each.places, strict=True):
            if verdict.state != "holds":
                yield _command("error", result(verdict), place.file, place.line, place.column)
        for warning in each.warnings:
            yield _command("warning", warning, each.file)


def _error_commands(file: str, error: PerhopError) -> Iterator[str]:
    """Yield the commands for an error: one for each problem of a scenario."""
    if not isinstance(error, ScenarioError):
        yield _command("error", str(error), file)
        return
    for problem in error.problems:
        said = ": ".join(part for part in (problem.path, problem.message) if part)
        said = f"{said}; {problem.hint}" if problem.hint else said
        yield _command("error", said, problem.file or file, problem.line, problem.column)


def _command(kind: str, message: str, file: str, line: int = 0, column: int = 0) -> str:
    """Return a workflow command; its values are escaped as those of GitHub's toolkit are."""
    values = {"file": file, "line": line or None, "col": column or None, "title": "perhop"}
    given = (
        (key, _escaped(clean(str(value)), _ENDS + ":,")) for key, value in values.items() if value
    )
    return f"::{kind} {','.join(map('='.join, given))}::{_escaped(clean(message), _ENDS)}"


_ENDS: Final = "%\r\n"
"""Characters that would end a command, and the one that escapes them."""


def _escaped(text: str, special: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in special else char for char in text)


def plain(table: Table) -> str:
    """Return a table as lines of text."""
    rows = [tuple(column.name for column in table.columns), *table.rows]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, table.note] if table.note else lines)
