"""Datasets changed at random: an error that names what is wrong, or tables and a page.

`changed` and `told` change tables in memory; `damaged` and `shown` change the files of a folder and
read them by commands. `python -m fuzzing.datasets --cases 1000 --seed 1` gives so many damaged
folders to the commands that read datasets, in one process; findings stay in `runs/fuzz/datasets`.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import io
import json
import math
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import polars as pl

import perhop
from fuzzing.running import FOUND
from perhop import report
from perhop.analysis import summary
from perhop.cli import main
from perhop.dataset import TABLES, Dataset
from perhop.scenario import parse

RICH: Final = """
perhop: 1
name: all
nodes: {a: host, b: host, r: router}
links:
  - {ends: [a, r], rate: 10 Mbps, delay: 1 ms}
  - {ends: [r, b], rate: 1 Mbps, delay: 1 ms, egress: {r: p}}
policies:
  p:
    classes:
      ef: {match: {dscp: ef}, bandwidth: 20%}
      rest: {match: any, bandwidth: 80%}
flows:
  f: {from: a, to: b, udp: {rate: 500 kbps}, dscp: ef, stop: 2 s}
  v: {from: a, to: b, voice: {codec: g711}, stop: 2 s}
  g: {from: a, to: b, tcp: {}, stop: 2 s}
pings: {p: {from: a, to: b, every: 50 ms, stop: 2 s}}
report: {interval: 100 ms}
"""

EXPECTING: Final = """
perhop: 1
name: expecting
nodes: {server: host, ap: router, hub: router, near: host}
channels: {home: {wifi: {}}}
links:
  - {ends: [server, ap], rate: 5 Mbps, delay: 5 ms, queue: {limit: 20 packets}, loss: 1%}
  - {ends: [ap, near], rate: 6.5 Mbps, channel: home}
  - {ends: [server, hub], rate: 100 Mbps}
  - {ends: [hub, ap], rate: 50 Mbps, delay: 1 s}
tunnels: {vpn: {ends: [server, ap], overhead: 60 B}}
flows:
  down: {from: server, to: near, streams: 2, start: 1 s, stop: 3 s}
  later: {from: server, to: near, start: 2 s, quic: {}}
  probes: {from: server, to: near, start: 1 s, rpc: {every: 50 ms, connections: new}}
  calls: {from: near, to: server, voice: {codec: g711}, start: 1 s, stop: 2 s}
pings: {icmp: {from: near, to: server, every: 50 ms}}
duration: 3 s
report: {interval: 100 ms}
expect:
  - {rpm: [probes, down], during: 1 s..3 s, at_least: 10}
  - {bufferbloat: icmp, during: 1 s..3 s, at_most: 3 s}
  - {backlog_max: server>ap, at_most: 1 MB}
  - {drops: server>ap, at_least: 0}
  - {ratio: [down, later], at_least: 0.1, during: 2 s..3 s}
  - {ratio: [down, later], of: srtt_p95, at_most: 10}
  - {fairness: [down, later], at_least: 1%}
  - {tunnel_loss: vpn, at_most: 50%}
  - {tunnel_overhead: vpn, at_most: 90%}
