import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perhop
from conftest import SLOW
from datasets import SCAVENGER, dataset, scavenger
from perhop import analysis, report
from perhop.dataset import Dataset
from perhop.errors import OutputError
from perhop.report import charts, drawing, html, labels, text
from perhop.scenario import parse

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'<!--"


FORK = """
perhop: 1
name: fork
nodes: {a: host, r: router, b: host, c: host}
links:
  - {ends: [a, r], rate: 10 Mbps}
  - {ends: [r, b], rate: 1 Mbps}
  - {ends: [r, c], rate: 1 Mbps}
flows:
  one: {from: a, to: b, udp: {rate: 100 kbps}, stop: 20 s}
  two: {from: a, to: c, udp: {rate: 100 kbps}, start: START, stop: 20 s}
"""


@pytest.fixture(scope="module")
def run() -> Dataset:
    return scavenger()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (text.rate(9_414_000), "9.41 Mb/s"),
        (text.rate(999_600), "1.00 Mb/s"),
        (text.rate(0.5), "0.500 b/s"),
        (text.rate(0), "0 b/s"),
        (text.rate(None), "\N{EN DASH}"),
        (text.size(1_180_000_000), "1.18 GB"),
        (text.duration(0.116), "116 ms"),
        (text.duration(0), "0 s"),
        (text.duration(150), "150 s"),
        (text.share(0.871), "87.1%"),
        (text.share(1), "100%"),
        (text.share(0), "0%"),
        (text.count(1234567), "1,234,567"),
        (text.difference(0.0321), "+3.2%"),
        (text.difference(-0.12), "-12.0%"),
        (text.difference(0.0001), "0%"),
        (text.difference(19), "20.0 times"),
        (text.stated(10_000_000, "bps"), "10 Mb/s"),
        (text.stated(8_700_000, "bps"), "8.7 Mb/s"),
        (text.stated(0.05, "share"), "5%"),
        (text.stated(100, "packets"), "100"),
        (text.window(62, 90.5), "62\N{EN DASH}90.5 s"),
        (text.listed(["a", "b", "c"]), "a, b and c"),
        (text.listed(["a"]), "a"),
    ],
)
def test_numbers_read_well(written: str, expected: str) -> None:
    assert written == expected


@given(st.floats(1e-3, 1e12))
def test_a_written_rate_is_within_half_a_unit_of_its_last_digit(bps: float) -> None:
    number, unit = text.rate(bps).split()
    factor = {"b/s": 1, "kb/s": 1e3, "Mb/s": 1e6, "Gb/s": 1e9}[unit]
    assert float(number) * factor == pytest.approx(bps, rel=0.0051, abs=5.1e-6)


@given(st.text(), st.text())
def test_text_cannot_become_markup(content: str, attribute: str) -> None:
    written = html.element("p", content, title=attribute)
    assert re.fullmatch(r'<p title="[^"<>]*">[^<>]*</p>', written, re.DOTALL)


@SLOW
@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner), max_leaves=5))
def test_json_cannot_leave_its_script(value: Any) -> None:
    written = html.data("id", value)
    inner = written.removeprefix('<script type="application/json" id="id">')
    inner = inner.removesuffix("</script>")
    assert "<" not in inner
    assert json.loads(inner) == value


def test_code_that_would_end_its_script_is_refused() -> None:
    for source in ("'</script>'", "'</SCRIPT '", "<!--"):
        with pytest.raises(ValueError, match="end its own element"):
            html.code(source)


def test_the_phase_table_shows_who_gave_way(run: Dataset) -> None:
    table = report.phase_table(run)
    assert [c.name for c in table.columns] == [
        "phase",
        "scavenger",
        "best_effort",
        "priority",
        "total",
    ]
    assert [row[0] for row in table.rows] == [
        f"{i}\N{EN DASH}{i + 30} s" for i in range(0, 150, 30)
    ]
    third = table.rows[2]
    assert re.fullmatch(r"7\.\d\d Mb/s \(7\d\.\d%\)", third[3])
    assert table.rows[0][3] == text.ABSENT
    assert "r1>r2 (10 Mb/s)" in table.note


