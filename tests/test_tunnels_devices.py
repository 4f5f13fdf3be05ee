"""Queues of the devices of tunnels, which hold inner packets before they enter."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

import polars as pl
import pytest

import perhop
from conftest import MEASURES
from conservation import broken, false_data
from perhop import analysis
from perhop.errors import ScenarioError, UsageError
from perhop.linux import mapping, probe, tunnels
from perhop.report import page
from perhop.routers.lint import scenarios
from perhop.routers.reading import Source
from perhop.scenario import Scenario, parse, to_mapping
from perhop.scenario.rules.warnings import warnings
from test_tunnels import outer_size
from tools import need, unable

if TYPE_CHECKING:
    from perhop.dataset import Dataset

TEXT = """\
perhop: 1
name: devices
nodes: {{a: host, edge: router, isp: router, hub: router, b: host}}
links:
  - {{ends: [a, edge], rate: 1 Gbps, delay: 1 ms}}
  - {{ends: [edge, isp], rate: 100 Mbps, delay: {delay}, overhead: ethernet}}
  - {{ends: [isp, hub], rate: 100 Mbps, delay: {delay}, overhead: ethernet}}
  - {{ends: [hub, b], rate: 1 Gbps, delay: 1 ms}}
tunnels: {{vpn: {{ends: [edge, hub], {tunnel}}}}}
policies:
  fair: {{classes: {{all: {{match: any, queue: {{fq-codel: {{}}}}}}}}, unused: true}}
  voice:
    classes:
      calls: {{match: {{dscp: ef}}, priority: strict, unused: true}}
      rest: {{match: any, queue: {{limit: 50 packets}}}}
    unused: true
flows:
{flows}
duration: 3 s
report: {{interval: 500 ms}}
{more}
"""
DEVICE = "edge>hub#vpn"
FAST = "  fast: {from: a, to: b, udp: {rate: 10 Mbps, size: 1000 B}}\n"
SLOW = "  slow: {from: a, to: b, udp: {rate: 2 Mbps, size: 1000 B}}\n"
CALL = "  call: {from: a, to: b, dscp: ef, udp: {rate: 100 kbps, size: 160 B}}\n"
SHAPE = "shape: {edge: {rate: 8 Mbps}}"


def text(tunnel: str, flows: str = FAST, more: str = "", delay: str = "5 ms") -> str:
    """A path with a tunnel from edge to hub, over links that are faster than what is sent."""
    return TEXT.format(tunnel=tunnel, flows=flows, more=more, delay=delay)


def measured(*given: str) -> Dataset:
    return perhop.run(parse(text(*given), "x"))


def counted(dataset: Dataset, column: str, link: str = DEVICE) -> int:
    return int(dataset.queues.filter(pl.col("link") == link)[column].sum())


@pytest.mark.parametrize("kind", ["wireguard", "gre", "esp"])
def test_a_shaper_counts_inner_bytes(kind: str) -> None:
    """8 Mb/s of inner packets are 8 Mb/s · 1000 / 1028 of data, whatever the tunnel adds."""
    dataset = measured(f"type: {kind}, egress: {{edge: voice}}, {SHAPE}")
    assert analysis.throughput(dataset, "fast", (1, 3)) == pytest.approx(
        8e6 * 1000 / 1028, rel=0.002
    )
    sent, size = counted(dataset, "sent_packets"), counted(dataset, "sent_bytes")
    assert size == 1028 * sent
    assert sent == pytest.approx(8e6 * 3 / 8 / 1028, abs=2)
    [link] = analysis.link_loads(dataset).filter(link="edge>isp").to_dicts()
    assert link["sent_bytes"] == link["sent_packets"] * (outer_size(kind, 1028, 1440) + 38)
    assert set(analysis.bottlenecks(dataset)["link"]) == {DEVICE}
    assert set(analysis.bottlenecks(dataset)["rate_bps"]) == {8_000_000}
    # All drops are those of the device's queue; links queue nothing.
    drops = counted(dataset, "dropped_packets")
    assert drops == dataset.queues["dropped_packets"].sum() > 500
    assert set(dataset.losses["link"]) == {DEVICE}
    assert dataset.losses["packets"].sum() == drops
    assert DEVICE not in set(dataset.links["link"])
    assert "hub>edge#vpn" not in set(dataset.queues["link"])


def test_a_burst_passes_at_once() -> None:
    """Of ten packets at once, those of a bucket of 5140 B leave first, and others at its rate."""
    burst = "  f: {from: a, to: b, udp: {rate: 1 Gbps, size: 1000 B}, volume: 10 kB}\n"
    shape = "shape: {edge: {rate: 1 Mbps, burst: 5140 B}}"
    delays = [
        analysis.measure(measured(f"type: gre, {given}", burst), "owd_max", "f")
        for given in ("mtu: 1400 B", shape)
    ]
    assert delays[0] is not None and delays[1] is not None
    # Without a shaper, the last waits for the nine before it, which share a link of 100 Mb/s.
    queued = 9 * (outer_size("gre", 1028, 1440) + 38) * 8 / 100e6
    assert delays[1] - delays[0] == pytest.approx(5 * 1028 * 8 / 1e6 - queued, rel=1e-6)


def test_a_tunnels_device_is_fair_to_flows_that_the_tunnel_hides() -> None:
    """ESP hides flows from the queue of the link behind it, but not from its device."""
    flows = FAST + SLOW
    device = measured(f"type: esp, egress: {{edge: fair}}, {SHAPE}", flows)
    given = text("type: esp", flows).replace(
        "overhead: ethernet}", f"egress: {{edge: fair}}, {SHAPE}}}", 1
    )
    link = perhop.run(parse(given, "x"))
    at_device, at_link = (analysis.throughput(each, "slow", (1, 3)) for each in (device, link))
    assert at_device == pytest.approx(2e6, rel=0.01)
    assert at_link < 1.6e6  # type: ignore[operator]
    assert analysis.throughput(device, "fast", (1, 3)) == pytest.approx(
        8e6 * 1000 / 1028 - 2e6, rel=0.01
    )


def test_classes_of_a_device_see_the_dscp_that_the_tunnel_hides() -> None:
    expect = f"""\
