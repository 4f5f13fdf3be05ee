"""Rules of nftables before tc, and reading back what `perhop tc` prints."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perhop import gallery, linux
from perhop.routers.reading import caution, decisive
from perhop.routers.reading.configuration import Configuration, Source
from perhop.routers.reading.linux import nft, read
from perhop.scenario import Scenario, parse

NETWORK = """
perhop: 1
name: x
nodes: {{a: host, r: router, b: host}}
links:
  - {{ends: [a, r], rate: 1 Gbps}}
  - {{ends: [r, b], rate: 10 Mbps, egress: {{r: p}}}}
policies: {{p: {{unused: true, classes: {{{classes}}}}}}}
duration: 1 s
"""
HTB = (
    "tc qdisc add dev eth0 root handle 1: htb default 30\n"
    "tc class add dev eth0 parent 1: classid 1:1 htb rate 10mbit\n"
    "tc class add dev eth0 parent 1:1 classid 1:10 htb rate 1mbit ceil 10mbit\n"
    "tc class add dev eth0 parent 1:1 classid 1:30 htb rate 1mbit ceil 10mbit\n"
    "tc filter add dev eth0 parent 1: prio 1 handle 16 fw classid 1:10\n"
)


def scenario(classes: str) -> Scenario:
    return parse(NETWORK.format(classes=classes))


def printed(found: Scenario) -> Configuration:
    return read([Source("tc.sh", linux.script(found, linux.mapping(found)))])


def policy(found: Configuration, interface: str) -> dict[str, Any]:
    every = {each.interface: each.policy["classes"] for each in found.attachments}
    classes: dict[str, Any] = every[interface]
    return classes


def commands(found: Scenario) -> list[str]:
    """Return tc's commands for the end of the second link."""
    return list(linux.mapping(found).interfaces["r>b"].tc)


def again(classes: dict[str, Any]) -> Scenario:
    import yaml

    def unused(some: dict[str, Any]) -> dict[str, Any]:
        return {
            name: each
            | {"unused": True}
            | ({"classes": unused(each["classes"])} if "classes" in each else {})
            for name, each in some.items()
        }

    return scenario(yaml.safe_dump(unused(classes), default_flow_style=True).strip()[1:-1])


@pytest.mark.parametrize(
    "classes",
    [
        "x: {match: {dscp: ef}, bandwidth: 10%}, y: {match: {dscp: cs1}, bandwidth: 70%, "
        "borrow: false}, z: {match: any, limit: 50%}",
        "x: {match: {dscp: ef}, priority: strict}, y: {match: {dscp: cs1}, bandwidth: 10%}, "
        "z: {match: any, bandwidth: 90%}",
        "x: {match: {port: 53}, bandwidth: 60%, priority: 1, shape: {rate: 8 Mbps, "
        "burst: 30 kB}}, y: {match: any, priority: 3, queue: {fq-codel: {}}}",
        "x: {match: {protocol: udp}, bandwidth: 50%, police: {rate: 1 Mbps, burst: 9000 B}}, "
        "z: {match: any, queue: {limit: 20 packets, drop: head}}",
        "x: {match: {dscp: ef}, police: {rate: 5 Mbps, burst: 1 MB, exceed: {remark: le}}}, "
        "y: {match: {dscp: cs1}, mark: cs2, police: {rate: 1 Mbps, burst: 200 kB, "
        "exceed: {remark: af11}}}, z: {match: any}",
        "x: {match: {protocol: udp}, bandwidth: 50%, classes: {u: {match: {dscp: cs1}, "
        "bandwidth: 10%}, v: {match: any}}}, z: {match: any}",
    ],
)
def test_what_perhop_prints_reads_back_as_the_same_policy(classes: str) -> None:
    before = scenario(classes.replace("match:", "unused: true, match:"))
    found = policy(printed(before), "r-b")
    assert commands(again(found)) == commands(before)


@pytest.mark.parametrize("name", ["qbss-1-70", "qbss-30-1"])
def test_the_gallery_reads_back(name: str) -> None:
    before = gallery.load(name)
    found = policy(printed(before), "testbed-slac")
    ((_, own),) = before.policies.items()
    told = [each.match.dscp for each in own.classes.values()]
    from perhop.scenario.model.dscp import parse_dscp

    assert [
        None if each["match"] == "any" else (parse_dscp(each["match"]["dscp"]),)
        for each in found.values()
    ] == told


@settings(max_examples=15)
@given(st.lists(st.integers(0, 63), min_size=1, max_size=6, unique=True), st.integers(1, 65535))
def test_drawn_classes_read_back(points: list[int], port: int) -> None:
    share = 60 // len(points)
    classes = "".join(
        f"c{dscp}: {{match: {{dscp: {dscp}}}, bandwidth: {share}%, unused: true}}, "
        for dscp in points
    )
    before = scenario(f"{classes}p: {{match: {{port: {port}}}, unused: true}}, z: {{match: any}}")
    assert commands(again(policy(printed(before), "r-b"))) == commands(before)


def test_marks_of_nft_lead_to_classes() -> None:
    rules = (
        "table inet mangle {\n  chain post {\n"
        "    type filter hook postrouting priority mangle; policy accept;\n"
        '    oifname "eth1" meta mark set 0x10\n'
        '    oifname "eth0" tcp dport { 80, 443 } ip saddr 10.0.0.0/8 meta mark set 0x10\n'
        "    ip dscp cs1 meta mark set 0x20 ip dscp set le\n  }\n}\n"
    )
    found = read([Source("tc.sh", HTB), Source("rules.nft", rules)])
    first, rest = policy(found, "eth0").values()
    assert rest["match"] == "any"
    web = {"protocol": "tcp", "source": "10.0.0.0/8", "destination_port": [80, 443]}
    assert first["match"] == [{"except": {"dscp": "cs1", **web}}, web]
    assert [line.place.line for line in found.lines if line.place.file == "rules.nft"] == [4, 5, 6]


