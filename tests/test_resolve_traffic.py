"""Lengths of packets, requests of applications and the packets that are sent, by hand."""

from __future__ import annotations

from fractions import Fraction
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from perhop.scenario import parse
from perhop.scenario.resolve import packet_size, sent, tcp_headers
from perhop.scenario.resolve.applications import empty_path, mean_gap
from perhop.scenario.resolve.packets import Packets, addresses_of
from perhop.scenario.resolve.sizes import datagram_headers

MB = 1_000_000
MS = 10**9
"""A millisecond in picoseconds."""

TEXT = """\
perhop: 1
name: traffic
nodes: {a: host, r: router, s: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps}
  - {ends: [r, s], rate: 100 Mbps, delay: 5 ms}
  - {ends: [s, b], rate: 1 Gbps}
flows:
  web: {from: a, to: b, stop: 10 s}
"""


# Lengths of packets


@pytest.mark.parametrize(
    ("flow", "ip", "expected"),
    [
        # RFC 791, 8200, 9293, 768 and 7323: 20 or 40, 20, 8 and 12 bytes.
        ("", 4, 1460 + 20 + 20),
        ("tcp: {mss: 536 B}, ", 4, 536 + 40),
        ("tcp: {mss: 536 B}, ", 6, 536 + 60),
        ("tcp: {mss: 1000 B, timestamps: true}, ", 4, 1000 + 40 + 12),
        ("udp: {rate: 1 Mbps, size: 200 B}, ", 4, 228),
        ("udp: {rate: 1 Mbps, size: 200 B}, ", 6, 248),
        ("udp: {rate: 1 Mbps, size: 200 B, layer: ip}, ", 4, 200),
        ("udp: {rate: 1 Mbps, sizes: imix, layer: ip}, ", 4, 1500),
        # 120 + 10 · 36 bytes of payload, and 45 + 10 · 5.7.
        ("game: fps-server, ", 4, 480 + 28),
        ("game: fps-client, ", 6, 102 + 48),
        # The simple mix has packets of 1500 B in either version.
        ("udp: {rate: 1 Mbps, sizes: imix, layer: ip}, ", 6, 1500),
        # RFC 9000, section 14.1.
        ("quic: {}, ", 4, 1200 + 28),
        ("udp: {replay: {packets: 0 s 160 B; 20 ms 900 B; 20 ms 60 B}}, ", 4, 928),
        ("udp: {replay: {packets: 0 s 160 B; 20 ms 900 B}, layer: ip}, ", 6, 900),
    ],
)
def test_lengths_of_full_packets(flow: str, ip: Any, expected: int) -> None:
    text = TEXT
    run = parse(text.replace("web: {", f"web: {{{flow}"), "x.yaml")
    assert packet_size(run.flows["web"], ip) == expected


def test_lengths_of_headers() -> None:
    assert [tcp_headers(4), tcp_headers(6), datagram_headers(4), datagram_headers(6)] == [
        40,
        60,
        28,
        48,
    ]


# Applications


def test_an_empty_path_has_the_slowest_link_and_both_delays() -> None:
    text = TEXT
    text = text.replace("delay: 5 ms", "delay: {r: 5 ms, s: 7 ms}")
    text = text.replace(
        "{ends: [s, b], rate: 1 Gbps}", "{ends: [s, b], rate: 30 Mbps, delay: 1 ms}"
    )
    transfers = "transfers: {size: 10 kB, load: 50%}"
    run = parse(text.replace("stop: 10 s}", f"stop: 10 s, streams: 2, {transfers}}}"), "x.yaml")
    flow = run.flows["web"]
    path = empty_path(run, flow)
    assert path is not None
    assert (path.rate, path.round_trip) == (30 * MB, 14 * MS)
    # Two clients ask for 10 kB at half of 30 Mb/s: each 7.5 Mb/s, 80 kb in 10 2/3 ms.
    assert mean_gap(run, flow) == round(Fraction(80_000 * 10**12, 7_500_000))


@pytest.mark.parametrize(
    ("transfers", "rate", "expected"),
    [
        ("every: 20 ms", 10**6, 20 * MS),
        ("think: 30 ms", 10**6, 30 * MS),
        # 80 kb at 1 Mb/s.
        ("load: 100%", 10**6, 80 * MS),
        # 80 kb at 10^18 bit/s take 0.08 ps; at a thousandth of a bit/s 2.5 years, more than any
        # duration.
        ("load: 100%", 10**18, 1),
        ("load: 0.1%", 1, 200 * 86_400 * 10**12),
        # What rounds to no rate has its finding elsewhere.
        ("load: 100%", 0, 200 * 86_400 * 10**12),
    ],
)
def test_the_mean_time_between_requests(transfers: str, rate: int, expected: int) -> None:
    text = TEXT
    flow = f"stop: 10 s, transfers: {{size: 10 kB, {transfers}}}}}"
    run = parse(text.replace("stop: 10 s}", flow), "x.yaml")
    links = tuple(link.model_copy(update={"rate": rate}) for link in run.links)
    run = run.model_copy(update={"links": links})
    assert mean_gap(run, run.flows["web"]) == expected


