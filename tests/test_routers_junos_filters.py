"""Classifiers, marks, filters and policers of Junos."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import perhop
from junos import OSCARS, attachment, notes, one, policy, reading
from perhop import gallery
from perhop.routers.writing import write

# Classification and marks


def test_packets_are_classified_as_at_the_other_interfaces() -> None:
    text = one(
        "",
        interface="unit 0 { classifiers { dscp own; } }",
        more="""
    interfaces { ge-0/0/1 { unit 0 { classifiers { inet-precedence theirs; } } } }
    classifiers {
        dscp own { forwarding-class network-control { loss-priority low code-points ef; } }
        inet-precedence theirs {
            forwarding-class network-control { loss-priority low code-points 101; } }
    }""",
    )
    assert policy(text, "ge-0/0/0")["network-control"]["match"] == {"dscp": PRECEDENCE_5}
    assert policy(text, "ge-0/0/1")["network-control"]["match"] == {"dscp": "ef"}


def test_inputs_that_differ_are_approximated() -> None:
    text = "class-of-service { interfaces {\n"
    for number, name in enumerate(("a", "b", "b", "b")):
        text += f"ge-0/0/{number} {{ unit 0 {{ classifiers {{ dscp {name}; }} }} }}\n"
    text += "} classifiers {\n"
    for name in ("a", "b"):
        text += f"dscp {name} {{ forwarding-class network-control {{ loss-priority low"
        text += f" code-points {'ef' if name == 'a' else 'cs6'}; }} }}\n"
    text += "} }\n"
    for number in range(4):
        assert policy(text, f"ge-0/0/{number}")["network-control"]["match"] == {"dscp": "cs6"}
    assert notes(text) == {
        2: ("approximated", "outputs go by the most common classification at inputs")
    }
    assert ("classification at inputs", "classifier b") in {
        (each.setting, each.value) for each in reading(text).defaults
    }


def test_filters_at_inputs_classify_before_classifiers() -> None:
    text = (
        one(
            "",
            more="classifiers { dscp c { forwarding-class network-control {"
            " loss-priority low code-points ef; } } }"
            " interfaces { ge-0/0/1 { unit 0 { classifiers { dscp c; } } } }",
        )
        + """
