"""Tunnels: bytes on the wire, DSCPs, ECN, and path MTU discovery (RFC 2983, 6040, 2003, 4459)."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import TYPE_CHECKING

import polars as pl
import pytest

import perhop
from perhop import analysis
from perhop.errors import ScenarioError, UnsupportedError
from perhop.routers.writing import write
from perhop.scenario import parse, to_mapping
from perhop.scenario.model.tunnels import TUNNEL_TYPES
from perhop.scenario.rules.warnings import warnings
from tools import need

if TYPE_CHECKING:
    from pathlib import Path

    from perhop.dataset import Dataset

TEXT = """\
perhop: 1
name: branch
nodes: {{a: host, b: host, edge: {router}, isp: router, hub: router}}
links:
  - {{ends: [a, edge], rate: 1 Gbps, delay: 1 ms{link}}}
  - {{ends: [edge, isp], rate: {rate}, delay: 5 ms, overhead: ethernet{near}}}
  - {{ends: [isp, hub], rate: 10 Mbps, delay: 5 ms, overhead: ethernet, egress: {egress}{far}}}
  - {{ends: [hub, b], rate: 1 Gbps, delay: 1 ms}}
{more}
flows:
{flows}
duration: {duration}
report: {{interval: 500 ms}}
"""
POLICY = """\
policies:
  provider:
    classes:
      gold: {match: {dscp: ef}, bandwidth: 75%, queue: {limit: 50 ms}}
      rest: {match: any, queue: {limit: 50 ms}}
