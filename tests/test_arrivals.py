"""Delays, jitter and order: what is measured of how packets arrive."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Outcome
from datasets import dataset
from perhop import analysis
from perhop import run as simulate
from perhop.dataset import Dataset
from perhop.errors import ScenarioError
from perhop.report import delay_table
from perhop.scenario import dump, parse

TWO_WAYS = """
perhop: 1
name: two-ways
nodes: {a: host, r1: {kind: router, balance: per-packet}, r2: router, b: host}
links:
  - {ends: [a, r1], rate: 1 Gbps}
  - {ends: [r1, r2], rate: 1 Gbps, delay: 1 ms}
  - {ends: [r1, r2], rate: 1 Gbps, delay: 36 ms}
  - {ends: [r2, b], rate: 1 Gbps}
flows:
  call: {from: a, to: b, udp: {rate: 80 kbps, size: 100 B}, stop: 2 s}
  data: {from: b, to: a, start: 2.5 s, stop: 3 s}
duration: 3 s
report: {interval: 500 ms}
expect:
  - {owd_min: call, about: 1 ms, within: 1%}
  - {owd_p95: call, during: 500 ms..1 s, about: 36 ms, within: 1%}
  - {owd_median: data, at_most: 40 ms}
  - {jitter: call, during: 0 s..1 s, about: 35 ms, within: 5%}
  - {reordered: call, about: 49.5%, within: 0.1%}
  - {duplicates: call, at_most: 0}
"""
"""Every other packet is 35 ms late, behind the next three."""


@pytest.fixture(scope="module")
def two_ways() -> Dataset:
    return simulate(parse(TWO_WAYS))


def test_expectations_of_arrivals(two_ways: Dataset) -> None:
    judged = analysis.verdicts(two_ways)
    assert not [verdict for verdict in judged if not verdict.ok]
    assert [verdict.unit for verdict in judged] == ["s", "s", "s", "s", "share", "packets"]


def test_the_order_of_packets_on_two_ways(two_ways: Dataset) -> None:
    found = analysis.order(two_ways, "call")
    # Of 100 late packets the last comes after nothing, and the others but two three places after
    # the first that overtook them.
    assert (found.reordered, found.by_three, found.extent_max, found.duplicates) == (99, 0, 3, 0)
    density = analysis.reorder_density(two_ways, "call")
    assert sum(density.values()) == pytest.approx(1)
    # The displacements of a permutation add up to nothing.
    assert sum(by * share for by, share in density.items()) == pytest.approx(0, abs=1e-9)


def test_what_is_known_of_tcp(two_ways: Dataset) -> None:
    found = analysis.order(two_ways, "data")
    assert (found.by_three, found.extent_mean, found.duplicates) == (None, None, None)
    assert analysis.jitter(two_ways, "data") is None
    assert analysis.reorder_density(two_ways, "data") == {}
    delay = analysis.owd(two_ways, "data")
    assert delay is not None
    assert delay.min == pytest.approx(0.001, rel=0.1)


def test_delays_of_a_window_are_those_of_the_window() -> None:
    stretch = {"flow": "call", "owd_s": 0.02, "owd_min_s": 0.01, "owd_max_s": 0.03}

    def rows(start: float) -> dict[str, Any]:
        return {**stretch, "start_s": start, "end_s": start + 0.5, "owd_samples": 4, "packets": 4}

    def bins(start: float, end: float, low: float) -> dict[str, Any]:
        edges = {"low_s": low, "high_s": low + 0.001}
        return {"flow": "call", "start_s": start, "end_s": end, "samples": 4, **edges}

    run = dataset(
        parse(TWO_WAYS),
        [rows(0), rows(0.5), rows(1)],
        delays=[bins(0, 0.5, 0.01), bins(0.5, 1, 0.02), bins(1, 3, 0.03)],
    )
    whole, part = analysis.owd(run, "call"), analysis.owd(run, "call", (0.5, 1.0))
    assert whole is not None
    assert part is not None
    assert (whole.samples, part.samples) == (12, 4)
    assert part.median == pytest.approx(0.0205)
    assert part.p99 == pytest.approx(0.02099)
    assert whole.p99 == pytest.approx(0.03)
    assert (part.min, part.mean, part.max) == (0.01, 0.02, 0.03)
    assert analysis.owd(run, "data") is None


def test_a_report_shows_how_packets_arrived(two_ways: Dataset) -> None:
    table = delay_table(two_ways)
    assert table is not None
    call, data = table.rows
    assert call[0] == "call"
    assert call[5].endswith(" ms")
    assert call[6].endswith("%")
    assert call[8:] == ("3", "0")
    assert data[7:] == ("\N{EN DASH}",) * 3


def test_a_run_prints_how_packets_arrived(perhop: Callable[..., Outcome], place: Path) -> None:
    (place / "two-ways.yaml").write_text(TWO_WAYS)
    assert "One-way delay and order" in perhop("run", "two-ways.yaml").out
    flows = json.loads(perhop("run", "two-ways.yaml", "--json").out)["flows"]
    assert flows["call"]["reordered"] == 99
    assert flows["call"]["duplicates"] == 0
    assert flows["call"]["owd_s"]["min"] == pytest.approx(0.001, rel=0.01)
    assert flows["call"]["jitter_s"] == pytest.approx(0.034, rel=0.1)
    assert flows["call"]["reorder_density"]["0"] > 0
    assert flows["data"]["jitter_s"] is None


@pytest.mark.parametrize("metric", ["jitter", "duplicates"])
def test_what_is_not_known_of_tcp(metric: str) -> None:
    value = "1" if metric == "duplicates" else "1 ms"
    text = TWO_WAYS + f"  - {{{metric}: data, at_most: {value}}}"
    with pytest.raises(ScenarioError, match="`data` is a TCP flow; expected a UDP flow"):
        parse(text)


DISORDER = """
perhop: 1
name: disorder
nodes: {a: host, b: host}
links:
  - {ends: [a, b], rate: 100 Mbps, delay: 1 ms, duplicate: 2%, reorder: {share: 1%, by: 7.5 ms}}
flows:
  call: {from: a, to: b, udp: {rate: 800 kbps, size: 100 B}, stop: 20 s}
duration: 21 s
"""
"""A packet a millisecond, of which some come twice and some behind seven others."""


def test_a_link_duplicates_and_reorders() -> None:
    scenario = parse(DISORDER)
    assert parse(dump(scenario)) == scenario
    run = simulate(scenario)
    link = analysis.link_loads(run).row(0, named=True)
    found = analysis.order(run, "call")
    assert found.duplicates == link["duplicated_packets"] == pytest.approx(400, abs=99)
    assert found.reordered == link["reordered_packets"] == pytest.approx(200, abs=71)
    assert found.extent_mean == pytest.approx(7, abs=0.2)
    density = analysis.reorder_density(run, "call")
    # Each packet that is seven late makes seven others one early.
    assert density[7] == pytest.approx(0.01, rel=0.5)
    assert density[-1] == pytest.approx(7 * density[7], rel=0.2)
