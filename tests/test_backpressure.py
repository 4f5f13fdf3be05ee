"""Senders are held up by their own host's queue, as Linux's are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from conftest import MEASURES
from perhop.engines import run
from perhop.scenario import parse

if TYPE_CHECKING:
    from perhop.dataset import Dataset

SLOW = """
perhop: 1
name: upload
nodes: {a: NODE, r: router, b: host}
links:
  - {ends: [a, r], rate: 20 Mbps, delay: 5 ms}
  - {ends: [r, b], rate: 1 Gbps, delay: 5 ms}
flows:
  up: {from: a, to: b, start: 500 ms, FLOW}
pings:
  echo: {from: a, to: b, every: 50 ms, start: 2 s}
duration: DURATION
"""
BASE_MS = 20.0
LINK_BPS = 20e6


def slow(flow: str, engine: str = "sim", node: str = "host", duration: str = "6 s") -> Dataset:
    """A run in which the sender's own link is the bottleneck."""
    text = SLOW.replace("NODE", node).replace("FLOW", flow).replace("DURATION", duration)
    return run(parse(text), engine=engine)


def pings_ms(dataset: Dataset) -> pl.Series:
    """The round-trip times of the pings under load."""
    return dataset.pings["rtt_s"].drop_nulls() * 1e3


def rate(dataset: Dataset, after_s: float = 2.0) -> float:
    """Goodput in bit/s after the start."""
    rows = dataset.intervals.filter(pl.col("start_s") >= after_s)
    return float(rows["bytes"].sum()) * 8 / (float(rows["end_s"].max()) - after_s)  # type: ignore[arg-type]


def lost(dataset: Dataset) -> int:
    """Packets of the flow that the network has lost."""
    return int(dataset.intervals["lost"].sum())


@pytest.mark.parametrize("congestion", ["cubic", "reno", "bbr", "bbr1"])
def test_an_upload_does_not_fill_its_hosts_queue(congestion: str) -> None:
    dataset = slow(f"tcp: {{stack: linux-6, congestion_control: {congestion}}}")
    # Linux's own: 22 to 25 ms, with Reno 25 to 29. Six segments take 3.6 ms, the ping's own way
    # 20 ms; a window that outgrows what is in flight raises the pacing rate, and so the limit.
    # BBR version 3 leaves less in any queue.
    assert BASE_MS < pings_ms(dataset).median() < 30  # type: ignore[operator]
    assert rate(dataset) > 0.92 * LINK_BPS
    assert lost(dataset) == 0


def test_without_backpressure_the_window_waits_in_the_queue() -> None:
    dataset = slow("tcp: {stack: linux-6}", node="{kind: host, backpressure: false}")
    assert pings_ms(dataset).median() > 5 * BASE_MS  # type: ignore[operator]
    old = slow("tcp: {stack: linux-6, small_queues: false}")
    assert old.intervals.equals(dataset.intervals)


def test_flows_share_what_waits() -> None:
    dataset = slow("streams: 8, tcp: {stack: linux-6}")
    # Five or six segments of each.
    waits = pings_ms(dataset).median() - BASE_MS  # type: ignore[operator]
    assert 8 * 2 * 0.6 < waits < 8 * 6 * 0.6 + 2
    assert rate(dataset) > 0.94 * LINK_BPS


def test_a_sender_of_datagrams_is_slowed() -> None:
    dataset = slow("udp: {rate: 100 Mbps}")
    assert lost(dataset) == 0
    payload = 1470 / 1498
    assert rate(dataset) == pytest.approx(payload * LINK_BPS, rel=0.001)
    # Between half of the buffer and all of it: 93 datagrams of 2304 B of memory.
    datagram_ms = 1498 * 8 / LINK_BPS * 1e3
    waits = pings_ms(dataset) - BASE_MS
    assert 46 * datagram_ms < waits.median() < 93 * datagram_ms  # type: ignore[operator]
    assert waits.max() < 94.5 * datagram_ms  # type: ignore[operator]


def test_datagrams_that_are_not_noticed_are_lost() -> None:
    dropped = slow("udp: {rate: 100 Mbps, when_full: drop}")
    assert lost(dropped) > 0.7 * 100e6 / 8 / 1470 * 5
    same = slow("udp: {rate: 100 Mbps}", node="{kind: host, backpressure: false}")
    assert same.intervals.equals(dropped.intervals)


