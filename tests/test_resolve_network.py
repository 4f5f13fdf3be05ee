"""Addresses, paths, MTUs, tunnels and instants that follow from a scenario, worked out by hand."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from perhop.errors import ScenarioError
from perhop.scenario import Scenario, parse
from perhop.scenario.model.changes import Change
from perhop.scenario.model.matching import Match
from perhop.scenario.resolve import states
from perhop.scenario.resolve.packets import sent
from perhop.scenario.resolve.paths import (
    agreed_mtu,
    host_mtu,
    next_hops,
    only_path,
    path_mtu,
    path_mtus,
)
from perhop.scenario.resolve.scenario import direction_names
from perhop.scenario.resolve.servers import iperf3_servers
from perhop.scenario.resolve.tunnels import entered, inside, tunnel_mtu

KEY = "perhop-ed25519 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
S = 10**12
"""A second in picoseconds."""

TEXT = """\
perhop: 1
name: network
duration: 10 s
nodes: {a: host, r: router, s: router, t: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps}
  - {ends: [r, s], rate: 100 Mbps, delay: 5 ms}
  - {ends: [r, t], rate: 100 Mbps, delay: 9 ms}
  - {ends: [t, s], rate: 100 Mbps, delay: 9 ms}
  - {ends: [s, b], rate: 1 Gbps}
flows:
  web: {from: a, to: b}
"""
"""Two ways from r to s: the link, and a longer one through t."""


def scenario(*changes: tuple[str, str], more: str = "") -> Scenario:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse(text + more, "x.yaml")


def mtu(link: str, size: int) -> tuple[str, str]:
    return f"ends: [{link}],", f"ends: [{link}], mtu: {size} B,"


# Addresses


def test_nodes_without_an_address_have_the_first_that_is_free() -> None:
    run = scenario(("a: host", "a: {kind: host, address: 10.0.0.2}"), ("t: router", "t: router"))
    assert {name: str(address) for name, address in run.addresses.items()} == {
        "a": "10.0.0.2",
        "r": "10.0.0.1",
        "s": "10.0.0.3",
        "t": "10.0.0.4",
        "b": "10.0.0.5",
    }
    assert run.address_of("r") == ip_address("10.0.0.1")
    # That of IPv6 ends with it, unless the file has one.
    run = scenario(("b: host", "b: {kind: host, address_v6: '2001:db8::1'}"))
    assert run.addresses_v6["a"] == ip_address("fd70:6572:686f:7000::a00:1")
    assert run.addresses_v6["b"] == ip_address("2001:db8::1")


@pytest.mark.parametrize(
    ("ip", "flow", "more", "expected"),
    [
        ("", "", "", (4,)),
        ("ip: 6\n", "", "", (6,)),
        ("", ", ip: 6", "", (6,)),
        ("", "", "pings: {p: {from: a, to: b, ip: 6}}\n", (4, 6)),
        # Outer packets of tunnels have version 4.
        ("ip: 6\n", "", "tunnels: {v: {ends: [r, s], type: gre}}\n", (4, 6)),
    ],
)
def test_versions_of_the_traffic(ip: str, flow: str, more: str, expected: tuple[int, ...]) -> None:
    run = scenario(("to: b}", f"to: b{flow}}}"), more=ip + more)
    assert run.ip_versions == expected
    own = run.all_addresses["a"]
    assert tuple(address.version for address in own) == expected


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ({}, (None, None)),
        ({"ip": [4, 6]}, (None, None)),
        ({"ip": [6]}, ("::/0", None)),
        ({"ip": [4]}, ("0.0.0.0/0", None)),
        ({"source": ["a"]}, ("10.0.0.1/32 fd70:6572:686f:7000::a00:1/128", None)),
        ({"ip": [4], "source": ["a"]}, ("10.0.0.1/32", None)),
        ({"ip": [6], "destination": ["a", "10.0.0.0/8"]}, (None, "fd70:6572:686f:7000::a00:1/128")),
        ({"ip": [6], "source": ["10.0.0.0/8"], "destination": ["::/0"]}, ("", "::/0")),
    ],
)
def test_prefixes_of_a_match(match: dict[str, Any], expected: tuple[str | None, ...]) -> None:
    run = scenario(more="pings: {p: {from: a, to: b, ip: 6}}\n")
    assert run.match_prefixes(Match.model_validate(match)) == tuple(
        None if text is None else tuple(map(ip_network, text.split())) for text in expected
    )


def test_names_of_directions() -> None:
    links = [(("a", "b"), None), (("b", "a"), None), (("a", "b"), "slow"), (("b", "c"), None)]
    assert [*direction_names(links)] == [
        ("a>b", "b>a"),
        ("b>a#2", "a>b#2"),
        ("a>b#slow", "b>a#slow"),
        ("b>c", "c>b"),
    ]


# Instants


def test_results_are_recorded_at_a_grid_and_at_every_change() -> None:
    # 2 µs beside the grid both count. Within 1 µs, a millionth of the interval, the change alone
    # does, before the grid or after it.
    more = """\
