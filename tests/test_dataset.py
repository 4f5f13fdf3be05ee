import errno
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from conftest import SLOW
from datasets import dataset, scavenger, table
from perhop.dataset import ANSWERS, CAUSES, FORMAT, NULLABLE, TABLES, Dataset, Manifest
from perhop.errors import OutputError


@pytest.fixture(scope="module")
def run() -> Dataset:
    return scavenger()


def same(one: Dataset, other: Dataset) -> bool:
    return (one.scenario, one.manifest) == (other.scenario, other.manifest) and all(
        getattr(one, name).equals(getattr(other, name)) for name in TABLES
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["run", "a folder", "a=1[*]?", "ünï"])
def test_what_is_written_reads_back(run: Dataset, tmp_path: Path, name: str) -> None:
    folder = run.write(tmp_path / "deep" / name)
    assert same(Dataset.read(folder), run)
    assert [path.name for path in folder.parent.iterdir()] == [name]


def test_the_same_run_gives_the_same_bytes(run: Dataset, tmp_path: Path) -> None:
    assert contents(run.write(tmp_path / "one")) == contents(scavenger().write(tmp_path / "two"))


def test_an_interrupted_run_is_readable(tmp_path: Path) -> None:
    run = scavenger(until=70)
    back = Dataset.read(run.write(tmp_path / "cut"))
    assert not back.manifest.complete
    assert back.covered_s == 70


def test_empty_tables_are_a_dataset(run: Dataset, tmp_path: Path) -> None:
    empty = dataset(run.scenario)
    assert same(Dataset.read(empty.write(tmp_path / "empty")), empty)


def test_the_manifest_says_how_the_run_came_about(run: Dataset, tmp_path: Path) -> None:
    manifest = json.loads((run.write(tmp_path / "run") / "manifest.json").read_bytes())
    assert manifest["format"] == FORMAT
    assert manifest["seed"] == 1
    assert manifest["engine"] == "sim"
    assert manifest["scenario"]["name"] == "three-classes"
    assert manifest["counters"] == {"events": 1_234_567, "packet_hops": 345_678}


DIGESTS = {11: "0a1ce829208cee59"}


def test_a_change_of_the_tables_is_a_change_of_the_format() -> None:
    """A dataset of another version is recognised by its number, not by what it then lacks."""
    tables = {
        name: [(column, str(dtype), column in NULLABLE.get(name, ())) for column, dtype in each]
        for name, each in ((name, schema.items()) for name, schema in TABLES.items())
    }
    laid_out = json.dumps([tables, ANSWERS, CAUSES, sorted(Manifest.model_fields)])
    digest = hashlib.sha256(laid_out.encode()).hexdigest()[:16]
    assert DIGESTS.get(FORMAT) == digest, (
        "what a dataset is made of has changed: count `perhop.dataset.FORMAT` up by one, and "
        f"give DIGESTS {digest!r} for it"
    )


def test_a_dataset_of_another_format_is_perhops_to_replace(run: Dataset, tmp_path: Path) -> None:
    folder = run.write(tmp_path / "run")
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"format": 1}))
    with pytest.raises(OutputError, match="run its scenario again"):
        Dataset.read(folder)
    assert same(Dataset.read(run.write(folder)), run)


def test_an_earlier_run_and_its_reports_are_replaced(run: Dataset, tmp_path: Path) -> None:
    folder = run.write(tmp_path / "run")
    (folder / "report.html").write_text("stale")
    scavenger(until=70).write(folder)
    assert not (folder / "report.html").exists()
    assert Dataset.read(folder).covered_s == 70
    assert list(tmp_path.iterdir()) == [folder]


def test_an_empty_folder_is_taken(run: Dataset, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert same(Dataset.read(run.write(tmp_path / "run")), run)


def test_what_is_not_perhops_is_never_replaced(run: Dataset, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.tex").write_text("years of work")
    file = tmp_path / "file"
    file.write_text("a file")
    mixed = run.write(tmp_path / "mixed")
    (mixed / "notes.txt").write_text("mine")
    for folder, why in [
        (home, "it has no manifest.json"),
        (file, "is not a folder"),
        (mixed, "also holds notes.txt"),
    ]:
        with pytest.raises(OutputError, match=why):
            run.write(folder)
    assert (home / "thesis.tex").exists()
    assert (mixed / "notes.txt").exists()
    assert file.read_text() == "a file"


def test_a_folder_below_a_file_cannot_be_made(run: Dataset, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"cannot write .*: File exists; give another folder"):
        run.write(tmp_path / "file" / "run")


def test_a_full_disk_leaves_earlier_results(
    run: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run.write(tmp_path / "run")
    before = contents(folder)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(OutputError, match="No space left on device"):
            scavenger(until=70).write(folder)
    assert contents(folder) == before
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_that_cannot_be_put_in_place_leaves_earlier_results(
    run: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run.write(tmp_path / "run")
    before = contents(folder)
    rename = Path.rename
    moves: list[Path] = []

    def second_fails(self: Path, target: Path) -> Path:
        moves.append(self)
        if len(moves) == 2:
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr("perhop.dataset.folder._exchange", lambda *_: False)
        patch.setattr(Path, "rename", second_fails)
        with pytest.raises(OutputError, match="Input/output error"):
            scavenger(until=70).write(folder)
    assert contents(folder) == before
    assert list(tmp_path.iterdir()) == [folder]


KILLED = """
import os, shutil, signal, sys
from pathlib import Path

from perhop.dataset import Dataset, folder as folders

folder, calls, exchange = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "exchange"
if not exchange:
    folders._exchange = lambda *_: False


def counted(function):
    def call(*args, **others):
        global calls
        if calls == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        calls -= 1
        return function(*args, **others)

    return call


Path.rename, shutil.rmtree = counted(Path.rename), counted(shutil.rmtree)
folders._exchange = counted(folders._exchange)
Dataset.read(folder + "-new").write(folder)
"""


@SLOW
@pytest.mark.parametrize(
    ("how", "calls", "left"),
    [
        *[("exchange", 0, "old"), ("exchange", 1, "new"), ("exchange", 2, "new")],
        *[("rename", calls, left) for calls, left in enumerate(("old", "old", "old", "new"))],
    ],
)
def test_a_kill_leaves_the_earlier_or_the_new_run(
    run: Dataset, tmp_path: Path, how: str, calls: int, left: str
) -> None:
    new = scavenger(until=70)
    folder = run.write(tmp_path / "run")
    new.write(tmp_path / "run-new")
    arguments = [str(folder), str(calls), how]
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments]).returncode == -9
    assert killed or (how, calls) == ("exchange", 2)
    assert same(Dataset.read(folder), {"old": run, "new": new}[left])
    # What was set aside goes when the folder is written again.
    assert same(Dataset.read(run.write(folder)), run)
    assert not [*tmp_path.glob("*.old")]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not a dataset's manifest"),
        (b"[" * 100_000, "not a dataset's manifest"),
        (b"\xff\xfe", "not a dataset's manifest"),
        (b"[1]", "names no format"),
        (b'{"format": 11}', "is damaged: perhop: Field required"),
        (b'{"format": 1, "perhop": "0.1.0"}', "of format 1, written by perhop 0.1.0; this version"),
        (b'{"format": 1, "perhop": [2]}', "is a dataset of format 1; this version reads format 11"),
        (b'{"format": {"a": "\\u001b[2J"}}', r"of format {'a': '\\x1b\[2J'}; this version"),
    ],
)
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(OutputError, match=why):
        Dataset.read(tmp_path)


