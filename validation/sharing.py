"""Shares of trees of classes, and of flows across networks."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

import perhop
from perhop import analysis
from perhop.scenario import Scenario
from validation.table import Row, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LINK = 100_000_000
"""The rate of the divided link, in bits per second."""

SIZE = 500
"""IP bytes of a packet."""


# Trees of classes


@dataclass
class ShareClass:
    """A class: what it is guaranteed, its ceiling, its priority, what is offered to a leaf."""

    guarantee: int
    ceiling: int | None
    priority: int
    load: int
    children: list[ShareClass] = field(default_factory=list)


def tree(dice: random.Random, guarantee: int, depth: int) -> ShareClass:
    """A random class with this guarantee, and those below it."""
    ceiling = guarantee * dice.randint(100, 300) // 100 if dice.random() < 0.3 else None
    node = ShareClass(guarantee, ceiling, dice.randint(0, 2), LINK * dice.randint(0, 120) // 100)
    if depth > 0 and dice.random() < 0.7:
        parts = [dice.randint(1, 8) for _ in range(dice.randint(2, 4))]
        for part in parts:
            kilobits = (guarantee // 1000 - 1) * part // sum(parts)
            node.children.append(tree(dice, kilobits * 1000, depth - 1))
    return node


def demand(node: ShareClass) -> float:
    """Return the greatest rate that a class can use."""
    wanted = sum(map(demand, node.children)) if node.children else node.load
    return wanted if node.ceiling is None else min(wanted, node.ceiling)


def fill(rate: float, weights: Sequence[float], wanted: Sequence[float]) -> list[float]:
    """Water filling: `rate` in proportion to `weights`, with at most `wanted` for each."""
    got = [0.0] * len(weights)
    while rate > 1e-6:
        open_ = [i for i in range(len(weights)) if wanted[i] - got[i] > 1e-6]
        if not open_:
            break
        total = sum(weights[i] for i in open_)
        level = min([rate / total, *((wanted[i] - got[i]) / weights[i] for i in open_)])
        for i in open_:
            got[i] += level * weights[i]
        rate -= level * total
    return got


def reference(node: ShareClass, rate: float) -> list[float]:
    """Return the share of each leaf of `rate`: guarantees first, then by priority and guarantee."""
    if not node.children:
        return [rate]
    weights = [float(child.guarantee) for child in node.children]
    wanted = [demand(child) for child in node.children]
    got = fill(rate, weights, [min(w, d) for w, d in zip(weights, wanted, strict=True)])
    for priority in range(8):
        more = [
            wanted[i] - got[i] if child.priority == priority else 0.0
            for i, child in enumerate(node.children)
        ]
        extra = fill(rate - sum(got), weights, more)
        got = [a + b for a, b in zip(got, extra, strict=True)]
    return [
        share
        for child, part in zip(node.children, got, strict=True)
        for share in reference(child, part)
    ]


def classes(node: ShareClass, ports: Iterator[int]) -> tuple[dict[str, Any], list[int]]:
    """The classes below a node as a scenario says them, and their leaves' ports."""
    found: dict[str, Any] = {}
    all_ports: list[int] = []
    for index, child in enumerate(node.children):
        part: dict[str, Any] = {
            "bandwidth": f"{child.guarantee // 1000} kbps",
            "priority": child.priority,
        }
        if child.ceiling is not None:
            part["limit"] = f"{max(child.ceiling // 1000, child.guarantee // 1000)} kbps"
        if child.children:
            part["classes"], own = classes(child, ports)
            part["classes"]["rest"] = {"match": "any", "unused": True, "bandwidth": "1 bps"}
        else:
            own = [next(ports)]
            part["queue"] = {"limit": "50 packets"}
        found[f"c{index}"] = {"match": {"port": own}, "unused": True, **part}
        all_ports += own
    return found, all_ports


