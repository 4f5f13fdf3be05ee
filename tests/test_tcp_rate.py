"""TCP flows whose application keeps to a rate, as `iperf3 -b` does."""

from typing import Any

import polars as pl
import pytest

import perhop
from conftest import MEASURES
from perhop import Dataset, analysis
from perhop.errors import ScenarioError
from perhop.scenario import Scenario, parse

TEXT = """
perhop: 1
name: paced
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps}
  - {ends: [r, b], rate: 20 Mbps, delay: 10 ms}
flows:
  app: {from: a, to: b, tcp: {rate: RATE, WRITE}, stop: 12 s}
report: {interval: 100 ms}
CHANGES
"""


def scenario(rate: str, write: str = "", changes: str = "") -> Scenario:
    text = TEXT.replace("RATE", rate).replace(", WRITE", f", {write}" if write else "")
    return parse(text.replace("CHANGES", changes))


def goodput(dataset: Dataset, begin: float, end: float) -> float:
    rate = analysis.throughput(dataset, "app", (begin, end))
    assert rate is not None
    return rate


@pytest.mark.parametrize("control", ["cubic", "reno", "bbr", "linux-6"])
def test_the_goodput_is_the_less_of_the_rate_and_the_path(control: str) -> None:
    key = "stack" if control == "linux-6" else "congestion_control"
    below, above = (
        goodput(perhop.run(scenario(rate, f"write: 8 KiB, {key}: {control}")), 4, 12)
        for rate in ("1.5 Mbps", "50 Mbps")
    )
    unlimited = scenario("1 Mbps", f"write: 8 KiB, {key}: {control}")
    tcp = unlimited.flows["app"].tcp
    assert tcp is not None
    flow = unlimited.flows["app"].model_copy(
        update={"tcp": tcp.model_copy(update={"rate": None, "write": None})}
    )
    whole = perhop.run(unlimited.model_copy(update={"flows": {"app": flow}}))
    assert below == pytest.approx(1.5e6, rel=0.01)
    assert above == pytest.approx(goodput(whole, 4, 12), rel=0.01)


def test_a_backlog_is_made_up_for() -> None:
    """At 5 Mb/s the path has 2 Mb/s from 3 to 6 s: 9 Mb are sent later, at all that it has."""
    changes = """
changes:
  - {at: 3 s, on: r>b, rate: 2 Mbps}
  - {at: 6 s, on: r>b, rate: 20 Mbps}
"""
    dataset = perhop.run(scenario("5 Mbps", "write: 8 KiB, hystart: false", changes))
    assert goodput(dataset, 1, 3) == pytest.approx(5e6, rel=0.02)
    assert goodput(dataset, 4, 6) == pytest.approx(2e6 * 1460 / 1500, rel=0.02)
    assert goodput(dataset, 6, 8) > 8e6
    assert goodput(dataset, 0, 12) == pytest.approx(5e6, rel=0.01)
    assert goodput(dataset, 10, 12) == pytest.approx(5e6, rel=0.02)


def arrivals(dataset: Dataset) -> dict[float, int]:
    """Return the data in bytes of each interval with any, by its end in seconds."""
    rows = dataset.intervals.filter((pl.col("flow") == "app") & (pl.col("bytes") > 0))
    return {round(end, 1): size for end, size in rows.select("end_s", "bytes").iter_rows()}


def test_a_write_is_sent_at_once() -> None:
    """8 KiB at 100 kb/s are due every 655.36 ms, and arrive within 14 ms."""
    sizes = arrivals(perhop.run(scenario("100 kbps", "write: 8 KiB")))
    assert list(sizes)[:7] == [0.1, 0.7, 1.4, 2.0, 2.7, 3.3, 4.0]
    assert list(sizes.values())[:7] == [8192] * 7


def test_a_pause_makes_the_window_begin_anew() -> None:
    """Pauses of 0.26 s halve the window at most once; those of 2 s lead back to 10 segments."""
    found = []
    for rate in ("4 Mbps", "500 kbps"):
        text = TEXT.replace("RATE, WRITE", rate).replace("100 ms", "10 ms").replace("CHANGES", "")
        rows = perhop.run(parse(text)).intervals.filter(
            (pl.col("flow") == "app") & (pl.col("start_s") > 1)
        )
        found.append(rows["cwnd"].min())
    assert found[1] == 10 * 1460 and found[0] > 30 * 1460


def test_a_write_has_the_size_of_iperf3_by_default() -> None:
    """128 KiB at 1 Mb/s are due at 0, 1.048576, … 11.534336 s."""
    assert sum(arrivals(perhop.run(scenario("1 Mbps"))).values()) == 12 * 128 * 1024


def test_a_volume_ends_a_flow_with_a_rate() -> None:
    text = TEXT.replace("RATE, WRITE", "1 Mbps, write: 10 kB").replace("stop: 12 s", "volume: 1 MB")
    dataset = perhop.run(parse(text.replace("CHANGES", "duration: 12 s")))
    assert sum(arrivals(dataset).values()) == 1_000_000
    assert max(arrivals(dataset)) == pytest.approx(8.0, abs=0.11)


@pytest.mark.parametrize(
    ("flow", "place", "message"),
    [
        ("tcp: {write: 4 KiB}, stop: 1 s", "flows.app.tcp.write", "means nothing without `rate`"),
        (
            "tcp: {rate: 1 Mbps}, rpc: {request: 1 kB, response: 1 kB, think: 1 s}",
            "flows.app.tcp.rate",
            "means nothing beside `rpc`",
        ),
    ],
)
def test_a_rate_that_means_nothing_is_refused(flow: str, place: str, message: str) -> None:
    text = TEXT.replace("tcp: {rate: RATE, WRITE}, stop: 12 s", flow).replace("CHANGES", "")
    with pytest.raises(ScenarioError, match=message) as refused:
        parse(text)
    assert place in str(refused.value)


@MEASURES
@pytest.mark.parametrize("engine", ["emu", "kernel"])
def test_real_hosts_send_at_the_rate_too(engine: Any) -> None:
    changes = """
changes:
  - {at: 3 s, on: r>b, rate: 2 Mbps}
  - {at: 6 s, on: r>b, rate: 20 Mbps}
"""
    text = scenario("5 Mbps", "write: 32 KiB", changes)
    modelled, real = perhop.run(text), perhop.run(text, engine=engine)
    for span in ((1, 3), (4, 6), (0, 12), (10, 12)):
        assert goodput(real, *span) == pytest.approx(goodput(modelled, *span), rel=0.04), span
    assert goodput(real, 6, 8) > 8e6
