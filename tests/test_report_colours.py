"""Colours of reports: a name has one on a whole page, and lines differ by their dashes, too."""

from collections import defaultdict

import pytest

import perhop
from perhop import analysis, engines
from perhop.dataset import Dataset
from perhop.engines.sim import SimRun
from perhop.report import colours, comparison, comparison_delays, named
from perhop.report.style import Spec
from perhop.studio.lines import lines

MIXED = """\
perhop: 1
name: mixed
nodes: {a: host, b: host, r1: router, r2: router}
links:
  - {ends: [a, r1], rate: 12 Mbps, delay: 1 ms, egress: {a: wan}}
  - {ends: [r1, r2], rate: 10 Mbps, delay: 5 ms, egress: {r1: wan}}
  - {ends: [r2, b], rate: 100 Mbps, delay: 1 ms}
policies:
  wan:
    classes:
      voice: {match: {dscp: ef}, bandwidth: 20%}
      bulk: {match: {dscp: af11}, bandwidth: 30%}
      rest: {match: any}
flows:
  cbr: {from: a, to: b, udp: {rate: 500 kbps}}
  slow: {from: a, to: b, udp: {rate: 300 kbps}}
  bulk: {from: a, to: b, dscp: af11, tcp: {}}
  web: {from: a, to: b, tcp: {}}
  film: {from: a, to: b, video: {}}
  calls: {from: a, to: b, dscp: ef, voice: {codec: g711}}
  desk: {from: a, to: b, voice: {codec: g729a}}
pings:
  near: {from: a, to: r1, every: 50 ms}
  far: {from: a, to: b, every: 50 ms}
duration: 3 s
report: {interval: 200 ms}
"""


@pytest.fixture(scope="module")
def run() -> Dataset:
    return perhop.run(perhop.load(MIXED))


def looks(spec: Spec) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The colour and the dash of each line of a chart."""
    line = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "line")
    colour, dash = (line["encoding"][channel]["scale"] for channel in ("color", "strokeDash"))
    pairs = zip(colour["range"], map(tuple, dash["range"]), strict=True)
    return dict(zip(colour["domain"], pairs, strict=True))


def test_a_name_has_one_colour_in_all_charts_of_a_run(run: Dataset) -> None:
    found = defaultdict(set)
    charts = named.charts_of(run)
    assert {"throughput", "rtt", "queueing", "delay", "pings", "mos", "video"} <= charts.keys()
    for name in charts.keys() - {"drops"}:
        for line, (colour, _) in looks(charts[name]).items():
            # A line of a backlog is a class of a link, or a link.
            found[line.rpartition(" ")[2]].add(colour)
    assert found.keys() >= {*run.scenario.flows, *run.scenario.pings, "rest"}
    assert {name: seen for name, seen in found.items() if len(seen) > 1} == {}


def test_lines_of_a_chart_differ_by_colour_and_dash_while_there_are_enough(run: Dataset) -> None:
    for name, spec in named.charts_of(run).items():
        found = looks(spec)
        number = min(len(found), len(colours.COLOURS))
        assert len(set(found.values())) == len(found), name
        assert len({dash for _, dash in found.values()}) >= number - (name == "throughput"), name
        if name not in ("throughput", "throughput-log", "backlog"):
            assert len({colour for colour, _ in found.values()}) == number, name


def test_a_class_has_its_colour_on_every_link(run: Dataset) -> None:
    found = looks(named.charts_of(run)["backlog"])
    assert found["a>r1 bulk"][0] == found["r1>r2 bulk"][0]
    assert found["a>r1 bulk"] != found["r1>r2 bulk"]
    assert found["a>r1 bulk"][0] == looks(named.charts_of(run)["throughput"])["bulk"][0]


def test_words_beside_lines_have_their_colours_and_the_total_can_be_read(run: Dataset) -> None:
    spec = named.charts_of(run)["throughput-log"]
    words = [
        value
        for layer in spec["layer"]
        for value in layer.get("data", {}).get("values", ())
        if "colour" in value
    ]
    assert len(words) > 2
    for word in words:
        name, colour = word["text"], word["colour"]
        assert colour == ("#555555" if name == "total" else looks(spec)[name][0])


def test_of_many_flows_those_that_are_drawn_differ() -> None:
    drawn = [f"f{number}" for number in range(5, 200, 17)]
    found = colours.looks([drawn, [f"f{number}" for number in range(200)]])
    assert len({found[name] % 36 for name in drawn}) == len(drawn) == 12
    assert len({found[name] % 6 for name in drawn[:6]}) == 6


def test_names_of_a_small_chart_differ_first() -> None:
    flows = [f"f{number}" for number in range(8)]
    found = colours.looks([flows, ["f0", "f6"], ["f1", "f7"]])
    assert found["f0"] % 6 != found["f6"] % 6
    assert found["f1"] % 6 != found["f7"] % 6


def test_a_run_has_one_colour_in_a_comparison() -> None:
    without = MIXED.replace("  far: {from: a, to: b, every: 50 ms}\n", "")
    runs = [perhop.run(perhop.load(text)) for text in (MIXED, without, MIXED)]
    names = ("one", "two", "three")
    whole = comparison.comparison_chart(analysis.compare(runs, names))
    assert whole is not None
    scale = whole["spec"]["encoding"]["color"]["scale"]
    expected = dict(zip(scale["domain"], scale["range"], strict=True))
    charts = dict(comparison_delays.compared_delays(runs, names))
    for spec in charts.values():
        for name, (colour, _) in looks(spec).items():
            assert colour == expected[name]
    assert looks(charts["far"]).keys() == {"one", "three"}


def test_the_studio_gives_a_name_the_colour_of_the_report(run: Dataset) -> None:
    drawn = []

    def draw(ended: engines.Run) -> None:
        assert isinstance(ended, SimRun)
        drawn.append(lines(run.scenario, ended))

    engines.run(run.scenario, ended=draw)
    found = drawn[0]["colours"]
    assert found.keys() >= {*run.scenario.flows, *run.scenario.pings, "voice", "rest"}
    assert max(found.values()) < 8
    report = colours.dataset_looks(run)
    first = [name for name, look in report.items() if look < 6]
    assert len(first) == 6
    assert {name: found[name] for name in first} == {name: report[name] for name in first}
