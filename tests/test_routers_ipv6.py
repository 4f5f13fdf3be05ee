"""Classes for IPv6 in configurations of routers: read, run and written."""

from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perhop
from exporting import scenario
from perhop import analysis
from perhop.routers.lint.packets import Budget, packets_of, without
from perhop.routers.scenario import build
from test_routers_roundtrip import read_again

IOS = """\
hostname r
ipv6 access-list V6
 permit udp 2001:db8:a::/48 any eq 5000
class-map match-any six-list
 match access-group name V6
class-map match-all six
 match protocol ipv6
class-map match-all marked
 match dscp af11
policy-map P
 class six-list
  bandwidth percent 20
 class marked
  bandwidth percent 10
 class six
  bandwidth percent 30
 class class-default
  bandwidth percent 40
interface GigabitEthernet0/1
 bandwidth 10000
 service-policy output P
"""
PF = """\
altq on em0 hfsc bandwidth 10Mb queue { a, b, c }
queue a bandwidth 30% hfsc
queue b bandwidth 20% hfsc
queue c bandwidth 50% hfsc(default)
pass out on em0 inet6 proto udp from 2001:db8::/32 to any port 53 queue a
pass out on em0 inet6 proto tcp to port 22 queue b
"""
VYOS = """\
qos {
    interface eth0 {
        egress p
    }
    policy {
        shaper p {
            bandwidth 10mbit
            class 10 {
                bandwidth 30%
                match six {
                    ipv6 {
                        dscp af21
                        source {
                            address 2001:db8::/32
                        }
                    }
                }
            }
            default {
                bandwidth 70%
            }
        }
    }
}
"""
TC = """\
tc qdisc add dev eth0 root handle 1: htb default 30
tc class add dev eth0 parent 1: classid 1:1 htb rate 10mbit
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 3mbit ceil 10mbit
tc class add dev eth0 parent 1:1 classid 1:30 htb rate 7mbit ceil 10mbit
tc filter add dev eth0 parent 1: protocol ipv6 prio 1 u32 match ip6 dst 2001:db8:7::/48 flowid 1:10
"""


@pytest.mark.parametrize(
    ("text", "over_v6", "over_v4"),
    [
        (IOS, {"six-list", "six"}, {"marked", "class-default"}),
        (PF, {"a", "b"}, {"c"}),
        (VYOS, {"class10"}, {"default"}),
        (TC, {"c10"}, {"c30"}),
    ],
)
def test_classes_of_ipv6_have_flows_of_ipv6(
    text: str, over_v6: set[str], over_v4: set[str], tmp_path: Path
) -> None:
    file = tmp_path / "r.cfg"
    file.write_text(text)
    found = build([file])
    assert not [remark for remark in found.remarks if "has no flow" in remark]
    scenario = found.scenario()
    versions: dict[int, set[str]] = {4: set(), 6: set()}
    for name, flow in scenario.flows.items():
        versions[scenario.ip_of(flow)].add(name)
    assert {4: over_v4, 6: over_v6} == versions
    run = perhop.run(scenario)
    sent = analysis.class_counters(run).filter(link="edge>next")
    assert {row["class"] for row in sent.iter_rows(named=True) if row["sent_packets"] > 100} == {
        *over_v4,
        *over_v6,
    }


def test_hosts_have_addresses_of_both_versions(tmp_path: Path) -> None:
    file = tmp_path / "r.cfg"
    file.write_text(PF)
    nodes = build([file]).scenario().nodes
    assert str(nodes["sender"].address_v6) == "2001:db8::1"
    assert str(nodes["sender"].address) == "198.18.0.1"
    assert str(nodes["sender-2"].address_v6) == "2001:2::1"
    assert {*nodes} == {"sender", "sender-2", "edge", "next", "receiver"}


def test_filters_of_ip_take_no_packets_of_ipv6(tmp_path: Path) -> None:
    text = TC.replace(
        "protocol ipv6 prio 1 u32 match ip6 dst 2001:db8:7::/48",
        "protocol ip prio 1 u32 match ip protocol 17 0xff",
    )
    file = tmp_path / "r.cfg"
    file.write_text(text)
    [(_, policy)] = build([file]).document.data["policies"].items()
    assert policy["classes"]["c10"]["match"] == {"ip": 4, "protocol": "udp"}


LISTED = """\
class-map match-all one
 match MATCH
access-list 101 permit udp any any
ip access-list standard ANY
 permit any
policy-map P
 class one
  bandwidth percent 60
 class class-default
  bandwidth percent 40
interface GigabitEthernet0/1
 bandwidth 10000
 service-policy output P
"""


