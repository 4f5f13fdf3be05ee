"""Configurations of IOS and IOS-XE: each feature, and every line accounted for."""

from __future__ import annotations

import json
import random
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perhop.gallery import load
from perhop.routers.reading import Attachment, Configuration, Treatment, source
from perhop.routers.reading.detect import read as detect
from perhop.routers.reading.ios import read
from perhop.scenario import parse

BLOCKS = ("class-map", "policy-map", "map-class", "ip access-list", "ipv6 access-list")


def config(text: str) -> Configuration:
    found = read([source(text, "r.cfg")])
    numbers = [line.place.line for line in found.lines]
    assert numbers == sorted(set(numbers)), "a line has two treatments, or is out of order"
    told = text.splitlines()
    for line in found.lines:
        assert line.text in told[line.place.line - 1]
        assert bool(line.note) == (line.treatment is not Treatment.MODELLED)
    missing = qos_lines(text) - set(numbers)
    assert not missing, [f"{number}: {told[number - 1]}" for number in sorted(missing)]
    return found


def qos_lines(text: str) -> set[int]:
    """The lines of an indented configuration that must have a treatment, by other means."""
    inside = ""
    found = set()
    blocks: dict[str, set[int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or line.lstrip().startswith("!") or words[0] in ("exit", "end"):
            continue
        if not line[0].isspace():
            inside = next((start for start in BLOCKS if line.startswith(start)), "")
            if "access-list" in line:
                inside = f"list {words[1] if words[0] == 'access-list' else words[-1]}"
        if inside.startswith("list"):
            blocks.setdefault(inside, set()).add(number)
        elif (inside and inside != "map-class") or "service-policy" in words[:2]:
            found.add(number)
    for name, lines in blocks.items():
        if re.search(rf"match (not )?access-group (name )?{name.split()[1]}\b", text):
            found |= lines
    return found


def policy(text: str, interface: str = "GigabitEthernet0/1") -> Attachment:
    return next(each for each in config(text).attachments if each.interface == interface)


def one(statements: str, *, version: str = "12.4", rate: int = 10_000) -> dict[str, Any]:
    """The first class of a policy at an interface of 10 Mb/s."""
    found = policy(
        f"version {version}\nclass-map A\n match ip dscp 8\npolicy-map P\n class A\n"
        + "".join(f"  {line}\n" for line in statements.splitlines())
        + f"interface GigabitEthernet0/1\n bandwidth {rate}\n service-policy output P\n"
    )
    runs(found)
    return dict(found.policy["classes"]["A"])


def runs(attachment: Attachment) -> None:
    """Check that a scenario with this policy is valid."""
    policy = {"classes": _unused(attachment.policy["classes"])}
    shape = {"shape": {"a": attachment.shape}} if attachment.shape else {}
    link = {"ends": ["a", "b"], "rate": f"{attachment.rate or 10**8} bps", **shape}
    scenario = {
        "perhop": 1,
        "name": "x",
        "nodes": {"a": "host", "b": "host"},
        "links": [{**link, "egress": {"a": "p"}}],
        "policies": {"p": policy},
        "duration": "1 s",
    }
    parse(json.dumps(scenario))


def _unused(classes: dict[str, Any]) -> dict[str, Any]:
    """Return classes that no traffic needs to match."""
    found = {}
    for name, each in classes.items():
        inner = {"classes": _unused(each["classes"])} if "classes" in each else {}
        found[name] = {**each, **inner, "unused": True}
    return found


def treatments(text: str) -> dict[str, tuple[str, str]]:
    return {line.text: (line.treatment.value, line.note) for line in config(text).lines}


# Classes


MATCHES = [
    ("match-any", "match ip dscp af11 12\nmatch dscp ef", {"dscp": ["af11", "af12", "ef"]}),
    ("match-all", "match ip dscp 8 10", {"dscp": ["cs1", "af11"]}),
    ("", "match dscp ef\nmatch access-group 101", {"dscp": "ef", "destination": "10.0.0.0/8"}),
    ("match-any", "match ip precedence critical", {"dscp": [40, 41, 42, 43, 44, 45, 46, 47]}),
    ("match-all", "match not dscp ef", [{"except": {"dscp": "ef"}}, "any"]),
    ("match-any", "match class-map OTHER\nmatch dscp cs1", {"dscp": ["cs1", "ef"]}),
    ("match-all", "match class-map OTHER\nmatch protocol udp", {"dscp": "ef", "protocol": "udp"}),
    ("match-any", "match protocol ip", "any"),
    ("match-any", "match dscp 8-9,12", {"dscp": ["cs1", 9, "af12"]}),
    ("match-any", "match ip rtp 16384 100", {"protocol": "udp", "destination_port": "16384-16484"}),
    ("match-all", "match protocol http\nmatch dscp ef", {"dscp": "ef"}),
    ("match-any", "match cos 5\nmatch dscp ef", {"dscp": "ef"}),
    (
        "match-any",
        "match access-group name WEB",
        {"protocol": "tcp", "destination_port": [80, 443]},
    ),
]

LISTS = """\
access-list 101 permit ip any 10.0.0.0 0.255.255.255
ip access-list extended WEB
 remark the web
 permit tcp any any eq www 443
class-map OTHER
 match dscp ef
"""


@pytest.mark.parametrize(("mode", "statements", "expected"), MATCHES)
def test_class_maps(mode: str, statements: str, expected: object) -> None:
    text = f"{LISTS}class-map {mode} A\n"
    text += "".join(f" {line}\n" for line in statements.splitlines())
    text += "policy-map P\n class A\n  bandwidth percent 10\n"
    text += "interface GigabitEthernet0/1\n service-policy output P\n"
    found = policy(text)
    runs(found)
    assert found.policy["classes"]["A"]["match"] == _named(expected)


def _named(match: object) -> object:
    """Code points by their names."""
    if isinstance(match, dict) and match.get("dscp") == [40, 41, 42, 43, 44, 45, 46, 47]:
        return {"dscp": ["cs5", 41, 42, 43, "voice-admit", 45, "ef", 47]}
    if isinstance(match, dict) and "protocol" in match and match.get("protocol") == "ip":
        return "any"
    return match


ENTRIES = [
    (
        "permit tcp 10.1.0.0 0.0.255.255 any range 20 21",
        {"source": "10.1.0.0/16", "ports": "20-21"},
    ),
    ("permit tcp host 10.0.0.1 gt 1023 any", {"source": "10.0.0.1", "from": "1024-65535"}),
    ("permit tcp any any neq 80", {"ports": ["1-79", "81-65535"]}),
    ("permit tcp any lt 1024 any", {"from": "1-1023"}),
    ("permit tcp any any established", {}),
    ("permit tcp any any dscp af21 log", {"dscp": "af21"}),
    ("permit tcp 10.0.0.0 0.0.2.255 any", {"source": ["10.0.0.0/24", "10.0.2.0/24"]}),
    ("permit tcp object-group SITES any", {"source": ["10.1.0.0/16", "192.0.2.7"]}),
    ("permit object-group PORTS any any", {"ports": [25, 8080]}),
    ("permit tcp any addrgroup HOSTS", {"destination": "10.2.0.0/24"}),
    ("permit tcp any any tos 4", {"dscp": [2, 10, 18, 26, 34, 42, 50, 58]}),
]

GROUPS = """\
object-group network SITES
 10.1.0.0 255.255.0.0
 host 192.0.2.7
object-group service PORTS
 tcp eq smtp
 tcp 8080
object-group ip address HOSTS
 10 10.2.0.0/24
"""


@pytest.mark.parametrize(("entry", "expected"), ENTRIES)
def test_entries_of_access_lists(entry: str, expected: dict[str, Any]) -> None:
    text = f"{GROUPS}ip access-list extended L\n {entry}\n permit udp any any eq 9\n"
    text += "class-map A\n match access-group name L\npolicy-map P\n class A\n  bandwidth 100\n"
    text += "interface GigabitEthernet0/1\n service-policy output P\n"
    names = {"ports": "destination_port", "from": "source_port"}
    wanted = {"protocol": "tcp", **{names.get(key, key): value for key, value in expected.items()}}
    if "dscp" in wanted and isinstance(wanted["dscp"], list):
        wanted["dscp"] = [2, "af11", "af21", "af31", "af41", 42, 50, 58]
    attachment = policy(text)
    runs(attachment)
    found = attachment.policy["classes"]["A"]["match"]
    assert wanted in found and {"protocol": "udp", "destination_port": 9} in found


def test_denied_packets_are_excluded() -> None:
    text = """\
ip access-list standard L
 20 permit 10.0.0.0 0.255.255.255
 10 deny 10.1.1.1
class-map A
 match access-group name L
policy-map P
 class A
  bandwidth percent 10
interface GigabitEthernet0/1
 service-policy output P
"""
    assert policy(text).policy["classes"]["A"]["match"] == [
        {"except": {"source": "10.1.1.1"}},
        {"source": "10.0.0.0/8"},
    ]


def test_lists_of_ipv6_match_no_packets_of_ipv4() -> None:
    text = """\
ipv6 access-list L
 sequence 20 permit tcp any any eq 80
 sequence 10 deny ipv6 host 2001:db8::1 any
class-map match-any A
 match access-group name L
policy-map P
 class A
  bandwidth percent 10
interface GigabitEthernet0/1
 service-policy output P
"""
    match = policy(text).policy["classes"]["A"]["match"]
    assert match[0] == {"except": {"source": "2001:db8::1", "destination": "::/0"}}
    assert match[1]["source"] == match[1]["destination"] == "::/0"


def test_unknown_conditions_are_named() -> None:
    text = """\
ip access-list extended L
 permit gre any any
 permit tcp any any fragments
 permit tcp any any eq nowhere
 foo
class-map match-all A
 match access-group name L
class-map match-any B
 match protocol citrix
 match input-interface Serial0
 match vlan 3
 match foo
class-map C
 match class-map C
class-map match-any UNUSED
 match dscp 1
policy-map P
 class A
  bandwidth percent 10
 class B
  set dscp ef
 class C
  priority
 class MISSING
  bandwidth 8
  frobnicate 5
interface GigabitEthernet0/1
 service-policy output P
"""
    found = treatments(text)
    assert found["permit gre any any"] == (
        "not modelled",
        "scenarios have no packets of protocol gre",
    )
    assert found["permit tcp any any fragments"] == ("not modelled", "scenarios have no fragments")
    assert found["permit tcp any any eq nowhere"][1] == "unknown port nowhere"
    assert found["match protocol citrix"][1] == "NBAR's recognition of citrix is not modelled"
    assert found["match vlan 3"] == ("not modelled", "there are no VLANs")
    assert found["match class-map C"] == ("not modelled", "contains itself")
    assert found["class MISSING"] == ("not modelled", "no class map MISSING")
    assert found["class A"][1] == "matches no packet that a scenario can state"
    assert found["frobnicate 5"] == ("not modelled", "its class is not modelled")
    assert found["match dscp 1"] == ("not modelled", "no policy uses it")
    assert list(policy(text).policy["classes"]) == ["class-default"]


# Policies


STATEMENTS = [
    ("bandwidth 2000", {"bandwidth": "2 Mbps"}),
    ("bandwidth percent 12.5", {"bandwidth": "12.5%"}),
    ("bandwidth remaining percent 20", {"bandwidth": "20%"}),
    ("bandwidth remaining ratio 3", {"bandwidth": "75%"}),
    ("priority", {"priority": "strict"}),
    ("priority 512", {"police": {"rate": "512 kbps", "burst": "12800 B", "exceed": "drop"}}),
    ("priority 512 9000", {"police": {"rate": "512 kbps", "burst": "9 kB", "exceed": "drop"}}),
    ("priority percent 10", {"police": {"rate": "10%", "burst": "25 kB", "exceed": "drop"}}),
    ("priority level 2 percent 1", {"priority": "strict"}),
    (
        "shape average 2000000",
        {"shape": {"rate": "2 Mbps", "burst": "6250 B"}, "bandwidth": "20%"},
    ),
    ("shape average 2m 80000", {"shape": {"rate": "2 Mbps", "burst": "10 kB"}}),
    ("shape average percent 20 40 ms", {"shape": {"rate": "20%", "burst": "10 kB"}}),
    ("shape peak 1000000 8000 8000", {"shape": {"rate": "2 Mbps", "burst": "2 kB"}}),
    ("bandwidth 8\nqueue-limit 100", {"queue": {"limit": "100 packets"}}),
    ("bandwidth 8\nqueue-limit 1 packets", {"queue": {"limit": "1 packet"}}),
    ("bandwidth 8\nqueue-limit 20 ms", {"queue": {"limit": "20 ms"}}),
    ("bandwidth 8\nqueue-limit 9000 bytes", {"queue": {"limit": "9000 B"}}),
    ("set dscp af31", {"mark": "af31"}),
    ("set ip precedence 5", {"mark": "cs5"}),
    ("drop", {"police": {"rate": "8 kbps", "burst": "1 B", "conform": "drop", "exceed": "drop"}}),
    (
        "bandwidth 8\nrandom-detect dscp-based\nrandom-detect dscp af11 24 40 5\n"
        "random-detect ecn\nrandom-detect exponential-weighting-constant 6",
        {
            "queue": {
                "limit": "64 packets",
                "wred": {
                    "by": "dscp",
                    "profiles": [
                        {
                            "dscp": ["af11"],
                            "min": "24 packets",
                            "max": "40 packets",
                            "probability": "20%",
                        }
                    ],
                    "weight": "1.5625%",
                    "ecn": True,
                },
            }
        },
    ),
    (
        "bandwidth 8\nrandom-detect\nrandom-detect dscp 8 12 ms 24 ms 1\n"
        "random-detect precedence 2 30000 bytes 60000 bytes",
        {
            "queue": {
                "limit": "64 packets",
                "wred": {
                    "by": "precedence",
                    "profiles": [
                        {
                            "dscp": ["cs1"],
                            "min": "10 packets",
                            "max": "20 packets",
                            "probability": "100%",
                        },
                        {
                            "dscp": ["cs2", 17, "af21", 19, "af22", 21, "af23", 23],
                            "min": "20 packets",
                            "max": "40 packets",
                            "probability": "10%",
                        },
                    ],
                },
            }
        },
    ),
    (
        "bandwidth 8\nfair-queue 64",
        {
            "queue": {
                "limit": "64 packets",
                "fq-codel": {"flows": 64, "target": "1 h", "interval": "2 h", "ecn": False},
            }
        },
    ),
]


@pytest.mark.parametrize(("statements", "expected"), STATEMENTS, ids=[s[0] for s in STATEMENTS])
def test_statements_of_classes(statements: str, expected: dict[str, Any]) -> None:
    found = one(statements)
    assert {key: found.get(key) for key in expected} == expected


TWO = {"excess_burst": "3 kB", "exceed": {"remark": "af12"}, "violate": "drop"}
POLICERS: list[tuple[str, dict[str, Any]]] = [
    ("police 64000", {"rate": "64 kbps", "burst": "2 kB", "exceed": "drop"}),
    (
        "police 8000 1500 3000 conform-action transmit exceed-action set-dscp-transmit af12 "
        "violate-action drop",
        {"rate": "8 kbps", "burst": "1500 B", **TWO},
    ),
    (
        "police cir 8000 bc 1500 be 3000\n conform-action transmit\n"
        " exceed-action set-dscp-transmit 12\n violate-action drop",
        {"rate": "8 kbps", "burst": "1500 B", **TWO},
    ),
    (
        "police 8000 1500 3000 conform-action transmit exceed-action drop",
        {"rate": "8 kbps", "burst": "1500 B", "exceed": "drop"},
    ),
    (
        "police cir 1m bc 10000 pir 2m be 20000 conform-action set-prec-transmit 3 "
        "exceed-action transmit",
        {
            "rate": "1 Mbps",
            "burst": "10 kB",
            "peak_rate": "2 Mbps",
            "peak_burst": "20 kB",
            "conform": {"remark": "cs3"},
            "exceed": "send",
            "violate": "drop",
        },
    ),
    (
        "police rate 2000000 bps burst 9000 bytes\n exceed-action drop",
        {"rate": "2 Mbps", "burst": "9 kB", "exceed": "drop"},
    ),
    (
        "police cir percent 20 bc 10 ms pir percent 40 be 20 ms",
        {
            "rate": "20%",
            "burst": "2500 B",
            "peak_rate": "40%",
            "peak_burst": "10 kB",
            "exceed": "drop",
            "violate": "drop",
        },
    ),
    (
        "police 64000 conform-action transmit exceed-action drop violate-action drop",
        {"rate": "64 kbps", "burst": "2 kB", "exceed": "drop"},
    ),
    (
        "priority 32\npolice 64000 4000",
        {"rate": "32 kbps", "burst": "800 B", "exceed": "drop"},
    ),
    ("priority 64\npolice 32000 4000", {"rate": "32 kbps", "burst": "4 kB", "exceed": "drop"}),
    ("police rate percent 10", {"rate": "10%", "burst": "31250 B", "exceed": "drop"}),
]


@pytest.mark.parametrize(("statement", "expected"), POLICERS, ids=[s[0] for s in POLICERS])
def test_policers(statement: str, expected: dict[str, Any]) -> None:
    assert one(statement)["police"] == expected


def test_what_is_not_modelled_in_a_class_is_named() -> None:
    text = """\
policy-map P
 class class-default
  bandwidth percent x
  priority 0
  police flow mask src-only
  police rate 100 pps
  shape adaptive 64000
  queue-limit dscp af11 30
  random-detect discard-class 3 20 40
  set cos 3
  set qos-group 5
  compress header ip
  netflow-sampler x
  foo bar
   baz
  service-policy
 something else
"""
    found = treatments(text)
    named = [line for line in text.splitlines()[2:] if "police flow" not in line]
    for line in named:
        assert found[line.strip()][0] == "not modelled", line
    assert found["set qos-group 5"][1] == "there are no QoS groups"
    assert found["police rate 100 pps"][1] == "rates in pps are not modelled"
    assert found["police flow mask src-only"][1] == "replaced in line 6"


@pytest.mark.parametrize(
    ("words", "note"),
    [
        ("bc", "no burst after bc"),
        ("bc 1500 be", "no burst after be"),
        ("bc conform-action transmit", "no burst after bc"),
        ("bc 1500 pir", "no peak rate"),
    ],
)
def test_policers_that_end_too_early_are_not_modelled(words: str, note: str) -> None:
    line = f"police 5000000 {words}"
    found = treatments(f"policy-map P\n class class-default\n  {line}\n")
    assert found[line] == ("not modelled", note)


def test_defaults_are_those_of_the_platform() -> None:
    wan = """\
class-map A
 match dscp ef
class-map B
 match dscp cs1
policy-map P
 class A
  priority percent 10
 class B
  bandwidth remaining percent 50
  random-detect
interface GigabitEthernet0/1
 service-policy output P
"""
    classic = policy(f"version 12.4\n{wan}")
    classes = classic.policy["classes"]
    assert classes["A"]["queue"] == {"limit": "64 packets"}
    assert classes["B"] == {
        "match": {"dscp": "cs1"},
        "bandwidth": "45%",
        "queue": {"limit": "64 packets", "wred": {"by": "precedence"}},
    }
    assert classic.rate == 10**9
    modern = policy(f"version 16.9\n{wan}").policy["classes"]
    assert modern["A"]["queue"] == {"limit": "512 packets"}
    assert modern["B"]["queue"]["limit"] == "4166 packets"
    lowest = modern["B"]["queue"]["wred"]["profiles"][0]
    assert (lowest["min"], lowest["max"]) == ("1041 packets", "2083 packets")
    unknown = config(wan)
    assert next(each.setting for each in unknown.defaults) == "version"
    settings = {each.setting for each in unknown.defaults}
    assert {"queue-limit", "burst", "random-detect", "rate"} <= settings
    assert all(each.source for each in unknown.defaults)
    release = config(f"version 15.4\nplatform qfp utilization\n{wan}").attachments[0]
    assert release.policy["classes"]["A"]["queue"] == {"limit": "512 packets"}


def test_a_parent_shaper_is_that_of_the_interface() -> None:
    text = """\
class-map A
 match dscp ef
policy-map CHILD
 class A
  priority percent 10
 class class-default
  bandwidth percent 60
policy-map PARENT
 class class-default
  shape average 20000000
  service-policy CHILD
interface GigabitEthernet0/1
 service-policy output PARENT
"""
    found = policy(text)
    assert found.shape == {"rate": "20 Mbps", "burst": "62500 B"}
    assert found.policy["classes"]["A"]["police"]["rate"] == "2 Mbps"
    assert found.policy["classes"]["class-default"]["bandwidth"] == "60%"
    runs(found)
    assert not any(each.interface == "" for each in config(text).attachments)


@pytest.mark.parametrize("burst", ["192.0.2.1", "99999999999999", "8000 192.0.2.1", "1e3"])
def test_a_burst_that_is_no_number_ends_the_statement(burst: str) -> None:
    text = f"policy-map P\n class class-default\n  police 1000000 {burst}\n"
    [line] = [line for line in config(text).lines if line.place.line == 3]
    assert line.treatment is Treatment.NOT_MODELLED
    assert line.note == f"no burst: {burst.rpartition(' ')[2]}"


def test_policies_without_an_interface_are_read() -> None:
    text = """\
policy-map CHILD
 class class-default
  queue-limit 30
policy-map PARENT
 class class-default
  shape average 1000000
  service-policy CHILD
"""
    found = config(text)
    assert [(each.interface, each.name) for each in found.attachments] == [("", "PARENT")]
    assert found.attachments[0].rate is None
    assert {line.treatment for line in found.lines} == {Treatment.MODELLED}


def test_policies_in_policies_divide_their_class() -> None:
    text = """\
class-map A
 match dscp ef
class-map SITE
 match access-group 10
access-list 10 permit 10.0.0.0 0.0.0.255
policy-map CHILD
 class A
  bandwidth percent 25
policy-map PARENT
 class SITE
  bandwidth percent 40
  shape average percent 40
  queue-limit 10
  service-policy CHILD
 class A
  service-policy PARENT
interface GigabitEthernet0/1
 service-policy output PARENT
"""
    found = policy(text)
    site = found.policy["classes"]["SITE"]
    assert list(site["classes"]) == ["A", "class-default"]
    assert site["classes"]["A"]["bandwidth"] == "25%"
    assert found.place(("classes", "SITE", "classes", "A", "bandwidth")).line == 8
    assert found.place(("classes", "SITE", "shape")).line == 12
    told = treatments(text)
    assert told["service-policy PARENT"] == ("not modelled", "contains itself")
    assert told["queue-limit 10"] == ("not modelled", "the policy inside has the queues")
    runs(found)


def test_sites_that_share_less_than_their_shapers() -> None:
    text = """\
version 16.9
class-map VOICE
 match dscp ef
class-map SITE1
 match access-group 1
class-map SITE2
 match access-group 2
access-list 1 permit 10.0.1.0 0.0.0.255
access-list 2 permit 10.0.2.0 0.0.0.255
policy-map SITE
 class VOICE
  priority percent 60
 class class-default
  bandwidth percent 40
policy-map HUB
 class SITE1
  shape average 10000000
  bandwidth remaining ratio 2
  service-policy SITE
 class SITE2
  shape average 10000000
  bandwidth remaining ratio 7
  service-policy SITE
interface GigabitEthernet0/1
 bandwidth 10000
 service-policy output HUB
"""
    found = policy(text)
    runs(found)
    small, large = (found.policy["classes"][name] for name in ("SITE1", "SITE2"))
    assert (small["bandwidth"], large["bandwidth"]) == ("20%", "70%")
    assert small["shape"]["rate"] == large["shape"]["rate"] == "10 Mbps"
    assert small["classes"]["VOICE"]["police"]["rate"] == "1.9 Mbps"  # 95% of 2 Mb/s
    assert small["classes"]["class-default"]["bandwidth"] == "49.382 kbps"
    assert large["classes"]["VOICE"]["police"]["rate"] == "6 Mbps"
    assert large["classes"]["class-default"]["bandwidth"] == "1 Mbps"
    told = {line.place.line: line.treatment for line in config(text).lines}
    assert (told[19], told[23]) == (Treatment.APPROXIMATED, Treatment.MODELLED)


def test_priority_of_the_default_class_does_not_move_it() -> None:
    text = """\
class-map A
 match dscp ef
policy-map P
 class A
  priority level 2
 class class-default
  priority level 1
interface GigabitEthernet0/1
 service-policy output P
"""
    found = policy(text)
    runs(found)
    assert list(found.policy["classes"]) == ["A", "class-default"]


def test_priority_levels_decide_the_order() -> None:
    text = """\
class-map match-any VIDEO
 match dscp af41 ef
class-map VOICE
 match dscp ef cs5
policy-map P
 class VIDEO
  priority level 2
 class VOICE
  priority level 1
interface GigabitEthernet0/1
 service-policy output P
"""
    classes = policy(text).policy["classes"]
    assert list(classes) == ["VOICE", "VIDEO", "class-default"]
    assert classes["VOICE"]["match"] == {"dscp": "cs5"}  # VIDEO takes the others first
    assert classes["VIDEO"]["match"] == {"dscp": ["af41", "ef"]}


def test_classes_without_a_guarantee_keep_something() -> None:
    text = """\
class-map A
 match dscp ef
class-map B
 match dscp cs1
policy-map P
 class A
  priority percent 20
 class B
  bandwidth percent 80
interface GigabitEthernet0/1
 service-policy output P
"""
    found = policy(text)
    assert found.policy["classes"]["B"]["bandwidth"] == "790 Mbps"
    assert treatments(text)["bandwidth percent 80"][0] == "approximated"
    runs(found)


def test_packets_that_arrive_are_policed_and_marked() -> None:
    text = """\
class-map A
 match dscp ef
class-map SITE
 match access-group 10
access-list 10 permit 10.0.0.0 0.0.0.255
policy-map CHILD
 class A
  police 64000
policy-map P
 class SITE
  set dscp af11
  service-policy CHILD
 class class-default
  bandwidth percent 10
  set dscp default
interface GigabitEthernet0/1
 service-policy input P
"""
    found = policy(text)
    runs(found)
    assert found.direction == "in"
    assert found.policy["classes"] == {
        "A": {
            "match": {"dscp": "ef", "source": "10.0.0.0/24"},
            "mark": "af11",
            "police": {"rate": "64 kbps", "burst": "2 kB", "exceed": "drop"},
        },
        "SITE": {"match": {"source": "10.0.0.0/24"}, "mark": "af11"},
        "class-default": {"match": "any", "mark": "be"},
    }
    assert treatments(text)["bandwidth percent 10"][1] == "packets that arrive have no queue"


# Interfaces


@pytest.mark.parametrize(
    ("interface", "statements", "rate", "line"),
    [
        ("FastEthernet0/0", "", 10**8, 2),
        ("Serial0/0/0:0", "", 1_544_000, 2),
        ("POS1/0", "", 155_000_000, 2),
        ("TenGigabitEthernet1/1", "", 10**10, 2),
        ("Gi0/1", "speed 100", 10**8, 3),
        ("Gi0/1", "speed auto", 10**9, 2),
        ("Serial1", "bandwidth 512", 512_000, 3),
        ("Tunnel1", "", None, None),
        ("GigabitEthernet0/0.5", "", 50_000_000, 8),
    ],
)
def test_rates_of_interfaces(
    interface: str, statements: str, rate: int | None, line: int | None
) -> None:
    text = f"policy-map P\ninterface {interface}\n {statements or '!'}\n description x\n"
    text += " service-policy output P\n!\ninterface GigabitEthernet0/0\n bandwidth 50000\n"
    found = policy(text, interface)
    assert found.rate == rate
    assert (found.rate_place.line if found.rate_place else None) == line


@pytest.mark.parametrize(("rate", "treatment"), [(10_000, "approximated"), (1_000_000, "modelled")])
def test_another_rate_than_the_interface_has_is_an_approximation(rate: int, treatment: str) -> None:
    text = f"policy-map P\ninterface Gi0/1\n bandwidth {rate}\n service-policy output P\n"
    assert treatments(text)[f"bandwidth {rate}"][0] == treatment


def test_older_statements_of_interfaces() -> None:
    text = """\
access-list 102 permit tcp any any eq www
interface GigabitEthernet0/1
 rate-limit output access-group 102 20000000 24000 32000 conform-action transmit exceed-action drop
 rate-limit input 8000000 16000 16000 conform-action set-prec-transmit 1 exceed-action drop
 traffic-shape rate 50000000 500000 500000
 fair-queue 64 256 0
 tx-ring-limit 3
 max-reserved-bandwidth 90
 priority-group 1
 ip load-sharing per-packet
 no mls qos trust
priority-list 1 protocol ip high
"""
    found = config(text)
    out, arriving = found.attachments
    assert (out.direction, arriving.direction, found.balance) == ("out", "in", "per-packet")
    assert out.shape == {"rate": "50 Mbps", "burst": "125 kB"}
    assert out.policy["classes"]["rate-limit-1"]["match"]["destination_port"] == 80
    assert arriving.policy["classes"] == {
        "rate-limit-1": {
            "match": "any",
            "police": {
                "rate": "8 Mbps",
                "burst": "16 kB",
                "conform": {"remark": "cs1"},
                "exceed": "drop",
            },
        }
    }
    assert [line.place.line for line in found.lines] == [1, *range(2, 13)]
    runs(out)


def test_circuits_have_their_own_policies() -> None:
    text = """\
policy-map P
interface ATM0/1
 pvc 0/33
  vbr-nrt 2000 1000 32
  service-policy output P
interface Serial0/0
 frame-relay traffic-shaping
interface Serial0/0.1 point-to-point
 frame-relay interface-dlci 100
  class FR
map-class frame-relay FR
 frame-relay cir 256000
 frame-relay bc 2560
 frame-relay mincir 128000
 service-policy output P
"""
    found = config(text)
    pvc, circuit = found.attachments
    assert (pvc.interface, pvc.rate) == ("ATM0/1 pvc 0/33", 10**6)
    assert circuit.interface == "Serial0/0.1 frame-relay interface-dlci 100"
    assert circuit.shape == {"rate": "256 kbps", "burst": "320 B"}
    assert {line.place.line for line in found.lines} == {1, *range(3, 6), 7, *range(9, 15)} | {15}


def test_spellings_of_an_interface_are_one_interface() -> None:
    text = """\
policy-map P
policy-map Q
interface GigabitEthernet0/0/1
 speed 100
interface Gi0/0/1.5
 service-policy input P
int g 0/0/1
 service-policy output P
 service-policy output Q
interface g0/0/1
 no service-policy output P
"""
    inner, whole = sorted(config(text).attachments, key=lambda each: each.direction)
    assert (inner.interface, inner.rate) == ("Gi0/0/1.5", 10**8)
    assert (whole.interface, whole.rate, whole.name) == ("GigabitEthernet0/0/1", 10**8, "Q")


def test_map_classes_shape_without_a_policy() -> None:
    text = """\
map-class frame-relay VOIP
 no frame-relay adaptive-shaping
 frame-relay cir 512000
 frame-relay fair-queue
interface Serial0/0.1 point-to-point
 frame-relay interface-dlci 100 class VOIP
interface Serial0/0.2 point-to-point
 frame-relay class NONE
"""
    found = config(text)
    (circuit,) = found.attachments
    assert circuit.shape == {"rate": "512 kbps", "burst": "1600 B"}
    assert list(circuit.policy["classes"]["class-default"]["queue"]) == ["limit", "fq-codel"]
    assert [line.place.line for line in found.lines] == [1, 2, 3, 4, 6, 8]
    runs(circuit)


def test_other_policies_are_named() -> None:
    text = """\
class-map type inspect match-any FW
 match protocol tcp
policy-map type inspect FWP
 class type inspect FW
  inspect
policy-map COPP
 class class-default
  police 8000
control-plane
 service-policy input COPP
template T
 service-policy output COPP
interface Tunnel0
 ip nhrp map group SPOKE service-policy output COPP
interface GigabitEthernet0/1
 service-policy output MISSING
 service-policy type control X
 service-policy input COPP
"""
    told = treatments(text)
    assert told["inspect"] == ("not modelled", "policy maps of type inspect are not modelled")
    assert told["service-policy output MISSING"] == ("not modelled", "no policy map MISSING")
    assert "service-policy type control X" in told
    assert told["ip nhrp map group SPOKE service-policy output COPP"][0] == "not modelled"


# Text


def test_a_configuration_without_qos_has_no_lines() -> None:
    text = "hostname r\ninterface Gi0/0\n bandwidth 100\n ip address 192.0.2.1 255.255.255.0\n"
    found = config(text + "access-list 1 permit any\nrouter ospf 1\n network 0.0.0.0 area 0\nend\n")
    assert (found.lines, found.attachments, found.defaults) == ((), (), ())


TEXT = """\
class-map match-any A
 match dscp ef
 match dscp cs5
policy-map P
 class A
  priority percent 10
  police cir 8000
   conform-action transmit
   exceed-action drop
 class class-default
  fair-queue
ip access-list extended L
 permit ip any any
interface GigabitEthernet0/1
 ip address 192.0.2.1 255.255.255.0
 service-policy output P
line con 0
 exec-timeout 0 0
"""


@pytest.mark.parametrize(
    "change",
    [
        lambda text: re.sub(r"(?m)^ +", "", text),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: re.sub(r"(?m)^( +)", lambda m: "\t" * len(m[1]), text),
        lambda text: re.sub(r"(?m)^", "    ", text),
        lambda text: re.sub(r"(?m)^(class-map|policy-map|interface)", r"!\n\1", text),
        lambda text: re.sub(
            r"(?m)^ +", "R1(config-x)#", re.sub(r"(?m)^(?=\S)", "R1(config)#", text)
        ),
        lambda text: (
            "r1#show run\nBuilding configuration...\n\nCurrent configuration : 9 bytes\n"
            "banner motd ^C\npolicy-map NOT\n class A\n^C\n" + text + "end\n\nr1#\n"
        ),
        lambda text: text.replace("  priority", "    priority").replace(" class", "  class"),
        lambda text: text.replace("interface", "inter").replace("  police", "   police"),
        lambda text: text.replace("  police", " police").replace("   conform", "  conform"),
        lambda text: text.replace("ip access", "  exit\n exit\nip access"),
        lambda text: text.replace("class A\n", "class A ! comment\n  ! other\n"),
        lambda text: text.replace("  fair", " --More-- \x08\x08\x08\x08         fair"),
    ],
)
def test_indentation_and_what_surrounds_text_do_not_matter(change: Any) -> None:
    text = change(TEXT)
    found, plain = read([source(text, "r")]), read([source(TEXT, "r")])
    assert [a.policy for a in found.attachments] == [a.policy for a in plain.attachments]
    assert len(found.lines) == len(plain.lines)
    assert len(plain.attachments) == 1 and len(plain.lines) == 13


def test_commands_with_prompts_are_recognised() -> None:
    text = "R1(config)#class-map VOICE\nR1(config-cmap)# match dscp ef\nR1(config-cmap)#exit\n"
    assert detect([source(text, "r.txt")]).family == "ios"


def test_policies_without_queues_and_interface_are_for_what_arrives() -> None:
    text = """\
policy-map MARK
 class class-default
  set dscp af11
policy-map OUTER
 class class-default
  service-policy QUEUE
policy-map QUEUE
 class class-default
  queue-limit 20
"""
    found = config(text).attachments
    assert [(each.name, each.direction) for each in found] == [("MARK", "in"), ("OUTER", "out")]
    assert found[0].policy == {"classes": {"class-default": {"match": "any", "mark": "af11"}}}


def test_statements_outside_their_block_are_named() -> None:
    told = treatments("hostname r\n!\nbandwidth percent 10\n!\nmatch ip dscp 8\n")
    assert {note for _, note in told.values()} == {
        "stands outside the block that it would belong to"
    }
    assert len(told) == 2


# The documents' own configurations


TRANSATLANTIC = """\
class-map match-all qbss
  match ip dscp 8
policy-map qos-policy
  class qbss
    bandwidth percent 1
    queue-limit 64
    random-detect
  class class-default
    random-detect
interface POS1/0
  service-policy output qos-policy
"""


def test_the_transatlantic_router_is_read_as_the_gallery_has_it() -> None:
    found = policy(TRANSATLANTIC, "POS1/0")
    gallery = load("qbss-transatlantic").policies["qos-policy"]
    read_ = _resolved(found.policy, "qos-policy")
    assert list(read_.classes) == list(gallery.classes) == ["qbss", "class-default"]
    assert read_.classes["qbss"] == gallery.classes["qbss"]
    # The gallery puts in another queue, which is not the document's; see its description.
    queue = gallery.classes["class-default"].queue
    rest = read_.classes["class-default"].model_copy(update={"queue": queue})
    assert rest == gallery.classes["class-default"]
    assert found.rate == 155_000_000
    assert {line.treatment for line in config(TRANSATLANTIC).lines} == {Treatment.MODELLED}


@pytest.mark.parametrize(("name", "priority"), [("qbss-1-70", 70), ("qbss-30-1", 30)])
def test_the_slac_routers_are_read_as_the_gallery_has_them(name: str, priority: int) -> None:
    text = f"""\
class-map match-all qbss
  match ip dscp 8
class-map match-all hi-priority
  match ip dscp 10
policy-map qos-policy
  class qbss
    bandwidth percent 1
  class hi-priority
    bandwidth percent {priority}
  class class-default
    bandwidth percent {99 - priority}
interface Ethernet0/0
  service-policy output qos-policy
"""
    found = policy(text, "Ethernet0/0")
    gallery = list(load(name).policies["qbss"].classes.values())
    classes = list(_resolved(found.policy, "p").classes.values())
    assert [each.effective_queue for each in classes] == [e.effective_queue for e in gallery]
    assert [each.model_copy(update={"queue": None}) for each in classes] == gallery
    assert found.rate == 10_000_000


def _resolved(policy: dict[str, Any], name: str) -> Any:
    from perhop.scenario import Scenario

    raw = {
        "perhop": 1,
        "name": "x",
        "nodes": {"a": "host", "b": "host"},
        "links": [{"ends": ["a", "b"], "rate": "155 Mbps"}],
        "policies": {name: {"unused": True, **policy}},
        "duration": "1 s",
    }
    return Scenario.model_validate(raw).policies[name]


# Size and damage


def test_the_time_of_reading_grows_with_the_text_only() -> None:
    def took(count: int) -> float:
        blocks = [
            f"class-map match-any C{n}\n match dscp ef\n match access-group {100 + n % 100}\n"
            f"policy-map P{n}\n class C{n}\n  bandwidth percent 10\n  random-detect\n"
            f"interface Serial{n}\n service-policy output P{n}\n"
            for n in range(count)
        ]
        lists = [f"access-list {n} permit tcp any any eq {n}\n" for n in range(100, 200)]
        text = "".join([*lists, *blocks])
        started = time.process_time()
        read([source(text, "r")])
        return time.process_time() - started

    took(50)
    assert took(800) < 8 * max(took(200), 0.01)


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"class-map C{n}\n match class-map C{n + 1}\n" for n in range(1500))
        + "policy-map P\n class C0\n  priority\n",
        "".join(
            f"policy-map P{n}\n class A\n  service-policy P{n + 1}\n class class-default\n"
            f"  service-policy P{n + 1}\n"
            for n in range(50)
        )
        + "class-map A\n match dscp 1\ninterface Gi0/0\n service-policy output P0\n",
        "policy-map P\n"
        + "".join(f" class C{n}\n  bandwidth 8\n" for n in range(1500))
        + "".join(f"class-map C{n}\n match dscp {n % 64}\n" for n in range(1500))
        + "".join(
            f"interface Gi0/{n}\n bandwidth {n + 1}\n service-policy output P\n" for n in range(100)
        ),
        "".join(f"access-list 100 deny tcp any any eq {n}\n" for n in range(1, 1000))
        + "access-list 100 permit ip any any\nclass-map A\n"
        + " match not access-group 100\n" * 1500
        + "class-map match-any B\n match access-group 100\n match dscp 8\npolicy-map P\n"
        + " class A\n  priority level 2\n class B\n  priority level 1\n"
        + "".join(
            f"interface Gi0/{n}\n bandwidth {n + 1}\n service-policy output P\n" for n in range(500)
        ),
        "".join(f"class-map C{n}\n match access-group {n}\n" for n in range(1, 80))
        + "".join(f"access-list {n} permit 10.0.{n}.0 0.0.0.255\n" for n in range(1, 80))
        + "".join(f"class-map D{n}\n match dscp {n}\n" for n in range(64))
        + "policy-map Q\n"
        + "".join(f" class D{n}\n  set dscp 8\n" for n in range(64))
        + "policy-map P\n"
        + "".join(f" class C{n}\n  service-policy Q\n" for n in range(1, 80))
        + "interface Gi0/0\n service-policy input P\n",
        "\n".join(" " * n + "class-map A" for n in range(2000)),
        "\n".join(f"banner motd {chr(1000 + n)}" for n in range(2000)),
    ],
    ids=[
        "deep class maps",
        "policies by powers",
        "many classes",
        "long lists",
        "classes in classes",
        "indentation",
        "banners",
    ],
)
def test_hostile_text_takes_little(text: str) -> None:
    started = time.process_time()
    config_of(text)
    assert time.process_time() - started < 5


