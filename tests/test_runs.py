"""The runs in a folder, on a terminal, as JSON and as a page."""

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from conftest import Outcome
from datasets import SCAVENGER, dataset, scavenger
from perhop.runs import listed_runs
from perhop.scenario import parse

SWEEP = """{
    "scenario": {"name": "office", "expect": [{"throughput": "a", "at_least": "1 Mbps"}]},
    "engine": "sim", "vary": {"links.0.rate": ["1 Mbps", "2 Mbps", "3 Mbps"]}, "seeds": [1, 2]
}"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Runs that hold, fail and were cut off; a sweep, and a damaged run."""
    runs = tmp_path / "runs"
    scavenger().write(runs / "good")
    scavenger(until=70).write(runs / "several" / "cut off")
    bare = SCAVENGER[: SCAVENGER.index("expect:")]
    dataset(parse(bare, "x")).write(runs / "bare")
    (runs / "good" / "report.html").write_text("")
    (runs / "sweep").mkdir()
    (runs / "sweep" / "sweep.json").write_text(SWEEP)
    scavenger().write(runs / "sweep" / "points" / "0")
    (runs / "sweep" / "points" / "0" / "report.html").write_text("")
    (runs / "broken").mkdir()
    (runs / "broken" / "manifest.json").write_text("{")
    (runs / "notes").mkdir()
    return runs


def test_runs_are_found_with_their_verdicts(folder: Path) -> None:
    found = {run.folder: run for run in listed_runs(folder)}
    assert list(found) == ["bare", "good", "several/cut off", "sweep", "broken"]
    good, cut = found["good"], found["several/cut off"]
    assert (good.holds, good.fails, good.missed, good.page) == (5, 0, 0, "good/report.html")
    assert (cut.holds, cut.missed, cut.complete, cut.page) == (1, 4, False, None)
    assert (good.engine, good.seed, good.started) == ("sim", 1, "2026-01-02T03:04:05Z")
    sweep = found["sweep"]
    assert (sweep.kind, sweep.scenario, sweep.engine, sweep.seeds) == ("sweep", "office", "sim", 6)
    assert (sweep.started, sweep.complete) == (good.started, False)
    assert "manifest" in found["broken"].problem


def test_the_command_prints_a_table_json_and_a_page(
    folder: Path, perhop: Callable[..., Outcome]
) -> None:
    printed = perhop("runs", str(folder))
    assert printed.code == 0
    (line,) = (line for line in printed.out.splitlines() if line.startswith("good"))
    assert line.split()[-5:] == ["1", "2026-01-02", "03:04:05", "holds", "5"]
    assert "perhop: broken: " in printed.err
    found = json.loads(perhop("runs", str(folder), "--json", "--page").out)
    assert [run["folder"] for run in found["runs"]][:2] == ["bare", "good"]
    (page,) = found["written"]
    content = Path(page).read_text("utf-8")
    assert '<a href="good/report.html">good</a>' in content
    assert "UNDECIDED 4 of 5 (interrupted)" in content
    assert '<p>sweep: <a href="sweep/points/0/report.html">0</a></p>' in content
    assert content.count("<a ") == 2


def test_a_sweep_has_the_verdicts_of_its_runs(folder: Path, perhop: Callable[..., Outcome]) -> None:
    rows = [("total", "failed_expectations", fails) for fails in (0.0, 2.0, 0.0, 0.0, 1.0, 0.0)]
    table = pl.DataFrame(
        [("total", "throughput", 9.0), *rows], ["target", "metric", "value"], orient="row"
    )
    table.write_parquet(folder / "sweep" / "sweep.parquet")
    out = perhop("runs", str(folder)).out
    assert out.startswith("5 runs and sweeps\n")
    (line,) = (line for line in out.splitlines() if line.startswith("sweep "))
    words = "sweep of 6 2026-01-02 03:04:05 FAILS in 2 of 6"
    assert " ".join(line.split()).endswith(words)
    (folder / "sweep" / "sweep.json").write_text('{"scenario": {}}')
    assert [run.kind for run in listed_runs(folder)].count("sweep") == 1
    assert perhop("runs", str(folder / "several")).out.startswith("1 run\n")


def test_a_folder_that_is_not_there_is_an_error(perhop: Callable[..., Outcome]) -> None:
    missing = perhop("runs", "nowhere")
    assert missing.code == 2
    assert "cannot read nowhere" in missing.err
