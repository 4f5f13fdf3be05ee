"""The page and the lines of a sweep over numbers."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from perhop.report.drawing import inline_svg
from perhop.report.output import save_sweep
from perhop.report.style import legend_columns
from perhop.report.sweep_page import line_chart, sweep_page

RATES = {"1 Mbps": 1e6, "10 Mbps": 10e6, "100 Mbps": 100e6}


def table(streams: tuple[str, ...] = ("1", "4"), numeric: bool = True) -> pl.DataFrame:
    """A throughput of 0.9 times the rate in the middle of two seeds, 10% apart."""
    points = product(RATES, streams, (1, 2))
    rows = [
        {
            "point": number,
            "links.1.rate": rate,
            "flows.a.streams": count,
            "seed": seed,
            "target": "total",
            "metric": "throughput",
            "value": RATES[rate] * (0.8 if seed == 1 else 1.0),
            **({"links.1.rate bps": RATES[rate]} if numeric else {}),
        }
        for number, (rate, count, seed) in enumerate(points)
    ]
    return pl.DataFrame(rows)


def layer(spec: dict[str, Any], kind: str) -> dict[str, Any]:
    (found,) = (each for each in spec["layer"] if each["mark"]["type"] == kind)
    return dict(found)


def test_lines_are_over_numbers_with_the_range_of_the_seeds() -> None:
    spec = line_chart(table(), "throughput", "total")
    assert spec is not None
    lines = layer(spec, "line")
    assert lines["encoding"]["x"]["title"] == "links.1.rate (Mb/s)"
    assert lines["encoding"]["x"]["scale"]["type"] == "log"
    points = [(p["flow"], p["x"], p["y"]) for p in lines["data"]["values"]]
    assert points == [
        (f"flows.a.streams {count}", rate, pytest.approx(0.9 * rate))
        for count in (1, 4)
        for rate in (1, 10, 100)
    ]
    bars = layer(spec, "rule")["data"]["values"]
    assert [(bar["x"], bar["low"], bar["high"]) for bar in bars] == [
        (rate, pytest.approx(0.8 * rate), rate) for rate in (1, 10, 100) for _ in range(2)
    ]


def test_names_of_paths_are_whole() -> None:
    page = sweep_page(table(), "throughput", "total", "office")
    (lines, heat) = (each for each in page.split("<figure")[1:3])
    assert "Means over 2 seeds; bars are the range of the seeds" in lines
    assert "throughput of total by links.1.rate and flows.a.streams" in heat.partition("<svg")[0]
    (down,) = re.findall(r'<g class="mark-text role-axis-title"><text ([^>]*)>links.1.rate<', heat)
    assert "rotate" not in down, "it would be cut off at few rows"


def test_a_legend_is_no_wider_than_its_chart() -> None:
    assert [legend_columns([30 * "n"] * count) for count in (1, 6)] == [3, 3]
    assert legend_columns(["web", "voice"]) == 6
    assert legend_columns([200 * "n"]) == 1
    spec = line_chart(table(tuple(30 * each for each in "123456")), "throughput", "total")
    assert spec is not None
    # In a drawing whose legend is wider, a script would leave less room for the chart.
    drawn = re.search(r'viewBox="0 0 ([0-9.]+)', inline_svg(spec))
    assert drawn is not None
    assert float(drawn[1]) < spec["width"] + 100


def test_words_have_no_numeric_axis() -> None:
    assert line_chart(table(numeric=False), "throughput", "total") is None


def test_the_page_has_lines_and_a_heat_map_for_two_paths_and_lines_alone_for_one() -> None:
    both = sweep_page(table(), "throughput", "total", "<office>")
    assert 'id="lines"' in both
    assert 'id="sweep"' in both
    assert "&lt;office&gt;: a sweep" in both
    assert "12 runs with 2 seeds" in both
    one = table(("1",)).drop("flows.a.streams")
    alone = sweep_page(one, "throughput", "total", "office")
    assert 'id="lines"' in alone
    assert 'id="sweep"' not in alone
    words = sweep_page(table(numeric=False), "throughput", "total", "office")
    assert 'id="lines"' not in words
    assert 'id="sweep"' in words


def test_the_page_links_the_pages_of_runs_that_have_one(tmp_path: Path) -> None:
    page = tmp_path / "points" / "3" / "report.html"
    page.parent.mkdir(parents=True)
    page.touch()
    save_sweep(table(("1",)).drop("flows.a.streams"), "throughput", "total", tmp_path)
    content = (tmp_path / "sweep.html").read_text("utf-8")
    assert content.count("<a ") == 1
    row = '<a href="points/3/report.html">3</a></td><td class="left">10 Mbps</td>'
    assert f'{row}<td class="left">2</td><td class="right">10.0 Mb/s</td>' in content
    assert f"perhop report {tmp_path}/points/0" in content
