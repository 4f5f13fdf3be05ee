"""Charts inside of pages, and what a run with many changes shows."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets import SCAVENGER, dataset, scavenger
from perhop import analysis, report
from perhop.report import charts, drawing, labels, named, timeline
from perhop.report.comparison import comparison_chart
from perhop.scenario import parse

COORDINATE = st.integers(0, 880 * 8).map(lambda eighths: eighths / 8)
STEPS = st.lists(st.tuples(COORDINATE, COORDINATE), min_size=1, max_size=30)


def corners(path: str) -> list[tuple[float, float]]:
    """The points of a path of lines, without those between others of a straight stretch."""
    found: list[tuple[float, float]] = []
    x = y = 0.0
    for command, rest in re.findall(r"([MLHV])([^MLHV]*)", path):
        values = [float(value) for value in rest.split(",")]
        if command == "H":
            x = values[0]
        elif command == "V":
            y = values[0]
        else:
            x, y = values
        if not found or found[-1] != (x, y):
            found.append((x, y))
    kept = found[:1]
    for here, after in pairwise(found[1:]):
        if not (kept[-1][1] == here[1] == after[1] and kept[-1][0] <= here[0] <= after[0]):
            kept.append(here)
    return kept + found[1:][-1:]


@given(STEPS)
def test_a_short_path_has_the_same_corners(points: list[tuple[float, float]]) -> None:
    points = [(round(x, 2), round(y, 2)) for x, y in points]
    long = "".join(f"{'L' if i else 'M'}{x:.2f},{y:.2f}" for i, (x, y) in enumerate(points))
    short = drawing.short_path(long)
    assert corners(short) == corners(long)
    assert len(short) <= len(long)


def test_a_curve_stays_as_it_is() -> None:
    circle = "M3,0A3,3,0,1,1,-3,0A3,3,0,1,1,3,0"
    assert drawing.short_path(circle) == circle


def test_a_chart_in_a_page_tells_its_scales_and_describes_itself() -> None:
    spec = charts.throughput_chart(scavenger(), "log")
    told = drawing.scales(spec)
    assert told is not None
    assert told["x"] | {"name": "time", "unit": "s", "log": False} == told["x"]
    assert told["y"] | {"name": "throughput", "unit": "Mb/s", "log": True} == told["y"]
    assert [name for name, *_ in told["lines"]] == [
        "scavenger", "best_effort", "priority", "total",
    ]  # fmt: skip
    root = ElementTree.fromstring(drawing.inline_svg(spec))
    assert root.get("role") == "img"
    assert root.get("aria-label") == spec["description"]


@pytest.mark.parametrize("name", ["throughput", "pings", "comparison"])
def test_a_chart_in_a_page_is_the_picture_without_its_title(name: str) -> None:
    run = scavenger()
    compared = comparison_chart(analysis.compare([run, run]))
    spec = {**named.charts_of(run), "comparison": compared}[name]
    assert spec is not None
    bare = {key: value for key, value in spec.items() if key != "title"}
    assert drawing.inline_svg(spec) == drawing.inline_svg(bare)


def stepping(count: int, flows: str = "") -> str:
    """A link whose rate changes `count` times."""
    steps = "".join(
        f"  - {{at: {100 * i} ms, on: r1>r2, rate: {10 + i % 7} Mbps}}\n"
        for i in range(1, count + 1)
    )
    head = SCAVENGER[: SCAVENGER.index("report:")].replace("egress: {r1: qbss}", "")
    head = head[: head.index("policies:")] + head[head.index("flows:") :]
    return f"{head}{flows}changes:\n{steps}"


def test_many_changes_do_not_make_many_phases_rows_and_labels() -> None:
    few = dataset(parse(stepping(20), "few.yaml"))
    changes = report.change_table(few)
    assert changes is not None
    assert len(changes.rows) == 20
    assert len(report.phase_table(few).rows) == len(few.scenario.phases_ps) == 25
    many = dataset(parse(stepping(600), "many.yaml"))
    phases = report.phase_table(many)
    assert len(many.scenario.phases_ps) > 600
    assert [row[0] for row in phases.rows] == [
        f"{i}\N{EN DASH}{i + 30} s" for i in range(0, 150, 30)
    ]
    assert "phases, which are grouped here" in phases.note
    changes = report.change_table(many)
    assert changes is not None
    assert changes.rows == (
        ("0.1\N{EN DASH}60 s", "r1>r2: rate 600 times, 10.0 Mb/s to 16.0 Mb/s"),
    )
    assert len(labels.changes(many)) == 6
    assert "600 changes of the network are not marked" in str(
        charts.throughput_chart(many)["title"]
    )


def test_many_starts_make_stretches_of_equal_length() -> None:
    flows = "".join(
        f"  f{i}: {{from: evagore, to: pharlap, start: {i} s, stop: 150 s}}\n" for i in range(60)
    )
    text = SCAVENGER.replace("pings:\n", f"{flows}pings:\n", 1)
    windows = timeline.stretches(parse(text, "x"))
    assert windows is not None
    assert len(windows) == 20
    assert [end - start for start, end in windows] == pytest.approx([7.5] * 20)
