"""Files and folders changed at random: a result, or an error that says what is wrong and where."""

import csv
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import perhop
from conftest import SLOW
from fuzzing.mutation import HOSTILE, damaged, places, replanted
from fuzzing.running import fuzzed
from perhop import gallery, report
from perhop.analysis import summary
from perhop.dataset import Dataset
from perhop.errors import OutputError, PerhopError, ScenarioError
from perhop.scenario import dump, load, parse
from perhop.sweep import Sweep
from perhop.workers import Pool, Task

pytestmark = SLOW

VALID = (Path(__file__).parent / "valid.yaml").read_text("utf-8")
FILES = [text.encode() for text in (VALID, *map(gallery.text, gallery.names()))]
TREES = [yaml.load(text, yaml.CSafeLoader) for text in FILES]
SMALL = """\
perhop: 1
name: small
nodes: {a: host, b: host}
links: [{ends: [a, b], rate: 10 Mbps, delay: 1 ms}]
flows: {f: {from: a, to: b, udp: {replay: packets.csv}}, g: {from: b, to: a}}
pings: {p: {from: a, to: b, every: 20 ms}}
duration: 100 ms
report: {interval: 50 ms}
"""


def refused(error: PerhopError) -> None:
    """Check that an error is a message for people: short, printable, and with an exit code."""
    text = str(error)
    assert 0 < len(text) < 50_000
    assert error.exit_code in (2, 3)
    if isinstance(error, ScenarioError):
        assert all(line.isprintable() for line in text.split("\n")), text
        assert all(problem.file and problem.message for problem in error.problems)


def tried(text: str | bytes, overrides: list[str] | None = None) -> None:
    try:
        scenario = parse(text, "fuzz.yaml", overrides=overrides or [])
    except ScenarioError as error:
        refused(error)
    else:
        assert parse(dump(scenario)) == scenario


@fuzzed(40)
@given(st.sampled_from(FILES).flatmap(damaged))
def test_damaged_scenarios(text: bytes) -> None:
    tried(text)


@fuzzed(40)
@given(st.sampled_from(TREES).flatmap(replanted))
def test_scenarios_with_parts_in_the_wrong_place(tree: Any) -> None:
    tried(json.dumps(tree))


PATHS = sorted({".".join(map(str, path)) for tree in TREES[:3] for path in places(tree)})


@fuzzed(40)
@given(
    st.sampled_from(FILES[:3]),
    st.sampled_from(PATHS) | st.text(max_size=20),
    HOSTILE.map(json.dumps) | st.text(max_size=20),
    st.sampled_from(["=", "", " = ", "==", ".", "\0="]),
)
def test_hostile_overrides(text: bytes, path: str, value: str, between: str) -> None:
    tried(text, [path + between + value])
    tried(text, [path + between + value, path + between + value])


# Replays


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    (folder / "packets.csv").write_text("gap_s,size_bytes\n0.001,100\n0.002,1400\n")
    (folder / "small.yaml").write_text(SMALL)
    return folder


def rows(kind: str, lines: list[tuple[str, str]]) -> bytes:
    written = io.StringIO()
    csv.writer(written).writerows([(kind, "size_bytes"), *lines])
    return written.getvalue().encode()


TABLE = rows("time_s", [(f"{n / 1000}", str(100 + n)) for n in range(40)])
CELLS = st.sampled_from(
    ["0", "1", "-1", "1e3", "0.0000000000001", "9" * 11, "9" * 400, "65508", "65507", "", "NaN"]
) | st.text(max_size=5)


@fuzzed(60)
@given(
    damaged(TABLE)
    | st.builds(
        rows,
        st.sampled_from(["gap_s", "time_s", "x"]),
        st.lists(st.tuples(CELLS, CELLS), max_size=4),
    )
)
def test_damaged_replays(folder: Path, content: bytes) -> None:
    place = folder / "replay"
    place.mkdir(exist_ok=True)
    (place / "packets.csv").write_bytes(content)
    (place / "small.yaml").write_text(SMALL)
    try:
        scenario = load(place / "small.yaml")
    except ScenarioError as error:
        refused(error)
        assert "packets.csv" in str(error) or "replay" in str(error)
    else:
        assert parse(dump(scenario)) == scenario


