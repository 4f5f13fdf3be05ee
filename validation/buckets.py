"""Shapers and policers against their arrival curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

import perhop
from perhop.scenario import Scenario
from validation.table import Row, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERVAL_US = 500
"""Interval of the readings of counters. A burst is longer than that."""


def burst(part: dict[str, Any], rate: int, column: str) -> float:
    """The most bytes that a class gets through in any time t beyond `rate` · t.

    A source that offers five times the rate on average, in bursts of its own, keeps it busy.
    """
    scenario = Scenario.model_validate(
        {
            "perhop": 1,
            "name": "buckets",
            "nodes": {"a": "host", "r": "router", "b": "host"},
            "links": [
                {"ends": ["a", "r"], "rate": "10 Gbps"},
                {"ends": ["r", "b"], "rate": "1 Gbps", "egress": {"r": "edge"}},
            ],
            "policies": {
                "edge": {
                    "classes": {
                        "all": {"match": {"protocol": "udp"}, "bandwidth": "1 Mbps", **part},
                        "rest": {"match": "any", "unused": True},
                    }
                }
            },
            "flows": {
                "f": {
                    "from": "a",
                    "to": "b",
                    "udp": {
                        "rate": f"{10 * rate // 1000} kbps",
                        "size": "700 B",
                        "pattern": "poisson",
                        "sizes": "exponential",
                        "bursts": {"on": "200 ms", "off": "200 ms"},
                    },
                }
            },
            "duration": "30 s",
            "report": {"interval": f"{INTERVAL_US} us"},
        }
    )
    dataset = perhop.run(scenario)
    rows = dataset.queues.filter((pl.col("link") == "r>b") & (pl.col("class") == "all"))
    bytes_so_far = rows[column].cum_sum().to_list()
    ends = rows["end_s"].to_list()
    # Above a line of this slope: the highest point after any point, by exact whole numbers.
    level, lowest, most = 0, 0, 0
    for sent, end in zip(bytes_so_far, ends, strict=True):
        level = 8 * 10**6 * sent - rate * round(end * 1e6)
        most = max(most, level - lowest)
        lowest = min(lowest, level)
    return most / 8e6


def rows() -> Iterator[Row]:
    """A row for each bucket."""
    for rate, depth in ((1_000_000, 10_000), (10_000_000, 20_000), (100_000_000, 150_000)):
        bucket = {"rate": f"{rate // 1000} kbps", "burst": f"{depth} B"}
        name = f"{rate / 1e6:g} Mb/s, {depth:,} B"
        part = {"shape": bucket, "queue": {"limit": "1000 packets"}}
        yield Row(f"shaper, {name}", depth, burst(part, rate, "sent_bytes"), 0, "bound")
        police: dict[str, Any] = {"police": {**bucket, "exceed": "drop"}}
        yield Row(f"policer, {name}", depth, burst(police, rate, "conformed_bytes"), 0, "bound")


TABLE = Table(
    name="buckets",
    title="The most that token buckets let through beyond their rate",
    unit="B",
    source="The arrival curve b + r·t (R. Cruz, *A Calculus for Network Delay*, part I, 1991)",
    notes="A Poisson process of packets of random lengths in bursts, at five times the rate. Over "
    f"all stretches between instants {INTERVAL_US} µs apart: IP bytes less rate times time. "
    "(`cargo test -p perhop-queue` has it between any two packets, to the byte.)",
    rows=rows,
    quick=False,
)
