"""Plots of anything: what they draw, on which axes, and told apart without colour."""

import pytest

from conftest import SLOW
from perhop.report.output import pictures
from perhop.report.plots import Scale, heat_map, line_plot, scatter_plot
from perhop.report.style import Spec

LINES = {"one": [(1.0, 2.0), (2.0, None), (4.0, 8.0)], "other": [(1.0, 20.0), (4.0, 30.0)]}


def drawn(spec: Spec) -> bytes:
    """The PNG of a chart."""
    return pictures("chart", spec)["chart.png"]


@SLOW
def test_a_line_has_a_dash_and_a_marker_of_its_own() -> None:
    spec = line_plot("title", Scale("x (s)"), Scale("y (Mb/s)"), LINES, captions=["a caption"])
    lines, points = spec["layer"]
    assert lines["encoding"]["x"]["title"] == "x (s)"
    assert lines["encoding"]["y"]["scale"]["domain"] == [0, pytest.approx(32.4)]
    for layer, channel in ((lines, "strokeDash"), (points, "shape")):
        looks = layer["encoding"][channel]["scale"]
        assert looks["domain"] == ["one", "other"]
        assert looks["range"][0] != looks["range"][1]
    assert [v["y"] for v in lines["data"]["values"]] == [2, None, 8, 20, 30]
    assert len(points["data"]["values"]) == 4
    assert spec["title"]["subtitle"] == "a caption"
    assert drawn(spec).startswith(b"\x89PNG")


def test_a_logarithmic_axis_begins_at_a_tick() -> None:
    spec = line_plot("t", Scale("x", "log"), Scale("y"), LINES, points=False)
    (lines,) = spec["layer"]
    assert lines["encoding"]["x"]["scale"] == {
        "domain": [1, pytest.approx(5.2)],
        "nice": False,
        "type": "log",
    }
    assert lines["encoding"]["x"]["axis"]["values"] == [1, 2, 5]


def test_a_scatter_plot_leaves_out_what_is_missing() -> None:
    spec = scatter_plot("t", Scale("x"), Scale("y", domain=(0.0, 10.0)), LINES)
    (layer,) = spec["layer"]
    assert len(layer["data"]["values"]) == 4
    assert layer["encoding"]["y"]["scale"]["domain"] == [0, 10]
    assert drawn(spec).startswith(b"\x89PNG")


def test_a_heat_map_begins_at_zero_and_names_its_cells() -> None:
    cells = [("1", "8 KB", 5.0, "5 Mb/s"), ("2", "8 KB", None, "none")]
    spec = heat_map("t", "streams", "window", "throughput (Mb/s)", cells)
    rect, words = spec["layer"]
    assert rect["encoding"]["color"]["scale"]["domainMin"] == 0
    assert [row["shown"] for row in words["data"]["values"]] == ["5 Mb/s", "none"]
    assert drawn(spec).startswith(b"\x89PNG")


def test_nothing_to_draw_is_drawn() -> None:
    assert drawn(line_plot("t", Scale("x"), Scale("y"), {"none": []})).startswith(b"\x89PNG")
