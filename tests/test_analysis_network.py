"""Channels, tunnels, links, code points and windows of small tables, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from datasets import dataset
from perhop import analysis
from perhop.analysis.codepoints import codepoints, dscp_kept, ecn_fields
from perhop.analysis.links import class_counters, class_counts, link_loads
from perhop.analysis.losses import UNTOLD, class_losses, losses
from perhop.analysis.throughput import delivered_in
from perhop.analysis.windows import tally
from perhop.errors import UsageError
from perhop.scenario import parse

if TYPE_CHECKING:
    from perhop.dataset import Dataset

TEXT = """
perhop: 1
name: network
duration: 10 s
nodes: {a: host, ap: router, near: host, enb: router, user: host, other: host}
channels:
  home: {wifi: {standard: n}}
  cell: {lte: {base_station: enb, bandwidth: 5 MHz}}
links:
  - {ends: [a, ap], rate: 1 Gbps}
  - {ends: [ap, near], rate: 65 Mbps, channel: home}
  - {ends: [ap, enb], rate: 100 Mbps, shape: {ap: {rate: 2 Mbps}}}
  - {ends: [enb, user], rate: 8 Mbps, channel: cell}
  - {ends: [enb, other], rate: 8 Mbps, channel: cell}
tunnels: {vpn: {ends: [ap, enb], type: gre}}
flows:
  plain: {from: a, to: user, udp: {rate: 1 Mbps}, dscp: ef}
  early: {from: a, to: user, udp: {rate: 1 Mbps, ecn: ect1}}
  copy: {from: a, to: user, tcp: {ecn: classic}}