firewall { family inet { filter sort {
    term web { from { protocol tcp; destination-port [ http https ]; }
        then { forwarding-class network-control; accept; } }
    term bulk { from { source-address { 10.0.0.0/8; 10.1.0.0/16 except; } }
        then { forwarding-class best-effort; accept; } }
    term rest { then accept; }
} } }
interfaces { ge-0/0/1 { unit 0 { family inet { filter { input sort; } } } } }
"""
    )
    assert policy(text, "ge-0/0/0")["network-control"]["match"] == [
        {"protocol": "tcp", "destination_port": [80, 443]},
        {"dscp": "ef", "source": "10.1.0.0/16"},
        {"except": {"source": "10.0.0.0/8"}},
        {"dscp": "ef"},
    ]
    assert not any(each.direction == "in" for each in reading(text).attachments)


def test_rewrite_rules_mark() -> None:
    rules = """rewrite-rules { dscp w {
        forwarding-class best-effort { loss-priority low code-point cs1; }
        forwarding-class network-control { loss-priority low code-point 111000; }
    } }"""
    found = policy(one("", interface="unit 0 { rewrite-rules { dscp w; } }", more=rules))
    assert {name: each["mark"] for name, each in found.items()} == {
        "network-control": "cs7",
        "best-effort": "cs1",
    }


# Filters and policers


POLICED = """\
firewall {{
    policer p {{ if-exceeding {{ bandwidth-limit 1m; burst-size-limit 15k; }} then {then}; }}
    three-color-policer two {{
        action {{ loss-priority high then discard; }}
        two-rate {{
            color-blind; committed-information-rate 1m; committed-burst-size 10k;
            peak-information-rate 2m; peak-burst-size 20k;
        }}
    }}
    three-color-policer single {{ single-rate {{
        committed-information-rate 1m; committed-burst-size 10k; excess-burst-size 20k; }} }}
    hierarchical-policer h {{
        aggregate {{ if-exceeding {{ bandwidth-limit 7m; burst-size-limit 9k; }} then discard; }}
        premium {{ if-exceeding {{ bandwidth-limit 5m; burst-size-limit 9k; }} then discard; }}
    }}
    family inet {{
        filter f {{
            {terms}
        }}
    }}
}}
interfaces {{ ge-0/0/0 {{ unit 0 {{ family inet {{ filter {{ input f; }} }} }} }} }}
"""


def policed(terms: str, then: str = "discard") -> dict[str, Any]:
    return policy(POLICED.format(terms=terms, then=then), "ge-0/0/0.0", "in")


ALL = "term a { then policer p; }"
P = {"rate": "1 Mbps", "burst": "15 kB"}
DISCARD = {"rate": "1 bps", "burst": "1 B"}
PRECEDENCE_5 = ["cs5", 41, 42, 43, "voice-admit", 45, "ef", 47]


@pytest.mark.parametrize(
    ("terms", "classes"),
    [
        ("term a { then policer p; }", {"a": {"match": "any", "police": P}}),
        (
            "term a { from { dscp ef; } then { policer p; dscp cs1; accept; } }",
            {
                "a": {"match": {"dscp": "ef"}, "police": P, "mark": "cs1"},
                "discarded": {"match": "any", "police": DISCARD},
            },
        ),
        (
            "term a { from { prefix-list x; port bgp; } then policer p; } term b { then accept; }",
            {"b": {"match": "any"}},
        ),
        (
            "term a { from { protocol udp; } then { dscp cs1; next term; } }"
            " term b { from { destination-port 53; } then policer p; } term c { then accept; }",
            {
                # The policer of both is one, and stands before the classes.
                "a_b": {"match": {"protocol": "udp", "destination_port": 53}, "mark": "cs1"},
                "a": {"match": {"protocol": "udp"}, "mark": "cs1"},
                "b": {"match": {"destination_port": 53}},
                "c": {"match": "any"},
            },
        ),
        (
            "term a { then { three-color-policer { two-rate two; } } }",
            {
                "a": {
                    "match": "any",
                    "police": {
                        "rate": "1 Mbps",
                        "burst": "10 kB",
                        "peak_rate": "2 Mbps",
                        "peak_burst": "20 kB",
                        "exceed": "send",
                    },
                }
            },
        ),
        (
            "term a { then { three-color-policer { single-rate single; } } }",
            {
                "a": {
                    "match": "any",
                    "police": {
                        "rate": "1 Mbps",
                        "burst": "10 kB",
                        "excess_burst": "20 kB",
                        "exceed": "send",
                        "violate": "send",
                    },
                }
            },
        ),
        (
            "term a { then hierarchical-policer h; }",
            {"a": {"match": "any", "police": {"rate": "7 Mbps", "burst": "9 kB"}}},
        ),
    ],
)
def test_filters_at_inputs_are_policies(terms: str, classes: dict[str, Any]) -> None:
    if "prefix-list" in terms:
        with pytest.raises(StopIteration):
            policed(terms)
    else:
        assert policed(terms) == classes


@pytest.mark.parametrize(
    ("conditions", "matched"),
    [
        # The longest prefix of a side decides, whether a list or the term states it.
        (
            "source-address { 0.0.0.0/0; } source-prefix-list { ours except; }",
            [{"except": {"source": "192.0.2.0/24"}}, {"ip": 4}],
        ),
        (
            "source-prefix-list { ours; } source-address { 198.51.100.0/24; }",
            {"source": ["192.0.2.0/24", "198.51.100.0/24"]},
        ),
        (
            "destination-address { 198.51.100.0/24; } destination-prefix-list { ours; }",
            {"destination": ["192.0.2.0/24", "198.51.100.0/24"]},
        ),
        (
            "address { 198.51.100.0/24; } prefix-list { ours; }",
            [
                {"source": ["192.0.2.0/24", "198.51.100.0/24"]},
                {"destination": ["192.0.2.0/24", "198.51.100.0/24"]},
            ],
        ),
        # Each side has a list of its own.
        (
            "source-prefix-list { ours; } destination-address { 198.51.100.0/24; }",
            {"source": "192.0.2.0/24", "destination": "198.51.100.0/24"},
        ),
        # What is left of a condition without active values.
        ("inactive: dscp af41;", "any"),
        ("inactive: dscp af41; protocol udp;", {"protocol": "udp"}),
        ("source-address { inactive: 192.0.2.0/24; }", "any"),
        ("port { inactive: 1; } inactive: protocol tcp; precedence 5;", {"dscp": PRECEDENCE_5}),
        ("inactive: port 1; source-port 2;", {"source_port": 2}),
    ],
)
def test_conditions_select_packets(conditions: str, matched: Any) -> None:
    terms = f"term a {{ from {{ {conditions} }} then policer p; }} term r {{ then accept; }}"
    text = POLICED.format(terms=terms, then="discard")
    text += "policy-options { prefix-list ours { 192.0.2.0/24; } }\n"
    assert policy(text, "ge-0/0/0.0", "in")["a"]["match"] == matched


@pytest.mark.parametrize("mask", ["0.0.0.255", "0.255.255.255", "255.0.0.255", "255.255.0.1"])
def test_masks_that_are_no_netmasks_are_not_modelled(mask: str) -> None:
    terms = f"term a {{ from {{ dscp ef; source-address {{\n192.0.2.10/{mask};\n198.51.100.0/"
    terms += "255.255.255.0; } } then policer p; } term r { then accept; }"
    text = POLICED.format(terms=terms, then="discard")
    assert policy(text, "ge-0/0/0.0", "in")["a"]["match"] == {
        "dscp": "ef",
        "source": "198.51.100.0/24",
    }
    assert "is not an address prefix; masks with gaps are not modelled" in {
        note for _, note in notes(text).values()
    }


def test_actions_without_active_values_are_none() -> None:
    terms = "term a { then { inactive: policer p; inactive: dscp ef; dscp cs1; } }"
    assert policed(terms) == {"a": {"match": "any", "mark": "cs1"}}
    terms = "term a {\nthen {\ninactive: policer p;\naccept; } }"
    assert not reading(POLICED.format(terms=terms, then="discard")).attachments


COMMANDS = """\
set firewall policer p if-exceeding bandwidth-limit 1m
set firewall policer p if-exceeding burst-size-limit 15k
set firewall policer p then discard
set firewall family inet filter f term a from dscp [ ef af41 cs5 ]
set firewall family inet filter f term a then policer p
set firewall family inet filter f term r then accept
set interfaces ge-0/0/0 unit 0 family inet filter input f
set policy-options prefix-list l 192.0.2.0/24
"""


@pytest.mark.parametrize(
    ("commands", "matched"),
    [
        ("delete firewall family inet filter f term a from dscp [ af41 cs5 ]", {"dscp": "ef"}),
        ("deactivate firewall family inet filter f term a from dscp [ af41 cs5 ]", {"dscp": "ef"}),
        ("delete firewall family inet filter f term a from dscp [ ef af41 cs5 ]", "any"),
        ("delete firewall family inet filter f term a from dscp", "any"),
        ("deactivate firewall family inet filter f term a from dscp", "any"),
        # The levels of commands.
        ("edit policy-options\ntop delete firewall family inet filter f term a from dscp", "any"),
        (
            "edit firewall family inet filter f\nup 1 delete filter f term a from dscp ef\n"
            "delete term a from dscp cs5",
            {"dscp": "af41"},
        ),
        (
            "edit firewall family inet filter f term a\nup 2\n"
            "delete filter f term a from dscp [ ef cs5 ]",
            {"dscp": "af41"},
        ),
        (
            "edit firewall family inet\nedit filter f\nexit\n"
            "delete filter f term a from dscp cs5\nquit\n"
            "delete firewall family inet filter f term a from dscp ef",
            {"dscp": "af41"},
        ),
        (
            "edit firewall family inet filter f\ntop edit interfaces\nexit\n"
            "delete term a from dscp [ ef cs5 ]",
            {"dscp": "af41"},
        ),
    ],
)
def test_commands_change_conditions(commands: str, matched: Any) -> None:
    assert policy(COMMANDS + commands, "ge-0/0/0.0", "in").get("a", {"match": "any"}) == {
        "match": matched,
        "police": P,
    }


def test_an_empty_prefix_list_is_noted() -> None:
    text = COMMANDS + "set firewall family inet filter f term b from source-prefix-list l\n"
    text += "set firewall family inet filter f term b then policer p\n"
    text += "insert firewall family inet filter f term b before term r\n"
    text += "delete policy-options prefix-list l 192.0.2.0/24\n"
    assert "the prefix list is empty" in notes(text)[9][1]


def test_the_implicit_term_is_listed() -> None:
    for terms, discards in (("term a { from { dscp ef; } then policer p; }", True), (ALL, False)):
        said = {
            each.setting for each in reading(POLICED.format(terms=terms, then="discard")).defaults
        }
        assert ("packets that no term matches" in said) == discards


def test_conditions_that_perhop_lacks_are_named() -> None:
    terms = "term a { from { protocol tcp; tcp-established; } then policer p; }\n"
    terms += "term b { from { is-fragment; } then discard; }\n"
    terms += "term c { from { protocol ospf; } then accept; }"
    text = POLICED.format(terms=terms, then="discard")
    assert list(policed(terms)) == ["a", "discarded"]
    found = notes(text)
    assert "the term applies whatever the packet has there" in found[18][1]
    assert "the term is left out" in found[19][1]
    assert found[20][0] == "approximated"


def test_a_policed_reservation_is_that_of_the_gallery() -> None:
    classes = gallery.load("oscars-10M").policies["oscars"].classes
    expected = [
        each.model_dump(mode="json", exclude_unset=True, exclude={"queue"})
        for each in classes.values()
    ]
    found = [
        {key: value for key, value in each.items() if key != "queue"}
        for each in policy(OSCARS, "so-0/0/0").values()
    ]
    assert found == expected
    assert not notes(OSCARS)


@pytest.mark.parametrize("name", ["qbss-1-70", "qbss-30-1", "oscars-10M", "oscars-ping"])
def test_written_configurations_are_read(name: str) -> None:
    scenario = gallery.load(name)
    text, gaps = write(scenario, "junos", approximate=True)
    assert gaps == ()
    # Buffers are in whole microseconds, and a guarantee that is left out is written.
    left_out = {"queue", "unused"}
    (name,) = scenario.policies
    for key, each in scenario.policies[name].classes.items():
        expected = each.model_dump(mode="json", exclude_unset=True, exclude=left_out)
        found = policy(text)[key]
        assert {word: found[word] for word in expected} == expected
        assert found.keys() - expected.keys() <= {"queue", "bandwidth"}
    (note,) = notes(text).values()
    assert note == ("approximated", "informational in Junos; taken as the rate of the interface")


def test_loss_priority_above_the_rate_becomes_the_mark_of_the_rewrite_rule() -> None:
    text = OSCARS.replace("then discard;", "then loss-priority high;")
    text = text.replace(
        "scheduler-map oscars;", "scheduler-map oscars; unit 0 { rewrite-rules { dscp w; } }"
    )
    text = text.replace(
        "    schedulers {",
        """    rewrite-rules { dscp w { forwarding-class expedited-forwarding {
        loss-priority low code-point ef; loss-priority high code-point le; } } }
    code-point-aliases { dscp { le 000001; } }
    schedulers {""",
    )
    found = policy(text, "so-0/0/0")["expedited-forwarding"]
    assert found["police"] == {"rate": "10 Mbps", "burst": "1 MB", "exceed": {"remark": "le"}}
    assert found["mark"] == "ef"


def test_policers_of_units_limit_all_packets() -> None:
    text = POLICED.format(terms="term a { then policer p; }", then="discard")
    text += "interfaces { ge-0/0/1 { unit 5 { family inet { policer { output p; input p; } } } } }"
    for direction in ("in", "out"):
        assert policy(text, "ge-0/0/1.5", direction) == {"p": {"match": "any", "police": P}}


P4 = {"match": {"ip": 4}, "police": P}


@pytest.mark.parametrize(
    ("spec", "families", "expected"),
    [
        # A policer of one family limits its packets only, and each family has an instance.
        (
            "",
            "family inet { policer { input p; } } family inet6 { address 2001:db8::1/64; }",
            {"policers": {"p": P4}, "classes": {"others": {"match": "any"}}},
        ),
        (
            "",
            "family inet { policer { input p; } } family inet6 { policer { input p; } }",
            {
                "policers": {"p": P4, "p_2": {"match": {"ip": 6}, "police": P}},
                "classes": {"others": {"match": "any"}},
            },
        ),
        # Or one instance limits all.
        (
            "logical-interface-policer;",
            "family inet { policer { input p; } } family inet6 { policer { input p; } }",
            {"classes": {"p": {"match": "any", "police": P}}},
        ),
        # Beside the classes of a filter, packets pass the policer of the unit first.
        (
            "",
            "family inet { policer { input p; } filter { input f; } } family inet6;",
            {
                "policers": {"p": P4},
                "classes": {
                    "a": {"match": {"ip": 4}, "mark": "cs1"},
                    "others": {"match": "any"},
                },
            },
        ),
        (
            "",
            "family inet { policer { input p; } filter { input two; } } family inet6;",
            {
                "policers": {
                    "p_2": P4,
                    "p": {"match": {"dscp": "ef", "ip": 4}, "police": P},
                },
                "classes": {
                    "a_b": {"match": {"dscp": "ef", "ip": 4, "protocol": "udp"}},
                    "a": {"match": {"dscp": "ef", "ip": 4}},
                    "b": {"match": {"ip": 4, "protocol": "udp"}},
                    "c": {"match": {"ip": 4}},
                    "others": {"match": "any"},
                },
            },
        ),
    ],
)
def test_policers_of_units_limit_their_families(
    spec: str, families: str, expected: dict[str, Any]
) -> None:
    terms = "term a { then dscp cs1; } } filter two { term a { from { dscp ef; } then {"
    terms += " policer p; next term; } } term b { from { protocol udp; } then accept; }"
    terms += " term c { then accept; }"
    text = POLICED.format(terms=terms, then="discard").split("interfaces")[0]
    text = text.replace("policer p {", f"policer p {{ {spec}")
    text += f"interfaces {{ ge-0/0/1 {{ unit 0 {{ {families} }} }} }}"
    assert attachment(text, "ge-0/0/1.0", "in").policy == expected


def test_a_policer_of_a_unit_is_one_bucket_of_all_terms_and_families() -> None:
    text = """firewall {
    policer p { logical-interface-policer;
        if-exceeding { bandwidth-limit 1m; burst-size-limit 15k; } then discard; }
    family inet { filter f {
        term a { from { protocol tcp; } then policer p; }
        term b { from { protocol udp; } then policer p; }
        term c { then accept; } } }
    family inet6 { filter g { term d { from { next-header tcp; } then policer p; }
        term e { then accept; } } } }
interfaces { ge-0/0/0 { unit 0 {
    family inet { filter { input f; } } family inet6 { filter { input g; } } } } }
"""
    assert attachment(text, "ge-0/0/0.0", "in").policy["policers"] == {
        "p": {
            "match": [
                {"ip": 4, "protocol": ["tcp", "udp"]},
                {"ip": 6, "protocol": "tcp"},
            ],
            "police": P,
        }
    }


@pytest.mark.parametrize(
    ("setting", "at", "noted"),
    [
        ("", "input f;", True),
        ("interface-specific;", "input f;", False),
        # A list has instances of its own.
        ("", "input-list [ f g ];", False),
    ],
)
def test_a_filter_at_two_interfaces_polices_in_one_bucket(
    setting: str, at: str, noted: bool
) -> None:
    text = POLICED.format(
        terms=f"{setting} term a {{ then policer p; }} }} filter g {{ term b {{ then dscp cs1; }}",
        then="discard",
    )
    unit = f"unit 0 {{ family inet {{ filter {{ {at} }} }} }}"
    text = text.split("interfaces")[0]
    text += f"interfaces {{ ge-0/0/0 {{ {unit} }} ge-0/0/1 {{ {unit} }} }}"
    assert noted == ("one bucket for all interfaces of the filter" in str(notes(text)))


def test_filters_of_several_units_are_not_in_the_policy_of_the_port() -> None:
    at = "unit {0} {{ vlan-id {0}; family inet {{ filter {{ output f; }} }} }}\n"
    text = one("", interface="") + POLICED.format(terms=ALL, then="discard").split("interfaces")[0]
    text += "interfaces { ge-0/0/0 {\n" + at.format(1)
    assert not any("policy of its own" in note for _, note in notes(text + "} }").values())
    found = notes(text + at.format(2) + "} }")
    assert sum("one of several units" in note for _, note in found.values()) == 2


def test_filters_of_both_families_are_one_policy() -> None:
    text = POLICED.format(terms="term a { then policer p; }", then="discard").split("interfaces")[0]
    text += """firewall { family inet6 { filter g {
    term b { from { next-header udp; } then { dscp cs1; accept; } } } } }
interfaces { ge-0/0/1 { unit 0 {
    family inet { filter { input-list [ none f ]; } }
    family inet6 { filter { input g; } }
} } }
"""
    assert policy(text, "ge-0/0/1.0", "in") == {
        "a": {"match": {"ip": 4}, "police": P},
        "b": {"match": {"ip": 6, "protocol": "udp"}, "mark": "cs1"},
        "discarded": {"match": "any", "police": DISCARD},
    }


def test_filters_in_a_list_apply_one_after_another() -> None:
    text = POLICED.format(
        terms="term a { from { dscp ef; } then policer p; } } filter g {"
        " term b { from { dscp ef; } then accept; } term c { then { dscp be; accept; } }",
        then="discard",
    ).replace("input f", "input-list [ f g ]")
    assert policy(text, "ge-0/0/0.0", "in") == {
        "a": {"match": {"dscp": "ef"}, "police": P},
        "b": {"match": {"dscp": "ef"}},
        "c": {"match": "any", "mark": "be"},
    }


@pytest.mark.parametrize(
    ("terms", "classes"),
    [
        # Packets that go on after the last term of `f` come to `g`.
        (
            "term a { from { dscp ef; } then { policer p; next term; } }",
            {
                "a_b": {"match": {"dscp": "ef", "protocol": "udp"}},
                "a": {"match": {"dscp": "ef"}, "mark": "be"},
                "b": {"match": {"protocol": "udp"}},
                "c": {"match": "any", "mark": "be"},
            },
        ),
        (
            "term a { then { dscp cs1; next term; } }",
            {
                "a_b": {"match": {"protocol": "udp"}, "mark": "cs1"},
                "a": {"match": "any", "mark": "be"},
            },
        ),
    ],
)
def test_packets_go_on_from_one_filter_of_a_list_to_the_next(
    terms: str, classes: dict[str, Any]
) -> None:
    text = POLICED.format(
        terms=f"{terms} }} filter g {{ term b {{ from {{ protocol udp; }} then accept; }}"
        " term c { then { dscp be; accept; } }",
        then="discard",
    ).replace("input f", "input-list [ f g ]")
    found = policy(text, "ge-0/0/0.0", "in")
    assert [each["match"] for each in found.values()] == [
        each["match"] for each in classes.values()
    ]
    assert [each.get("mark") for each in found.values()] == [
        each.get("mark") for each in classes.values()
    ]
    assert "packets that no term matches" not in {each.setting for each in reading(text).defaults}


PLAIN = """\
set firewall family inet filter plain term a from protocol tcp
set firewall family inet filter plain term a from tcp-established
set firewall family inet filter plain term a then discard
set firewall family inet filter marks term b from dscp ef
set firewall family inet filter marks term b then dscp cs1
set interfaces ge-0/0/1 unit 0 family inet filter input plain
"""


@pytest.mark.parametrize(
    ("names", "rest", "classes"),
    [
        (("plain", "marks"), "", ["a", "b", "discarded"]),
        (("marks", "plain"), "", ["b", "a", "discarded"]),
        (("marks", "plain"), "set firewall family inet filter plain term c then accept\n", "bac"),
    ],
)
def test_filters_that_accept_and_discard_only_count_beside_others_in_a_list(
    names: Sequence[str], rest: str, classes: Sequence[str]
) -> None:
    """Packets that no term of a filter in a list matches go on to the next one."""
    at = "set interfaces ge-0/0/0 unit 0 family inet filter input-list"
    text = PLAIN + rest + "".join(f"{at} {name}\n" for name in names)
    assert list(policy(text, "ge-0/0/0.0", "in")) == list(classes)
    assert notes(text)[2][0] == "not modelled"  # tcp-established
    assert [each.interface for each in reading(text).attachments] == ["ge-0/0/0.0"]


def test_a_filter_that_is_not_defined_is_named() -> None:
    text = PLAIN + "set interfaces ge-0/0/0 unit 0 family inet filter input none\n"
    assert notes(text)[7] == ("not modelled", "the configuration has no such filter")


def test_a_term_that_goes_on_is_no_class_if_later_terms_take_all_of_it() -> None:
    terms = "term a { from { protocol tcp; port 80; } then { policer p; next term; } }"
    found = policed(terms + " term b { from { protocol tcp; } then { dscp cs1; accept; } }")
    assert list(found) == ["a_b", "b", "discarded"]


def test_each_use_of_a_policy_is_accounted_for() -> None:
    text = OSCARS.replace(
        "so-0/0/0 { scheduler-map oscars; }",
        """
        so-0/0/0 { scheduler-map oscars; }
        so-0/0/1 { scheduler-map oscars; }""",
    )
    text += (
        "interfaces { so-0/0/1 { unit 0 { family inet { filter { output reservation; } } } } }\n"
    )
    found = reading(text)
    first, second = found.attachments
    assert first.policy == second.policy
    assert second.place(()).line == first.place(()).line + 1
    assert [line.place.line for line in found.lines][-2:] == [29, 30]


def test_filters_that_no_interface_uses_are_policies() -> None:
    text = POLICED.format(terms="term a { then policer p; }", then="discard").split("interfaces")[0]
    found = attachment(text, "", "in")
    assert (found.name, found.policy) == ("f", {"classes": {"a": {"match": "any", "police": P}}})


ONE_BUCKET = """\
firewall {
    policer three { SPEC if-exceeding { bandwidth-limit 3m; burst-size-limit 15k; } then discard; }
    family inet { filter f { BODY } }
}
class-of-service {
    interfaces { ge-0/0/0 { scheduler-map m; } }
    scheduler-maps { m {
        forwarding-class best-effort scheduler s;
        forwarding-class expedited-forwarding scheduler t;
    } }
    schedulers { s { transmit-rate percent 50; } t { transmit-rate percent 50; } }
}
interfaces { ge-0/0/0 { speed 10m; unit 0 { family inet { filter { output f; } } } } }
"""
NEXT_TERM = """\
    term all { from { protocol udp; } then { policer three; next term; } }
    term a { from { destination-port 1; } then forwarding-class expedited-forwarding; }
    term rest { then forwarding-class best-effort; }
"""
TERMS = """\
    term a { from { protocol udp; destination-port 1; }
        then { policer three; forwarding-class expedited-forwarding; } }
    term rest { from { protocol udp; } then { policer three; forwarding-class best-effort; } }
    term others { then forwarding-class best-effort; }
"""
ACROSS = """\
    term a { from { protocol tcp; destination-port 1; }
        then forwarding-class expedited-forwarding; }
    term b { from { protocol udp; } then policer three; }
    term others { then accept; }
"""


@pytest.mark.parametrize(
    ("spec", "body", "megabits"),
    [
        # Packets that go on have passed the policer, whichever term takes them.
        ("", NEXT_TERM, 3),
        # One instance of all terms, or one for each of the two.
        ("filter-specific;", TERMS, 3),
        ("", TERMS, 6),
        ("filter-specific;", NEXT_TERM, 3),
        # A term without a forwarding class polices packets of any.
        ("", ACROSS, 3),
    ],
)
def test_an_instance_of_a_policer_is_one_bucket(
    spec: str, body: str, megabits: int, tmp_path: Path
) -> None:
    """Juniper, Filter-Specific Policer Overview: "By default, a policer operates in term-specific
    mode", with an instance "for every filter term"; in filter-specific mode "a single policer
    instance is used by all terms (within the same firewall filter) that reference the policer".
    """
    (tmp_path / "r.conf").write_text(ONE_BUCKET.replace("SPEC", spec).replace("BODY", body))
    text = (
        "perhop: 1\nname: buckets\nnodes: {a: host, r: router, b: host}\nlinks:\n"
        "  - {ends: [a, r], rate: 1 Gbps}\n"
        "  - {ends: [r, b], rate: 10 Mbps, egress: {r: m}}\n"
        "policies: {m: {from: r.conf, interface: ge-0/0/0}}\nflows:\n"
        "  one: {from: a, to: b, dscp: ef, port: 1, udp: {rate: 5 Mbps, layer: ip, size: 500 B}}\n"
        "  two: {from: a, to: b, port: 2, udp: {rate: 5 Mbps, layer: ip, size: 500 B}}\n"
        "duration: 4 s\n"
    )
    run = perhop.run(perhop.parse(text, str(tmp_path / "buckets.yaml")))
    sent = run.links.filter(pl.col("link") == "r>b")["sent_bytes"].sum() * 8 / 4e6
    assert sent == pytest.approx(megabits, abs=0.06)
