"""Policers of tc and nftables: one bucket for what a rule matches, whatever the classes are.

Each script lets 1 Mb/s (nft: 125 kbytes/s of 1024 B, 1.024 Mb/s) pass, by its rate and burst; a
flow of UDP offers more than that in every class.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import perhop
from perhop.routers.reading import Source, Treatment
from perhop.routers.reading.detect import read

ONE = """qdisc add dev eth0 root handle 1: htb default 10
class add dev eth0 parent 1: classid 1:10 htb rate 10mbit
"""
TWO = """qdisc add dev eth0 root handle 1: htb default 20
class add dev eth0 parent 1: classid 1:1 htb rate 20mbit
class add dev eth0 parent 1:1 classid 1:10 htb rate 10mbit ceil 20mbit
class add dev eth0 parent 1:1 classid 1:20 htb rate 10mbit ceil 20mbit
"""
EF = "filter add dev eth0 parent 1: protocol ip prio 9 u32 match ip tos 0xb8 0xfc flowid 1:10\n"
PRIO = "qdisc add dev eth0 root handle 1: prio\n"
POLICE = "police rate 1mbit burst 10k"
ALL = f"filter add dev eth0 parent 1: protocol ip prio 1 matchall action {POLICE}"
OVER = "limit rate over 125 kbytes/second drop"
NFT = """add table inet q
add chain inet q p { type filter hook postrouting priority 0; }
"""
EGRESS = """add table netdev q
add chain netdev q p { type filter hook egress device eth0 priority 0; }
"""
FIRST_EF = EF.replace("prio 9", "prio 1").strip()
SHARED = f"""{TWO}actions add action {POLICE} conform-exceed drop/pipe index 7
{FIRST_EF} action police index 7
filter add dev eth0 parent 1: protocol ip prio 2 matchall flowid 1:20 action police index 7
"""
FIRST = f"""{TWO}{FIRST_EF} action {POLICE} conform-exceed drop/ok index 7
filter add dev eth0 parent 1: protocol ip prio 2 matchall flowid 1:20 action police index 7
"""
CLSACT = f"""qdisc add dev eth0 clsact
filter add dev eth0 egress protocol ip prio 1 matchall action {POLICE} conform-exceed drop
"""


def script(tc: str = "", nft: str = "") -> str:
    """Return commands of tc and nft."""
    lines = [f"nft '{line}'" for line in nft.splitlines()]
    lines += [f"tc {line}" for line in tc.splitlines()]
    return "\n".join(lines)


def policy_of(text: str) -> dict[str, Any]:
    """Return the policy of a script, all of whose lines are modelled."""
    found = read([Source("wan.sh", text)], "tc")
    left = [(str(line.place), line.note) for line in found.lines]
    assert all(line.treatment is Treatment.MODELLED for line in found.lines), left
    (only,) = found.attachments
    assert only.interface == "eth0"
    return only.policy


def passed(policy: dict[str, Any]) -> float:
    """Return the Mb/s of IP that pass of two flows of 30 Mb/s, EF and not, for 20 s."""
    flow = {"from": "a", "to": "b", "port": 5000, "udp": {"rate": "30 Mbps", "size": "1222 B"}}
    for class_ in policy["classes"].values():
        class_["unused"] = True
    mapping = {
        "perhop": 1,
        "name": "policed",
        "nodes": {"a": {"kind": "host"}, "r": {"kind": "router"}, "b": {"kind": "host"}},
        "links": [
            {"ends": ["a", "r"], "rate": "1 Gbps"},
            {"ends": ["r", "b"], "rate": "100 Mbps", "egress": {"r": "wan"}},
        ],
        "policies": {"wan": policy},
        "flows": {"ef": {**flow, "dscp": "ef"}, "rest": flow},
        "duration": "20 s",
    }
    run = perhop.run(perhop.parse(json.dumps(mapping)))
    return float(run.intervals["packets"].sum()) * 1250 * 8 / 20 / 1e6


TC = (1_000_000 * 20 / 8 + 10_240) / 1264 * 1250 * 8 / 20 / 1e6
"""1 Mb/s of frames and 10 KiB, of which 14 of 1264 B are Ethernet's."""

LIMIT = (128_000 * 20 + 128_000) * 8 / 20 / 1e6
"""128,000 B/s, and a bucket of a second (`nft_limit_init`)."""