pings: {echo: {from: a, to: user, dscp: ef}}
"""


def run(**tables: Any) -> Dataset:
    return dataset(parse(TEXT, "x.yaml"), **tables)


def row(start: float, end: float, **values: Any) -> dict[str, Any]:
    return {"start_s": start, "end_s": end, **values}


def close(value: float) -> Any:
    return pytest.approx(value, rel=1e-12)


# Channels


def station(
    channel: str, link: str, start: float, end: float, used: float, **more: Any
) -> dict[str, Any]:
    return row(start, end, channel=channel, link=link, utilisation=used, **more)


STATIONS = [
    station("home", "ap>near", 0, 4, 0.5, frames=100, retransmissions=20, airtime_s=1.5),
    station("home", "ap>near", 4, 10, 0.1, frames=50, airtime_s=0.5),
    station("home", "near>ap", 0, 10, 0.2, airtime_s=2.0),
    station("cell", "enb>user", 0, 10, 0.3, resource_blocks=900),
    station("cell", "enb>other", 0, 10, 0.4),
    station("cell", "user>enb", 0, 10, 0.6),
    station("cell", "other>enb", 0, 10, 0.05),
]


def test_loads_of_stations_are_sums_and_means_over_time() -> None:
    found = run(stations=STATIONS)
    first = analysis.station_loads(found).row(0, named=True)
    assert (first["channel"], first["link"], first["frames"]) == ("home", "ap>near", 150)
    # (4 · 0.5 + 6 · 0.1) / 10.
    assert (first["utilisation"], first["airtime_s"]) == (close(0.26), 2.0)
    assert (first["resource_blocks"], first["collisions"]) == (None, None)
    # Half of the first row and a third of the second: 50 + 16.7 frames, 0.75 + 0.17 s.
    part = analysis.station_loads(found, (2.0, 6.0)).row(0, named=True)
    assert (part["frames"], part["retransmissions"]) == (67, 10)
    assert (part["airtime_s"], part["utilisation"]) == (close(0.75 + 0.5 / 3), close(0.3))


def test_a_channel_is_as_busy_as_its_stations_and_a_cell_in_each_direction() -> None:
    found = run(stations=STATIONS)
    assert analysis.channel_directions(found, "home") == {"all": close(0.46)}
    assert analysis.channel_utilisation(found, "home") == close(0.46)
    cell = {"downlink": close(0.7), "uplink": close(0.65)}
    assert analysis.channel_directions(found, "cell") == cell
    assert analysis.channel_utilisation(found, "cell") == close(0.7)
    assert analysis.channel_utilisation(found, "home", (0.0, 4.0)) == close(0.7)
    assert analysis.channel_utilisation(run(), "cell") is None
    with pytest.raises(KeyError):
        analysis.channel_directions(found, "hom")
    for of, metric, value in (
        ("home", "utilisation", 0.46),
        ("cell", "utilisation", 0.7),
        ("ap>near", "airtime", 0.26),
        ("ap>near", "retries", 20 / 150),
    ):
        assert analysis.measure(found, metric, of) == close(value), metric


def test_airtime_and_retries_of_a_direction() -> None:
    found = run(stations=STATIONS)
    assert analysis.airtime(found, "ap>near", (0.0, 4.0)) == 0.5
    assert analysis.airtime(found, "a>ap") is None
    assert analysis.retries(found, "ap>near", (2.0, 6.0)) == close(10 / 67)
    assert analysis.retries(found, "near>ap") is None  # nothing was sent
    with pytest.raises(UsageError, match="`ap>far` is not a directed link of this run"):
        analysis.airtime(found, "ap>far")


# Tunnels


ENTERED = row(
    0, 10, tunnel="vpn", entry="ap",
    encapsulated_packets=100, encapsulated_bytes=100_000, outer_bytes=102_400,
    dropped_too_long=6, dropped_no_route=2, decapsulated_packets=90, decapsulated_bytes=90_000,
    dropped_ecn=4,
)  # fmt: skip
BACK = row(
    0, 10, tunnel="vpn", entry="enb",
    encapsulated_packets=10, encapsulated_bytes=1000, outer_bytes=1240, dropped_too_long=0,
    decapsulated_packets=12, decapsulated_bytes=1200,
)  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "entry", "window", "expected"),
    [
        ("tunnel_rate", "ap", None, 72_000),
        ("tunnel_rate", None, None, 8 * 91_200 / 10),
        ("tunnel_rate", "ap", (0.0, 5.0), 8 * 45_000 / 5),
        # The headers' share of the outer bytes.
        ("tunnel_overhead", "ap", None, 2400 / 102_400),
        ("tunnel_overhead", None, None, 2640 / 103_640),
        ("tunnel_loss", "ap", None, 0.1),
        # Copies may come out that no one sent in.
        ("tunnel_loss", "enb", None, 0),
        ("tunnel_loss", None, None, 8 / 110),
        # Too long, without a route, and with an ECN error.
        ("tunnel_drops", "ap", None, 12),
        ("tunnel_drops", "enb", None, 0),
        ("tunnel_drops", "ap", (0.0, 5.0), 6),
        ("tunnel_drops", "ap", (11.0, 12.0), None),
    ],
)
def test_metrics_of_a_tunnel(
    metric: str, entry: str | None, window: analysis.Window | None, expected: float | None
) -> None:
    found = run(tunnels=[ENTERED, BACK])
    value = analysis.tunnel_metric(found, metric, "vpn", entry, window)
    assert value == (None if expected is None else close(expected))
    assert analysis.measure(found, metric, "vpn", window, entry=entry) == value


def test_what_is_not_known_of_a_tunnel() -> None:
    found = run(tunnels=[ENTERED, {**BACK, "dropped_too_long": None, "outer_bytes": None}])
    assert analysis.tunnel_metric(found, "tunnel_drops", "vpn", "ap") == 12
    for metric in ("tunnel_drops", "tunnel_overhead"):
        assert analysis.tunnel_metric(found, metric, "vpn", "enb") is None
        assert analysis.tunnel_metric(found, metric, "vpn") is None
    nothing = run(tunnels=[row(0, 10, tunnel="vpn", entry="ap", outer_bytes=0)])
    for metric in ("tunnel_loss", "tunnel_overhead"):
        assert analysis.tunnel_metric(nothing, metric, "vpn", "ap") is None
    assert analysis.tunnel_metric(nothing, "tunnel_rate", "vpn", "enb") is None
    with pytest.raises(UsageError, match="`vpm` is not a tunnel of this run; did you mean `vpn`"):
        analysis.tunnel_metric(found, "tunnel_loss", "vpm")
    with pytest.raises(UsageError, match="`a` is not a tunnel end of vpn; did you mean `ap`"):
        analysis.tunnel_metric(found, "tunnel_loss", "vpn", "a")


# Links


@pytest.mark.parametrize(
    ("busy", "octets", "expected"),
    [
        # 1 Mb/s and 2.4 Mb/s at a shaper of 2 Mb/s: a burst may leave faster.
        (0.01, [1_250_000], 0.5),
        (0.02, [3_000_000], 1),
        # A link that is slower now is the narrower one.
        (0.8, [1_250_000], 0.8),
        # Both classes count, and one inside another once.
        (0.01, [500_000, 750_000], 0.5),
        (None, [1_250_000], None),
        (0.01, [None], None),
        (0.01, [], None),
    ],
)
def test_a_shaped_sender_is_busy_at_the_rate_of_its_shaper(
    busy: float | None, octets: list[int | None], expected: float | None
) -> None:
    queues = [
        row(0, 10, link="ap>enb", sent_bytes=count, **{"class": f"c{number}"})
        for number, count in enumerate(octets)
    ]
    queues.append(row(0, 10, link="ap>enb", sent_bytes=77_000_000, **{"class": "c0/in"}))
    queues.append(row(0, 10, link="a>ap", sent_bytes=77_000_000, **{"class": "all"}))
    links = [
        row(0, 10, link="ap>enb", utilisation=busy),
        row(0, 10, link="a>ap", utilisation=0.25),
    ]
    found = run(queues=queues, links=links)
    assert link_loads(found)["utilisation"].to_list() == [
        None if expected is None else close(expected),
        0.25,
    ]
    assert analysis.utilisation(found, "ap>enb") == (None if expected is None else close(expected))


def test_what_is_unknown_for_a_part_of_the_time_is_unknown() -> None:
    links = [
        row(0, 5, link="a>ap", sent_packets=5, sent_bytes=None, utilisation=0.5),
        row(5, 10, link="a>ap", sent_packets=7, sent_bytes=9, utilisation=None),
    ]
    links[0] |= {"duplicated_packets": 3, "reordered_packets": 4, "lost_packets": 2}
    (load,) = link_loads(run(links=links)).to_dicts()
    assert load == {
        "link": "a>ap",
        "sent_packets": 12,
        "sent_bytes": None,
        "lost_packets": 2,
        "duplicated_packets": 3,
        "reordered_packets": 4,
        "utilisation": None,
        "utilisation_max": None,
    }
    assert analysis.utilisation(run(links=links), "a>ap", (0.0, 5.0)) == 0.5
    queues = [
        row(0, 5, link="a>ap", sent_bytes=5, backlog_bytes=4, **{"class": "all"}),
        row(5, 10, link="a>ap", sent_bytes=None, backlog_bytes=None, **{"class": "all"}),
    ]
    found = run(queues=queues)
    counts = class_counts(found, "a>ap")
    known = {"sent_bytes", "backlog_bytes", "backlog_bytes_max"}
    assert {name: counts[name] for name in known} == dict.fromkeys(known)
    assert (counts["sent_packets"], counts["backlog_packets"]) == (0, 0)
    first = class_counts(found, "a>ap", window=(0.0, 5.0))
    assert (first["sent_bytes"], first["backlog_bytes"]) == (5, 4)
    assert class_counters(found)["sent_bytes"].to_list() == [None]
    assert "backlog_bytes" not in class_counters(found).columns


def test_drops_whose_cause_is_unknown_are_told_as_such() -> None:
    queue = {"link": "ap>enb", "class": "all", "sent_packets": 90, "dropped_packets": 10}
    unknown = {"dropped_policer": None, "dropped_early": None}
    found = class_losses(run(queues=[row(0, 10, **queue, **unknown, dropped_limit=4)]))
    assert found.rows() == [
        ("ap>enb", "all", UNTOLD, 6, 0.06),
        ("ap>enb", "all", "full queue", 4, 0.04),
    ]
    found = class_losses(run(queues=[row(0, 10, **queue | {"sent_packets": None})]))
    assert found.rows() == [("ap>enb", "all", UNTOLD, 10, None)]


def test_losses_of_a_flow_whose_packets_nobody_counted_have_no_share() -> None:
    lost = [row(0, 10, flow="plain", link="a>ap", cause="wire", packets=4)]
    unknown = [row(0, 10, flow="plain", lost=None, packets=5)]
    assert losses(run(losses=lost, intervals=unknown), "plain").rows() == [
        ("a>ap", "wire", 4, None)
    ]
    # Half of them in half of the time, and rows without any are left out.
    counted = [row(0, 10, flow="plain", lost=4, packets=36)]
    lost.append(row(0, 5, flow="plain", link="a>ap", cause="policer", packets=0))
    found = losses(run(losses=lost, intervals=counted), "plain", (0.0, 5.0))
    assert found.rows() == [("a>ap", "wire", 2, 0.1)]


# Code points


def arrived(start: float, end: float, sent: int, dscp: int, **more: Any) -> dict[str, Any]:
    given = {"flow": "plain", "node": "user", "packets": 10, **more}
    return row(start, end, dscp_sent=sent, dscp_arrived=dscp, **given)


def test_code_points_of_a_window_count_in_part() -> None:
    rows = [
        arrived(0, 4, 46, 46, packets=40),
        arrived(4, 10, 46, 0, packets=60),
        # Errors that a router answers do not arrive at the destination.
        arrived(0, 10, 46, 46, node="ap", packets=900),
        arrived(0, 10, 0, 0, flow="copy", packets=7),
    ]
    found = run(codepoints=rows)
    assert codepoints(found, "plain").filter(node="user").rows() == [
        ("plain", "user", 46, 46, 40, 0.4),
        ("plain", "user", 46, 0, 60, 0.6),
    ]
    # Two of the first four seconds, and three of the other six.
    assert codepoints(found, "plain", (2.0, 7.0)).filter(node="user").rows() == [
        ("plain", "user", 46, 46, 20, 0.4),
        ("plain", "user", 46, 0, 30, 0.6),
    ]
    assert codepoints(found, "early").is_empty()
    assert codepoints(found, "early").columns == codepoints(found, "plain").columns
    assert dscp_kept(found, "plain") == 0.4
    assert dscp_kept(found, "plain", (0.0, 4.0)) == 1
    assert dscp_kept(found, "plain", (4.0, 10.0)) == 0
    assert dscp_kept(found, "early") is None
    assert analysis.measure(found, "dscp_kept", "plain") == 0.4


def test_requests_that_kept_their_code_point() -> None:
    def request(sent_s: float, dscp: int | None) -> dict[str, Any]:
        return {"ping": "echo", "sent_s": sent_s, "dscp_sent": 46, "dscp_arrived": dscp}

    found = run(pings=[request(1, 46), request(2, 0), request(3, 46), request(4, None)])
    assert dscp_kept(found, "echo") == 2 / 3
    assert dscp_kept(found, "echo", (2.0, 3.0)) == 0
    assert dscp_kept(found, "echo", (4.0, 5.0)) is None


def test_ecn_fields_have_what_was_sent_where_that_is_one() -> None:
    rows = [arrived(0, 10, 46, 46, flow=flow, ecn_arrived=3) for flow in ("plain", "early", "copy")]
    found = run(codepoints=rows)
    # RFC 3168: ECT(1) is 1; TCP sends some packets with ECT and others without.
    for flow, sent in (("plain", 0), ("early", 1), ("copy", None)):
        assert ecn_fields(found, flow).rows() == [(flow, "user", sent, 3, 10, 1.0)]
        assert ecn_fields(found, flow, (0.0, 5.0))["packets"].to_list() == [5]


# Windows


def test_rows_count_in_their_windows_alone() -> None:
    rows = [row(2, 4, flow="plain", bytes=None), row(4, 6, flow="plain", bytes=9)]
    found = delivered_in(run(intervals=rows), [(0.0, 2.0), (2.0, 4.0), (4.0, 6.0), (6.0, 8.0)])
    assert found == [{}, {"plain": None}, {"plain": 9}, {}]
    # A row may lie in several windows, and a window in a row.
    rows = [row(0, 8, flow="plain", bytes=80)]
    found = delivered_in(run(intervals=rows), [(1.0, 2.0), (2.0, 7.0), (7.0, 10.0)])
    assert found == [{"plain": close(10)}, {"plain": close(50)}, {"plain": close(10)}]


def test_nothing_that_was_counted_is_zero_and_nothing_that_was_not_is_unknown() -> None:
    nothing = tally(run(), "plain")
    assert (nothing["bytes"], nothing["lost"], nothing["extents"]) == (0, 0, None)
    assert (nothing["extent_max"], nothing["jitter_s"]) == (None, None)
    # Some hosts count a stream as a whole, in its last row.
    rows = [row(0, 5, flow="plain", lost=None), row(5, 10, flow="plain", lost=3)]
    assert analysis.count(run(intervals=rows), "plain", "lost") == 3
    assert analysis.count(run(intervals=rows), "plain", "lost", (0.0, 5.0)) is None
    assert analysis.count(run(intervals=rows), "plain", "lost", (11.0, 12.0)) == 0
    # Arrivals whose number is unknown weigh nothing that is known.
    rows = [row(0, 5, flow="plain", owd_samples=0, packets=None, jitter_s=0.1)]
    assert analysis.jitter(run(intervals=rows), "plain") is None


def test_completion_is_that_of_all_streams() -> None:
    text = TEXT.replace("tcp: {ecn: classic}}", "tcp: {ecn: classic}, volume: 1 kB, streams: 2}")
    rows = [row(0, 5, flow="copy", stream=n, completion_s=took) for n, took in ((0, 2.0), (1, 4.0))]
    scenario = parse(text, "x.yaml")
    assert analysis.completion(dataset(scenario, rows), "copy") == 4.0
    assert analysis.completion(dataset(scenario, rows[:1]), "copy") is None
    assert analysis.measure(dataset(scenario, rows), "completion", "copy") == 4.0


def test_shares_of_nothing_are_none() -> None:
    rows = [
        row(0, 10, flow="copy", acks=8, sacks=2, lost=0, packets=0),
        row(0, 10, flow="plain", lost=None, packets=5),
    ]
    found = run(intervals=rows)
    assert analysis.sack_share(found, "copy") == 0.25
    assert analysis.loss(found, "copy") is None
    assert analysis.loss(found, "plain") is None
    assert analysis.sack_share(run(intervals=[rows[0] | {"sacks": None}]), "copy") is None
    assert analysis.sack_share(run(intervals=[rows[0] | {"acks": 0}]), "copy") is None
    assert analysis.sack_share(run(), "copy") is None