@pytest.mark.parametrize("ways", ["from: a, to: d", "from: d, to: a"])
def test_a_path_that_forks_on_the_way_back_is_none(ways: str) -> None:
    # From a the way over b is the shorter one; from d both are alike.
    text = f"""\
perhop: 1
name: square
nodes: {{a: host, r: router, b: router, c: router, s: router, d: host}}
links:
  - {{ends: [a, r], rate: 1 Gbps}}
  - {{ends: [r, b], rate: 1 Gbps, delay: {{r: 1 ms, b: 5 ms}}}}
  - {{ends: [b, s], rate: 1 Gbps}}
  - {{ends: [r, c], rate: 1 Gbps, delay: {{r: 9 ms, c: 5 ms}}}}
  - {{ends: [c, s], rate: 1 Gbps}}
  - {{ends: [s, d], rate: 1 Gbps}}
flows: {{f: {{{ways}, stop: 1 s}}}}
"""
    run = parse(text, "x.yaml")
    assert empty_path(run, run.flows["f"]) is None


def test_packets_that_flows_and_pings_send() -> None:
    run = parse(
        """\
perhop: 1
name: sent
duration: 10 s
nodes: {a: {kind: host, address: 10.0.0.1}, r: router, b: {kind: host, address: 10.0.0.2}}
links: [{ends: [a, r], rate: 1 Gbps}, {ends: [r, b], rate: 1 Gbps}]
flows:
  web: {from: a, to: b, port: 80}
  call: {from: b, to: a, udp: {rate: 1 Mbps}, dscp: ef, port: 5060, source_port: 5061}
pings:
  echo: {from: a, to: b, dscp: af11}
  probe: {from: b, to: a, protocol: udp, port: 7, dscp: cs1}
  trace: {from: a, to: b, ttl: 1..3}
""",
        "x.yaml",
    )
    names = {int(ip_address("10.0.0.1")): "a", int(ip_address("10.0.0.2")): "b"}

    def ends(ranges: Any) -> str:
        ((low, high),) = ranges
        return names[low] if low == high else "any"

    found = [
        (
            *packets.dscps,
            *(packets.protocols or ()),
            ends(packets.origins) + ">" + ends(packets.goals),
            packets.sources,
            packets.destinations,
        )
        for packets in sent(run)
    ]
    ephemeral, web = ((49152, 65535),), ((80, 80),)
    assert found == [
        # TCP acknowledges; UDP does not.
        (0, "tcp", "a>b", ephemeral, web),
        (0, "tcp", "b>a", web, ephemeral),
        (46, "udp", "b>a", ((5061, 5061),), ((5060, 5060),)),
        # Replies have the code point of requests, errors of hosts none, and those of routers CS6.
        (10, "icmp", "a>b", None, None),
        (10, "icmp", "b>a", None, None),
        (8, "udp", "b>a", ephemeral, ((7, 7),)),
        (0, "icmp", "a>b", None, None),
        (0, "icmp", "b>a", None, None),
        (48, "icmp", "any>a", None, None),
    ]


# What is sent


SENT = """\
perhop: 1
name: sent
duration: 10 s
nodes: {a: {kind: host, address: 10.0.0.1, address_v6: '2001:db8::1'}, r: router,
  b: {kind: host, address: 10.0.0.2, address_v6: '2001:db8::2'}}
links: [{ends: [a, r], rate: 1 Gbps, ENCAPSULATION}, {ends: [r, b], rate: 1 Gbps}]
flows: {SENDERS}
"""


def sends(senders: str, encapsulation: str = "delay: 0 s") -> list[Packets]:
    text = SENT.replace("SENDERS", senders).replace("ENCAPSULATION", encapsulation)
    return sent(parse(text, "x.yaml"))


def test_a_server_has_the_port_of_an_application() -> None:
    ephemeral = ((49152, 65535),)
    # Requests come from the destination of the flow: its source serves.
    there, back = sends("app: {from: a, to: b, port: 80, rpc: {every: 1 s}}")
    assert (there.sources, there.destinations) == (((80, 80),), ephemeral)
    assert (back.sources, back.destinations) == (ephemeral, ((80, 80),))
    # QUIC acknowledges as TCP does, in datagrams.
    there, back = sends("q: {from: a, to: b, quic: {}}")
    assert there.protocols == back.protocols == frozenset({"udp"})
    assert (there.destinations, back.sources) == (((5001, 5001),),) * 2


def test_packets_of_ipv6_have_its_addresses() -> None:
    one, two = (addresses_of(ip_network(f"2001:db8::{n}")) for n in (1, 2))
    (packets,) = sends("f: {from: a, to: b, ip: 6, udp: {rate: 1 Mbps}}")
    assert (packets.origins, packets.goals) == ((one,), (two,))
    found = sends("}\npings: {p: {from: a, to: b, ip: 6, ttl: 63}")
    assert [(each.origins, each.goals) for each in found] == [
        ((one,), (two,)),
        ((two,), (one,)),
        # An error may come from any router.
        ((addresses_of(ip_network("::/0")),), (one,)),
    ]
    # The usual time to live does not end.
    assert len(sends("}\npings: {p: {from: a, to: b, ttl: 64}")) == 2


def test_packets_may_have_any_class_at_layer_2_that_links_carry() -> None:
    for encapsulation, key in (("dot1q", "pcp"), ("mpls", "mpls_tc")):
        (packets,) = sends(
            "f: {from: a, to: b, udp: {rate: 1 Mbps}}", f"encapsulation: {encapsulation}"
        )
        tags = {tag if tag is None else (*tag,) for tag in packets.link_classes or ()}
        assert tags == {None, *((key, value) for value in range(8))}
