"""Cells of LTE: links that a base station schedules, from the file to the tables."""

import polars as pl
import pytest
import yaml
from jsonschema import Draft202012Validator

import perhop
from conftest import MEASURES, SLOW
from perhop import analysis
from perhop.dataset import Dataset
from perhop.linux import mapping
from perhop.scenario import Scenario, dump, json_schema, parse
from perhop.scenario.rules.warnings import is_random

CELL = """
perhop: 1
name: cell
nodes: {server: host, enodeb: router, near: host, far: host}
channels: {cell: {lte: LTE}}
links:
  - {ends: [server, enodeb], rate: 1 Gbps, delay: 5 ms}
  - {ends: [enodeb, near], rate: {enodeb: 20 Mbps, near: 10 Mbps}, channel: cell}
  - {ends: [enodeb, far], rate: {enodeb: 5 Mbps, far: 2 Mbps}, channel: cell}
flows:
  near: {from: server, to: near, start: 1 s, udp: {rate: 22 Mbps}}
  far: {from: server, to: far, start: 1 s, udp: {rate: 6 Mbps}}
pings:
  echo: {from: near, to: server, every: 13137 us, stop: 950 ms}
duration: 4 s
"""


def cell(lte: str = "enodeb") -> Scenario:
    return parse(CELL.replace("LTE", lte))


def throughputs(dataset: Dataset) -> list[float]:
    """The bytes that each flow has got after two seconds."""
    rows = dataset.intervals.filter(pl.col("start_s") >= 2)
    return [float(rows.filter(flow=name)["bytes"].sum()) for name in ("near", "far")]


@pytest.mark.parametrize("scheduler", ["proportional-fair", "round-robin"])
def test_downloads_share_time_not_rate(scheduler: str) -> None:
    found = throughputs(perhop.run(cell(f"{{base_station: enodeb, scheduler: {scheduler}}}")))
    # Half of the time each; a block takes 1.102 transmissions, and a datagram 28 B of headers.
    half = [rate / 8 / 1.102 * 1470 / 1498 for rate in (20e6, 5e6)]
    assert found == pytest.approx(half, rel=0.03)


def test_an_idle_round_trip_has_a_request_and_a_grant() -> None:
    scenario = cell("{base_station: enodeb, bler: 0%}")
    rtt = perhop.run(scenario).pings["rtt_s"].drop_nulls()
    # 10 ms of propagation; up 9 to 19 ms, down 1 to 2 ms, and less than 0.1 ms elsewhere.
    assert rtt.len() > 70
    assert 20e-3 <= rtt.min() <= 21e-3  # type: ignore[operator]
    assert 29.5e-3 <= rtt.max() <= 31.1e-3  # type: ignore[operator]
    assert rtt.mean() == pytest.approx(25.5e-3, abs=0.5e-3)


def test_failed_blocks_delay_packets_and_lose_none() -> None:
    links = perhop.run(cell("{base_station: enodeb, bler: 40%, retries: 1}")).links
    radio = links.filter(pl.col("link").is_in(["enodeb>near", "near>enodeb"]))
    assert radio["sent_packets"].sum() > 1000
    assert radio["lost_packets"].sum() == 0


def test_a_loss_of_a_link_replaces_that_of_the_cell() -> None:
    text = CELL.replace("LTE", "enodeb").replace(
        "far: 2 Mbps}", "far: 2 Mbps}, loss: {enodeb: 50%}"
    )
    found = throughputs(perhop.run(parse(text)))
    # Equal numbers of blocks, of 1 + 0.5 + 0.5 * 0.1 + 0.5 * 0.1 * 0.02 and 1.102 transmissions.
    share = 2 / (1.551 + 1.102)
    assert found == pytest.approx(
        [share * rate / 8 * 1470 / 1498 for rate in (20e6, 5e6)], rel=0.03
    )


def test_seeds_mean_something_and_fix_everything() -> None:
    scenario = cell()
    assert is_random(scenario)
    first, again, other = (perhop.run(scenario, seed=seed).intervals for seed in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)


@SLOW
def test_forms_are_read_and_written() -> None:
    long = (
        "{base_station: enodeb, bandwidth: 5 MHz, scheduler: round-robin, bler: 1%, retries: 2, "
        "combining: 30%, request_period: 20 ms, grant: 6 ms, reordering: 50 ms}"
    )
    for form in ("enodeb", long):
        scenario = cell(form)
        assert parse(dump(scenario)) == scenario
        Draft202012Validator(json_schema()).validate(yaml.safe_load(dump(scenario)))
    assert "lte: enodeb" in dump(cell("{base_station: enodeb, bler: 10%}"))


def test_linux_refuses_a_cell() -> None:
    gaps = {gap.path: gap.reason for gap in mapping(cell()).gaps}
    assert gaps["links.1.channel"] == "its queues share no radio channel"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("{at: 1 s, on: enodeb>far, rate: 500 kbps}", "500 kbps is less than 800 kbps"),
        ("{at: 1 s, on: enodeb>far, loss: {gilbert: {mean: 1%, burst: 5}}}", "not lost in bursts"),
    ],
)
def test_changes_stay_within_what_a_cell_has(change: str, message: str) -> None:
    with pytest.raises(perhop.ScenarioError, match=message):
        parse(f"{CELL.replace('LTE', 'enodeb')}changes: [{change}]\n")


def test_a_trace_is_the_rate_of_a_user() -> None:
    trace = "trace: {enodeb: {steps: 0 s 20 Mbps; 50 ms 0 bps; 100 ms 0 bps, repeat: true}}"
    text = CELL.replace("LTE", "{base_station: enodeb, bler: 0%, scheduler: round-robin}")
    found = throughputs(
        perhop.run(parse(text.replace("channel: cell}", f"channel: cell, {trace}}}", 1)))
    )
    # `near` sends in half of its half of the time, `far` in the rest.
    shares = [rate / 8 * 2 * 1470 / 1498 for rate in (0.25 * 20e6, 0.75 * 5e6)]
    assert found == pytest.approx(shares, rel=0.02)
    for steps, message in (
        ("0 s 20 Mbps delay 1 ms", "expected a trace of rates alone"),
        ("0 s 500 kbps", "500 kbps is less than 800 kbps"),
    ):
        wrong = f"channel: cell, trace: {{steps: {steps}}}}}"
        with pytest.raises(perhop.ScenarioError, match=message):
            parse(text.replace("channel: cell}", wrong, 1))


@MEASURES
def test_real_hosts_share_a_cell_as_modelled_ones_do() -> None:
    text = CELL.replace("LTE", "enodeb").replace("duration: 4 s", "duration: 3500 ms")
    scenario = parse(text)
    model, real = (perhop.run(scenario, engine=engine) for engine in ("sim", "emu"))
    assert throughputs(real) == pytest.approx(throughputs(model), rel=0.1)
    assert analysis.channel_utilisation(real, "cell", (2, 3.5)) == pytest.approx(1, rel=0.02)