def test_a_folder_that_is_no_dataset_is_refused(tmp_path: Path) -> None:
    for folder, why in (
        (tmp_path, r"is not a dataset: it has no manifest\.json"),
        (tmp_path / "missing", "there is no folder"),
        (Path(__file__), "is a file; expected the folder of a run"),
    ):
        with pytest.raises(OutputError, match=why):
            Dataset.read(folder)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("seed", -1, "seed: Input should be greater"),
        ("seed", "1", "seed: Input should be a valid integer"),
        ("started", "yesterday", "Invalid isoformat"),
        ("colour", "red", "colour: Extra inputs"),
        ("scenario", {"perhop": 1}, "is damaged"),
    ],
)
def test_a_damaged_manifest_says_where(
    run: Dataset, tmp_path: Path, key: str, value: object, why: str
) -> None:
    folder = run.write(tmp_path / "run")
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {key: value}))
    with pytest.raises(OutputError, match=why):
        Dataset.read(folder)


def test_a_damaged_or_missing_table_is_refused(run: Dataset, tmp_path: Path) -> None:
    folder = run.write(tmp_path / "run")
    path = folder / "pings.parquet"
    content = path.read_bytes()
    for damage in (content[:-1], content[:40] + b"\x00" + content[41:], b""):
        path.write_bytes(damage)
        with pytest.raises(OutputError, match=r"damaged: pings.parquet is not the file"):
            Dataset.read(folder)
    path.unlink()
    with pytest.raises(OutputError, match="No such file"):
        Dataset.read(folder)


def bad_tables() -> list[tuple[str, pl.DataFrame, str]]:
    stretch = {"start_s": 0.0, "end_s": 1.0}
    flow = {"flow": "priority", **stretch}
    good = table("intervals", [flow])
    return [
        ("intervals", good.drop("cwnd"), "table intervals lacks the column cwnd"),
        ("intervals", good.with_columns(extra=1), "has the unknown column extra"),
        ("intervals", good.select(good.columns[::-1]), "has its columns in another order"),
        (
            *("intervals", good.with_columns(pl.col("bytes").cast(pl.Float64))),
            "column bytes of table intervals has type Float64; expected Int64",
        ),
        ("intervals", table("intervals", [{**flow, "stream": None}]), "stream of .* has nulls"),
        ("intervals", table("intervals", [{**flow, "bytes": -1}]), "bytes of .* negative"),
        ("intervals", table("intervals", [{**flow, "rtt_s": float("nan")}]), "rtt_s of .* NaN"),
        ("intervals", table("intervals", [{**flow, "flow": "who"}]), "column .* unknown .* who"),
        ("intervals", table("intervals", [{**flow, "end_s": 0.0}]), "end_s of .* exceed start_s"),
        ("pings", table("pings", [{"ping": "pong"}]), "column .* unknown .* pong"),
        (
            "links",
            table("links", [{"link": "r1>pharlap", **stretch}]),
            "column .* unknown .* r1>pharlap",
        ),
        ("queues", table("queues", [{"link": "r1-r2", **stretch}]), "column .* unknown .* r1-r2"),
        ("rtts", table("rtts", [{"flow": "priority", **stretch, "low_s": float("inf")}]), "low_s"),
    ]


@pytest.mark.parametrize(("name", "wrong", "why"), bad_tables())
def test_a_wrong_table_is_refused(run: Dataset, name: str, wrong: pl.DataFrame, why: str) -> None:
    tables = {each: getattr(run, each) for each in TABLES} | {name: wrong}
    with pytest.raises(ValueError, match=why):
        Dataset(run.scenario, run.manifest, **tables)


@SLOW
def test_reading_and_analysing_load_no_drawing_library() -> None:
    program = (
        "import sys, perhop.dataset, perhop.analysis, perhop.report.tables, perhop.report;"
        "sys.exit('vl_convert' in sys.modules or 'rich' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
