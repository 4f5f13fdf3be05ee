"""Sets of packets: the algebra against a naive evaluator."""

from __future__ import annotations

import time
from ipaddress import ip_address, ip_network
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perhop.routers.reading import Conditions, Packet, Rules, TooManyRulesError
from perhop.routers.reading.matching import MAX_RULES, Rule
from perhop.scenario.model.dscp import parse_dscp

if TYPE_CHECKING:
    from collections.abc import Callable

ADDRESSES = [ip_address(text) for text in ("10.0.0.1", "10.0.1.1", "10.1.0.1", "2001:db8::1")]
NETWORKS = [
    ip_network(text)
    for text in (
        "10.0.0.0/24",
        "10.0.1.0/24",
        "10.0.0.0/16",
        "0.0.0.0/0",
        "::/0",
        "10.1.0.1/32",
        "2001:db8::/32",
    )
]
PORTS = [80, 81, 5060]
PACKETS = [
    Packet(dscp, protocol, source, destination, *(ports if protocol != "icmp" else (0, 0)))
    for dscp, protocol, (source, destination), ports in product(
        (0, 8, 46),
        ("tcp", "udp", "icmp"),
        zip(ADDRESSES, ADDRESSES[:3][::-1] + ADDRESSES[3:], strict=True),
        product(PORTS, PORTS),
    )
]
"""Every kind of packet that the conditions below tell apart."""

SOME_PORTS = st.lists(
    st.sampled_from([(80, 80), (81, 90), (80, 81), (0, 80), (0, 65535), (5000, 6000)]), max_size=2
).map(tuple)
SOME_NETWORKS = st.lists(st.sampled_from(NETWORKS), max_size=2).map(tuple)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | st.none() | strategy


CONDITIONS = st.builds(
    Conditions,
    maybe(st.frozensets(st.sampled_from([0, 8, 46]))),
    maybe(st.frozensets(st.sampled_from(["tcp", "udp", "icmp"]))),
    maybe(SOME_NETWORKS),
    maybe(SOME_NETWORKS),
    maybe(SOME_PORTS),
    maybe(SOME_PORTS),
)
SETS = st.lists(st.tuples(st.booleans(), CONDITIONS), max_size=5).map(lambda r: Rules(tuple(r)))


def members(rules: Rules) -> list[bool]:
    return [rules.matches(packet) for packet in PACKETS]


@settings(max_examples=40, deadline=None)
@given(SETS, SETS)
def test_operations_are_those_of_sets(a: Rules, b: Rules) -> None:
    in_a, in_b = members(a), members(b)
    assert members(a & b) == [x and y for x, y in zip(in_a, in_b, strict=True)]
    assert members(a | b) == [x or y for x, y in zip(in_a, in_b, strict=True)]
    assert members(~a) == [not x for x in in_a]
    assert members(Rules.union([a, b, a])) == members(a | b)
    assert members(Rules.intersection([a, b, a])) == members(a & b)
    simple = a.simplified()
    assert members(simple) == in_a
    assert len(simple.rules) <= len(a.rules)
    assert simple.is_never or any(permit for permit, _ in simple.rules)


@settings(max_examples=40, deadline=None)
@given(SETS)
def test_the_form_of_scenarios_says_the_same(rules: Rules) -> None:
    assert [_holds(rules.written(), packet) for packet in PACKETS] == members(rules)


