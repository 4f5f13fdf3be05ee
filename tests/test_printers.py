"""Hostile texts in all that is read, and every printer: nothing steers a terminal or forges a line.

Names have escape sequences, characters of C1, line ends, and those that turn the writing's
direction. They come in files' names, scenarios, configurations, counters, datasets and answers.
"""

import json
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import perhop
from conftest import SLOW, Outcome
from perhop import report
from perhop.dataset import Dataset
from perhop.displays import show
from perhop.errors import PerhopError
from perhop.printable import printable, printable_lines
from perhop.report.html import element
from perhop.scenario import dump, parse
from perhop.testing.formats import workflow_commands

HOSTILE = "x\x1b[2J\x1b]0;t\x07\x9b1A\x85\u202e\u2066\u2028\u200f\x7f\r\nFORGED: \x00"
NAME = HOSTILE.replace("\x00", "")
"""As a file's name, which has no NUL."""

SCENARIO = """
perhop: 1
name: line
title: TITLE
nodes: {a: host, b: host}
links: [{ends: [a, b], rate: 1 Mbps}]
flows: {f: {from: a, to: b, udp: {rate: 2 Mbps}, stop: 1 s}}
expect: [{throughput: f, at_least: 5 Mbps}]
"""


def scenario() -> str:
    return SCENARIO.replace("TITLE", json.dumps(HOSTILE))


def check(text: str, about: str = "") -> None:
    """See that a text is lines of printable characters, none of which a hostile name began."""
    for line in text.split("\n"):
        assert line.replace("\t", "").isprintable(), (about, line)
        assert not line.startswith("FORGED"), (about, text)


def checked(outcome: Outcome, about: str) -> Outcome:
    check(outcome.out, about)
    check(outcome.err, about)
    assert "this is a bug" not in outcome.err, (about, outcome.err)
    return outcome


def test_one_line_and_lines() -> None:
    assert printable("a\x1b[2J\u202e\nb é 日") == r"a\x1b[2J\u202e\nb é 日"
    assert printable_lines("a\x1b\n\tb\x9b\u2028c\r") == "a\\x1b\n\tb\\x9b\\u2028c\\r"
    assert printable("x" * 10, 5) == "xxxx…"


COMMANDS: list[tuple[str, ...]] = [
    ("run", "FILE"),
    ("run", "FILE", "--runs", "2"),
    ("test", "FILE"),
    ("test", "FILE", "--github"),
    ("check", "FILE"),
    ("lint", "FILE"),
    ("lint", "FILE", "--format", "github"),
    ("import", "FILE"),
    ("export", "FILE", "--to", "tc"),
    ("diff", "FILE", "FILE"),
    ("counters", "FILE", "FILE"),
    ("report", "FILE"),
    ("compare", "FILE", "FILE"),
    ("runs", "FILE"),
    ("sweep", "FILE", "--set", f"links.0.rate=1 Mbps,{HOSTILE}"),
    ("run", "FILE", "--set", f"{HOSTILE}=1"),
    ("run", "FILE", "--set", f"links.0.rate={HOSTILE}"),
    ("run", "FILE", "--engine", HOSTILE),
    ("crosscheck", "FILE", "--engines", f"sim,{HOSTILE}"),
    ("find", "FILE", "--set", HOSTILE),
    ("advise", "FILE"),
    ("path", HOSTILE),
    ("new", HOSTILE),
    ("lab", "status", HOSTILE),
    ("agent", "records", "FILE", "--out", "x"),
    (HOSTILE,),
    ("run", f"--{HOSTILE}"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command)[:30])
@pytest.mark.parametrize("content", ["scenario", "keys", "broken", "configuration", "counters"])
@pytest.mark.filterwarnings("ignore")
def test_commands_print_no_hostile_text(
    perhop: Callable[..., Outcome], tmp_path: Path, command: tuple[str, ...], content: str
) -> None:
    if content != "scenario" and "FILE" not in command:
        pytest.skip("the command reads no file")
    path = tmp_path / f"{NAME}.yaml"
    path.write_text(contents()[content])
    checked(perhop(*(str(path) if word == "FILE" else word for word in command)), content)


def contents() -> dict[str, str]:
    """Files by kind: those that are read, and those that are not."""
    quoted = json.dumps(HOSTILE)
    bare = HOSTILE.replace("\n", "\x0b").replace("\r", "")
    return {
        "scenario": scenario(),
        "keys": scenario() + f"{quoted}: {{{quoted}: {quoted}}}\n",
        "broken": scenario() + f"a: [{HOSTILE}\n",
        "configuration": (
            f"policy-map {bare}\n class {bare}\n  bandwidth {bare} 20\n  bandwidth percent 20\n"
            f"class-map match-any {bare}\n match dscp ef\n match {bare}\n"
            f"interface {bare}\n service-policy output {bare}\n description {bare}\n"
        ),
        "counters": (
            f" GigabitEthernet0/0{bare}\n\n  Service-policy output: {bare}\n\n"
            f"    Class-map: {bare} (match-any)\n      10 packets, 1000 bytes\n"
            f"      5 minute offered rate 0000 bps, drop rate 0000 bps\n      Match: dscp {bare}\n"
        ),
    }


@pytest.fixture(scope="module")
def whole() -> Dataset:
    return perhop.run(parse(scenario()))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    match value:
        case dict():
            for key, each in value.items():
                yield from leaves(each, (*path, key))
        case list():
            for at, each in enumerate(value):
                yield from leaves(each, (*path, at))
        case str() | None:
            yield path


