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
        "class `x%0D%0Ay` gets 50%25%0Afix: move%0Ait",
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
