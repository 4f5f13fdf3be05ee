"""Scenarios as commands of Linux: what they say, what Linux takes, and what it cannot express."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import SLOW, Outcome
from exporting import any_policies
from perhop import gallery, linux
from perhop._core import Namespaces
from perhop.errors import UnsupportedError
from perhop.linux import htb, policers, rules
from perhop.scenario import Police, Scenario, parse
from tools import need, unable

Perhop = Callable[..., Outcome]

BASE = """
perhop: 1
name: mapped
nodes: {{a: host, r: {router}, s: router, b: host}}
links:
  - {{ends: [a, r], rate: 1 Gbps}}
  - {{ends: [r, s], rate: {rate} bps, {link}}}
  - {{ends: [s, b], rate: 1 Gbps}}
{policies}
flows:
  one: {{from: a, to: b, dscp: ef, port: 80, stop: 10 s}}
  two: {{from: a, to: b, dscp: cs1, udp: {{rate: 1 Mbps}}, stop: 10 s}}
{changes}
"""


def scenario(
    classes: str = "",
    *,
    link: str = "",
    router: str = "router",
    changes: str = "",
    head: str = "",
    rate: int = 10_000_000,
) -> Scenario:
    """Two hosts and two routers; `classes` are those of the policy by which r sends to s."""
    policies = f"policies: {{p: {{{head}classes: {{{classes}}}}}}}" if classes else ""
    parts = [part for part in (link, "egress: {r: p}" if classes else "") if part]
    text = BASE.format(
        rate=rate,
        router=router,
        link=", ".join(parts) or "delay: 0 s",
        policies=policies,
        changes=changes,
    )
    return parse(text, "mapped.yaml")


def tc(found: linux.Mapping, direction: str = "r>s") -> list[str]:
    """Return tc's commands, without the interface."""
    lines = found.interfaces[direction].tc
    return [re.sub(r" dev \S+", "", line) for line in lines]


def nft(found: linux.Mapping, node: str = "r") -> list[str]:
    return [line.strip() for line in found.nft[node].splitlines()]


def chain(lines: list[str], name: str) -> list[str]:
    """Return the rules of a chain in `nft`'s lines."""
    start = lines.index(f"chain {name} {{") + 1
    return lines[start : lines.index("}", start)]


def gaps(found: linux.Mapping) -> dict[str, str]:
    return {gap.path: gap.reason for gap in found.gaps}


# What is said


def test_a_link_is_a_class_of_its_rate_with_its_queue() -> None:
    found = linux.mapping(scenario(link="queue: {limit: 50 packets}, overhead: ethernet"))
    assert tc(found) == [
        "qdisc add root handle 1: stab overhead -14 htb default 10",
        "class add parent 1: classid 1:1 htb rate 10000000bit burst 3028b ceil 10000000bit "
        "cburst 3028b prio 0 quantum 1514 overhead 38",
        "class add parent 1:1 classid 1:10 htb rate 10000000bit burst 3028b ceil 10000000bit "
        "cburst 3028b prio 0 quantum 1514 overhead 38",
        "qdisc add parent 1:10 handle 10: pfifo limit 50",
    ]
    assert found.nft["r"] == ""
    assert found.gaps == ()


def test_a_tunnel_has_no_header_to_take_off() -> None:
    found = linux.mapping(scenario(link="overhead: atm"), tunnels={"r>s"})
    assert tc(found)[0] == "qdisc add root handle 1: htb default 10"
    assert tc(found)[1].endswith("overhead 16 linklayer atm")
    assert "stab overhead -14" in tc(found, "s>r")[0]


def test_guarantees_are_rates_and_turns_are_in_their_proportion() -> None:
    found = linux.mapping(
        scenario(
            "x: {match: {dscp: ef}, bandwidth: 1%}, y: {match: {dscp: cs1}, bandwidth: 70%, "
            "borrow: false}, z: {match: any, limit: 50%}"
        )
    )
    x, y, z = found.interfaces["r>s"].htb.leaves.values()
    assert (x.settings.rate, y.settings.rate, z.settings.rate) == (100_000, 7_000_000, 2_900_000)
    assert (x.settings.ceil, y.settings.ceil, z.settings.ceil) == (10_000_000, 7_000_000, 5_000_000)
    assert y.settings.quantum == 70 * x.settings.quantum
    assert nft(found)[nft(found).index("chain to2 {") + 1 :][:5] == [
        "ip dscp 46 goto to2_10",
        "ip6 dscp 46 goto to2_10",
        "ip dscp 8 goto to2_11",
        "ip6 dscp 8 goto to2_11",
        "goto to2_12",
    ]
    assert "meta priority set 1:12 accept" in nft(found)
    assert 'oifname "r-s" jump to2' in nft(found)


