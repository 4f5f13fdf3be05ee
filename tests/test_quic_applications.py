"""Applications over QUIC in the simulator: a stream for each request."""

from statistics import median

import pytest

import perhop
from perhop import analysis
from perhop.dataset import Dataset
from perhop.scenario import Scenario, parse

RATE = 10e6
TRIP = 0.04

# Around a 1-RTT packet: IPv4, UDP, its header of 11 B, its tag, and a STREAM frame of 2 or 4 B (RFC
# 9000, sections 17.3.1 and 19.8).
AROUND = 20 + 8 + 11 + 16 + 4


def scenario(flow: str, duration: str = "20 s", more: str = "", egress: str = "") -> Scenario:
    """A server and a client, 40 ms and 10 Mb/s apart."""
    return parse(f"""
perhop: 1
name: requests
nodes: {{server: host, r1: router, client: host}}
links:
  - {{ends: [server, r1], rate: 1 Gbps, delay: 1 us}}
  - {{ends: [r1, client], rate: 10 Mbps, delay: 19999 us, queue: {{limit: 1 MB}}{egress}}}
flows:
  app: {{from: server, to: client, {flow}}}
duration: {duration}
{more}
""")


def measured(dataset: Dataset, metric: str) -> float:
    value = analysis.measure(dataset, metric, "app")
    assert value is not None, metric
    return value


def test_a_page_on_an_idle_line_takes_its_round_trips_and_its_packets() -> None:
    """The handshake, the page, and its pictures take a round trip each."""
    objects = "{html: {size: 9 kB}, images: {count: 6, size: 1 kB, after: html}}"
    dataset = perhop.run(
        scenario(f"web: {{objects: {objects}, think: 1 s}}, quic: {{max_datagram: 1200 B}}")
    )
    hello = 1228  # padded to 1200 B of UDP (section 14.1)
    # Certificates of 2 kB, other messages of 306 B: two full datagrams, and the rest with headers.
    server = 2 * 1228 + 146
    # Its first acknowledgement is padded, and sent while the others arrive.
    finished = 28 + 89
    request = 500 + AROUND
    html = 9000 + 8 * AROUND
    # Requests of pictures take less time than the pictures.
    pictures = request + 6 * (1000 + AROUND)
    sent = hello + server + finished + request + html + pictures
    took = measured(dataset, "page_load_median")
    assert took == pytest.approx(3 * TRIP + 8 * sent / RATE, rel=0.001)
    # The connections of earlier pages are closed: 18 pages, none of which fails.
    assert set(dataset.completions.drop_nulls("end_s")["opened"]) == {1}


def test_a_lost_packet_delays_no_other_object() -> None:
    """TCP's bytes are in order, so that every object waits for the lost segment (HTTP/2).

    The page ends with `last`, which follows `small` after 100 ms. A loss in `film` does not matter
    unless it delays `small`, too.
    """
    objects = (
        "{page: {size: 1 kB}, film: {size: 6 kB, after: page}, small: {size: 3 kB, after: page}, "
        "last: {size: 1 kB, after: small, server_time: 100 ms}}"
    )

    def delays(transport: str) -> list[float]:
        """The delays of the page by single losses, one run each, in order of their times."""
        loads = {}
        for at in (0, *range(100, 115)):
            loss = f"""changes:
  - {{at: {at} ms, on: r1>client, loss: 99.9999%}}
  - {{at: {at}.9 ms, on: r1>client, loss: 0%}}"""
            flow = f"web: {{objects: {objects}, think: 10 s}}, {transport}"
            dataset = perhop.run(scenario(flow, "2 s", loss if at else ""))
            if dataset.intervals["lost"].sum() == (at > 0):
                loads[at] = measured(dataset, "page_load_max")
        usual = loads.pop(0)
        return [load - usual for load in loads.values()]

    ordered, apart = delays("tcp: {}"), delays("quic: {max_datagram: 1200 B}")
    assert len(ordered) >= 5
    assert min(ordered) > 0.8 * TRIP
    # Film's packets, two thirds of all.
    assert len(apart) >= 5
    assert median(apart) < 1e-4


def test_windows_of_flow_control_limit_each_response() -> None:
    """A window per round trip: 30 kB of a response that fills the line otherwise."""
    flow = "transfers: {size: 300 kB, every: 2 s, connections: reused}, quic: {stream_window: %s}"
    took = [
        measured(perhop.run(scenario(flow % window)), "completion_median")
        for window in ("30 kB", "1 MB")
    ]
    # Limits are announced in eighths, so that the window is never all used.
    assert 300 / 30 * TRIP < took[0] < 300 / 30 / (7 / 8) * TRIP + TRIP
    assert took[1] < 8 * 300e3 / RATE * 1.1 + TRIP


def test_its_packets_are_datagrams_and_its_measurements_those_of_quic() -> None:
    policy = """
policies:
  lan:
    classes:
      video: {match: {protocol: udp, source_port: 443}, bandwidth: 80%}
      rest: {match: any, bandwidth: 20%}
"""
    network = scenario(
        "video: hls, port: 443, quic: {}, dscp: af41", "30 s", policy, egress=", egress: {r1: lan}"
    )
    dataset = perhop.run(network)
    rows = dataset.intervals
    assert rows["sacks"].is_null().all()
    assert 0.4 < rows["acks"].sum() / rows["packets"].sum() < 0.7
    assert rows["bytes"].sum() >= dataset.completions.drop_nulls("end_s")["bytes"].sum()
    assert measured(dataset, "bitrate") > 3e6
    assert measured(dataset, "stalls") == 0
    assert {row["dscp_arrived"] for row in dataset.codepoints.to_dicts()} == {34}
