"""perhop in Python and in notebooks: scenarios as mappings, metrics as functions, charts."""

import inspect
import json
from copy import deepcopy
from functools import reduce
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perhop
from conftest import SLOW
from perhop import analysis, templates, topologies, units
from perhop.analysis import compare
from perhop.dataset import Dataset
from perhop.errors import OutputError, ScenarioError, UsageError
from perhop.report import named
from perhop.scenario import METRICS, Flow
from perhop.units import Mbps, kbps, ms, percent, s
from test_scenario_fuzz import places

HEAD = {"perhop": 1, "name": "small", "duration": s(3)}
NETWORK = topologies.dumbbell(2, rate=Mbps(2.5), delay=ms(10))
FLOWS = {
    "web": {"from": "s1", "to": "d1"},
    "call": {"from": "s2", "to": "d2", "udp": {"rate": kbps(80), "size": "200 B"}},
}
PINGS = {"echo": {"from": "s1", "to": "d1", "every": ms(100)}}
SMALL: dict[str, Any] = {**HEAD, **NETWORK, "flows": FLOWS, "pings": PINGS}


@pytest.fixture(scope="module")
def small() -> Dataset:
    return perhop.run(perhop.load({**SMALL, "title": "<script>"}))


# Scenarios


def test_a_mapping_is_the_same_as_its_text(tmp_path: Path) -> None:
    text = perhop.dump(perhop.load(SMALL))
    (tmp_path / "small.yaml").write_text(text)
    read = perhop.load(tmp_path / "small.yaml")
    assert perhop.load(SMALL) == perhop.load(text) == read
    assert perhop.load({**SMALL, "flows": dict(read.flows)}) == read


def test_a_mapping_takes_overrides_and_stays_as_it_is() -> None:
    before = json.dumps(SMALL)
    changed = perhop.load(SMALL, overrides={"links.2.rate": "5 Mbps", "flows.web.streams": "3"})
    assert (changed.links[2].rate, changed.flows["web"].streams) == (5_000_000, 3)
    assert json.dumps(SMALL) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flows": {"web": {"from": "s1", "to": "d9"}}}, "flows.web.to: `d9` is not a node"),
        ({"duration": 3}, "duration: a duration needs a unit, such as `100 ms`"),
        ({"flows": {"web": {"from": "s1", 7: 1}}}, "flows.web: has the key `7`; expected text"),
        ({"title": reduce(lambda inner, _: [inner], range(21), "")}, "title.0.0: nested more than"),
    ],
)
def test_errors_of_a_mapping_have_paths(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        perhop.load({**SMALL, **change})
    assert str(caught.value).startswith(message)


def test_errors_of_a_text_and_of_overrides_have_their_place() -> None:
    with pytest.raises(ScenarioError, match=r"<string>:3:9: links\.0: `7` is not"):
        perhop.load("perhop: 1\nname: x\nlinks: [7]\n")
    with pytest.raises(ScenarioError, match=r"^--set duration=3: duration: a duration needs"):
        perhop.load(SMALL, overrides=["duration=3"])


PLACES = [place for place in places(SMALL) if place]
STRANGE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
VALUES = st.recursive(
    STRANGE | st.sampled_from([b"x", object(), {1}, range(3), 10**400]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=2)
    ),
    max_leaves=3,
)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(PLACES), VALUES)
def test_any_mapping_is_a_scenario_or_an_error(place: tuple[Any, ...], value: object) -> None:
    data = deepcopy(SMALL)
    part: Any = data
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    try:
        scenario = perhop.load(data)
    except ScenarioError as error:
        assert all(line.isprintable() for line in str(error).split("\n"))
    else:
        assert perhop.load(perhop.dump(scenario)) == scenario


# Units


@given(st.decimals(min_value=0, max_value=10**6, places=3))
def test_units_write_what_the_parser_reads(number: Any) -> None:
    assert units.parse_rate(Mbps(number)) == int(number * 10**6)
    assert units.parse_rate(Mbps(float(number))) == int(number * 10**6)


def test_units_refuse_what_scenarios_refuse() -> None:
    assert (percent(0.5), ms(1e3), units.minutes(2)) == ("0.5%", "1000 ms", "2 min")
    for wrong in (-1, float("nan"), float("inf"), 1e30, 1e-9):
        with pytest.raises(ValueError, match="rate"):
            Mbps(wrong)


# Topologies