@SLOW
@pytest.mark.filterwarnings("ignore")
def test_manifests_of_others_print_no_hostile_text(
    perhop: Callable[..., Outcome], tmp_path: Path, whole: Dataset
) -> None:
    folder = tmp_path / NAME
    whole.write(folder)
    place = folder / "manifest.json"
    original = json.loads(place.read_text())
    original.setdefault("warnings", []).append("w")
    paths = list(leaves(original))
    assert len(paths) > 10
    shown = 0
    for path in paths:
        manifest = json.loads(json.dumps(original))
        own: Any = manifest
        for key in path[:-1]:
            own = own[key]
        own[path[-1]] = f"{own[path[-1]] or ''}{HOSTILE}"
        place.write_text(json.dumps(manifest))
        outcome = checked(perhop("runs", str(tmp_path)), str(path))
        shown += outcome.code == 0
        checked(perhop("compare", str(folder), str(folder)), str(path))
        checked(perhop("report", str(folder), "--charts"), str(path))
    assert shown


@pytest.mark.filterwarnings("ignore")
def test_tables_of_others_print_no_hostile_text(
    perhop: Callable[..., Outcome], tmp_path: Path, whole: Dataset
) -> None:
    for table in ("intervals", "links", "queues"):
        folder = tmp_path / table
        whole.write(folder)
        file = folder / f"{table}.parquet"
        frame = pl.read_parquet(file)
        words = [name for name, kind in frame.schema.items() if kind == pl.String]
        for word in words:
            frame.with_columns(pl.lit(HOSTILE).alias(word)).write_parquet(file)
            checked(perhop("compare", str(folder), str(folder)), f"{table}.{word}")
            checked(perhop("report", str(folder), "--out", str(tmp_path / "p.html")), table)
            if (tmp_path / "p.html").exists():
                text = (tmp_path / "p.html").read_text()
                check(text.replace("\nFORGED", ""), f"{table}.{word}")
        frame.rename({words[0]: HOSTILE}).write_parquet(file)
        checked(perhop("compare", str(folder), str(folder)), table)


def test_pages_and_notebooks(whole: Dataset) -> None:
    # Line ends are spaces in HTML.
    check(report.page(whole).replace("\nFORGED", ""))
    for text in (
        show(HOSTILE, ([HOSTILE], [[HOSTILE]])),
        element("p", HOSTILE, title=HOSTILE),
        whole._repr_html_(),
    ):
        check(text.replace("\nFORGED", ""))


def test_json_is_ascii(perhop: Callable[..., Outcome], tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(scenario())
    for command in (("run", str(path), "--json"), ("test", str(path), "--json")):
        out = checked(perhop(*command), "json").out
        assert out.isascii()
        json.loads(out)


def test_a_scenario_that_is_written_is_read_again() -> None:
    """Files keep what they were given: YAML has escapes of its own."""
    written = dump(parse(scenario()))
    assert not set(written) & set("\x1b\x9b\x07\x7f\x00\r")
    assert parse(written).title == parse(scenario()).title


@pytest.mark.filterwarnings("always")
def test_a_bug_and_warnings_print_no_hostile_text(
    perhop: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    from perhop.cli import perhop as program

    command = program.commands["run"]

    def fail(*_: object, **__: object) -> None:
        warnings.warn(HOSTILE, stacklevel=1)
        raise ZeroDivisionError(HOSTILE)

    monkeypatch.setattr(command, "callback", fail)
    outcome = perhop("run", "x.yaml")
    assert outcome.code == 70
    check(outcome.err.replace("\nFORGED", "\n"))  # of the traceback
    assert "warning: x\\x1b" in outcome.err

    def refuse(*_: object, **__: object) -> None:
        raise PerhopError(HOSTILE)

    monkeypatch.setattr(command, "callback", refuse)
    check(perhop("run", "x.yaml").err.replace("\nFORGED", "\n"))


def test_every_printer_is_one_of_those_that_clean() -> None:
    """What is printed goes through `echo` or `print_table`; pages go through `element`."""
    root = Path(perhop.__file__).parent
    services = root.parents[1] / "services" / "perhop_services"
    direct = re.compile(r"click\.echo\(|sys\.std(out|err)\.write|html\.escape\(|(?<![.\w])print\(")
    allowed = {
        "cli/output.py": 1,  # `echo` itself
        "cli/render.py": 1,  # a table, whose cells are cleaned
        "cli/progress.py": 1,  # a line whose words are cleaned
        "cli/sweep.py": 1,  # the end of a line
        "report/html.py": 1,
        "displays.py": 1,
        "lab/process.py": 1,
        "lab/enter.py": 1,
    }
    for folder in (root, services):
        for file in folder.rglob("*.py"):
            name = str(file.relative_to(folder))
            found = len(direct.findall(file.read_text(encoding="utf-8")))
            assert found == allowed.get(name, 0), f"{name}: use `echo`, which cleans texts"


def test_logs_print_no_hostile_text() -> None:
    pytest.importorskip("perhop_services")
    from perhop_services.common.logs import Lines, fields

    try:
        raise ZeroDivisionError(HOSTILE)
    except ZeroDivisionError:
        error = sys.exc_info()
    record = logging.LogRecord("x", logging.ERROR, "x", 1, "said %s", (HOSTILE,), error)
    record.__dict__.update(fields(name=HOSTILE))
    for as_json in (False, True):
        line = Lines(as_json=as_json).format(record)
        check(line.replace("\nFORGED", "\n"))


def test_annotations_print_no_hostile_text() -> None:
    from perhop.testing import Result

    class Fake:
        file, verdicts, places = NAME, (), ()
        warnings = (HOSTILE,)
        error = PerhopError(HOSTILE)

    lines = list(workflow_commands([Fake()]))  # type: ignore[list-item]
    del Result
    assert len(lines) == 2
    for line in lines:
        assert line.isprintable(), line
