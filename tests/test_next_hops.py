"""The paths that packets take: the same for every engine, and the shortest there are."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

import perhop
from conftest import SLOW
from perhop.linux.mapping import mapping
from perhop.scenario.resolve import NextHops, next_hops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario import Scenario

Links = list[tuple[int, int, int]]
"""Two nodes, and a delay in milliseconds."""


@st.composite
def networks(draw: st.DrawFn) -> tuple[str, Links, set[int]]:
    """Draw the kinds of nodes, `h` or `r`, the links between them, and those that are down."""
    kinds = draw(st.text("hr", min_size=2, max_size=6))
    ends = st.lists(st.integers(0, len(kinds) - 1), min_size=2, max_size=2, unique=True)
    link = st.tuples(ends, st.integers(0, 3)).map(lambda each: (*each[0], each[1]))
    links = draw(st.lists(link, min_size=1, max_size=9))
    down = draw(st.sets(st.integers(0, len(links) - 1), max_size=3))
    return kinds, links, down


def scenario(kinds: str, links: Links) -> Scenario:
    nodes = ", ".join(
        f"n{number}: {'host' if kind == 'h' else 'router'}" for number, kind in enumerate(kinds)
    )
    listed = ", ".join(
        f"{{name: l{number}, ends: [n{a}, n{b}], rate: 1 Mbps, delay: {delay} ms}}"
        for number, (a, b, delay) in enumerate(links)
    )
    return perhop.parse(f"perhop: 1\nname: ways\nnodes: {{{nodes}}}\nlinks: [{listed}]\n")


def shortest(kinds: str, links: Links, down: set[int], start: int, end: int) -> list[int]:
    """Return the directions that shortest paths begin with, by trying every path."""
    nearest: dict[tuple[int, int], int] = {}
    exits: dict[int, list[tuple[int, int]]] = {node: [] for node in range(len(kinds))}
    for number, (a, b, delay) in enumerate(links):
        if number not in down:
            for one, other, port in ((a, b, 2 * number), (b, a, 2 * number + 1)):
                exits[one].append((other, port))
                nearest[one, other] = min(delay, nearest.get((one, other), delay))

    def lengths(node: int, seen: frozenset[int]) -> Iterator[tuple[int, int]]:
        if node == end:
            yield (0, 0)
        elif kinds[node] == "r" or node == start:
            for other in {other for other, _ in exits[node]} - seen:
                for hops, delay in lengths(other, seen | {other}):
                    yield (hops + 1, delay + nearest[node, other])

    through: dict[int, tuple[int, int]] = {}
    for other, port in exits[start]:
        if other == end or kinds[other] == "r":
            rest = min(lengths(other, frozenset({start, other})), default=None)
            if rest is not None:
                through[port] = (rest[0] + 1, rest[1] + nearest[start, other])
    if not through and kinds[start] == "h":
        # A host that knows no way asks the router on its first link.
        return [port for other, port in exits[start] if kinds[other] == "r"][:1]
    return [port for port, length in through.items() if length == min(through.values())]


@SLOW
@given(networks())
@settings(max_examples=200)
def test_packets_take_the_shortest_ways_and_all_of_them(
    network: tuple[str, Links, set[int]],
) -> None:
    kinds, links, down = network
    drawn = scenario(kinds, links)
    names = list(drawn.directions)
    expected: NextHops = {f"n{node}": {} for node in range(len(kinds))}
    for start in range(len(kinds)):
        for end in set(range(len(kinds))) - {start}:
            ports = shortest(kinds, links, down, start, end)
            if ports:
                expected[f"n{start}"][f"n{end}"] = tuple(names[port] for port in ports)
    assert next_hops(drawn, down) == expected


@given(networks())
@settings(max_examples=50)
def test_routes_of_linux_are_these_ways(network: tuple[str, Links, set[int]]) -> None:
    kinds, links, _ = network
    drawn = scenario(kinds, links)
    found = mapping(drawn)
    devices = {(each.node, each.device): each.direction for each in found.interfaces.values()}
    nodes = {f"{address}/32": node for node, address in drawn.addresses.items()}
    for node, expected in next_hops(drawn).items():
        routes = {}
        for line in found.ip[node]:
            words = line.split()
            leads = tuple(devices[node, word] for key, word in pairwise(words) if key == "dev")
            routes[nodes[words[2]]] = leads
        assert routes == expected