def test_published_and_expected_tables_are_there_if_there_is_something(run: Dataset) -> None:
    published = report.published_table(run)
    assert published is not None
    assert published.rows[0][2:5] == ("above 9 Mb/s", published.rows[0][3], "agrees")
    assert published.rows[1][2] == "about 8.7 Mb/s"
    expected = report.expectation_table(run)
    assert expected is not None
    assert {row[0] for row in expected.rows} == {"holds"}
    bare = SCAVENGER[: SCAVENGER.index("pings:")] + "report: {interval: 1 s}\n"
    empty = dataset(parse(bare, "x"))
    assert report.published_table(empty) is None
    assert report.expectation_table(empty) is None
    assert report.ping_table(empty) is None


def test_plain_queues_without_drops_come_last_in_one_table(run: Dataset) -> None:
    tables = report.class_tables(run)
    assert [t.title for t in tables] == ["Classes of r1>r2", "Plain queues without drops"]
    assert [row[0] for row in tables[0].rows] == ["scavenger", "best_effort", "priority"]
    assert [row[0] for row in tables[1].rows] == ["evagore>r1", "r2>pharlap"]


def test_a_plain_queue_with_drops_has_its_own_table() -> None:
    row = {"link": "r2>pharlap", "class": "all", "start_s": 0.0, "end_s": 1.0}
    run = dataset(parse(SCAVENGER, "x"), queues=[{**row, "dropped_packets": 1, "dropped_limit": 1}])
    assert [t.title for t in report.class_tables(run)] == ["Classes of r2>pharlap"]


def test_what_exceeds_a_policer_is_dropped_or_remarked() -> None:
    row = {"link": "r1>r2", "start_s": 0.0, "end_s": 1.0, "conformed_packets": 5}
    dropping = {**row, "class": "priority", "exceeded_packets": 3, "dropped_policer": 3}
    remarking = {**row, "class": "scavenger", "exceeded_packets": 3, "remarked_packets": 3}
    (table,) = report.class_tables(dataset(parse(SCAVENGER, "x"), queues=[dropping, remarking]))
    names = [column.name for column in table.columns]
    shown = [dict(zip(names, row, strict=True)) for row in table.rows]
    assert [row["dropped: policer"] for row in shown] == ["3", "0"]
    assert [row["remarked"] for row in shown] == ["0", "3"]


def test_every_table_is_rectangular(run: Dataset) -> None:
    tables = [
        report.phase_table(run),
        report.flow_table(run),
        report.published_table(run),
        report.expectation_table(run),
        report.ping_table(run),
        *report.class_tables(run),
    ]
    for table in tables:
        assert table is not None
        assert all(len(row) == len(table.columns) for row in table.rows)


def test_round_trip_times_of_flows_are_smoothed_ones_where_there_are_no_others(
    run: Dataset,
) -> None:
    def shown(run: Dataset) -> dict[str, str]:
        table = report.flow_table(run)
        return dict(zip((column.name for column in table.columns), table.rows[0], strict=True))

    both = shown(run)
    assert "SRTT median" not in both
    bare = shown(replace(run, rtts=run.rtts.clear()))
    assert "RTT median" not in bare
    assert bare["SRTT median"] not in (both["RTT median"], "")
    found = analysis.flow_srtt(run, "scavenger")
    assert found is not None
    assert bare["SRTT p99"] == text.duration(found.p99)


def test_the_lead_says_who_got_what(run: Dataset) -> None:
    assert re.fullmatch(
        r"When most were sending \(60.90 s\), priority got 7\.\d\d Mb/s \(7\d\.\d%\), "
        r"best_effort 2\.\d\d Mb/s \(2\d\.\d%\) and scavenger 10\d kb/s \(1\.\d\d%\) "
        r"of r1>r2 at 10 Mb/s\. All 5 expectations hold\.",
        report.lead(run),
    )
    assert report.lead(scavenger(until=70)).endswith("The run was cut off at 70 s.")
    assert "4 of 5 expectations were not reached." in report.lead(scavenger(until=70))


