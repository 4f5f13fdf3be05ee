"""IPv6 through Linux's own queues, rules and routes."""

import sys
from typing import Any

import polars as pl
import pytest

import perhop
from conftest import MEASURES, REAL_HOSTS
from perhop import analysis, linux
from perhop._core import Namespaces
from perhop.engines.kernel.network import Network
from perhop.linux.commands import InNamespace
from perhop.scenario import parse
from tools import need, unable

CLASSES = """\
perhop: 1
name: classes
ip: 6
nodes:
  a: {kind: host, address_v6: "2001:db8:a::1"}
  c: {kind: host, address_v6: "2001:db8:c::1"}
  r: router
  s: router
  b: host
links:
  - {ends: [a, r], rate: 100 Mbps}
  - {ends: [c, r], rate: 100 Mbps}
  - ends: [r, s]
    rate: 10 Mbps
    delay: 5 ms
    mtu: 1300 B
    egress: {r: p}
    remark: {s: [{match: {dscp: be}, dscp: cs1}]}
  - {ends: [s, b], rate: 100 Mbps}
policies:
  p:
    classes:
      campus: {match: {source: "2001:db8:c::/48", protocol: tcp}, bandwidth: 20%}
      marked: {match: {ip: 6, dscp: af11}, bandwidth: 50%}
      policed:
        match: {ip: 6, destination_port: 7000, protocol: udp}
        police: {rate: 200 kbps, burst: 26 kB, exceed: drop}
      calls: {match: {dscp: ef, protocol: udp}, bandwidth: 10%}
      four: {match: {ip: 4}, bandwidth: 10%}
      rest: {match: any}
flows:
  campus: {from: c, to: b, tcp: {stack: linux-6}}
  marked: {from: a, to: b, dscp: af11, tcp: {stack: linux-6}}
  policed: {from: a, to: b, port: 7000, udp: {rate: 2 Mbps, size: 1000 B}}
  call: {from: a, to: b, dscp: ef, voice: g711}
  old: {from: a, to: b, ip: 4, udp: {rate: 1 Mbps, size: 1000 B}}
pings:
  echo: {from: a, to: s, dscp: cs2, every: 100 ms}
  hops: {from: c, to: b, ttl: 1..3, dscp: cs2, protocol: udp}
duration: 2200 ms
"""


@pytest.fixture
def able() -> None:
    need("tc", "nft", "ip")
    try:
        Namespaces(1)
    except OSError as error:
        unable(error)


@MEASURES
@pytest.mark.usefixtures("able")
def test_classes_get_the_same_from_all_engines() -> None:
    """Classes by prefix, DSCP and port, a policer, calls, Packet Too Big and hop limits."""
    scenario = parse(CLASSES, "x")
    sim, emu, kernel = (perhop.run(scenario, engine=name) for name in ("sim", "emu", "kernel"))
    for flow in scenario.flows:
        model, *real = (analysis.throughput(run, flow, (1, 2)) for run in (sim, emu, kernel))
        assert real == pytest.approx([model] * 2, rel=0.1), flow
    for run in (emu, kernel):
        counted = classes(run)
        # A datagram of a call has 220 bytes over IPv6, a probe in `rest` fewer.
        assert counted["calls"][0] == pytest.approx(220 * counted["calls"][1], rel=0.001)
        assert counted["four"] == (1028 * counted["four"][1], pytest.approx(275, abs=5))
        # Segments of 1300 bytes, as routers have asked for, and a few acknowledgements less.
        for name in ("campus", "marked"):
            assert 1250 < counted[name][0] / counted[name][1] <= 1300
        hops = run.pings.filter((pl.col("ping") == "hops") & pl.col("rtt_s").is_not_null())
        assert {*hops["node"]} == {"r", "s", "b"}
        assert run.pings.filter(pl.col("ping") == "echo")["rtt_s"].null_count() <= 1
        for flow, dscp in (("marked", 10), ("call", 46), ("policed", 8)):
            found = analysis.codepoints(run, flow).filter(pl.col("node") == "b")
            assert {*found["dscp_arrived"]} == {dscp}


def classes(run: Any) -> dict[str, tuple[int, int]]:
    """The bytes and packets that the classes of the narrow link have sent."""
    rows = run.queues.filter(pl.col("link") == "r>s").group_by("class")
    sent = rows.agg(pl.sum("sent_bytes"), pl.sum("sent_packets"))
    return {name: (size, packets) for name, size, packets in sent.iter_rows()}


