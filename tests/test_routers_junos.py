"""Configurations of Junos as texts: both syntaxes, groups, the account of each line, damage."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from junos import (
    AS_COMMANDS,
    CLASSES,
    EDGE,
    GROUPS,
    OSCARS,
    SWITCH,
    attachment,
    notes,
    one,
    policy,
    reading,
)
from perhop.routers.reading.configuration import (
    Configuration,
    Line,
    Treatment,
)
from perhop.routers.reading.junos.tree import MAX_DEPTH

# Both syntaxes


@pytest.mark.parametrize("text", [EDGE, AS_COMMANDS])
def test_both_syntaxes_give_the_same_policy(text: str) -> None:
    found = attachment(text, "so-0/1/0")
    assert found.policy == {"classes": CLASSES}
    assert (found.name, found.rate, found.shape) == ("edge", None, None)
    assert not notes(text)


def test_values_have_the_line_that_states_them() -> None:
    found = attachment(EDGE, "so-0/1/0")
    lines = EDGE.split("\n")
    for loc, words in {
        (): "scheduler-map edge",
        ("classes", "assured-forwarding"): "scheduler af",
        ("classes", "assured-forwarding", "bandwidth"): "percent 20 exact",
        ("classes", "expedited-forwarding", "priority"): "strict-high",
        ("classes", "network-control", "bandwidth"): "percent 5",
    }.items():
        assert words in lines[found.place(loc).line - 1]


def test_parts_of_a_configuration_are_read_by_their_first_word() -> None:
    whole = "class-of-service { interfaces { ge-0/0/0 { scheduler-map m; } } }\n"
    parts = (
        "schedulers { s { transmit-rate percent 30; } }\n"
        "scheduler-maps { m { forwarding-class best-effort scheduler s; } }\n"
    )
    assert policy(whole + parts)["best-effort"]["bandwidth"] == "30%"
    shown = "u@r> show configuration class-of-service schedulers\ns { transmit-rate percent 40; }\n"
    shown += "u@r> show configuration class-of-service\nscheduler-maps { m {\n"
    shown += "forwarding-class best-effort scheduler s; } }\n[edit]\n"
    shown += "u@r# set class-of-service interfaces ge-0/0/0 scheduler-map m\n"
    assert policy(shown)["best-effort"]["bandwidth"] == "40%"


def test_inactive_and_deleted_statements_have_no_effect() -> None:
    text = AS_COMMANDS + "top\ndeactivate class-of-service schedulers nc transmit-rate\n"
    text += "delete class-of-service schedulers af buffer-size\n"
    found = policy(text, "so-0/1/0")
    assert "bandwidth" not in found["network-control"]
    assert found["assured-forwarding"]["queue"] == {"limit": "100 ms"}
    why = {note for _, note in notes(text).values()}
    assert {"inactive", "deleted by line 21"} <= why
    braces = EDGE.replace("nc { transmit-rate", "nc { inactive: transmit-rate")
    assert "bandwidth" not in policy(braces, "so-0/1/0")["network-control"]


def test_the_last_of_several_values_counts() -> None:
    text = AS_COMMANDS + "set schedulers nc transmit-rate percent 7\n"
    assert policy(text, "so-0/1/0")["network-control"]["bandwidth"] == "7%"
    assert notes(text)[15] == ("not modelled", "replaced by line 19")


# Groups


def test_groups_are_inherited_where_their_wildcards_match() -> None:
    found = {each.interface: each.name for each in reading(GROUPS).attachments}
    assert found == {"ge-0/0/0": "wide", "xe-0/0/0": "narrow", "ge-0/0/1": "narrow"}
    assert notes(GROUPS) == {
        10: ("not modelled", "nothing inherits it, or something else comes first")
    }


def test_groups_can_be_excepted() -> None:
    text = GROUPS.replace("ge-0/0/0 {", "ge-0/0/0 { apply-groups-except cos;")
    assert [each.name for each in reading(text).attachments if each.interface == "ge-0/0/0"] == [
        "default"
    ]


# Accounting


def accounted(text: str) -> None:
    """Every line inside a part about quality of service appears once."""
    found = reading(text)
    numbers = [line.place.line for line in found.lines]
    assert len(numbers) == len(set(numbers))
    assert numbers == sorted(numbers)
    for line in found.lines:
        assert line.text == text.split("\n")[line.place.line - 1].strip()
        assert bool(line.note) == (line.treatment is not Treatment.MODELLED)
    depth, about = 0, False
    for number, written in enumerate(text.split("\n"), 1):
        line = re.sub(r"/\*.*?\*/", "", written).strip()
        if depth == 0:
            about = bool(re.match(r"(set .*)?class-of-service", line))
        statement = re.sub(r"[{}\s;]", "", line)
        if about and statement and not line.startswith("#"):
            assert number in numbers, written
        depth += line.count("{") - line.count("}")


@pytest.mark.parametrize("text", [EDGE, AS_COMMANDS, GROUPS, SWITCH])
def test_every_line_is_accounted_for(text: str) -> None:
    accounted(text)


def test_unknown_and_unused_statements_say_why() -> None:
    found = {line: note for line, (_, note) in notes(SWITCH).items()}
    assert found[8] == "only statements that are not modelled use it"
    assert found[9] == "is no code point of 6 bits"
    assert found[13] == "priority flow control is not modelled"
    assert found[15] == "unknown statement"
    assert found[21] == "the configuration has no such forwarding class"
    assert found[22] == "the configuration has no such scheduler"
    assert found[29] == "unknown statement"
    assert found[31] == "no scheduler map uses it"
    assert not {1, 3, 4, 19, 20, 24, 25, 27} & found.keys()


def test_a_configuration_without_quality_of_service_has_no_lines() -> None:
    text = """\
