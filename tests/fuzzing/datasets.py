"""Datasets changed at random: an error that names what is wrong, or tables and a page.

`changed` and `told` change tables in memory; `damaged` and `shown` change the files of a folder and
read them by commands.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import warnings
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Final

import polars as pl

from perhop import report
from perhop.analysis import summary
from perhop.cli import main
from perhop.dataset import TABLES, Dataset

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

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
            ("value", "value", "value", "all", "sort", "double", "cut", "drop", "type")
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


def shown(*command: str) -> int:
    """Run a command that reads a damaged dataset; return its exit code, 0 to 2.

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
    return code
