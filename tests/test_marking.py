"""Marking on the way, from the file to the tables."""

import polars as pl
import pytest
import yaml
from jsonschema import Draft202012Validator

import perhop
from conftest import SLOW
from perhop import analysis, report
from perhop.dataset import Dataset
from perhop.errors import ScenarioError
from perhop.report import text
from perhop.scenario import Scenario, dump, json_schema, parse

LINE = """
perhop: 1
name: line
nodes: {{a: host, r1: router, r2: {r2}, b: host}}
links:
  - {{ends: [a, r1], rate: 100 Mbps, remark: {{r1: {first}}}}}
  - {{ends: [r1, r2], rate: 10 Mbps, delay: 5 ms, egress: {{r1: edge}}}}
  - {{ends: [r2, b], rate: 100 Mbps}}
policies:
  edge:
    classes:
      gold: {{match: {{dscp: af11}}, bandwidth: 60%{unused}}}
      rest: {{match: any}}
flows:
  web: {{from: a, to: b, port: 80, dscp: cs1, stop: 2 s}}
  call: {{from: a, to: b, dscp: ef, udp: {{rate: 200 kbps, size: 200 B}}, stop: 2 s}}
pings:
  echo: {{from: a, to: b, dscp: ef, every: 100 ms}}
  path: {{from: a, to: b, dscp: ef, ttl: 1..9}}
duration: 2 s
"""

WEB_IS_GOLD = "[{match: {destination_port: 80}, dscp: af11}]"


def scenario(first: str, r2: str = "router") -> Scenario:
    unused = "" if "af11" in first else ", unused: true"
    return parse(LINE.format(first=first, r2=r2, unused=unused))


def run(first: str, r2: str = "router") -> Dataset:
    return perhop.run(scenario(first, r2))


def arrived(dataset: Dataset, name: str) -> set[tuple[str, int, int]]:
    found = analysis.codepoints(dataset, name)
    return set(found.select("node", "dscp_sent", "dscp_arrived").iter_rows())


def test_the_edge_decides_what_is_gold() -> None:
    # Nothing is sent as AF11, but the first router makes it so: the file is valid.
    dataset = run(WEB_IS_GOLD)
    counters = (
        analysis.class_counters(dataset).filter(link="r1>r2").rows_by_key("class", named=True)
    )
    gold = counters["gold"][0]["sent_packets"]
    # Acknowledgements come back as they were sent.
    assert arrived(dataset, "web") == {("b", 8, 10), ("a", 8, 8)}
    assert arrived(dataset, "call") == {("b", 46, 46)}
    web = analysis.codepoints(dataset, "web").filter(node="b")["packets"].sum()
    # What is under way at the end has been sent and has not arrived.
    assert 0 <= gold - web < 20
    assert analysis.dscp_kept(dataset, "web") == 0
    assert analysis.dscp_kept(dataset, "call") == 1
    assert analysis.dscp_kept(dataset, "echo") == 1


def test_a_router_that_clears_is_found() -> None:
    dataset = run(WEB_IS_GOLD, "{kind: router, remark: clear}")
    assert arrived(dataset, "call") == {("b", 46, 0)}
    # The reply is sent as its request arrived.
    assert arrived(dataset, "echo") == {("b", 46, 0), ("a", 0, 0)}
    assert [hop.dscps for hop in analysis.hops(dataset, "path")] == [(46,), (0,), (0,)]


@SLOW
def test_what_changed_is_in_the_tables() -> None:
    assert report.codepoint_table(run("{be: be}", "router")) is None
    dataset = run("{ef: le}")
    table = report.codepoint_table(dataset)
    assert table is not None
    assert [row[:4] for row in table.rows] == [
        ("call", "b", "ef", "le"),
        ("echo", "b", "ef", "le"),
    ]  # and not the replies, which came as they were sent
    assert "Code points that changed" in report.page(dataset)
    (row,) = analysis.summary(dataset)["flows"]["call"]["codepoints"]
    sent = round(analysis.count(dataset, "call", "packets"))
    assert row == {
        "node": "b",
        "dscp_sent": 46,
        "dscp_arrived": 1,
        "packets": sent,
        "share": 1.0,
    }


