"""The header of each class: one that this class matches, and no class before it."""

from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from perhop.routers.headers import (
    DESTINATION,
    DSCP,
    PORT,
    PROTOCOL,
    PROTOCOLS,
    SOURCE,
    SOURCE_PORT,
    Headers,
    headers,
    shared,
    unreachable,
)
from perhop.scenario import EPHEMERAL_PORTS, parse_dscp


def meets(conditions: Any, packet: dict[str, Any]) -> bool:
    """Return whether a packet meets conditions, as the documentation of scenarios says."""
    if conditions == "any":
        return True
    for key, value in conditions.items():
        values = value if isinstance(value, list) else [value]
        if key in ("source", "destination"):
            met = any(packet[key] in ip_network(each) for each in values)
        elif key == "ip":
            met = packet["source"].version in values
        elif key == "dscp":
            met = packet[key] in map(parse_dscp, values)
        elif key == "protocol":
            met = packet[key] in values
        elif packet["protocol"] == "icmp":
            met = False
        else:
            ports = [packet[name] for name in (("source_port", "destination_port"))]
            if key != "port":
                ports = [packet[key]]
            ends = [(*map(int, str(each).split("-")),) * 2 for each in values]
            met = any(low <= port <= high for low, high, *_ in ends for port in ports)
        if not met:
            return False
    return True


def matches(match: Any, packet: dict[str, Any]) -> bool:
    for element in match if isinstance(match, list) else [match]:
        excludes = isinstance(element, dict) and "except" in element
        if meets(element["except"] if excludes else element, packet):
            return not excludes
    return False


def leaf(policy: dict[str, Any], packet: dict[str, Any]) -> tuple[str, ...]:
    """Return the class that a packet belongs to."""
    name = next(n for n, class_ in policy["classes"].items() if matches(class_["match"], packet))
    inside = policy["classes"][name]
    return (name, *leaf(inside, packet)) if "classes" in inside else (name,)


def address(number: int) -> IPv4Address | IPv6Address:
    """Return the address that a box has as a number."""
    return IPv4Address(number) if number < 2**32 else IPv6Address(number - 2**32)


def packets(found: Headers) -> list[dict[str, Any]]:
    """Return packets of headers: the corners of the box."""
    low = [ranges[0][0] for ranges in found.box]
    high = [ranges[-1][1] for ranges in found.box]
    return [
        {
            "dscp": values[DSCP],
            "protocol": PROTOCOLS[values[PROTOCOL]],
            "source": address(values[SOURCE]),
            "destination": address(values[DESTINATION]),
            "destination_port": values[PORT],
            "source_port": port,
        }
        for values in (low, high)
        for port in (low[SOURCE_PORT], high[SOURCE_PORT])
    ]


PREFIXES = ["10.0.0.0/8", "10.1.0.0/16", "192.0.2.7/32", "0.0.0.0/0", "2001:db8::/32", "::/0"]
PORTS = [80, 443, "1-1023", "80-5001", "1024-65535", "49152-65535"]
CONDITIONS = st.one_of(
    st.just("any"),
    st.fixed_dictionaries(
        {},
        optional={
            "ip": st.sampled_from([4, 6, [4, 6]]),
            "dscp": st.lists(st.sampled_from(["ef", "cs1", "af11", "be"]), min_size=1, max_size=3),
            "protocol": st.sampled_from(["tcp", "udp", "icmp", ["tcp", "udp"]]),
            "source": st.sampled_from(PREFIXES),
            "destination": st.lists(st.sampled_from(PREFIXES), min_size=1, max_size=2),
            "port": st.sampled_from(PORTS),
            "destination_port": st.lists(st.sampled_from(PORTS), min_size=1, max_size=2),
            "source_port": st.sampled_from(PORTS),
        },
    ).filter(bool),
)
MATCHES = st.one_of(
    CONDITIONS,
    st.lists(CONDITIONS | CONDITIONS.map(lambda each: {"except": each}), min_size=1, max_size=4),
)
CLASSES = st.lists(MATCHES, max_size=5).map(
    lambda found: {f"c{number}": {"match": match} for number, match in enumerate([*found, "any"])}
)
POLICIES = st.builds(
    lambda outer, inner: {
        "classes": {**{f"o{n}": {**c, "classes": inner} for n, c in outer.items()}, **outer}
    },
    CLASSES,
    CLASSES,
) | CLASSES.map(lambda classes: {"classes": classes})


@settings(max_examples=60)
@given(POLICIES)
def test_a_packet_with_the_header_of_a_class_belongs_to_it(policy: dict[str, Any]) -> None:
    for path, found in headers(policy).items():
        if found is None:
            assert unreachable(policy, path)
        else:
            assert {leaf(policy, packet) for packet in packets(found)} == {path}
            ends = [packet[end] for packet in packets(found) for end in ("source", "destination")]
            assert {each.version for each in ends} == {found.version}


