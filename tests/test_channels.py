"""Radio channels: links that share one, from the file to the tables."""

import polars as pl
import pytest
import yaml
from jsonschema import Draft202012Validator

import perhop
from perhop.dataset import Dataset
from perhop.linux import mapping
from perhop.scenario import Scenario, dump, json_schema, parse
from perhop.scenario.model.wifi import TIMINGS
from perhop.scenario.rules.warnings import is_random

CELL = """
perhop: 1
name: cell
nodes: {server: host, ap: router, near: host, far: host}
channels: {home: {wifi: WIFI}}
links:
  - {ends: [server, ap], rate: 1 Gbps, delay: 5 ms}
  - {ends: [ap, near], rate: 65 Mbps, channel: home, queue: {fq-codel: {}}}
  - {ends: [ap, far], rate: 6.5 Mbps, channel: home, loss: 5%, queue: {fq-codel: {}}}
flows:
  near: {from: server, to: near}
  far: {from: server, to: far}
pings:
  echo: {from: near, to: server, every: 100 ms}
duration: 4 s
"""


def cell(wifi: str) -> Scenario:
    return parse(CELL.replace("WIFI", wifi))


def throughputs(dataset: Dataset) -> list[float]:
    """The bytes that each flow has got after the first second."""
    rows = dataset.intervals.filter(pl.col("start_s") >= 1)
    return [float(rows.filter(flow=name)["bytes"].sum()) for name in ("near", "far")]


def test_a_slow_station_slows_all_down_unless_time_is_shared() -> None:
    anomaly = throughputs(perhop.run(cell("{standard: n, frames: 1}")))
    assert anomaly[0] == pytest.approx(anomaly[1], rel=0.25)
    shared = throughputs(perhop.run(cell("{standard: n, airtime_fairness: true}")))
    assert shared[0] > 6 * shared[1]
    assert shared[0] > 4 * anomaly[0]


def test_losses_on_the_channel_are_no_losses_of_packets() -> None:
    dataset = perhop.run(cell("n"))
    link = dataset.links.filter(link="ap>far")
    assert (link["sent_packets"].sum() > 500, link["lost_packets"].sum()) == (True, 0)
    given_up = perhop.run(cell("{standard: n, retries: 0}")).links.filter(link="ap>far")
    share = given_up["lost_packets"].sum() / given_up["sent_packets"].sum()
    assert 0.04 < share < 0.2  # collisions lose frames, too


def test_seeds_mean_something_and_fix_everything() -> None:
    scenario = cell("n")
    assert is_random(scenario)
    first, again, other = (perhop.run(scenario, seed=seed).intervals for seed in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)


def test_forms_are_read_and_written() -> None:
    for form in (*TIMINGS, "{standard: n, frames: 32, airtime: 2 ms, cw_min: 31, retries: 4}"):
        scenario = cell(form)
        assert parse(dump(scenario)) == scenario
    Draft202012Validator(json_schema()).validate(yaml.safe_load(dump(scenario)))


def test_linux_refuses_a_channel() -> None:
    gaps = {gap.path: gap.reason for gap in mapping(cell("ac")).gaps}
    assert gaps["links.1.channel"] == "its queues share no radio channel"


def test_a_channel_has_an_access_point() -> None:
    text = CELL.replace("WIFI", "n").replace(
        "[server, ap], rate", "[server, ap], channel: home, rate"
    )
    assert parse(text).channels
    with pytest.raises(perhop.ScenarioError, match="expected one, the access point"):
        parse(text.replace("[ap, far]", "[near, far]").replace("near: host", "near: router"))
