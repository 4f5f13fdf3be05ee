"""IPv6 in the model: lengths, Path MTU discovery, matches and captures."""

from __future__ import annotations

import base64
import json
import socket
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import perhop
from conftest import MEASURES
from perhop import analysis
from perhop.engines import live
from perhop.engines.plan import plan
from perhop.errors import ScenarioError, UnsupportedError
from perhop.scenario import dump, parse

if TYPE_CHECKING:
    from perhop.dataset import Dataset
    from perhop.scenario import Scenario

LINE = """\
perhop: 1
name: line
ip: {ip}
nodes: {{a: host, r: router, s: router, b: host}}
links:
  - {{ends: [a, r], rate: 100 Mbps, delay: 1 ms}}
  - {{ends: [r, s], rate: 10 Mbps, delay: 5 ms, queue: {{limit: 1000 packets}}{link}}}
  - {{ends: [s, b], rate: 100 Mbps, delay: 1 ms}}
{traffic}
duration: {duration}
report: {{interval: 1 s}}
"""


def line(traffic: str, *, ip: int = 6, link: str = "", duration: str = "3 s") -> Dataset:
    """A run over a path of three links, with one flow or ping in the default version."""
    text = LINE.format(traffic=traffic, ip=ip, link=link, duration=duration)
    return perhop.run(parse(text, "x"))


def sizes(dataset: Dataset, link: str = "r>s") -> float:
    """The mean length of the IP packets that a link has sent."""
    rows = dataset.queues.filter(pl.col("link") == link)
    return rows["sent_bytes"].sum() / rows["sent_packets"].sum()


@pytest.mark.parametrize(
    ("ip", "tcp", "payload"),
    [
        (4, "{}", 1460),
        (6, "{}", 1440),
        (6, "{stack: linux-6}", 1428),
        (6, "{mss: 1000 B}", 1000),
        (4, "{mss: 1000 B}", 1000),
    ],
)
def test_tcp_has_a_header_of_40_bytes(ip: int, tcp: str, payload: int) -> None:
    """Goodput is the part of the payload in full packets (RFC 8200, section 3)."""
    dataset = line(f"flows: {{f: {{from: a, to: b, tcp: {tcp}}}}}", ip=ip, duration="4 s")
    headers = {4: 40, 6: 60}[ip] + (12 if "linux-6" in tcp else 0)
    rate = analysis.throughput(dataset, "f", (2, 4))
    assert rate == pytest.approx(10e6 * payload / (payload + headers), rel=0.002)


@pytest.mark.parametrize(
    ("traffic", "four"),
    [
        ("flows: {f: {from: a, to: b, udp: {rate: 1 Mbps, size: 1000 B}}}", 1028),
        ("flows: {f: {from: a, to: b, voice: g711}}", 160 + 12 + 28),
        ("flows: {f: {from: a, to: b, voice: g729a}}", 20 + 12 + 28),
        ("pings: {p: {from: a, to: b, size: 56 B, every: 10 ms}}", 84),
        ("pings: {p: {from: a, to: b, size: 56 B, every: 10 ms, protocol: udp}}", 84),
    ],
)
def test_datagrams_and_echoes_are_longer_by_20_bytes(traffic: str, four: int) -> None:
    assert sizes(line(traffic, ip=4)) == four
    assert sizes(line(traffic, ip=6)) == four + 20


def test_a_size_of_ip_packets_is_that_of_either_version() -> None:
    flow = "flows: {{f: {{from: a, to: b, udp: {{rate: 1 Mbps, layer: ip, {}}}}}}}"
    exact = line(flow.format("size: 500 B"))
    assert sizes(exact) == 500
    assert analysis.throughput(exact, "f") == pytest.approx(1e6 * 452 / 500, rel=0.01)
    mix = line(flow.format("sizes: imix"), duration="20 s")
    assert sizes(mix) == pytest.approx((7 * 60 + 4 * 596 + 1500) / 12, rel=0.02)


def test_layer_2_overhead_comes_on_top() -> None:
    flow = "flows: {f: {from: a, to: b, udp: {rate: 1 Mbps, size: 1000 B}}}"
    rows = line(flow, link=", overhead: ethernet").links.filter(pl.col("link") == "r>s")
    assert rows["sent_bytes"].sum() / rows["sent_packets"].sum() == 1000 + 48 + 38


@pytest.mark.parametrize("kind", ["tcp: {}", "tcp: {stack: linux-6}", "web: desktop"])
def test_routers_name_the_mtu_and_tcp_follows(kind: str) -> None:
    """Packet Too Big (RFC 4443, section 3.2) makes segments that fit (RFC 8201, section 5.4)."""
    dataset = line(f"flows: {{f: {{from: a, to: b, {kind}}}}}", link=", mtu: 1300 B")
    lost = dataset.losses.filter(pl.col("cause") == "too long")
    assert 1 <= lost["packets"].sum() <= 12
    if "tcp" in kind:
        overhead = 60 + (12 if "linux" in kind else 0)
        rate = analysis.throughput(dataset, "f", (1, 3))
        assert rate == pytest.approx(10e6 * (1300 - overhead) / 1300, rel=0.01)


