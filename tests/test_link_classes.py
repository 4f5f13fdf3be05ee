"""VLAN tags and MPLS labels: classes that packets carry from node to node, apart from the DSCP."""

import pytest
import yaml
from jsonschema import Draft202012Validator

import perhop
from conftest import SLOW
from perhop import analysis
from perhop.engines.plan import network_plan
from perhop.errors import ScenarioError, UnsupportedError
from perhop.linux import mapping
from perhop.linux.gaps import refuse
from perhop.routers.writing import write
from perhop.scenario import Scenario, dump, json_schema, parse
from perhop.scenario.rules.warnings import warnings

# Two flows with equal DSCPs: the first router tells them apart by port, and later ones by class.
LINE = """
perhop: 1
name: line
nodes: {a: host, r1: router, r2: router, r3: router, b: host}
links:
  - {ends: [a, r1], rate: 100 Mbps}
  - {ends: [r1, r2], rate: 100 Mbps, overhead: ethernet, FIRST, egress: {r1: edge}}
  - {ends: [r2, r3], rate: 100 Mbps, SECOND, egress: {r2: core}}
  - {ends: [r3, b], rate: 100 Mbps, egress: {r3: core}}
policies:
  edge:
    classes:
      marked: {match: {destination_port: 5001}, MARK}
      rest: {match: any}
  core:
    classes:
      pcp: {match: {pcp: 6}, unused: true}
      tc: {match: {mpls_tc: 6}, unused: true}
      default: {match: [{pcp: 5}, {mpls_tc: 5}], unused: true}
      rest: {match: any}
flows:
  one: {from: a, to: b, dscp: ef, udp: {rate: 1 Mbps, size: 100 B}, volume: 1 kB}
  two: {from: a, to: b, dscp: ef, udp: {rate: 1 Mbps, size: 100 B}, volume: 2 kB}
duration: 1 s
"""

VLAN, MPLS, NONE = "encapsulation: dot1q", "encapsulation: mpls", "delay: 0 s"


def line(first: str, second: str, mark: str = "mark: {pcp: 6, mpls_tc: 6}") -> Scenario:
    return parse(LINE.replace("FIRST", first).replace("SECOND", second).replace("MARK", mark))


def classes(scenario: Scenario) -> dict[str, dict[str, int]]:
    """Return the packets that each class of `core` has sent towards b, by link."""
    counters = analysis.class_counters(perhop.run(scenario))
    found: dict[str, dict[str, int]] = {}
    for row in counters.iter_rows(named=True):
        if row["link"] in ("r2>r3", "r3>b") and row["sent_packets"]:
            found.setdefault(row["link"], {})[row["class"]] = row["sent_packets"]
    return found


@pytest.mark.parametrize(
    ("first", "second", "at_r2", "at_r3"),
    [
        # The mark holds for a link, and like links after it; without a mark, EF has precedence 5.
        (VLAN, VLAN, {"pcp": 10, "default": 20}, {"pcp": 10, "default": 20}),
        (MPLS, MPLS, {"tc": 10, "default": 20}, {"tc": 10, "default": 20}),
        # Another encapsulation begins with the precedence.
        (VLAN, MPLS, {"pcp": 10, "default": 20}, {"default": 30}),
        # A link without loses the class.
        (VLAN, NONE, {"pcp": 10, "default": 20}, {"rest": 30}),
        (NONE, VLAN, {"rest": 30}, {"default": 30}),
        (NONE, NONE, {"rest": 30}, {"rest": 30}),
    ],
)
def test_a_class_lasts_as_far_as_its_tags(
    first: str, second: str, at_r2: dict[str, int], at_r3: dict[str, int]
) -> None:
    assert classes(line(first, second)) == {"r2>r3": at_r2, "r3>b": at_r3}


def test_a_class_is_mapped_back_to_a_dscp() -> None:
    scenario = line(VLAN + ", remark: {r2: [{match: {pcp: 6}, dscp: af11}]}", NONE)
    found = analysis.codepoints(perhop.run(scenario), "one").filter(node="b")
    assert set(found["dscp_arrived"]) == {10}


def test_tags_and_labels_take_four_bytes_each() -> None:
    def overhead(encapsulation: str) -> object:
        return network_plan(line(encapsulation, NONE), 1)["links"][1]["ends"][0]["medium"][
            "overhead"
        ]

    assert [overhead(each) for each in (NONE, VLAN, MPLS, "encapsulation: {mpls: 3}")] == [
        {"fixed": size} for size in (38, 42, 42, 50)
    ]


@pytest.mark.parametrize("scheduler", ["wfq", "hfsc", "altq-cbq"])
def test_marks_of_nested_classes_add_up(scheduler: str) -> None:
    nested = "classes: {in: {match: any, mark: {pcp: 6}}}"
    scenario = line(VLAN, NONE, f"mark: af11, bandwidth: 50%, {nested}")
    policy = dump(scenario).replace("  edge:\n", f"  edge:\n    scheduler: {scheduler}\n")
    found = perhop.run(parse(policy))
    assert set(analysis.codepoints(found, "one").filter(node="b")["dscp_arrived"]) == {10}
    sent = analysis.class_counters(found).filter(link="r2>r3").rows_by_key("class", named=True)
    assert sent["pcp"][0]["sent_packets"] == 10


def test_targets_without_tags_refuse_them() -> None:
    scenario = line(VLAN, MPLS)
    reason = "perhop writes no matches or marks of VLAN tags and MPLS labels"
    places = {
        "policies.edge.classes.marked.mark.pcp",
        "policies.edge.classes.marked.mark.mpls_tc",
        "policies.core.classes.pcp.match.pcp",
        "policies.core.classes.default.match.1.mpls_tc",
    }
    for gaps in (mapping(scenario).gaps, write(scenario, "vyos")[1]):
        assert places <= {gap.path for gap in gaps if gap.reason == reason}
    with pytest.raises(UnsupportedError, match=reason):
        refuse(mapping(scenario).gaps, "line")


@SLOW
def test_the_forms_are_read_and_written() -> None:
    for form in ("dot1q", "mpls", "{dot1q: 2}", "{mpls: 4}"):
        scenario = line(f"encapsulation: {form}", NONE)
        assert parse(dump(scenario)) == scenario
        Draft202012Validator(json_schema()).validate(yaml.safe_load(dump(scenario)))


def test_effects_that_no_link_has_are_warned_of() -> None:
    places = {finding.loc[-1] for finding in warnings(line(VLAN, NONE))}
    assert places == {"mpls_tc"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("match: {pcp: 6}", "match: {pcp: 6, mpls_tc: 6}"), "none has a VLAN tag and MPLS labels"),
        (("overhead: ethernet", "overhead: atm"), "VLAN tags or MPLS labels in ATM cells"),
        (("pcp: 6, mpls_tc", "pcp: 8, mpls_tc"), "out of range; expected 0 to 7"),
        (("encapsulation: dot1q", "encapsulation: dot1"), "expected `dot1q`, `mpls` or a mapping"),
        (("mark: {pcp: 6, mpls_tc: 6}", "mark: {}"), "marks nothing"),
    ],
)
def test_impossible_tags_are_refused(change: tuple[str, str], message: str) -> None:
    text = (
        LINE.replace("FIRST", VLAN)
        .replace("SECOND", NONE)
        .replace("MARK", "mark: {pcp: 6, mpls_tc: 6}")
    )
    assert change[0] in text
    with pytest.raises(ScenarioError, match=message):
        parse(text.replace(*change))
