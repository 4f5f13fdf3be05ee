"""The hops of a path, from pings with limited time to live, as in traceroute and mtr."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from perhop.analysis.distributions import Distribution, distribution, sent
from perhop.analysis.names import ping_named
from perhop.analysis.windows import Window
from perhop.dataset import Dataset


@dataclass(frozen=True, slots=True)
class Hop:
    """The requests with one time to live.

    Attributes:
        ttl: The time to live: the hop's number.
        nodes: The nodes that answered, in order of appearance; several if load is shared.
        answers: The kinds of answers: "time exceeded" on the path, "echo reply" or "port
            unreachable"
            at the destination, "net unreachable" without a route, "packet too big" above an MTU.
        sent: The number of requests.
        loss: The share of them that was not answered, or that could not be delivered.
        rtt: The round-trip times of the others; None if there are none.
        dscps: The DSCPs with which they arrived, in order of appearance.
    """

    ttl: int
    nodes: tuple[str, ...]
    answers: tuple[str, ...]
    sent: int
    loss: float
    rtt: Distribution | None
    dscps: tuple[int, ...]


def hops(dataset: Dataset, ping: str, window: Window | None = None) -> list[Hop]:
    """Return the hops of a ping from the requests that it sent in `window`.

    Beyond the nearest hop at which the destination answered, the list has only hops at which
    another
    node answered.
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
    """Return the distinct values of a column."""
    return tuple(rows[column].drop_nulls().unique(maintain_order=True))