ECN = """
perhop: 1
name: ecn
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r, b], rate: 2 Mbps, delay: 1 ms, queue: {codel: {ecn: true}}}
flows:
  call: {from: a, to: b, dscp: ef, udp: {rate: 3 Mbps, size: 1000 B, ecn: ect0}, stop: 2 s}
  web: {from: a, to: b, tcp: {ecn: classic}, stop: 2 s}
pings:
  plain: {from: a, to: b, every: 100 ms}
  able: {from: a, to: b, dscp: ef, ecn: ect1, every: 20 ms}
duration: 2 s
"""


def test_the_ecn_fields_of_what_arrived_are_counted() -> None:
    dataset = perhop.run(parse(ECN))
    found = {
        (node, sent, arrived): packets
        for name in ("call", "web", "able", "plain")
        for node, sent, arrived, packets in analysis.ecn_fields(dataset, name)
        .select(pl.concat_str(pl.lit(name + "@"), "node"), "ecn_sent", "ecn_arrived", "packets")
        .iter_rows()
    }
    assert {key for key in found if key[0] == "call@b"} == {("call@b", 2, 2), ("call@b", 2, 3)}
    marked = analysis.count(dataset, "call", "marked")
    assert found["call@b", 2, 3] == marked > 10
    # TCP's data is ECN-capable, its handshake and its acknowledgements are not.
    data = {key[2]: packets for key, packets in found.items() if key[0] == "web@b"}
    assert data[3] == analysis.count(dataset, "web", "marked") and 0 < data[0] < data[2]
    assert {key for key in found if key[0] == "web@a"} == {("web@a", None, 0)}
    # A reply has the field with which its request arrived.
    assert {("able@b", 1, 1), ("able@b", 1, 3), ("able@a", 1, 1), ("able@a", 3, 3)} == {
        key for key in found if key[0].startswith("able")
    }
    assert {key for key in found if "plain" in key[0]} == {("plain@b", 0, 0), ("plain@a", 0, 0)}
    table = report.ecn_table(dataset)
    assert table is not None
    assert [row[:3] for row in table.rows] == [
        ("call", "b", "ECT(0)"),
        ("web", "b", text.ABSENT),
        ("able", "b", "ECT(1)"),
        ("able", "a", "ECT(1)"),
        ("able", "a", "CE"),
    ]
    summary = analysis.summary(dataset)
    arrived = {row["ecn_arrived"]: row["packets"] for row in summary["flows"]["call"]["ecn"]}
    assert arrived[3] == marked
    assert {row["ecn_arrived"] for row in summary["pings"]["able"]["ecn"]} == {1, 3}


def test_what_is_kept_can_be_expected() -> None:
    text = LINE.format(first=WEB_IS_GOLD, r2="router", unused="")
    text += "expect:\n"
    text += "  - {dscp_kept: call, during: 1 s..2 s, at_least: 100%}\n"
    text += "  - {dscp_kept: web, at_least: 99%}\n"
    text += "  - {dscp_kept: echo, at_least: 100%}\n"
    verdicts = analysis.verdicts(perhop.run(parse(text)))
    assert [verdict.ok for verdict in verdicts] == [True, False, True]
    assert verdicts[1].text == "share of kept DSCPs of web is at least 99%"


LISTED = "[{match: [{except: {source: b}}, {destination_port: 80}, {dscp: ef}], dscp: af11}]"


