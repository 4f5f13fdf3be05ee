"""Pings of limited time to live, from the file to the tables."""

import polars as pl
import pytest

import perhop
from perhop import analysis, report
from perhop.dataset import Dataset
from perhop.report import charts
from perhop.scenario import Scenario, parse
from perhop.scenario.resolve import Packets, sent

PATH = """
perhop: 1
name: path
nodes: {{a: host, r1: router, r2: router, r3: router, b: host, {extra}}}
links:
  - {{ends: [a, r1], rate: 1 Gbps, delay: 1 ms}}
  - {{ends: [r1, r2], rate: 100 Mbps, delay: 1 ms, egress: {{r1: edge}}}}
  - {{ends: [r2, r3], rate: 100 Mbps, delay: 1 ms}}
  - {{ends: [r3, b], rate: 1 Gbps, delay: 1 ms}}
  {links}
policies:
  edge:
    classes:
      voice:
        match: {{dscp: ef}}
        unused: true
        police: {{rate: 1 kbps, burst: 84 B, exceed: {{remark: be}}}}
      rest: {{match: any}}
flows: {{}}
pings:
  path: {{from: a, to: b, {ping}}}
duration: 4 s
"""


def run(ping: str, extra: str = "", links: str = "") -> Dataset:
    return perhop.run(parse(PATH.format(ping=ping, extra=extra, links=links)))


@pytest.mark.parametrize(
    ("protocol", "last"), [("icmp", "echo reply"), ("udp", "port unreachable")]
)
def test_each_hop_is_named_once(protocol: str, last: str) -> None:
    dataset = run(f"protocol: {protocol}, ttl: 1..30")
    hops = analysis.hops(dataset, "path")
    assert [(hop.ttl, hop.nodes) for hop in hops] == [
        (1, ("r1",)),
        (2, ("r2",)),
        (3, ("r3",)),
        (4, ("b",)),
    ]
    assert [hop.answers for hop in hops] == [("time exceeded",)] * 3 + [(last,)]
    for hop in hops:
        assert (hop.sent, hop.loss) == (4, 0.0)
        assert hop.rtt is not None
        assert hop.rtt.median == pytest.approx(2e-3 * hop.ttl, rel=0.02)


def test_the_router_behind_which_a_mark_is_lost_is_found() -> None:
    hops = analysis.hops(run("ttl: 1..4, dscp: ef, every: 200 ms"), "path")
    # The bucket lets a packet a second pass as it came.
    assert [set(hop.dscps) for hop in hops[:2]] == [{46}, {46, 0}]
    assert {0} <= set(hops[3].dscps)


def test_one_hop_is_a_ping_like_others() -> None:
    dataset = run("ttl: 3")
    rows = dataset.pings
    assert rows["node"].to_list() == ["r3"] * 4
    assert rows["answer"].unique().to_list() == ["time exceeded"]
    assert rows["dscp_echoed"].unique().to_list() == [48]
    assert analysis.loss(dataset, "path") == 0
    assert report.hop_tables(dataset) == []
    assert report.ping_table(dataset) is not None


def test_a_router_can_be_pinged_and_may_be_silent() -> None:
    scenario = PATH.format(ping="ttl: 1..3", extra="", links="").replace("to: b", "to: r3")
    silent = scenario.replace("r2: router", "r2: {kind: router, icmp_errors: false}")
    hops = analysis.hops(perhop.run(parse(silent)), "path")
    assert [hop.nodes for hop in hops] == [("r1",), (), ("r3",)]
    assert [hop.answers for hop in hops] == [("time exceeded",), (), ("echo reply",)]
    assert [hop.loss for hop in hops] == [0, 1, 0]


def test_load_sharing_by_packet_shows_several_routers_at_a_hop() -> None:
    links = [f"- {{ends: [{ends}], rate: 100 Mbps, delay: 1 ms}}" for ends in ("r1, s2", "s2, r3")]
    second = "\n  ".join(links)
    probe = "protocol: udp, ttl: 1..5, every: 100 ms"
    found = analysis.hops(run(probe, "s2: router", second), "path")[1].nodes
    assert len(found) == 1  # the ports stay the same
    text = PATH.format(ping=probe, extra="s2: router", links=second)
    shared = text.replace("r1: router", "r1: {kind: router, balance: per-packet}")
    assert set(analysis.hops(perhop.run(parse(shared)), "path")[1].nodes) == {"r2", "s2"}


