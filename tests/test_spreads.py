"""Spreads and comparisons of numbers, compared with NumPy."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets import SCAVENGER, dataset, scavenger
from perhop import analysis
from perhop.scenario import parse


@given(st.lists(st.floats(-1e9, 1e9, width=32), min_size=2, max_size=60))
def test_a_distribution_table_is_numpys(values: list[float]) -> None:
    table = analysis.distribution_table({"a": values})
    found = dict(zip(table["statistic"], table["a"], strict=True))
    expected = {
        "mean": np.mean(values),
        "median": np.median(values),
        "stdev": np.std(values, ddof=1),
        "min": min(values),
        "max": max(values),
        **{f"{p}%": np.percentile(values, p) for p in analysis.PERCENTILES},
        "IQR": np.percentile(values, 75) - np.percentile(values, 25),
    }
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-3)
    spread = analysis.distribution(pl.Series(values))
    assert spread is not None
    parts = (spread.p5, spread.p25, spread.p75, spread.p95)
    assert parts == pytest.approx(np.percentile(values, [5, 25, 75, 95]), rel=1e-6, abs=1e-3)


def test_averages_and_ratios_are_row_by_row() -> None:
    table = analysis.distribution_table({"a": [1.0, 3.0], "b": [2.0, 4.0], "zero": [0.0, 0.0]})
    table = analysis.with_averages(table, {"both": ("a", "b")})
    table = analysis.with_ratios(table, {"a / b": ("a", "b"), "a / zero": ("a", "zero")})
    rows = {row["statistic"]: row for row in table.to_dicts()}
    assert (rows["mean"]["both"], rows["max"]["both"], rows["min"]["both"]) == (2.5, 3.5, 1.5)
    assert rows["mean"]["a / b"] == pytest.approx(2 / 3)
    assert rows["IQR"]["a / b"] == 1.0
    assert rows["mean"]["a / zero"] is None


def test_an_empty_column_has_no_statistics() -> None:
    table = analysis.distribution_table({"a": []})
    assert table["a"].null_count() == len(table)


pairs = st.lists(st.tuples(st.integers(-1000, 1000), st.integers(-1000, 1000)), max_size=50)


@given(pairs)
def test_a_correlation_is_numpys(values: list[tuple[int, int]]) -> None:
    one, other = [a for a, _ in values], [b for _, b in values]
    found = analysis.correlation(
        pl.Series(one, dtype=pl.Float64), pl.Series(other, dtype=pl.Float64)
    )
    if len(set(one)) < 2 or len(set(other)) < 2:
        assert found is None
    else:
        assert found == pytest.approx(np.corrcoef(one, other)[0, 1], abs=1e-9)


@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=30))
def test_fairness_is_between_one_and_a_share(rates: list[int]) -> None:
    found = analysis.fairness([float(rate) for rate in rates])
    if not any(rates):
        assert found is None
    else:
        assert found is not None
        assert 1 / len(rates) - 1e-9 <= found <= 1 + 1e-9


def test_fairness_of_equal_and_of_lonely_rates() -> None:
    assert analysis.fairness([3.0, 3.0, 3.0]) == pytest.approx(1)
    assert analysis.fairness([3.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    # Of rates that are unknown there is none.
    assert analysis.fairness(pl.Series([3.0, None])) is None
    assert analysis.fairness([]) is None


def test_a_correlation_is_of_pairs_of_which_both_are_known() -> None:
    one, other = pl.Series([1.0, 2.0, None, 3.0, 7.0]), pl.Series([6.0, 4.0, 9.0, 2.0, None])
    assert analysis.correlation(one, other) == pytest.approx(-1)
    assert analysis.correlation(one.head(1), other.head(1)) is None


def test_rates_are_the_cells_of_a_flow() -> None:
    run = scavenger()
    rates = analysis.rates(run, "priority", (60.0, 90.0))
    assert len(rates) == 30
    mean = analysis.throughput(run, "priority", (60.0, 90.0))
    assert rates.mean() == pytest.approx(mean)
    spread = analysis.rate_spread(run, "priority", (60.0, 90.0), 3.0)
    assert spread is not None
    assert spread.samples == 10
    assert spread.mean == pytest.approx(mean)


def test_streams_sum_to_their_flow() -> None:
    rows = [
        {"flow": "scavenger", "stream": stream, "start_s": 0.0, "end_s": 1.0, "bytes": 100 * stream}
        for stream in (2, 1)
    ]
    run = dataset(parse(SCAVENGER), rows)
    assert analysis.stream_rates(run, "scavenger", (0.0, 1.0)).to_list() == [800.0, 1600.0]
    # Half of a row in half of its time, and nothing in as much time after it.
    assert analysis.stream_rates(run, "scavenger", (0.5, 1.0)).to_list() == [800.0, 1600.0]
    assert analysis.stream_rates(run, "scavenger", (0.5, 1.5)).to_list() == [400.0, 800.0]


def test_rates_stand_beside_round_trip_times() -> None:
    stretch = {"flow": "scavenger", "bytes": 125}
    rows = [
        {**stretch, "start_s": 0.0, "end_s": 1.0, "rtt_s": 0.1, "rtt_samples": 1},
        {**stretch, "stream": 1, "start_s": 0.0, "end_s": 1.0, "rtt_s": 0.4, "rtt_samples": 2},
        {**stretch, "start_s": 1.0, "end_s": 2.0, "rtt_samples": 0},
        {**stretch, "start_s": 2.0, "end_s": 2.5, "rtt_s": 0.2, "rtt_samples": 5},
    ]
    found = analysis.rates_and_rtts(dataset(parse(SCAVENGER), rows), "scavenger")
    assert found.rows() == [(0.0, 2000.0, pytest.approx(0.3)), (2.0, 2000.0, pytest.approx(0.2))]