"""
TCP = "  f: {from: a, to: b}"
UDP = "  f: {{from: a, to: b, udp: {{rate: 20 Mbps, size: {} B}}}}"


def text(
    tunnel: str | None,
    flows: str = TCP,
    *,
    more: str = "",
    egress: str = "{}",
    router: str = "router",
    rate: str = "10 Mbps",
    near: str = "",
    far: str = "",
    link: str = "",
    duration: str = "4 s",
) -> str:
    """A path with a tunnel from edge to hub, over a provider that sends 10 Mb/s."""
    if tunnel is not None:
        more += f"tunnels: {{vpn: {{ends: [edge, hub], {tunnel}}}}}"
    given = {"flows": flows, "more": more, "egress": egress, "router": router, "near": near}
    return TEXT.format(**given, rate=rate, far=far, link=link, duration=duration)


def measured(*given: str | None, **more: str) -> Dataset:
    return perhop.run(parse(text(*given, **more), "x"))  # type: ignore[arg-type]


def outer_size(kind: str, inner: int, mtu: int) -> int:
    """The length of an outer packet, by the fields that the specifications list."""
    match kind:
        case "ipip":
            return 20 + inner
        case "gre":
            return 20 + 4 + inner
        case "gre-key":
            return 20 + 4 + 4 + inner
        case "vxlan":
            return 20 + 8 + 8 + 14 + inner
        case "wireguard":
            return 20 + 8 + 16 + min(-(-inner // 16) * 16, mtu) + 16
        case _:
            padding = -(inner + 2) % 4
            udp = 8 * (kind == "esp-udp")
            return 20 + udp + 8 + 8 + inner + padding + 2 + 16


@pytest.mark.parametrize("kind", TUNNEL_TYPES)
@pytest.mark.parametrize("payload", [200, 1000])
def test_datagrams_get_the_rate_that_headers_leave(kind: str, payload: int) -> None:
    dataset = measured(f"type: {kind}", UDP.format(payload), duration="2 s")
    on_wire = outer_size(kind, payload + 28, 1500) + 38
    rate = analysis.throughput(dataset, "f", (1, 2))
    assert rate == pytest.approx(10e6 * payload / on_wire, rel=0.003)


@pytest.mark.parametrize("kind", TUNNEL_TYPES)
def test_tcp_learns_the_mtu_from_the_entry_and_fills_the_rest(kind: str) -> None:
    dataset = measured(f"type: {kind}")
    room = max(size for size in range(1300, 1500) if outer_size(kind, size, size) <= 1500)
    lost = dataset.losses.filter(pl.col("cause") == "too long")
    # The first flight is answered at once: RFC 2003, section 5; RFC 4459, section 3.2.
    assert lost["start_s"].to_list() == [0.0]
    assert 1 <= lost["packets"].sum() <= 10
    segment = room - 40
    on_wire = outer_size(kind, room, room) + 38
    rate = analysis.throughput(dataset, "f", (1, 4))
    assert rate == pytest.approx(10e6 * segment / on_wire, rel=0.01)


def test_an_overhead_of_ones_own_and_a_stated_mtu() -> None:
    dataset = measured("overhead: 73 B, mtu: 1200 B")
    rate = analysis.throughput(dataset, "f", (1, 4))
    assert rate == pytest.approx(10e6 * 1160 / (1200 + 73 + 38), rel=0.01)


def test_an_mtu_in_the_middle_of_the_tunnel_is_learned_and_passed_on() -> None:
    """The entry keeps it as soft state, and answers later packets (RFC 2003, section 5.1)."""
    dataset = measured("type: ipip", far=", mtu: 1300 B")
    lost = dataset.losses.filter(pl.col("cause") == "too long")
    assert set(lost["start_s"]) == {0.0}
    rate = analysis.throughput(dataset, "f", (1, 4))
    assert rate == pytest.approx(10e6 * (1300 - 20 - 40) / (1300 + 38), rel=0.01)


def test_clamping_at_the_entry_needs_no_errors() -> None:
    dataset = measured("type: gre", router="{kind: router, mss_clamp: true}")
    assert dataset.losses.filter(pl.col("cause") == "too long").is_empty()
    rate = analysis.throughput(dataset, "f", (1, 4))
    assert rate == pytest.approx(10e6 * (1476 - 40) / (1500 + 38), rel=0.01)


def test_an_entry_without_errors_is_a_black_hole_and_a_warning_says_so() -> None:
    dataset = measured("type: gre", router="{kind: router, icmp_errors: false}")
    assert dataset.intervals["bytes"].sum() == 0
    [warning] = dataset.warnings
    assert "`edge` drops them and sends no ICMP errors" in warning.message


def test_datagrams_that_are_too_long_are_fragmented_before_they_enter() -> None:
    flow = "  f: {from: a, to: b, udp: {rate: 1 Mbps, size: 1472 B}, stop: 2 s}"
    dataset = measured("type: gre", flow, link=", mtu: 1500 B", duration="3 s")
    lost = dataset.losses["packets"].sum()
    received = dataset.intervals["packets"].sum()
    assert 1 <= lost <= 5
    assert received + lost == pytest.approx(2e6 / 8 / 1472, abs=1)


FLOWS = """\
  gold: {from: a, to: b, dscp: ef, udp: {rate: 20 Mbps, size: 1000 B}}
  plain: {from: a, to: b, udp: {rate: 20 Mbps, size: 1000 B}}"""


@pytest.mark.parametrize(
    ("tunnel", "shares"),
    [
        ("type: esp", (0.75, 0.25)),
        ("type: esp, dscp: be", (0.0, 1.0)),
        ("type: esp, dscp: ef", (1.0, 0.0)),
        ("type: wireguard", (0.0, 1.0)),
        ("type: wireguard, dscp: copy", (0.75, 0.25)),
    ],
)
def test_a_provider_sees_the_outer_dscp_alone(tunnel: str, shares: tuple[float, float]) -> None:
    dataset = measured(
        tunnel, FLOWS, more=POLICY, egress="{isp: provider}", rate="100 Mbps", duration="3 s"
    )
    sent = dataset.queues.filter((pl.col("link") == "isp>hub") & (pl.col("start_s") >= 1))
    for name, share in zip(("gold", "rest"), shares, strict=True):
        found = sent.filter(pl.col("class") == name)["sent_bytes"].sum()
        on_wire = outer_size("esp" if "esp" in tunnel else "wireguard", 1028, 1440)
        assert found == pytest.approx(share * 2 * 10e6 / 8 * on_wire / (on_wire + 38), abs=2e4)


@pytest.mark.parametrize(
    ("tunnel", "remark", "arrives"),
    [
        ("type: gre", "", 46),  # pipe: the inner one is kept
        ("type: gre", ", remark: {isp: clear}", 46),
        ("type: gre, model: uniform", ", remark: {isp: clear}", 0),
        ("type: gre, model: uniform", "", 46),
        ("type: wireguard", "", 46),
    ],
)
def test_the_dscp_behind_the_tunnel_follows_the_model(
    tunnel: str, remark: str, arrives: int
) -> None:
    flow = "  f: {from: a, to: b, dscp: ef, udp: {rate: 1 Mbps, size: 200 B}}"
    dataset = measured(tunnel, flow, near=remark, duration="1 s")
    assert set(dataset.codepoints.filter(pl.col("flow") == "f")["dscp_arrived"]) == {arrives}


def test_marks_in_the_tunnel_reach_the_receiver() -> None:
    queue = ", queue: {codel: {}}"
    flow = "  f: {from: a, to: b, tcp: {ecn: classic}}"
    dataset = measured("type: wireguard", flow, near=queue)
    marked = dataset.queues.filter(pl.col("link") == "edge>isp")["marked_packets"].sum()
    arrived = dataset.codepoints.filter(pl.col("ecn_arrived") == 3)["packets"].sum()
    assert marked > 5
    assert arrived == pytest.approx(marked, abs=5)
    assert dataset.losses.filter(pl.col("cause") == "early drop").is_empty()


def test_pings_and_errors_pass_in_both_directions() -> None:
    pings = """\
  f: {from: b, to: a, volume: 10 kB}