def test_the_hops_are_in_the_tables_and_in_the_summary() -> None:
    dataset = run("ttl: 1..30, dscp: af11")
    (table,) = report.hop_tables(dataset)
    assert table.title == "Hops of path, from a to b as af11"
    assert [row[:5] for row in table.rows] == [
        ("1", "r1", "time exceeded", "4", "0%"),
        ("2", "r2", "time exceeded", "4", "0%"),
        ("3", "r3", "time exceeded", "4", "0%"),
        ("4", "b", "echo reply", "4", "0%"),
    ]
    assert {row[-1] for row in table.rows} == {"af11"}
    assert report.ping_table(dataset) is None
    assert charts.ping_chart(dataset) is None
    summary = analysis.summary(dataset)["pings"]["path"]
    assert (summary["loss"], summary["rtt_s"]) == (None, None)
    assert [hop["nodes"] for hop in summary["hops"]] == [["r1"], ["r2"], ["r3"], ["b"]]
    assert "Hops of path" in report.page(dataset)


def test_trains_go_out_at_once() -> None:
    rows = run("ttl: 2, train: 3, size: 1472 B").pings
    assert rows["sent_s"].to_list() == [0.0] * 3 + [1.0] * 3 + [2.0] * 3 + [3.0] * 3
    # Dispersion: 1500 bytes at the 100 Mb/s of the second link.
    arrived = (rows["sent_s"] + rows["rtt_s"]).to_list()
    assert arrived[1] - arrived[0] == pytest.approx(120e-6, abs=1e-12)


def matching(scenario: Scenario, **match: object) -> bool:
    """Return whether something that the scenario sends may meet these conditions."""
    wanted = perhop.scenario.Match.model_validate(match)
    packets = Packets.of(wanted, scenario.all_addresses)
    return any(packets.meets(other) for other in sent(scenario))


def test_classes_for_probes_and_their_answers_are_matched() -> None:
    plain = parse(PATH.format(ping="dscp: ef", extra="", links=""))
    assert not matching(plain, dscp="cs6")
    assert not matching(plain, protocol="udp")
    limited = parse(PATH.format(ping="dscp: ef, ttl: 1..3", extra="", links=""))
    assert matching(limited, dscp="cs6", protocol="icmp", source="r2", destination="a")
    assert not matching(limited, dscp="cs6", destination="b")
    datagrams = parse(PATH.format(ping="dscp: ef, protocol: udp", extra="", links=""))
    assert matching(datagrams, protocol="udp", destination_port=33434)
    assert matching(datagrams, dscp="be", protocol="icmp", source="b", destination="a")


def test_a_ping_that_is_too_long_for_a_link_is_told_by_the_router_before_it() -> None:
    text = """
perhop: 1
name: narrow
nodes: {a: host, r1: router, r2: router, b: host}
links:
  - {ends: [a, r1], rate: 1 Gbps}
  - {ends: [r1, r2], rate: 1 Gbps}
  - {ends: [r2, b], rate: 1 Gbps, mtu: 1400 B}
flows: {}
pings:
  fits: {from: a, to: b, every: 1 s, size: 1372 B}
  does_not: {from: a, to: b, every: 1 s, size: 1373 B}
duration: 3 s
"""
    pings = perhop.run(parse(text, "narrow")).pings
    answers = pings.group_by("ping").agg(pl.col("answer").unique(), pl.col("node").unique())
    found = {ping: (answer, node) for ping, answer, node in answers.rows()}
    assert found == {"fits": (["echo reply"], ["b"]), "does_not": (["packet too big"], ["r2"])}
    assert pings.filter(pl.col("ping") == "does_not")["rtt_s"].null_count() == 3