FORK = """\
perhop: 1
name: fork
ip: 6
nodes:
  a: host
  r: {{kind: router, balance: {balance}, icmp_interval: 100 ms}}
  x: router
  y: router
  s: router
  b: host
links:
  - {{ends: [a, r], rate: 100 Mbps}}
  - {{ends: [r, x], rate: 100 Mbps}}
  - {{ends: [r, y], rate: 100 Mbps}}
  - {{ends: [x, s], rate: 100 Mbps}}
  - {{ends: [y, s], rate: 100 Mbps}}
  - {{ends: [s, b], rate: 100 Mbps}}
flows: {{f: {{from: a, to: b, udp: {{rate: 800 kbps, size: 1000 B}}}}}}
changes:
  - {{at: 100 ms, on: r>x, state: down}}
  - {{at: 200 ms, on: r>x, state: up}}
duration: 1 s
"""

SEND = """
import socket, sys
sender = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
sender.settimeout(5)
sender.connect((sys.argv[1], 9))
for _ in range(20):
    sender.send(bytes(100))
    try:
        sender.recv(1)
    except ConnectionRefusedError:
        pass
"""
"""Sends 20 datagrams to a closed port, each after the ICMP error for the one before."""


@REAL_HOSTS
@pytest.mark.usefixtures("able")
def test_next_hops_take_turns_and_links_come_back() -> None:
    scenario = parse(FORK.format(balance="per-packet"), "x")
    network = Network(scenario, 1)
    command = [sys.executable, "-c", SEND, str(scenario.addresses_v6["b"])]

    def send() -> tuple[int, int]:
        """The datagrams by x and by y."""
        before = counted()
        InNamespace(network.namespaces, 0)(command)
        return counted()["r>x"] - before["r>x"], counted()["r>y"] - before["r>y"]

    def counted() -> dict[str, int]:
        rows = network.queues().items()
        return {name: max(row["packets"] for row in found.values()) for name, found in rows}

    assert send() == (10, 10)
    for at, shares in ((10**11, (0, 20)), (2 * 10**11, (10, 10))):
        for step in network.mapping.steps:
            if step.at == at:
                network.apply(step)
        assert send() == shares
    # Nodes send nothing of their own: neither announcements nor questions for neighbours.
    sent = counted()
    assert sent["a>r"] == sent["b>s"] == sent["x>r"] + sent["y>r"] == 60


def test_routes_rules_and_limits_are_of_both_versions() -> None:
    found = linux.mapping(parse(FORK.format(balance="per-packet"), "x"))
    v6 = [line.removeprefix("-6 ") for line in found.ip["r"] if line.startswith("-6 ")]
    v4 = [line for line in found.ip["r"] if not line.startswith("-6 ")]
    assert len(v4) == len(v6) == 9
    for old, new in zip(v4, v6, strict=True):
        words = old.replace("10.0.0.", "fd70:6572:686f:7000::a00:").replace("/32", "/128")
        assert new == words
    rules = found.nft["r"]
    for version, address in (("ip", "10.0.0."), ("ip6", "fd70:6572:686f:7000::a00:")):
        to = f"{{ {address}5, {address}6 }}"
        assert f"{version} daddr {to} meta mark set numgen inc mod 2 offset 256" in rules
    # One limit for the errors of both versions.
    assert rules.count("limit rate over") == 1
    for kind in ("icmp type { d", "icmpv6 type { destination-unreachable, packet-too-big, t"):
        assert kind in rules
    down = [step for step in found.steps if step.node == "r" and step.ip[0].startswith("route")]
    lines = down[0].ip
    assert lines.index("-6 route flush proto boot table main") > max(
        number for number, line in enumerate(lines) if not line.startswith("-6")
    )
    assert "-6 rule del fwmark 0x101 lookup 257 priority 257" in lines
    hashed = linux.mapping(parse(FORK.format(balance="per-destination"), "x")).sysctls["r"]
    for version in (4, 6):
        assert hashed[f"net.ipv{version}.fib_multipath_hash_policy"] == "3"


def test_a_scenario_without_ipv6_has_none() -> None:
    text = FORK.format(balance="per-packet").replace("ip: 6\n", "")
    found = linux.mapping(parse(text, "x"))
    said = [*found.ip.values(), *found.nft.values(), *found.sysctls.values()]
    said += [(*step.ip, *step.tc, step.nft) for step in found.steps]
    assert not any(word in str(said) for word in ("-6", "ip6 daddr", "icmpv6", "ipv6", "fd70"))