@pytest.mark.parametrize(
    ("name", "built"),
    [
        ("dumbbell", lambda link: topologies.dumbbell(3, **link)),
        ("parking-lot", lambda link: topologies.parking_lot(3, **link)),
        ("leaf-spine", lambda link: topologies.leaf_spine(2, 2, 2, **link)),
    ],
)
def test_topologies_are_those_of_the_templates(name: str, built: Any) -> None:
    """With the rate, delay and queue of the template's narrowest link."""
    template = perhop.load(templates.text(name))
    narrow = min(template.links, key=lambda link: (link.rate, -link.delay))
    written = narrow.model_dump(mode="json", exclude_defaults=True)
    made = built({key: written[key] for key in ("rate", "delay", "queue")})
    sections = template.model_dump(mode="json", exclude_defaults=True)
    flows = {key: sections[key] for key in ("perhop", "name", "flows", "duration")}
    scenario = perhop.load({**made, **flows})
    assert dict(scenario.nodes) == dict(template.nodes)
    assert sorted(map(repr, scenario.links)) == sorted(map(repr, template.links))


def test_a_star_has_a_link_for_each_host() -> None:
    star = topologies.star(4, rate=Mbps(10))
    flows = {"flows": {"web": {"from": "h1", "to": "h4"}}}
    assert len(perhop.load({**HEAD, **star, **flows}).links) == 4
    with pytest.raises(UsageError, match="hosts is 1; expected at least 2"):
        topologies.star(1, rate=Mbps(10))


# Metrics


def test_every_metric_is_a_documented_function() -> None:
    assert set(perhop.metrics.__all__) == {*METRICS, "table"}
    for name in METRICS:
        function = getattr(perhop.metrics, name)
        first, *rest = inspect.cleandoc(function.__doc__).splitlines()
        assert first.startswith("Return ") and first.endswith("."), name
        for parameter in inspect.signature(function).parameters:
            assert any(f"{parameter}:" in line for line in rest), (name, parameter)
    with pytest.raises(AttributeError, match="did you mean `throughput`"):
        _ = perhop.metrics.throughputs


def test_metrics_agree_with_the_tables(small: Dataset) -> None:
    rows = small.intervals.filter(flow="web")
    assert perhop.metrics.throughput(small, "web") == pytest.approx(8 * rows["bytes"].sum() / 3)
    second = rows.filter(start_s=1.0)["bytes"].sum()
    for during in ("1 s..2 s", (1.0, 2.0)):
        assert perhop.metrics.throughput(small, "web", during=during) == pytest.approx(8 * second)
    pair = [perhop.metrics.throughput(small, name) for name in ("web", "call")]
    assert perhop.metrics.ratio(small, "web", "call") == pytest.approx(pair[0] / pair[1])
    assert perhop.metrics.loss(small, "web", during="1 s..9 s") is None


def test_wrong_calls_of_metrics_are_errors(small: Dataset) -> None:
    metrics = perhop.metrics
    for call, message in (
        (lambda: metrics.loss(small, "wbe"), "did you mean `web`"),
        (lambda: metrics.loss(small, "web", "call"), "`loss` has 2 targets; expected one"),
        (lambda: metrics.ratio(small, "web"), "`ratio` has 1 targets; expected 2"),
        (lambda: metrics.loss(small, "web", during="now"), "`now` is not a stretch of time"),
    ):
        with pytest.raises(UsageError, match=message):
            call()
    with pytest.raises(TypeError, match=r"share.. needs the argument 'class_'"):
        metrics.share(small, "s1>left")
    with pytest.raises(TypeError, match=r"loss.. has no argument 'of'"):
        metrics.loss(small, "web", of="rtt_p99")


def test_the_table_has_what_the_functions_return(small: Dataset) -> None:
    table = perhop.metrics.table(small)
    assert {"web", "call", "echo", "total", "left>right"} <= {*table["target"]}
    for target, metric, value, _ in table.iter_rows():
        assert getattr(perhop.metrics, metric)(small, target) == value
    assert table.filter(target="call", metric="jitter").height == 1
    assert table.filter(target="web", metric="jitter").is_empty()


def test_the_table_of_an_ensemble_has_its_spreads() -> None:
    flows = {"web": {**FLOWS["web"], "start": {"at": "0 s", "jitter": "1 s"}}}
    bounds = {"throughput": "web", "at_least": "100 kbps"}
    runs = perhop.ensembles.run(perhop.load({**SMALL, "flows": flows, "expect": [bounds]}), 6)
    assert repr(runs) == "<Ensemble of small: sim, 6 runs, 1 of 1 expectations hold>"
    row = runs.table.filter(target="web", metric="throughput").row(0, named=True)
    found = runs.metrics["web", "throughput", "bit/s"]
    assert (row["low"], row["median"], row["high"]) == (found.low, found.median, found.high)
    assert row["low"] < row["high"] and row["missing"] == 0
    assert "holds" in runs._repr_html_()


# Notebooks


