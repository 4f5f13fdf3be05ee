"""Rules on nodes and links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.scenario.model.ends import by_end
from perhop.scenario.model.topology import BY_SENDER
from perhop.scenario.rules.findings import Finding, known, not_an_end
from perhop.units import format_rate, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.resolve.scenario import ResolvedScenario


def addresses(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find addresses of several nodes."""
    owners: dict[object, str] = {}
    for name, node in scenario.nodes.items():
        for key in ("address", "address_v6"):
            address = getattr(node, key)
            if address is not None and owners.setdefault(address, name) != name:
                yield Finding(
                    ("nodes", name, key),
                    f"{address} is already the address of {quote(owners[address])}",
                )


def link_ends(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find links with unknown or equal ends, and parallel links with equal names."""
    seen: dict[tuple[frozenset[str], str], int] = {}
    for index, link in enumerate(scenario.links):
        loc: Loc = ("links", index, "ends")
        for position, end in enumerate(link.ends):
            yield from known(end, scenario.nodes, "node", (*loc, position))
        first, second = link.ends
        if first == second:
            yield Finding(loc, f"joins {quote(first)} to itself; expected two different nodes")
            continue
        if link.name is not None:
            earlier = seen.setdefault((frozenset(link.ends), link.name), index)
            if earlier != index:
                yield Finding(
                    ("links", index, "name"),
                    f"{quote(link.name)} is already the name of links.{earlier} between "
                    f"{quote(first)} and {quote(second)}; expected another name",
                )


def link_policies(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find values for a node that is not an end of its link, and a rate for one end only."""
    for index, link in enumerate(scenario.links):
        for end in link.ends:
            if isinstance(link.rate, dict) and len(link.rate) == 1 and end not in link.rate:
                yield Finding(
                    ("links", index, "rate"),
                    f"has no rate for {quote(end)}; expected one for each sending end",
                )
        keys = [(key, by_end(getattr(link, key))) for key in BY_SENDER]
        keys += [("egress", link.egress), ("shape", link.shape), ("remark", link.remark)]
        keys.append(("trace", link.trace))
        for key, node in ((key, node) for key, nodes in keys for node in nodes):
            if node not in link.ends:
                both = ", or one value for both directions" if key in BY_SENDER else ""
                yield not_an_end(node, link.ends, "link", ("links", index, key, node), both)
        for node, shape in link.shape.items():
            rate = link.medium(node).rate
            if shape.rate.of(rate) < 1:
                yield Finding(
                    ("links", index, "shape", node, "rate"),
                    f"is less than 1 bps of the link's {format_rate(rate)}",
                )


def encapsulations(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find links with tags or labels in ATM cells."""
    for index, link in enumerate(scenario.links):
        if link.encapsulation is not None and any(each.overhead.cells for each in link.media):
            yield Finding(
                ("links", index, "encapsulation"),
                "perhop does not model VLAN tags or MPLS labels in ATM cells; expected another "
                "`overhead`",
            )


def delays(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find limits and variations without a delay or beside `jitter`, and unclear reordering."""
    for index, link in enumerate(scenario.links):
        for node, medium in zip(link.ends, link.media, strict=True):
            for key in ("variation", "delay_limit"):
                if getattr(medium, key) is not None and not medium.delay:
                    yield Finding(
                        ("links", index, key),
                        f"means nothing where {quote(node)} sends, without `delay`",
                        at_key=True,
                    )
            if medium.variation is not None and medium.jitter:
                yield Finding(
                    ("links", index, "variation"),
                    "is given beside `jitter`; expected one of the two",
                    at_key=True,
                )
            reorder = medium.reorder
            loc: Loc = ("links", index, "reorder")
            if reorder is not None and reorder.by is None and reorder.gap is None:
                yield Finding(
                    (*loc, "by"), "is missing; expected a duration such as `100 ms`, or `gap`"
                )
            if reorder is not None and reorder.by is not None and reorder.gap is not None:
                yield Finding(
                    (*loc, "gap"), "is given beside `by`; expected one of the two", at_key=True
                )


_NOT_SHARED: Final = ("trace", "jitter", "variation", "delay_limit", "reorder", "duplicate")
"""Keys of a link that a channel excludes, because it decides when packets arrive."""


def channels(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find unknown and unused channels, channels without an access point, and excluded keys."""
    shared: dict[str, set[str]] = {}
    for index, link in enumerate(scenario.links):
        if link.channel is None:
            continue
        yield from known(link.channel, scenario.channels, "channel", ("links", index, "channel"))
        channel = scenario.channels.get(link.channel)
        scheduled = channel is not None and channel.lte is not None
        for key in _NOT_SHARED:
            if getattr(link, key) and not (scheduled and key == "trace"):
                yield Finding(
                    ("links", index, key),
                    "a link on a channel cannot have this: the channel decides when packets arrive",
                )
        common = shared.setdefault(link.channel, set(link.ends))
        common &= set(link.ends)
        if not common and channel is not None and not scheduled:
            yield Finding(
                ("links", index, "channel"),
                f"no node is an end of all links on {quote(link.channel)}; expected one, the "
                "access point",
            )
    for name in scenario.channels:
        if name not in shared:
            yield Finding(("channels", name), "no link is on this channel; expected one")


def reservable(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find links with more reservable bandwidth than they have."""
    for index, link in enumerate(scenario.links):
        if link.reservable is None:
            continue
        loc: Loc = ("links", index, "reservable")
        # A rate counts in both directions.
        rate = min(medium.rate for medium in link.media)
        total = link.reservable.total.of(rate)
        if total > rate:
            yield Finding(
                loc,
                f"{format_rate(total)} is more than the link's {format_rate(rate)}; "
                "expected at most that",
            )
        for name, part in link.reservable.classes.items():
            if part.of(rate) > total:
                yield Finding(
                    (*loc, "classes", name),
                    f"{format_rate(part.of(rate))} is more than the {format_rate(total)} "
                    "that can be reserved in all",
                )


def egress_policies(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find an egress of a link or tunnel with an unknown policy."""
    for index, link in enumerate(scenario.links):
        for node, policy in link.egress.items():
            yield from known(policy, scenario.policies, "policy", ("links", index, "egress", node))
    for name, tunnel in scenario.tunnels.items():
        for node, policy in tunnel.egress.items():
            yield from known(policy, scenario.policies, "policy", ("tunnels", name, "egress", node))
