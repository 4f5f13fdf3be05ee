"""The calendar's first choice of path is one of those that packets take."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import SLOW
from perhop._core import Calendar, CalendarLink, HostPair, PathConstraints, Topology

Network = tuple[list[bool], list[tuple[int, int, int]]]
"""For each node, true for a router; and links: two nodes, and a delay in nanoseconds."""


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Draw a network in which no two links join the same nodes."""
    routers = draw(st.lists(st.booleans(), min_size=2, max_size=7))
    node = st.integers(0, len(routers) - 1)
    ends = st.tuples(node, node).filter(lambda each: each[0] < each[1])
    drawn = draw(st.dictionaries(ends, st.integers(0, 3), min_size=1, max_size=12))
    return routers, [(a, b, delay) for (a, b), delay in drawn.items()]


@SLOW
@given(networks())
@settings(max_examples=300)
def test_a_link_names_hosts_whose_shortest_path_it_is_on(network: Network) -> None:
    """Ties go to the link of the lowest number; the page shows `host_pairs`."""
    routers, links = network
    directions = [pair for a, b, delay in links for pair in ((a, b, delay), (b, a, delay))]
    hosts = [node for node, router in enumerate(routers) if not router]
    calendar = Calendar(0, [CalendarLink(a, b, delay, 1, []) for a, b, delay in directions])
    topology = Topology(routers, [(a, b, 1000 * delay, 1000 * delay) for a, b, delay in links])
    expected: list[HostPair | None] = [None] * len(directions)
    for source, target in permutations(hosts, 2):
        others = [host for host in hosts if host not in (source, target)]
        found = calendar.paths((source, target), None, 0, 1, 0, PathConstraints(others), 1)
        ways = topology.next_hops(target)
        for link in found[0].links if found else ():
            assert link == min(ways[directions[link][0]])
            expected[link] = expected[link] or HostPair(source, target)
    assert calendar.host_pairs(hosts) == expected