def test_packets_that_exceed_a_limit_are_marked_and_sent() -> None:
    rules = (
        "table inet t {\n  chain c {\n    type filter hook postrouting priority 0;\n"
        "    ip dscp ef meta mark set 0x10 limit rate over 10 kbytes/second ip dscp set le\n"
        "    ip dscp cs1 limit rate over 10 kbytes/second meta mark set 0x8\n"
        "    meta mark 0x8 meta priority set 1:10\n  }\n}\n"
    )
    found = read([Source("tc.sh", HTB), Source("rules.nft", rules)])
    lines = {line.place.line: line.note for line in found.lines if line.place.file == "rules.nft"}
    assert lines[6] == "packets that exceed the limit are sent like others"
    first = policy(found, "eth0")["c10"]
    assert first["match"] == {"ip": 4, "dscp": "ef"}
    assert first["police"]["exceed"] == {"remark": "le"}
    assert "mark" not in first


def test_later_rules_replace_marks() -> None:
    rules = (
        "nft add chain ip t c { type filter hook forward priority 0 \\; }\n"
        "nft add rule ip t c udp dport 53 meta mark set 0x10\n"
        "nft add rule ip t c ip daddr 192.0.2.0/24 meta mark set 0x99\n"
    )
    found = policy(read([Source("tc.sh", HTB + rules)]), "eth0")
    assert found["c10"]["match"] == [
        {
            "except": {
                "protocol": "udp",
                "destination": "192.0.2.0/24",
                "destination_port": 53,
            }
        },
        {"ip": 4, "protocol": "udp", "destination_port": 53},
    ]
    assert list(found) == ["c10", "c30"]


def test_rules_that_explode_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nft, "_MOST_STEPS", 2000)
    rules = "".join(
        f"nft add rule ip t c ip daddr 10.{n}.0.0/16 meta mark set {n}\n"
        f"nft add rule ip t c udp dport {n + 1} meta priority set 1:{n + 1}\n"
        for n in range(60)
    )
    chain = "nft add chain ip t c { type filter hook forward priority 0 \\; }\n"
    found = read([Source("tc.sh", HTB + chain + rules)])
    assert len(found.lines) == 125
    assert "without rules of nft: rules have too many combinations" in found.lines[0].note


DROPS = """\
table inet q {
  chain c {
    type filter hook forward priority 0
    policy drop
    ct state invalid drop
    ip dscp ef limit rate over 125 kbytes/second drop
    udp dport 53 reject with icmpx admin-prohibited
    accept
  }
  chain gate {
    type filter hook prerouting priority 0
    iifname "eth1" udp dport 99 drop
  }
}
"""


def test_what_rules_drop_is_policed_before_the_classes() -> None:
    found = read([Source("tc.sh", HTB), Source("rules.nft", DROPS)])
    every = {(each.interface, each.direction): each.policy for each in found.attachments}
    drop = {"rate": "8 bps", "burst": "1 B", "conform": "drop"}
    dns = {"protocol": "udp", "destination_port": 53}
    ef = {"ip": 4, "dscp": "ef"}
    # Packets get to the limit before the rule that drops some of them.
    assert list(every["eth0", "out"]["policers"].items()) == [
        ("limit", {"match": ef, "police": {"rate": "1.024 Mbps", "burst": "128000 B"}}),
        ("dropped", {"match": {**ef, **dns}, "police": drop}),
        ("dropped_2", {"match": [{"except": ef}, dns], "police": drop}),
    ]
    assert every["eth1", "in"]["policers"] == {
        "dropped": {"match": {"protocol": "udp", "destination_port": 99}, "police": drop}
    }
    (limit, dns_line, arrival) = (line for line in found.lines if line.place.file == "rules.nft")
    assert limit.note == "several interfaces share its bucket; here each has one"
    assert (dns_line.note, arrival.note) == ("", "")


def test_what_the_policy_of_a_chain_drops() -> None:
    text = DROPS.replace("    accept\n", "    tcp dport 80 accept\n")
    text = text.replace("    ip dscp ef limit rate over 125 kbytes/second drop\n", "")
    out = read([Source("tc.sh", HTB), Source("rules.nft", text)]).attachments[0]
    web = {"except": {"protocol": "tcp", "destination_port": 80}}
    assert out.policy["policers"]["dropped"]["match"] == [web, "any"]


def test_a_drop_that_depends_on_an_unread_rule_is_told() -> None:
    text = DROPS.replace("ct state invalid drop", "ct state established accept")
    found = read([Source("tc.sh", HTB), Source("rules.nft", text)])
    assert not any("dropped" in each.policy.get("policers", {}) for each in found.attachments[:1])
    notes = {line.place.line: line.note for line in found.lines if line.place.file == "rules.nft"}
    said = "what it drops is sent, as perhop cannot tell what rules.nft:5 lets pass"
    assert notes[7] == said
    assert {line.place.line for line in decisive(found)} >= {7}
    unread = DROPS.replace("ct state invalid drop", "meta length 1000 drop")
    found = read([Source("tc.sh", HTB), Source("rules.nft", unread)])
    assert 5 in {line.place.line for line in decisive(found)}
    assert "meta length 1000 drop" in str(caution(found))