system { host-name r1; }
interfaces { ge-0/0/0 { unit 0 { family inet { filter { input protect; } } } } }
firewall { family inet { filter protect { term a { from { port ssh; } then accept; } } } }
"""
    assert reading(text) == Configuration("junos", ())


def test_only_lines_about_quality_of_service_appear() -> None:
    text = """\
groups {
    g {
        interfaces { <ge-*> {
            mtu 9000;
            unit <*> { family inet {
                filter { input f; }
            } }
        } }
    }
}
interfaces {
    ge-0/0/0 {
        inactive: unit 0 {
            family inet {
                mtu 1400;
                filter { output f; }
                filter { input protect; }
            }
        }
    }
    interface-range r {
        member ge-0/0/1;
        unit 0 { family inet { policer { input p; } } }
    }
}
protocols {
    bgp { group x { type internal; } }
    mpls { label-switched-path x {
        to 192.0.2.1;
        policing filter f;
    } }
}
firewall { family inet {
    filter f { term a { then { dscp cs1; accept; } } }
    filter protect { term a { then accept; } }
} }
"""
    assert notes(text) == {
        6: ("not modelled", "nothing inherits it, or something else comes first"),
        16: ("not modelled", "inactive"),
        23: ("not modelled", "the configuration has no such policer"),
        30: ("not modelled", "label-switched paths are not modelled"),
    }
    assert [line.place.line for line in reading(text).lines] == [6, 16, 23, 30, 34]


# Hostile input

_WORDS = st.sampled_from(
    [
        *re.findall(r"[\w/.*<>:-]+|[{};\[\]]|\n", EDGE + GROUPS + OSCARS + SWITCH),
        *("{", "}", "[", "]", ";", '"', "/*", "*/", "#", "\n", "set", "delete", "inactive:", "<*>"),
    ]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_WORDS, max_size=120).map(" ".join))
def test_any_words_are_read(text: str) -> None:
    found = reading(text)
    assert all(isinstance(line, Line) for line in found.lines)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([EDGE, AS_COMMANDS, GROUPS, SWITCH, OSCARS]), st.data())
def test_damaged_configurations_are_read(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 40)))
        text = text[:start] + data.draw(_WORDS) + text[end:]
    for each in reading(text).attachments:
        assert list(each.policy["classes"].values())[-1]["match"] == "any"


def test_lines_between_statements_hide_none() -> None:
    commands = "!\nBuilding configuration\n" + AS_COMMANDS
    assert policy(commands, "so-0/1/0") == CLASSES
    braces = "Last login: Mon\n" + EDGE.replace("priority low;", "priority low")
    assert policy(braces, "so-0/1/0") == CLASSES
    unclosed = "class-of-service {\n    schedulers {\n" + AS_COMMANDS
    assert policy(unclosed, "so-0/1/0") == CLASSES
    assert notes(unclosed)[1][1] == "its brace is not closed"
    assert notes(EDGE + "/* to be\ncontinued\n")[len(EDGE.split("\n"))] == (
        "not modelled",
        "its comment is not closed",
    )


def test_a_wildcard_begins_no_comment() -> None:
    text = one("").replace("ge-0/0/0 {", "ge-0/*/* {").replace("ge-0/0/0", "ge-0/*/*")
    assert "ge-0/*/*" in text
    text = text.replace("schedulers {", "schedulers { /* comment */ # another")
    assert "comment is not closed" not in str(notes(text))
    assert policy(text)


def test_faults_of_braces_are_named() -> None:
    found = notes("class-of-service {\n schedulers {\n}\n")
    assert found[1][1] == "its brace is not closed"
    assert notes("}\n")[1] == ("not modelled", "closes no brace")
    deep = "class-of-service { " + "a { " * MAX_DEPTH + "}" * (MAX_DEPTH + 1)
    assert notes(deep)[1][1] == f"nested deeper than {MAX_DEPTH} words"


def test_deep_nesting_is_read_in_linear_time() -> None:
    assert len(reading("class-of-service {\n" + "a {\n" * 5_000).lines) == 5_001
