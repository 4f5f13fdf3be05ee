"""Hosts at the ends of tunnels, such as clients of a virtual private network."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import TYPE_CHECKING

import polars as pl
import pytest

import perhop
from perhop import Dataset, analysis
from perhop.engines import emu, traffic
from perhop.scenario import parse
from test_capture_files import packets
from test_tunnels import outer_size

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
perhop: 1
name: client
nodes: {{a: host, edge: router, isp: router, hub: router, b: host}}
links:
  - {{ends: [a, edge], rate: 1 Gbps, delay: 1 ms}}
  - {{ends: [edge, isp], rate: 10 Mbps, delay: 5 ms, overhead: ethernet{middle}}}
  - {{ends: [isp, hub], rate: 10 Mbps, delay: 5 ms, overhead: ethernet}}
  - {{ends: [hub, b], rate: 1 Gbps, delay: 1 ms}}
tunnels: {{{tunnels}}}
flows:
  f: {{{flow}}}
duration: 4 s
"""


def measured(
    flow: str, tunnels: str = "vpn: {ends: [a, hub], type: wireguard}", middle: str = ""
) -> Dataset:
    return perhop.run(parse(TEXT.format(flow=flow, tunnels=tunnels, middle=middle), "x"))


@pytest.mark.parametrize("way", ["from: a, to: b", "from: b, to: a"])
def test_both_directions_of_a_client_are_in_its_tunnel(way: str) -> None:
    udp = measured(f"{way}, udp: {{rate: 20 Mbps, size: 1000 B}}")
    rate = analysis.throughput(udp, "f", (1, 4))
    assert rate == pytest.approx(
        10e6 * 1000 / (outer_size("wireguard", 1028, 1440) + 38), rel=0.003
    )
    tcp = measured(way)
    # The device of the client has the MTU of the tunnel: both ends agree on segments.
    assert tcp.losses.filter(pl.col("cause") == "too long").is_empty()
    rate = analysis.throughput(tcp, "f", (1, 4))
    assert rate == pytest.approx(10e6 * 1400 / (1500 + 38), rel=0.01)


def test_a_client_learns_what_the_middle_of_its_tunnel_takes() -> None:
    """The error about an outer packet comes to the client, which tells its own TCP."""
    dataset = measured("from: a, to: b", middle=", mtu: 1300 B")
    lost = dataset.losses.filter(pl.col("cause") == "too long")
    assert set(lost["start_s"]) == {0.0}
    rate = analysis.throughput(dataset, "f", (1, 4))
    # Padding ends at the MTU.
    assert rate == pytest.approx(10e6 * (1300 - 60 - 40) / (1300 + 38), rel=0.01)


def test_the_provider_sees_the_tunnel_alone(tmp_path: Path) -> None:
    """Addresses, lengths and DSCPs between the ends are the outer ones, in both directions."""
    flow = "from: a, to: b, dscp: ef, udp: {rate: 1 Mbps, size: 1000 B}, stop: 50 ms"
    pings = "pings: {p: {from: b, to: a, dscp: af41, size: 100 B, every: 10 ms}, "
    pings += (
        "end: {from: a, to: hub, every: 10 ms}, hops: {from: a, to: b, every: 20 ms, ttl: 1..3}}"
    )
    tunnels = "vpn: {ends: [a, hub], type: wireguard}"
    text = TEXT.format(flow=flow, tunnels=tunnels, middle="").replace("4 s", "200 ms") + pings
    scenario = parse(text, "x")
    files = {link: tmp_path / link for link in ("isp>hub", "hub>isp", "hub>b")}
    dataset = perhop.run(scenario, captures=files)
    seen = {}
    for link, file in files.items():
        seen[link] = {
            (str(IPv4Address(kept[12:16])), str(IPv4Address(kept[16:20])), kept[9], length, kept[1])
            for *_, length, kept in packets(file.read_bytes())
        }
    a, hub, b = (str(scenario.addresses[node]) for node in ("a", "hub", "b"))
    size = outer_size("wireguard", 1028, 1440)
    assert (a, hub, 17, size, 0) in seen["isp>hub"]
    assert not {each for each in seen["isp>hub"] | seen["hub>isp"] if b in each[:2]}
    assert (hub, a, 17, outer_size("wireguard", 128, 1440), 0) in seen["hub>isp"]
    assert (a, b, 17, 1028, 46 << 2) in seen["hub>b"]
    # What is for the router at the end does not enter.
    assert (a, hub, 1) in {each[:3] for each in seen["isp>hub"]}
    hops = dataset.pings.filter((pl.col("ping") == "hops") & pl.col("rtt_s").is_not_null())
    assert dict(hops.select("ttl", "node").iter_rows()) == {1: "hub", 2: "b", 3: "b"}
    assert set(dataset.codepoints.filter(pl.col("flow") == "f")["dscp_arrived"]) == {46}


@pytest.mark.parametrize(
    ("tunnels", "there", "back"),
    [
        # Two hosts: also datagrams that look like outer packets are carried.
        ("vpn: {ends: [a, b], type: esp-udp}", (1092, 1092), (1092, 1092)),
        # Outer packets to the hub do not enter the other tunnel, which ends there.
        (
            "vpn: {ends: [a, hub], type: vxlan}, mpls: {ends: [edge, hub], type: gre}",
            (1078, 1078),
            (1102, 1102),
        ),
        (
            "vpn: {ends: [a, hub], type: vxlan}, far: {ends: [a, isp], type: gre}",
            (1102, 1078),
            (1102, 1078),
        ),
    ],
)
def test_tunnels_of_hosts_lead_through_others(
    tunnels: str, there: tuple[int, int], back: tuple[int, int]
) -> None:
    for way in ("from: a, to: b", "from: b, to: a"):
        flow = f"{way}, port: 4500, source_port: 4500, udp: {{rate: 1 Mbps, size: 1000 B}}"
        dataset = measured(flow, tunnels)
        assert dataset.intervals["packets"].sum() == pytest.approx(500, abs=2)
        links = ("edge>isp", "isp>hub") if "from: a" in way else ("isp>edge", "hub>isp")
        sums = dataset.links.group_by("link").agg(pl.sum("sent_bytes"))
        sent = dict(sums.iter_rows())
        found = [sent[link] / 500 - 38 for link in links]
        assert found == list(there if "from: a" in way else back)


def test_only_the_client_sends_shorter_packets_from_linux() -> None:
    """Its device has the MTU of the tunnel; others keep theirs, and its TCP needs no setting."""
    flow = "from: a, to: b}\n  long: {from: a, to: b, udp: {size: 1472 B, rate: 1 Mbps}}\n"
    flow += "  other: {from: b, to: a, udp: {size: 1472 B, rate: 1 Mbps}"
    tunnels = "vpn: {ends: [a, hub], type: wireguard}"
    scenario = parse(TEXT.format(flow=flow, tunnels=tunnels, middle=""), "x")
    mtus = emu.mtus(scenario)
    assert (mtus["a"], mtus["b"]) == (1440, 1500)
    [gap] = traffic.gaps(scenario, mtus=mtus)
    assert str(gap) == (
        "flows.long.udp.size: a packet of 1500 B is sent in fragments by a host whose MTU is 1440 B"
    )