def _holds(match: Any, packet: Packet) -> bool:
    """Evaluate a scenario's `match`, without the code under test."""
    if isinstance(match, list):
        for each in match:
            excluded = isinstance(each, dict) and "except" in each
            if _holds(each["except"] if excluded else each, packet):
                return not excluded
        return False
    if match == "any":
        return True

    def ports(ranges: list[Any], port: int) -> bool:
        ends = [[int(end) for end in str(each).split("-")] for each in ranges]
        return packet.protocol != "icmp" and any(each[0] <= port <= each[-1] for each in ends)

    tests: dict[str, Callable[[list[Any]], bool]] = {
        "dscp": lambda some: packet.dscp in [parse_dscp(str(each)) for each in some],
        "ip": lambda some: packet.source.version in some,
        "protocol": lambda some: packet.protocol in some,
        "source": lambda some: any(packet.source in ip_network(each) for each in some),
        "destination": lambda some: any(packet.destination in ip_network(each) for each in some),
        "source_port": lambda some: ports(some, packet.source_port),
        "destination_port": lambda some: ports(some, packet.destination_port),
    }
    assert match
    return all(
        tests[key](value if isinstance(value, list) else [value]) for key, value in match.items()
    )


def conditions(**values: Any) -> Rules:
    return Rules.of(Conditions(**values))


def dscp(*values: int) -> Rules:
    return conditions(dscp=frozenset(values))


TCP = conditions(protocols=frozenset({"tcp"}))
UDP = conditions(protocols=frozenset({"udp"}))
WEB = conditions(destination_ports=((80, 80), (443, 443)))
SITE = conditions(source=(ip_network("10.0.0.0/8"), ip_network("192.0.2.1/32")))


@pytest.mark.parametrize(
    ("rules", "written"),
    [
        (Rules.any(), "any"),
        (Rules.never(), []),
        (dscp(8) & dscp(10), []),
        (dscp(10) | dscp(8) | dscp(46), {"dscp": ["cs1", "af11", "ef"]}),
        (dscp(46), {"dscp": "ef"}),
        (~dscp(46), [{"except": {"dscp": "ef"}}, "any"]),
        (dscp(8, 46) & ~dscp(46), {"dscp": "cs1"}),
        (~~dscp(8), {"dscp": "cs1"}),
        (dscp(8) | ~dscp(8), "any"),
        (dscp(8) & ~dscp(8), []),
        ((TCP | UDP) & WEB, {"destination_port": [80, 443]}),
        (TCP & WEB, {"protocol": "tcp", "destination_port": [80, 443]}),
        (TCP & conditions(source_ports=((1, 65535),)), {"protocol": "tcp"}),
        (dscp(46) | WEB, [{"dscp": "ef"}, {"destination_port": [80, 443]}]),
        (SITE, {"source": ["10.0.0.0/8", "192.0.2.1"]}),
        (dscp(*range(64)), "any"),
        (conditions(source_ports=((0, 0),)), []),
        (
            conditions(
                source=(ip_network("10.0.0.0/8"),), destination=(ip_network("2001:db8::/32"),)
            ),
            [],
        ),
        (Rules(((False, Conditions()), (True, Conditions()))), []),
    ],
)
def test_sets_are_written_shortly(rules: Rules, written: object) -> None:
    assert rules.written() == written


def test_the_size_of_sets_is_bounded() -> None:
    single = [conditions(source_ports=((2 * n + 1,) * 2,)) for n in range(MAX_RULES)]
    assert len(Rules.union(single).rules) == MAX_RULES
    assert len(Rules.union(single).simplified().rules) == 1
    with pytest.raises(TooManyRulesError, match="needs more than 4,096 rules"):
        Rules.union([*single, dscp(0)])
    denied: list[Rule] = [(False, Conditions(source_ports=((n, n),))) for n in range(1, 2000)]
    many = Rules((*denied, (True, Conditions())))
    with pytest.raises(TooManyRulesError, match="compares more than 262,144 pairs of rules"):
        many | many


def test_operations_on_large_sets_take_little_time() -> None:
    started = time.process_time()
    networks = [ip_network((0x0A000000 + 512 * n, 24)) for n in range(MAX_RULES)]
    sites = Rules(tuple((True, Conditions(source=(each,))) for each in networks))
    assert len(sites.written()["source"]) == MAX_RULES  # type: ignore[call-overload, index]
    with pytest.raises(TooManyRulesError):
        sites & sites
    assert time.process_time() - started < 3