WORDS = sorted({word for text in (TEXT, TRANSATLANTIC, LISTS, GROUPS) for word in text.split()})


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_damaged_text_is_read(seed: int) -> None:
    config_of(damaged(seed))


def damaged(seed: int) -> str:
    """A configuration with some of its text changed."""
    chance = random.Random(seed)
    lines = (GROUPS + LISTS + TEXT + TRANSATLANTIC).splitlines()
    for _ in range(chance.randrange(1, 12)):
        index = chance.randrange(len(lines))
        line = lines[index]
        match chance.randrange(7):
            case 0:
                del lines[index]
            case 1:
                lines.insert(index, chance.choice(lines))
            case 2:
                words = line.split(" ")
                words[chance.randrange(len(words))] = chance.choice(WORDS)
                lines[index] = " ".join(words)
            case 3:
                lines[index] = " " * chance.randrange(4) + line.strip()
            case 4:
                at = chance.randrange(len(line) + 1)
                lines[index] = line[:at] + chr(chance.randrange(1, 300)) + line[at:]
            case 5:
                number = str(chance.choice([0, -1, 2**64, 10**30, 1.5]))
                lines[index] = re.sub("[0-9]+", number, line, count=1)
            case _:
                first, second = sorted(chance.randrange(len(lines)) for _ in range(2))
                lines[first:second] = lines[first:second][::-1]
    return "\n".join(lines)


def config_of(text: str) -> Configuration:
    """Read any text, and check what must hold for all."""
    found = read([source(text.replace("\0", ""), "r")])
    numbers = [line.place.line for line in found.lines]
    assert numbers == sorted(set(numbers))
    for attachment in found.attachments:
        classes = attachment.policy["classes"]
        assert list(classes.values())[-1]["match"] == "any"
        assert all(attachment.place(("classes", name)).line for name in classes)
    return found
