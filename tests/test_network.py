"""The network in scenarios: what the simulator makes of load sharing."""

import pytest

import perhop
from perhop import analysis
from perhop.dataset import Dataset
from perhop.scenario import parse

TWO_LINKS = """
perhop: 1
name: two-links
nodes: {{a: host, b: host, r1: {{kind: router, balance: {balance}}}, r2: router}}
links:
  - {{ends: [a, r1], rate: 1 Gbps}}
  - {{ends: [r1, r2], rate: 100 Mbps, delay: 5 ms}}
  - {{ends: [r1, r2], rate: 100 Mbps, delay: {delay}, name: south}}
  - {{ends: [r2, b], rate: 1 Gbps}}
flows:
  many: {{from: a, to: b, streams: 399, udp: {{rate: 100 kbps, size: 972 B}}, stop: 2 s}}
"""


def run(balance: str, delay: str = "5 ms") -> Dataset:
    return perhop.run(parse(TWO_LINKS.format(balance=balance, delay=delay)))


def shares(dataset: Dataset) -> tuple[float, float]:
    loads = dict(analysis.link_loads(dataset).select("link", "sent_packets").iter_rows())
    north, south = loads["r1>r2"], loads["r1>r2#south"]
    return north / (north + south), south / (north + south)


def test_packets_in_turn_are_halves() -> None:
    assert shares(run("per-packet")) == pytest.approx((0.5, 0.5), abs=1e-3)


def test_flows_are_halves_but_for_chance() -> None:
    # 399 flows by a fair coin: a standard deviation of 2.5%.
    assert shares(run("per-flow")) == pytest.approx((0.5, 0.5), abs=0.125)


def test_a_destination_keeps_to_a_link() -> None:
    assert sorted(shares(run("per-destination"))) == [0.0, 1.0]


def test_only_packets_in_turn_over_unequal_links_are_reordered() -> None:
    # A stream's next packet comes 78 ms later, and takes the same link or the other.
    assert analysis.count(run("per-flow", "200 ms"), "many", "reordered") == 0
    assert analysis.count(run("per-packet", "5 ms"), "many", "reordered") == 0
    assert analysis.count(run("per-packet", "200 ms"), "many", "reordered") > 1000


def test_links_are_in_the_summary() -> None:
    links = analysis.summary(run("per-packet"))["links"]
    south = links["r1>r2#south"]
    # Half of 399 * 100 kb/s of payload, and 28 B of headers in 1000.
    assert south["utilisation"] == pytest.approx(0.5 * 39.9 / 0.972 / 100, rel=0.02)
    assert south["sent_bytes"] == south["sent_packets"] * 1000
    assert links["r2>r1"]["sent_packets"] == 0
