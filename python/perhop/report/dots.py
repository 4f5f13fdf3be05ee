"""Networks of many nodes: dots, with hosts in rings around their router."""

from __future__ import annotations

from collections import defaultdict
from math import cos, hypot, pi, sin
from typing import TYPE_CHECKING, Final

from perhop.report import text
from perhop.report.html import Html, element
from perhop.report.style import INK
from perhop.report.wires import colour_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perhop.report.wires import Point, Way, Wire

__all__ = ["dots", "spread"]

_RING: Final = 13.0
"""The distance between two rings of hosts, and about that between hosts."""

_FIRST: Final = 22.0
_ACROSS: Final = 64.0
"""The room between two columns, in which links between routers are seen."""

_BESIDE: Final = 20.0
"""The room between two routers of a column, for the name of the lower one."""

_NAME: Final = 14.0
_WIDEST: Final = 1000.0
"""The width after which columns go on below."""

_TALL: Final = 900.0
"""The greatest height of a column; a higher one is divided."""

_MARGIN: Final = 24.0
_NAMED: Final = 3
"""The fewest links of a router that has its name beside it, if there is room."""


def spread(
    grid: Mapping[str, Point], leaves: Mapping[str, str]
) -> tuple[dict[str, Point], tuple[float, float]]:
    """Return the place of each node in pixels, and the size of the drawing.

    Columns that are too many for the width go on below, every other time from right to left.

    Args:
        grid: Column and row of each node but the leaves.
        leaves: The node that each leaf is linked to.
    """
    around: dict[str, list[str]] = {node: [] for node in grid}
    for leaf, node in leaves.items():
        around[node].append(leaf)
    rings = {node: [*_rings(len(each))] for node, each in around.items()}
    radius = {
        node: max((hypot(*place) for place in each), default=3.0) + 5
        for node, each in rings.items()
    }
    bands = _bands(grid, radius)
    width = max(place[0] for band in bands for place in band.values())
    at: dict[str, Point] = {}
    bottom = _MARGIN
    for number, band in enumerate(bands):
        top = min(y - radius[node] - _NAME for node, (_, y) in band.items())
        for node, (x, y) in band.items():
            at[node] = (width - x if number % 2 else x), bottom + y - top
        bottom = max(at[node][1] + radius[node] for node in band) + _MARGIN
    for node, each in around.items():
        x, y = at[node]
        at |= {leaf: (x + a, y + b) for leaf, (a, b) in zip(each, rings[node], strict=True)}
    left = min(x for x, _ in at.values()) - _MARGIN
    at = {node: (x - left, y) for node, (x, y) in at.items()}
    return at, (max(x for x, _ in at.values()) + _MARGIN, bottom)


def _bands(grid: Mapping[str, Point], radius: Mapping[str, float]) -> list[dict[str, Point]]:
    """Return the places of the nodes of columns side by side, for each band of columns."""
    columns: dict[float, list[str]] = defaultdict(list)
    for node, (column, _) in grid.items():
        columns[column].append(node)
    bands: list[dict[str, Point]] = [{}]
    right = 0.0
    for column in sorted(columns):
        if right > _WIDEST:
            bands.append({})
            right = 0.0
        ordered = sorted(columns[column], key=lambda node: grid[node][1])
        parts = 1 + int(sum(2 * radius[node] + _BESIDE for node in ordered) // _TALL)
        for part in range(parts):
            own = ordered[part::parts]
            half = max(radius[node] for node in own)
            x = right + half
            y = -sum(2 * radius[node] + _BESIDE for node in own) / 2
            for node in own:
                bands[-1][node] = x, y + radius[node]
                y += 2 * radius[node] + _BESIDE
            right = x + half + 2 * _BESIDE
        right += _ACROSS - 2 * _BESIDE
    return bands


def _rings(hosts: int) -> Iterator[Point]:
    """Yield places around a router, from the inside."""
    ring = 0
    while hosts > 0:
        radius = _FIRST + ring * _RING
        many = min(hosts, int(2 * pi * radius / _RING))
        for place in range(many):
            turn = 2 * pi * (place + 0.5 * (ring % 2)) / many
            yield radius * cos(turn), radius * sin(turn)
        hosts -= many
        ring += 1


def dots(at: Mapping[str, Point], routers: frozenset[str], wires: Sequence[Wire]) -> Iterator[Html]:
    """Yield links and nodes; their names and figures are titles, which a pointer shows.

    Args:
        at: The place of each node.
        routers: The nodes that forward.
        wires: The links.
    """
    near: dict[str, list[str]] = defaultdict(list)
    for wire in wires:
        for end, other in (wire.ends, wire.ends[::-1]):
            near[end].append(other)
    idle = [wire for wire in wires if not any(way.use for way in wire.ways)]
    busy = [wire for wire in wires if any(way.use for way in wire.ways)]
    yield element("g", *(_line(at, wire) for wire in idle), stroke=colour_of(None))
    yield from (_line(at, wire) for wire in busy)
    nodes = (_node(name, place, router=name in routers) for name, place in at.items())
    yield element("g", *nodes, fill="#F5F5F5", stroke=INK)
    words: list[Point] = []
    for name, others in near.items():
        hosts = [each for each in others if len(near[each]) == 1 and each not in routers]
        x, y = at[name]
        y = min([y - 8, *(at[host][1] - 6 for host in hosts)]) - 3
        apart = (abs(a - x) > 8 * len(name) or abs(b - y) > 12 for a, b in words)
        if len(others) >= _NAMED and name in routers and all(apart):
            words.append((x, y))
            yield _word(x, y, name)


def _node(name: str, place: Point, *, router: bool) -> Html:
    x, y = place
    title = element("title", name)
    if not router:
        return element("path", title, d=f"M{x - 4:.0f} {y - 4:.0f}h8v8h-8z")
    return element("circle", title, cx=f"{x:.0f}", cy=f"{y:.0f}", r="6")


def _line(at: Mapping[str, Point], wire: Wire) -> Html:
    """Return a link, as busy as its busier direction."""
    one, two = (at[end] for end in wire.ends)
    use = max((way.use or 0.0 for way in wire.ways), default=0.0)
    said = ", ".join(filter(None, (wire.rate, wire.delay, *map(_use, wire.ways))))
    return element(
        "path",
        element("title", said),
        d=f"M{one[0]:.0f} {one[1]:.0f}L{two[0]:.0f} {two[1]:.0f}",
        **({"stroke": colour_of(use), "stroke_width": f"{1 + 3 * use:.1f}"} if use else {}),
    )


def _use(way: Way) -> str:
    return f"{way.name} {text.share(way.use)} busy"


def _word(x: float, y: float, words: str) -> Html:
    halo = {"class_": "halo", "paint_order": "stroke", "stroke": "white", "stroke_width": "3"}
    place = {"x": f"{x:.0f}", "y": f"{y:.0f}", "text_anchor": "middle"}
    return element("text", words, **place, font_size="11", fill=INK, **halo)
