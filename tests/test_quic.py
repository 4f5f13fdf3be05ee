"""Flows over QUIC, from scenario to report."""

import pytest

import perhop
from perhop import analysis, report
from perhop.dataset import Dataset
from perhop.engines import traffic
from perhop.errors import ScenarioError, UnsupportedError
from perhop.scenario import Scenario, parse

RATE = 10e6


def scenario(flows: str, more: str = "", link: str = "queue: {limit: 60 kB}") -> Scenario:
    """Two hosts, 40 ms and 10 Mb/s apart."""
    return parse(f"""
perhop: 1
name: quic
nodes: {{a: host, r: router, b: host}}
links:
  - {{ends: [a, r], rate: 1 Gbps, delay: 1 us}}
  - {{ends: [r, b], rate: 10 Mbps, delay: 19999 us, {link}}}
flows: {{{flows}}}
duration: 20 s
{more}
""")


def measured(dataset: Dataset, metric: str, target: str = "q") -> float:
    value = analysis.measure(dataset, metric, target)
    assert value is not None, metric
    return value


def test_a_flow_has_the_measurements_of_a_tcp_flow() -> None:
    expect = """
expect:
  - {throughput: q, during: 5 s..20 s, at_least: 9 Mbps}
  - {srtt_median: q, at_least: 40 ms, at_most: 95 ms}
  - {retransmits: q, at_least: 1}
  - {queueing_max: q, at_most: 60 ms}
  - {loss: q, at_most: 5%}
"""
    dataset = perhop.run(scenario("q: {from: a, to: b, quic: {streams: 3}}", expect))
    assert all(verdict.ok for verdict in analysis.verdicts(dataset))
    rows = dataset.intervals
    # Without reordering data is sent again if it was lost, and by few probes.
    lost, again = rows["lost"].sum(), rows["retransmits"].sum()
    assert lost <= again <= lost + 2
    assert rows["acks"].sum() > 0.4 * rows["packets"].sum()
    assert rows["cwnd"].min() >= 2 * 1200
    assert rows["sacks"].is_null().all()
    found = analysis.summary(dataset)
    assert found["flows"]["q"]["retransmits"] == again
    assert report.delay_table(dataset) is None


def test_classes_match_it_as_udp_with_its_port() -> None:
    policy = """
policies:
  wan:
    classes:
      quic: {match: {protocol: udp, destination_port: 443}, bandwidth: 80%}
      rest: {match: any, bandwidth: 20%}
"""
    flows = "q: {from: a, to: b, port: 443, quic: {}}, t: {from: a, to: b}"
    dataset = perhop.run(scenario(flows, policy, "egress: {r: wan}"))
    ratio = measured(dataset, "throughput") / measured(dataset, "throughput", "t")
    assert ratio == pytest.approx(4, rel=0.15)


@pytest.mark.parametrize("quic, ratio", [("{}", 2), ("{ack_frequency: {threshold: 9}}", 10)])
def test_fewer_acknowledgements_can_be_requested(quic: str, ratio: float) -> None:
    dataset = perhop.run(
        scenario(f"q: {{from: a, to: b, quic: {quic}}}", link="queue: {limit: 5 MB}")
    )
    rows = dataset.intervals
    assert rows["packets"].sum() / rows["acks"].sum() == pytest.approx(ratio, rel=0.1)


def test_marks_take_the_place_of_losses() -> None:
    queue = "queue: {codel: {ecn: true}}"
    dataset = perhop.run(scenario("q: {from: a, to: b, quic: {ecn: true}}", link=queue))
    rows = dataset.intervals
    assert rows["marked"].sum() > 10
    assert rows["echoed"].sum() == pytest.approx(rows["marked"].sum(), abs=3)
    assert rows["retransmits"].sum() <= rows["lost"].sum() + 1
    assert measured(dataset, "throughput") > 0.85 * RATE


def test_a_path_below_its_least_datagram_is_a_warning() -> None:
    made = scenario("q: {from: a, to: b, quic: {}}", link="mtu: 1200 B")
    dataset = perhop.run(made)
    [warning] = dataset.warnings
    assert warning.path == "flows.q.quic"
    assert "QUIC needs datagrams of 1200 B" in warning.message
    assert dataset.intervals["bytes"].sum() == 0


@pytest.mark.parametrize(
    "quic, message",
    [
        ("{congestion_control: bbr, ecn: true}", "does not respond to marks"),
        ("{congestion_control: prague, ecn: false}", "needs marks"),
        ("{congestion_control: bbr1, pacing: false}", "sends by pacing"),
        ("{datagram: 1000 B}", "1200 B"),
        ("{streams: 0}", "1 to 1000"),
    ],
)
def test_contradictory_settings_are_refused(quic: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        scenario(f"q: {{from: a, to: b, quic: {quic}}}")


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ("congestion_control: bbr", "congestion_control"),
        ("congestion_control: prague", "congestion_control"),
        ("hystart: true", "hystart"),
        ("pacing: false", "pacing"),
        ("ack_frequency: {max_delay: 900 us}", "ack_frequency.max_delay"),
    ],
)
def test_engines_with_real_hosts_refuse_what_quinn_lacks(settings: str, place: str) -> None:
    made = scenario(f"q: {{from: a, to: b, quic: {{{settings}}}}}")
    assert [gap.path for gap in traffic.gaps(made)] == [f"flows.q.quic.{place}"]
    with pytest.raises(UnsupportedError, match=rf"flows\.q\.quic\.{place}"):
        perhop.run(made, engine="emu")


def test_other_settings_run_between_real_hosts() -> None:
    made = scenario(
        "q: {from: a, to: b, quic: {}}, "
        "r: {from: a, to: b, quic: {congestion_control: reno, hystart: true, ecn: true}}, "
        "s: {from: a, to: b, quic: {congestion_control: bbr1, hystart: false, streams: 9}}"
    )
    assert traffic.gaps(made) == []
