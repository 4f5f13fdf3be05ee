"""Published experiments: all of them run, judged and drawn."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from conftest import REAL_HOSTS, SLOW, Outcome
from perhop import analysis, experiments, gallery
from perhop.errors import UnsupportedError, UsageError
from perhop.experiments import Case, Experiment, Reproduction, Value
from perhop.experiments.reproduction import compare
from perhop.experiments.tables import change_tables
from perhop.report import value_table
from test_report_browser import browser, opened
from tools import unable

pytestmark = SLOW

__all__ = ["browser"]

PUBLISHED = (
    "qbss-1-70",
    "qbss-10-streams",
    "qbss-30-1",
    "qbss-ping",
    "oscars-10M",
    "oscars-1M",
    "oscars-burst",
    "oscars-ping",
    "bulk-throughput",
    "altq-cbq",
    "altq-cbq-borrow",
    "altq-cbq-traces",
    "qbss-transatlantic",
    "load-balancing",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reproduced here")


@pytest.fixture(scope="module")
def reproduced(folder: Path) -> dict[str, Reproduction]:
    """Every experiment, run once and written."""
    chosen = [experiments.get(name) for name in experiments.names()]
    found = experiments.reproduce(chosen, folder, runs=0)
    experiments.write(found, folder)
    return {each.experiment.name: each for each in found}


def test_these_are_reproduced() -> None:
    assert experiments.names() == PUBLISHED


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_experiment_is_sound(name: str) -> None:
    each = experiments.get(name)
    assert each.name == name
    assert each.title
    assert each.source
    for case in each.cases.values():
        gallery.load(case.scenario, overrides=case.settings)
        assert (case.of is None) == (case.change == "")
        assert case.of is None or each.cases[case.of].of is None
    for value in each.values:
        assert value.case is None or each.cases[value.case].of is None
        assert (value.measure is None) == (value.case is None) == (value.across is not None)


def test_every_scenario_of_the_gallery_is_run() -> None:
    used = {case.scenario for name in PUBLISHED for case in experiments.get(name).cases.values()}
    assert used == set(gallery.names())


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(UsageError, match="did you mean `altq-cbq`"):
        experiments.get("altq-cqb")


def test_every_value_is_measured_and_every_expectation_holds(
    reproduced: dict[str, Reproduction],
) -> None:
    for each in reproduced.values():
        assert each.failed == ()
        for value in each.comparisons:
            assert value.measured is not None, (each.experiment.name, value.label)
        for variant in each.variants:
            assert len(variant.values) > 0
            of = [value.compared.label for value in each.values if value.case == variant.of]
            assert [value.label for value in variant.values] == of


def test_ideal_link_sharing_keeps_shares_and_root(reproduced: dict[str, Reproduction]) -> None:
    """Water filling: 98.1% of the packets of 1500 bytes are payload of UDP."""
    variants = {v.case: v.values for v in reproduced["altq-cbq-borrow"].variants}
    both = variants["40-60-udp-udp-borrow-slow-ideal"]
    assert [value.measured for value in both] == pytest.approx([392.5e3, 588.8e3], rel=0.01)
    (alone,) = variants["40-60-udp-none-borrow-slow-ideal"]
    assert alone.measured == pytest.approx(981.3e3, rel=0.01)


def test_per_destination_uses_one_circuit(reproduced: dict[str, Reproduction]) -> None:
    runs = reproduced["load-balancing"].runs
    busy = {}
    for case in ("main", "per-destination"):
        loads = analysis.link_loads(runs[case])
        circuits = loads.filter(loads["link"].str.starts_with("cernh9>ar1-chicago"))
        busy[case] = sorted(circuits["utilisation"])
    assert busy["per-destination"][0] < 0.1  # the other traffic, at most
    assert busy["main"][0] == pytest.approx(busy["main"][1], rel=0.02)


def test_pages_name_every_value(folder: Path, reproduced: dict[str, Reproduction]) -> None:
    index = (folder / "index.html").read_text("utf-8")
    for name, each in reproduced.items():
        page = (folder / name / f"{name}.html").read_text("utf-8")
        assert f'href="{name}/{name}.html"' in index
        for value in each.comparisons:
            label = value.label.replace("'", "&#x27;")
            assert label in page
            assert label in index
        for case in each.experiment.cases.values():
            assert case.change.replace("'", "&#x27;") in page


def test_what_is_said_of_all_is_json(reproduced: dict[str, Reproduction]) -> None:
    found = experiments.summary(list(reproduced.values()))
    said = json.loads(json.dumps(found, allow_nan=False))
    assert set(said) == set(PUBLISHED)
    row = said["oscars-burst"]["values"][0]
    assert (row["label"], row["published"]) == ("median with a burst of 1 MB", 944e3)
    assert row["ensemble"] is None
    assert sum(said["oscars-burst"]["score"].values()) == len(said["oscars-burst"]["values"])


@pytest.mark.parametrize("name", PUBLISHED)
def test_charts_are_drawn_with_axes_and_units(
    name: str, browser: Browser, folder: Path, reproduced: dict[str, Reproduction]
) -> None:
    count = len(reproduced[name].experiment.pictures(reproduced[name].runs))
    assert count > 0
    for page in opened(browser, folder / name / f"{name}.html", 1100):
        charts = page.locator("figure .drawing > svg")
        assert charts.count() == count
        for chart in charts.all():
            box = chart.bounding_box()
            assert box is not None
            assert box["width"] > 200
            assert box["height"] > 100
            assert chart.locator(".mark-line path, .mark-symbol path, .mark-rect path").count() > 0
            titles = " ".join(chart.locator(".role-axis-title text").all_text_contents())
            assert titles
        assert len(list((folder / name).glob("*.png"))) == count


def test_the_index_opens(
    browser: Browser, folder: Path, reproduced: dict[str, Reproduction]
) -> None:
    for page in opened(browser, folder / "index.html", 1100):
        assert page.locator("h2 a").count() == len(reproduced)


# What an experiment is made of


def tiny(published: float | None = 1.0, **value: Any) -> Experiment:
    measured = Value("<b>a value</b>", "main", published, "ratio", lambda _: 1.04, **value)
    return Experiment(
        name="tiny",
        title="A tiny one",
        source="nobody",
        about="First.\n\nSecond.",
        cases={
            "main": Case("oscars-1M", ("duration=12 s", *PLAIN)),
            "changed": Case("oscars-1M", ("duration=11 s", *PLAIN), "main", "a second less"),
        },
        values=(measured, replace(measured, measure=lambda dataset: dataset.covered_s / 12)),
        account="Third.",
    )


PLAIN = (
    "published=[]",
    "expect=[]",
    "flows={one: {from: slac, to: pcgiga, port: 5011, stop: 10 s}}",
    "policies.oscars.classes.best_effort.unused=true",
)


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    """The tiny experiment, run once: what it is compared with changes nothing of its runs."""
    (found,) = experiments.reproduce([tiny(within=0.05)], tmp_path_factory.mktemp("tiny"))
    return found


@pytest.mark.parametrize(
    ("value", "agrees"),
    [
        ({"within": 0.05}, True),
        ({"within": 0.03}, False),
        ({}, None),
        ({"qualifier": "above"}, True),
        ({"qualifier": "below"}, False),
        ({"published": None, "within": 0.05}, None),
    ],
)
def test_a_value_is_judged_by_its_yardstick(
    value: dict[str, Any], agrees: bool | None, tried: Reproduction
) -> None:
    found = compare(tiny(**value), tried.runs)
    assert found.comparisons[0].agrees is agrees
    outcomes = {True: "reproduced", False: "not explained", None: "undecided"}
    outcome = "not stated" if "published" in value else outcomes[agrees]
    assert found.values[0].outcome == outcome


def test_a_variant_measures_the_values_of_its_case(tmp_path: Path, tried: Reproduction) -> None:
    assert [value.measured for value in tried.comparisons] == [1.04, 1.0]
    (variant,) = tried.variants
    assert [value.measured for value in variant.values] == [1.04, pytest.approx(11 / 12)]
    (table,) = change_tables(tried)
    assert [column.name for column in table.columns][1:] == [
        "published",
        "measured",
        "a second less",
    ]
    assert table.rows[1][3].endswith("*")
    index, page = experiments.write([tried], tmp_path)
    for file in (index, page):
        text = file.read_text("utf-8")
        assert "&lt;b&gt;a value&lt;/b&gt;" in text
        assert "<b>" not in text


def test_the_command_prints_values_or_json(perhop: Callable[..., Outcome], place: Path) -> None:
    done = perhop("reproduce", "oscars-1M", "--out", "there", "--runs", "20")
    assert done.code == 0
    assert "its second second" in done.out
    assert "90% of 20 runs" in done.out
    assert "not explained" in done.out
    assert (place / "there" / "oscars-1M" / "thrulay.png").exists()
    again = perhop("reproduce", "oscars-1M", "--out", "there", "--json", "--runs", "0")
    assert again.code == 0
    said = json.loads(again.out)
    assert said["score"] == said["experiments"]["oscars-1M"]["score"]
    assert said["engine"] == "sim"
    assert set(said["experiments"]) == {"oscars-1M"}
    assert Path(said["index"]) == (place / "there" / "index.html").resolve()


def test_the_command_refuses_what_is_not_there(perhop: Callable[..., Outcome]) -> None:
    done = perhop("reproduce", "oscars-2M")
    assert done.code == 2
    assert "did you mean `oscars-1M`" in done.err
    assert perhop("reproduce", "oscars-1M", "--engine", "none").code == 2


REAL = """
perhop: 1
name: real
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps}
  - {ends: [r, b], rate: 10 Mbps, delay: 5 ms, egress: {r: edge}}
