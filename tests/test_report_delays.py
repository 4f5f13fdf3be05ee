"""Charts of delays, backlogs and drops: what they show is what the dataset has."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import SLOW, Outcome
from datasets import SCAVENGER, dataset, scavenger
from perhop import analysis, charts
from perhop.errors import UsageError
from perhop.report import named
from perhop.scenario import parse

SCENARIO = parse(SCAVENGER, "x")


def row(flow: str, start: float, **columns: Any) -> dict[str, Any]:
    return {"flow": flow, "start_s": start, "end_s": start + 1.0, **columns}


def test_round_trips_are_weighed_by_their_samples_and_smoothed_only_where_there_are_no_others() -> (
    None
):
    rtt = {"rtt_s": 0.010, "rtt_samples": 30, "srtt_s": 1.0, "srtt_samples": 5}
    run = dataset(
        SCENARIO,
        [
            row("scavenger", 0, **rtt),
            row("scavenger", 1, **{**rtt, "rtt_s": 0.020, "rtt_samples": 10}),
            row("priority", 4, srtt_s=0.5, srtt_samples=1),
        ],
        pings=[
            {"ping": "as_priority", "sequence": n, "sent_s": sent, "rtt_s": rtt}
            for n, (sent, rtt) in enumerate([(0.2, 0.1), (1.9, 0.3), (2.5, None)])
        ],
    )
    found = analysis.round_trips(run, 2.0).rows()
    assert found == [
        ("as_priority", 0.0, 2.0, pytest.approx(0.2)),
        ("priority", 4.0, 5.0, 0.5),
        ("scavenger", 0.0, 2.0, pytest.approx((30 * 0.010 + 10 * 0.020) / 40)),
    ]


def test_queueing_delay_is_above_the_smallest_of_the_run() -> None:
    run = dataset(
        SCENARIO,
        [
            row("priority", t, owd_s=owd, owd_min_s=least, owd_samples=4)
            for t, owd, least in ((60, 0.030, 0.012), (61, 0.014, 0.010))
        ],
    )
    assert analysis.queueing_delays(run, 1.0)["value"].to_list() == pytest.approx([0.020, 0.004])


def test_the_backlog_of_a_cell_is_its_greatest_and_inner_classes_are_in_outer_ones() -> None:
    queue = {"link": "r1>r2", "start_s": 0.0, "end_s": 1.0}
    later = {"link": "r1>r2", "start_s": 1.0, "end_s": 2.0}
    run = dataset(
        SCENARIO,
        queues=[
            {**queue, "class": "priority", "backlog_bytes": 300},
            {**later, "class": "priority", "backlog_bytes": 900},
            {**later, "class": "priority/inner", "backlog_bytes": 900},
            {**queue, "class": "scavenger", "backlog_bytes": 0},
        ],
    )
    assert analysis.backlogs(run, 2.0).rows() == [("r1>r2", "priority", 0.0, 2.0, 900)]


@pytest.mark.parametrize("by_flow", [True, False])
def test_drops_have_a_cause_and_are_per_second(by_flow: bool) -> None:
    stretch = {"link": "r1>r2", "start_s": 4.0, "end_s": 5.0}
    lost = [{**stretch, "flow": "priority", "cause": "policer", "packets": 6}]
    counted = [{**stretch, "class": "priority", "dropped_policer": 6, "dropped_packets": 6}]
    run = dataset(SCENARIO, queues=counted, losses=lost if by_flow else [])
    assert analysis.drops(run, 2.0).rows() == [("policer", 4.0, 6.0, 3.0)]
    points = named.CHARTS["drops"][1](run)["layer"][1]["data"]["values"]  # type: ignore[index]
    assert [(point["t"], point["y"]) for point in points] == [
        (0, 0), (4, 6), (5, 6), (5, 0),
    ]  # fmt: skip


def test_the_last_cell_of_a_grid_ends_with_the_run() -> None:
    # 150 s in cells of 40 s: the last one has 30 s.
    lost = {"link": "r1>r2", "flow": "priority", "cause": "policer", "packets": 6}
    pinged = {"ping": "as_priority", "rtt_s": 0.1}
    run = dataset(
        SCENARIO,
        losses=[
            {**lost, "start_s": 149.0, "end_s": 150.0},
            {**lost, "start_s": 39.0, "end_s": 40.0, "packets": 4},
            {**lost, "start_s": 60.0, "end_s": 61.0, "packets": 0},
        ],
        pings=[{**pinged, "sent_s": 149.0}, {**pinged, "sent_s": 40.0}],
    )
    assert analysis.drops(run, 40.0).rows() == [
        ("policer", 0.0, 40.0, 0.1),
        ("policer", 120.0, 150.0, 0.2),
    ]
    assert analysis.round_trips(run, 40.0).rows() == [
        ("as_priority", 40.0, 80.0, 0.1),
        ("as_priority", 120.0, 150.0, 0.1),
    ]


def test_drops_of_classes_count_once_and_those_of_links_beside_them() -> None:
    stretch = {"link": "r1>r2", "start_s": 4.0, "end_s": 6.0}
    queues = [
        {**stretch, "class": "priority", "dropped_early": 4, "dropped_limit": 2},
        {**stretch, "class": "priority/inner", "dropped_early": 4},
        {**stretch, "class": "scavenger", "dropped_early": 6},
    ]
    links = [{**stretch, "lost_packets": 8}]
    run = dataset(SCENARIO, queues=queues, links=links)
    assert analysis.drops(run, 2.0).rows() == [
        ("early drop", 4.0, 6.0, 5.0),
        ("full queue", 4.0, 6.0, 1.0),
        ("wire", 4.0, 6.0, 4.0),
    ]


def test_pings_of_several_nodes_have_no_one_round_trip_time() -> None:
    text = SCAVENGER.replace("as_priority: {", "as_priority: {ttl: 1..3, ")
    pings = [
        {"ping": name, "sent_s": 1.0, "rtt_s": 0.1} for name in ("as_priority", "as_scavenger")
    ]
    found = analysis.round_trips(dataset(parse(text, "x"), pings=pings), 2.0)
    assert found["name"].to_list() == ["as_scavenger"]


def test_a_backlog_that_nobody_read_is_left_out() -> None:
    rows = [
        {"link": "r1>r2", "class": "priority", "start_s": at, "end_s": at + 1, "backlog_bytes": n}
        for at, n in ((0.0, 300), (1.0, None), (2.0, None), (3.0, None), (4.0, 0))
    ]
    found = analysis.backlogs(dataset(SCENARIO, queues=rows), 2.0)
    assert found.rows() == [
        ("r1>r2", "priority", 0.0, 2.0, 300),
        ("r1>r2", "priority", 4.0, 5.0, 0),
    ]


def test_a_distribution_reaches_every_sample_at_its_bin() -> None:
    stretch = {"flow": "priority", "start_s": 60.0, "end_s": 90.0}
    bins = [(0.010, 0.011, 25), (0.011, 0.012, 50), (0.100, 0.101, 25)]
    run = dataset(
        SCENARIO,
        delays=[{**stretch, "low_s": a, "high_s": b, "samples": n} for a, b, n in bins],
    )
    spec = charts.delay(run).spec
    points = [(point["t"], point["y"]) for point in spec["layer"][0]["data"]["values"]]
    assert points == [(10, 0), (11, 0.25), (12, 0.75), (100, 0.75), (101, 1)]


def test_a_run_without_data_has_no_charts_of_it() -> None:
    empty = dataset(SCENARIO)
    assert list(named.charts_of(empty)) == ["throughput", "throughput-log"]
    with pytest.raises(UsageError, match="no data for the chart drops"):
        named.chart_file(empty, "drops", "csv")


def test_every_chart_is_written_by_name(perhop: Callable[..., Outcome], tmp_path: Path) -> None:
    folder = scavenger().write(tmp_path / "run")
    listed = perhop("report", str(folder), "--list-charts").out.splitlines()
    names = [line.split()[0] for line in listed]
    assert names == ["throughput", "throughput-log", "rtt", "pings", "network"]
    done = perhop(
        "report", str(folder), "--chart", "all", "--format", "csv", "--out", str(tmp_path)
    )
    assert [Path(line).name for line in done.out.splitlines()] == [f"{name}.csv" for name in names]
    rows = list(csv.reader(io.StringIO((tmp_path / "throughput.csv").read_text())))
    assert rows[0] == ["name", "time (s)", "throughput (Mb/s)"]
    assert {line[0] for line in rows[1:]} == {"scavenger", "best_effort", "priority", "total"}
    perhop("report", str(folder), "--chart", "rtt", "--format", "json", "--out", str(tmp_path))
    assert json.loads((tmp_path / "rtt.json").read_text())["$schema"].endswith("vega-lite/v6.json")
    wrong = perhop("report", str(folder), "--chart", "rt")
    assert (wrong.code, wrong.err) == (2, "perhop: `rt` is not a chart; did you mean `rtt`?\n")
    assert perhop("report", str(folder), "--format", "csv").code == 2


@SLOW
@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(1, 9))
def test_the_grid_conserves_packets(dropped: list[int], step: int) -> None:
    queues = [
        {"link": "r1>r2", "class": "all", "start_s": t, "end_s": t + 1.0, "dropped_limit": n}
        for t, n in enumerate(dropped)
    ]
    found = analysis.drops(dataset(SCENARIO, queues=queues), float(step))
    total = (found["value"] * (found["end_s"] - found["start_s"])).sum()
    assert total == pytest.approx(sum(dropped))
