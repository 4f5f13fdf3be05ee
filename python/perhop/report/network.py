"""The network of a run as a drawing, with the use of each link."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perhop import analysis
from perhop.layout import places
from perhop.report import text
from perhop.report.dots import dots, spread
from perhop.report.html import Html, element, join
from perhop.report.style import INK
from perhop.report.wires import Point, Way, Wire, colour_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from perhop.dataset import Dataset
    from perhop.scenario import Scenario

__all__ = ["MOST_NAMED", "MOST_NODES", "Network", "network", "scattered"]

MOST_NODES: Final = 300
"""Greatest number of nodes that are drawn; of links it is twice that."""

MOST_NAMED: Final = 60
"""Greatest number of nodes with their names; more are dots."""

_COLUMN: Final = 250
_ROW: Final = 78
_BOX: Final = 30
_FONT: Final = 12
_CHARACTER: Final = 0.6 * _FONT
_APART: Final = 5
_SPOTS: Final = (0.5, 0.34, 0.66, 0.24, 0.76)
"""Where along a link its words may stand, best first."""


@dataclass(frozen=True, slots=True)
class Network:
    """A drawing of a network.

    Attributes:
        at: The place of each node in pixels.
        routers: The nodes that forward.
        wires: The links.
        size: Width and height in pixels.
        dotted: Whether nodes are dots, whose names a pointer shows.
    """

    at: Mapping[str, Point]
    routers: frozenset[str]
    wires: Sequence[Wire]
    size: Point
    dotted: bool = False

    def rows(self) -> list[tuple[str, str, str, float | None]]:
        """Return the name, rate, delay and use of each direction."""
        return [(way.name, w.rate, w.delay, way.use) for w in self.wires for way in w.ways]

    @property
    def description(self) -> str:
        """The size of the network and its busiest direction, in words."""
        used = [way for wire in self.wires for way in wire.ways if way.use]
        busiest = max(used, key=lambda way: way.use or 0.0, default=None)
        said = f"Network of {len(self.at)} nodes and {len(self.wires)} links"
        if busiest:
            said += f"; the busiest direction is {busiest.name}, {text.share(busiest.use)}"
        return said

    def svg(self) -> Html:
        """Return the drawing as SVG."""
        width, height = self.size
        return element(
            "svg",
            element("rect", width="100%", height="100%", fill="white", class_="paper"),
            *(dots(self.at, self.routers, self.wires) if self.dotted else self._named()),
            xmlns="http://www.w3.org/2000/svg",
            width=f"{width:g}",
            height=f"{height:g}",
            viewBox=f"0 0 {width:g} {height:g}",
            role="img",
            aria_label=self.description,
            font_family="Helvetica, Arial, Liberation Sans, sans-serif",
            font_size=str(_FONT),
        )

    def _named(self) -> Iterator[Html]:
        """Yield links, and nodes with their names."""
        yield from self._lines()
        yield from self._words()
        yield from (self._node(name, place) for name, place in self.at.items())

    def _lines(self) -> list[Html]:
        """Return a line for each direction, beside each other, as wide as it is busy."""
        found = []
        for wire, (one, two) in self._placed():
            across = _normal(one, two)
            for side, way in zip((-1, 1), wire.ways, strict=True):
                offset = [side * 0.45 * _APART * part for part in across]
                ends = [
                    one[0] + offset[0],
                    one[1] + offset[1],
                    two[0] + offset[0],
                    two[1] + offset[1],
                ]
                colour = colour_of(way.use)
                places = dict(
                    zip(("x1", "y1", "x2", "y2"), (f"{v:.1f}" for v in ends), strict=True)
                )
                label = f"{way.name}: {wire.rate}, {text.share(way.use)} busy"
                found.append(
                    element(
                        "line",
                        element("title", f"{label}, {wire.delay}" if wire.delay else label),
                        **places,
                        stroke=colour,
                        stroke_width=f"{1.5 + 5 * (way.use or 0):.1f}",
                    )
                )
        return found

    def _words(self) -> list[Html]:
        """Return the rate and the use of each link, where they cover nothing else."""
        taken = [
            (x, y, len(name) * _CHARACTER + 16, float(_BOX)) for name, (x, y) in self.at.items()
        ]
        found = []
        for wire, (one, two) in self._placed():
            left = one[0] <= two[0]
            there, back = wire.ways if left else wire.ways[::-1]
            lines = [wire.rate]
            if there.use is not None or back.use is not None:
                arrows = ("\N{RIGHTWARDS ARROW}", there), ("\N{LEFTWARDS ARROW}", back)
                lines.append("  ".join(f"{arrow} {_percent(way.use)}" for arrow, way in arrows))
            size = (max(map(len, lines)) * _CHARACTER, 2.2 * _FONT)
            for spot in _SPOTS:
                x, y = (a + spot * (b - a) for a, b in zip(one, two, strict=True))
                box = (x, y, *size)
                if not any(_overlap(box, other) for other in taken):
                    break
            else:
                continue  # the line itself says it to a pointer
            taken.append(box)
            for number, line in enumerate(lines):
                found.append(_word(x, y - 6 + number * 18, line, size="11"))
        return found

    def _placed(self) -> list[tuple[Wire, tuple[Point, Point]]]:
        """Return the wires with the places of their ends; parallel ones are apart."""
        several: dict[frozenset[str], list[Wire]] = defaultdict(list)
        for wire in self.wires:
            several[frozenset(wire.ends)].append(wire)
        found = []
        for wires in several.values():
            for number, wire in enumerate(wires):
                one, two = (self.at[end] for end in wire.ends)
                across = _normal(*sorted((one, two)))
                by = (number - (len(wires) - 1) / 2) * 2.6 * _FONT
                shifted = [(x + by * across[0], y + by * across[1]) for x, y in (one, two)]
                found.append((wire, (shifted[0], shifted[1])))
        return found

    def _node(self, name: str, place: Point) -> Html:
        x, y = place
        width = max(34.0, len(name) * _CHARACTER + 14)
        box = element(
            "rect",
            x=f"{x - width / 2:.1f}",
            y=f"{y - _BOX / 2:.1f}",
            width=f"{width:.1f}",
            height=str(_BOX),
            rx=str(_BOX // 2) if name in self.routers else "4",
            fill="#F5F5F5",
            stroke=INK,
            stroke_width="1.8" if name in self.routers else "1",
        )
        return join(box, _word(x, y + 4, name, halo=False))


def network(dataset: Dataset) -> Network | None:
    """Return the network of a run with the use of each link; None if it is too large or too small.

    Hosts of background traffic are left out.
    """
    scenario = dataset.scenario
    hidden = scenario.background_hosts
    nodes = [name for name in scenario.nodes if name not in hidden]
    loads = dict(analysis.link_loads(dataset).select("link", "utilisation").iter_rows())
    names = list(scenario.directions)
    wires = []
    for number, link in enumerate(scenario.links):
        if not hidden.isdisjoint(link.ends):
            continue
        ways = [Way(name, loads.get(name)) for name in names[2 * number : 2 * number + 2]]
        rates = dict.fromkeys(text.stated(link.capacity(end), "bps") for end in link.ends)
        delays = dict.fromkeys(
            text.duration(medium.delay / 1e12) for medium in link.media if medium.delay
        )
        wires.append(Wire(link.ends, " / ".join(rates), " / ".join(delays), (ways[0], ways[1])))
    if not wires or len(nodes) > MOST_NODES or len(wires) > 2 * MOST_NODES:
        return None
    routers = frozenset(name for name in nodes if scenario.nodes[name].kind == "router")
    links = [wire.ends for wire in wires]
    if len(nodes) > MOST_NAMED:
        at, size = scattered(scenario, nodes, links)
        return Network(at, routers, wires, size, dotted=True)
    grid = _grid(scenario, nodes, links)
    left, top = (min(place[axis] for place in grid.values()) for axis in (0, 1))
    margin = max(len(name) for name in nodes) * _CHARACTER / 2 + 20
    at = {
        name: (margin + (column - left) * _COLUMN, 30 + (row - top) * _ROW)
        for name, (column, row) in grid.items()
    }
    size = (max(x for x, _ in at.values()) + margin, max(y for _, y in at.values()) + 30)
    return Network(at, routers, wires, size)


def scattered(
    scenario: Scenario, nodes: list[str], links: list[tuple[str, str]]
) -> tuple[dict[str, Point], Point]:
    """Return the places of many nodes, which are drawn as dots, and the size of the drawing."""
    leaves, grid = _core(scenario, nodes, links)
    return spread(grid, leaves)


def _core(
    scenario: Scenario, nodes: list[str], links: list[tuple[str, str]]
) -> tuple[dict[str, str], dict[str, Point]]:
    """Return the hosts with one link, with their routers, and column and row of all other nodes."""
    near: dict[str, list[str]] = {node: [] for node in nodes}
    for one, two in links:
        near[one].append(two)
        near[two].append(one)
    leaves = {
        node: others[0]
        for node, others in near.items()
        if scenario.nodes[node].kind == "host" and len(others) == 1 and len(near[others[0]]) > 1
    }
    core = [node for node in nodes if node not in leaves]
    inner = [ends for ends in links if leaves.keys().isdisjoint(ends)]
    if not core:
        return {}, places(nodes, links)
    return leaves, _forward(scenario, places(core, inner), leaves)


def _grid(scenario: Scenario, nodes: list[str], links: list[tuple[str, str]]) -> dict[str, Point]:
    """Return the column and row of each node.

    Hosts with one link stand on the outer side of their router, or above and below it if that is
    inside of the network; all others by their distance from an edge.
    """
    leaves, grid = _core(scenario, nodes, links)
    last = max(column for column, _ in grid.values())
    senders = {flow.source for flow in scenario.flows.values()}
    sides: dict[float, list[str]] = defaultdict(list)
    inside: dict[str, list[str]] = defaultdict(list)
    for leaf in sorted(leaves, key=lambda leaf: grid[leaves[leaf]][1]):
        column = grid[leaves[leaf]][0]
        if last == 0:
            sides[-1.0 if leaf in senders else 1.0].append(leaf)
        elif column in (0, last):
            sides[-1.0 if column == 0 else last + 1].append(leaf)
        else:
            inside[leaves[leaf]].append(leaf)
    for column, stacked in sides.items():
        grid |= {leaf: (column, row) for leaf, row in _stack(stacked)}
    for router, hosts in inside.items():
        column = grid[router][0]
        rows = [place[1] for place in grid.values() if place[0] == column]
        for number, host in enumerate(hosts):
            pair = number // 2 - (len(hosts) - 1) // 2 / 2
            beyond = max(rows) + 1 if number % 2 else min(rows) - 1
            grid[host] = (column + 0.5 * pair, beyond)
    return grid


def _forward(
    scenario: Scenario, grid: dict[str, Point], leaves: Mapping[str, str]
) -> dict[str, Point]:
    """Turn the columns if most flows would go from right to left."""

    def column(node: str) -> float:
        return grid[leaves.get(node, node)][0] if leaves.get(node, node) in grid else 0.0

    ahead = sum(column(flow.destination) - column(flow.source) for flow in scenario.flows.values())
    if ahead >= 0:
        return grid
    last = max(place[0] for place in grid.values())
    return {node: (last - place[0], place[1]) for node, place in grid.items()}


def _percent(use: float | None) -> str:
    """Return a share without decimals: `98%`, or `<1%`."""
    if use is None:
        return text.ABSENT
    return "<1%" if 0 < use < 0.005 else f"{100 * use:.0f}%"


def _stack(hosts: Sequence[str]) -> Iterable[tuple[str, float]]:
    return ((host, row - (len(hosts) - 1) / 2) for row, host in enumerate(hosts))


def _normal(one: Point, two: Point) -> Point:
    """Return the vector of length 1 across a line."""
    x, y = two[0] - one[0], two[1] - one[1]
    length = (x * x + y * y) ** 0.5 or 1.0
    return -y / length, x / length


def _overlap(one: tuple[float, ...], two: tuple[float, ...]) -> bool:
    """Return whether two boxes, each a middle and a size, overlap."""
    return abs(one[0] - two[0]) * 2 < one[2] + two[2] and abs(one[1] - two[1]) * 2 < one[3] + two[3]


def _word(x: float, y: float, words: str, *, halo: bool = True, size: str = "12") -> Html:
    look: dict[str, Any] = {"class_": "halo", "paint_order": "stroke", "stroke_width": "3"}
    return element(
        "text",
        words,
        x=f"{x:.1f}",
        y=f"{y:.1f}",
        text_anchor="middle",
        font_size=size,
        fill=INK,
        **({**look, "stroke": "white"} if halo else {}),
    )