@pytest.mark.parametrize(
    ("match", "versions"),
    [
        ("dscp ef", {4, 6}),
        ("ip dscp ef", {4}),
        ("precedence 5", {4, 6}),
        ("ip precedence 5", {4}),
        ("ip rtp 5000 100", {4}),
        ("protocol udp", {4, 6}),
        ("protocol ip", {4}),
        ("protocol ipv6", {6}),
        ("access-group 101", {4}),
        ("access-group name ANY", {4}),
    ],
)
def test_ios_matches_have_the_packets_of_their_versions(
    match: str, versions: set[int], tmp_path: Path
) -> None:
    """A scenario sends packets of both versions, which one class has, or the other.

    "To match DSCP values for IPv4 packets only, use the ip keyword. Without the ip keyword the
    match occurs on both" (Cisco IOS QoS command reference, `match dscp`).
    """
    (tmp_path / "r.cfg").write_text(LISTED.replace("MATCH", match))
    run = perhop.run(perhop.parse(TRAFFIC, tmp_path / "s.yaml"))
    sent = analysis.class_counters(run).filter(link="r>b")
    packets = {row["class"]: row["sent_packets"] for row in sent.iter_rows(named=True)}
    assert packets == {
        "one": 100 * len(versions),
        "class-default": 200 - 100 * len(versions),
    }
    # What is written for the same traffic puts the packets of both versions in the same classes.
    assert read_again("ios", perhop.parse(TRAFFIC, tmp_path / "s.yaml"), "r>b") == []


TRAFFIC = """\
perhop: 1
name: versions
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps}
  - {ends: [r, b], rate: 10 Mbps, egress: {r: wan}}
policies:
  wan: {from: r.cfg}
flows:
  four: {from: a, to: b, udp: {rate: 0.8 Mbps, size: 1000 B}, dscp: ef, port: 5000, stop: 1 s}
  six: {from: a, to: b, ip: 6, udp: {rate: 0.8 Mbps, size: 1000 B}, dscp: ef, port: 5000, stop: 1 s}
duration: 2 s
"""


@pytest.mark.parametrize(
    ("first", "second", "covered"),
    [
        ({"ip": 6}, {"ip": 6, "protocol": "tcp"}, True),
        ({"ip": 6}, {"source": "2001:db8::/32"}, True),
        ({"ip": 6}, {"ip": 4}, False),
        ({"ip": 6}, "any", False),
        ({"source": "a", "ip": 6}, {"source": "a"}, False),
        ({"source": "a"}, {"source": "2001:db8::1"}, True),
        ([{"ip": 4}, {"ip": 6}], "any", True),
    ],
)
def test_lint_tells_versions_apart(first: Any, second: Any, covered: bool) -> None:
    addresses = {"a": (ip_address("10.0.0.1"), ip_address("2001:db8::1"))}
    some, others = (packets_of(match, addresses, Budget()) for match in (first, second))
    assert (not without(others, some, Budget())) is covered


BOTH = "flows: {four: {from: a, to: b}, six: {from: a, to: b, ip: 6}}"


PREFIXES: dict[Any, list[Any]] = {
    4: ["10.1.0.0/16", "192.0.2.7"],
    6: ["2001:db8::/32", "2001:db8:7::1"],
    None: [["10.1.0.0/16", "2001:db8::/32"]],
}


@st.composite
def policies(draw: st.DrawFn) -> str:
    """Return classes that tell the versions apart, or not, with a place for limits of queues."""
    lines = []
    for number in range(draw(st.integers(1, 3))):
        # Matches of IPv4 are of that version alone beside others of IPv6.
        version = draw(st.sampled_from([4, 6, None])) if number else 6
        ends = st.sampled_from(PREFIXES[version])
        conditions = draw(
            st.fixed_dictionaries(
                # Code points of its own, so that the order of classes is not what counts.
                {
                    "dscp": st.sampled_from([8 * number + 1, [8 * number + 1, 8 * number + 2]]),
                    **({"ip": st.just(version)} if version else {}),
                },
                optional={
                    "protocol": st.sampled_from(["tcp", "udp", "icmp", ["tcp", "icmp"]]),
                    "source": ends,
                    "destination": ends,
                },
            )
        )
        lines.append(f"c{number}: match: {conditions!r}, bandwidth: 10%, queue: {{limit: QUEUE}}")
    return "\n".join([*lines, "rest: match: any, queue: {limit: QUEUE}"])


@settings(max_examples=4, deadline=None)
@given(policies())
def test_policies_of_both_versions_come_back(classes: str) -> None:
    for family in ("ios", "junos", "vyos", "altq", "pf", "tc"):
        queue = "100 kB" if family == "junos" else "50 packets"
        lines = classes.replace("QUEUE", queue).splitlines()
        assert read_again(family, scenario(*lines, rest=BOTH)) == [], family
