"""Patterns of traffic, from the file to the tables."""

import pytest

import perhop
from perhop import analysis
from perhop.scenario import dump, parse

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
    """How many packets wait on average."""
    dataset = perhop.run(parse(QUEUE % settings))
    rows = dataset.queues.filter(link="r>b")
    return float(rows["backlog_packets"].mean())  # type: ignore[arg-type]


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
