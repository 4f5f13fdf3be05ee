"""Real packets of Linux in tunnels of perhop's network: as the formulas and the simulator say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

import perhop
from conftest import MEASURES
from perhop import analysis
from perhop._core import Namespaces
from perhop.scenario import parse
from perhop.scenario.model.tunnels import TUNNEL_TYPES
from test_capture_files import packets
from test_tunnels import outer_size
from tools import unable

if TYPE_CHECKING:
    from pathlib import Path

    from perhop import Dataset

BRANCHES = {
    **{kind: (f"type: {kind}", "") for kind in TUNNEL_TYPES},
    "pipe": ("type: gre, mtu: 1400 B", ", remark: {m: clear}"),
    "uniform": ("type: esp, model: uniform", ", remark: {m: clear}"),
    "marks": ("type: wireguard", ", queue: {codel: {}}"),
    "narrow": ("type: ipip", ", mtu: 1300 B"),
    "lossy": ("type: vxlan", ", loss: 5%, duplicate: 20%"),
    "client": ("type: wireguard", ", mtu: 1300 B"),
}
"""Tunnels, and what is set for the link from the router `e` that they lead over. They begin there,
but that of the client at the host `k`."""

UDP = "{{from: a, to: {0}-b, dscp: {1}, stop: 1 s, udp: {{rate: {2} Mbps, size: 1000 B}}}}"
TCP = "{{from: a, to: {0}-b, start: 1200 ms}}"
FLOWS = {
    **{f"{kind}-udp": UDP.format(kind, "be", 6) for kind in TUNNEL_TYPES},
    **{f"{kind}-tcp": TCP.format(kind) for kind in TUNNEL_TYPES},
    "pipe-udp": UDP.format("pipe", "ef", 1),
    "uniform-udp": UDP.format("uniform", "ef", 1),
    "lossy-udp": UDP.format("lossy", "af31", 2),
    "marks-tcp": "{from: c, to: marks-b, stop: 3500 ms, tcp: {ecn: classic}}",
    "narrow-tcp": TCP.format("narrow"),
    "client-up": "{from: k, to: client-b, stop: 1900 ms}",
    "client-down": "{from: client-b, to: k, start: 1900 ms}",
}
SIZE, RATE = 1028, 4e6


def text() -> str:
    nodes = "".join(f"  {name}-h: router\n  {name}-b: host\n" for name in BRANCHES)
    links = "".join(
        f"  - {{ends: [e, {name}-m], rate: 4 Mbps, delay: 1 ms, overhead: ethernet"
        f"{more.replace(' {m:', ' {' + name + '-m:')}}}\n"
        f"  - {{ends: [{name}-m, {name}-h], rate: 100 Mbps}}\n"
        f"  - {{ends: [{name}-h, {name}-b], rate: 100 Mbps}}\n"
        for name, (_, more) in BRANCHES.items()
    )
    nodes += "".join(f"  {name}-m: router\n" for name in BRANCHES)
    tunnels = "".join(
        f"  {name}: {{ends: [{'k' if name == 'client' else 'e'}, {name}-h], {tunnel}}}\n"
        for name, (tunnel, _) in BRANCHES.items()
    )
    flows = "".join(f"  {name}: {flow}\n" for name, flow in FLOWS.items())
    return (
        f"perhop: 1\nname: branches\nnodes:\n  a: host\n  c: host\n  k: host\n  e: router\n{nodes}"
        f"links:\n  - {{ends: [a, e], rate: 1 Gbps}}\n"
        "  - {ends: [c, e], rate: 1 Gbps}\n  - {ends: [k, e], rate: 1 Gbps}\n"
        f"{links}tunnels:\n{tunnels}flows:\n{flows}"
        "pings:\n  hops: {from: a, to: vxlan-b, ttl: 1..3}\n"
        "duration: 3800 ms\nreport: {interval: 100 ms}\n"
    )


def received(dataset: Dataset, flow: str, column: str) -> int:
    return int(dataset.intervals.filter(pl.col("flow") == flow)[column].sum())


def arrived(dataset: Dataset, flow: str) -> set[tuple[int, int]]:
    rows = dataset.codepoints.filter(pl.col("flow") == flow)
    return set(rows.select("dscp_arrived", "ecn_arrived").iter_rows())


def outer_headers(file: Path, end: bytes) -> set[bytes]:
    """Headers of datagrams in a tunnel to an end, without identifications and checksums."""
    length = outer_size("wireguard", SIZE, 1440).to_bytes(2, "big")
    return {
        kept[:4] + kept[6:10] + kept[12:28]
        for *_, kept in packets(file.read_bytes())
        if kept[2:4] == length and kept[16:20] == end
    }


@MEASURES
def test_linux_sends_through_every_tunnel(attempt: int, tmp_path: Path) -> None:
    del attempt
    try:
        Namespaces(1)
    except OSError as error:
        unable(error)
    scenario = parse(text(), "x")
    files = [tmp_path / f"{engine}.pcapng" for engine in ("emu", "sim")]
    real, model = (
        perhop.run(scenario, engine=file.stem, captures={"e>wireguard-m": file}) for file in files
    )
    for kind in TUNNEL_TYPES:
        rate = analysis.throughput(real, f"{kind}-udp", (0.3, 1))
        share = 1000 / (outer_size(kind, SIZE, 1440) + 38)
        assert rate == pytest.approx(RATE * share, rel=0.02), kind
        room = max(size for size in range(1300, 1500) if outer_size(kind, size, size) <= 1500)
        rate = analysis.throughput(real, f"{kind}-tcp", (2, 3.7))
        share = (room - 52) / (outer_size(kind, room, room) + 38)
        assert rate == pytest.approx(RATE * share, rel=0.02), kind
        # The entry answers the first flight, and Linux learns from it.
        lost = real.losses.filter(
            (pl.col("cause") == "too long") & (pl.col("flow") == f"{kind}-tcp")
        )
        assert 1 <= lost["packets"].sum() <= 20, kind
    rate = analysis.throughput(real, "narrow-tcp", (2, 3.7))
    assert rate == pytest.approx(RATE * (1300 - 20 - 52) / 1338, rel=0.02)
    # The client learns of the MTU in the middle of its tunnel, as the router at the other end does.
    for flow, window in (("client-up", (0.8, 1.8)), ("client-down", (2.7, 3.7))):
        rate = analysis.throughput(real, flow, window)
        assert rate == pytest.approx(RATE * (1300 - 60 - 52) / 1338, rel=0.02), flow
        lost = real.losses.filter(pl.col("flow") == flow)
        assert "too long" in set(lost["cause"]), flow
    for dataset in (real, model):
        assert arrived(dataset, "pipe-udp") == {(46, 0)}
        assert arrived(dataset, "uniform-udp") == {(0, 0)}
        assert arrived(dataset, "lossy-udp") == {(26, 0)}
        hops = dataset.pings.filter(pl.col("rtt_s").is_not_null())
        assert dict(hops.select("ttl", "node").iter_rows()) == {1: "e", 2: "vxlan-h", 3: "vxlan-b"}
        lost, copies = (received(dataset, "lossy-udp", name) for name in ("lost", "duplicates"))
        assert pytest.approx(received(dataset, "lossy-udp", "packets") + lost, abs=1) == 250
        assert 2 <= lost <= 30
        assert 20 <= copies <= 90
        # Marks of the queue reach the receiver in the inner packets.
        marked = dataset.queues.filter(pl.col("link") == "e>marks-m")["marked_packets"].sum()
        found = dataset.codepoints.filter(
            (pl.col("flow") == "marks-tcp") & (pl.col("ecn_arrived") == 3)
        )["packets"].sum()
        assert marked - 2 <= max(found, received(dataset, "marks-tcp", "marked")) <= marked
        assert marked > 3
        for row in analysis.tunnel_counters(dataset).iter_rows(named=True):
            headers = scenario.tunnels[row["tunnel"]].headers
            if headers.multiple == 1:
                added = row["outer_bytes"] - row["encapsulated_bytes"]
                assert added == headers.overhead * row["encapsulated_packets"], row
        there = analysis.tunnel_counters(dataset).filter(tunnel="gre", entry="e")
        assert there["encapsulated_packets"][0] > 1000
    assert real.manifest.counters["overflow"] == real.manifest.counters["malformed"] == 0
    end = scenario.addresses["wireguard-h"].packed
    found, expected = (outer_headers(file, end) for file in files)
    assert found == expected
    assert len(found) == 1