policies:
  edge: {scheduler: altq-cbq, classes: {all: {match: any, bandwidth: 100%}}}
flows:
  bulk: {from: a, to: b, tcp: {stack: linux-2.4, window: 64 KiB}, stop: 2 s}
"""


@REAL_HOSTS
def test_real_hosts_reproduce_what_the_document_has_beside_the_simulator(tmp_path: Path) -> None:
    file = tmp_path / "real.yaml"
    file.write_text(REAL, encoding="utf-8")
    variant = Case(str(file), ("flows.bulk.tcp.window=8 KiB",), of="main", change="a small window")
    experiment = Experiment(
        name="real",
        title="A link between real hosts",
        source="none",
        about="",
        cases={"main": Case(str(file)), "small": variant},
        values=(
            Value(
                "bulk",
                "main",
                9e6,
                "bps",
                measure=lambda run: analysis.throughput(run, "bulk", (0.0, 2.0)),
                within=0.5,
            ),
            Value(
                "ratio",
                None,
                1.0,
                "ratio",
                across=lambda runs: float(len(runs["small"].intervals)),
            ),
        ),
        account="",
        tables=lambda runs: [value_table([], str(runs["small"]))],
        pictures=lambda _: {},
    )
    try:
        (done,) = experiments.reproduce([experiment], tmp_path / "out", engine="emu")
    except UnsupportedError as error:
        unable(error)
    engines = {name: run.manifest.engine for name, run in done.runs.items()}
    assert engines == {"main": "emu", "main-sim": "sim", "main-sim-6": "sim"}
    for variant in done.variants:
        assert [value.label for value in variant.values] == ["bulk"]
    bulk, ratio = done.comparisons
    assert bulk.agrees
    assert ratio.measured is None
    page = experiments.write([done], tmp_path / "out")[1].read_text("utf-8")
    assert "Measured by the engine emu: real hosts" in page
    assert "in simulation, with hosts of its time" in page
