"""Path MTU discovery (RFC 1191) of modelled hosts, and of Linux's in comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

import perhop
from conftest import MEASURES
from perhop import analysis, lab
from perhop.errors import UsageError
from perhop.scenario import parse

if TYPE_CHECKING:
    from perhop.dataset import Dataset

PATH = """\
perhop: 1
name: narrow
nodes: {{a: host, b: host, c: host, r: {router}, s: router}}
links:
  - {{ends: [a, r], rate: 100 Mbps, delay: 1 ms{own}}}
  - {{ends: [r, s], rate: {rate}, delay: 5 ms, mtu: 1400 B}}
  - {{ends: [s, b], rate: 100 Mbps, delay: 1 ms}}
  - {{ends: [s, c], rate: 100 Mbps, delay: 1 ms}}
flows:
{flows}
duration: {duration}
report: {{interval: 1 s}}
"""
SILENT = "{kind: router, icmp_errors: false}"


def measured(
    flows: str = "  f: {from: a, to: b}",
    *,
    engine: str = "sim",
    router: str = "router",
    rate: str = "20 Mbps",
    own: str = "",
    duration: str = "4 s",
) -> Dataset:
    """A run over a path whose second link has an MTU of 1400 B."""
    text = PATH.format(flows=flows, router=router, rate=rate, own=own, duration=duration)
    return perhop.run(parse(text, "x"), engine=engine)


def too_long(dataset: Dataset) -> dict[tuple[str, float], int]:
    """Packets of each flow that a router dropped because of their length, by second."""
    rows = dataset.losses.filter(pl.col("cause") == "too long")
    return {(row["flow"], row["start_s"]): row["packets"] for row in rows.iter_rows(named=True)}


@pytest.mark.parametrize("tcp", ["", "stack: linux-6", "congestion_control: bbr", "sack: false"])
def test_a_router_tells_the_mtu_and_tcp_follows(tcp: str) -> None:
    flow = f"  f: {{from: a, to: b, tcp: {{{tcp}}}}}"
    dataset = measured(flow, router="{kind: router, icmp_interval: 1 s}")
    # One error is enough, and only the first flight is too long.
    assert list(too_long(dataset)) == [("f", 0.0)]
    assert 1 <= too_long(dataset)["f", 0.0] <= 10
    rate = analysis.throughput(dataset, "f", (1, 4))
    assert rate == pytest.approx(20e6 * 1354 / 1400, rel=0.02)


def test_an_mtu_at_either_end_is_agreed_on() -> None:
    """The MSS options of the handshake tell it (RFC 9293, section 3.7.1)."""
    own = ", mtu: 1300 B"
    assert too_long(measured(own=own)) == {}
    back = measured("  f: {from: b, to: a}", own=own)
    assert too_long(back) == {}
    assert analysis.throughput(back, "f", (1, 4)) == pytest.approx(20e6 * 1260 / 1300, rel=0.02)


def test_a_router_without_errors_is_a_black_hole() -> None:
    dataset = measured(router=SILENT)
    assert dataset.intervals["bytes"].sum() == 0
    [warning] = dataset.warnings
    assert warning.path == "flows.f.tcp"
    assert "`r` drops them and sends no ICMP errors" in warning.message


def test_a_host_keeps_the_mtu_of_a_destination_for_ten_minutes() -> None:
    flows = """\
  f: {from: a, to: b, stop: 3 s}
  same: {from: a, to: b, start: 4 s, volume: 100 kB}
  other: {from: a, to: c, start: 5 s, volume: 100 kB}
  long: {from: a, to: c, start: 599 s, stop: 610 s, tcp: {window: 8 KiB}}"""
    dataset = measured(flows, rate="1 Mbps", duration="612 s")
    found = too_long(dataset)
    # RFC 1191, section 6.3: known from 5 s on, forgotten 600 s later.
    assert list(found) == [("f", 0.0), ("other", 5.0), ("long", 605.0)]


def test_a_route_with_a_smaller_mtu_is_discovered_when_it_is_used() -> None:
    text = """\
perhop: 1
name: later
nodes: {a: host, b: host, r: router, s: router, t: router}
links:
  - {ends: [a, r], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r, s], rate: 10 Mbps, delay: 5 ms}
  - {ends: [r, t], rate: 10 Mbps, delay: 5 ms, mtu: 1000 B}
  - {ends: [t, s], rate: 10 Mbps, delay: 5 ms}
  - {ends: [s, b], rate: 100 Mbps, delay: 1 ms}