pings:
  there: {from: a, to: b, every: 100 ms}
  back: {from: b, to: a, every: 100 ms}
  hops: {from: a, to: b, every: 100 ms, ttl: 1..4}
  end: {from: a, to: hub, every: 100 ms}"""
    dataset = measured("type: vxlan", pings, duration="1 s")
    assert dataset.pings.filter(pl.col("rtt_s").is_null() & (pl.col("sent_s") < 0.9)).is_empty()
    # The tunnel is one hop: RFC 2003, section 3.1.
    trace = dataset.pings.filter(pl.col("ping") == "hops").sort("sequence")
    assert trace["node"].head(3).to_list() == ["edge", "hub", "b"]
    # What is for the exit itself does not enter, and is shorter on the wire.
    rtts = {
        name: dataset.pings.filter(pl.col("ping") == name)["rtt_s"].median()
        for name in ("there", "end")
    }
    assert rtts["end"] < rtts["there"]


def test_losses_copies_and_late_packets_in_a_tunnel_are_counted_once() -> None:
    near = ", loss: 5%, duplicate: 20%, reorder: {share: 10%, by: 2 ms}"
    flow = "  f: {from: a, to: b, udp: {rate: 4 Mbps, size: 500 B}, stop: 1.9 s}"
    dataset = measured("type: gre", flow, near=near, far=near, duration="3 s")
    found = dataset.intervals.select(pl.col("packets", "lost", "duplicates").sum()).row(0)
    received, lost, copies = found
    assert received + lost == pytest.approx(1900, abs=1)
    assert 100 < lost < 250
    assert 300 < copies < 1100
    assert dataset.losses["packets"].sum() == lost
    assert set(dataset.losses["cause"]) == {"wire"}


def test_a_capture_shows_the_outer_headers_between_the_ends(tmp_path: Path) -> None:
    scenario = parse(text("type: vxlan, dscp: af31", UDP.format(500), duration="20 ms"), "x")
    files = {link: tmp_path / f"{link}.pcapng" for link in ("a>edge", "edge>isp")}
    perhop.run(scenario, captures=files)
    inner, outer = (file.read_bytes() for file in files.values())
    own = IPv4Address("10.0.0.3").packed + IPv4Address("10.0.0.5").packed
    at = outer.index(own) - 12
    assert own not in inner
    assert outer[at + 1] >> 2 == 26
    assert outer[at + 9] == 17
    assert int.from_bytes(outer[at + 2 : at + 4], "big") == 528 + 50
    assert int.from_bytes(outer[at + 22 : at + 24], "big") == 4789
    words = [int.from_bytes(outer[at + n : at + n + 2], "big") for n in range(0, 20, 2)]
    assert sum(words) % 0xFFFF == 0  # its checksum (RFC 791)


def test_a_tunnel_in_a_tunnel_adds_both_overheads() -> None:
    more = "tunnels: {lan: {ends: [edge, hub], type: vxlan}, vpn: {ends: [isp, hub], type: esp}}"
    given = text(None, UDP.format(1000), more=more.replace("[isp, hub]", "[edge, isp]"))
    dataset = perhop.run(parse(given, "x"))
    first, second = (1028 + 50, outer_size("esp", 1028 + 50, 1500))
    rate = analysis.throughput(dataset, "f", (1, 4))
    assert rate == pytest.approx(10e6 * 1000 / (second + 38), rel=0.003)
    bytes_of = {
        name: dataset.links.filter(pl.col("link") == name)
        .select((pl.col("sent_bytes") / pl.col("sent_packets")).last())
        .item()
        for name in ("edge>isp", "isp>hub")
    }
    assert bytes_of == {"edge>isp": second + 38, "isp>hub": first + 38}


def test_without_a_path_through_both_ends_nothing_enters() -> None:
    given = text("type: gre", "  f: {from: a, to: c}").replace("b: host", "b: host, c: host")
    given = given.replace("flows:", "flows:", 1).replace(
        "  - {ends: [hub, b]", "  - {ends: [isp, c], rate: 1 Gbps}\n  - {ends: [hub, b]"
    )
    scenario = parse(given, "x")
    [warning] = warnings(scenario)
    assert warning.loc == ("tunnels", "vpn")
    assert "carries nothing" in warning.message
    rate = analysis.throughput(perhop.run(scenario), "f", (1, 4))
    assert rate == pytest.approx(10e6 * 1460 / 1538, rel=0.01)


def test_a_policy_that_the_tunnel_hides_classes_from_is_warned_of() -> None:
    given = text("type: wireguard", FLOWS, more=POLICY, egress="{isp: provider}")
    found = [finding for finding in warnings(parse(given, "x")) if "outer" in finding.message]
    assert [finding.loc for finding in found] == [("policies", "provider")]
    assert "`dscp: copy` copies" in found[0].message


@pytest.mark.parametrize(
    ("tunnel", "said"),
    [
        ("ends: [edge, edge], type: gre", r"tunnels\.t\.ends: joins `edge` to itself"),
        ("ends: [edge, hb], type: gre", r"tunnels\.t\.ends\.1: `hb` is not a node; did you mean"),
        ("ends: [edge, hub]", r"tunnels\.t: lacks `type`; expected one of `ipip`"),
        ("ends: [edge, hub], type: gre, overhead: 30 B", r"tunnels\.t: has both"),
        ("ends: [edge, hub], type: wireguard, model: uniform", r"`wireguard` copies none at the"),
        ("ends: [edge, hub], type: gre, dscp: ef, model: uniform", r"but `dscp` is fixed"),
        ("ends: [edge, hub], overhead: 400 B", r"leaves 200 B for a packet; expected links"),
        ("ends: [edge, hub], type: gre, dscp: coppy", r"tunnels\.t\.dscp: `coppy` is not a DSCP"),
    ],
)
def test_what_no_tunnel_can_be_is_refused_at_its_place(tunnel: str, said: str) -> None:
    narrow = ", mtu: 600 B" if "400" in tunnel else ""
    with pytest.raises(ScenarioError, match=said):
        parse(text(None, more=f"tunnels: {{t: {{{tunnel}}}}}", near=narrow), "x")


def test_two_tunnels_with_the_same_ends_are_refused() -> None:
    more = "tunnels: {one: {ends: [edge, hub], type: gre}, two: {ends: [hub, edge], type: esp}}"
    with pytest.raises(ScenarioError, match=r"tunnels\.two\.ends: are those of `one`"):
        parse(text(None, more=more), "x")


def test_what_is_written_reads_back() -> None:
    scenario = parse(text("type: esp-udp, dscp: af31, mtu: 1400 B"), "x")
    assert to_mapping(scenario)["tunnels"] == {
        "vpn": {"ends": ["edge", "hub"], "type": "esp-udp", "dscp": "af31", "mtu": "1400 B"}
    }


def test_engines_and_targets_without_tunnels_refuse_them() -> None:
    need("ip", "tc", "nft")
    scenario = parse(text("type: gre"), "x")
    reason = (
        r"tunnels\.vpn: of tunnels, perhop sets up only `vxlan` in Linux; the engines `sim` and"
    )
    with pytest.raises(UnsupportedError, match=reason):
        perhop.run(scenario, engine="kernel")
    for family in ("junos", "tc"):
        _, gaps = write(scenario, family)
        assert [gap.path for gap in gaps] == ["tunnels.vpn"]


SHARED = """\
perhop: 1
name: shared
nodes: {{office: host, edge: router, isp: router, hub: router, site: host}}
links:
  - {{ends: [office, edge], rate: 1 Gbps}}
  - {{ends: [edge, isp], rate: {near} Mbps, delay: 5 ms, queue: {queue}}}
  - {{ends: [isp, hub], rate: {far} Mbps, delay: 5 ms, queue: {queue}}}
  - {{ends: [hub, site], rate: 1 Gbps}}