# Datasets


def files(folder: Path) -> dict[str, bytes]:
    """The files of a folder, the same ones every time: without the times of runs."""
    for path in folder.rglob("manifest.json"):
        manifest = json.loads(path.read_bytes())
        fixed = {"started": "2026-01-02T03:04:05Z", "wall_s": 0.5}
        path.write_text(json.dumps(manifest | fixed))
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def kept(folder: Path) -> dict[str, bytes]:
    """The files of a dataset."""
    perhop.run(load(folder / "small.yaml"), out=folder / "kept")
    return files(folder / "kept")


def told(place: Path) -> None:
    """Read a dataset's folder, and say all of it, or why not."""
    try:
        dataset = Dataset.read(place)
    except OutputError as error:
        refused(error)
    else:
        json.dumps(summary(dataset), allow_nan=False)
        report.page(dataset)


@fuzzed(60)
@given(data=st.data())
def test_damaged_datasets(folder: Path, kept: dict[str, bytes], data: st.DataObject) -> None:
    place = folder / "damaged"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, content in kept.items():
        (place / name).write_bytes(content)
    name = data.draw(st.sampled_from(["manifest.json"] * 5 + sorted(kept)))
    path = place / name
    kind = data.draw(st.integers(0, 4))
    if kind <= 1 and name == "manifest.json":
        tree = data.draw(replanted(json.loads(kept[name])))
        path.write_text(json.dumps(tree))
    elif kind <= 2:
        path.write_bytes(data.draw(damaged(kept[name])))
    elif kind == 3:
        path.unlink()
        there = data.draw(st.sampled_from(["folder", "loop", "device", "other", "pipe", "nothing"]))
        if there == "folder":
            path.mkdir()
        elif there == "pipe":
            os.mkfifo(path)
        elif there != "nothing":
            goals = {"loop": name, "device": "/dev/zero", "other": "rtts.parquet"}
            path.symlink_to(goals[there])
    else:
        path.write_bytes(kept[data.draw(st.sampled_from(sorted(kept)))])
    told(place)


# Sweeps


def here(
    tasks: Sequence[Task], _pool: Pool, measure: Callable[[Dataset], object]
) -> Iterator[tuple[int, object]]:
    """Run what a sweep has to do in this process; it takes seconds to start others."""
    for number, task in enumerate(tasks):
        made = perhop.run(task.scenario, engine=task.engine, seed=task.seed, out=task.folder)
        yield number, measure(made)


@pytest.fixture(autouse=True, scope="module")
def in_this_process() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("perhop.sweep.work", here)
        yield


@pytest.fixture(scope="module")
def swept(folder: Path) -> dict[str, bytes]:
    """The files of a sweep."""
    sweep(folder, folder / "swept").run(jobs=1)
    return files(folder / "swept")


def sweep(folder: Path, place: Path) -> Sweep:
    vary = {"links.0.rate": ["1 Mbps", "2 Mbps"]}
    return Sweep(source=str(folder / "small.yaml"), vary=vary, folder=place)


@fuzzed(8)
@given(data=st.data())
def test_damaged_sweeps(folder: Path, swept: dict[str, bytes], data: st.DataObject) -> None:
    """A damaged run is run again or refused, and never counted."""
    place = folder / "again"
    if place.exists():
        shutil.rmtree(place)
    for name, content in swept.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    files = ["sweep.json", "points/0/manifest.json", "points/1/intervals.parquet"]
    name = data.draw(st.sampled_from([*files, "points/0", "points"]))
    path = place / name
    if path.is_dir():
        shutil.rmtree(path)
        path.write_text(data.draw(st.text(max_size=3)))
    elif name == "points/0/manifest.json" and data.draw(st.booleans()):
        tree = json.loads(swept[name])
        path.write_text(json.dumps(data.draw(replanted(tree))))
    else:
        path.write_bytes(data.draw(damaged(swept[name])))
    kept = sweep(folder, place)
    kept.fits()
    try:
        table = kept.run(jobs=1)
    except OutputError as error:
        refused(error)
    else:
        assert table["point"].unique().sort().to_list() == [0, 1]