"""

NUMBERS: Final = (
    *(None, 0.0, -0.0, -1.0, 1.5, 1e-300, 5e-324, 1e9, 1e12, 1e15, 1e18, 9.2e18, 1e19, 1e30, 1e200),
    *(1.7e308, math.nan, math.inf, -math.inf),
)
COUNTS: Final = (
    *(None, 0, -1, 1, 63, 64, 255, 65_536, 2**31 - 1, 2**31, 2**53, 2**53 + 1, 10**18, 2**62),
    *(2**63 - 1, -(2**63)),
)
WORDS: Final = (None, "", "unknown", "\x1b[2J", "x" * 10_000, "\u202e", "<b>", "null")


def changed(dataset: Dataset, rng: Random) -> tuple[str, dict[str, pl.DataFrame]]:
    """Return a change in words, and the tables of a dataset with it."""
    tables = {name: getattr(dataset, name) for name in TABLES}
    said = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        name = rng.choice([name for name in TABLES if tables[name].width])
        table = tables[name]
        column = rng.choice(table.columns)
        kind = rng.choice(
            (
                *("value", "value", "value", "all", "sort", "double", "cut", "drop", "type"),
                *("swap", "shift", "scale", "mix", "many", "none"),
            )
        )
        dtype = table.schema[column]
        words = WORDS if dtype == pl.String else NUMBERS if dtype.is_float() else COUNTS
        if dtype == pl.String and table.height and rng.random() < 0.5:
            words = tuple(table[column].unique())
        value = rng.choice(words)
        said.append(f"{name}.{column}: {kind} {value!r:.30}")
        try:
            if kind in ("value", "all") and table.height:
                values = table[column].to_list()
                for at in range(len(values)) if kind == "all" else [rng.randrange(len(values))]:
                    values[at] = value
                table = table.with_columns(pl.Series(column, values, dtype))
            elif kind == "sort":
                table = table.sort(column, descending=rng.random() < 0.5)
            elif kind == "double":
                table = pl.concat([table, table])
            elif kind == "cut":
                table = table.head(rng.randrange(table.height + 1))
            elif kind == "drop":
                table = table.drop(column)
            elif kind == "type":
                table = table.with_columns(pl.col(column).cast(rng.choice((pl.String, pl.Float32))))
            elif kind == "swap":
                other = rng.choice([each for each, its in table.schema.items() if its == dtype])
                table = table.with_columns(pl.col(other).alias(column), pl.col(column).alias(other))
            elif kind == "shift":
                table = table.with_columns(pl.col(column).shift(1).fill_null(strategy="backward"))
            elif kind == "scale" and dtype.is_numeric():
                factor = rng.choice((0, 2, 1000, 10**6, 10**9, 1e-3, 1e-9, 1e-15))
                table = table.with_columns((pl.col(column) * factor).cast(dtype))
            elif kind == "mix":
                table = table.with_columns(pl.col(column).shuffle(rng.randrange(1000)))
            elif kind == "many" and table.height:
                table = pl.concat([table] * 50)
            elif kind == "none":
                for each in rng.sample(list(TABLES), rng.randrange(len(TABLES))):
                    tables[each] = tables[each].clear()
                continue
        except (pl.exceptions.PolarsError, OverflowError, TypeError):
            continue  # no table can be so
        tables[name] = table
    return "; ".join(said), tables


def told(dataset: Dataset, tables: dict[str, pl.DataFrame]) -> str:
    """Read the tables as a dataset, and say all of it; or return why not."""
    try:
        mutant = Dataset(dataset.scenario, dataset.manifest, **tables)
    except ValueError as error:
        return str(error)
    json.dumps(summary(mutant), allow_nan=False)
    report.page(mutant)
    return ""


TEXTS: Final = ("[" * 100_000, '{"a":' * 50_000 + "1", "", "null", "[]", "\0", "\ufeff{}")
"""Files in place of a manifest; the first ones nest deeper than any stack."""

VALUES: Final = (
    *(None, 0, -1, 2**63, 10**400, 1e308, math.nan, math.inf, True, "", "9" * 5000, "1e999"),
    *("x\x1b[2J\nFORGED", "\ud800", [], {}, [[]], {"a": {"b": None}}),
)
"""Values in place of those of a manifest."""


def damaged(folder: Path, dataset: Dataset, rng: Random) -> str:
    """Damage a folder with a dataset, sign it as the run did, and return how in words."""
    said = _damaged(folder, dataset, rng)
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        return said  # a device has no end
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
        for table in folder.glob("*.parquet"):
            if table.stem in content["tables"] and table.is_file() and not table.is_symlink():
                content["tables"][table.stem] = hashlib.sha256(table.read_bytes()).hexdigest()
        manifest.write_text(json.dumps(content), encoding="utf-8")
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        pass  # the manifest itself is damaged
    return said


def _damaged(folder: Path, dataset: Dataset, rng: Random) -> str:
    tables = sorted(folder.glob("*.parquet"))
    table, manifest = rng.choice(tables), folder / "manifest.json"
    kind = rng.choice(
        ("value", "value", "text", "bytes", "cut", "flip", "tables", "dtype", "file", "column")
    )
    match kind:
        case "value":
            return _with_another_value(manifest, rng)
        case "text":
            text = rng.choice(TEXTS)
            manifest.write_text(text, encoding="utf-8")
            return f"manifest.json: {text!r:.20}"
        case "bytes":
            content = bytearray(manifest.read_bytes())
            at = rng.randrange(len(content))
            content[at : at + rng.choice((0, 1, 4))] = rng.choice(
                (b"", b"\0", b"{", b'"', b"\xff", b"9" * 20, b"e")
            )
            manifest.write_bytes(content)
        case "cut" | "flip":
            content = bytearray(table.read_bytes())
            if kind == "cut":
                content = content[: rng.randrange(len(content))]
            else:
                footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
                for _ in range(rng.choice((1, 1, 2, 5))):
                    at = rng.randrange(rng.choice((0, footer)), len(content))
                    content[at] = rng.choice((0, 1, 127, 128, 255, content[at] ^ 1))
            table.write_bytes(content)
        case "tables":
            said, changed_tables = changed(dataset, rng)
            for name, frame in changed_tables.items():
                frame.write_parquet(folder / f"{name}.parquet")
            return said
        case "dtype" | "column":
            frame = pl.read_parquet(table)
            column = rng.choice(frame.columns)
            if kind == "column":
                frame = rng.choice(
                    (
                        frame.drop(column),
                        frame.rename({column: "x\x1b\n"}),
                        frame.with_columns(pl.lit(1).alias("more")),
                    )
                )
            else:
                other = rng.choice(
                    (
                        *(pl.lit(None), pl.lit(b"x"), pl.lit(True), pl.struct(pl.all())),
                        *(pl.lit([[1]]), pl.lit(0).cast(pl.Datetime)),
                        *(pl.lit(2**64 - 1, pl.UInt64), pl.lit(1).cast(pl.Decimal(30, 2))),
                    )
                )
                frame = frame.with_columns(other.alias(column))
            frame.write_parquet(table)
            return f"{table.name}.{column}: {kind}"
        case "file":
            file = rng.choice((*tables, manifest))
            file.unlink()
            match rng.choice(("none", "folder", "empty", "loop", "device")):
                case "folder":
                    file.mkdir()
                case "empty":
                    file.touch()
                case "loop":
                    file.symlink_to(file.name)
                case "device":
                    file.symlink_to("/dev/zero")
            return f"{file.name} is none"
    return f"{kind} of {table.name} or the manifest"


def _with_another_value(manifest: Path, rng: Random) -> str:
    content = json.loads(manifest.read_text(encoding="utf-8"))
    path = rng.choice([path for path in _paths(content) if path])
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    value = rng.choice(VALUES)
    if rng.random() < 0.15:
        inner.pop(path[-1])
    else:
        inner[path[-1]] = value
    manifest.write_text(json.dumps(content), encoding="utf-8")
    return f"manifest.json: {path} = {value!r:.30}"


def _paths(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the paths of all values inside a JSON value."""
    inner: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(each for key, more in inner for each in _paths(more, (*path, key)))]


