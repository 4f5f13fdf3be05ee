"""Which matches contain or meet which: against counting packets one by one."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from itertools import product

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
