"""`perhop lint`: files of any kind, its formats and its exit codes."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import jsonschema
import pytest
from click.testing import CliRunner

from lint_cases import At
from perhop import ScenarioError, UsageError
from perhop.cli.lint import lint as command
from perhop.routers.lint import (
    RULES,
    Finding,
    as_github,
    as_json,
    as_sarif,
    as_text,
    attached_policies,
    check,
    lint,
    reference,
    rule,
)
from perhop.routers.lint.exactness import inexact_places
from perhop.routers.lint.findings import Settings
from perhop.routers.lint.tcp import Simulations
from perhop.routers.reading import Configuration, Line, Place, Source, Treatment
from perhop.scenario import Police
from perhop.units import MILLISECOND

SCENARIO = """\
perhop: 1
name: branch
nodes: {office: host, edge: router, center: router, server: host}
links:
  - {ends: [office, edge], rate: 1 Gbps, delay: 1 ms}
  - {ends: [edge, center], rate: 10 Mbps, delay: 24 ms, egress: {edge: wan, center: back}}
  - {ends: [center, server], rate: 1 Gbps}
policies:
  wan:
    classes:
      voice: {match: {dscp: ef}, priority: strict}
      rest:
        match: any
        policy: inner
  inner:
    classes:
      web:
        match: {port: 80}
        queue: {limit: 30 packets, wred: {}}
      other: {match: any}
  back:
    classes:
      data: {match: {dscp: af21}, unused: true}
      rest: {match: any}
flows:
  call: {from: office, to: server, dscp: ef, udp: {rate: 64 kbps, size: 160 B}}
  page: {from: office, to: server, port: 80, tcp: {}}
duration: 10 s
"""


def judged(text: str, **given: Any) -> list[tuple[str, int]]:
    return [(f.rule.name, f.place.line) for f in lint([Source("x.yaml", text)], **given)]


def test_scenarios_are_judged_with_their_lines() -> None:
    found = judged(SCENARIO)
    assert found == [
        ("unlimited-priority", 11),
        ("one-way-class", 11),
        ("wred-thresholds", 19),  # in a policy that divides a class of another
        ("one-way-class", 23),
    ]
    assert judged(SCENARIO, ignore=["one-way-class", "wred-thresholds"]) == [
        ("unlimited-priority", 11)
    ]


def test_comments_switch_rules_off() -> None:
    text = f"# perhop-lint: ignore one-way-class, wred-thresholds\n{SCENARIO}"
    assert judged(text) == [("unlimited-priority", 12)]
    with pytest.raises(UsageError, match=r"x\.yaml:2: `one-way` is not a rule; did you mean"):
        judged(f"\n# perhop-lint: ignore one-way\n{SCENARIO}")


def test_policers_are_judged_by_the_round_trip_times_of_a_scenario() -> None:
    text = SCENARIO.replace("rest: {match: any}", "rest: {match: any, police: POLICE}")
    police = "{rate: 2 Mbps, burst: 12 kB}"  # 48 ms of the rate: one round-trip time
    text = text.replace("POLICE", police)
    assert ("tcp-burst", 24) not in judged(text)
    assert ("tcp-burst", 24) in judged(text, rtts=[200 * MILLISECOND])


def test_invalid_scenarios_are_refused_with_their_place() -> None:
    with pytest.raises(ScenarioError, match=r"x\.yaml:6:34: links\.1\.rate: "):
        judged(SCENARIO.replace("rate: 10 Mbps", "rate: 10"))


def test_the_gallery_has_no_findings() -> None:
    assert lint(["qbss-1-70"]) == []


def test_a_burst_of_two_round_trips_is_enough_for_tcp() -> None:
    # What the remedy of the rule says, for a thin and for a fast policer.
    for rate, rtt in ((10**6, 100), (50 * 10**6, 20)):
        simulations = Simulations()
        burst = max(2 * rate * rtt // 8000, 30_000)
        for share, factor in ((1.0, 0.75), (0.1, 0.0)):
            police = Police.model_validate(
                {"rate": f"{rate} bps", "burst": f"{int(burst * share)} B"}
            )
            goodput = simulations.goodput(police, rate, 10 * rate, rtt * MILLISECOND)
            assert goodput is not None
            assert (goodput >= factor * rate) and (share == 1.0 or goodput < 0.75 * rate)


def test_simulations_end_at_their_limit() -> None:
    police = Police.model_validate({"rate": "10 Gbps", "burst": "10 kB"})
    assert Simulations().goodput(police, 10**10, 10**11, 10 * MILLISECOND) is None


# Classes that are not known exactly

IOS = """\
class-map match-all WEB
 match protocol http
 match ip dscp af21
