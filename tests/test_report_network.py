"""The drawing of a network: what is where, and what it says."""

import csv
import io
import xml.etree.ElementTree as ElementTree
from importlib.resources import files
from itertools import combinations
from math import hypot

import pytest

from datasets import dataset, scavenger
from perhop import load, report, topologies
from perhop.report import named
from perhop.report.network import Network, network
from perhop.scenario import parse
from perhop.topologies import Topology


def drawn(name: str) -> Network:
    """The network of a template, without traffic."""
    text = files("perhop.templates").joinpath(f"{name}.yaml").read_text("utf-8")
    found = network(dataset(parse(text, name)))
    assert found is not None
    return found


def cross(one: Network, first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Whether two links without a common end cross."""
    if {*first} & {*second}:
        return False

    def side(a: str, b: str, c: str) -> float:
        (ax, ay), (bx, by), (cx, cy) = one.at[a], one.at[b], one.at[c]
        return (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)

    return (
        side(*first, second[0]) * side(*first, second[1]) < 0
        and side(*second, first[0]) * side(*second, first[1]) < 0
    )


@pytest.mark.parametrize(
    ("name", "crossings"),
    [("dumbbell", 0), ("parking-lot", 0), ("leaf-spine", 0), ("branch", 0), ("dsl", 0)],
)
def test_common_networks_have_no_crossings_and_no_nodes_over_each_other(
    name: str, crossings: int
) -> None:
    found = drawn(name)
    wires = [wire.ends for wire in found.wires]
    assert sum(cross(found, a, b) for a, b in combinations(wires, 2)) == crossings
    for (ax, ay), (bx, by) in combinations(found.at.values(), 2):
        assert abs(ax - bx) >= 100 or abs(ay - by) >= 60
    width, height = found.size
    assert all(0 < x < width and 0 < y < height for x, y in found.at.values())


def test_layers_run_from_senders_to_receivers() -> None:
    at = drawn("dumbbell").at
    columns = [
        {at[name][0] for name in names} for names in (("s1", "s2", "s3"), ("d1", "d2", "d3"))
    ]
    assert [len(column) for column in columns] == [1, 1]
    assert columns[0].pop() < at["left"][0] < at["right"][0] < columns[1].pop()
    chain = drawn("parking-lot").at
    assert len({chain[f"r{i}"][1] for i in range(1, 5)}) == 1


def test_each_direction_says_its_use() -> None:
    run = scavenger()
    found = network(run)
    assert found is not None
    root = ElementTree.fromstring(found.svg())
    titles = [element.text or "" for element in root.iter() if element.tag.endswith("title")]
    assert len(titles) == 2 * len(found.wires)
    (narrow,) = (title for title in titles if title.startswith("r1>r2"))
    busy = float(run.links.filter(link="r1>r2")["utilisation"].mean())  # type: ignore[arg-type]
    assert narrow == f"r1>r2: 10 Mb/s, {report.text.share(busy)} busy, 200 \N{MICRO SIGN}s"
    words = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert f"\N{RIGHTWARDS ARROW} {100 * busy:.0f}%  \N{LEFTWARDS ARROW} \N{EN DASH}" in words
    rows = list(csv.reader(io.StringIO(named.chart_file(run, "network", "csv").decode())))
    assert rows[0] == ["link", "rate", "delay", "use"]
    assert float({row[0]: row[3] for row in rows}["r1>r2"]) == pytest.approx(busy)
    assert named.chart_file(run, "network", "png").startswith(b"\x89PNG")


def test_routers_are_round_as_on_the_pages_of_labs_and_in_the_studio() -> None:
    small, many = drawn("dumbbell"), large(topologies.star(70, rate="1 Gbps"))
    assert many is not None
    boxes = [e for e in ElementTree.fromstring(small.svg()).iter() if e.tag.endswith("rect")][1:]
    kinds = ["router" if name in small.routers else "host" for name in small.at]
    assert [float(box.attrib["rx"]) > 10 for box in boxes] == [kind == "router" for kind in kinds]
    circles = [e for e in ElementTree.fromstring(many.svg()).iter() if e.tag.endswith("circle")]
    assert len(circles) == len(many.routers) == 1


def large(topology: Topology) -> Network | None:
    """A network without traffic."""
    return network(dataset(load({"perhop": 1, "name": "x", **topology, "duration": "1 s"})))


@pytest.mark.parametrize(
    "topology",
    [
        topologies.star(299, rate="1 Gbps"),
        topologies.leaf_spine(16, 4, 17, rate="1 Gbps"),
        topologies.parking_lot(90, rate="1 Gbps"),
    ],
    ids=["star", "leaf-spine", "chain"],
)
def test_large_networks_are_dots_apart_from_each_other(topology: Topology) -> None:
    found = large(topology)
    assert found is not None
    assert found.at.keys() == topology["nodes"].keys()
    width, height = found.size
    assert width < 1300
    assert all(0 < x < width and 0 < y < height for x, y in found.at.values())
    assert min(hypot(a - c, b - d) for (a, b), (c, d) in combinations(found.at.values(), 2)) > 9
    drawing = found.svg()
    assert len(drawing) < 60_000
    root = ElementTree.fromstring(drawing)
    titles = [element.text or "" for element in root.iter() if element.tag.endswith("title")]
    assert {*found.at} <= {*titles}
    assert len(titles) == len(found.at) + len(found.wires)


def test_the_largest_networks_are_not_drawn() -> None:
    assert large(topologies.star(300, rate="1 Gbps")) is None