@SLOW
@given(st.lists(st.integers(1, 1000), min_size=2, max_size=12), st.integers(100_000, 10**10))
def test_guarantees_never_exceed_the_link(weights: list[int], rate: int) -> None:
    shares = [weight / sum(weights) * 99 for weight in weights]
    names = [f"c{number}" for number in range(len(shares))]
    classes = ", ".join(
        f"{name}: {{match: {{dscp: {number + 1}}}, bandwidth: {share:.6f}%, unused: true}}"
        for number, (name, share) in enumerate(zip(names, shares, strict=True))
    )
    found = linux.mapping(scenario(f"{classes}, rest: {{match: any}}", rate=rate))
    leaves = found.interfaces["r>s"].htb.leaves
    assert sum(node.settings.rate for node in leaves.values()) <= rate + 64 * len(leaves)
    assert all(node.settings.quantum >= 1500 for node in leaves.values())
    assert len({node.minor for node in leaves.values()}) == len(leaves)


def test_strict_classes_borrow_everything_first() -> None:
    found = linux.mapping(
        scenario(
            "x: {match: {dscp: ef}, priority: strict}, y: {match: {dscp: cs1}, bandwidth: 10%}, "
            "z: {match: any, bandwidth: 90%}"
        )
    )
    x, y, z = found.interfaces["r>s"].htb.leaves.values()
    assert (x.settings.prio, y.settings.prio, z.settings.prio) == (0, 1, 1)
    # What all are guaranteed together, and so could go before the strict one, is next to nothing.
    assert x.settings.rate + y.settings.rate + z.settings.rate <= 10_000_000 // 1000
    assert x.settings.ceil == y.settings.ceil == z.settings.ceil == 10_000_000
    assert z.settings.quantum == 9 * y.settings.quantum


def test_nested_classes_and_numbered_priorities_are_the_tree() -> None:
    found = linux.mapping(
        scenario(
            "x: {match: {dscp: ef}, bandwidth: 60%, priority: 1, classes: {"
            "web: {match: {port: 80}, bandwidth: 50%}, rest: {match: any}}}, "
            "y: {match: any, priority: 3}"
        )
    )
    nodes = {node.path: node for node in found.interfaces["r>s"].htb.nodes}
    assert nodes["x/web"].parent == nodes["x"].minor
    assert nodes["x"].leaf is None
    assert (nodes["x"].settings.rate, nodes["x/web"].settings.rate, nodes["y"].settings.rate) == (
        6 * 10**6,
        3 * 10**6,
        4 * 10**6,
    )
    assert (nodes["x"].settings.prio, nodes["y"].settings.prio) == (1, 3)
    text = nft(found)
    assert "meta l4proto { tcp, udp } th sport 80 goto to2_11" in text
    assert "meta l4proto { tcp, udp } th dport 80 goto to2_11" in text


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        ("{limit: 64 packets}", "pfifo limit 64"),
        ("{limit: 64 packets, drop: head}", "pfifo_head_drop limit 64"),
        ("{limit: 100 kB}", "bfifo limit 100000"),
        ("{limit: 50 ms}", "bfifo limit 62500"),
        ("{codel: {}}", "codel limit 1000 target 5000us interval 100000us ecn"),
        (
            "{fq-codel: {ecn: false}}",
            "fq_codel limit 10240 target 5000us interval 100000us flows 1024 quantum 1514 noecn",
        ),
        ("{pie: {}}", "pie limit 1000 target 15000us tupdate 15000us ecn"),
        (
            "{fq-pie: {flows: 64}}",
            "fq_pie limit 10240 target 15000us tupdate 15000us flows 64 quantum 1514 ecn",
        ),
        (
            "{sfq: {perturb: 10 s, drop: head}}",
            "sfq limit 127 depth 127 flows 127 divisor 1024 quantum 1514 perturb 10 headdrop",
        ),
        (
            "{limit: 400 kB, red: {min: 30 kB, max: 90 kB, gentle: false, packet: 1000 B}}",
            "red limit 400000 min 30000 max 90000 avpkt 1000 burst 133 probability 0.1 "
            "bandwidth 10000000bit ecn harddrop",
        ),
        (
            "{limit: 400 kB, red: {min: 30 kB, max: 90 kB, gentle: false, harddrop: false}}",
            "red limit 400000 min 30000 max 90000 avpkt 1000 burst 133 probability 0.1 "
            "bandwidth 10000000bit ecn",
        ),
        (
            "{limit: 400 kB, red: {min: 30 kB, max: 90 kB, gentle: false, ecn: false}}",
            "red limit 400000 min 30000 max 90000 avpkt 1000 burst 133 probability 0.1 "
            "bandwidth 10000000bit",
        ),
    ],
)
def test_queues_are_disciplines(queue: str, said: str) -> None:
    found = linux.mapping(scenario(link=f"queue: {queue}"))
    assert tc(found)[-1] == f"qdisc add parent 1:10 handle 10: {said}"
    assert found.gaps == ()