def test_the_host_fragments_datagrams_and_routers_never_do() -> None:
    """Fragments have a header of 8 bytes more, and lengths that are multiples of 8 (RFC 8200,
    section 4.5)."""
    traffic = "flows: {f: {from: a, to: b, udp: {rate: 1 Mbps, size: 1452 B}}}"
    dataset = line(traffic, link=", mtu: 1280 B")
    lost = dataset.losses.filter(pl.col("cause") == "too long")
    assert lost["packets"].sum() == 1  # the first one, whole
    assert analysis.loss(dataset, "f", (1, 3)) == 0
    # 1460 bytes behind the fragment header: 1232 and 228.
    assert sizes(dataset) == ((48 + 1232) + (48 + 228)) / 2
    # A second narrow link behind it: the first fragments do not fit, and nobody divides them.
    again = LINE.format(traffic=traffic, ip=6, link=", mtu: 1400 B", duration="3 s")
    again = again.replace("[s, b], rate: 100 Mbps", "[s, b], rate: 100 Mbps, mtu: 1280 B")
    dataset = perhop.run(parse(again, "x"))
    lost = (
        dataset.losses.filter(pl.col("cause") == "too long").group_by("link").agg(pl.sum("packets"))
    )
    # One before the first error arrives; two fragments before the second one does, after 12 ms.
    assert dict(lost.iter_rows()) == {"r>s": 1, "s>b": 2}
    assert analysis.loss(dataset, "f", (1, 3)) == 0


def test_the_least_mtu_is_1280_bytes() -> None:
    """RFC 8200, section 5; the place of the traffic is named, whatever makes it IPv6."""
    flow = "flows: {f: {from: a, to: b}}"
    line(flow, ip=4, link=", mtu: 1279 B")
    line(flow, link=", mtu: 1280 B")
    for traffic, place in [
        (flow, "flows.f"),
        ("pings: {p: {from: a, to: b}}", "pings.p"),
        ("background: {link: r>s, load: 10%}", "background"),
    ]:
        with pytest.raises(ScenarioError) as caught:
            line(traffic, link=", mtu: 1279 B")
        said = str(caught.value)
        assert "links.1.mtu: 1279 B is less than the 1280 B that every link of IPv6 carries" in said
        assert said.endswith(f"and {place} uses IPv6")


BOTH = """\
perhop: 1
name: both
nodes: {a: {kind: host, address: 192.0.2.1, address_v6: "2001:db8::1"}, r: router, b: host}
links: [{ends: [a, r], rate: 100 Mbps}, {ends: [r, b], rate: 10 Mbps, egress: {r: p}}]
policies:
  p:
    classes:
CLASSES
      rest: {match: any, unused: true}
flows:
  four: {from: a, to: b, udp: {rate: 1 Mbps}}
  six: {from: a, to: b, ip: 6, udp: {rate: 2 Mbps, size: 1400 B}}
  web: {from: a, to: b, ip: 6, volume: 100 kB}
pings: {p6: {from: a, to: b, ip: 6, every: 100 ms}}
duration: 1 s
"""


def classes_of(*matches: str) -> dict[str, int]:
    """The packets of each class, of which the numbered ones have these matches."""
    classes = [f"      c{n}: {{match: {match}, bandwidth: 10%}}" for n, match in enumerate(matches)]
    dataset = perhop.run(parse(BOTH.replace("CLASSES", "\n".join(classes)), "x"))
    rows = dataset.queues.filter((pl.col("link") == "r>b") & (pl.col("sent_packets") > 0))
    counted = rows.group_by("class").agg(pl.col("sent_packets").sum())
    return dict(counted.iter_rows())


def test_classes_match_versions_addresses_and_protocols() -> None:
    plain = classes_of("{dscp: be}")["c0"]
    by_version = classes_of("{ip: 6, protocol: udp}", "{ip: 4}", "{ip: 6}")
    four, six = by_version["c1"], by_version["c0"]
    assert (four, six) == (86, 179)  # 1 Mb/s and 2 Mb/s for a second, from its start on
    assert by_version["c0"] + by_version["c1"] + by_version["c2"] == plain
    prefixes = classes_of("{source: ['2001:db8::/32'], protocol: udp}", "{source: 192.0.2.0/24}")
    assert (prefixes["c0"], prefixes["c1"]) == (six, four)
    mixed = classes_of("{source: [192.0.2.1, '2001:db8::1'], protocol: udp}")
    assert mixed["c0"] == four + six
    # A node is all of its addresses, and ICMP that of both versions.
    node = classes_of("{source: a, protocol: udp}", "{protocol: icmp}")
    assert (node["c0"], node["c1"]) == (four + six, 10)
    default = classes_of("{destination: 'fd70:6572:686f:7000::a00:2', protocol: udp}")
    assert default["c0"] == six
    both = classes_of("[{except: {ip: 4}}, {protocol: udp}]", "{ip: [4, 6]}")
    assert (both["c0"], both["c1"]) == (six, plain - six)


