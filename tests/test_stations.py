"""Counters of stations on radio channels, and of tunnels: ledgers that must come out exactly."""

from math import sqrt
from typing import Any

import polars as pl
import pytest

import perhop
from perhop import ScenarioError, analysis, report
from perhop.dataset import Dataset
from perhop.scenario import parse

WIFI = """
perhop: 1
name: home
nodes: {server: host, ap: router, near: host, far: host}
channels: {home: {wifi: {standard: n, frames: FRAMES, retries: 1}}}
links:
  - {ends: [server, ap], rate: 1 Gbps, delay: 5 ms}
  - {ends: [ap, near], rate: 65 Mbps, channel: home, loss: 20%}
  - {ends: [ap, far], rate: 6.5 Mbps, channel: home}
flows: {FLOWS}
duration: 2 s
report: {interval: 100 ms}
"""

LTE = """
perhop: 1
name: cell
nodes: {server: host, enodeb: router, near: host, far: host}
channels: {cell: {lte: {base_station: enodeb, bandwidth: 5 MHz, bler: 30%, retries: 1}}}
links:
  - {ends: [server, enodeb], rate: 1 Gbps}
  - {ends: [enodeb, near], rate: 8 Mbps, delay: 2 ms, channel: cell}
  - {ends: [enodeb, far], rate: {enodeb: 2 Mbps, far: 1 Mbps}, delay: 2 ms, channel: cell}
flows: {FLOWS}
duration: 2 s
report: {interval: 100 ms}
"""

TUNNEL = """
perhop: 1
name: vpn
nodes: {a: host, edge: router, isp: router, hub: router, b: host}
links:
  - {ends: [a, edge], rate: 1 Gbps}
  - {ends: [edge, isp], rate: 20 Mbps, queue: {limit: 20 packets}}
  - {ends: [isp, hub], rate: 10 Mbps, queue: {limit: 20 packets}, loss: 1%}
  - {ends: [hub, b], rate: 1 Gbps}
tunnels: {vpn: {ends: [edge, hub], TUNNEL}}
flows:
  calls: {from: a, to: b, udp: {rate: 12 Mbps, size: 1001 B}, stop: 1 s}
  copy: {from: b, to: a, volume: 500 kB}
duration: 3 s
report: {interval: 100 ms}
"""

NEAR = "near: {from: server, to: near, udp: {rate: 90 Mbps, size: 1000 B}}"


def run(text: str, **given: str) -> Dataset:
    for name, value in given.items():
        text = text.replace(name, value)
    return perhop.run(parse(text))


def load(dataset: Dataset, link: str) -> dict[str, Any]:
    return analysis.station_loads(dataset).row(by_predicate=pl.col("link") == link, named=True)


@pytest.mark.parametrize("frames", ["1", "32"])
def test_every_frame_of_wifi_arrives_or_is_sent_again_or_given_up_or_waits(frames: str) -> None:
    dataset = run(WIFI, FRAMES=frames, FLOWS=NEAR)
    found = load(dataset, "ap>near")
    link = analysis.link_loads(dataset).row(by_predicate=pl.col("link") == "ap>near", named=True)
    assert found["frames"] - found["retransmissions"] == link["sent_packets"]
    assert found["abandoned_frames"] == link["lost_packets"] > 0
    waiting = found["failed_frames"] - found["retransmissions"] - found["abandoned_frames"]
    assert 0 <= waiting <= int(frames)
    # Without other senders, failures are independent: a binomial distribution.
    mean, deviation = 0.2 * found["frames"], sqrt(0.2 * 0.8 * found["frames"])
    assert abs(found["failed_frames"] - mean) < 5 * deviation
    assert found["collisions"] == 0
    assert analysis.retries(dataset, "ap>near") == found["retransmissions"] / found["frames"]