def test_matches_are_conditions() -> None:
    whole = scenario(
        "x: {match: {dscp: [ef, cs1], protocol: tcp, source: a, destination: 10.0.0.0/24, "
        "destination_port: [80, 8000-8010]}}, rest: {match: any}"
    )
    match = whole.policies["p"].classes["x"].match
    assert rules.matches(whole, match) == [
        "ip dscp { 46, 8 } meta l4proto tcp th dport { 80, 8000-8010 } "
        "ip saddr 10.0.0.1/32 ip daddr 10.0.0.0/24"
    ]
    assert rules.matches(whole, whole.policies["p"].classes["rest"].match) == [""]


def test_a_list_of_matches_is_a_rule_for_each_and_a_chain_for_exceptions() -> None:
    found = nft(
        linux.mapping(
            scenario(
                "x: {match: [{dscp: ef}, {protocol: udp, destination_port: 53}]}, "
                "y: {match: [{except: {source: [10.1.0.0/16, 2001:db8::/32]}}, {dscp: cs1}]}, "
                "rest: {match: any}"
            )
        )
    )
    assert chain(found, "to2") == [
        *("ip dscp 46 goto to2_10", "ip6 dscp 46 goto to2_10"),
        "meta l4proto udp th dport 53 goto to2_10",
        "jump to2_11_match",
        "goto to2_12",
    ]
    assert chain(found, "to2_11_match") == [
        *("ip saddr 10.1.0.0/16 return", "ip6 saddr 2001:db8::/32 return"),
        *("ip dscp 8 goto to2_11", "ip6 dscp 8 goto to2_11"),
    ]
    assert chain(found, "to2_11") == ["meta priority set 1:11 accept"]


def test_a_list_of_matches_remarks_what_is_not_excepted() -> None:
    remark = "[{match: [{except: {dscp: ef}}, {protocol: udp}], dscp: 3}, {match: any, dscp: 4}]"
    found = nft(linux.mapping(scenario(router=f"{{kind: router, remark: {remark}}}")))
    assert chain(found, "to1_mark_0") == [
        *("ip dscp 46 return", "ip6 dscp 46 return"),
        "meta l4proto udp ip dscp set 3 accept",
        "meta l4proto udp ip6 dscp set 3 accept",
    ]
    assert chain(found, "to1_mark") == [
        "jump to1_mark_0",
        *("ip dscp set 4 return", "ip6 dscp set 4 return"),
    ]


def test_marks_are_set_where_the_class_is_known() -> None:
    police = "police: {rate: 5 Mbps, burst: 1 MB, exceed: {remark: le}}"
    found = linux.mapping(
        scenario(
            f"x: {{match: {{dscp: ef}}, mark: cs5, {police}}}, y: {{match: any, mark: cs2, "
            "classes: {in: {match: {dscp: cs1}}, own: {match: {dscp: cs3}, mark: cs4, "
            "unused: true}, rest: {match: any}}}"
        )
    )
    text = nft(found)
    assert found.gaps == ()
    # Before the policer, whose mark replaces it.
    assert chain(text, "to2_10")[:5] == [
        *("ip dscp set 40", "ip6 dscp set 40"),
        "limit rate over 625000 bytes/second burst 375000 bytes "
        "counter name to2_10_exceed meta mark set 0xffff",
        # Each in a rule of its own: packets of the other version pass over it.
        *("meta mark 0xffff ip dscp set 1", "meta mark 0xffff ip6 dscp set 1"),
    ]
    # Nested classes are told apart by the code points that packets had.
    nested = next(line for line in chain(text, "to2") if "goto" in line and "dscp" not in line)
    outer = nested.removeprefix("goto ")
    assert chain(text, outer) == [f"goto {outer}_in"]
    leaves = [line.rpartition(" ")[2] for line in chain(text, f"{outer}_in")]
    assert leaves[0] == leaves[1]
    marks = {leaf: chain(text, leaf)[0] for leaf in leaves}
    assert [marks[leaf] for leaf in dict.fromkeys(leaves)] == [
        *("ip dscp set 16", "ip dscp set 32", "ip dscp set 16"),
    ]


