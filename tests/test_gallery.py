from pathlib import Path

import pytest

import perhop
from perhop import gallery
from perhop.errors import ScenarioError
from perhop.units import SECOND, parse_rate, parse_share


def test_it_holds_the_scavenger_experiments() -> None:
    assert set(gallery.names()) >= {"qbss-1-70", "qbss-10-streams", "qbss-30-1"}


@pytest.mark.parametrize("name", gallery.names())
def test_every_scenario_loads_survives_a_dump_and_names_its_source(name: str) -> None:
    scenario = perhop.load(name)
    assert scenario.name == name
    assert scenario.source
    assert perhop.parse(perhop.dump(scenario)) == scenario


@pytest.mark.parametrize(
    ("name", "scavenger", "priority", "streams"),
    [
        ("qbss-1-70", "1%", "70%", 1),
        ("qbss-10-streams", "1%", "70%", 10),
        ("qbss-30-1", "1%", "30%", 10),
    ],
)
def test_the_scavenger_experiments_are_as_published(
    name: str, scavenger: str, priority: str, streams: int
) -> None:
    scenario = perhop.load(name)
    classes = scenario.policies["qbss"].classes
    shares = {key: part.bandwidth.share for key, part in classes.items() if part.bandwidth}
    assert shares["scavenger"] == parse_share(scavenger)
    assert shares["priority"] == parse_share(priority)
    assert sum(share or 0 for share in shares.values()) == parse_share("100%")
    assert [instant // SECOND for instant in scenario.changes_ps] == [0, 30, 60, 90, 120, 150]
    assert scenario.flows["best_effort"].streams == streams
    for flow in scenario.flows.values():
        assert flow.tcp is not None
        assert flow.tcp.window == 8192
    assert [link.rate for link in scenario.links] == [
        parse_rate(rate) for rate in ("100 Mbps", "10 Mbps", "1 Gbps")
    ]


def test_overrides_reach_the_gallery() -> None:
    scenario = perhop.load("qbss-1-70", overrides=["flows.best_effort.streams=3"])
    assert scenario.flows["best_effort"].streams == 3


def test_unknown_names_suggest_a_known_one() -> None:
    with pytest.raises(ScenarioError, match=r"`qbss-1-7` is neither a file nor .* `qbss-1-70`\?"):
        perhop.load("qbss-1-7")
    with pytest.raises(ScenarioError, match="cannot be read: No such file"):
        perhop.load("qbss.yaml")
    with pytest.raises(KeyError):
        gallery.text("../gallery/qbss-1-70")


def test_a_file_is_meant_by_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = gallery.text("qbss-1-70").replace("name: qbss-1-70", "name: mine")
    Path("qbss-1-70").write_text(text, "utf-8")
    Path("mine").write_text(text, "utf-8")
    assert perhop.load("qbss-1-70").name == "qbss-1-70"
    assert perhop.load("./qbss-1-70").name == "mine"
    assert perhop.load(Path("qbss-1-70")).name == "mine"
    assert perhop.load("mine").name == "mine"