def test_airtime_of_single_frames_is_that_of_the_standard() -> None:
    dataset = run(WIFI, FRAMES="1", FLOWS=NEAR)
    found = load(dataset, "ap>near")
    # IEEE 802.11-2020, clause 19: symbols of 4 us with the service field and the tail, behind a
    # preamble of 36 us; SIFS 16 us, acknowledgement 28 us. A frame has 38 B of headers.
    symbols = -(-(8 * (1000 + 28 + 38) + 22) // 260)
    exchange = 36e-6 + 4e-6 * symbols + 16e-6 + 28e-6
    passed = found["transmissions"] * exchange
    assert passed - exchange < found["airtime_s"] <= passed + 1e-9  # the last one may not end
    assert found["sent_bytes"] == found["frames"] * (1000 + 28 + 38)
    assert found["utilisation"] == pytest.approx(found["airtime_s"] / 2, rel=1e-9)
    # Saturated, it waits for AIFS and 7.5 slots on average, and more after failures.
    assert 0.6 < found["utilisation"] < exchange / (exchange + 43e-6 + 7.5 * 9e-6)


def test_time_in_collisions_counts_once() -> None:
    flows = ", ".join(
        f"{name}: {{from: {one}, to: {other}, udp: {{rate: 90 Mbps}}}}"
        for name, one, other in (("x", "near", "server"), ("y", "far", "server"))
    )
    dataset = run(WIFI, FRAMES="1", FLOWS=flows)
    near, far = (load(dataset, f"{name}>ap") for name in ("near", "far"))
    assert near["collisions"] == far["collisions"] > 50
    assert near["airtime_s"] + far["airtime_s"] > 2 * analysis.channel_utilisation(dataset, "home")  # type: ignore[operator]
    each = dataset.stations.group_by("start_s").agg(pl.sum("utilisation"))["utilisation"]
    assert (each <= 1 + 1e-9).all()
    # Frames to the slow station take most of the time (Heusse et al., INFOCOM 2003).
    assert far["utilisation"] > 4 * near["utilisation"]
    assert far["resource_blocks"] is None


def test_a_saturated_user_of_a_cell_has_all_resource_blocks() -> None:
    dataset = run(LTE, FLOWS="near: {from: server, to: near, udp: {rate: 12 Mbps}}")
    rows = dataset.stations.filter(link="enodeb>near")
    # 5 MHz are 25 resource blocks in each TTI of 1 ms; the first packet arrives after the first.
    assert rows["resource_blocks"].to_list() == [25 * 99] + [25 * 100] * 19
    found = load(dataset, "enodeb>near")
    assert found["transmissions"] == found["frames"] == 1999
    assert found["sent_bytes"] == 1999 * 1000
    # HARQ gives up after one retransmission, which fails with 30% x 20%.
    waiting = found["failed_frames"] - found["retransmissions"]
    assert 0 <= waiting <= 512
    first = found["frames"] - found["retransmissions"]
    assert found["abandoned_frames"] == pytest.approx(first * 0.3 * 0.06, abs=5 * 5.1)
    assert found["airtime_s"] is None
    assert analysis.channel_directions(dataset, "cell") == {
        "downlink": pytest.approx(1999 / 2000),
        "uplink": 0,
    }


def test_expectations_of_channels() -> None:
    users = "a: {from: server, to: near, udp: {rate: 9 Mbps}}, b: {from: server, to: far, udp: {}}"
    flows = (
        users.replace("{}", "{rate: 3 Mbps}")
        + """}
expect:
  - {utilisation: cell, during: 500 ms..2 s, at_least: 100%, at_most: 100%}
  - {airtime: enodeb>near, during: 500 ms..2 s, about: 50%, within: 5%}
  - {retries: enodeb>far, about: 24%, within: 20%"""
    )
    dataset = run(LTE, FLOWS=flows)
    assert [(each.ok, each.unit) for each in analysis.verdicts(dataset)] == [(True, "share")] * 3
    told = analysis.summary(dataset)["channels"]["cell"]
    assert told["links"]["enodeb>near"]["resource_blocks"] > 20_000
    channel, *_ = report.sharing_tables(dataset)
    assert [row[1] for row in channel.rows][-2:] == ["downlink", "uplink"]
    text = LTE.replace("FLOWS", flows)
    with pytest.raises(ScenarioError, match="is on no radio channel; expected one that is"):
        parse(text.replace("airtime: enodeb>near", "airtime: server>enodeb"))
    with pytest.raises(ScenarioError, match="expected a directed link or a radio channel"):
        parse(text.replace("utilisation: cell", "utilisation: sell"))


@pytest.mark.parametrize(
    ("tunnel", "added"), [("type: gre", 24), ("type: vxlan", 50), ("overhead: 73 B", 73)]
)
def test_a_tunnel_adds_its_headers_and_loses_nothing_itself(tunnel: str, added: int) -> None:
    dataset = run(TUNNEL, TUNNEL=tunnel)
    there, back = analysis.tunnel_counters(dataset).to_dicts()
    assert (there["entry"], back["entry"]) == ("edge", "hub")
    links = {row["link"]: row for row in analysis.link_loads(dataset).iter_rows(named=True)}
    classes = dataset.queues.group_by("link").agg(pl.sum("dropped_packets"))
    drops = dict(classes.iter_rows())
    for row, path in ((there, ("edge>isp", "isp>hub")), (back, ("hub>isp", "isp>edge"))):
        packets = row["encapsulated_packets"]
        assert row["outer_bytes"] == row["encapsulated_bytes"] + added * packets
        # All have arrived before the end: those that did not come out were lost on the way.
        lost = sum(links[link]["lost_packets"] + drops[link] for link in path)
        assert packets == row["decapsulated_packets"] + row["dropped_ecn"] + lost
        assert packets == links[path[0]]["sent_packets"] + drops[path[0]]
    assert drops["isp>hub"] > 100
    # TCP's first segments do not fit and are answered; what left is what the host has got.
    too_long = dataset.losses.filter(cause="too long")["packets"].sum()
    assert back["dropped_too_long"] == too_long > 0
    assert there["dropped_too_long"] == there["dropped_no_route"] == 0
    assert back["decapsulated_packets"] == links["edge>a"]["sent_packets"]
    assert back["decapsulated_bytes"] == links["edge>a"]["sent_bytes"]
    told = analysis.summary(dataset)["tunnels"]["vpn"]
    assert told["hub"]["dropped_too_long"] == too_long
    [table] = report.sharing_tables(dataset)
    assert [row[:2] for row in table.rows] == [("vpn", "edge"), ("vpn", "hub")]
    overhead = added * there["encapsulated_packets"] / there["outer_bytes"]
    assert told["edge"]["tunnel_overhead"] == pytest.approx(overhead)
    assert analysis.measure(dataset, "tunnel_drops", "vpn") == too_long
    entered = there["encapsulated_packets"]
    lost = 1 - there["decapsulated_packets"] / entered
    assert analysis.measure(dataset, "tunnel_loss", "vpn", entry="edge") == pytest.approx(lost)
    both = 1 - (there["decapsulated_packets"] + back["decapsulated_packets"]) / (
        entered + back["encapsulated_packets"]
    )
    assert analysis.measure(dataset, "tunnel_loss", "vpn") == pytest.approx(both)


def test_expectations_of_tunnels() -> None:
    expected = """
expect:
  - {tunnel_loss: vpn, entry: edge, during: 0 s..1 s, at_least: 15%, at_most: 25%}
  - {tunnel_overhead: vpn, entry: edge, during: 0 s..1 s, about: 2.279%, within: 0.1%}
  - {tunnel_rate: vpn, entry: edge, during: 100 ms..1 s, about: 9.675 Mbps, within: 2%}
  - {tunnel_drops: vpn, at_least: 1}
"""
    # Datagrams of 1029 B with 24 B of headers, at 12.6 Mb/s on a link of 10 Mb/s that loses 1%.
    text = TUNNEL.replace("TUNNEL", "type: gre").replace("kB}", "kB, start: 1500 ms}") + expected
    judged = analysis.verdicts(perhop.run(parse(text)))
    assert [(each.ok, each.unit) for each in judged] == [
        (True, unit) for unit in ("share", "share", "bps", "packets")
    ], judged
    assert judged[0].text.startswith("loss in the tunnel of vpn from edge during 0 s..1 s is")
    for old, new, said in (
        (
            "loss: vpn, entry: edge",
            "loss: vpn, entry: isp",
            "is no end of `vpn`; expected edge or hub",
        ),
        ("tunnel_drops: vpn", "tunnel_drops: copy", "is a flow; expected a tunnel"),
        ("tunnel_drops: vpn", "drops: isp>hub, entry: hub", "means nothing for `drops`"),
    ):
        with pytest.raises(ScenarioError, match=said):
            parse(text.replace(old, new))