flows: {f: {from: a, to: b, stop: 6 s, tcp: {window: 32 KiB}}}
changes: [{at: 3 s, on: r>s, state: down}]
report: {interval: 1 s}
"""
    dataset = perhop.run(parse(text, "x"))
    assert {second for _, second in too_long(dataset)} == {3.0}
    for during, mtu in (((1, 3), 1500), ((4, 6), 1000)):
        rate = analysis.throughput(dataset, "f", during)
        assert rate == pytest.approx(10e6 * (mtu - 40) / mtu, rel=0.02)


def test_a_lab_refuses_to_clamp_what_programs_send() -> None:
    text = PATH.format(
        flows="  f: {from: a, to: b}",
        router="{kind: router, mss_clamp: true}",
        rate="1 Mbps",
        own="",
        duration="1 s",
    )
    with pytest.raises(UsageError, match=r"^nodes\.r\.mss_clamp: a lab does not change"):
        lab.up(parse(text, "x"))


UDP = "  f: {from: a, to: b, udp: {rate: 5 Mbps}}"


def test_a_host_fragments_datagrams_once_it_knows_the_mtu() -> None:
    dataset = measured(UDP)
    # The error takes 2 ms, in which a second datagram may leave.
    assert too_long(dataset) in ({("f", 0.0): 1}, {("f", 0.0): 2})
    sent = dataset.links.filter((pl.col("link") == "r>s") & (pl.col("start_s") >= 1))
    arrived = dataset.intervals.filter(pl.col("start_s") >= 1)
    assert arrived["lost"].sum() == 0
    assert arrived["bytes"].sum() == pytest.approx(3 * 5e6 / 8, rel=0.01)
    # 1498 B become 1396 B, whose payload is the most whole units of eight bytes, and 122 B.
    packets = sent["sent_bytes"].sum() / (1396 + 122)
    assert arrived["packets"].sum() == pytest.approx(packets, abs=2)
    assert sent["sent_packets"].sum() == pytest.approx(2 * packets, abs=4)


def test_fragments_are_sent_at_once_if_the_own_link_is_short_and_divided_by_routers() -> None:
    dataset = measured(UDP.replace("Mbps", "Mbps, size: 4 kB"), own=", mtu: 1500 B")
    assert dataset.intervals["lost"].sum() == 0
    assert dataset.intervals["bytes"].sum() == pytest.approx(4 * 5e6 / 8, rel=0.01)
    sent = dataset.links.group_by("link").agg(pl.col("sent_packets").sum())
    packets = dict(sent.iter_rows())
    # 1500, 1500 and 1068 B; then 1396, 124, 1396, 124 and 1068 B.
    assert packets["r>s"] / packets["a>r"] == pytest.approx(5 / 3, rel=0.01)
    assert packets["s>b"] == pytest.approx(packets["r>s"], abs=5)


def test_a_datagram_is_lost_once_with_any_of_its_fragments() -> None:
    text = """\
perhop: 1
name: lossy
nodes: {a: host, b: host}
links: [{ends: [a, b], rate: 10 Mbps, delay: 5 ms, mtu: 576 B, loss: 10%}]
flows: {f: {from: a, to: b, udp: {rate: 4 Mbps, size: 1400 B}}}
duration: 20 s
"""
    dataset = perhop.run(parse(text, "x"))
    [summary] = analysis.summary(dataset)["flows"].values()
    # Three fragments, each of which arrives with 90%.
    assert summary["loss"] == pytest.approx(1 - 0.9**3, abs=0.02)
    rows = dataset.intervals
    assert rows["packets"].sum() + rows["lost"].sum() == pytest.approx(20 * 4e6 / 8 / 1400, abs=5)
    assert dataset.losses["packets"].sum() == rows["lost"].sum()


def test_datagrams_fall_into_a_black_hole_without_errors() -> None:
    dataset = measured(UDP, router=SILENT)
    assert dataset.intervals["bytes"].sum() == 0
    assert [warning.path for warning in dataset.warnings] == ["flows.f.udp"]


@pytest.mark.parametrize("way", ["from: a, to: b", "from: b, to: a"])
def test_a_router_that_clamps_segment_sizes_needs_no_errors(way: str) -> None:
    clamps = SILENT.replace("false", "false, mss_clamp: true")
    dataset = measured(f"  f: {{{way}}}", router=clamps)
    assert too_long(dataset) == {}
    assert [warning.message.split(": ")[1] for warning in dataset.warnings] == [
        "TCP sends shorter ones, as both ends agree"
    ]
    rate = analysis.throughput(dataset, "f", (1, 4))
    assert rate == pytest.approx(20e6 * 1360 / 1400, rel=0.01)


@MEASURES
def test_linux_does_the_same() -> None:
    datagrams = [measured(UDP, engine=engine, duration="2 s") for engine in ("sim", "emu")]
    lost = [int(dataset.intervals["lost"].sum()) for dataset in datagrams]
    assert max(lost) <= 3 and min(lost) >= 1
    totals = [dataset.intervals["bytes"].sum() for dataset in datagrams]
    assert totals[1] == pytest.approx(totals[0], rel=0.02)
    crossed = [
        dataset.links.filter(pl.col("link") == "r>s")["sent_packets"].sum() for dataset in datagrams
    ]
    assert crossed[1] == pytest.approx(crossed[0], rel=0.02)
    modelled, real = (measured(engine=engine) for engine in ("sim", "emu"))
    rates = [analysis.throughput(dataset, "f", (1, 4)) for dataset in (modelled, real)]
    assert rates[1] == pytest.approx(rates[0], rel=0.02)
    assert min(map(len, (too_long(modelled), too_long(real)))) >= 1
    silent = measured(engine="emu", router=SILENT, duration="2 s")
    assert silent.intervals["bytes"].sum() == 0