@settings(max_examples=30)
@given(POLICIES, POLICIES)
def test_shared_packets_belong_to_a_class_of_each_policy(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    pairs = {(each.old, each.new): each.headers for each in shared(old, new)}
    for (first, second), common in pairs.items():
        for packet in packets(common):
            assert (leaf(old, packet), leaf(new, packet)) == (first, second)
    # Each class with packets shares some of them with a class of the other policy.
    for side, policy in enumerate((old, new)):
        reached = {path for path, found in headers(policy).items() if found is not None}
        assert {pair[side] for pair in pairs} == reached


def found(*matches: Any) -> list[Headers | None]:
    classes = {f"c{number}": {"match": match} for number, match in enumerate(matches)}
    return list(headers({"classes": classes}).values())


def test_a_class_without_packets_has_no_header() -> None:
    web = {"protocol": "tcp", "destination_port": 80}
    first, other, rest, never = found(web, {**web, "dscp": "ef"}, "any", "any")
    assert first is not None
    assert rest is not None
    assert [other, never] == [None, None]
    # Together, two classes take all of a third one.
    halves = {"destination_port": "1-100"}, {"destination_port": "101-65535"}
    *_, tcp, rest = found(*halves, {"protocol": "tcp"}, "any")
    assert tcp is None
    assert rest is not None
    assert rest.protocols == ["icmp"]


def test_headers_are_of_ipv6_where_a_class_has_no_packets_of_ipv4() -> None:
    prefix, four, both, rest, six = found(
        {"source": "2001:db8::/32"},
        {"ip": 4, "protocol": "tcp"},
        {"source": ["10.0.0.0/8", "fd00::/8"]},
        {"ip": 4},
        "any",
    )
    versions = [each and each.version for each in (prefix, four, both, rest, six)]
    assert versions == [6, 4, 4, 4, 6]
    assert prefix is not None
    assert prefix.address(SOURCE, [IPv4Address("10.0.0.1")]) == IPv6Address("2001:db8::1")
    assert not found({"source": "10.0.0.0/8", "destination": "2001:db8::/32"})[0]


def test_the_reason_why_a_class_has_no_header() -> None:
    replies = {"protocol": "tcp", "source_port": 443}
    matches = {
        "group": {"destination": ["ff0e::/16", "224.0.0.0/4"]},
        "replies": replies,
        "web": {"protocol": "tcp"},
        "same": replies | {"dscp": "ef"},
        "shadowed": {"protocol": "tcp", "dscp": "ef"},
        "never": {"protocol": "icmp", "destination_port": 80},
        "rest": "any",
    }
    policy = {"classes": {name: {"match": match} for name, match in matches.items()}}
    without = [path for path, found in headers(policy).items() if found is None]
    assert {path[0]: unreachable(policy, path).split(",")[0] for path in without} == {
        "group": "no host can send the packets that it matches",
        "same": "earlier classes take all packets that it matches",
        "shadowed": "earlier classes take all packets that it matches",
        "never": "its conditions exclude each other",
    }


def test_source_ports_are_those_that_hosts_choose_if_a_class_matches_these() -> None:
    web, dns, high, other, rest = found(
        {"protocol": "tcp", "source_port": "1024-65535"},
        {"source_port": [53, "5353-5355"]},
        {"source_port": "50000-65535"},
        {"protocol": "udp"},
        "any",
    )
    ports = [each and each.box[SOURCE_PORT] for each in (web, dns, high, other, rest)]
    chosen, low = (EPHEMERAL_PORTS,), ((1, 52), (54, 5352), (5356, 49999))
    assert ports == [chosen, ((53, 53), (5353, 5355)), ((50000, 65535),), low, chosen]
    # Three classes take all packets from the ports that hosts choose, and a fourth one has others.
    *_, last = found(
        {"source_port": "50000-65535"},
        {"source_port": "1024-50000"},
        {"port": 7},
        {"protocol": "tcp", "source_port": "1000-65535"},
    )
    assert last is not None
    assert last.box[SOURCE_PORT] == ((1000, 1023),)


def test_an_exception_leaves_packets_to_later_classes() -> None:
    voice, rest, never = found(
        [{"except": {"source": "10.0.0.0/8"}}, {"dscp": "ef"}], {"dscp": "ef"}, {"dscp": 46}
    )
    assert voice is not None
    assert not voice.allows(SOURCE, 10 << 24)
    assert rest is not None
    assert rest.box[SOURCE] == ((10 << 24, (11 << 24) - 1),)
    assert never is None


def test_preferred_values_come_first() -> None:
    [first] = found({"dscp": ["cs1", "ef"], "destination_port": "5000-6000"})
    assert first is not None
    assert (first.first(DSCP, [0, 46]), first.first(DSCP), first.first(PORT, [7])) == (46, 8, 5000)
    assert first.address(SOURCE, [IPv4Address("192.0.2.1")]) == IPv4Address("192.0.2.1")


def test_the_search_ends() -> None:
    # Each class takes a code point of a prefix: the last one has a packet behind all of them.
    hosts = [{"source": f"10.{n // 100}.{n % 100}.0/24"} for n in range(200)]
    *_, last = found(*hosts, {"source": "10.0.0.0/8"}, "any")
    assert last is not None
    # No packet is left, which takes too long to find out.
    points = [
        {"dscp": n, "destination_port": f"{p}-{p + 1023}"}
        for n in range(8)
        for p in range(1, 65536, 1024)
    ]
    assert found(*points, {"dscp": list(range(8)), "protocol": "tcp"})[-1] is None