def test_marks_above_a_policer_that_remarks_are_a_gap() -> None:
    police = "police: {rate: 5 Mbps, burst: 1 MB, exceed: {remark: le}}"
    inner = f"{police}, classes: {{rest: {{match: any}}}}"
    for classes, place in (
        (f"x: {{match: any, mark: cs2, {inner}}}", "x.mark"),
        (f"x: {{match: any, mark: cs2, classes: {{in: {{match: any, {inner}}}}}}}", "police"),
    ):
        (gap,) = linux.mapping(scenario(classes)).gaps
        assert gap.path.endswith(place)
        assert gap.reason.startswith("its rules mark after the policer")


def test_red_counts_packets_of_full_size() -> None:
    found = linux.mapping(scenario(link="queue: {red: {gentle: false, packet: 1500 B}}"))
    assert "red limit 1500000 min 7500 max 22500 avpkt 1500 " in tc(found)[-1]
    assert [gap.path.rpartition(".")[2] for gap in found.gaps] == ["min", "max", "limit"]


def test_policers_have_a_bucket_that_nft_fills_with_a_second_more() -> None:
    found = linux.mapping(
        scenario(
            "x: {match: {dscp: ef}, police: {rate: 800 kbps, burst: 150 kB}}, "
            "y: {match: {dscp: cs1}, police: {rate: 80 kbps, burst: 10 kB, exceed: {remark: le}}}, "
            "z: {match: any}"
        ),
        police="nft",
    )
    text = nft(found)
    drop = "limit rate over 100000 bytes/second burst 50000 bytes counter name to2_10_exceed drop"
    assert drop in text
    assert (
        "limit rate over 10000 bytes/second counter name to2_11_exceed meta mark set 0xffff" in text
    )


def policing(found: linux.Mapping) -> list[str]:
    return [line for line in tc(found) if line.startswith("filter")]


def test_tc_polices_what_rules_have_marked() -> None:
    found = linux.mapping(
        scenario(
            "x: {match: {dscp: ef}, police: {rate: 8%, burst: 10 kB}}, "
            "y: {match: {dscp: cs1}, police: {rate: 80 kbps, burst: 10 kB, exceed: send}}, "
            "z: {match: any}"
        )
    )
    assert found.gaps == ()
    assert policing(found) == [
        "filter add parent 1: protocol all prio 1 handle 0x10 fw classid 1:10 action police rate "
        "800000bit burst 10000b mtu 64kb conform-exceed drop/pipe index 1 action ok index 1",
        "filter add parent 1: protocol all prio 1 handle 0x11 fw classid 1:11 action police rate "
        "80000bit burst 10000b mtu 64kb conform-exceed ok/pipe index 2 action ok index 2",
    ]
    rules = nft(found)
    assert [rules[rules.index(f"chain to2_{minor} {{") + 1] for minor in (10, 11, 12)] == [
        "meta mark set 0x10 accept",
        "meta mark set 0x11 accept",
        "meta priority set 1:12 accept",
    ]
    assert "limit" not in found.nft["r"]


def test_policers_of_divided_classes_come_first() -> None:
    found = linux.mapping(
        scenario(
            "x: {match: {protocol: udp}, bandwidth: 50%, police: {rate: 1 Mbps, burst: 9 kB}, "
            "classes: {u: {match: {dscp: cs1}, police: {rate: 10%, burst: 3 kB}}, "
            "v: {match: any}}}, z: {match: any}"
        )
    )
    numbers = {node.path: node.minor for node in found.interfaces["r>s"].htb.nodes}
    assert (numbers["x"], numbers["x/u"], numbers["x/v"]) == (0x10, 0x11, 0x12)
    outer = "police rate 1000000bit burst 9000b mtu 64kb conform-exceed drop/pipe index 1"
    # A tenth of the 5 Mb/s of the class.
    inner = "police rate 500000bit burst 3000b mtu 64kb conform-exceed drop/pipe index 2"
    start = "protocol all prio 1 handle"
    assert policing(found) == [
        f"filter add parent 1: {start} 0x11 fw classid 1:10 action {outer} action ok index 1",
        f"filter add parent 1:10 {start} 0x11 fw classid 1:11 action {inner} action ok index 2",
        f"filter add parent 1: {start} 0x12 fw classid 1:10 action police index 1 "
        "action ok index 1",
        f"filter add parent 1:10 {start} 0x12 fw classid 1:12",
    ]


@pytest.mark.parametrize(
    "police",
    [
        "{rate: 80 kbps, burst: 10 kB, exceed: {remark: le}}",
        "{rate: 1 kbps, burst: 40 kB}",  # 320 s of its rate
    ],
)
def test_what_tc_cannot_police_nft_does(police: str) -> None:
    other = "y: {match: {dscp: cs1}, police: {rate: 80 kbps, burst: 10 kB}}"
    found = linux.mapping(
        scenario(f"x: {{match: {{dscp: ef}}, police: {police}}}, {other}, z: {{match: any}}")
    )
    assert found.gaps == ()
    assert policing(found) == []
    assert found.nft["r"].count("limit rate over") == 2


