"""Mean waiting times of M/M/1 and M/D/1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

import perhop
from perhop.scenario import Scenario
from validation.table import Row, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 4000
"""The mean packet in bytes. Headers make the shortest 0.7% of packets a few bytes longer than an
exponential distribution has them, which is 0.1 B on average; one in 13 million would be longer than
IP allows. (With 8000 B one in 3600 would be, and waits at a load of 95% were 1.5% too short.)"""

RATE = 8_000_000_000
"""The link: a mean packet takes 4 µs."""

SERVICE_S = SIZE * 8 / RATE

SETTINGS = {
    "M/M/1": (
        ("exponential", 0.5, 10_000_000),
        ("exponential", 0.8, 40_000_000),
        ("exponential", 0.95, 150_000_000),
    ),
    "M/D/1": (("equal", 0.5, 5_000_000), ("equal", 0.8, 20_000_000), ("equal", 0.95, 80_000_000)),
}
"""The distribution of sizes, the load, and how many packets come: so many that the standard error
of the mean is about a third of a percent, as waits of packets near each other are alike."""


def waiting(sizes: str, load: float, packets: int) -> float:
    """The mean wait of a packet, in mean transmission times: its one-way delay but for its own."""
    duration_us = round(packets * SERVICE_S / load * 1e6)
    rate = round(load * RATE)
    scenario = Scenario.model_validate(
        {
            "perhop": 1,
            "name": "waiting",
            "nodes": {"a": "host", "b": "host"},
            "links": [
                {
                    "ends": ["a", "b"],
                    "rate": f"{RATE // 10**9} Gbps",
                    "queue": {"limit": "100000 packets"},
                }
            ],
            "flows": {
                "flow": {
                    "from": "a",
                    "to": "b",
                    "udp": {
                        "rate": f"{rate // 10**6} Mbps",
                        "size": f"{SIZE} B",
                        "layer": "ip",
                        "pattern": "poisson",
                        "sizes": sizes,
                    },
                }
            },
            "duration": f"{duration_us} us",
            "report": {"interval": f"{duration_us // 10} us"},
        }
    )
    dataset = perhop.run(scenario, seed=1)
    sent = int(dataset.links.filter(pl.col("link") == "a>b")["sent_bytes"].sum())
    arrived = int(dataset.intervals["packets"].sum())
    delays = dataset.intervals.select((pl.col("owd_s") * pl.col("packets")).sum()).item()
    return float(delays / arrived - sent * 8 / RATE / arrived) / SERVICE_S


def rows() -> Iterator[Row]:
    """A row for each model and load."""
    for model, settings in SETTINGS.items():
        for sizes, load, packets in settings:
            expected = load / (1 - load) * (1.0 if model == "M/M/1" else 0.5)
            measured = waiting(sizes, load, packets)
            yield Row(f"{model}, load {load:g}, {packets:,} packets", expected, measured, 0.01)


TABLE = Table(
    name="waiting",
    title="Mean waiting time in a queue",
    unit="mean transmission times",
    source="Pollaczek and Khinchine: load / (1 - load) for M/M/1, half of it for M/D/1 (L. "
    "Kleinrock, *Queueing Systems*, volume 1, 1975)",
    notes="A Poisson process of packets, of exponential or equal lengths, over one link. The wait "
    "is the one-way delay less the time of a packet's own transmission.",
    rows=rows,
    quick=False,
)
