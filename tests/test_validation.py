"""The tables that say how right perhop is: the quick ones hold, and the file has what they say."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from validation.table import Row  # noqa: E402
from validation.tables import TABLES  # noqa: E402

RESULTS = (ROOT / "validation" / "RESULTS.md").read_text("utf-8")


@pytest.mark.parametrize("table", [table for table in TABLES if table.quick], ids=lambda t: t.name)
def test_a_quick_table_holds_and_is_what_the_file_has(table) -> None:  # type: ignore[no-untyped-def]
    rows = list(table.rows())
    assert all(row.ok for row in rows), [row for row in rows if not row.ok]
    assert table.markdown(rows) in RESULTS


@pytest.mark.parametrize("name", ["buckets", "max-min", "link-sharing"])
def test_a_slow_table_begins_as_the_file_has_it(name: str) -> None:
    table = next(table for table in TABLES if table.name == name)
    row = next(iter(table.rows()))
    assert row.ok
    # Whatever changes TCP may change the last digits of rates of flows.
    assert name == "max-min" or row.markdown() in RESULTS


def test_every_table_is_in_the_file_and_holds_there() -> None:
    titles = [line[3:] for line in RESULTS.splitlines() if line.startswith("## ")]
    assert titles == [table.title for table in TABLES]
    assert "**no**" not in RESULTS


def test_rows_know_whether_they_hold() -> None:
    assert Row("", 100.0, 101.0, 0.01).ok
    assert not Row("", 100.0, 98.9, 0.01).ok
    assert Row("", 100.0, 98.5, 0.01, slack=2.0).ok
    assert Row("", 100.0, 50.0, 0.0, "bound").ok
    assert not Row("", 100.0, 100.1, 0.0, "bound").ok