def loads(node: ShareClass) -> list[int]:
    """Return the load of each leaf."""
    if not node.children:
        return [node.load // 1000 * 1000]
    return [load for child in node.children for load in loads(child)]


def tree_error(seed: int) -> tuple[int, float]:
    """Return the number of leaves of a random tree, and the largest difference from the reference.

    As a share of what the leaf should get; where that is little, of a hundredth of the link.
    """
    dice = random.Random(seed)
    root = tree(dice, LINK, 3)
    while len(loads(root)) < 3:
        root = tree(dice, LINK, 3)
    root.ceiling = None
    found, ports = classes(root, iter(range(7000, 8000)))
    offered = dict(zip(ports, loads(root), strict=True))
    scenario = Scenario.model_validate(
        {
            "perhop": 1,
            "name": "tree",
            "nodes": {"a": "host", "r": "router", "b": "host"},
            "links": [
                {"ends": ["a", "r"], "rate": "100 Gbps"},
                {"ends": ["r", "b"], "rate": "100 Mbps", "egress": {"r": "edge"}},
            ],
            "policies": {
                "edge": {
                    "scheduler": "link-sharing",
                    "classes": {
                        **found,
                        "rest": {"match": "any", "unused": True, "bandwidth": "1 bps"},
                    },
                }
            },
            "flows": {
                f"f{port}": {
                    "from": "a",
                    "to": "b",
                    "port": port,
                    "start": f"{port - 7000} us",
                    "udp": {"rate": f"{load} bps", "size": f"{SIZE} B", "layer": "ip"},
                }
                for port, load in offered.items()
                if load > 0
            },
            "duration": "6 s",
            "published": [
                {"label": "all", "throughput": "total", "during": "1 s..6 s", "value": "1 bps"}
            ],
        }
    )
    shares = dict(zip(ports, reference(root, min(demand(root), LINK)), strict=True))
    dataset = perhop.run(scenario)
    worst = 0.0
    for port, share in shares.items():
        if offered[port] == 0:
            continue
        rate = analysis.throughput(dataset, f"f{port}", (1.0, 6.0))
        assert rate is not None
        got = rate * SIZE / (SIZE - 28)
        worst = max(worst, abs(got - share) / max(share, LINK / 100))
    return len(shares), worst


def trees() -> Iterator[Row]:
    """A row for each tree."""
    for seed in range(1, 13):
        leaves, worst = tree_error(seed)
        yield Row(f"tree {seed}, {leaves} leaves", 1.0, 1.0 + worst, 0.01)


# Flows across networks


def max_min(paths: list[list[int]], capacity: list[float]) -> list[float]:
    """Max-min fair rates of flows over links (D. Bertsekas and R. Gallager, *Data Networks*)."""
    rate: list[float | None] = [None] * len(paths)
    left = list(capacity)
    while None in rate:
        users = [
            [f for f, path in enumerate(paths) if link in path and rate[f] is None]
            for link in range(len(capacity))
        ]
        level, tight = min(
            (left[link] / len(those), link) for link, those in enumerate(users) if those
        )
        for flow in users[tight]:
            rate[flow] = level
            for link in paths[flow]:
                left[link] -= level
    return [value for value in rate if value is not None]


def fair_error(seed: int) -> tuple[int, int, float]:
    """Links, flows, and the largest difference of a flow's rate from its max-min fair share.

    A random tree of routers, whose links share by weighted fair queues, one for each flow; flows of
    TCP between random pairs of routers.
    """
    dice = random.Random(seed)
    routers = dice.randint(4, 7)
    parents = [dice.randrange(router) for router in range(1, routers)]
    megabits = [dice.randint(10, 40) for _ in parents]
    pairs = [dice.sample(range(routers), 2) for _ in range(dice.randint(4, 9))]

    def up(router: int) -> list[int]:
        return [router] if router == 0 else [router, *up(parents[router - 1])]

    def path(a: int, b: int) -> list[int]:
        """Directions of links: 2 · link towards the root, one more away from it."""
        there, back = up(a), up(b)
        common = next(router for router in there if router in back)
        rising = [2 * (router - 1) for router in there[: there.index(common)]]
        falling = [2 * (router - 1) + 1 for router in back[: back.index(common)]]
        return rising + falling[::-1]

    policy = {
        "classes": {
            **{
                f"f{i}": {
                    "match": {"destination_port": 7000 + i},
                    "unused": True,
                    "bandwidth": "10%",
                    "queue": {"limit": "100 packets"},
                }
                for i in range(len(pairs))
            },
            "acks": {"match": "any", "bandwidth": "10%"},
        }
    }
    nodes: dict[str, str] = {f"r{i}": "router" for i in range(routers)}
    links: list[dict[str, Any]] = [
        {
            "ends": [f"r{router}", f"r{parent}"],
            "rate": f"{megabits[router - 1]} Mbps",
            "delay": "2 ms",
            "egress": {f"r{router}": "fair", f"r{parent}": "fair"},
        }
        for router, parent in enumerate(parents, start=1)
    ]
    flows = {}
    for i, (a, b) in enumerate(pairs):
        nodes |= {f"s{i}": "host", f"d{i}": "host"}
        links += [
            {"ends": [f"s{i}", f"r{a}"], "rate": "1 Gbps"},
            {"ends": [f"r{b}", f"d{i}"], "rate": "1 Gbps"},
        ]
        flows[f"f{i}"] = {
            "from": f"s{i}",
            "to": f"d{i}",
            "port": 7000 + i,
            "tcp": {"congestion_control": "reno"},
        }
    scenario = Scenario.model_validate(
        {
            "perhop": 1,
            "name": "max-min",
            "nodes": nodes,
            "links": links,
            "policies": {"fair": policy},
            "flows": flows,
            "duration": "60 s",
            "published": [
                {"label": "all", "throughput": "total", "during": "20 s..60 s", "value": "1 bps"}
            ],
        }
    )
    dataset = perhop.run(scenario)
    late = dataset.queues.filter(pl.col("start_s") >= 20.0)

    def sent(link: str, part: str) -> float:
        rows = late.filter((pl.col("link") == link) & (pl.col("class") == part))
        return float(rows["sent_bytes"].sum()) * 8 / 40.0

    # Acknowledgements have a class of their own. What they leave is shared.
    capacity = []
    for router, parent in enumerate(parents, start=1):
        for link in (f"r{router}>r{parent}", f"r{parent}>r{router}"):
            capacity.append(megabits[router - 1] * 1e6 - sent(link, "acks"))
    expected = max_min([path(a, b) for a, b in pairs], capacity)
    worst = 0.0
    for i, share in enumerate(expected):
        worst = max(worst, abs(sent(f"r{pairs[i][1]}>d{i}", "all") / share - 1))
    return len(parents), len(pairs), worst


def networks() -> Iterator[Row]:
    """A row for each network."""
    for seed in range(1, 11):
        links, flows, worst = fair_error(seed)
        yield Row(f"network {seed}, {links} links, {flows} flows", 1.0, 1.0 + worst, 0.01)


LINK_SHARING = Table(
    name="link-sharing",
    title="Shares of random trees of classes",
    unit="1 is the share",
    source="Guarantees first, then water filling by priority (S. Floyd and V. Jacobson, "
    "*Link-sharing and Resource Management Models for Packet Networks*, ToN 3(4), 1995)",
    notes="Trees of up to three levels with guarantees, ceilings and priorities, constant loads on "
    "their leaves, 500-byte packets over 100 Mb/s for 5 s. Shown is the leaf that is farthest from "
    "its share; where that is below 1% of the link, by 1% of the link.",
    rows=trees,
    quick=False,
)

MAX_MIN = Table(
    name="max-min",
    title="Rates of flows across random networks",
    unit="1 is the max-min fair share",
    source="D. Bertsekas and R. Gallager, *Data Networks*, section 6.5.2, 1992",
    notes="Trees of routers whose links have a weighted fair queue for each flow; TCP Reno between "
    "random routers. What acknowledgements take of a link is not shared. Shown is the flow that is "
    "farthest from its share, in IP bytes over 40 s.",
    rows=networks,
    quick=False,
)
