"""The capacity of a path, hop by hop, from the dispersion of packet trains."""

from dataclasses import dataclass
from typing import Final

import polars as pl

from perhop.analysis.distributions import sent
from perhop.analysis.names import ping_named
from perhop.analysis.windows import Window
from perhop.dataset import Dataset
from perhop.scenario.resolve import datagram_headers

FALLS: Final = 0.9
"""A hop narrows the path if what comes through it is less than this part of what came before."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The capacity of a path up to a hop.

    Attributes:
        ttl: The hop's number.
        nodes: The nodes that answered there.
        rate_bps: The rate at which a train's packets arrive there, in bits of IP packets per
            second: that of the slowest link so far. None if no two packets of a train were
            answered.
        narrows: True if the link to this hop is slower than all before.
    """

    ttl: int
    nodes: tuple[str, ...]
    rate_bps: float | None
    narrows: bool


def capacities(dataset: Dataset, ping: str, window: Window | None = None) -> list[Capacity]:
    """Return the capacity of a path up to each hop, from a ping of several nodes that sends trains.

    Packets that are sent back to back are spread by the slowest link that they cross, and so are
    the answers. The median of the gaps excludes most gaps with packets of other flows. Dovrolis,
    Ramanathan and Moore, What do packet dispersion techniques measure? (INFOCOM 2001). A bottleneck
    of the return path is visible only if it also spreads the answers, which are shorter.

    Raises:
        ValueError: The ping sends no trains.
    """
    probe = dataset.scenario.pings[ping_named(dataset, ping)]
    if probe.train < 2:
        raise ValueError(f"{ping} sends no trains; expected a ping with `train: 2` or more")
    # The header of an ICMP message is as long as that of a datagram.
    bits = 8 * (probe.size + datagram_headers(dataset.scenario.ip_of(probe)))
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
    """Return the bottleneck hop: the last that narrows the path. None if none was measured."""
    return next((hop for hop in reversed(hops) if hop.narrows), None)
