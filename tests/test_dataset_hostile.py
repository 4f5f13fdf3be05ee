"""Hostile tables of datasets: refused with table and column, or shown; never a traceback."""

import random
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

import perhop
from conftest import SLOW
from conservation import false_data
from fuzzing.datasets import RICH, changed, damaged, shown, told
from perhop.dataset import Dataset
from perhop.errors import PerhopError
from perhop.scenario import parse


@pytest.fixture(scope="module")
def whole() -> Dataset:
    return perhop.run(parse(RICH))


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("delays", "high_s", 1e300),
        ("delays", "low_s", 1e18),
        ("rtts", "samples", 2**63 - 1),
        ("intervals", "bytes", 2**63 - 1),
        ("intervals", "rtt_s", 9.2e18),
        ("queues", "sent_bytes", 2**62),
        ("pings", "dscp_sent", 64),
        ("links", "utilisation", 1e30),
        ("displacements", "by", 2**62),
    ],
)
def test_an_impossible_value_is_named(
    whole: Dataset, table: str, column: str, value: float
) -> None:
    tables = {name: getattr(whole, name) for name in perhop.dataset.TABLES}
    own = tables[table]
    values = own[column].to_list()
    values[0] = value
    tables[table] = own.with_columns(pl.Series(column, values, own.schema[column]))
    expected = re.escape(f"column {column} of table {table}")
    with pytest.raises(ValueError, match=expected):
        Dataset(whole.scenario, whole.manifest, **tables)


@SLOW
@pytest.mark.filterwarnings("ignore")
@false_data()
def test_changed_tables_are_refused_or_shown(whole: Dataset) -> None:
    rng = random.Random(30)
    refused = 0
    for _ in range(200):
        said, tables = changed(whole, rng)
        try:
            refused += bool(told(whole, tables))
        except Exception as error:
            raise AssertionError(said) from error
    assert refused > 50


@SLOW
@false_data()
def test_damaged_folders_are_refused_or_shown(whole: Dataset, tmp_path: Path) -> None:
    """By the commands, in one process: what aborts one ends this test."""
    rng = random.Random(31)
    good = whole.write(tmp_path / "good")
    refused = 0
    for number in range(80):
        bad = tmp_path / "bad"
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(good, bad)
        said = damaged(bad, whole, rng)
        try:
            refused += shown("compare", str(good), str(bad)).code == 2
            shown("compare", str(bad), str(good), "--json")
            shown("runs", str(tmp_path))
            if number % 8 == 0:
                shown("report", str(bad), "--out", str(tmp_path / "page.html"))
        except Exception as error:
            raise AssertionError(said) from error
    assert refused > 20


@pytest.mark.parametrize("error", [pl.exceptions.PanicException, pl.exceptions.ComputeError])
def test_a_failure_of_the_reader_is_damage_of_a_file(
    whole: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """Polars panics on some signed files whose metadata contradict each other."""
    folder = whole.write(tmp_path / "run")

    def panic(*_: object) -> None:
        raise error("assertion failed")

    monkeypatch.setattr(pl, "read_parquet", panic)
    with pytest.raises(PerhopError, match=r"intervals\.parquet is not readable: assertion failed"):
        Dataset.read(folder)


def test_a_table_that_cannot_be_read_is_named(whole: Dataset, tmp_path: Path) -> None:
    folder = Path(str(whole.write(tmp_path / "run")))
    (folder / "pings.parquet").unlink()
    (folder / "pings.parquet").symlink_to("pings.parquet")
    with pytest.raises(PerhopError, match=r"pings\.parquet: Too many levels of symbolic links"):
        Dataset.read(folder)
