"""Runs side by side: what is compared, what differs, and what cannot be compared."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import SLOW, Outcome
from datasets import LEVELS, SCAVENGER, dataset, scavenger
from perhop import analysis, report
from perhop.analysis import TOTAL, ComparedQuantity
from perhop.dataset import Dataset
from perhop.errors import UsageError
from perhop.report.comparison import comparison_chart
from perhop.report.comparison_delays import compared_delays
from perhop.report.document import comparison_page
from perhop.report.drawing import svg
from perhop.scenario import parse

HALVED = {phase: {flow: bps / 2 for flow, bps in rates.items()} for phase, rates in LEVELS.items()}

STRANGER = """
perhop: 1
name: elsewhere
nodes: {a: host, b: host}
links: [{ends: [a, b], rate: 1 Mbps}]
flows: {data: {from: a, to: b, udp: {rate: 1 kbps}, stop: 2 s}}
"""


@pytest.fixture(scope="module")
def whole() -> Dataset:
    return scavenger(noise=0, ramp=1)


@pytest.fixture(scope="module")
def half() -> Dataset:
    return scavenger(HALVED, noise=0, ramp=1, text=SCAVENGER.replace("10 Mbps", "5 Mbps"))


def test_a_run_beside_itself_has_ratios_of_one(whole: Dataset) -> None:
    found = analysis.compare([whole, whole, whole])
    assert found.names == ("run 1", "run 2", "run 3")
    assert found.differences == ()
    every = [beside for phase in found.phases for beside in phase.throughput.values()]
    every += [
        beside
        for kind in (found.flows, found.pings)
        for each in kind.values()
        for beside in each.values()
    ]
    assert all(set(beside.ratios) <= {1.0, None} for beside in every)
    assert any(beside.ratios == (1.0, 1.0, 1.0) for beside in every)


def test_throughput_is_compared_phase_by_phase_with_the_first(
    whole: Dataset, half: Dataset
) -> None:
    found = analysis.compare([whole, half])
    assert [phase.window for phase in found.phases] == [
        (float(start), float(end)) for start, end in LEVELS
    ]
    for phase, levels in zip(found.phases, LEVELS.values(), strict=True):
        for flow, bps in levels.items():
            assert phase.throughput[flow].values == pytest.approx((bps, bps / 2), rel=1e-5)
            assert phase.throughput[flow].ratios[1] == pytest.approx(0.5, rel=1e-4)
            share = bps / sum(levels.values())
            assert phase.share[flow].values == pytest.approx((share, share), rel=1e-4)
        assert phase.throughput[TOTAL].values[0] == pytest.approx(sum(levels.values()), rel=1e-4)
    classes = found.classes["r1>r2"]
    assert sum(each["share"].values[0] or 0 for each in classes.values()) == pytest.approx(1)
    assert list(found.classes) == ["r1>r2"]


def test_what_differs_is_told_and_names_the_runs(whole: Dataset, half: Dataset) -> None:
    found = analysis.compare([whole, half])
    assert [each.path for each in found.differences] == ["links.1.rate"]
    assert found.names == ("rate 10 Mbps", "rate 5 Mbps")
    assert analysis.compare([whole, half], ["before", "after"]).names == ("before", "after")


def test_defaults_that_one_run_sets_are_compared_as_values(whole: Dataset) -> None:
    four = scavenger(
        text=SCAVENGER.replace(
            "{window: 8 KiB}, start: 30", "{window: 8 KiB}, streams: 4, start: 30"
        )
    )
    (difference,) = analysis.compare([whole, four]).differences
    assert (difference.path, difference.values) == ("flows.best_effort.streams", (1, 4))


def test_switches_are_written_as_files_have_them(whole: Dataset) -> None:
    fair = scavenger(text=SCAVENGER.replace("rate: 10 Mbps", "rate: 10 Mbps, queue: {codel: {}}"))
    runs = report.comparison_tables(analysis.compare([whole, fair]))[0]
    assert ("links.1.queue.codel.ecn", "\N{EN DASH}", "true") in runs.rows


def test_only_what_all_runs_cover_is_compared(whole: Dataset) -> None:
    cut = scavenger(noise=0, ramp=1, until=75)
    found = analysis.compare([whole, cut])
    assert found.covered_s == 75
    assert [phase.window for phase in found.phases][-1] == (60.0, 75.0)
    assert found.phases[-1].throughput["priority"].ratios[1] == pytest.approx(1, rel=1e-6)
    assert {"cut off at"} == {each.path for each in found.differences}


def test_what_only_one_run_has_is_left_empty(whole: Dataset) -> None:
    text = SCAVENGER.replace("as_priority:", "other:").replace(
        "rtt_p99: as_scavenger", "rtt_p99: other"
    )
    other = dataset(parse(text, "x"), [{"flow": "priority", "start_s": 0.0, "end_s": 1.0}])
    pings = analysis.compare([whole, other]).pings
    assert pings["as_priority"]["rtt_median"].values[1] is None
    assert pings["as_priority"]["rtt_median"].ratios[1] is None
    assert "other" not in pings or not pings["other"]


def test_what_cannot_be_compared_is_refused(whole: Dataset) -> None:
    with pytest.raises(UsageError, match="one run cannot be compared"):
        analysis.compare([whole])
    stranger = dataset(parse(STRANGER, "x"))
    with pytest.raises(UsageError, match="no flow, ping or link in common"):
        analysis.compare([whole, stranger])


@given(st.lists(st.none() | st.floats(0, 1e12), min_size=1, max_size=5))
def test_ratios_are_to_the_first(values: list[float | None]) -> None:
    ratios = ComparedQuantity("bps", tuple(values)).ratios
    assert len(ratios) == len(values)
    for value, ratio in zip(values, ratios, strict=True):
        if value is None or not values[0]:
            assert ratio is None
        else:
            assert ratio == value / values[0]


def test_names_are_told_apart(whole: Dataset) -> None:
    assert analysis.compare([whole, whole], ["a", "a"]).names == ("a", "a (2)")


def test_tables_have_a_ratio_for_each_other_run(whole: Dataset, half: Dataset) -> None:
    tables = report.comparison_tables(analysis.compare([whole, half, half], ["a", "b", "c"]))
    assert [table.title for table in tables] == [
        "Runs",
        "Throughput by phase",
        "Flows while active",
        "Pings",
        "Classes of r1>r2",
    ]
    runs, phases, *_ = tables
    assert runs.rows == (("links.1.rate", "10 Mbps", "5 Mbps", "5 Mbps"),)
    assert [column.name for column in phases.columns] == [
        "phase",
        "flow",
        "a",
        "b",
        "ratio",
        "c",
        "ratio",
    ]
    third = next(row for row in phases.rows if row[1] == "priority")
    assert third[4] == third[6] == "0.500"


@SLOW
def test_the_chart_tells_runs_apart_without_colour(whole: Dataset, half: Dataset) -> None:
    chart = comparison_chart(analysis.compare([whole, half], ["a", "b"]))
    assert chart is not None
    shapes = chart["spec"]["encoding"]["shape"]["scale"]
    assert shapes["domain"] == ["a", "b"]
    assert len(set(shapes["range"])) == 2
    drawn = svg(chart)
    assert all(name in drawn for name in ("scavenger", "priority", ">a<", ">b<"))


@SLOW
def test_the_page_stands_alone_and_escapes(whole: Dataset, half: Dataset) -> None:
    hostile = "</script><img src=x onerror=alert(1)>"
    found = analysis.compare([whole, half], [hostile, "b"])
    written = comparison_page(found, hostile)
    assert hostile not in written
    assert "<table>" in written
    assert (
        "src="
        not in written.replace("&lt;img src=x", "")
        .replace("\\u003cimg src=x", "")
        .split("<script>")[0]
    )


@SLOW
def test_the_command_prints_writes_and_explains(
    perhop: Callable[..., Outcome], place: Path, whole: Dataset, half: Dataset
) -> None:
    whole.write(place / "a")
    half.write(place / "b")
    code, out, err = perhop("compare", "a", "b", "--out", "page")
    assert (code, err) == (0, "")
    assert "Throughput by phase" in out
    assert {path.name for path in (place / "page").iterdir()} == {
        "compare.html",
        "compare.png",
        "compare.svg",
    }
    code, out, _ = perhop("compare", "a", "b", "--json")
    found: dict[str, Any] = json.loads(out)
    assert code == 0
    assert found["phases"][0]["throughput_bps"]["scavenger"]["ratios"] == pytest.approx(
        [1, 0.5], rel=1e-4
    )
    assert found["differences"] == [{"path": "links.1.rate", "values": ["10 Mbps", "5 Mbps"]}]
    code, _, err = perhop("compare", "a")
    assert (code, err) == (2, "perhop: one run cannot be compared; give two or more\n")
    code, _, err = perhop("compare", "a", "nowhere")
    assert code == 2
    assert "there is no folder nowhere" in err


@SLOW
def test_the_page_has_the_delays_of_every_run_by_its_name(
    perhop: Callable[..., Outcome], tmp_path: Path
) -> None:
    for name, text in (("one", SCAVENGER), ("two", SCAVENGER.replace("10 Mbps", "20 Mbps", 1))):
        scavenger(text=text).write(tmp_path / name)
    runs = [str(tmp_path / name) for name in ("one", "two")]
    named = ("--name", "before", "--name", "after", "--out", str(tmp_path / "page"))
    assert perhop("compare", *runs, *named).code == 0
    page = (tmp_path / "page" / "compare.html").read_text("utf-8")
    assert "before and after; ratios are to the first" in page
    for name in ("scavenger", "best_effort", "priority", "as_scavenger", "as_priority"):
        assert f"<strong>{name}</strong>" in page
    charts = compared_delays([scavenger(), scavenger()], ["before", "after"])
    pinged = dict(charts)["as_priority"]["layer"][0]
    assert pinged["encoding"]["color"]["scale"]["domain"] == ["before", "after"]
    answered = analysis.rtt(scavenger(), "as_priority")
    assert answered is not None
    last = pinged["data"]["values"][-1]
    assert (last["y"], last["t"]) == (1, pytest.approx(1e3 * answered.max, rel=1e-3))
    few = perhop("compare", *runs, "--name", "before")
    assert (few.code, few.err) == (2, "perhop: --name: 1 names for 2 runs; give one for each\n")