class-map match-all LIST
 match access-group name HOSTS
class-map match-all PLAIN
 match ip dscp af22
ip access-list extended HOSTS
 permit tcp any any established
class-map match-any system-cpp-police-data
 description conditions of the system
policy-map WAN
 class WEB
 class LIST
 class PLAIN
 class system-cpp-police-data
"""


def test_classes_that_depend_on_lines_that_are_not_modelled_are_not_exact() -> None:
    text = Source("r.cfg", IOS)

    def inexact(family: str, *numbers: int) -> list[int] | None:
        lines = tuple(
            Line(Place("r.cfg", n), IOS.splitlines()[n - 1].strip(), Treatment.NOT_MODELLED)
            for n in numbers
        )
        found = inexact_places(Configuration(family, lines), [text])
        return None if found is None else sorted(place.line for place in found)

    assert inexact("ios") == [16]
    assert inexact("ios", 2) == [13, 16]
    assert inexact("ios", 9) == [14, 16]
    assert inexact("junos") == []
    assert inexact("junos", 9) is None


def test_nothing_is_said_about_classes_that_are_not_exact() -> None:
    at = At(
        "  all: {match: {dscp: [af21, af22]}}\n  some: {match: {dscp: af21}}\n  rest: {match: any}"
    )
    attachment = at.attachment("x.cfg")
    configuration = Configuration("ios", (), (), (attachment,))
    for inexact, count in (
        (frozenset[Place](), 1),
        (frozenset({attachment.place(("classes", "all"))}), 0),
        (frozenset({attachment.place(("classes", "some"))}), 0),
        (None, 0),
    ):
        policies = list(attached_policies(configuration, inexact=inexact))
        assert len(check(policies, Settings())) == count


# Formats

STRANGE = Finding(
    RULES["shadowed-class"], Place("a,b:c/100%.cfg", 7), "class `x\r\ny` gets 50%", "move\nit"
)
PLAIN = Finding(RULES["wred-thresholds"], Place("r 1.cfg", 0), "whole file", "see there")


def test_text_has_a_line_for_each_finding() -> None:
    assert as_text([STRANGE, PLAIN]).splitlines() == [
        "a,b:c/100%.cfg:7: error: class `x\\r\\ny` gets 50% [shadowed-class]",
        "    fix: move\\nit",
        "r 1.cfg: warning: whole file [wred-thresholds]",
        "    fix: see there",
        "1 error, 1 warning",
    ]
    assert as_text([]) == "no findings"


def test_commands_of_github_are_escaped() -> None:
    assert as_github([STRANGE, PLAIN]).splitlines() == [
        "::error file=a%2Cb%3Ac/100%25.cfg,line=7,title=shadowed-class::"
        r"class `x\r\ny` gets 50%25%0Afix: move\nit",
        "::warning file=r 1.cfg,line=1,title=wred-thresholds::whole file%0Afix: see there",
    ]
    assert as_github([]) == ""


def test_json_has_all_fields() -> None:
    found = json.loads(as_json([STRANGE]))
    assert found["counts"] == {"error": 1, "warning": 0, "note": 0}
    assert found["findings"] == [
        {
            "rule": "shadowed-class",
            "severity": "error",
            "file": "a,b:c/100%.cfg",
            "line": 7,
            "message": "class `x\r\ny` gets 50%",
            "fix": "move\nit",
        }
    ]


MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"enum": ["2.1.0"]},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool"],
                "additionalProperties": False,
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "name": {"type": "string"},
                                    "version": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {"$ref": "#/$defs/reportingDescriptor"},
                                    },
                                },
                            }
                        },
                    },
                    "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
                },
            },
        },
    },
    "$defs": {
        "level": {"enum": ["none", "note", "warning", "error"]},
        "reportingDescriptor": {
            "type": "object",
            "required": ["id"],
            "additionalProperties": False,
            "properties": {
                "id": {"type": "string"},
                "shortDescription": MESSAGE,
                "fullDescription": MESSAGE,
                "help": MESSAGE,
                "defaultConfiguration": {
                    "type": "object",
                    "properties": {"level": {"$ref": "#/$defs/level"}},
                },
            },
        },
        "result": {
            "type": "object",
            "required": ["message"],
            "additionalProperties": False,
            "properties": {
                "ruleId": {"type": "string"},
                "ruleIndex": {"type": "integer", "minimum": -1},
                "level": {"$ref": "#/$defs/level"},
                "message": MESSAGE,
                "locations": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["physicalLocation"],
                        "properties": {
                            "physicalLocation": {
                                "type": "object",
                                "required": ["artifactLocation"],
                                "additionalProperties": False,
                                "properties": {
                                    "artifactLocation": {
                                        "type": "object",
                                        "properties": {
                                            "uri": {"type": "string", "format": "uri-reference"}
                                        },
                                    },
                                    "region": {
                                        "type": "object",
                                        "properties": {
                                            "startLine": {"type": "integer", "minimum": 1}
                                        },
                                    },
                                },
                            }
                        },
                    },
                },
            },
        },
    },
}
"""The parts of the schema of SARIF 2.1.0 (OASIS, sarif-schema-2.1.0.json) that logs here have."""


def test_logs_have_the_structure_of_sarif() -> None:
    absolute = Finding(RULES["tcp-burst"], Place("/etc/r 1.cfg", 3), "x", "y")
    log = json.loads(as_sarif([STRANGE, PLAIN, absolute], "1.2.3"))
    jsonschema.validate(log, SARIF)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert {each["id"] for each in rules} == set(RULES)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert rules[result["ruleIndex"]]["defaultConfiguration"]["level"] == result["level"]
    uris = [
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for result in run["results"]
    ]
    assert uris == ["./a%2Cb%3Ac/100%25.cfg", "./r%201.cfg", "file:///etc/r%201.cfg"]
    assert [urlparse(uri).scheme for uri in uris] == ["", "", "file"]


# The command


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.output


def test_the_exit_code_tells_of_findings(tmp_path: Path) -> None:
    file = tmp_path / "branch.yaml"
    file.write_text(SCENARIO, "utf-8")
    assert run(str(file))[0] == 0  # no errors
    assert run(str(file), "--fail-on", "warning")[0] == 1
    assert run(str(file), "--fail-on", "warning", "--ignore", "unlimited-priority")[0] == 1
    code, output = run(str(file), "--fail-on", "never", "--json")
    assert code == 0
    assert json.loads(output)["counts"] == {"error": 0, "warning": 2, "note": 2}
    noted = ["--ignore", "unlimited-priority", "--ignore", "wred-thresholds"]
    assert run(str(file), "--fail-on", "warning", *noted)[0] == 0
    assert run(str(file), "--fail-on", "note", *noted)[0] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a configuration or a scenario"),
        (["no-such-file.cfg"], r"no-such-file\.cfg: cannot be read"),
        (["qbss-1-70", "--rtt", "20"], "--rtt: .*needs a unit"),
        (
            ["qbss-1-70", "--rtt", "0 ms"],
            "--rtt: is zero; expected a round-trip time such as .20 ms.",
        ),
        (["qbss-1-70", "--ignore", "tcp-bursts"], "`tcp-bursts` is not a rule; did you mean `tcp"),
        (["qbss-1-70", "--untrusted", "Gi0/7"], "no file names such an interface"),
    ],
)
def test_wrong_arguments_are_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(*arguments)


def test_the_documentation_has_the_reference_of_all_rules() -> None:
    page = (Path(__file__).parent.parent / "docs" / "lint.md").read_text("utf-8")
    assert page.endswith(f"\n{reference()}")
    assert run("--rules") == (0, f"{reference()}\n")


def test_an_unknown_rule_has_a_hint() -> None:
    with pytest.raises(UsageError, match=r"`x` is not a rule; expected one of empty-class, "):
        rule("x")


# What readers know


def of(text: str) -> list[tuple[str, int]]:
    return [(each.rule.name, each.place.line) for each in lint([Source("r.cfg", text)])]


PORT = """\
class-map match-any VOICE
 match dscp ef
