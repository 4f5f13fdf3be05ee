"""Settings of outputs: shapers, traffic control profiles and rewrite rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.routers.reading.junos.classification import LINK_KINDS
from perhop.routers.reading.junos.tree import chosen
from perhop.routers.reading.junos.values import number, percent
from perhop.units import format_rate, format_share, format_size

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from perhop.routers.reading.junos.classification import CodePoints
    from perhop.routers.reading.junos.interfaces import Placed
    from perhop.routers.reading.junos.policies import RewriteTable
    from perhop.routers.reading.junos.tree import Node

_IN_PROFILE: Final = {
    "guaranteed-rate": "guarantees among the profiles of one interface are not modelled",
    "overhead-accounting": "perhop counts the overhead of the link",
    "excess-rate": "excess rates among the profiles of one interface are not modelled",
    "excess-rate-high": "excess rates among the profiles of one interface are not modelled",
    "excess-rate-low": "excess rates among the profiles of one interface are not modelled",
    "adjust-minimum": "belongs to subscribers' rates",
    "peak-rate": "belongs to ATM",
    "sustained-rate": "belongs to ATM",
    "max-burst-size": "belongs to ATM",
}


def profile(cos: Node, placed: Placed) -> Node | None:
    """Return the traffic control profile of an output, or None."""
    name = placed.value("output-traffic-control-profile")
    if name is None:
        return None
    found = cos.get("traffic-control-profiles", name.word)
    if found is None:
        name.undefined("the configuration has no such traffic control profile")
        return None
    name.modelled()
    found.mark_name()
    for word, note in _IN_PROFILE.items():
        if (each := found.get(word)) is not None:
            each.ignored(note)
    return found


def bits(node: Node, rate: int | None) -> int | None:
    """Return a rate in bit/s that a setting states, or a part of `rate`; None if it is unknown."""
    part = next(iter(node), None) if node.word == "percent" else None
    share = percent(part.word) if part is not None else None
    found = int(share * rate / 100) if share and rate else number(node.word)
    if found:
        node.modelled()
    else:
        node.ignored("expected a rate in bit/s, or a percentage of one that is known")
    return found


def shape(
    placed: Placed, within: Node | None, rate: int | None
) -> tuple[dict[str, str] | None, int | None]:
    """Return the shaper of an output, and its rate in bit/s if known.

    Args:
        placed: What `class-of-service interfaces` says.
        within: The traffic control profile, or None.
        rate: The rate of the interface in bit/s, or None.
    """
    node = placed.value("shaping-rate")
    apart = next(placed.under("shaping-rate", "burst-size"), None)
    if node is None and within is not None:
        rates = within.under("shaping-rate")
        node = chosen([each for each in rates if each.word != "burst-size"])
        apart = within.value("shaping-rate", "burst-size")
    if node is None:
        return None, None
    last, bps, written = node, number(node.word), ""
    if node.word == "percent":
        part = next(iter(node), None)
        share = percent(part.word) if part is not None else None
        if part is None or not share:
            node.ignored("expected a percentage from 1 to 100")
            return None, None
        last, bps = part, int(share * rate / 100) if rate else None
        written = format_share(int(share * 10**7))
    if bps:
        written = format_rate(bps)
    if not written:
        node.ignored("expected a rate in bit/s such as 10m")
        return None, None
    node.modelled()
    found = {"rate": written}
    burst = last.value("burst-size") or apart
    size = number(burst.word) if burst is not None else None
    if size and burst is not None:
        burst.modelled()
        found["burst"] = format_size(size)
    return found, bps


_MARKS: Final = ("dscp", "inet-precedence", "dscp-ipv6")


def marks(placed: Placed) -> bool:
    """Return whether a unit has a rewrite rule."""
    return any(placed.value("rewrite-rules", kind) for kind in (*_MARKS, *LINK_KINDS))


def note_other_marks(first: Placed, number: str, units: Sequence[Placed]) -> None:
    """Note the rewrite rules of units that share one policy, which has those of the first one.

    Args:
        first: The unit whose rewrite rules the policy has.
        number: Its number.
        units: The units that share the policy.
    """
    for kind in (*_MARKS, *LINK_KINDS):
        own = first.value("rewrite-rules", kind)
        for unit in units:
            node = unit.value("rewrite-rules", kind)
            if node is None or node.treatment is not None:
                continue
            if own is not None and own.word == node.word:
                node.modelled()
            else:
                node.ignored(f"the units share one policy, with the rewrite rules of unit {number}")


_ALL_VERSIONS: Final = {
    "inet6": "marks IPv6 packets, too; Junos needs a rewrite rule `dscp-ipv6` for them",
    "inet": "marks IPv4 packets, too; Junos needs a rewrite rule `dscp` for them",
}


def rewrite(
    codes: CodePoints, first: Placed, second: Placed, families: Collection[str]
) -> tuple[RewriteTable, Node | None]:
    """Return the rewrite rule of an output, and the statement that names it.

    Args:
        codes: The rewrite rules of the router.
        first: What is said of the unit.
        second: What is said of its interface.
        families: The families of its packets.
    """
    found: tuple[RewriteTable, Node | None] = ({}, None)
    without = {"inet", "inet6"} & set(families)
    for kind in _MARKS:
        rule = _rewrite(codes, kind, first, second)
        if rule is None:
            continue
        table, node = rule
        without.discard("inet6" if kind == "dscp-ipv6" else "inet")
        if found[1] is None:
            found = rule
            node.modelled()
        elif table != found[0]:
            node.approximated(f"all packets are marked by `{found[1].word}`")
        else:
            node.modelled()
    if found[1] is not None:
        for family in without:
            found[1].approximated(_ALL_VERSIONS[family])
    return found


def link_rewrites(
    codes: CodePoints, first: Placed, second: Placed
) -> dict[str, tuple[RewriteTable, Node]]:
    """Return the rewrite rules of tags and labels of an output, by their key in scenarios.

    Args:
        codes: The rewrite rules of the router.
        first: What is said of the unit.
        second: What is said of its interface.
    """
    found: dict[str, tuple[RewriteTable, Node]] = {}
    for kind, key in LINK_KINDS.items():
        rule = _rewrite(codes, kind, first, second)
        if rule is not None:
            rule[1].modelled()
            found[key] = rule
    return found


def _rewrite(
    codes: CodePoints, kind: str, first: Placed, second: Placed
) -> tuple[RewriteTable, Node] | None:
    """Return the rewrite rule of a kind, and the statement that names it, if there are both."""
    node = first.value("rewrite-rules", kind) or second.value("rewrite-rules", kind)
    if node is None:
        return None
    table = codes.rewrite(kind, node.word)
    if table is None:
        node.undefined("the configuration has no such rewrite rule")
        return None
    return table, node
