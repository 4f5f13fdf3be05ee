"""Arrivals of packets: jitter, order and duplicates."""

from dataclasses import dataclass

from perhop.analysis.cache import of_flow
from perhop.analysis.windows import Window, tally
from perhop.dataset import Dataset


def jitter(dataset: Dataset, flow: str, window: Window | None = None) -> float | None:
    """Return the interarrival jitter of a UDP flow (RFC 3550, section 6.4.1) in seconds.

    It is the mean of the estimates at the ends of all intervals in the window, weighted by the
    packets
    that arrived in them.

    Returns:
        None if no packet arrived, or for a TCP flow.
    """
    mean: float | None = tally(dataset, flow, window)["jitter_s"]
    return mean


@dataclass(frozen=True, slots=True)
class Order:
    """The order of a flow's packets (RFC 4737).

    `share` is the part of them that came after one with a higher number. For TCP flows, of which
    only that is known, the rest is None: `by_three`, those that came after three of them at least;
    the mean and the greatest `extent`, how many places back the first of them came (None where none
    was reordered); and the packets that came again.
    """

    reordered: float | None
    share: float | None
    by_three: float | None
    extent_mean: float | None
    extent_max: int | None
    duplicates: float | None


def order(dataset: Dataset, flow: str, window: Window | None = None) -> Order:
    """Return the order of a flow's packets in a window."""
    found = tally(dataset, flow, window)
    udp = dataset.scenario.flows[flow].datagrams is not None
    reordered, packets, extents = found["reordered"], found["packets"], found["extents"]
    return Order(
        reordered=reordered,
        share=reordered / packets if packets and reordered is not None else None,
        by_three=found["reordered_by_3"] if udp else None,
        extent_mean=extents / reordered if udp and reordered and extents is not None else None,
        extent_max=found["extent_max"],
        duplicates=found["duplicates"] if udp else None,
    )


def reorder_density(dataset: Dataset, flow: str) -> dict[int, float]:
    """Return the shares of a UDP flow's packets by displacement (RFC 5236), late above zero.

    Empty if no packet arrived, or for a TCP flow.
    """
    rows = of_flow(dataset, "displacements", flow)
    places, early, late = (rows[column].to_list() for column in ("by", "early", "late"))
    packets = sum(early) + sum(late)
    counts = {-by: count for by, count in zip(places, early, strict=True) if count}
    counts |= {by: count for by, count in zip(places, late, strict=True) if count}
    return {by: counts[by] / packets for by in sorted(counts)}