report: {interval: 1 s}
changes:
  - {at: 2.000002 s, on: r>s, rate: 90 Mbps}
  - {at: 3.000001 s, on: r>s, rate: 80 Mbps}
  - {at: 4.999999 s, on: r>s, rate: 70 Mbps}
  - {at: 6.5 s, clear: counters}
"""
    run = scenario(("to: b}", "to: b, start: 500 ms, stop: 8 s}"), more=more)
    us = 10**6
    changes = [2 * S + 2 * us, 3 * S + us, 5 * S - us]
    assert run.changes_ps == [S // 2, *changes, 8 * S]
    assert run.marks_ps == sorted(
        [*(n * S for n in (0, 1, 2, 4, 6, 7, 8, 9, 10)), S // 2, *changes, 13 * S // 2]
    )
    assert run.phases_ps == [
        *zip([0, *run.changes_ps], [*run.changes_ps, 10 * S], strict=True),
    ]
    assert run.active_ps(run.flows["web"]) == (S // 2, 8 * S)
    # From the first of several starts on, each of which is a change.
    several = scenario(
        ("to: b}", "to: b, start: [1 s, 4 s]}"), more="pings: {p: {from: a, to: b}}\n"
    )
    assert several.active_ps(several.flows["web"]) == (S, 10 * S)
    assert several.changes_ps == [S, 4 * S, 10 * S]
    ping = several.pings["p"].model_copy(update={"start": 2 * S, "stop": 3 * S})
    assert several.active_ps(ping) == (2 * S, 3 * S)


@pytest.mark.parametrize(
    ("more", "expected"),
    [("", 7), ("pings: {p: {from: a, to: b, stop: 9 s}}\n", 9), ("duration: 20 s\n", 20)],
)
def test_a_scenario_ends_with_its_last_sender(more: str, expected: int) -> None:
    flows = "to: b, stop: 7 s}\n  other: {from: b, to: a, stop: 3 s}"
    run = scenario(("duration: 10 s\n", ""), ("to: b}", flows), more=more)
    assert run.end_ps == expected * S


def test_changes_of_unknown_links_are_left_out() -> None:
    run = scenario(more="changes: [{at: 1 s, on: r>s, state: down}]\n")
    unknown = Change.model_validate({"at": "2 s", "on": "x>y", "state": "down"})
    both = run.model_copy(update={"changes": (*run.changes, unknown)})
    assert [(at // S, set(state.down)) for at, state in states(both)] == [(0, set()), (1, {1})]


# Paths


def test_the_only_path_between_two_nodes() -> None:
    run = scenario()
    assert only_path(run, next_hops(run), "a", "b") == ("a>r", "r>s", "s>b")
    assert only_path(run, next_hops(run), "a", "a") == ()
    down = next_hops(run, down=[1])
    assert only_path(run, down, "a", "b") == ("a>r", "r>t", "t>s", "s>b")
    assert only_path(run, next_hops(run, down=[1, 2]), "a", "b") is None
    # Two links between r and s: the path forks.
    fork = scenario(
        ("  - {ends: [r, t]", "  - {ends: [r, s], rate: 1 Mbps, delay: 5 ms}\n  - {ends: [r, t]")
    )
    assert next_hops(fork, destinations=["b"])["r"] == {"b": ("r>s", "r>s#2")}
    assert only_path(fork, next_hops(fork), "a", "b") is None
    assert next_hops(run, destinations=["b"])["a"] == {"b": ("a>r",)}


def test_no_path_leads_over_a_link_that_is_down() -> None:
    run = scenario()
    assert next_hops(run, down=[1])["r"]["b"] == ("r>t",)
    without = next_hops(run, down=[1, 2])
    # A host sends to its router, whatever that knows.
    assert [without[node].get("b") for node in ("a", "r", "s")] == [("a>r",), None, ("s>b",)]


def test_the_least_mtu_of_a_path() -> None:
    assert path_mtu(scenario(), "a", "b") is None
    run = scenario(mtu("r, s", 1400), mtu("t, s", 1300))
    assert [*path_mtus(run, "a", "b")] == [("r", 1400)]
    assert [*path_mtus(run, "b", "a")] == [("s", 1400)]
    # The ends' links alone are agreed on.
    assert [host_mtu(run, end) for end in "ab"] == [None, None]
    assert agreed_mtu(run, "a", "b") is None
    run = scenario(mtu("a, r", 1450), mtu("r, s", 1400))
    assert (host_mtu(run, "a"), agreed_mtu(run, "b", "a"), path_mtu(run, "b", "a")) == (
        1450,
        1450,
        1400,
    )


def test_a_host_with_several_links_has_the_least_mtu_of_all() -> None:
    second = "  - {ends: [a, t], rate: 1 Gbps, mtu: 1400 B}\n  - {ends: [s, b]"
    run = scenario(mtu("a, r", 1450), ("  - {ends: [s, b]", second))
    assert (host_mtu(run, "a"), agreed_mtu(run, "b", "a")) == (1400, 1400)
    # What a tunnel leaves, or what a link of the host has.
    tunnel = "tunnels: {v: {ends: [a, s], overhead: 100 B, mtu: 1300 B}}\n"
    assert host_mtu(scenario(mtu("a, r", 1450), more=tunnel), "a") == 1300
    assert host_mtu(scenario(mtu("a, r", 1200), more=tunnel.replace("1300", "1250")), "a") == 1200


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ("{at: 1 s, on: r>s, state: down}", [("r", 1400), ("t", 1300)]),
        # A path counts that is used at last.
        (
            "{at: 1 s, on: r>s, state: down}, {at: 2 s, on: r>s, state: up}",
            [("r", 1400), ("t", 1300)],
        ),
        ("{at: 1 s, on: r>t, state: down}", [("r", 1400)]),
        ("{at: 1 s, on: r>s, rate: 1 Mbps}", [("r", 1400)]),
    ],
)
def test_paths_that_are_used_after_an_outage_count(
    changes: str, expected: list[tuple[str, int]]
) -> None:
    run = scenario(mtu("r, s", 1400), mtu("t, s", 1300), more=f"changes: [{changes}]\n")
    assert sorted(set(path_mtus(run, "a", "b"))) == expected
    assert path_mtu(run, "a", "b") == min(size for _, size in expected)


def test_a_router_that_clamps_tells_both_hosts() -> None:
    clamps = ("r: router", "r: {kind: router, mss_clamp: true}")
    run = scenario(clamps, mtu("r, s", 1400))
    assert agreed_mtu(run, "a", "b") == agreed_mtu(run, "b", "a") == 1400
    # s sends the packets into the link, but does not clamp.
    run = scenario(clamps, ("ends: [s, b],", "ends: [s, b], mtu: 1300 B,"))
    assert agreed_mtu(run, "a", "b") == 1300  # b's own
    run = scenario(clamps, mtu("t, s", 1300))
    assert agreed_mtu(run, "a", "b") is None


# Tunnels


@pytest.mark.parametrize(
    ("tunnel", "links", "expected"),
    [
        # RFC 2784: 24 B; a link without an MTU counts as one of 1500 B.
        ("type: gre", (), 1476),
        ("type: gre", (mtu("r, s", 1400),), 1376),
        # Links that lead to no end do not count.
        ("type: gre", (mtu("r, t", 1300), mtu("a, r", 1300)), 1476),
        ("type: gre, mtu: 1200 B", (mtu("r, s", 1400),), 1200),
        # RFC 4303 with AES-GCM: 1448 inside, a multiple of 4, less pad length and next header.
        ("type: esp", (), 1446),
        ("type: esp", (mtu("r, s", 1499),), 1442),
        ("overhead: 60 B", (), 1440),
    ],
)
def test_the_longest_packet_in_a_tunnel(
    tunnel: str, links: tuple[tuple[str, str], ...], expected: int
) -> None:
    run = scenario(*links, more=f"tunnels: {{v: {{ends: [r, s], {tunnel}}}}}\n")
    found = next_hops(run)
    assert tunnel_mtu(run, run.tunnels["v"], found) == expected
    assert ("r", expected) in path_mtus(run, "a", "b")
    assert host_mtu(run, "a") == (1300 if "a, r" in str(links) else None)


def test_what_enters_a_tunnel() -> None:
    more = "tunnels: {near: {ends: [r, t], type: gre}, far: {ends: [r, s], type: gre}}\n"
    run = scenario(more=more)
    found = next_hops(run)
    near, far = run.tunnels.values()
    # By the end that is on the way.
    assert entered(run, found, "r", "b") is far
    assert entered(run, found, "s", "a") is far
    assert entered(run, found, "a", "b") is None
    # Not to the end itself, which is a router.
    assert entered(run, found, "r", "s") is None
    # Of both on the way, the longest.
    down = next_hops(run, down=[1])
    assert entered(run, down, "r", "b") is far
    run = scenario(more=more.replace("far: {ends: [r, s], type: gre}", ""))
    assert entered(run, next_hops(run), "r", "b") is None
    assert entered(run, down, "r", "b") == near
    assert inside(run, down, near, "r") == {"r>t"}
    # One that ends at the host.
    run = scenario(more="tunnels: {v: {ends: [r, b], type: wireguard}}\n")
    assert entered(run, next_hops(run), "r", "b") is run.tunnels["v"]
    assert inside(run, next_hops(run), run.tunnels["v"], "r") == {"r>s", "s>b"}
    assert inside(run, next_hops(run), run.tunnels["v"], "b") == {"b>s", "s>r"}
    # A host's tunnel bounds its packets: 1500 - 60.
    assert host_mtu(run, "b") == agreed_mtu(run, "a", "b") == 1440


# Packets


@pytest.mark.parametrize(
    ("links", "more", "expected"),
    [
        ((), "", set()),
        # Routers tell that a packet is too long, and that there is no route.
        ((mtu("r, s", 1400),), "", {"a", "b"}),
        ((), "changes: [{at: 1 s, on: r>s, state: down}]\n", {"a", "b"}),
        ((), "changes: [{at: 1 s, on: r>s, rate: 1 Mbps}]\n", set()),
        ((), "tunnels: {v: {ends: [r, s], type: gre}}\n", {"a", "b"}),
    ],
)
def test_routers_send_errors_to_those_that_may_need_them(
    links: tuple[tuple[str, str], ...], more: str, expected: set[str]
) -> None:
    run = scenario(*links, more=more)
    names = {int(address): name for name, address in run.addresses.items()}
    errors = [one for one in sent(run) if one.protocols == {"icmp"}]
    assert {names[low] for one in errors for low, _ in one.goals} == expected
    assert all(one.dscps == {48} for one in errors)


@pytest.mark.parametrize(
    ("tunnel", "expected"),
    [
        ("type: gre", [(0, "other", None, None), (48, "other", None, None)]),
        ("type: gre, dscp: ef", [(46, "other", None, None)]),
        ("type: wireguard", [(0, "udp", ((51820, 51820),), ((51820, 51820),))]),
        # The source port is a hash of the inner flow.
        (
            "type: vxlan",
            [(dscp, "udp", ((49152, 65535),), ((4789, 4789),)) for dscp in (0, 48)],
        ),
    ],
)
def test_outer_packets(tunnel: str, expected: list[Any]) -> None:
    run = scenario(more=f"tunnels: {{v: {{ends: [r, s], {tunnel}}}}}\n")
    ends = {int(run.addresses[end]) for end in ("r", "s")}
    outer = [
        (*one.dscps, *(one.protocols or ()), one.sources, one.destinations)
        for one in sent(run)
        if {one.origins[0][0], one.goals[0][0]} == ends
    ]
    assert sorted(outer, key=str) == sorted([*expected, *expected], key=str)


def test_packets_may_have_any_code_point_that_a_rule_sets() -> None:
    run = scenario(
        ("s: router", "s: {kind: router, remark: [{match: {dscp: be}, dscp: cs1}]}"),
        ("delay: 5 ms}", "delay: 5 ms, egress: {r: p}}"),
        more="policies: {p: {classes: {all: {match: any, mark: af21, police: "
        "{rate: 1 Mbps, burst: 9 kB, "
        "exceed: {remark: af13}}}}}}\n",
    )
    assert {one.dscps for one in sent(run)} == {frozenset({0, 8, 14, 18})}
    assert {one.link_classes for one in sent(run)} == {frozenset([None])}


# Servers


def ports(run: Scenario) -> dict[str, int | None]:
    return {name: own and own.port for name, own in iperf3_servers(run).items()}


def test_a_server_of_iperf3_runs_one_flow_at_a_time() -> None:
    flows = [
        "one: {from: a, to: b, stop: 2 s}",
        "two: {from: a, to: b, start: 1 s, stop: 5 s}",
        "four: {from: a, to: b, start: 2 s, stop: 3 s}",
        "five: {from: a, to: b, start: 4 s}",
    ]
    servers = (
        f"agents: {{a: {{address: 192.0.2.1, key: {KEY}}}, "
        "b: {iperf3: ['192.0.2.2:5201', '192.0.2.2:5202']}}\n"
    )
    run = scenario(("web: {from: a, to: b}", "\n  ".join(flows)), more=servers)
    assert ports(run) == {"one": 5201, "two": 5202, "four": 5201, "five": 5201}
    # Servers are had in the order of starts, whichever end has them, whatever the file's order.
    late = scenario(
        ("web: {from: a, to: b}", "\n  ".join(flows[::-1]).replace("from: a, to: b", "WAY")),
        ("WAY", "from: b, to: a"),
        more=servers,
    )
    assert ports(late) == {"one": 5201, "two": 5202, "four": 5201, "five": 5201}
    # Without the second server, the second flow has none.
    first = run.agents["b"].model_copy(update={"iperf3": run.agents["b"].iperf3[:1]})
    run = run.model_copy(update={"agents": {**run.agents, "b": first}})
    assert ports(run) == {"one": 5201, "two": None, "four": 5201, "five": 5201}


# Queues


def test_every_queue_of_a_file_is_checked() -> None:
    queue = "queue: {red: {min: 9 packets, max: 5 packets}}"
    for old, new, place in (
        ("delay: 5 ms}", f"delay: 5 ms, {queue}}}", "links.1.queue"),
        ("delay: 5 ms}", f"delay: 5 ms, queue: {{s: {{{queue[8:-1]}}}}}}}", "links.1.queue.s"),
    ):
        with pytest.raises(ScenarioError, match=re.escape(place)):
            scenario((old, new))