def test_a_sender_that_tries_again_loses_nothing() -> None:
    dataset = slow("udp: {rate: 100 Mbps, when_full: 18 ms}")
    assert lost(dataset) == 0
    assert rate(dataset) == pytest.approx(1470 / 1498 * LINK_BPS, rel=0.001)
    # What it was refused is not sent: datagrams arrive in order, each once.
    assert dataset.intervals["reordered"].sum() == 0
    # Its queue, of 1000 packets, is full, but for what 18 ms take.
    waits = pings_ms(dataset).max() - BASE_MS  # type: ignore[operator]
    assert waits == pytest.approx(1000 * 1498 * 8 / LINK_BPS * 1e3, rel=0.05)


def test_what_waits_counts_behind_a_policy_too() -> None:
    text = SLOW.replace("NODE", "host").replace("DURATION", "4 s")
    text = text.replace("FLOW", "udp: {rate: 100 Mbps}").replace(
        "delay: 5 ms}\n  - {ends: [r", "delay: 5 ms, egress: {a: two}}\n  - {ends: [r"
    )
    text += "policies: {two: {classes: {pings: {match: {protocol: icmp}, priority: strict}, "
    text += "rest: {match: any, bandwidth: 50%, queue: {limit: 200 packets}}}}}\n"
    dataset = run(parse(text))
    assert lost(dataset) == 0
    assert rate(dataset) == pytest.approx(1470 / 1498 * LINK_BPS, rel=0.001)
    # The ping's class decides, and not the sender's backlog.
    assert pings_ms(dataset).max() < BASE_MS + 1  # type: ignore[operator]


def test_a_link_that_changes_keeps_its_senders() -> None:
    text = SLOW.replace("NODE", "host").replace("DURATION", "8 s")
    text = text.replace("FLOW", "udp: {rate: 100 Mbps}")
    text += "changes:\n  - {at: 3 s, on: a>r, state: down}\n  - {at: 4 s, on: a>r, state: up}\n"
    text += "  - {at: 5 s, on: a>r, rate: 40 Mbps}\n"
    dataset = run(parse(text))
    assert lost(dataset) == 0
    assert rate(dataset, 6.0) == pytest.approx(1470 / 1498 * 2 * LINK_BPS, rel=0.001)


@pytest.mark.parametrize("congestion", ["cubic", "reno", "bbr"])
def test_a_bottleneck_elsewhere_is_as_before(congestion: str) -> None:
    text = """
perhop: 1
name: elsewhere
nodes: {a: NODE, r: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps, delay: 1 ms}
  - {ends: [r, b], rate: 20 Mbps, delay: 20 ms, queue: {limit: 100 packets}}
flows:
  up: {from: a, to: b, tcp: {stack: linux-6, congestion_control: CC}}
duration: 20 s
""".replace("CC", congestion)
    held = run(parse(text.replace("NODE", "host")))
    free = run(parse(text.replace("NODE", "{kind: host, backpressure: false}")))
    assert rate(held) == pytest.approx(rate(free), rel=0.02)


@MEASURES
def test_linux_hosts_on_slow_links_hold_up_their_senders() -> None:
    upload = slow("stop: 5 s", "emu", duration="5 s")
    assert upload.manifest.counters["hosts_held_up"] == 2
    assert pings_ms(upload).median() == pytest.approx(24, abs=4)
    datagrams = slow("stop: 4 s, udp: {rate: 100 Mbps}", "emu", duration="4500 ms")
    sent = datagrams.intervals["packets"].sum()
    assert lost(datagrams) < 0.01 * sent
    assert pings_ms(datagrams).max() < 150  # type: ignore[operator]


@MEASURES
def test_a_policy_at_a_linux_hosts_end_decides_there() -> None:
    text = SLOW.replace("NODE", "host").replace("DURATION", "4 s").replace("FLOW", "stop: 4 s")
    text = text.replace(
        "delay: 5 ms}\n  - {ends: [r", "delay: 5 ms, egress: {a: two}}\n  - {ends: [r"
    )
    text += "policies: {two: {classes: {pings: {match: {protocol: icmp}, priority: strict}, "
    text += "rest: {match: any, bandwidth: 50%, queue: {limit: 200 packets}}}}}\n"
    dataset = run(parse(text), engine="emu")
    assert dataset.manifest.counters["hosts_not_held_up"] == 1
    assert pings_ms(dataset).median() < BASE_MS + 4  # type: ignore[operator]