def test_objects_say_what_they_are_in_a_line(small: Dataset) -> None:
    assert repr(small.scenario) == str(small.scenario)
    assert repr(small.scenario) == "<Scenario small: 6 nodes, 5 links, 2 flows, 1 ping, 3 s>"
    compared = compare([small, small], ["one", "other"])
    assert repr(compared) == "<RunComparison of one, other: 2 flows, 1 ping, 0 differences>"
    sweep = perhop.Sweep("small.yaml", {"links.2.rate": ["1 Mbps", "2 Mbps"]}, Path("out"), (1, 2))
    assert repr(sweep) == "<Sweep of small.yaml over links.2.rate: 4 points, in out>"
    runs = perhop.ensembles.run(small.scenario, 6)
    assert repr(runs) == "<Ensemble of small: sim, 1 run>"
    for each in (small, small.scenario, compared, runs):
        shown = each._repr_html_()
        assert "<table>" in shown and "<script>" not in shown


def test_charts_are_pictures_and_files(small: Dataset, tmp_path: Path) -> None:
    chart = perhop.charts.throughput(small)
    assert repr(chart).startswith("<Chart: Throughput of web, call")
    assert chart._repr_mimebundle_()["image/svg+xml"].startswith("<svg")
    assert json.loads(chart.save(tmp_path / "a.json").read_text()) == chart.spec
    assert chart.save(tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(UsageError, match=r"has no suffix of \.svg, \.png, \.csv or \.json"):
        chart.save(tmp_path / "a.gif")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError):
        chart.save(tmp_path / "file" / "a.json")
    with pytest.raises(UsageError, match="the run has no calls with a score"):
        perhop.charts.mos(small)


@SLOW
def test_charts_are_saved_as_the_command_writes_them(small: Dataset, tmp_path: Path) -> None:
    drawings: dict[str, Any] = {
        "throughput": perhop.charts.throughput(small),
        "throughput-log": perhop.charts.throughput(small, "log"),
    }
    described = named.described(small)
    for name in described.keys() - drawings.keys():
        drawings[name] = getattr(perhop.charts, name)(small)
    assert "network" in drawings
    for name, chart in drawings.items():
        for kind in named.FORMATS:
            saved = chart.save(tmp_path / f"{name}.{kind}").read_bytes()
            assert saved == named.chart_file(small, name, kind), (name, kind)


def test_the_network_is_a_picture_with_the_use_of_links(small: Dataset, tmp_path: Path) -> None:
    drawing = perhop.charts.network(small)
    assert repr(drawing).startswith("<Drawing: Network of 6 nodes and 5 links; the busiest")
    assert drawing._repr_mimebundle_()["image/svg+xml"].startswith("<svg")
    table = pl.read_csv(drawing.save(tmp_path / "links.csv"))
    assert table.columns == ["link", "rate", "delay", "use"]
    used = dict(analysis.link_loads(small).select("link", "utilisation").iter_rows())
    assert dict(table.select("link", "use").iter_rows()) == pytest.approx(used)
    nodes = {f"h{number}": "host" for number in range(301)}
    links = [{"ends": [f"h{n}", f"h{n + 1}"], "rate": "1 Gbps"} for n in range(300)]
    pings = {"ping": {"from": "h0", "to": "h1", "every": "1 s"}}
    large = perhop.load({**HEAD, "nodes": nodes, "links": links, "pings": pings})
    with pytest.raises(UsageError, match="of more than 300 nodes"):
        perhop.charts.network(perhop.run(large))


@SLOW
def test_comparisons_and_sweeps_are_tables_too(small: Dataset, tmp_path: Path) -> None:
    compared = perhop.charts.comparison(compare([small, small], ["one", "other"]))
    table = pl.read_csv(compared.save(tmp_path / "compared.csv"))
    assert table.columns == ["phase", "flow", "run", "throughput (Mb/s)"]
    assert {*table["run"]} == {"one", "other"}
    varied: dict[str, list[str]] = {
        "links.2.rate": ["1 Mbps", "2 Mbps"],
        "links.2.delay": ["1 ms", "2 ms"],
        "flows.web.streams": ["1", "2"],
    }
    (tmp_path / "small.yaml").write_text(perhop.dump(small.scenario))
    found = perhop.Sweep(str(tmp_path / "small.yaml"), varied, tmp_path / "out", (1,)).run()
    chart = perhop.charts.sweep(found, "throughput", "web")
    table = pl.read_csv(chart.save(tmp_path / "swept.csv"))
    assert table.columns[:4] == [*varied, "throughput of web (Mb/s)"]
    assert table.height == 8
    rates = found.filter(target="web", metric="throughput")["value"] / 1e6
    assert sorted(table["throughput of web (Mb/s)"]) == pytest.approx(sorted(rates))


def test_a_flow_object_is_a_value_of_a_mapping() -> None:
    flow = Flow(source="s1", destination="d1", streams=2)
    assert perhop.load({**SMALL, "flows": {"web": flow}, "pings": {}}).flows["web"] == flow