@pytest.mark.parametrize(
    ("tc", "nft", "most"),
    [
        # One class, which becomes the shaper of the interface.
        (f"{ONE}{ALL} conform-exceed drop/continue\n", "", TC),
        (f"{ONE}filter add dev eth0 parent 1: protocol ip u32 match u32 0 0 {POLICE} drop "
         "flowid 1:10\n", "", TC),
        # Below `prio`, with and without a class of its own.
        (f"{PRIO}{ALL} conform-exceed drop/ok\n", "", TC),
        (f"{PRIO}{ALL} conform-exceed drop/continue\n", "", TC),
        ("qdisc add dev eth0 root handle 2: tbf rate 20mbit burst 20k latency 50ms\n"
         f"qdisc add dev eth0 parent 2:1 handle 1: prio\n{ALL} conform-exceed drop/pipe\n", "", TC),
        # `continue`: what conforms goes on to the filters that tell the classes.
        (f"{TWO}{ALL} conform-exceed drop/continue\n{EF}", "", TC),
        # One policer for two classes.
        (SHARED, "", TC),
        (FIRST, "", TC),
        (CLSACT, "", TC),
        (CLSACT + TWO + EF, "", TC),
        (ONE, f"{NFT}add rule inet q p oifname eth0 {OVER}", LIMIT),
        (TWO + EF, f"{NFT}add rule inet q p {OVER}", LIMIT),
        (TWO + EF, f"{NFT}add rule inet q p udp dport 5000 {OVER}", LIMIT),
        ("", f"{NFT}add rule inet q p oifname eth0 {OVER}", LIMIT),
        ("", f"{EGRESS}add rule netdev q p {OVER}", LIMIT * 1250 / 1264),
        ("", f"{NFT}add rule inet q p oifname eth0 limit rate 125 kbytes/second accept\n"
         "add rule inet q p oifname eth0 drop", LIMIT),
    ],
)  # fmt: skip
def test_a_policer_has_one_bucket_for_what_it_matches(tc: str, nft: str, most: float) -> None:
    policy = policy_of(script(tc, nft))
    # A class of HTB takes what the policer lets pass; two packets are under way.
    assert passed(policy) == pytest.approx(most, rel=0.002)


def test_a_policer_for_part_of_a_class_leaves_the_rest_alone() -> None:
    rule = f"{NFT}add rule inet q p udp dport 53 limit rate over 125 kbytes/second drop"
    policy = policy_of(script(TWO + EF, rule))
    assert passed(policy) == pytest.approx(20 * 1250 / 1264, rel=0.01)
    assert policy["policers"]["limit"]["match"] == {"protocol": "udp", "destination_port": 53}


def test_a_policer_of_a_class_is_that_class_s() -> None:
    """Where a filter leads all packets of a class, and no others, through a policer."""
    police = EF.replace("flowid 1:10", f"action {POLICE} conform-exceed drop/ok flowid 1:10")
    policy = policy_of(script(TWO + police))
    assert "policers" not in policy
    expected = {"rate": "1 Mbps", "burst": "10 KiB", "overhead": "14 B"}
    assert policy["classes"]["c10"]["police"] == expected
    assert "police" not in policy["classes"]["c20"]


def test_policers_inside_a_class_measure_its_packets_only() -> None:
    inner = (
        "qdisc add dev eth0 parent 1:20 handle 20: prio\n"
        f"filter add dev eth0 parent 20: protocol ip matchall action {POLICE} "
        "conform-exceed drop/continue\n"
    )
    # With a size table that takes the Ethernet header off what Linux counts.
    text = script(TWO + EF + inner).replace("dev eth0 root", "dev eth0 root stab overhead -14")
    policy = policy_of(text)
    ef = {"except": {"ip": 4, "dscp": "ef"}}
    assert policy["policers"]["police"]["match"] == [ef, {"ip": 4}]


def test_what_arrives_is_policed_by_the_interface_of_its_arrival() -> None:
    hooks = [
        EGRESS.replace("egress", "ingress") +
        "add rule netdev q p limit rate over 125 kbytes/second drop",
        "add table inet q\nadd chain inet q p { type filter hook prerouting priority 0; }\n"
        "add rule inet q p iifname eth0 limit rate over 125 kbytes/second drop",
    ]  # fmt: skip
    for nft in hooks:
        found = read([Source("wan.sh", script("", nft))], "tc")
        assert [(each.interface, each.direction) for each in found.attachments] == [("eth0", "in")]
        police = {"rate": "1.024 Mbps", "burst": "128000 B"}
        assert found.attachments[0].policy["classes"]["rest"] == {"match": "any", "police": police}


def test_limits_without_a_verdict_are_not_modelled() -> None:
    nft = f"{NFT}add rule inet q p limit rate 125 kbytes/second meta mark set 1"
    found = read([Source("wan.sh", script(ONE, nft))], "tc")
    assert "a limit that neither drops nor accepts" in found.lines[0].note


@pytest.mark.parametrize(
    ("limit", "rate", "burst"),
    [
        # 60 times 128,000 B in a minute, all of which the bucket holds.
        ("rate over 7500 kbytes/minute", "1.024 Mbps", "7680000 B"),
        ("rate over 1 mbytes/second burst 5 kbytes", "8.388608 Mbps", "1053696 B"),
        ("rate over 3600 bytes/hour", "8 bps", "3600 B"),
    ],
)
def test_limits_hold_what_their_unit_of_time_brings(limit: str, rate: str, burst: str) -> None:
    nft = (
        f"{NFT}add rule inet q p oifname eth0 limit {limit} reject with icmpx type admin-prohibited"
    )
    policy = policy_of(script("", nft))
    assert policy["policers"]["limit"]["police"] == {"rate": rate, "burst": burst}


def test_a_bucket_of_several_interfaces_is_approximated() -> None:
    both = ONE + ONE.replace("eth0", "eth1")
    found = read([Source("wan.sh", script(both, f"{NFT}add rule inet q p {OVER}"))], "tc")
    note = "several interfaces share its bucket; here each has one"
    assert [line.note for line in found.lines if line.note] == [note]