def test_policers_of_tc_change_in_place_and_are_never_taken_for_others() -> None:
    found = linux.mapping(
        scenario(
            "x: {match: {dscp: ef}, police: {rate: 8%, burst: 10 kB}}, z: {match: any}",
            changes="changes: [{at: 1 s, on: r>s, class: x, police: {rate: 4%}}, "
            "{at: 2 s, on: r>s, policy: p}, {at: 3 s, on: r>s, class: x, police: {burst: 5 kB}}, "
            "{at: 4 s, on: r>s, class: x, police: {rate: 8 bps}}]",
        )
    )
    slower, again, smaller, _ = found.steps
    bucket = "actions change action police rate {}bit burst {}b mtu 64kb conform-exceed drop/pipe"
    assert slower.tc == (f"{bucket.format(400000, 10000)} index 1",)
    assert slower.nft == ""
    assert "handle 0x10 fw" in again.tc[-1]
    assert again.tc[-1].endswith("index 2")
    assert smaller.tc == (f"{bucket.format(800000, 5000)} index 2",)
    assert list(gaps(found)) == ["changes.3.police"]


@SLOW
@settings(max_examples=1000)
@given(st.integers(8, 10**11), st.integers(1, 10**9))
def test_a_bucket_of_tc_holds_what_it_should(rate: int, size: int) -> None:
    police = Police.model_validate({"rate": f"{rate} bps", "burst": f"{size} B"})
    assert police.burst == size
    told = re.search(r"rate (\d+)bit burst (\d+)b", str(policers.action(police, rate)))
    assert told is not None
    per_second = int(told[1]) // 8
    assert abs(per_second - rate / 8) <= 0.5
    # As tc_calc_xmittime of iproute2 has it: whole microseconds of the rate.
    held = int(1e6 * (float(told[2]) / float(per_second))) * per_second / 1e6
    assert size <= held + 1e-3
    assert held <= size + per_second / 1e6 + 1


def test_marks_errors_and_turns() -> None:
    found = linux.mapping(
        scenario(
            link="name: north",
            router="{kind: router, balance: per-packet, icmp_interval: 500 ms, remark: {cs1: le}}",
        )
    )
    text = nft(found)
    assert "ip dscp 8 ip dscp set 1 return" in text
    assert 'iifname "a-r" jump' not in " ".join(text)
    assert 'iifname "r-a" jump to1_mark' in text
    limit = "limit rate over 2/second burst 1 packets drop"
    assert f"icmp type {{ destination-unreachable, time-exceeded }} {limit}" in text


PARALLEL = """
perhop: 1
name: parallel
nodes: {{a: host, r: {{kind: router, balance: {balance}}}, s: router, b: host}}
links:
  - {{ends: [a, r], rate: 1 Gbps}}
  - {{ends: [r, s], rate: 10 Mbps}}
  - {{ends: [r, s], rate: 10 Mbps, delay: 5 ms}}
  - {{ends: [s, b], rate: 1 Gbps}}
flows: {{one: {{from: a, to: b, stop: 10 s}}}}
changes: [{{at: 5 s, on: r>s, state: down}}]
"""


def test_several_ways_are_hops_of_one_route() -> None:
    found = linux.mapping(parse(PARALLEL.format(balance="per-flow")))
    hops = (f"nexthop via 10.0.0.3 dev {device} onlink weight 1" for device in ("r-s", "r-s-2"))
    both = " ".join(hops)
    assert f"route replace 10.0.0.4/32 {both}" in found.ip["r"]
    assert found.sysctls["r"]["net.ipv4.fib_multipath_hash_policy"] == "1"
    assert (
        found.sysctls["r"]["net.ipv4.fib_multipath_hash_seed"]
        != found.sysctls["s"]["net.ipv4.fib_multipath_hash_seed"]
    )
    down = [step for step in found.steps if step.node == "r" and "routes" in step.about]
    assert "route replace 10.0.0.4/32 via 10.0.0.3 dev r-s-2 onlink" in down[0].ip
    fields = linux.mapping(parse(PARALLEL.format(balance="per-destination"))).sysctls["r"]
    assert fields["net.ipv4.fib_multipath_hash_fields"] == "0x0002"


def test_turns_are_marks_that_choose_a_table() -> None:
    found = linux.mapping(parse(PARALLEL.format(balance="per-packet")))
    lines = found.ip["r"]
    assert "rule add fwmark 0x100 lookup 256 priority 256" in lines
    assert "route replace default via 10.0.0.3 dev r-s-2 onlink table 257" in lines
    turn = "ip daddr { 10.0.0.3, 10.0.0.4 } meta mark set numgen inc mod 2 offset 256"
    assert nft(found).count(turn) == 2


