"""Which matches contain or meet which: against counting packets one by one, and by hand."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perhop.scenario.model.classes import Class
from perhop.scenario.model.matching import Except, Match, Matching, match_rules, matches_any
from perhop.scenario.model.names import EVERY_ADDRESS
from perhop.scenario.resolve.packets import EVERYWHERE, Index, Packets, Selection, addresses_of

ADDRESSES: dict[str, tuple[IPv4Address | IPv6Address, ...]] = {
    "a": (IPv4Address("10.0.0.1"), IPv6Address("2001:db8::1")),
    "b": (IPv4Address("10.0.0.2"),),
}
UNIVERSE = list(
    product(
        (0, 8),
        ("tcp", "udp", "icmp"),
        (5, 6, 7),
        (5, 6, 7),
        tuple(map(ip_address, ("10.0.0.1", "10.0.0.2", "10.0.1.1", "2001:db8::1", "2001:db8::2"))),
    )
)

ports = st.lists(st.sampled_from([5, 6, 7, "5-6", "6-7", "1-100"]), min_size=1, max_size=2)
matches = st.fixed_dictionaries(
    {},
    optional={
        "dscp": st.sampled_from([[0], [8], [0, 8], list(range(64))]),
        "ip": st.sampled_from([[4], [6], [4, 6]]),
        "protocol": st.lists(st.sampled_from(["tcp", "udp", "icmp"]), min_size=1, max_size=3),
        "port": ports,
        "source_port": ports,
        "destination_port": ports,
        "source": st.lists(
            st.sampled_from(
                ["a", "b", "10.0.0.0/24", "10.0.0.0/8", "::/0", "10.0.1.1", "2001:db8::/32"]
            ),
            min_size=1,
            max_size=2,
        ),
    },
).map(Match.model_validate)
listed = st.lists(
    st.one_of(matches, matches.map(lambda match: Except.model_validate({"except": match}))),
    min_size=1,
    max_size=4,
).map(lambda elements: Class.model_validate({"match": elements}).match)


def taken(match: Match) -> set[int]:
    """The packets of the universe that `match` takes, tested the obvious way."""

    def among(port: int, ranges: tuple[tuple[int, int], ...] | None) -> bool:
        return ranges is None or any(low <= port <= high for low, high in ranges)

    found = set()
    for index, (dscp, protocol, source_port, destination_port, source) in enumerate(UNIVERSE):
        has_ports = protocol != "icmp"
        asks_ports = match.port or match.source_port or match.destination_port
        if (
            (match.dscp is None or dscp in match.dscp)
            and (match.ip is None or source.version in match.ip)
            and (match.protocol is None or protocol in match.protocol)
            and (has_ports or not asks_ports)
            and (among(source_port, match.port) or among(destination_port, match.port))
            and among(source_port, match.source_port)
            and among(destination_port, match.destination_port)
            and (
                match.source is None
                or any(
                    source in (ADDRESSES[end] if isinstance(end, str) else ip_network(end))
                    for end in match.source
                )
            )
        ):
            found.add(index)
    return found


@given(matches, matches)
def test_what_contains_another_takes_all_that_it_takes(one: Match, other: Match) -> None:
    if Packets.of(one, ADDRESSES).contains(Packets.of(other, ADDRESSES)):
        assert taken(one) >= taken(other)


@given(matches, matches)
def test_what_contains_another_is_found_by_a_sample_of_it(one: Match, other: Match) -> None:
    whole, part = Packets.of(one, ADDRESSES), Packets.of(other, ADDRESSES)
    if part.origins and part.goals and whole.contains(part):
        assert {*whole.handles()} & {*part.samples()}


@given(matches)
def test_every_match_contains_itself_and_is_contained_in_any(match: Match) -> None:
    packets = Packets.of(match, ADDRESSES)
    assert packets.contains(packets)
    assert Packets.of(Match(), ADDRESSES).contains(packets)


def packet(index: int) -> Packets:
    """One packet of the universe."""
    dscp, protocol, source_port, destination_port, source = UNIVERSE[index]
    source_range = addresses_of(ip_network(source))
    has_ports = protocol != "icmp"
    return Packets(
        frozenset({dscp}),
        frozenset({protocol}),
        None,
        ((source_port, source_port),) if has_ports else None,
        ((destination_port, destination_port),) if has_ports else None,
        (source_range,),
        (addresses_of(EVERY_ADDRESS[source.version]),),
    )


@given(matches, st.sampled_from(range(len(UNIVERSE))))
def test_a_match_meets_exactly_the_packets_that_it_takes(match: Match, index: int) -> None:
    assert Packets.of(match, ADDRESSES).meets(packet(index)) == (index in taken(match))


wide = st.builds(
    Packets,
    st.just(frozenset({0})),
    st.just(frozenset({"udp"})),
    st.none(),
    st.sampled_from([((5, 9),), ((6, 6),)]),
    st.sampled_from([((7, 7),), ((5, 6),)]),
    st.sampled_from([EVERYWHERE, ((int(IPv4Address("10.0.0.1")),) * 2,)]),
    st.just(EVERYWHERE),
)


@given(
    st.one_of(matches, listed),
    st.lists(st.sampled_from(range(len(UNIVERSE))), max_size=5),
    st.lists(wide),
)
def test_an_index_knows_whether_some_packet_is_met(
    match: Matching, single: list[int], several: list[Packets]
) -> None:
    packets = [*map(packet, single), *several]
    asked = Selection.of(match, ADDRESSES)
    assert Index(packets).any_of(asked) == any(asked.meets(some) for some in packets)


def selected(match: Matching) -> set[int]:
    """The packets of the universe that a match selects, read element by element."""
    found: set[int] = set()
    excluded: set[int] = set()
    for permit, conditions in match_rules(match):
        applies = taken(conditions) - found - excluded
        found |= applies if permit else set()
        excluded |= set() if permit else applies
    return found


@given(listed)
def test_a_list_selects_what_its_first_element_to_apply_says(match: Matching) -> None:
    selection = Selection.of(match, ADDRESSES)
    expected = selected(match)
    everything = set(range(len(UNIVERSE)))
    assert {index for index in everything if selection.meets(packet(index))} == expected
    if matches_any(match):
        assert expected == everything
    rules = match_rules(match)
    permitted = dict(selection.permitted())
    assert {index for number in permitted for index in taken(rules[number].conditions)} >= expected


@given(listed, matches)
def test_a_rule_that_takes_packets_selects_them_all(match: Matching, other: Match) -> None:
    packets = Packets.of(other, ADDRESSES)
    selection = Selection.of(match, ADDRESSES)
    for number, (permit, _) in enumerate(selection.rules):
        if permit and selection.takes(number, packets):
            assert selected(match) >= taken(other)


@given(matches, st.data())
def test_fewer_conditions_contain_more(match: Match, data: st.DataObject) -> None:
    dropped = data.draw(st.sets(st.sampled_from(sorted(Match.model_fields))))
    wider = match.model_copy(update=dict.fromkeys(dropped))
    assert Packets.of(wider, ADDRESSES).contains(Packets.of(match, ADDRESSES))


tagged = st.fixed_dictionaries(
    {}, optional={key: st.lists(st.integers(0, 2), min_size=1) for key in ("pcp", "mpls_tc")}
).map(Match.model_validate)


@given(tagged, tagged)
def test_sets_of_tags_and_labels(one: Match, other: Match) -> None:
    def of(match: Match) -> set[tuple[str, int]]:
        chosen = [(key, value) for key in ("pcp", "mpls_tc") for value in getattr(match, key) or ()]
        return set(chosen or [("none", 0), *product(("pcp", "mpls_tc"), range(8))])

    first, second = Packets.of(one, ADDRESSES), Packets.of(other, ADDRESSES)
    assert first.contains(second) == (of(one) >= of(other))
    assert first.meets(second) == bool(of(one) & of(other))
    assert first.disjoint(second) == (not of(one) & of(other))


def test_a_rule_behind_an_exception_with_all_of_its_packets_permits_none() -> None:
    narrow = {"source": ["10.0.0.1"], "dscp": [8]}
    for excluded, expected in (
        ({"source": ["10.0.0.0/24"]}, [2]),
        ({"dscp": [8]}, [2]),
        ({"dscp": [0]}, [1, 2]),
        ({"source": ["10.0.0.2"]}, [1, 2]),
    ):
        match = Class.model_validate({"match": [{"except": excluded}, narrow, {"dscp": [0]}]}).match
        assert [index for index, _ in Selection.of(match, ADDRESSES).permitted()] == [
            index for index in expected if excluded != {"dscp": [0]} or index != 2
        ]


@given(matches, matches)
def test_disjoint_sets_have_no_packet_in_common(one: Match, other: Match) -> None:
    if Packets.of(one, ADDRESSES).disjoint(Packets.of(other, ADDRESSES)):
        assert not taken(one) & taken(other)


VALUES = {
    "dscp": st.sampled_from([[0], [8], [0, 8]]),
    "ip": st.sampled_from([[4], [6]]),
    "protocol": st.lists(st.sampled_from(["tcp", "udp", "icmp"]), min_size=1),
    "source_port": ports,
    "destination_port": ports,
    "source": st.lists(
        st.sampled_from(["a", "b", "10.0.0.0/24", "10.0.1.1", "::/0"]), min_size=1, max_size=2
    ),
}


@given(st.sampled_from(sorted(VALUES)), st.data())
def test_one_condition_tells_whether_sets_are_disjoint(key: str, data: st.DataObject) -> None:
    one, other = (Match.model_validate({key: data.draw(VALUES[key])}) for _ in range(2))
    disjoint = not taken(one) & taken(other)
    assert Packets.of(one, ADDRESSES).disjoint(Packets.of(other, ADDRESSES)) == disjoint


# Sets by hand


def of(match: dict[str, Any]) -> Packets:
    return Packets.of(Match.model_validate(match), ADDRESSES)


def selection(*rules: dict[str, Any]) -> Selection:
    listed = [{"except": rule["except"] or "any"} if "except" in rule else rule for rule in rules]
    match = Class.model_validate({"match": [rule or "any" for rule in listed]}).match
    return Selection.of(match, ADDRESSES)


def test_numbers_of_ipv6_follow_those_of_ipv4() -> None:
    assert addresses_of(ip_network("0.0.0.0/0")) == (0, 2**32 - 1)
    assert addresses_of(ip_network("10.0.0.0/24")) == (10 * 2**24, 10 * 2**24 + 255)
    assert addresses_of(ip_network("::/0")) == (2**32, 2**32 + 2**128 - 1)
    assert addresses_of(ip_network("::5")) == (2**32 + 5, 2**32 + 5)
    assert of({"ip": [4, 6]}).origins == of({}).goals == EVERYWHERE


@pytest.mark.parametrize(
    ("whole", "part", "expected"),
    [
        ({}, {"dscp": [8]}, True),
        ({"dscp": [0, 8]}, {"dscp": [8]}, True),
        ({"dscp": [8]}, {"dscp": [0, 8]}, False),
        ({"dscp": [8]}, {}, False),
        ({"protocol": ["tcp", "udp"]}, {"protocol": ["tcp"]}, True),
        ({"protocol": ["tcp"]}, {"protocol": ["tcp", "udp"]}, False),
        ({"protocol": ["tcp"]}, {}, False),
        # Only TCP and UDP have ports.
        ({"protocol": ["tcp", "udp"]}, {"port": [5]}, True),
        ({"protocol": ["tcp"]}, {"port": [5]}, False),
        ({"port": [5]}, {"port": [5], "protocol": ["udp"]}, True),
        ({"port": [5]}, {"protocol": ["udp"]}, False),
        # A port at either side.
        ({"port": ["1-9"]}, {"source_port": [9]}, True),
        ({"port": ["1-9"]}, {"destination_port": [1]}, True),
        ({"port": ["1-9"]}, {"source_port": [10], "destination_port": [9]}, True),
        ({"port": ["1-9"]}, {"source_port": [10]}, False),
        ({"port": [5]}, {"port": ["5-6"]}, False),
        ({"port": [5, 6]}, {"port": ["5-6"]}, True),
        ({"port": [5, 7]}, {"port": ["5-7"]}, False),
        ({"source_port": ["5-6"]}, {"source_port": [6]}, True),
        ({"source_port": ["5-6"]}, {"source_port": [7]}, False),
        ({"source_port": ["5-6"]}, {"port": [5]}, False),
        ({"source_port": ["5-6"]}, {"destination_port": [5]}, False),
        ({"destination_port": ["5-6"]}, {"destination_port": [5]}, True),
        ({"destination_port": ["5-6"]}, {"destination_port": [4]}, False),
        ({"destination_port": ["5-6"]}, {"source_port": [5]}, False),
        ({"source": ["10.0.0.0/8"]}, {"source": ["b"]}, True),
        ({"source": ["b"]}, {"source": ["10.0.0.0/8"]}, False),
        # a has an address of each version.
        ({"source": ["10.0.0.0/8"]}, {"source": ["a"]}, False),
        ({"source": ["10.0.0.0/8", "2001:db8::/32"]}, {"source": ["a"]}, True),
        ({"destination": ["10.0.0.0/8"]}, {"destination": ["b"]}, True),
        ({"destination": ["10.0.0.0/8"]}, {"source": ["b"]}, False),
        ({"ip": [4]}, {"ip": [4], "source": ["a"]}, True),
        ({"ip": [4]}, {"source": ["b"]}, False),
        ({"ip": [6]}, {"ip": [4]}, False),
        ({"pcp": [1, 2]}, {"pcp": [1]}, True),
        ({"pcp": [1]}, {"pcp": [1, 2]}, False),
        ({"pcp": [1]}, {}, False),
        ({"pcp": [1]}, {"mpls_tc": [1]}, False),
        ({}, {"pcp": [1]}, True),
    ],
)
def test_what_a_set_contains(whole: dict[str, Any], part: dict[str, Any], expected: bool) -> None:
    one, other = of(whole), of(part)
    assert one.contains(other) is expected
    # An exception with all of its packets leaves a rule none, and is found by one of few values.
    permitted = [index for index, _ in selection({"except": whole}, part).permitted()]
    assert permitted == ([] if expected else [1])
    assert not expected or {*one.handles()} & {*other.samples()}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({}, {}, True),
        ({"dscp": [0, 8]}, {"dscp": [8, 9]}, True),
        ({"dscp": [0]}, {"dscp": [8]}, False),
        ({"protocol": ["tcp"]}, {"protocol": ["udp", "tcp"]}, True),
        ({"protocol": ["tcp"]}, {"protocol": ["udp"]}, False),
        ({"protocol": ["tcp"]}, {}, True),
        ({}, {"protocol": ["tcp"]}, True),
        ({"port": [5]}, {"source_port": ["5-6"], "destination_port": [9]}, True),
        ({"port": [5]}, {"source_port": [9], "destination_port": ["4-5"]}, True),
        # Of two properties none alone tells that they have no packet in common.
        ({"port": [5]}, {"source_port": [9], "destination_port": [9]}, None),
        ({"port": [5]}, {"protocol": ["icmp"]}, False),
        ({"source_port": [5]}, {"source_port": ["1-5"]}, True),
        ({"source_port": [5]}, {"source_port": ["6-9"]}, False),
        ({"destination_port": [5]}, {"destination_port": ["5-9"]}, True),
        ({"destination_port": [5]}, {"destination_port": ["1-4"]}, False),
        ({"source": ["10.0.0.0/8"]}, {"source": ["a"]}, True),
        ({"source": ["10.0.1.0/24"]}, {"source": ["a"]}, False),
        ({"destination": ["10.0.0.0/8"]}, {"destination": ["b"]}, True),
        ({"destination": ["10.0.1.0/24"]}, {"destination": ["b"]}, False),
        ({"ip": [6]}, {"source": ["b"]}, False),
        ({"pcp": [1, 2]}, {"pcp": [2, 3]}, True),
        ({"pcp": [1]}, {"pcp": [2]}, False),
        ({"pcp": [1]}, {"mpls_tc": [1]}, False),
        ({"pcp": [1]}, {}, True),
        ({}, {"pcp": [1]}, True),
    ],
)
def test_what_sets_have_in_common(
    one: dict[str, Any], other: dict[str, Any], expected: bool | None
) -> None:
    packets = of(other)
    assert of(one).meets(packets) is bool(expected)
    assert of(one).disjoint(packets) is (expected is False)
    assert selection(one).meets(packets) is bool(expected)
    assert Index([packets]).any_of(selection(one)) is bool(expected)
    assert not Index([]).any_of(selection(one))
    # What an exception alone selects is nothing.
    assert not Index([packets]).any_of(selection({"except": one}))


def test_a_rule_takes_what_no_earlier_one_excludes() -> None:
    found = selection(
        {"except": {"dscp": [8]}}, {"protocol": ["udp", "icmp"]}, {"protocol": ["udp", "tcp"]}
    )
    for index, packets, expected in (
        (1, {"protocol": ["udp"], "dscp": [0]}, True),
        (1, {"protocol": ["udp"], "dscp": [8]}, False),
        (1, {"protocol": ["udp"]}, False),  # some of them are excluded
        (1, {"protocol": ["tcp"], "dscp": [0]}, False),
        # A rule before it that permits some, too, takes nothing away.
        (2, {"protocol": ["udp"], "dscp": [0]}, True),
        (2, {"protocol": ["icmp"], "dscp": [0]}, False),
    ):
        assert found.takes(index, of(packets)) is expected, (index, packets)


def test_the_first_rule_that_applies_decides() -> None:
    found = selection({"dscp": [0], "protocol": ["udp"]}, {"except": {"dscp": [0]}}, {"dscp": [8]})
    for packets, expected in (
        ({"dscp": [0], "protocol": ["udp"]}, True),
        ({"dscp": [0], "protocol": ["tcp"]}, False),
        ({"dscp": [8], "protocol": ["tcp"]}, True),
        ({"dscp": [9], "protocol": ["udp"]}, False),
        ({"dscp": [0, 8], "protocol": ["tcp"]}, True),  # some of them
    ):
        assert found.meets(of(packets)) is expected, packets
    assert [index for index, _ in found.permitted()] == [0, 2]


def test_packets_are_grouped_by_one_property() -> None:
    ten = 10 * 2**24
    for match, expected in (
        ({"destination_port": [5, 7]}, {("destinations", 5), ("destinations", 7)}),
        ({"source_port": [5]}, {("sources", 5)}),
        ({"port": [5], "source": ["b"]}, {("either", 5)}),
        ({"source": ["b"], "port": ["5-6"]}, {("origins", ten + 2)}),
        ({"destination": ["b"]}, {("goals", ten + 2)}),
        # Prefixes by what they begin with: at most 256 groups of each.
        ({"source": ["10.0.0.0/24"]}, {("origins", 8, ten >> 8)}),
        ({"destination": ["10.0.0.0/23"]}, {("goals", 8, (ten >> 8) + n) for n in range(2)}),
        ({"source": ["10.0.0.0/16"]}, {("origins", 8, (ten >> 8) + n) for n in range(256)}),
        ({"source": ["10.0.0.0/15"]}, {("origins", 16, (ten >> 16) + n) for n in range(2)}),
        ({"source": ["10.0.0.0/7"]}, {("origins", 24, (ten >> 24) + n) for n in range(2)}),
        ({"dscp": [8]}, {None}),
        ({"destination_port": ["5-6"]}, {None}),
    ):
        assert {*of(match).handles()} == expected, match