class Shown(NamedTuple):
    """The answer of a command: its exit code and what it printed."""

    code: int
    printed: str


def shown(*command: str) -> Shown:
    """Run a command that reads a damaged dataset; return its exit code, 0 to 2, and its text.

    Raises:
        AssertionError: It ends in another way, or prints what is no line of printable text.
    """
    out, err = io.StringIO(), io.StringIO()
    code: object = None
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            main(command)
        except SystemExit as ended:
            code = ended.code
    printed = out.getvalue() + err.getvalue()
    assert code in (0, 1, 2) and "Traceback" not in printed, (command, code, printed)
    assert all(char.isprintable() or char in "\n\t" for char in printed), (command, printed)
    assert isinstance(code, int)
    return Shown(code, printed)


SLOW_S: Final = 20.0
"""A command that takes more CPU time than this is a finding."""

HANGS_S: Final = 120.0
"""A command that takes more CPU time than this ends the process, with the stack of each thread."""

COMMANDS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "report": (
        *3 * (("report", "BAD", "--out", "OUT"),),
        ("report", "BAD", "--out", "OUT", "--chart", "all", "--format", "svg"),
        ("report", "BAD", "--out", "OUT", "--chart", "all", "--format", "csv"),
        ("report", "BAD", "--list-charts"),
    ),
    "compare": (
        *(("compare", "GOOD", "BAD"), ("compare", "BAD", "GOOD", "--json")),
        ("compare", "GOOD", "BAD", "BAD", "--out", "OUT"),
    ),
    "runs": (("runs", "RUNS"), ("runs", "RUNS", "--json")),
}
"""The commands that read datasets, in several ways each."""


