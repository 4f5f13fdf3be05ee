"""Weighted fair queueing and deficit round robin: delay and fairness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import perhop
from perhop import analysis
from perhop.scenario import Scenario
from validation.table import Row, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

RATE = 10_000_000
"""The shared link, in bits per second."""


def _network(policy: dict[str, Any]) -> dict[str, Any]:
    return {
        "perhop": 1,
        "name": "fairness",
        "nodes": {"a": "host", "r": "router", "b": "host"},
        "links": [
            {"ends": ["a", "r"], "rate": "10 Gbps"},
            {"ends": ["r", "b"], "rate": "10 Mbps", "egress": {"r": "edge"}},
        ],
        "policies": {"edge": policy},
    }


def longest_delay(percent: int, size: int) -> float:
    """The longest wait and transmission of a request in a class with so much of the link, in s.

    Requests of the class come at its rate, a packet at a time; nine other classes are overloaded
    with full packets.
    """
    kilobits = (RATE // 1000 * (100 - percent) // 100 - 1) // 9
    others = {
        f"other{i}": {"match": {"port": 7000 + i}, "bandwidth": f"{kilobits} kbps"}
        for i in range(9)
    }
    gap_us = -(-size * 8 * 10**6 * 100 // (RATE * percent))
    scenario = Scenario.model_validate(
        {
            **_network(
                {
                    "classes": {
                        "own": {"match": {"protocol": "icmp"}, "bandwidth": f"{percent}%"},
                        **others,
                        "rest": {"match": "any", "unused": True, "bandwidth": "1 kbps"},
                    }
                }
            ),
            "flows": {
                f"f{i}": {
                    "from": "a",
                    "to": "b",
                    "port": 7000 + i,
                    "udp": {"rate": f"{1300 + 10 * i} kbps", "size": "1472 B"},
                }
                for i in range(9)
            },
            "pings": {
                "own": {"from": "a", "to": "b", "every": f"{gap_us} us", "size": f"{size - 28} B"}
            },
            "duration": "60 s",
        }
    )
    dataset = perhop.run(scenario)
    longest = dataset.pings["rtt_s"].max()
    assert isinstance(longest, float)
    # The way back and the fast link are empty: transmissions only.
    return longest - size * 8 * (2 / 10e9 + 1 / RATE)


def delays() -> Iterator[Row]:
    """A row for each share and length."""
    for percent, size in (
        (1, 100),
        (1, 1500),
        (5, 200),
        (5, 1500),
        (20, 60),
        (20, 1000),
        (40, 576),
    ):
        bound = size * 8 / (RATE * percent / 100) + 1500 * 8 / RATE
        delay = longest_delay(percent, size)
        yield Row(
            f"{percent}% of the link, packets of {size} B", bound * 1e3, delay * 1e3, 0, "bound"
        )


def shares(scheduler: str, weights: list[int], sizes: list[int]) -> list[float]:
    """Return the rates of overloaded classes with these weights, divided by their weights."""
    unit = RATE // 1000 // (sum(weights) + 1)
    classes = {
        f"c{i}": {"match": {"port": 7000 + i}, "bandwidth": f"{unit * weight} kbps"}
        for i, weight in enumerate(weights)
    }
    scenario = Scenario.model_validate(
        {
            **_network(
                {
                    "scheduler": scheduler,
                    "classes": {
                        **classes,
                        "rest": {"match": "any", "unused": True, "bandwidth": f"{unit} kbps"},
                    },
                }
            ),
            "flows": {
                f"f{i}": {
                    "from": "a",
                    "to": "b",
                    "port": 7000 + i,
                    "udp": {"rate": "9 Mbps", "size": f"{size - 28} B"},
                }
                for i, size in enumerate(sizes)
            },
            "duration": "60 s",
        }
    )
    dataset = perhop.run(scenario)
    got = []
    for i, (weight, size) in enumerate(zip(weights, sizes, strict=True)):
        rate = analysis.throughput(dataset, f"f{i}", (10.0, 60.0))
        assert rate is not None
        got.append(rate * size / (size - 28) / weight)
    return got


def indices() -> Iterator[Row]:
    """A row for each scheduler and set of classes."""
    sets = {
        "10 equal classes of 1500 B": ([1] * 10, [1500] * 10),
        "10 equal classes of 100 to 1450 B": ([1] * 10, [100 + 150 * i for i in range(10)]),
        "weights of 1 to 8, 1500 to 100 B": (
            list(range(1, 9)),
            [1500 - 200 * i for i in range(8)],
        ),
    }
    for scheduler in ("wfq", "drr", "link-sharing"):
        for name, (weights, sizes) in sets.items():
            got = shares(scheduler, weights, sizes)
            jain = sum(got) ** 2 / (len(got) * sum(x * x for x in got))
            yield Row(f"{scheduler}, {name}", 1.0, jain, 0.001)


DELAY = Table(
    name="delay",
    title="Longest delay in a weighted fair class",
    unit="ms",
    source="A. Parekh and R. Gallager, *A Generalized Processor Sharing Approach to Flow Control*, "
    "ToN 1(3), 1993: L/r + Lmax/C for a class that sends a packet of L every L/r",
    notes="Echo requests at the rate of their class, beside nine classes that send too much in "
    "full packets. Shown is the longest delay until the end of the transmission.",
    rows=delays,
)

FAIRNESS = Table(
    name="fairness",
    title="Jain's index of what backlogged classes get by weight",
    unit="1 is fair",
    source="R. Jain, D. Chiu and W. Hawe, *A Quantitative Measure of Fairness*, DEC TR-301, 1984",
    notes="All classes send 9 Mb/s into 10 Mb/s; IP bytes over 50 s, by weight.",
    rows=indices,
)
