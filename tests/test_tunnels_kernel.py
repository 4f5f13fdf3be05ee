"""Tunnels of Linux itself, in the engine `kernel`, against the formulas for perhop's own."""

from __future__ import annotations

import polars as pl
import pytest

import perhop
from conftest import MEASURES
from perhop import analysis
from perhop.linux import probe, tunnels
from perhop.scenario import parse
from test_tunnels import outer_size
from tools import need, unable

TEXT = """\
perhop: 1
name: linux
nodes: {a: host, edge: router, isp: router, x: router, hub: router, b: host, c: host, other: router}
links:
  - {ends: [a, edge], mtu: 1500 B, rate: 100 Mbps}
  - ends: [edge, isp]
    mtu: 1500 B
    rate: 8 Mbps
    delay: 2 ms
    overhead: ethernet
    egress: {edge: p}
  - {ends: [isp, x], mtu: 1500 B, rate: 100 Mbps}
  - {ends: [x, hub], mtu: 1500 B, rate: 100 Mbps}
  - {ends: [hub, b], mtu: 1500 B, rate: 100 Mbps}
  - {ends: [edge, other], mtu: 1500 B, rate: 8 Mbps, overhead: ethernet, egress: {edge: p}}
  - {ends: [other, c], mtu: 1500 B, rate: 100 Mbps}
policies:
  p:
    classes:
      gold: {match: {dscp: ef}, bandwidth: 50%}
      blue: {match: {dscp: af31, protocol: udp, port: 4789}, bandwidth: 40%}
      rest: {match: any}
tunnels:
  copied: {ends: [edge, hub], type: vxlan}
  fixed: {ends: [edge, other], type: vxlan, dscp: af31, mtu: 1300 B}
flows:
  u: {from: a, to: b, dscp: ef, udp: {rate: 10 Mbps, size: 1000 B}, stop: 1 s}
  t: {from: a, to: b, start: 1200 ms}
  v: {from: a, to: c, dscp: ef, start: 1200 ms}
pings:
  hops: {from: a, to: b, ttl: 1..3, every: 50 ms}
  six: {from: a, to: b, every: 50 ms, ip: 6}
duration: 3 s
report: {interval: 100 ms}
"""


def sent(dataset: perhop.Dataset, link: str) -> dict[str, int]:
    rows = dataset.queues.filter(pl.col("link") == link).group_by("class")
    return {
        name: packets for name, packets in rows.agg(pl.sum("sent_packets")).iter_rows() if packets
    }


@MEASURES
def test_vxlan_of_linux_has_the_bytes_and_dscps_of_the_model(attempt: int) -> None:
    del attempt
    need("ip", "tc", "nft")
    if not probe.this_kernel().has_tunnel("vxlan"):
        unable("no tunnels of type vxlan")
    scenario = parse(TEXT, "x")
    real, model = (perhop.run(scenario, engine=engine) for engine in ("kernel", "sim"))
    rate = analysis.throughput(real, "u", (0.3, 1))
    assert rate == pytest.approx(8e6 * 1000 / (outer_size("vxlan", 1028, 1450) + 38), rel=0.02)
    for flow, room in (("t", 1450), ("v", 1300)):
        rate = analysis.throughput(real, flow, (1.8, 2.9))
        on_wire = outer_size("vxlan", room, room) + 38
        assert rate == pytest.approx(8e6 * (room - 52) / on_wire, rel=0.02), flow
    for dataset in (real, model):
        rows = dataset.codepoints.filter(pl.col("dscp_arrived") != pl.col("dscp_sent"))
        assert rows.is_empty()
        answered = dataset.pings.filter(pl.col("rtt_s").is_not_null())
        assert len(answered.filter(ping="six")) > 30
        hops = answered.filter(ping="hops")
        assert dict(hops.select("ttl", "node").iter_rows()) == {1: "edge", 2: "hub", 3: "b"}
        assert set(sent(dataset, "edge>isp")) == {"gold", "rest"}
        assert set(sent(dataset, "edge>other")) == {"blue"}
    for tunnel in ("copied", "fixed"):
        loads = [analysis.tunnel_counters(each, (1.8, 2.9)) for each in (real, model)]
        at = {"tunnel": tunnel, "entry": "edge"}
        counted, expected = (each.filter(**at).row(0, named=True) for each in loads)
        for name in ("encapsulated_packets", "decapsulated_packets", "decapsulated_bytes"):
            assert counted[name] == pytest.approx(expected[name], rel=0.05), (tunnel, name)
        assert counted["dropped_ecn"] == counted["dropped_no_route"] == 0
        assert counted["outer_bytes"] is counted["dropped_too_long"] is None
    # Every byte behind the tunnel is one of the flow, and the entry counts what its queue drops.
    window = (0.3, 1.0)
    inner = analysis.measure(real, "tunnel_rate", "copied", window, entry="edge")
    assert inner == pytest.approx(analysis.throughput(real, "u", window) * 1.028, rel=0.02)  # type: ignore[operator]
    lost = analysis.measure(real, "tunnel_loss", "copied", window, entry="edge")
    assert lost == pytest.approx(1 - inner / (10e6 * 1.028), abs=0.03)  # type: ignore[operator]
    for link in ("edge>isp", "edge>other"):
        counts = [sum(sent(dataset, link).values()) for dataset in (real, model)]
        assert counts[0] == pytest.approx(counts[1], rel=0.05), link


@pytest.mark.parametrize(
    ("tunnel", "more", "said"),
    [
        ("ends: [edge, hub], type: gre", "", "perhop sets up only `vxlan` in Linux"),
        ("ends: [edge, hub], overhead: 50 B", "", "perhop sets up only `vxlan` in Linux"),
        ("ends: [a, hub], type: vxlan", "", "between routers only"),
        ("ends: [edge, hub], type: vxlan, model: uniform", "", "keeps the inner DSCP behind"),
        (
            "ends: [edge, hub], type: vxlan",
            "changes: [{at: 1 s, on: isp>x, state: down}]",
            "would stay when links go down",
        ),
        ("ends: [edge, hub], type: vxlan", "", ""),
    ],
)
def test_other_tunnels_are_refused_with_the_reason(tunnel: str, more: str, said: str) -> None:
    start, end = TEXT.index("tunnels:"), TEXT.index("flows:")
    text = f"{TEXT[:start]}tunnels: {{t: {{{tunnel}}}}}\n{TEXT[end:]}{more}\n"
    text = "".join(line for line in text.splitlines(True) if "blue" not in line)
    found = list(tunnels.gaps(parse(text, "x")))
    assert [gap.path for gap in found] == ["tunnels.t"] * bool(said)
    assert all(said in gap.reason and "`sim` and `emu`" in gap.reason for gap in found)
