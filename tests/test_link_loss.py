"""Losses in bursts: the keys of a link, and what engines make of them."""

import polars as pl
import pytest

import perhop as library
from perhop.dataset import Dataset
from perhop.report import change_table
from perhop.scenario import Link, dump, parse, to_mapping
from perhop.scenario.model.loss import BurstLoss, mean_loss
from perhop.units import WHOLE

BURSTY = """\
perhop: 1
name: bursty
nodes: {a: host, b: host}
links:
  - {ends: [a, b], rate: 100 Mbps, delay: 1 ms, loss: {gilbert: {mean: 2%, burst: 10}}}
flows:
  there: {from: a, to: b, udp: {rate: 24 Mbps, size: 972 B}, stop: 20 s}
  back: {from: b, to: a, udp: {rate: 24 Mbps, size: 972 B}, stop: 20 s}
changes:
  - {at: 10 s, on: a>b, loss: {gilbert: {p: 1%, r: 40%, good: 1%, bad: 50%}}}
"""


@pytest.fixture(scope="module")
def run() -> Dataset:
    return library.run(parse(BURSTY, "bursty"))


def lost(run: Dataset, direction: str, start: float, end: float) -> tuple[int, int]:
    """The packets of a direction that were lost in a stretch of time, and those that were sent."""
    rows = run.links.filter(
        (pl.col("link") == direction) & (pl.col("start_s") >= start) & (pl.col("end_s") <= end)
    )
    return int(rows["lost_packets"].sum()), int(rows["sent_packets"].sum())


@pytest.mark.parametrize("direction", ["a>b", "b>a"])
def test_the_mean_is_that_of_the_chain(run: Dataset, direction: str) -> None:
    for start, end, (p, r, good, bad) in (
        (0, 10, (0.1 * 0.02 / 0.98, 0.1, 0.0, 1.0)),
        (10, 20, (0.01, 0.4, 0.01, 0.5)),
    ):
        gone, sent = lost(run, direction, start, end)
        assert sent == pytest.approx(30_864, abs=20)
        in_bad = p / (p + r)
        mean = (1 - in_bad) * good + in_bad * bad
        # The correlation of states k steps apart is (1 - p - r)^k.
        memory = (1 - p - r) / (p + r)
        variance = mean * (1 - mean) + 2 * in_bad * (1 - in_bad) * (bad - good) ** 2 * memory
        assert gone / sent == pytest.approx(mean, abs=5 * (variance / sent) ** 0.5)


def test_directions_and_seeds_have_losses_of_their_own(run: Dataset) -> None:
    rows = {
        name: run.links.filter(pl.col("link") == name)["lost_packets"].to_list()
        for name in ("a>b", "b>a")
    }
    assert rows["a>b"] != rows["b>a"]
    other = library.run(parse(BURSTY, "bursty"), seed=2).links
    assert other.filter(pl.col("link") == "a>b")["lost_packets"].to_list() != rows["a>b"]
    again = library.run(parse(BURSTY, "bursty")).links
    assert again.equals(run.links)


def test_the_short_form_is_a_chain() -> None:
    loss = Link(ends=("a", "b"), rate="1 Mbps", loss={"gilbert": {"mean": "1%", "burst": 5}}).loss  # type: ignore[arg-type]
    assert isinstance(loss, BurstLoss)
    p, r, good, bad = loss.gilbert.chances
    assert (r, good, bad) == (WHOLE // 5, 0, WHOLE)
    assert p / (p + r) == pytest.approx(0.01, rel=1e-6)
    assert mean_loss(loss) == pytest.approx(WHOLE // 100, rel=1e-6)
    assert mean_loss(7) == 7


def test_what_is_written_reads_back(run: Dataset) -> None:
    scenario = parse(BURSTY, "bursty")
    assert parse(dump(scenario), "bursty") == scenario == run.scenario
    assert to_mapping(scenario)["links"][0]["loss"] == {"gilbert": {"mean": "2%", "burst": 10}}


def test_the_report_names_the_change(run: Dataset) -> None:
    table = change_table(run)
    assert table is not None
    assert "loss 2.20% in bursts" in str(table.rows)