def lines(spec: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The points of each line of a chart, by name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for layer in spec["layer"]:
        if layer["mark"]["type"] == "line":
            for point in layer["data"]["values"]:
                found.setdefault(point["flow"], []).append(point)
    return found


def words(spec: dict[str, Any]) -> list[str]:
    texts = [layer for layer in spec["layer"] if layer["mark"]["type"] == "text"]
    return [
        layer["mark"].get("text") or value["text"]
        for layer in texts
        for value in layer["data"]["values"]
    ]


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_the_throughput_chart_draws_and_names_every_flow(run: Dataset, scale: Any) -> None:
    spec = charts.throughput_chart(run, scale)
    drawn = lines(spec)
    assert drawn.keys() == {"scavenger", "best_effort", "priority", "total"}
    assert (drawn["priority"][0]["t"], drawn["priority"][-1]["t"]) == (60, 90)
    assert {"scavenger", "best_effort", "priority"} <= set(words(spec))
    assert {"priority starts", "best_effort stops", "r1>r2: 10 Mb/s"} <= set(words(spec))
    styles = next(layer["encoding"] for layer in spec["layer"] if layer["mark"]["type"] == "line")
    for channel in ("color", "strokeDash"):
        scaled = styles[channel]["scale"]
        assert scaled["domain"] == ["scavenger", "best_effort", "priority", "total"]
        assert len({str(value) for value in scaled["range"][:3]}) == 3


def test_the_name_of_a_bottleneck_begins_in_the_chart() -> None:
    def name(start: str) -> dict[str, Any]:
        spec = charts.throughput_chart(perhop.run(parse(FORK.replace("START", start))))
        (layer,) = (
            each
            for each in spec["layer"]
            if each["mark"]["type"] == "text" and each["mark"].get("text") == "r>b: 1 Mb/s"
        )
        return {"align": layer["mark"]["align"], "x": layer["encoding"]["x"]["field"]}

    # The flow to c has another bottleneck, so that there is a common one before it starts only.
    assert name("1 s") == {"align": "left", "x": "t"}
    assert name("19 s") == {"align": "right", "x": "end"}


def test_a_linear_line_is_the_series_of_intervals(run: Dataset) -> None:
    points = lines(charts.throughput_chart(run))["priority"]
    assert [p["t"] for p in points] == [60, *range(60, 90), 90, 90]
    assert points[0]["y"] == points[-1]["y"] == 0
    assert points[5]["y"] == pytest.approx(7.1, rel=0.05)


def test_zeros_on_a_log_scale_are_marked_and_never_drawn_as_values() -> None:
    levels = {(0, 30): {"scavenger": 9e6}, (30, 150): {"best_effort": 9e6}}
    spec = charts.throughput_chart(scavenger(levels), "log")
    low = next(
        layer["encoding"]["y"]["scale"]["domain"][0]
        for layer in spec["layer"]
        if "y" in layer["encoding"]
    )
    assert low > 0
    drawn = lines(spec)
    assert all(p["y"] is None or p["y"] >= low for points in drawn.values() for p in points)
    marks = [layer for layer in spec["layer"] if layer["mark"].get("shape") == "triangle-down"]
    empty = {(p["flow"], p["t"]) for p in marks[0]["data"]["values"]}
    assert ("scavenger", 30.5) in empty
    assert ("scavenger", 29.5) not in empty
    assert "nothing" in spec["title"]["subtitle"]
    before = [p["y"] for p in drawn["scavenger"] if p["t"] == 30]
    assert before[0] is not None
    assert before[1] is None


@SLOW
def test_charts_of_long_runs_and_many_flows_stay_small() -> None:
    flows = "".join(f"  f{i}: {{from: a, to: b, stop: 1000 s}}\n" for i in range(40))
    scenario = parse(
        "perhop: 1\nname: many\nnodes: {a: host, b: host}\n"
        f"links: [{{ends: [a, b], rate: 1 Gbps}}]\nflows:\n{flows}report: {{interval: 1 s}}\n",
        "x",
    )
    run = dataset(
        scenario,
        [
            {"flow": f"f{i}", "start_s": float(t), "end_s": t + 1.0, "bytes": 1000 + i}
            for t in range(1000)
            for i in range(40)
        ],
    )
    assert charts.drawn_flows(run) == [f"f{i}" for i in range(28, 40)]
    assert charts.grid_s(run) == 4
    spec = charts.throughput_chart(run)
    assert len(json.dumps(spec)) < 250_000
    assert "28 more in the total" in spec["title"]["subtitle"]
    assert len(report.page(run).encode()) < 400_000


def test_changes_at_once_share_a_label_and_rows_do_not_overlap(run: Dataset) -> None:
    marks = labels.changes(run)
    assert [(m.t, m.text) for m in marks][:2] == [
        (0, "scavenger starts"),
        (30, "best_effort starts"),
    ]
    assert marks[-1].align == "right"
    flows = "".join(
        f"  f{i}: {{from: a, to: b, start: {i // 3} s, stop: 100 s}}\n" for i in range(30)
    )
    crowded = dataset(
        parse(
            "perhop: 1\nname: many\nnodes: {a: host, b: host}\n"
            f"links: [{{ends: [a, b], rate: 1 Gbps}}]\nflows:\n{flows}",
            "x",
        )
    )
    marks = labels.changes(crowded)
    assert marks[0].text == "3 flows start"
    assert len(marks) == 11
    assert any(not m.text for m in marks)


def test_the_ping_curve_ends_at_the_share_answered(run: Dataset) -> None:
    spec = charts.ping_chart(run)
    assert spec is not None
    for name, points in lines(spec).items():
        rows = run.pings.filter(ping=name)
        assert points[-1]["y"] == rows["rtt_s"].count() / len(rows)
        assert points[-1]["t"] == pytest.approx(rows["rtt_s"].max() * 1e3)
    assert charts.ping_chart(dataset(run.scenario)) is None


def test_a_page_needs_nothing_but_itself(run: Dataset) -> None:
    page = report.page(run)
    assert page.startswith("<!doctype html>\n<html lang=")
    assert len(page.encode()) < 100_000
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"(src|href|url)\s*[=(]", markup)
    assert "default-src &#x27;none&#x27;; script-src &#x27;sha256-" in page
    order = [
        "SLAC QBSS Measurements",
        "When most were sending",
        'id="throughput-linear"',
        'id="throughput-log"',
        "Throughput by phase",
        "Published beside measured",
        "Where results differ",
        "Expectations",
        "Classes of r1&gt;r2",
        "2 plain queues without drops",
        "Pings: round-trip times",
        "perhop run three-classes.yaml --engine sim --seed 1",
        "The scenario as run",
    ]
    places = [page.index(piece) for piece in order]
    assert places == sorted(places)


