"""What a path can carry, hop by hop, from how far apart answers to trains of packets come."""

from dataclasses import dataclass
from typing import Final

import polars as pl

from perhop.analysis.distributions import sent
from perhop.analysis.names import ping_named
from perhop.analysis.windows import Window
from perhop.dataset import Dataset

FALLS: Final = 0.9
"""A hop narrows the path if what comes through it is less than this part of what came before."""

_HEADERS: Final = 28
"""The bytes of an IPv4 header and one of ICMP or UDP."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the part of a path up to a hop can carry.

    Attributes:
        ttl: The hop's number.
        nodes: Who answered there.
        rate_bps: The rate at which a train's packets come there, in bits of IP packets a second:
            that of the slowest link so far. None where no two of a train were answered.
        narrows: Whether the link to this hop is slower than all before.
    """

    ttl: int
    nodes: tuple[str, ...]
    rate_bps: float | None
    narrows: bool


def capacities(dataset: Dataset, ping: str, window: Window | None = None) -> list[Capacity]:
    """What a path can carry up to each hop, by a ping of several nodes that sends trains.

    Packets that leave together are spread by the slowest link that they cross, and the answers come
    as far apart; the median of the gaps leaves out most of those in which others' packets went.
    Dovrolis, Ramanathan and Moore, What do packet dispersion techniques measure? (INFOCOM 2001).
    What narrows the way back of answers, which are shorter, is seen only if it is that much slower.

    Raises:
        ValueError: If the ping sends no trains.
    """
    probe = dataset.scenario.pings[ping_named(dataset, ping)]
    if probe.train < 2:
        raise ValueError(f"{ping} sends no trains; expected a ping with `train: 2` or more")
    bits = 8 * (probe.size + _HEADERS)
    here = pl.col("sent_s") + pl.col("rtt_s")
    answered = sent(dataset, ping, window).with_columns(here.alias("came_s"))
    gaps = answered.sort("sequence").with_columns(
        # Of two that follow each other in one train, both answered.
        pl.when(pl.col("sequence").diff() == 1)
        .then(pl.col("came_s").diff())
        .over("ttl", pl.col("sequence") // probe.train)
        .alias("gap_s")
    )
    found: list[Capacity] = []
    destination = probe.destination
    for (ttl,), rows in gaps.sort("ttl").group_by("ttl", maintain_order=True):
        if found and destination in found[-1].nodes:
            break
        gap = rows.filter(pl.col("gap_s") > 0)["gap_s"].median()
        rate = bits / gap if isinstance(gap, float) else None
        before = [hop.rate_bps for hop in found if hop.rate_bps is not None]
        narrows = rate is not None and (not before or rate < FALLS * min(before))
        nodes = tuple(rows["node"].drop_nulls().unique(maintain_order=True))
        found.append(Capacity(int(ttl), nodes, rate, narrows))
    return found


def narrowest(hops: list[Capacity]) -> Capacity | None:
    """The hop that is the bottleneck: the last that narrows the path. None if none was measured."""
    return next((hop for hop in reversed(hops) if hop.narrows), None)