def test_matches_of_the_other_version_select_nothing() -> None:
    with pytest.raises(ScenarioError, match="matches no packet of any flow or ping"):
        line_of = LINE.format(ip=6, link=", egress: {r: p}", traffic=POLICY, duration="1 s")
        parse(line_of, "x")


POLICY = """\
policies: {p: {classes: {old: {match: {ip: 4}}, rest: {match: any}}}}
flows: {f: {from: a, to: b}}"""


def test_ipv4_has_the_plan_that_it_always_had() -> None:
    """No conditions on versions where there is one: classifiers have no more to compare."""
    text = LINE.format(ip=4, link=", egress: {r: p}", traffic=POLICY, duration="1 s")
    text = text.replace("{ip: 4}", "{source: [a, 192.0.2.0/24], protocol: tcp}")
    classes = plan(parse(text, "x"), 1)["network"]["links"][1]["ends"][0]["discipline"]
    written: Any = json.loads(json.dumps(classes))
    rule = written["classes"]["classes"][0]["match"]
    assert [each["conditions"]["ipv6"] for each in rule] == [False]
    assert rule[0]["conditions"]["source"] == ["a"]
    assert written["classes"]["classes"][1]["match"][0]["conditions"]["ipv6"] is None


def live_scenario(traffic: str, a: str, b: str) -> Scenario:
    """A scenario over IPv6 between agents at two addresses."""
    key = f"perhop-ed25519 {base64.b64encode(bytes(32)).decode()}"
    agents = f"agents: {{a: {{{a}, key: {key}}}, b: {{{b}, key: {key}}}}}\n"
    return parse(LINE.format(ip=6, link="", traffic=traffic, duration="1 s") + agents, "x")