def hostile() -> Dataset:
    """A run whose every free text tries to break out of the page."""
    scenario = parse(SCAVENGER, "x")
    published = tuple(
        item.model_copy(update={"label": HOSTILE, "note": HOSTILE}) for item in scenario.published
    )
    fields = dict.fromkeys(("title", "source", "description", "name"), HOSTILE)
    run = scavenger()
    return dataset(
        scenario.model_copy(update={**fields, "published": published}), run.intervals.to_dicts()
    )


@SLOW
def test_hostile_text_stays_text_in_a_picture() -> None:
    drawn = drawing.svg(charts.throughput_chart(hostile()))
    root = ElementTree.fromstring(drawn)
    assert not [element for element in root.iter() if element.tag.endswith(("script", "image"))]
    assert "alert(1)" in "".join(root.itertext())


def test_hostile_text_stays_text() -> None:
    page = re.sub(r"<script>.*?</script>", "", report.page(hostile()), flags=re.DOTALL)
    assert page.count("alert(1)") > 5
    for tag in ("<script>alert", "<img", "<!--", HOSTILE):
        assert tag not in page


@pytest.mark.parametrize(
    "make",
    [
        lambda: dataset(parse(SCAVENGER, "x")),
        lambda: dataset(parse(SCAVENGER, "x"), complete=False, duration_s=0.0),
        lambda: scavenger(until=70),
    ],
)
def test_an_empty_or_interrupted_run_has_a_page(make: Callable[[], Dataset]) -> None:
    assert "<h1>" in report.page(make())


@SLOW
def test_write_leaves_the_page_and_the_pictures(run: Dataset, tmp_path: Path) -> None:
    files = report.write(run, tmp_path / "deep" / "report")
    assert [file.name for file in files] == [
        "report.html",
        "throughput.png",
        "throughput.svg",
        "throughput-log.png",
        "throughput-log.svg",
    ]
    assert sorted(files) == sorted((tmp_path / "deep" / "report").iterdir())
    for file in files:
        if file.suffix == ".png":
            assert file.read_bytes().startswith(b"\x89PNG")
        if file.suffix == ".svg":
            assert "priority starts" in "".join(ElementTree.parse(file).getroot().itertext())


@SLOW
def test_a_report_goes_with_its_dataset(run: Dataset, tmp_path: Path) -> None:
    folder = run.write(tmp_path / "run")
    report.write(run, folder)
    run.write(folder)
    assert not (folder / "report.html").exists()


@SLOW
def test_a_folder_that_cannot_be_made_is_an_output_error(run: Dataset, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"cannot write .*; give another folder"):
        report.write(run, tmp_path / "file" / "report")