expect:
  - {{drops: {DEVICE}, class: calls, at_most: 0}}
  - {{sent_rate: {DEVICE}, class: rest, at_least: 7 Mbps}}
  - {{owd_p99: call, at_most: 15 ms}}"""
    dataset = measured(f"type: wireguard, egress: {{edge: voice}}, {SHAPE}", FAST + CALL, expect)
    assert [verdict.ok for verdict in analysis.verdicts(dataset)] == [True] * 3
    assert set(dataset.queues.filter(link=DEVICE)["class"]) == {"calls", "rest"}
    sent = analysis.class_counts(dataset, DEVICE, "calls")["sent_packets"]
    assert sent == pytest.approx(100e3 / 8 / 160 * 3, abs=2)


def test_either_direction_has_its_own_device() -> None:
    back = "  back: {from: b, to: a, udp: {rate: 10 Mbps, size: 1000 B}}\n"
    shape = "shape: {edge: {rate: 8 Mbps}, hub: {rate: 4 Mbps}}, egress: {hub: fair}"
    dataset = measured(f"type: wireguard, {shape}", FAST + back)
    for flow, rate in (("fast", 8e6), ("back", 4e6)):
        assert analysis.throughput(dataset, flow, (1, 3)) == pytest.approx(
            rate * 1000 / 1028, rel=0.002
        )
    assert counted(dataset, "dropped_packets", "hub>edge#vpn") > 100


def test_cake_shapes_by_itself() -> None:
    given = text("type: wireguard, egress: {edge: fair}", FAST + SLOW)
    given = given.replace("fq-codel: {}", "cake: {bandwidth: 8 Mbps}")
    dataset = perhop.run(parse(given, "x"))
    assert analysis.throughput(dataset, "fast", (1, 3)) == pytest.approx(
        8e6 * 1000 / 1028 - 2e6, rel=0.01
    )
    assert analysis.throughput(dataset, "slow", (1, 3)) == pytest.approx(2e6, rel=0.01)


def test_tcp_marked_at_a_device_keeps_its_queue_short() -> None:
    """The device marks the inner packet; the tunnel carries the mark (RFC 6040)."""
    flow = "  t: {from: a, to: b, tcp: {ecn: classic}}\n"
    dataset = measured(f"type: gre, egress: {{edge: fair}}, {SHAPE}", flow)
    assert counted(dataset, "marked_packets") > 3
    rate = analysis.throughput(dataset, "t", (1, 3))
    assert rate is not None
    assert 0.8 < rate / (8e6 * 1424 / 1476) < 1.001


def test_what_waits_when_the_way_goes_is_dropped_at_the_entry() -> None:
    change = "changes: [{at: 1 s, on: isp>hub, state: down}]"
    dataset = measured(f"type: gre, {SHAPE}", FAST, change)
    waits = dataset.queues.filter(link=DEVICE, end_s=1.0)["backlog_packets"].item()
    dropped = dataset.tunnels.filter(entry="edge")["dropped_no_route"].sum()
    assert waits > 50
    assert dropped == waits
    late = dataset.queues.filter((pl.col("link") == DEVICE) & (pl.col("start_s") >= 1))
    # What came before the change leaves the device; nothing else enters it.
    assert late["sent_packets"].sum() == waits


def test_a_tunnel_of_a_host_and_one_in_another_have_devices() -> None:
    shape = "shape: {a: {rate: 4 Mbps}}"
    vpn = f"vpn: {{ends: [edge, hub], type: gre, {SHAPE}}}"
    inner = f"own: {{ends: [a, b], type: wireguard, {shape}}}, {vpn}"
    given = text("type: gre").replace("vpn: {ends: [edge, hub], type: gre}", inner)
    dataset = perhop.run(parse(given, "x"))
    assert analysis.throughput(dataset, "fast", (1, 3)) == pytest.approx(
        4e6 * 1000 / 1028, rel=0.002
    )
    sizes = [counted(dataset, "sent_bytes", name) for name in ("a>b#own", DEVICE)]
    packets = [counted(dataset, "sent_packets", name) for name in ("a>b#own", DEVICE)]
    assert [size / count for size, count in zip(sizes, packets, strict=True)] == [
        1028,
        outer_size("wireguard", 1028, 1400),
    ]


def test_what_does_not_conserve_is_found() -> None:
    dataset = measured(f"type: gre, {SHAPE}", "  t: {from: a, to: b}\n")
    assert broken(dataset) == []
    more = pl.when(entry="edge").then(1000).otherwise(0)
    with false_data():
        entered = dataset.tunnels.with_columns(pl.col("encapsulated_packets") + more)
        false = replace(dataset, tunnels=entered)
    assert any("entered" in said for said in broken(false))


@pytest.mark.parametrize(
    ("tunnel", "said"),
    [
        (
            "egress: {edge: fair}",
            r"tunnels\.vpn\.egress\.edge: has no shaper, .* nothing ever waits .* "
            r"expected `shape: \{edge: \{rate: 20 Mbps\}\}` beside it",
        ),
        ("egress: {isp: fair}, shape: {isp: {rate: 1 Mbps}}", "`isp` is not an end of this tunnel"),
        ("shape: {edge: {rate: 10%}}", "is a share, but a tunnel's device has no rate"),
        ("shape: {rate: 1 Mbps}", "expected the shapers of ends by node, edge or hub"),
        (f"egress: {{edge: fare}}, {SHAPE}", "`fare` is not a policy; did you mean `fair`"),
    ],
)
def test_devices_that_hold_nothing_are_refused(tunnel: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        parse(text(f"type: gre, {tunnel}"), "x")


def test_a_device_with_the_name_of_a_link_is_refused() -> None:
    given = text(f"type: gre, {SHAPE}").replace(
        "tunnels:", "  - {ends: [edge, hub], name: vpn, rate: 1 Mbps}\ntunnels:"
    )
    with pytest.raises(ScenarioError, match="would call `edge>hub#vpn`, as they call a link"):
        parse(given, "x")


def test_metrics_and_changes_of_links_do_not_take_devices() -> None:
    for more, said in (
        (f"expect: [{{utilisation: {DEVICE}, at_most: 1%}}]", "expected|not a directed link"),
        (f"changes: [{{at: 1 s, on: {DEVICE}, rate: 1 Mbps}}]", "is not a directed link"),
    ):
        with pytest.raises(ScenarioError, match=said):
            parse(text(f"type: gre, {SHAPE}", FAST, more), "x")
    dataset = measured(f"type: gre, {SHAPE}")
    with pytest.raises(UsageError, match="not a directed link"):
        analysis.class_counts(dataset, "hub>edge#vpn")


def test_what_is_written_reads_back_and_reports_have_it() -> None:
    scenario = parse(text(f"type: gre, egress: {{edge: voice}}, {SHAPE}"), "x")
    assert Scenario.model_validate(to_mapping(scenario)) == scenario
    assert not list(warnings(scenario))
    dataset = perhop.run(scenario)
    assert f"Classes of {escape(DEVICE)}" in page(dataset)
    assert set(analysis.summary(dataset)["links"][DEVICE]["classes"]) == {"calls", "rest"}


def test_lint_reads_the_policy_at_a_device() -> None:
    given = text(f"type: gre, egress: {{edge: voice}}, {SHAPE}")
    _, found = scenarios.read_scenario(Source("x", given))
    [at] = [each for each in found.attachments if each.interface == DEVICE]
    assert (at.name, at.rate, at.shape) == ("voice", None, {"rate": "8 Mbps"})


def test_cake_at_a_device_sees_the_hosts_behind_it() -> None:
    given = text(f"type: gre, egress: {{edge: fair}}, {SHAPE}", FAST + "  g: {from: b, to: a}\n")
    given = given.replace("fq-codel: {}", "cake: {isolation: dual-srchost}")
    assert not [each for each in warnings(parse(given, "x")) if "takes the ends" in each.message]


KERNEL = text(
    f"type: vxlan, mtu: 1400 B, egress: {{edge: voice}}, {SHAPE}",
    FAST + CALL,
    delay="0 s",
)


@MEASURES
def test_a_device_of_linux_has_the_queues_of_the_model(attempt: int) -> None:
    del attempt
    need("ip", "tc", "nft")
    if not probe.this_kernel().has_tunnel("vxlan"):
        unable("no tunnels of type vxlan")
    scenario = parse(KERNEL, "x")
    real, model = (perhop.run(scenario, engine=engine) for engine in ("kernel", "sim"))
    for flow in ("fast", "call"):
        rates = [analysis.throughput(each, flow, (1, 3)) for each in (real, model)]
        assert rates[0] == pytest.approx(rates[1], rel=0.02), flow
    for name in ("calls", "rest"):
        counts = [analysis.class_counts(each, DEVICE, name, (1, 3)) for each in (real, model)]
        for counter in ("sent_packets", "sent_bytes", "dropped_packets", "backlog_packets_max"):
            one, other = (each[counter] for each in counts)
            assert one == pytest.approx(other, rel=0.05, abs=3), (name, counter)
    for dataset in (real, model):
        assert DEVICE not in set(dataset.links["link"])
        assert counted(dataset, "dropped_packets", "edge>isp") == 0


def test_shapers_in_classes_alone_are_a_gap_of_linux() -> None:
    given = KERNEL.replace(f", {SHAPE}", "").replace("priority: strict", "shape: {rate: 1 Mbps}")
    scenario = parse(given, "x")
    [gap] = tunnels.gaps(scenario)
    assert gap.path == "tunnels.vpn.egress.edge"
    assert "a `shape` of edge" in gap.reason
    assert not list(tunnels.gaps(parse(KERNEL, "x")))


def test_linux_has_a_device_without_a_rate_behind_its_shaper() -> None:
    found = mapping(parse(KERNEL, "x")).interfaces[DEVICE]
    assert (found.device, found.node, found.policy) == ("tunnel1", "edge", "voice")
    [root] = [line for line in found.tc if "classid 1:1 " in line]
    assert "rate 8000000bit" in root
    assert "ceil 8000000bit" in root
