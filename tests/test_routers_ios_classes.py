"""Class maps and access lists of IOS: the packets that they match."""

from __future__ import annotations

from typing import Any

import pytest

from ios import (
    GROUPS,
    LISTS,
    policy,
    runs,
    treatments,
)

MATCHES = [
    (
        "match-any",
        "match ip dscp af11 12\nmatch dscp ef",
        [{"dscp": ["af11", "af12"], "ip": 4}, {"dscp": "ef"}],
    ),
    ("match-any", "match dscp af11 12\nmatch dscp ef", {"dscp": ["af11", "af12", "ef"]}),
    ("match-all", "match ip dscp 8 10", {"dscp": ["cs1", "af11"], "ip": 4}),
    ("match-all", "match protocol ipv6\nmatch dscp 8", {"dscp": "cs1", "ip": 6}),
    (
        "match-all",
        "match not ip dscp 8",
        [{"except": {"dscp": "cs1", "ip": 4}}, "any"],
    ),
    ("match-any", "match precedence critical", {"dscp": [40, 41, 42, 43, 44, 45, 46, 47]}),
    ("", "match dscp ef\nmatch access-group 101", {"dscp": "ef", "destination": "10.0.0.0/8"}),
    (
        "match-any",
        "match ip precedence 1",
        {"dscp": ["cs1", 9, "af11", 11, "af12", 13, "af13", 15], "ip": 4},
    ),
    ("match-all", "match not dscp ef", [{"except": {"dscp": "ef"}}, "any"]),
    ("match-any", "match class-map OTHER\nmatch dscp cs1", {"dscp": ["cs1", "ef"]}),
    ("match-all", "match class-map OTHER\nmatch protocol udp", {"dscp": "ef", "protocol": "udp"}),
    ("match-any", "match protocol ip", {"ip": 4}),
    ("match-any", "match protocol ip\nmatch protocol ipv6", "any"),
    ("match-any", "match dscp 8-9,12", {"dscp": ["cs1", 9, "af12"]}),
    (
        "match-any",
        "match ip rtp 16384 100",
        {"ip": 4, "protocol": "udp", "destination_port": "16384-16484"},
    ),
    ("match-all", "match protocol http\nmatch dscp ef", {"dscp": "ef"}),
    ("match-any", "match cos 5\nmatch dscp ef", [{"pcp": 5}, {"dscp": "ef"}]),
    (
        "match-any",
        "match access-group name WEB",
        {"ip": 4, "protocol": "tcp", "destination_port": [80, 443]},
    ),
]


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


@pytest.mark.parametrize(("entry", "expected"), ENTRIES)
def test_entries_of_access_lists(entry: str, expected: dict[str, Any]) -> None:
    text = f"{GROUPS}ip access-list extended L\n {entry}\n permit udp any any eq 9\n"
    text += "class-map A\n match access-group name L\npolicy-map P\n class A\n  bandwidth 100\n"
    text += "interface GigabitEthernet0/1\n service-policy output P\n"
    names = {"ports": "destination_port", "from": "source_port"}
    wanted = {"protocol": "tcp", **{names.get(key, key): value for key, value in expected.items()}}
    if not {"source", "destination"} & {*wanted}:
        wanted["ip"] = 4
    if "dscp" in wanted and isinstance(wanted["dscp"], list):
        wanted["dscp"] = [2, "af11", "af21", "af31", "af41", 42, 50, 58]
    attachment = policy(text)
    runs(attachment)
    found = attachment.policy["classes"]["A"]["match"]
    assert wanted in found and {"ip": 4, "protocol": "udp", "destination_port": 9} in found


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
    assert match[0] == {"except": {"source": "2001:db8::1"}}
    assert match[1] == {"ip": 6, "protocol": "tcp", "destination_port": 80}


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