policy-map QUEUES
 class VOICE
  priority percent 10
policy-map SHAPED
 class class-default
  shape average 10000000
  service-policy QUEUES
interface {}
 bandwidth 10000
 {}
 service-policy output {}
"""


@pytest.mark.parametrize(
    ("port", "speed", "policy", "faulty"),
    [
        ("GigabitEthernet0/1", "", "QUEUES", True),
        ("GigabitEthernet0/1", "speed 100", "QUEUES", True),
        ("GigabitEthernet0/1", "speed 10", "QUEUES", False),
        ("GigabitEthernet0/1", "", "SHAPED", False),
        ("Serial0/1", "", "QUEUES", False),
        ("Ethernet0/1", "", "QUEUES", False),
    ],
)
def test_queues_at_a_port_that_sends_faster_than_its_bandwidth(
    port: str, speed: str, policy: str, faulty: bool
) -> None:
    found = of(PORT.format(port, speed, policy))
    assert (("queue-without-congestion", 11) in found) == faulty


def test_queues_at_an_input_are_refused() -> None:
    text = "policy-map P\n class class-default\n  {}\ninterface Gi0/1\n service-policy {} P\n"
    for line in ("bandwidth percent 10", "queue-limit 100 packets", "shape average 1000000"):
        assert ("refused-line", 5) in of(text.format(line, "input"))
        assert ("refused-line", 5) not in of(text.format(line, "output"))
    assert ("refused-line", 5) not in of(text.format("police 1000000", "input"))


def test_a_class_of_vyos_without_a_ceiling() -> None:
    text = """\