def test_changes_are_steps() -> None:
    found = linux.mapping(
        scenario(
            "x: {match: {dscp: ef}, bandwidth: 30%, police: {rate: 800 kbps, burst: 150 kB}}, "
            "z: {match: any}",
            changes="changes: [{at: 1 s, on: r>s, class: x, police: {rate: 400 kbps}}, "
            "{at: 2 s, on: r>s, rate: 5 Mbps}, {at: 3 s, on: r>s, policy: none}]",
        ),
        police="nft",
    )
    police, slower, back, none = found.steps
    assert [step.at // 10**12 for step in found.steps] == [1, 2, 2, 3]
    assert "limit rate over 50000 bytes/second burst 100000 bytes" in police.nft
    # The classes divide what is left in the same proportion, and no more than there is.
    assert slower.interface is not None
    x, z = slower.interface.htb.leaves.values()
    assert (x.settings.rate, z.settings.rate, x.settings.ceil) == (1_500_000, 3_500_000, 5_000_000)
    assert all(line.startswith("class change") for line in slower.tc)
    assert back.node == "s"
    assert none.tc[0] == "qdisc del dev r-s root"
    assert none.interface is not None
    assert list(none.interface.htb.leaves) == ["all"]


# What cannot be said


@pytest.mark.parametrize(
    ("classes", "head", "path"),
    [
        ("x: {match: any}", "scheduler: altq-cbq, ", "policies.p.scheduler"),
        (
            "x: {match: {dscp: ef}, police: {rate: 1 Mbps, burst: 10 kB}}, z: {match: any}",
            "",
            "policies.p.classes.x.police.burst",
        ),
        (
            "x: {match: {dscp: ef}, police: {rate: 8 kbps, burst: 5 GB}}, z: {match: any}",
            "",
            "policies.p.classes.x.police.burst",
        ),
        (
            "x: {match: {dscp: ef}, police: {rate: 8 kbps, burst: 10 kB, excess_burst: 20 kB}}, "
            "z: {match: any}",
            "",
            "policies.p.classes.x.police",
        ),
        (
            "x: {match: {dscp: ef}, priority: strict}, z: {match: any, classes: {"
            "u: {match: {dscp: cs1}}, v: {match: any}}}",
            "",
            "policies.p.classes.z",
        ),
        ("x: {match: any, queue: {red: {}}}", "", "policies.p.classes.x.queue.red.gentle"),
        ("x: {match: any, queue: {wred: {}}}", "", "policies.p.classes.x.queue.wred"),
        (
            "x: {match: any, queue: {fq-codel: {standing: flow}}}",
            "",
            "policies.p.classes.x.queue.fq-codel.standing",
        ),
        ("x: {match: any, queue: {dualpi2: {}}}", "", "policies.p.classes.x.queue.dualpi2"),
        (
            "x: {match: any, queue: {limit: 1 kB, drop: head}}",
            "",
            "policies.p.classes.x.queue.drop",
        ),
        *(
            (
                f"x: {{match: any, queue: {{limit: 20000 packets, sfq: {{{setting}}}}}}}",
                "",
                f"policies.p.classes.x.queue.{path}",
            )
            for setting, path in (
                ("depth: 128", "sfq.depth"),
                ("divisor: 1000", "sfq.divisor"),
                ("divisor: 64", "sfq.flows"),
                ("perturb: 1500 ms", "sfq.perturb"),
                ("", "limit"),
            )
        ),
        (
            "x: {match: any, queue: {fq-pie: {burst: 1 s}}}",
            "",
            "policies.p.classes.x.queue.fq-pie.burst",
        ),
        (
            "x: {match: any, queue: {pie: {burst: 1 s}}}",
            "",
            "policies.p.classes.x.queue.pie.burst",
        ),
    ],
)
def test_gaps_have_a_place(classes: str, head: str, path: str) -> None:
    found = linux.mapping(scenario(classes, head=head), police="nft")
    assert path in gaps(found)
    with pytest.raises(UnsupportedError, match=re.escape(f"\n  {path}: ")):
        linux.refuse(found.gaps, "mapped")


def test_an_interval_that_is_no_rate_is_a_gap() -> None:
    found = linux.mapping(scenario(router="{kind: router, icmp_interval: 700 ms}"))
    assert list(gaps(found)) == ["nodes.r.icmp_interval"]


def test_names_of_interfaces_are_short_and_unlike() -> None:
    nodes = ", ".join(f"a-node-with-a-long-name-{i}: host" for i in range(20))
    links = ", ".join(
        f"{{ends: [a-node-with-a-long-name-0, a-node-with-a-long-name-{i}], rate: 1 Mbps}}"
        for i in range(1, 20)
    )
    found = parse(
        f"{{perhop: 1, name: x, nodes: {{{nodes}}}, links: [{links}], "
        "flows: {}, pings: {p: {from: a-node-with-a-long-name-1, "
        "to: a-node-with-a-long-name-0, every: 1 s}}, duration: 1 s}"
    )
    names = linux.device_names(found)
    assert len(set(names.values())) == len(found.directions)
    assert all(len(name) <= 15 and re.fullmatch(r"[\w.-]+", name) for name in names.values())


# What Linux takes


@pytest.fixture(scope="module")
def host() -> Namespaces:
    """A namespace to try commands in."""
    need("tc", "nft", "ip")
    try:
        return Namespaces(1)
    except OSError as error:
        unable(error)


def run_command(host: Namespaces, command: list[str], text: str) -> None:
    code, out, err = host.run(0, command, text.encode())
    assert code == 0, f"{command}: {out.decode()}{err.decode()}in {text}"


def try_out(host: Namespaces, found: linux.Mapping) -> None:
    """Every command of every node, in one namespace, as far as this kernel knows its words."""
    run_command(host, ["nft", "flush", "ruleset"], "")
    devices = [each.device for each in found.interfaces.values()]
    made = "".join(
        f"link add {name} type veth peer name x{i}\nlink set {name} up\nlink set x{i} up\n"
        for i, name in enumerate(devices)
    )
    run_command(host, ["ip", "-batch", "-"], made)
    try:
        for node in found.ip:
            own = [each for each in found.interfaces.values() if each.node == node]
            for each in own:
                run_command(host, ["tc", "-batch", "-"], "\n".join(each.tc) + "\n")
            run_command(host, ["nft", "-f", "-"], found.nft[node])
            run_command(host, ["ip", "-batch", "-"], "\n".join(found.ip[node]) + "\n")
            for step in (step for step in found.steps if step.node == node):
                run_command(host, ["tc", "-batch", "-"], "\n".join(step.tc) + "\n")
                run_command(host, ["nft", "-f", "-"], step.nft)
                run_command(host, ["ip", "-batch", "-"], "\n".join(step.ip) + "\n")
            run_command(host, ["nft", "flush", "ruleset"], "")
            run_command(
                host,
                ["ip", "-batch", "-"],
                "route flush table main\nrule flush\n",
            )
    finally:
        run_command(host, ["ip", "-batch", "-"], "".join(f"link del {name}\n" for name in devices))


@SLOW
@pytest.mark.parametrize("name", ["qbss-1-70", "qbss-10-streams", "qbss-30-1"])
def test_linux_takes_the_gallery(host: Namespaces, name: str) -> None:
    try_out(host, linux.mapping(gallery.load(name)))


@SLOW
@pytest.mark.parametrize("balance", ["per-flow", "per-packet", "per-destination"])
def test_linux_takes_every_balance(host: Namespaces, balance: str) -> None:
    try_out(host, linux.mapping(parse(PARALLEL.format(balance=balance))))


@SLOW
def test_linux_takes_everything_at_once(host: Namespaces) -> None:
    found = linux.mapping(
        scenario(
            "voice: {match: {dscp: ef}, priority: strict, police: {rate: 80 kbps, burst: 20 kB}}, "
            "mail: {match: {port: [25, 587], protocol: tcp, "
            "source: [a, 10.1.0.0/16, '2001:db8::/32']}, "
            "police: {rate: 80 kbps, burst: 20 kB, exceed: {remark: le}}, unused: true}, "
            "pings: {match: {protocol: icmp, dscp: cs1}, police: {rate: 8 kbps, burst: 20 kB, "
            "exceed: send}, unused: true}, "
            "listed: {match: [{except: {source: [10.2.0.0/16, '2001:db8:1::/48']}}, "
            "{dscp: [cs2, cs3], protocol: udp}, {port: 53}], mark: cs5, unused: true}, "
            "rest: {match: any, mark: le, queue: {limit: 50 ms}}",
            link="overhead: atm, shape: {r: {rate: 8 Mbps, burst: 10 kB}}",
            router="{kind: router, icmp_errors: false, remark: "
            "[{match: [{except: {protocol: icmp}}, {dscp: cs1}], dscp: le}, "
            "{match: any, dscp: be}]}",
            changes="changes: [{at: 1 s, on: r>s, class: voice, police: {rate: 40 kbps}}, "
            "{at: 2 s, on: r>s, rate: 5 Mbps}, {at: 3 s, on: r>s, policy: none}]",
        )
    )
    assert found.gaps == ()
    try_out(host, found)


@SLOW
@settings(max_examples=8)
@given(st.data())
def test_linux_takes_any_tree(host: Namespaces, data: st.DataObject) -> None:
    kinds = st.sampled_from(
        [
            "",
            "borrow: false, ",
            "limit: 90%, ",
            "shape: {rate: 80%, burst: 10 kB}, ",
            "priority: 3, ",
        ]
    )

    def classes(depth: int, prefix: str) -> str:
        number = data.draw(st.integers(1, 3))
        parts = []
        for index in range(number + 1):
            match = "any" if index == number else f"{{dscp: {index + 1 + 4 * depth}}}"
            share = data.draw(st.integers(10, 90 // (number + 1)))
            inside = ""
            if depth < 3 and data.draw(st.booleans()):
                inside = f", classes: {{{classes(depth + 1, f'{prefix}{index}')}}}"
            kind = data.draw(kinds)
            parts.append(
                f"c{prefix}{index}: {{match: {match}, bandwidth: {share}%, {kind}"
                f"unused: true{inside}}}"
            )
        return ", ".join(parts)

    found = linux.mapping(scenario(classes(0, "")))
    assert found.gaps == ()
    try_out(host, found)


@SLOW
@settings(max_examples=15, suppress_health_check=list(HealthCheck), deadline=None)
@given(any_policies("tc", ("10 packets", "20 kB", "1000 packets, drop: head"), policers=False))
def test_linux_takes_any_policy_that_is_written(host: Namespaces, found: Scenario) -> None:
    """Of queues and policers, those that every kernel has."""
    made = linux.mapping(found)
    assert made.gaps == ()
    try_out(host, made)


# The command


def test_the_command_prints_what_to_paste(perhop: Perhop) -> None:
    code, out, err = perhop("tc", "qbss-1-70", "--device", "testbed>slac=eth1")
    assert (code, err) == (0, "")
    assert "# ======== testbed, a router ========" in out
    assert "# testbed>slac: policy qbss\n#   1:10  scavenger" in out
    assert "class add dev eth1 parent 1:1 classid 1:11 htb rate 7000000bit" in out
    host = out.partition("evagore, a host")[2].partition("# =")[0].splitlines()[1:]
    assert "# ip link set dev evagore-testbed gso_max_segs 1" in host
    assert all(line.startswith("#") for line in host if line)
    assert "\nethtool -K eth1 gro off lro off\nip link set dev eth1 gso_max_segs 1\n" in out


def test_the_command_says_what_linux_cannot_do(perhop: Perhop, place: Path) -> None:
    (place / "x.yaml").write_text(
        BASE.format(
            rate=10_000_000,
            router="router",
            link="egress: {r: p}",
            policies="policies: {p: {classes: {x: {match: {dscp: ef}, police: {rate: 1 Mbps, "
            "burst: 1 kB}}, y: {match: any, queue: {wred: {}}}}}}",
            changes="",
        )
    )
    code, out, err = perhop("tc", "x.yaml", "--police", "nft")
    assert (code, out) == (3, "")
    assert "policies.p.classes.x.police.burst: " in err
    assert "policies.p.classes.y.queue.wred: " in err
    _, _, err = perhop("tc", "x.yaml")
    assert "policies.p.classes.x" not in err
    code, _, err = perhop("tc", "x.yaml", "--device", "r>t=eth1")
    assert code == 2
    assert "there is no such link" in err


def test_bursts_are_what_leaves_at_once() -> None:
    shaped = scenario(link="shape: {r: {rate: 8 Mbps, burst: 10 kB}}")
    root, only = linux.mapping(shaped).interfaces["r>s"].htb.nodes
    # HTB sends while a bucket is not empty, so that one packet more than it holds leaves at once.
    assert root.settings.burst == only.settings.burst == 10_000 - 1500
    assert (root.settings.rate, root.settings.ceil) == (8_000_000, 10_000_000)
    assert htb.SLACK_S * 10e6 / 8 < root.settings.cburst == 3028


@pytest.mark.parametrize("kind", ["borrow: false", "limit: 50%", "shape: {rate: 50%}"])
def test_every_bucket_holds_what_comes_while_a_kernel_sleeps(kind: str) -> None:
    shaped = scenario(
        f"x: {{match: {{dscp: ef}}, bandwidth: 50%, {kind}, unused: true}}, rest: {{match: any}}",
        link="shape: {r: {rate: 90%}}",
    )
    nodes = linux.mapping(shaped).interfaces["r>s"].htb.nodes
    for node in nodes:
        for rate, bucket in (
            (node.settings.rate, node.settings.burst),
            (node.settings.ceil, node.settings.cburst),
        ):
            assert bucket >= rate / 8 * htb.SLACK_S
    assert min(node.settings.cburst for node in nodes) >= 2 * 1500