def run(name: str, cases: int, rng: Random) -> int:
    """Give so many damaged folders to a command; return the number of different findings."""
    whole = [perhop.run(parse(text)) for text in (RICH, EXPECTING)]
    faulthandler.register(signal.SIGPROF, chain=True)
    known: set[str] = set()
    codes = [0, 0, 0]
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        good = [each.write(Path(folder, each.scenario.name)) for each in whole]
        for number in range(cases):
            at = rng.randrange(len(whole))
            runs, out = Path(folder, "runs"), Path(folder, "out")
            for each in (runs, out):
                shutil.rmtree(each, ignore_errors=True)
            bad = runs / "bad"
            shutil.copytree(str(good[at]), bad)
            seed = rng.getrandbits(32)
            said = damaged(bad, whole[at], Random(seed))
            names = {"BAD": bad, "GOOD": good[at], "OUT": out, "RUNS": runs}
            command = [str(names.get(each, each)) for each in rng.choice(COMMANDS[name])]
            _note(f"{number}: seed {seed}, {whole[at].scenario.name}: {said}\n{command}")
            signal.setitimer(signal.ITIMER_PROF, HANGS_S)
            began = time.process_time()
            failure = ""
            try:
                answer = shown(*command)
                codes[answer.code] += 1
                if answer.code == 2 and not _names_the_place(answer.printed):
                    failure = f"no place\n{answer.printed}"
            except Exception:
                failure = traceback.format_exc(limit=-12)
            took = time.process_time() - began
            slowest = max(slowest, took)
            if took > SLOW_S:
                failure = failure or f"slow\n{took:.1f} s"
            if failure:
                _keep(failure, f"{said}\n{command}", bad, known)
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    print(
        f"{name}: {cases:,} cases; exit codes 0, 1, 2: {codes}; {len(known)} findings, slowest "
        f"{slowest:.1f} s",
        flush=True,
    )
    return len(known)


_PLACES: Final = re.compile(
    r"column \S+ of table \w|table \w+ (lacks|has) |\w+\.parquet|manifest\.json|of format"
    r"|is damaged: \S+: "
)


def _names_the_place(printed: str) -> bool:
    """Return whether an error names the table and column, the file, or the manifest's key."""
    return _PLACES.search(printed) is not None


def _note(text: str) -> None:
    """Write down the present case, so that it is there whatever happens."""
    folder = FOUND / "datasets"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"present-{os.getpid()}.txt").write_text(text, errors="replace")


def _keep(failure: str, text: str, bad: Path, known: set[str]) -> None:
    """Keep a folder that fails, unless another one fails in the same line."""
    frames = [line.strip() for line in failure.split("\n") if line.lstrip().startswith("File ")]
    digits = re.sub(r"\d+", "", failure.strip().split("\n")[-1])
    key = f"{frames[-1] if frames else ''} {digits[:60]}"
    if key in known:
        return
    known.add(key)
    target = FOUND / "datasets" / hashlib.sha256(key.encode()).hexdigest()[:8]
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(bad, target, symlinks=True)
    target.with_suffix(".txt").write_text(f"{text}\n{failure}", errors="replace")
    print(f"{text}\n{failure}", flush=True)


def _main() -> int:
    """Run; 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzzing.datasets")
    parser.add_argument("--cases", type=int, default=1000, help="for each command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", choices=COMMANDS, help="a command")
    given = parser.parse_args()
    rng = Random(given.seed)
    findings = sum(run(name, given.cases, rng) for name in given.only or COMMANDS)
    return min(findings, 1)


if __name__ == "__main__":
    sys.exit(_main())
