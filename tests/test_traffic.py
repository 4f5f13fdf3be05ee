"""Patterns of traffic, from the file to the tables."""

from pathlib import Path

import pytest

import perhop
from conftest import SLOW
from perhop import analysis
from perhop.errors import ScenarioError
from perhop.scenario import dump, load, parse
from perhop.scenario.model.replay import MAX_PACKETS
from perhop.units import MILLISECOND

QUEUE = """
perhop: 1
name: queue
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 10 Gbps}
  - {ends: [r, b], rate: 10 Mbps, queue: {limit: 100000 packets}}
flows:
  load: {from: a, to: b, udp: {rate: 8 Mbps, size: 1000 B, layer: ip%s}}
duration: 400 s
report: {interval: 20 ms}
"""
"""A server that is busy for 80% of the time."""


def waiting(settings: str) -> float:
    """Return the mean number of waiting packets."""
    dataset = perhop.run(parse(QUEUE % settings))
    rows = dataset.queues.filter(link="r>b")
    return float(rows["backlog_packets"].mean())  # type: ignore[arg-type]


@SLOW
def test_what_waits_is_what_queueing_theory_says() -> None:
    load = 0.8
    assert waiting("") == 0
    equal = waiting(", pattern: poisson")
    assert equal == pytest.approx(load**2 / 2 / (1 - load), rel=0.05)
    exponential = waiting(", pattern: poisson, sizes: exponential")
    assert exponential == pytest.approx(load**2 / (1 - load), rel=0.1)


def test_another_flow_changes_no_random_number() -> None:
    text = QUEUE.replace("400 s", "2 s") % ", pattern: poisson, sizes: exponential"
    other = text.replace("flows:", "flows:\n  other: {from: b, to: a, udp: {rate: 1 Mbps}}")
    alone, beside = (perhop.run(parse(each)) for each in (text, other))
    assert analysis.throughput(alone, "load") == pytest.approx(8e6 * 972 / 1000, rel=0.1)
    assert alone.intervals.equals(beside.intervals.filter(flow="load"))


def test_patterns_are_written_as_they_are_read() -> None:
    scenario = parse(QUEUE % ", pattern: poisson, sizes: exponential")
    assert parse(dump(scenario)) == scenario
    assert "pattern: poisson" in dump(scenario)


def test_bursts_send_their_share_of_the_time() -> None:
    text = QUEUE.replace("400 s", "8 s") % ", bursts: {on: 200 ms, off: 300 ms, lengths: equal}"
    dataset = perhop.run(parse(text))
    # The first packet of a burst takes 0.8 us to the router and 800 us on.
    packets = dataset.intervals["packets"].to_list()
    bursts = [sum(packets[start : start + 25]) for start in range(0, 400, 25)]
    assert bursts == [200] * 16
    assert all(sum(packets[start + 11 : start + 25]) == 0 for start in range(0, 400, 25))
    for lengths in ("exponential", "pareto, shape: 2.5"):
        random = parse(QUEUE % f", bursts: {{on: 20 ms, off: 30 ms, lengths: {lengths}}}")
        assert parse(dump(random)) == random
        mean = analysis.throughput(perhop.run(random), "load")
        assert mean == pytest.approx(0.4 * 8e6 * 972 / 1000, rel=0.05)


REPLAY = """
perhop: 1
name: replay
nodes: {a: host, b: host}
links: [{ends: [a, b], rate: 1 Gbps}]
flows:
  call: {from: a, to: b, udp: {replay: %s}}
duration: 100 ms
report: {interval: 10 ms}
"""


def replayed(place: Path, text: str, how: str = "calls/one.csv") -> perhop.Scenario:
    (place / "calls").mkdir(exist_ok=True)
    (place / "calls" / "one.csv").write_text(text)
    (place / "replay.yaml").write_text(REPLAY % how)
    return load(place / "replay.yaml")


def test_a_replay_sends_what_the_file_says(tmp_path: Path) -> None:
    gaps = replayed(tmp_path, "gap_s,size_bytes\r\n2.51e-2,100\r\n0.02,200\r\n\r\n0,300\r\n")
    dataset = perhop.run(gaps)
    assert dataset.intervals["bytes"].to_list() == [0, 0, 100, 0, 500, 0, 0, 0, 0, 0]
    # Times are since the flow's start.
    times = replayed(tmp_path, "# two\ntime_s,size_bytes\n0.0251,100\n0.0451,200")
    assert perhop.run(times).intervals["bytes"].to_list() == [0, 0, 100, 0, 200, 0, 0, 0, 0, 0]
    text = "gap_s,size_bytes\n0.0300001,100\n"
    again = replayed(tmp_path, text, "{file: calls/one.csv, repeat: true}")
    assert perhop.run(again).intervals["bytes"].to_list() == [0, 0, 0, 100, 0, 0, 100, 0, 0, 100]


def test_a_dataset_has_what_was_replayed(tmp_path: Path) -> None:
    scenario = replayed(tmp_path, "gap_s,size_bytes\n0.000000000001,160\n0.02,20\n")
    perhop.run(scenario, out=tmp_path / "run")
    (tmp_path / "calls" / "one.csv").unlink()
    back = perhop.Dataset.read(tmp_path / "run").scenario
    assert back == scenario == parse(dump(scenario))
    udp = back.flows["call"].udp
    assert udp is not None
    assert udp.replay is not None
    assert udp.replay.packets == ((1, 160), (20 * MILLISECOND, 20))


@SLOW
def test_a_replay_has_an_end(tmp_path: Path) -> None:
    rows = "0.000001,60000\n" * MAX_PACKETS
    scenario = replayed(tmp_path, "gap_s,size_bytes\n" + rows)
    assert parse(dump(scenario)) == scenario
    with pytest.raises(ScenarioError, match=r"one.csv:20002: is one packet more than 20,000"):
        replayed(tmp_path, "gap_s,size_bytes\n" + rows + "1,1\n")
    with pytest.raises(ScenarioError, match=r"is too large: 1,\d+,\d+ bytes; expected at most"):
        replayed(tmp_path, "gap_s,size_bytes\n" + " " * 2**20)
