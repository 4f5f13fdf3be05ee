"""Bandwidths of the classes of an interface, as shares of what they divide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perhop.scenario.model.cbq import ALTQ_CBQ
from perhop.units import WHOLE, format_rate, format_share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perhop.routers.reading.altq.ledger import Ledger
    from perhop.routers.reading.altq.nodes import Node

_LEAST: Final = WHOLE // 1000
"""The share of a class to which its platform gives nothing: 0.1%."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The bandwidth of a class.

    Attributes:
        text: As a scenario has it; None without.
        rate: In bit/s, where known.
        part: The bandwidths of the class and its siblings are scaled by `part / whole`.
        whole: See `part`.
    """

    text: str | None
    rate: int | None
    part: int = 1
    whole: int = 1


def bandwidths(
    nodes: Sequence[Node], rate: int | None, scheduler: str, ledger: Ledger
) -> Mapping[int, Guarantee]:
    """Return the bandwidth of each class by its identity.

    Args:
        nodes: Classes that divide one bandwidth.
        rate: That bandwidth in bit/s, if known.
        scheduler: The scheduler; with `altq-cbq`, the bandwidths are rates whose sum may exceed
            `rate`, and not weights.
        ledger: The account of lines that this changes.
    """
    if scheduler == "priority":
        return {id(node): Guarantee(None, rate) for node in nodes}
    if rate is None and any(node.rate is not None for node in nodes):
        return {
            id(node): Guarantee(format_rate(node.rate), node.rate)
            if node.rate
            else Guarantee(format_share(node.share) if node.share else None, None)
            for node in nodes
        }
    shares = {id(node): _share(node, rate) for node in nodes}
    total = sum(shares.values())
    for node in nodes:
        if node.rest:
            shares[id(node)] = max(WHOLE - total, 0)
    total = sum(shares.values())
    empty = [node for node in nodes if not shares[id(node)]]
    least = min(_LEAST, WHOLE // (2 * max(len(empty), 1)))
    free = WHOLE - least * len(empty)
    scaled = total > free and scheduler != ALTQ_CBQ
    for node in empty:
        ledger.approximated(
            node.statement, f"has no bandwidth of its own; perhop guarantees {format_share(least)}"
        )
    if scaled:
        for node in nodes:
            if shares[id(node)]:
                shares[id(node)] = max(shares[id(node)] * free // total, 1)
                ledger.approximated(
                    node.statement,
                    f"{format_share(total)} are given to the classes together: perhop scales this "
                    f"one's to {format_share(shares[id(node)])}",
                )
    found = {}
    for node in nodes:
        share = shares[id(node)] or least
        got = None if rate is None else max(rate * share // WHOLE, 1)
        if scaled or node.rest or not shares[id(node)] or node.rate is None:
            scale = (free, total) if scaled else (1, 1)
            found[id(node)] = Guarantee(format_share(share), got, *scale)
        else:
            found[id(node)] = Guarantee(format_rate(node.rate), node.rate)
    return found


def _share(node: Node, rate: int | None) -> int:
    """Return the share of a class, rounded up, in parts per billion of `rate`."""
    if node.rest:
        return 0
    if node.rate is not None:
        return -(-node.rate * WHOLE // rate) if rate else 0
    return node.share or 0
