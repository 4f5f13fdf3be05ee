"""Classes at layer 2 in configurations of routers: VLAN priorities and MPLS traffic classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import perhop
from exporting import refused, scenario
from ios import policy, runs, treatments
from junos import attachment, notes
from perhop import ScenarioError, analysis
from perhop.routers.headers import DSCP, headers, link_class
from perhop.routers.reading.matching import Conditions, Packet, Rules
from perhop.routers.scenario import build
from test_routers_junos import accounted
from test_routers_roundtrip import read_again

if TYPE_CHECKING:
    from pathlib import Path

IOS = """\
class-map match-any VOICE
 match cos 5
 match ip dscp ef
class-map match-all VIDEO
 match cos 3 4
 match not dscp cs4
class-map match-any CORE
 match mpls experimental topmost 1 2
 match mpls experimental 6
class-map match-all INNER
 match cos inner 3
class-map match-any SEVERAL
 match cos 0-1,7
policy-map WAN
 class VOICE
  priority percent 20
  set cos 5
 class VIDEO
  bandwidth percent 30
  set cos 4
  set dscp af41
 class CORE
  bandwidth percent 5
  set mpls experimental topmost 6
 class SEVERAL
  bandwidth percent 5
  set mpls experimental imposition 1
  set cos-inner 3
 class class-default
  set cos 0
policy-map IN
 class VOICE
  set cos 6
  set dscp ef
interface GigabitEthernet0/1
 bandwidth 10000
 service-policy output WAN
 service-policy input IN
