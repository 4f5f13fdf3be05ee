"""Who answers a ping's requests at each distance, as traceroute and mtr ask."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from perhop.analysis.distributions import Distribution, distribution, sent
from perhop.analysis.names import ping_named
from perhop.analysis.windows import Window
from perhop.dataset import Dataset


@dataclass(frozen=True, slots=True)
class Hop:
    """What became of the requests with one time to live.

    Attributes:
        ttl: The time to live: the hop's number.
        nodes: Who answered, in order of appearance; several where load is shared.
        answers: How they did: "time exceeded" on the way, "echo reply" or "port unreachable" at the
            destination, "net unreachable" where no path led on, "packet too big" where a link took
            none so long.
        sent: How many requests there were.
        loss: The share of them that was not answered, or that could not be delivered.
        rtt: How long the others took; None if there are none.
        dscps: The code points with which they arrived, in order of appearance.
    """

    ttl: int
    nodes: tuple[str, ...]
    answers: tuple[str, ...]
    sent: int
    loss: float
    rtt: Distribution | None
    dscps: tuple[int, ...]


def hops(dataset: Dataset, ping: str, window: Window | None = None) -> list[Hop]:
    """What a ping learnt of each hop from the requests that it sent in `window`.

    Beyond the nearest hop at which the destination answered, only those are listed at which another
    node did.
    """
    requests = sent(dataset, ping, window)
    destination = dataset.scenario.pings[ping_named(dataset, ping)].destination
    found: list[Hop] = []
    for (ttl,), rows in requests.sort("ttl").group_by("ttl", maintain_order=True):
        nodes = _seen(rows, "node")
        reached = any(destination in hop.nodes for hop in found)
        if reached and set(nodes) <= {destination}:
            continue
        found.append(
            Hop(
                ttl=int(ttl),
                nodes=nodes,
                answers=_seen(rows, "answer"),
                sent=len(rows),
                loss=rows["rtt_s"].null_count() / len(rows),
                rtt=distribution(rows["rtt_s"]),
                dscps=_seen(rows, "dscp_arrived"),
            )
        )
    return found


def _seen(rows: pl.DataFrame, column: str) -> tuple[Any, ...]:
    """The values of a column, each once."""
    return tuple(rows[column].drop_nulls().unique(maintain_order=True))