tunnels:
  vpn: {{ends: [edge, hub], type: {kind}}}
flows:
  call: {{from: office, to: site, voice: g711}}
  copy: {{from: office, to: site, streams: 4, start: 1 s}}
duration: 5 s
"""


@pytest.mark.parametrize(
    ("kind", "queue", "near", "far"),
    [
        # Linux reads the inner headers of GRE and IPIP (`make validate-queues`: FQ-CoDel behind
        # the entry), and ports that are a hash of the inner flow.
        ("ipip", "fq-codel", True, True),
        ("gre-key", "fq-codel", True, True),
        ("gre", "cake", True, True),
        ("ipip", "sfq", True, True),
        ("vxlan", "fq-codel", True, True),
        # WireGuard keeps the hash of the inner flow until the packet leaves the host
        # (`wg_reset_packet`). SFQ makes a hash of its own (`skb_get_hash_perturb`).
        ("wireguard", "fq-codel", True, False),
        ("wireguard", "fq-pie", True, False),
        ("wireguard", "cake", True, False),
        ("wireguard", "sfq", False, False),
        ("esp", "fq-codel", False, False),
        ("esp-udp", "cake", False, False),
    ],
)
@pytest.mark.parametrize("at", ["near", "far"])
def test_flow_queues_see_the_flows_of_a_tunnel_where_linux_does(
    kind: str, queue: str, near: bool, far: bool, at: str
) -> None:
    """A call whose flow has a queue of its own waits for a packet of each of four others."""
    rates = {"near": 10, "far": 1000} if at == "near" else {"near": 1000, "far": 10}
    dataset = perhop.run(parse(SHARED.format(kind=kind, queue=f"{{{queue}: {{}}}}", **rates), "x"))
    apart = near if at == "near" else far
    opinion = perhop.metrics.mos(dataset, "call")
    assert opinion > 4.2 if apart else opinion < 3.5


def test_cake_is_fair_to_other_hosts_in_a_tunnel_than_linux_and_a_warning_says_so() -> None:
    shared = SHARED.replace("site: host", "site: host, home: host")
    shared = shared.replace("flows:", "flows:\n  web: {{from: home, to: site}}")
    shared = shared.replace("tunnels:", "  - {{ends: [home, edge], rate: 1 Gbps}}\ntunnels:")

    def warned(kind: str, cake: str) -> list[str]:
        queue = f"{{cake: {cake}}}"
        scenario = parse(shared.format(kind=kind, queue=queue, near=10, far=10), "x")
        return [
            ".".join(map(str, finding.loc))
            for finding in warnings(scenario)
            if "takes the ends of the tunnel `vpn` for the hosts" in finding.message
        ]

    assert warned("gre", "{}") == ["links.1.queue.cake", "links.2.queue.cake"]
    assert warned("gre", "{isolation: flows}") == []
    assert warned("wireguard", "{}") == []