"""


def classes() -> dict[str, Any]:
    found = policy(IOS, "GigabitEthernet0/1")
    runs(found)
    return dict(found.policy["classes"])


def test_ios_matches_and_marks_are_read() -> None:
    found = classes()
    assert [found[name]["match"] for name in ("VOICE", "VIDEO", "CORE", "SEVERAL")] == [
        [{"pcp": 5}, {"dscp": "ef", "ip": 4}],
        [{"except": {"dscp": "cs4", "pcp": [3, 4]}}, {"pcp": [3, 4]}],
        {"mpls_tc": [1, 2, 6]},
        {"pcp": [0, 1, 7]},
    ]
    assert [each.get("mark") for each in found.values()] == [
        {"pcp": 5},
        {"dscp": "af41", "pcp": 4},
        {"mpls_tc": 6},
        {"mpls_tc": 1},
        {"pcp": 0},
    ]


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("match cos inner 3", "the inner of two VLAN tags is not looked at"),
        ("match cos 8", "expected values from 0 to 7"),
        ("match cos 3 9", "expected values from 0 to 7"),
        ("match mpls experimental topmost x", "expected values from 0 to 7"),
        ("match mpls label 30", "of MPLS labels, perhop reads the traffic class only"),
    ],
)
def test_other_matches_say_why_not(line: str, note: str) -> None:
    text = "class-map match-any A\n {}\npolicy-map P\n class A\n  bandwidth percent 10\n"
    interface = "interface GigabitEthernet0/1\n service-policy output P\n"
    assert treatments(text.format(line) + interface)[line] == ("not modelled", note)


def test_marks_of_packets_that_arrive_and_of_inner_tags_say_why_not() -> None:
    found = treatments(IOS)
    assert found["set cos-inner 3"][1] == "the inner of two VLAN tags has no mark"
    note = "of packets that arrive, only the DSCP is marked"
    assert found["set cos 6"] == ("not modelled", note)


WRITTEN = [
    ("a: match: {pcp: [1, 2, 3, 4, 5]}, mark: {pcp: 6}", "b: match: any, mark: {mpls_tc: 2}"),
    ("a: match: {mpls_tc: [0, 7]}, mark: {dscp: af11, mpls_tc: 1, pcp: 1}", "b: match: any"),
    ("a: match: [{pcp: 2}, {dscp: [ef, cs1]}, {mpls_tc: 3}]", "b: match: any"),
    ("a: match: {pcp: [2, 3], dscp: ef}", "b: match: {pcp: 2}", "c: match: any"),
]
OF_JUNOS = [
    (
        "a: match: {pcp: 1, protocol: tcp}",
        "b: match: {pcp: [0, 1]}, mark: {pcp: 0}",
        "c: match: any",
    ),
    ("a: match: [{except: {dscp: ef}}, {pcp: 1}]", "b: match: {dscp: cs1}", "c: match: any"),
    ("a: match: [{except: {pcp: 5}}, {dscp: ef}]", "b: match: {pcp: 5}", "c: match: any"),
    (
        "a: match: {pcp: 1}",
        "b: match: {pcp: [1, 2], port: 80}",
        "c: match: {pcp: [2, 3, 4], dscp: [cs1, ef]}",
        "d: match: {mpls_tc: 1}",
        "e: match: any",
    ),
]


@pytest.mark.parametrize(
    ("family", "lines"),
    [("ios", lines) for lines in WRITTEN] + [("junos", lines) for lines in WRITTEN + OF_JUNOS],
)
def test_classes_are_written_as_they_are_read(family: str, lines: tuple[str, ...]) -> None:
    limit = "50 packets" if family == "ios" else "20 kB"
    queued = [f"{line}, bandwidth: 18%, queue: {{limit: {limit}}}" for line in lines]
    assert read_again(family, scenario(*queued)) == []


CLASS = st.one_of(
    *(
        st.sets(st.integers(0, 7), min_size=1).map(lambda codes, key=key: f"{key}: {sorted(codes)}")
        for key in ("pcp", "mpls_tc")
    )
)
MATCH = st.tuples(CLASS, st.sampled_from(["", ", dscp: [ef, cs1]", ", protocol: tcp"]))


@settings(max_examples=20)
@given(
    st.lists(st.lists(MATCH, min_size=1, max_size=2), min_size=1, max_size=3),
    st.lists(st.sampled_from(["", ", mark: {pcp: 3}", ", mark: {mpls_tc: 0}"]), min_size=3),
)
def test_any_policy_of_tags_and_labels_is_written_as_it_is_read(
    matches: list[list[tuple[str, str]]], marks: list[str]
) -> None:
    lines = []
    for name, given_, mark in zip("abc", matches, marks, strict=False):
        listed = ", ".join(f"{{{code}{more}}}" for code, more in given_)
        lines.append(f"{name}: match: [{listed}]{mark}")
    queued = [
        f"{line}, bandwidth: 20%, queue: {{limit: 20 kB}}" for line in (*lines, "d: match: any")
    ]
    found = scenario(*queued)
    reasons = {reason.split(";")[0] for reason in refused(found, "junos").values()}
    assume(not reasons & {"no packet meets it"})
    if reasons:
        assert reasons == {TOO_FEW}
        return
    try:
        assert read_again("junos", found) == []
    except ScenarioError as error:
        assume("all that it matches" not in str(error))
        raise


TOO_FEW = "Junos tells tags and labels apart by forwarding classes, of which it has too few"


def test_what_junos_cannot_match_is_a_gap() -> None:
    each = ", ".join(f"{{pcp: {code}, dscp: {code}}}" for code in range(8))
    found = refused(scenario(f"a: match: [{each}]", "b: match: any"), "junos")
    assert found["policies.p.classes.a.match"] == TOO_FEW
    remark = ", remark: {r: [{match: {pcp: 1}, dscp: ef}]}"
    found = refused(scenario("b: match: any", link=remark), "junos")
    said = "filters of Junos at inputs see neither VLAN tags nor MPLS labels"
    assert found["links.1.remark.r.0.match"] == said


def test_what_ios_cannot_match_is_a_gap() -> None:
    for match in (
        "{pcp: 1, protocol: tcp}",
        "[{except: {dscp: ef}}, {pcp: 1}]",
        "{pcp: [0, 1, 2, 3, 4], dscp: ef}",
    ):
        found = refused(scenario(f"a: match: {match}, bandwidth: 20%", "b: match: any"), "ios")
        assert (
            "IOS matches classes at layer 2 beside DSCPs only"
            in found["policies.p.classes.a.match"]
        )


def test_flows_arrive_with_the_classes_that_a_policy_matches(tmp_path: Path) -> None:
    file = tmp_path / "edge.cfg"
    file.write_text(IOS)
    found = build([file], direction="out").scenario()
    encapsulations = [each.encapsulation for each in found.links]
    assert [each.kind if each else None for each in encapsulations] == ["dot1q", "dot1q", None]
    assert found.flows["VIDEO"].dscp >> 3 in (3, 4)
    # A host has tags or labels: no flow has the class of labels.
    assert "CORE" not in found.flows
    short = {"flows.VOICE.start": "0 s", "duration": "1 s", "flows.VOICE.stop": "1 s"}
    loaded = build([file], direction="out").scenario([f"{k}={v}" for k, v in short.items()])
    sent = analysis.class_counters(perhop.run(loaded)).filter(link="edge>next")
    packets = dict(sent.select("class", "sent_packets").iter_rows())
    assert packets["VOICE"] > 100
    assert packets["VIDEO"] > 100
    assert packets["CORE"] == 0


def test_headers_have_the_tags_of_their_dscp() -> None:
    policy = {
        "classes": {
            "a": {"match": {"dscp": "ef", "pcp": 5}},
            "b": {"match": {"dscp": "ef"}},
            "c": {"match": {"pcp": [5, 6]}},
            "d": {"match": {"pcp": 3, "mpls_tc": 3}},
            "e": {"match": "any"},
        }
    }
    found = headers(policy)
    assert link_class(policy) == "pcp"
    points = {path[-1]: None if each is None else each.box[DSCP] for path, each in found.items()}
    assert points == {
        "a": ((46, 46),),
        "b": None,  # ef is sent with 5
        "c": ((40, 45), (47, 47)),
        "d": None,
        "e": ((0, 7),),
    }


def test_conditions_of_tags_and_labels_exclude_each_other() -> None:
    tag, label = (Conditions(**{key: frozenset({3})}) for key in ("pcp", "mpls_tc"))  # type: ignore[arg-type]
    assert (tag & label).is_never
    assert tag.disjoint(label)
    others = ~Rules.of(tag)
    packets = [Packet(), Packet(pcp=3), Packet(pcp=2), Packet(mpls_tc=3)]
    assert [others.matches(each) for each in packets] == [True, False, True, True]
    assert (Rules.of(tag) | others).is_any


JUNOS = """\
class-of-service {
    code-point-aliases {
        ieee-802.1 { video 011; }
    }
    classifiers {
        ieee-802.1 vlan {
            forwarding-class voice { loss-priority low code-points [ 101 110 ]; }
            forwarding-class bulk { loss-priority high code-points video; }
        }
        exp labels {
            import default;
            forwarding-class voice { loss-priority low code-points 101; }
        }
        dscp points {
            forwarding-class voice { loss-priority low code-points ef; }
        }
        ieee-802.1ad outer {
            forwarding-class voice { loss-priority low code-points 1010; }
        }
    }
    rewrite-rules {
        ieee-802.1 out {
            forwarding-class voice { loss-priority low code-point 110; }
            forwarding-class bulk {
                loss-priority low code-point be1;
                loss-priority high code-point 000;
            }
        }
        exp labels-out {
            import default;
        }
    }
    forwarding-classes {
        class voice queue-num 1;
        class bulk queue-num 2;
    }
    scheduler-maps {
        wan {
            forwarding-class voice scheduler v;
            forwarding-class bulk scheduler b;
            forwarding-class best-effort scheduler r;
        }
    }
    schedulers {
        v { transmit-rate percent 20; priority high; }
        b { transmit-rate percent 10; }
        r { transmit-rate percent 70; }
    }
    interfaces {
        ge-0/0/0 { unit 0 { classifiers { INPUT } } }
        ge-0/0/1 {
            scheduler-map wan;
            unit 0 { rewrite-rules { OUTPUT } }
        }
    }
}
interfaces {
    ge-0/0/0 { unit 0 { family inet { address 10.0.0.1/24; } } }
    ge-0/0/1 { unit 0 { family inet { address 10.0.1.1/24; } } }
}
"""


def junos_text(given: str, rewritten: str = "") -> str:
    return JUNOS.replace("INPUT", given).replace("OUTPUT", rewritten)


def junos_classes(given: str, rewritten: str = "") -> dict[str, Any]:
    found = attachment(junos_text(given, rewritten), "ge-0/0/1")
    runs(found)
    return dict(found.policy["classes"])


def test_junos_classifiers_of_tags_come_before_the_default_of_ip() -> None:
    found = junos_classes("ieee-802.1 vlan;")
    assert found["voice"]["match"] == {"pcp": [5, 6]}
    assert found["bulk"]["match"] == {"pcp": 3}
    assert list(found)[-1] == "best-effort"
    # Packets without a tag go by the precedence: `ipprec-compatibility`.
    *tagged, points = found["network-control"]["match"]
    assert sorted(code for each in tagged for code in each["except"]["pcp"]) == [0, 1, 2, 4, 7]
    assert points["dscp"][0] == "cs6"


def test_junos_labels_have_a_classifier_beside_that_of_ip() -> None:
    found = junos_classes("dscp points; exp labels;")
    assert found["voice"]["match"] == [
        {"except": {"mpls_tc": [0, 1]}},
        {"mpls_tc": [2, 3, 5]},
        {"except": {"mpls_tc": [4, 6, 7]}},
        {"dscp": "ef"},
    ]
    # The default: assured forwarding is the class in queue 2.
    assert found["bulk"]["match"] == {"mpls_tc": 4}


def test_junos_rewrite_rules_mark_tags_and_labels() -> None:
    found = junos_classes("ieee-802.1 vlan;", "ieee-802.1 out; exp labels-out;")
    assert found["voice"]["mark"] == {"pcp": 6, "mpls_tc": 2}
    assert found["bulk"]["mark"] == {"pcp": 1, "mpls_tc": 4}
    notes_ = notes(junos_text("ieee-802.1 vlan;", "ieee-802.1 out; exp labels-out;"))
    line = next(n for n, text in enumerate(JUNOS.splitlines(), 1) if "OUTPUT" in text)
    assert notes_[line][1] == "the packets of a class get one value: that of low loss priority"


def test_junos_says_what_it_leaves_out() -> None:
    found = notes(junos_text("dscp points; ieee-802.1 vlan; ieee-802.1ad outer;"))
    line = next(n for n, text in enumerate(JUNOS.splitlines(), 1) if "INPUT" in text)
    assert "packets of IP are classified by `dscp points`" in found[line][1]
    assert "the drop eligibility of VLAN tags is not modelled" in found[line][1]


@pytest.mark.parametrize("given", ["ieee-802.1 vlan;", "ieee-802.1 default;", "exp none;"])
def test_every_line_of_junos_is_accounted_for(given: str) -> None:
    accounted(junos_text(given, "ieee-802.1 default; exp labels-out;"))