def test_a_list_of_matches_remarks_all_but_exceptions() -> None:
    dataset = run(LISTED)
    assert arrived(dataset, "web") == {("b", 8, 10), ("a", 8, 8)}
    assert arrived(dataset, "call") == {("b", 46, 10)}
    assert arrived(dataset, "echo") == {("b", 46, 10), ("a", 10, 10)}
    excepted = LISTED.replace("source: b", "source: a, protocol: tcp")
    assert arrived(run(excepted), "web") == {("b", 8, 8), ("a", 8, 8)}


MARKED = LINE.replace(
    "      gold: {{match: {{dscp: af11}}, bandwidth: 60%{unused}}}\n",
    "      voice: {{match: [{{dscp: ef, protocol: udp}}, {{protocol: icmp}}], mark: cs5}}\n"
    "      web: {{match: {{port: 80}}, mark: af21, police: {{rate: 1 Mbps, burst: 20 kB, "
    "exceed: {{remark: af22}}}}, classes: {{cs1: {{match: {{dscp: cs1}}}}, "
    "no: {{match: any}}}}}}\n",
)


def test_classes_mark_their_packets() -> None:
    dataset = perhop.run(parse(MARKED.format(first="{be: be}", r2="router")))
    assert arrived(dataset, "call") == {("b", 46, 40)}
    assert ("b", 46, 40) in arrived(dataset, "echo")
    # A policer's remark replaces the mark. Only r1 marks, so that answers come as they were sent.
    assert arrived(dataset, "web") == {("b", 8, 18), ("b", 8, 20), ("a", 8, 8)}
    counters = analysis.class_counters(dataset).filter(link="r1>r2")
    found = {row["class"]: row for row in counters.to_dicts()}
    # What was not remarked is told apart by the code point that it had.
    remarked = found["web"]["remarked_packets"]
    assert found["web/cs1"]["sent_packets"] > 0
    assert found["web/no"]["sent_packets"] > 0
    assert abs(found["web/no"]["sent_packets"] - remarked) < 100
    assert found["voice"]["remarked_packets"] == 0


def test_marks_are_known_before_a_class_of_the_next_link_is_judged() -> None:
    text = MARKED.format(first="{be: be}", r2="router").replace(
        "[r2, b], rate: 100 Mbps", "[r2, b], rate: 100 Mbps, egress: {r2: next}"
    )
    policy = "  next: {classes: {marked: {match: {dscp: cs5}}, rest: {match: any}}}\n"
    parse(text.replace("flows:", f"{policy}flows:"))


def test_the_first_rule_that_matches_decides_and_any_is_the_rest() -> None:
    # `any` is last, wherever it stands; a link's rules go before its node's.
    dataset = run("{any: be, ef: af11}", "router")
    assert arrived(dataset, "call") == {("b", 46, 10)}
    assert arrived(dataset, "web") == {("b", 8, 0), ("a", 8, 8)}
    both = "{kind: router, remark: {af11: cs2, be: cs3}}"
    assert arrived(run("{any: be, ef: af11}", both), "web") == {("b", 8, 24), ("a", 8, 8)}


@pytest.mark.parametrize("first", ["clear", "{cs1: be, any: 10}", WEB_IS_GOLD, "{8: ef}", LISTED])
def test_a_marking_is_written_as_rules(first: str) -> None:
    written = dump(once := scenario(first, "{kind: router, remark: {af11: le, any: be}}"))
    assert parse(written) == once


def test_the_schema_knows_all_three_forms() -> None:
    validator = Draft202012Validator(json_schema())

    def valid(first: str) -> bool:
        text = LINE.format(first=first, r2="router", unused="")
        return bool(validator.is_valid(yaml.safe_load(text)))

    assert all(map(valid, ("clear", "{cs1: be, any: 10}", WEB_IS_GOLD, LISTED)))
    assert not any(map(valid, ("{}", "[]", "cleared", "{cs1: cs9}", "[{dscp: be}]")))


def test_a_class_for_what_nothing_is_marked_as_is_refused() -> None:
    with pytest.raises(ScenarioError, match="gold: matches no packet"):
        parse(LINE.format(first="{ef: le}", r2="router", unused=""))