def test_hosts_of_live_networks_have_ipv6_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = "flows: {f: {from: a, to: b}}"
    near, far = "address: '2001:db8::1'", "address: 192.0.2.2, data: '2001:db8::2'"
    scenario = live_scenario(flow, near, far)
    assert live.gaps(scenario) == []
    assert live.addresses(scenario) == {"a": "2001:db8::1", "b": "2001:db8::2"}
    with pytest.raises(UnsupportedError, match=r"agents\.b\.address: 192\.0\.2\.2 has no IPv6 add"):
        live.addresses(live_scenario(flow, near, "address: 192.0.2.2"))
    # Hosts behind NAT have the version of the other end.
    behind = live_scenario(flow, near, "address: 192.0.2.2, nat: true")
    assert live.addresses(behind)["b"] == "::"
    # Names resolve to addresses of the version, and those that no traffic needs to any.
    asked = []

    def resolve(host: str, port: None, family: int, kind: int) -> list[Any]:
        del port, kind
        asked.append((host, family))
        return [(family, None, None, "", ("2001:db8::5", 0, 0, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    named = live_scenario(flow, "address: a.example.net", "address: 192.0.2.2, data: b.example.net")
    live.addresses(named)
    assert asked == [("a.example.net", socket.AF_INET6), ("b.example.net", socket.AF_INET6)]


def test_a_live_run_has_one_version() -> None:
    traffic = "flows: {f: {from: a, to: b}}\npings: {p: {from: a, to: b, ip: 4}}"
    scenario = live_scenario(traffic, "address: '2001:db8::1'", "address: '2001:db8::2'")
    reason = "pings.p: IPv4 beside traffic of IPv6; in a live run all have one version"
    assert reason in map(str, live.gaps(scenario))


def test_the_version_is_written_and_read_back() -> None:
    scenario = parse(BOTH.replace("CLASSES", "      c: {match: {ip: 6}}"), "x")
    assert parse(dump(scenario), "again") == scenario
    assert str(scenario.addresses_v6["a"]) == "2001:db8::1"
    assert str(scenario.addresses_v6["b"]) == "fd70:6572:686f:7000::a00:2"
    with pytest.raises(ScenarioError, match="2001:db8::1 is already the address of `a`"):
        parse(
            BOTH.replace("b: host", "b: {kind: host, address_v6: '2001:db8::1'}").replace(
                "CLASSES", ""
            ),
            "x",
        )


def test_paths_of_equal_cost_share_flows_of_ipv6() -> None:
    """By addresses and flow label (RFC 6438), which here is a hash of addresses and ports."""
    text = """\
perhop: 1
name: fork
ip: 6
nodes: {a: host, r: router, x: router, y: router, s: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps}
  - {ends: [r, x], rate: 1 Gbps}
  - {ends: [r, y], rate: 1 Gbps}
  - {ends: [x, s], rate: 1 Gbps}
  - {ends: [y, s], rate: 1 Gbps}
  - {ends: [s, b], rate: 1 Gbps}
flows: {f: {from: a, to: b, streams: 400, udp: {rate: 80 kbps, size: 1000 B}}}
duration: 500 ms
"""
    links = perhop.run(parse(text, "x")).links
    shares = [links.filter(pl.col("link") == link)["sent_packets"].sum() for link in ("r>x", "r>y")]
    assert sum(shares) == 400 * 5
    # 400 fair coins: five standard deviations are 50 flows.
    assert abs(shares[0] - shares[1]) <= 2 * 50 * 5
    assert shares[0] % 5 == 0  # a flow stays on its path


def test_tunnels_carry_ipv6() -> None:
    """The outer packets are of IPv4, and every tunnel takes 1280 bytes (RFC 8200, section 5)."""
    traffic = """\
tunnels: {t: {ends: [r, s], type: gre}}
flows: {f: {from: a, to: b, udp: {rate: 1 Mbps, size: 1000 B}}}"""
    assert sizes(line(traffic)) == 1000 + 48 + 24
    with pytest.raises(ScenarioError, match="so that there is room for 1280 B"):
        line(traffic, link=", mtu: 1300 B")
    line(traffic, ip=4, link=", mtu: 1300 B")
    # Links that cannot be told apart have their finding, and no path that a tunnel could have.
    text = LINE.format(traffic=traffic, ip=6, link="", duration="1 s")
    again = text.replace("[s, b]", "[r, s], rate: 1 Mbps, name: x}\n  - {ends: [s, b]")
    again = again.replace("limit: 1000 packets}", "limit: 1000 packets}, name: x")
    with pytest.raises(ScenarioError, match="links"):
        parse(again, "x")


REAL = """\
perhop: 1
name: real
ip: 6
nodes: {a: host, r: router, s: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps}
  - {ends: [r, s], rate: 10 Mbps, delay: 5 ms, mtu: 1300 B, egress: {r: p}}
  - {ends: [s, b], rate: 100 Mbps}
policies:
  p:
    classes:
      six: {match: {ip: 6, protocol: udp}, bandwidth: 30%}
      four: {match: {ip: 4}, bandwidth: 20%}
      rest: {match: any}
flows:
  t: {from: a, to: b, tcp: {stack: linux-6}}
  old: {from: a, to: b, ip: 4, udp: {rate: 1 Mbps, size: 1000 B}}
  call: {from: a, to: b, dscp: ef, voice: g711}
  files: {from: b, to: a, rpc: {response: 2 kB, every: 50 ms}, tcp: {stack: linux-6}}
pings:
  echo: {from: a, to: s, dscp: af41, every: 100 ms}
  hops: {from: a, to: b, ttl: 1..3, protocol: udp}
  four: {from: a, to: b, ip: 4, every: 100 ms}
duration: 3 s
"""


@MEASURES
def test_linux_sends_what_the_model_says() -> None:
    """Real sockets over IPv6: Packet Too Big, hop limits, classes, calls and applications."""
    scenario = parse(REAL, "x")
    sim, emu = perhop.run(scenario), perhop.run(scenario, engine="emu")
    for flow in scenario.flows:
        rates = [analysis.throughput(run, flow, (1, 3)) for run in (sim, emu)]
        assert rates[1] == pytest.approx(rates[0], rel=0.1), flow
    for run in (sim, emu):
        too_long = run.losses.filter((pl.col("cause") == "too long") & (pl.col("flow") == "t"))
        assert 1 <= too_long["packets"].sum() <= 12
        hops = run.pings.filter((pl.col("ping") == "hops") & pl.col("rtt_s").is_not_null())
        answered = dict(hops.select("ttl", "node").unique().iter_rows())
        assert answered == {1: "r", 2: "s", 3: "b"}
        for ping in ("echo", "four"):
            rtts = run.pings.filter(pl.col("ping") == ping)["rtt_s"]
            assert rtts.null_count() <= 1
        sent = (
            run.queues.filter(pl.col("link") == "r>s")
            .group_by("class")
            .agg(pl.sum("sent_bytes"), pl.sum("sent_packets"))
        )
        counted = {row[0]: row[1:] for row in sent.iter_rows()}
        # Calls and probes to closed ports; a datagram of a call has 220 bytes over IPv6.
        assert 140 <= counted["six"][1] <= 165
        assert counted["four"][1] >= 375
