"""The capacity of a path, hop by hop, beside the rates that its links have."""

from dataclasses import replace
from itertools import accumulate

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perhop
from conftest import SLOW
from perhop import analysis
from perhop.dataset import Dataset

PATH = """
perhop: 1
name: path
nodes: {{a: host, {routers}, b: host}}
links: [{links}]
flows: {flows}
pings:
  trains: {{from: a, to: b, ttl: 1..10, train: {train}, size: 1472 B, every: 1 s, stop: 5 s}}
  single: {{from: a, to: b}}
duration: 7 s
"""


def measured(rates: list[int], flows: str = "{}", train: int = 20) -> Dataset:
    """Trains over a chain of links of some rates in kb/s."""
    nodes = ["a", *(f"r{number}" for number in range(1, len(rates))), "b"]
    links = ", ".join(
        f"{{ends: [{one}, {other}], rate: {rate} kbps, delay: 5 ms}}"
        for one, other, rate in zip(nodes[:-1], nodes[1:], rates, strict=True)
    )
    routers = ", ".join(f"{node}: router" for node in nodes[1:-1])
    text = PATH.format(routers=routers, links=links, flows=flows, train=train)
    return perhop.run(perhop.parse(text))


@SLOW
@given(st.lists(st.integers(10_000, 1_000_000), min_size=2, max_size=6))
@settings(max_examples=40)
def test_a_quiet_path_is_as_wide_as_its_slowest_link_so_far(rates: list[int]) -> None:
    # So fast that a train is over before the next begins.
    hops = analysis.capacities(measured(rates), "trains")
    assert [hop.ttl for hop in hops] == list(range(1, len(rates) + 1))
    assert [hop.nodes for hop in hops][-1] == ("b",)
    expected = [1000.0 * rate for rate in accumulate(rates, min)]
    assert [hop.rate_bps for hop in hops] == pytest.approx(expected, rel=1e-3)
    narrow = analysis.narrowest(hops)
    assert narrow is not None
    assert narrow.rate_bps is not None
    assert 0.89 * narrow.rate_bps <= min(expected)


def test_pairs_suffice() -> None:
    hops = analysis.capacities(measured([10_000, 2000, 5000], train=2), "trains")
    assert [hop.rate_bps for hop in hops] == pytest.approx([10e6, 2e6, 2e6], rel=1e-3)
    assert [hop.narrows for hop in hops] == [True, True, False]


def test_the_bottleneck_is_found_beside_other_traffic() -> None:
    flows = "{other: {from: a, to: b, udp: {rate: 1 Mbps, size: 200 B, pattern: poisson}}}"
    hops = analysis.capacities(measured([100_000, 45_000, 10_000, 100_000], flows), "trains")
    narrow = analysis.narrowest(hops)
    assert narrow is not None
    assert narrow.nodes == ("r3",)
    assert narrow.rate_bps == pytest.approx(10e6, rel=0.1)


def test_without_trains_nothing_is_spread() -> None:
    run = measured([1000, 1000])
    with pytest.raises(ValueError, match="single sends no trains"):
        analysis.capacities(run, "single")
    assert analysis.capacities(run, "trains", (6.0, 6.5)) == []
    assert analysis.narrowest([]) is None


def test_a_train_in_real_time_leaves_over_a_while() -> None:
    """Real hosts need a moment for each packet; what arrives is spread by the path alone."""
    run = measured([100_000, 10_000])
    moments = pl.col("sequence") % 20 * 50e-6
    late = run.pings.with_columns(pl.col("sent_s") + moments, pl.col("rtt_s") - moments)
    hops = analysis.capacities(replace(run, pings=late), "trains")
    assert [hop.rate_bps for hop in hops] == pytest.approx([100e6, 10e6], rel=1e-3)
