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
from fuzzing.datasets import changed, damaged, shown, told
from perhop.dataset import Dataset
from perhop.errors import PerhopError
from perhop.scenario import parse

RICH = """
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
            refused += shown("compare", str(good), str(bad)) == 2
            shown("compare", str(bad), str(good), "--json")
            shown("runs", str(tmp_path))
            if number % 8 == 0:
                shown("report", str(bad), "--out", str(tmp_path / "page.html"))
        except Exception as error:
            raise AssertionError(said) from error
    assert refused > 20


def test_a_panic_of_the_reader_is_damage(
    whole: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polars panics on some signed files whose metadata contradict each other."""
    folder = whole.write(tmp_path / "run")

    def panic(*_: object) -> None:
        raise pl.exceptions.PanicException("assertion failed")

    monkeypatch.setattr(pl, "read_parquet", panic)
    with pytest.raises(PerhopError, match=r"parquet is not readable: assertion failed"):
        Dataset.read(folder)