set interfaces ethernet eth0 address 192.0.2.1/24
set qos interface eth0 egress W
set qos policy shaper W bandwidth 10mbit
set qos policy shaper W default bandwidth 50%
set qos policy shaper W class 10 bandwidth 2mbit
set qos policy shaper W class 10 match A ip dscp EF
"""
    assert "no-ceiling" in {name for name, _ in of(text)}
    borrows = text + "set qos policy shaper W class 10 ceiling 100%\n"
    assert "no-ceiling" not in {name for name, _ in of(borrows)}


def test_pf_refuses_queues_without_a_default_one() -> None:
    text = "queue main on em0 bandwidth 10M\nqueue a parent main bandwidth 5M{}\n"
    rule = "pass out on em0 set queue a\n"
    assert ("refused-line", 1) in of(text.format("") + rule)
    assert "refused-line" not in {name for name, _ in of(text.format(" default") + rule)}


HTB = """\
tc qdisc add dev eth0 root handle 1: htb default 20
tc class add dev eth0 parent 1: classid 1:1 htb rate 10mbit
tc class add dev eth0 parent {} classid 1:10 htb rate 1mbit ceil {} prio {}
tc class add dev eth0 parent 1:1 classid 1:20 htb rate 2mbit ceil 10mbit
tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dport 80 0xffff flowid 1:10
"""


@pytest.mark.parametrize(
    ("parent", "ceil", "prio", "faulty"),
    [
        ("1:1", "10mbit", 7, False),
        ("1:1", "10mbit", 8, True),  # Linux, htb_change_class: TC_HTB_NUMPRIO is 8
        ("1:", "10mbit", 0, True),  # nobody lends to a class without a parent
        ("1:", "1mbit", 0, False),
    ],
)
def test_lines_of_htb_that_do_nothing(parent: str, ceil: str, prio: int, faulty: bool) -> None:
    found = of(HTB.format(parent, ceil, prio))
    assert (("line-without-effect", 3) in found) == faulty


def test_a_filter_of_junos_without_a_last_term() -> None:
    text = """\
firewall { family inet { filter F {
term web {
from { protocol tcp; destination-port 80; }
then { policer P; accept; }
}
%s
} }
policer P { if-exceeding { bandwidth-limit 10m; burst-size-limit 100k; } then discard; }
}
interfaces { ge-0/0/0 { unit 0 { family inet { filter { input F; } } } } }
"""
    assert ("implicit-discard", 1) in of(text % "")
    assert "implicit-discard" not in {name for name, _ in of(text % "term rest { then accept; }")}
    assert "implicit-discard" not in {name for name, _ in of(text % "term rest { then discard; }")}


def test_shares_of_hfsc_are_weights() -> None:
    text = """\
tc qdisc add dev eth0 root handle 1: hfsc default 20
tc class add dev eth0 parent 1: classid 1:1 hfsc ls rate 5mbit ul rate 5mbit
tc class add dev eth0 parent 1:1 classid 1:10 hfsc rt rate {} ls rate 5mbit
tc class add dev eth0 parent 1:1 classid 1:20 hfsc {} rate 4500kbit
tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dport 80 0xffff flowid 1:10
"""
    errors = {"children-above-parent", "guarantees-above-capacity"}
    assert not errors & {name for name, _ in of(text.format("500kbit", "ls"))}
    assert not errors & {name for name, _ in of(text.format("500kbit", "rt"))}


def test_a_match_at_layer_2_that_another_takes() -> None:
    text = """\
class-map match-any A
 match cos {}
class-map match-any B
 match cos 5
policy-map P
 class A
  bandwidth percent 10
 class B
  bandwidth percent 10
interface GigabitEthernet0/1
 service-policy output P
"""
    assert ("shadowed-class", 8) in of(text.format("5 6"))
    assert "shadowed-class" not in {name for name, _ in of(text.format("4 6"))}
