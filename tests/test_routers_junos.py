"""Configurations of Junos: what becomes of each line, and the policies that they make."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perhop import gallery
from perhop.routers.reading.configuration import (
    Attachment,
    Configuration,
    Line,
    Source,
    Treatment,
)
from perhop.routers.reading.junos import read
from perhop.routers.reading.junos.tree import MAX_DEPTH
from perhop.routers.writing import write


def reading(text: str) -> Configuration:
    return read([Source("r.conf", text)])


def policy(text: str, interface: str | None = None, direction: str = "out") -> dict[str, Any]:
    """The classes of the first policy, or of that of an interface."""
    return attachment(text, interface, direction).policy["classes"]


def attachment(text: str, interface: str | None = None, direction: str = "out") -> Attachment:
    return next(
        each
        for each in reading(text).attachments
        if each.direction == direction and interface in (None, each.interface)
    )


def notes(text: str) -> dict[int, tuple[str, str]]:
    """The treatment and note of each line that is not modelled exactly."""
    return {
        line.place.line: (line.treatment.value, line.note)
        for line in reading(text).lines
        if line.treatment is not Treatment.MODELLED
    }


# Both syntaxes

EDGE = """\
## Last changed: 2026-11-01
interfaces {
    ge-0/0/1 { unit 0 { family inet { address 192.0.2.1/24; } } }
}
class-of-service {
    classifiers {
        dscp trust {
            import default;
            forwarding-class expedited-forwarding {
                loss-priority low code-points [ ef cs5 ];
            }
        }
    }
    interfaces {
        so-0/1/0 { scheduler-map edge; }   /* to the core */
        ge-* { unit * { classifiers { dscp trust; } } }
    }
    scheduler-maps {
        edge {
            forwarding-class expedited-forwarding scheduler ef;
            forwarding-class best-effort scheduler be;
            forwarding-class network-control scheduler nc;
            forwarding-class assured-forwarding scheduler af;
        }
    }
    schedulers {
        ef { priority strict-high; }
        be { transmit-rate { remainder; } priority low; }
        nc { transmit-rate percent 5; priority low; }
        af { transmit-rate percent 20 exact; buffer-size temporal 20k; priority low; }
    }
}
"""

AS_COMMANDS = """\
set interfaces ge-0/0/1 unit 0 family inet address 192.0.2.1/24
set class-of-service classifiers dscp trust import default
set class-of-service classifiers dscp trust forwarding-class expedited-forwarding loss-priority \
low code-points [ ef cs5 ]
set class-of-service interfaces so-0/1/0 scheduler-map edge
set class-of-service interfaces ge-* unit * classifiers dscp trust
edit class-of-service scheduler-maps edge
set forwarding-class expedited-forwarding scheduler ef
set forwarding-class best-effort scheduler be
set forwarding-class network-control scheduler nc
set forwarding-class assured-forwarding scheduler af
top
set class-of-service schedulers ef priority strict-high
set class-of-service schedulers be transmit-rate remainder
set class-of-service schedulers be priority low
set class-of-service schedulers nc transmit-rate percent 5 priority low
[edit class-of-service]
user@edge# set schedulers af transmit-rate percent 20 exact
user@edge# set schedulers af buffer-size temporal 20k priority low
"""

CLASSES = {
    "assured-forwarding": {
        "match": {"dscp": ["af11", "af12", "af13"]},
        "bandwidth": "20%",
        "borrow": False,
        "queue": {"limit": "20 ms"},
    },
    "expedited-forwarding": {
        "match": {"dscp": ["cs5", "ef"]},
        "priority": "strict",
        "queue": {"limit": "100 ms"},
    },
    "network-control": {
        "match": {"dscp": ["cs6", "cs7"]},
        "bandwidth": "5%",
        "queue": {"limit": "100 ms"},
    },
    "best-effort": {"match": "any", "queue": {"limit": "100 ms"}},
}


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

GROUPS = """\
groups {
    cos {
        class-of-service {
            interfaces {
                <ge-*> { scheduler-map wide; unit <*> { classifiers { dscp default; } } }
            }
            schedulers { <*> { priority low; } }
        }
    }
    unused { class-of-service { schedulers { x { priority high; } } } }
    itself { apply-groups itself; }
}
apply-groups [ cos itself ];
class-of-service {
    interfaces {
        ge-0/0/0 { unit 0; } xe-0/0/0 { scheduler-map narrow; } ge-0/0/1 { scheduler-map narrow; }
    }
    scheduler-maps {
        wide { forwarding-class best-effort scheduler w; }
        narrow { forwarding-class best-effort scheduler n; }
    }
    schedulers { w { transmit-rate percent 90; } n { transmit-rate percent 10; } }
}
"""


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


SWITCH = """\
class-of-service {
    shared-buffer { ingress { percent 80; } }
    forwarding-classes {
        class be queue-num 0;
        class rdma queue-num 4 no-loss pfc-priority 3;
    }
    classifiers {
        ieee-802.1 tags { forwarding-class be { loss-priority low code-points 000; } }
        dscp mine { forwarding-class rdma { loss-priority low code-points [ 011010 nonsense ]; } }
    }
    interfaces {
        et-0/0/1 {
            congestion-notification-profile pfc;
            scheduler-map m;
            strange 7;
            unit 0 { classifiers { dscp mine; ieee-802.1 tags; } }
        }
    }
    scheduler-maps { m {
        forwarding-class rdma scheduler r;
        forwarding-class nobody scheduler r;
        forwarding-class be scheduler missing;
    } }
    schedulers {
        r {
            transmit-rate percent 60;
            explicit-congestion-notification;
            excess-rate percent 5;
            speed-of-light;
        }
        alone { transmit-rate percent 1; }
    }
    host-outbound-traffic forwarding-class be;
}
"""


@pytest.mark.parametrize("text", [EDGE, AS_COMMANDS, GROUPS, SWITCH])
def test_every_line_is_accounted_for(text: str) -> None:
    accounted(text)


def test_unknown_and_unused_statements_say_why() -> None:
    found = {line: note for line, (_, note) in notes(SWITCH).items()}
    assert found[8] == "packets of perhop have no VLAN tag"
    assert found[9] == "is no code point of 6 bits"
    assert found[13] == "priority flow control is not modelled"
    assert found[15] == "unknown statement"
    assert found[21] == "no packet has this forwarding class, so the policy has no class for it"
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
        23: ("not modelled", "ranges of interfaces are not expanded"),
        30: ("not modelled", "label-switched paths are not modelled"),
    }
    assert [line.place.line for line in reading(text).lines] == [6, 16, 23, 30, 34]


# Schedulers

ONE = """\
class-of-service {{
    interfaces {{ ge-0/0/0 {{ scheduler-map m; {interface} }} }}
    scheduler-maps {{ m {{ forwarding-class best-effort scheduler s;
        forwarding-class network-control scheduler t; }} }}
    schedulers {{ s {{ {s} }} t {{ {t} }} }}
    {more}
}}
"""


def one(s: str, t: str = "", *, interface: str = "", more: str = "") -> str:
    return ONE.format(s=s, t=t, interface=interface, more=more)


@pytest.mark.parametrize(
    ("statement", "settings_"),
    [
        ("transmit-rate 30m;", {"bandwidth": "30 Mbps"}),
        ("transmit-rate percent 30;", {"bandwidth": "30%"}),
        ("transmit-rate { percent 30; exact; }", {"bandwidth": "30%", "borrow": False}),
        ("transmit-rate remainder 50;", {"bandwidth": "50%"}),
        ("transmit-rate remainder;", {}),
        ("shaping-rate 20m;", {"limit": "20 Mbps", "bandwidth": "20 Mbps"}),
        (
            "transmit-rate 1m; shaping-rate 20m burst-size 10k;",
            {"bandwidth": "1 Mbps", "shape": {"rate": "20 Mbps", "burst": "10 kB"}},
        ),
        ("priority strict-high;", {"priority": "strict"}),
        (
            "priority strict-high; transmit-rate 5m exact;",
            {"priority": "strict", "limit": "5 Mbps"},
        ),
    ],
)
def test_schedulers_say_what_a_class_gets(statement: str, settings_: dict[str, Any]) -> None:
    found = policy(one(statement))["best-effort"]
    assert {
        key: value for key, value in found.items() if key not in ("match", "queue")
    } == settings_


@pytest.mark.parametrize(
    ("statement", "limit"),
    [
        # 1 Gb/s holds 12.5 MB for 100 ms.
        ("transmit-rate percent 10;", "100 ms"),
        ("transmit-rate percent 10; buffer-size percent 10;", "100 ms"),
        ("transmit-rate percent 10; buffer-size percent 20;", "2500 kB"),
        ("transmit-rate percent 10; buffer-size temporal 8k;", "1 MB"),
        ("transmit-rate percent 10; buffer-size remainder;", "11875 kB"),
    ],
)
def test_buffers_become_limits(statement: str, limit: str) -> None:
    found = policy(one(statement, "transmit-rate percent 5; buffer-size percent 5;"))
    assert found["best-effort"]["queue"] == {"limit": limit}


def test_priorities_below_strict_order_borrowing() -> None:
    text = one("transmit-rate percent 10; priority low;", "transmit-rate percent 5; priority high;")
    found = policy(text)
    assert [found[name]["priority"] for name in ("best-effort", "network-control")] == [3, 0]
    assert {treatment for treatment, _ in notes(text).values()} == {"approximated"}


def test_guarantees_above_the_interface_shrink() -> None:
    found = policy(one("transmit-rate 900m;", "transmit-rate percent 30;"))
    assert [found[name]["bandwidth"] for name in ("network-control", "best-effort")] == [
        "25%",
        "75%",
    ]


def test_the_default_scheduler_map_is_listed() -> None:
    text = "class-of-service { interfaces { ge-0/0/0 { shaping-rate 50m; } } }\n"
    found = reading(text)
    assert found.attachments[0].shape == {"rate": "50 Mbps"}
    classes = found.attachments[0].policy["classes"]
    assert {name: each["bandwidth"] for name, each in classes.items()} == {
        "network-control": "5%",
        "best-effort": "95%",
    }
    assert classes["network-control"]["match"] == {
        "dscp": ["cs6", *range(49, 56), "cs7", *range(57, 64)]
    }
    said = {(each.setting, each.value) for each in found.defaults}
    assert ("scheduler-map", "queue 0: 95%, queue 3: 5%") in said
    assert ("speed", "1 Gbps") in said
    assert ("classifiers", "ipprec-compatibility") in said
    assert "forwarding-classes" in {setting for setting, _ in said}
    assert all(each.source for each in found.defaults)


@pytest.mark.parametrize(
    ("profile", "low", "high", "probability", "treatment"),
    [
        ("interpolate { fill-level [ 30 80 ]; drop-probability [ 0 100 ]; }", 30, 80, 100, None),
        (
            "interpolate { fill-level [ 0 25 50 100 ]; drop-probability [ 0 0 40 100 ]; }",
            *(25, 100, 100),
            "approximated",
        ),
        (
            "fill-level 40 drop-probability 5; fill-level 90 drop-probability 50;",
            *(40, 90, 50),
            "approximated",
        ),
    ],
)
def test_drop_profiles_become_random_early_detection(
    profile: str, low: int, high: int, probability: int, treatment: str | None
) -> None:
    text = one(
        "transmit-rate percent 80; drop-profile-map loss-priority any protocol any drop-profile p;",
        "transmit-rate percent 5;",
        more=f"drop-profiles {{ p {{ {profile} }} }}",
    )
    red = policy(text)["best-effort"]["queue"]["red"]
    assert (red["min"], red["max"]) == (f"{low} ms", f"{high} ms")
    assert red["probability"] == f"{probability}%"
    assert (red["gentle"], red["ecn"], red["weight"]) == (probability < 100, False, "100%")
    assert notes(text).get(6, (None,))[0] == treatment


def test_loss_priorities_become_thresholds_by_code_point() -> None:
    text = one(
        "transmit-rate 12m; drop-profile-map loss-priority high protocol any drop-profile p;",
        "transmit-rate percent 5;",
        interface="unit 0 { classifiers { dscp c; } }",
        more="""
    drop-profiles { p { interpolate { fill-level [ 10 20 ]; drop-probability [ 0 100 ]; } } }
    classifiers { dscp c {
        forwarding-class best-effort { loss-priority high code-points cs1; }
    } }""",
    )
    queue = policy(text)["best-effort"]["queue"]
    # 100 ms at 12 Mb/s are 100 packets of 1500 B.
    assert queue["limit"] == "100 packets"
    low, high = queue["wred"]["profiles"]
    assert (high["dscp"], high["min"], high["max"]) == ([8], "10 packets", "20 packets")
    assert (len(low["dscp"]), low["min"], low["max"]) == (63, "99 packets", "100 packets")


def test_lines_of_drop_profiles_go_on_above_their_last_point() -> None:
    text = one(
        "transmit-rate 12m; drop-profile-map loss-priority high protocol any drop-profile p;",
        "transmit-rate percent 5;",
        interface="unit 0 { classifiers { dscp c; } rewrite-rules { dscp w; } }",
        more="""
    drop-profiles { p { interpolate { fill-level [ 20 60 ]; drop-probability [ 0 80 ]; } } }
    rewrite-rules { dscp w {
        forwarding-class best-effort { loss-priority low code-point cs2; } } }
    classifiers { dscp c {
        forwarding-class best-effort { loss-priority high code-points cs1; }
    } }""",
    )
    _, high = policy(text)["best-effort"]["queue"]["wred"]["profiles"]
    assert (high["min"], high["max"], high["probability"]) == ("20 packets", "70 packets", "100%")
    assert any("drop profiles see the new code point" in note for _, note in notes(text).values())


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
    assert policy(text, "ge-0/0/0")["network-control"]["match"] == {
        "dscp": ["cs5", 41, 42, 43, "voice-admit", 45, "ef", 47]
    }
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
                "a_b": {
                    "match": {"protocol": "udp", "destination_port": 53},
                    "police": P,
                    "mark": "cs1",
                },
                "a": {"match": {"protocol": "udp"}, "mark": "cs1"},
                "b": {"match": {"destination_port": 53}, "police": P},
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


OSCARS = """\
firewall {
    policer oscars {
        if-exceeding { bandwidth-limit 10m; burst-size-limit 1m; }
        then discard;
    }
    family inet {
        filter reservation {
            term reserved {
                from { destination-port 5011; }
                then { policer oscars; forwarding-class expedited-forwarding; accept; }
            }
            term rest { then { forwarding-class best-effort; accept; } }
        }
    }
}
class-of-service {
    interfaces { so-0/0/0 { scheduler-map oscars; } }
    scheduler-maps { oscars {
        forwarding-class expedited-forwarding scheduler reserved;
        forwarding-class best-effort scheduler rest;
    } }
    schedulers {
        reserved { priority strict-high; }
        rest { transmit-rate remainder; }
    }
}
interfaces { so-0/0/0 { unit 0 { family inet { filter { output reservation; } } } } }
"""


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
    assert not notes(text)


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
        "a": {"match": {"source": "0.0.0.0/0"}, "police": P},
        "b": {"match": {"protocol": "udp", "source": "::/0"}, "mark": "cs1"},
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


# Interfaces


@pytest.mark.parametrize(
    ("name", "statement", "rate"),
    [
        ("ge-0/0/0", "", 10**9),
        ("xe-0/0/0", "", 10**10),
        ("et-0/0/0:1", "speed 25g;", 25 * 10**9),
        ("so-0/0/0", "speed oc12;", 622_080_000),
        ("ge-0/0/0", "gigether-options { speed 100m; }", 10**8),
        ("ge-0/0/0", "unit 0 { bandwidth 622m; }", 622 * 10**6),
        ("ae0", "", None),
    ],
)
def test_interfaces_have_rates(name: str, statement: str, rate: int | None) -> None:
    text = f"interfaces {{ {name} {{ description x; {statement} }} }}\n"
    text += f"class-of-service {{ interfaces {{ {name} {{ unit 0; }} }} }}\n"
    found = attachment(text, name)
    assert found.rate == rate
    assert (found.rate_place is not None) == bool(statement)


def test_bundles_have_the_rates_of_their_links() -> None:
    text = "".join(f"set interfaces xe-0/0/{n} gigether-options 802.3ad ae0\n" for n in range(2))
    text += "set interfaces ae0 unit 0\nset class-of-service interfaces ae0 unit 0\n"
    assert attachment(text, "ae0").rate == 2 * 10**10


def test_units_with_profiles_have_policies_of_their_own() -> None:
    text = """\
set class-of-service traffic-control-profiles gold scheduler-map m shaping-rate 100m
set class-of-service traffic-control-profiles gold shaping-rate burst-size 64k
set class-of-service scheduler-maps m forwarding-class best-effort scheduler s
set class-of-service schedulers s transmit-rate percent 90
set class-of-service interfaces ge-0/0/3 unit 7 output-traffic-control-profile gold
"""
    (found,) = reading(text).attachments
    assert (found.interface, found.name) == ("ge-0/0/3.7", "m")
    assert found.shape == {"rate": "100 Mbps", "burst": "64 kB"}


@pytest.mark.parametrize("way", ["per-packet", "per-flow"])
def test_load_is_balanced_by_flow(way: str) -> None:
    text = f"""\
set policy-options policy-statement lb then load-balance {way}
set routing-options forwarding-table export lb
"""
    assert reading(text).balance == "per-flow"
    assert reading(text.split("\n")[0]).balance is None


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
