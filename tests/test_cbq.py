"""ALTQ's class-based queueing, from a scenario to its tables.

The mechanisms themselves are tested with the core (`crates/perhop-queue/tests/cbq`).
"""

import polars as pl
import pytest

import perhop
from perhop import analysis
from perhop.scenario import dump, parse

TCP = """\
perhop: 1
name: cbq
nodes: {{a: host, r: router, b: host}}
links:
  - {{ends: [a, r], rate: 1 Gbps, delay: {delay} ms}}
  - {{ends: [r, b], rate: 1 Gbps, egress: {{r: edge}}}}
policies:
  edge:
    scheduler: altq-cbq
    cbq: {{rate: {root} Mbps, tick: {tick} ms}}
    classes:
      slow: {{match: {{port: 5001}}, bandwidth: 40%, queue: {{limit: 50 packets}}}}
      fast: {{match: any, bandwidth: 60%, queue: {{limit: 50 packets}}}}
flows:
  slow: {{from: a, to: b, tcp: {{congestion_control: reno}}}}
  fast: {{from: a, to: b, tcp: {{congestion_control: reno}}}}
duration: 15 s
"""
"""Two borrowing classes with a TCP flow each, under a root that is slower than the wire."""


def used(root: int, tick: int, delay: int) -> float:
    """The share of the root that two flows get."""
    dataset = perhop.run(parse(TCP.format(root=root, tick=tick, delay=delay)))
    rates = [analysis.throughput(dataset, flow, (5.0, 15.0)) for flow in ("slow", "fast")]
    return sum(rates) / (root * 1e6 * 1460 / 1500)


@pytest.mark.parametrize(
    ("root", "low", "high"),
    [(10, 0.5, 0.9), (45, 0.15, 0.4), (100, 0.1, 0.25)],
)
@pytest.mark.parametrize("delay", [5, 10])
def test_a_tick_of_10_ms_caps_a_fast_root(root: int, low: float, high: float, delay: int) -> None:
    """A class that sleeps is asked again at a tick, and then has its burst and the token bucket's
    depth: the faster the root, the less of it that is."""
    assert low < used(root, 10, delay) < high
    assert used(root, 1, delay) > 0.97


NESTED = """\
perhop: 1
name: nested
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps}
  - {ends: [r, b], rate: 10 Mbps, egress: {r: edge}}
policies:
  edge:
    scheduler: altq-cbq
    cbq: {tick: 1 ms, maxburst: 8, minburst: 1, token_bucket: false, efficient: false, kick: true}
    classes:
      agency:
        match: {dscp: [af11, af12]}
        bandwidth: 60%
        borrow: false
        classes:
          bulk: {match: {dscp: af11}, bandwidth: 2 Mbps, borrow: false, priority: 1}
          rest: {match: any, bandwidth: 4 Mbps, borrow: false, queue: {red: {}}}
      other: {match: any, bandwidth: 40%, police: {rate: 5 Mbps, burst: 10 kB}}
flows:
  bulk: {from: a, to: b, dscp: af11, udp: {rate: 20 Mbps, size: 972 B}}
  rest: {from: a, to: b, dscp: af12, udp: {rate: 20 Mbps, size: 972 B}}
  other: {from: a, to: b, udp: {rate: 20 Mbps, size: 972 B}}
duration: 10 s
"""


def test_a_tree_is_in_the_tables() -> None:
    scenario = parse(NESTED)
    assert parse(dump(scenario)) == scenario
    queues = perhop.run(scenario).queues.filter(pl.col("link") == "r>b")
    sums = {
        row["class"]: row
        for row in queues.group_by("class").agg(pl.selectors.integer().sum()).iter_rows(named=True)
    }
    assert set(sums) == {"agency", "agency/bulk", "agency/rest", "other"}
    sent = {name: row["sent_packets"] for name, row in sums.items()}
    assert sent["agency"] == sent["agency/bulk"] + sent["agency/rest"]
    # 12,500 packets of 1000 bytes in ten seconds, and a link that is not always used.
    assert sent["agency/bulk"] == pytest.approx(2500, rel=0.05)
    assert sent["agency/rest"] == pytest.approx(5000, rel=0.05)
    assert sent["other"] == pytest.approx(5000, rel=0.05)
    assert sums["agency"]["dropped_packets"] == (
        sums["agency/bulk"]["dropped_packets"] + sums["agency/rest"]["dropped_packets"]
    )
    assert sums["agency/rest"]["dropped_early"] > 0
    assert sums["other"]["dropped_policer"] == sums["other"]["exceeded_packets"] > 0


def test_the_driver_settings_reach_the_core() -> None:
    """Offered three times the root, an efficient link without its token bucket sends it all."""
    text = TCP.format(root=10, tick=10, delay=1).replace(
        "tcp: {congestion_control: reno}", "udp: {rate: 15 Mbps, size: 1472 B}"
    )
    scenario = parse(text)

    def total(**settings: bool) -> float:
        cbq = scenario.policies["edge"].cbq
        assert cbq is not None
        changed = scenario.policies["edge"].model_copy(
            update={"cbq": cbq.model_copy(update=settings)}
        )
        dataset = perhop.run(scenario.model_copy(update={"policies": {"edge": changed}}))
        return sum(analysis.throughput(dataset, flow, (5.0, 15.0)) for flow in ("slow", "fast"))

    assert total(efficient=True, token_bucket=False) == pytest.approx(30e6, rel=0.01)
    assert total(efficient=True) < 10e6
    assert total(kick=False) < 10e6
