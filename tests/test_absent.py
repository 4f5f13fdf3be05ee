"""What nobody could count is absent from results, not zero."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import perhop
from perhop import analysis, report
from perhop.dataset import TABLES, Dataset
from perhop.scenario import parse

SCENARIO = """
perhop: 1
name: half
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 10 Mbps}
  - {ends: [r, b], rate: 10 Mbps}
flows:
  seen: {from: a, to: b, stop: 2 s}
  unseen: {from: a, to: b, stop: 2 s}
  call: {from: a, to: b, udp: {rate: 1 Mbps}, stop: 2 s}
expect:
  - {throughput: unseen, at_least: 1 Mbps}
"""
COUNTED = ["bytes", "packets", "lost", "reordered", "marked", "echoed", "retransmits", "acks"]


def without(flows: list[str]) -> tuple[Dataset, Dataset]:
    """A run, and the same where the receivers of some flows did not report; no network either."""
    whole = perhop.run(parse(SCENARIO))
    hidden = pl.col("flow").is_in(flows)
    intervals = whole.intervals.with_columns(
        pl.when(~hidden).then(pl.col(each)).alias(each) for each in COUNTED
    )
    network = {name: pl.DataFrame(schema=TABLES[name]) for name in ("queues", "links", "losses")}
    return whole, replace(whole, intervals=intervals, **network)


def test_counts_that_nobody_made_are_none() -> None:
    whole, half = without(["unseen"])
    found = analysis.summary(half)["flows"]
    for key in ("bytes", "throughput_bps", "retransmits", "loss", "marked", "reordered"):
        assert found["unseen"][key] is None, key
        assert found["seen"][key] == analysis.summary(whole)["flows"]["seen"][key], key
    assert analysis.throughput(half, "unseen", (0.5, 1.0)) is None
    assert analysis.count(half, "unseen", "bytes", (0.5, 1.0)) is None
    assert not analysis.verdicts(half)[0].ok


def test_sums_are_unknown_if_a_part_is() -> None:
    _, half = without(["unseen"])
    [phase] = analysis.summary(half)["phases"]
    assert phase["throughput_bps"]["unseen"] is None
    assert phase["total_bps"] is None
    whole, _ = without(["unseen"])
    [phase] = analysis.summary(whole)["phases"]
    assert phase["total_bps"] == pytest.approx(sum(phase["throughput_bps"].values()))


def test_runs_are_compared_by_what_both_know() -> None:
    whole, half = without(["unseen"])
    [phase] = analysis.compare([whole, half]).phases
    assert phase.throughput["unseen"].values[1] is None
    assert phase.throughput["seen"].values[0] == phase.throughput["seen"].values[1]


@pytest.mark.parametrize("hidden", [["unseen"], ["unseen", "call"], ["seen", "unseen", "call"]])
def test_reports_leave_it_out(hidden: list[str], tmp_path: Path) -> None:
    _, half = without(hidden)
    table = report.phase_table(half)
    cells = dict(zip((column.name for column in table.columns), table.rows[0], strict=True))
    assert cells["unseen"] == report.text.ABSENT
    assert report.write(half, tmp_path)
