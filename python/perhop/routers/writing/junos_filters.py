"""Firewall filters and policers of Junos."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perhop.scenario import format_dscp
from perhop.units import format_rate, format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perhop.routers.reading.matching import Conditions, Ports
    from perhop.routers.writing.draft import Draft
    from perhop.routers.writing.plan import Part
    from perhop.scenario.model.classes import Action, Police

__all__ = [
    "FAMILIES",
    "block",
    "conditions",
    "dscp_name",
    "levels",
    "losses",
    "one_of",
    "policer",
    "versions",
    "with_either_port",
]

FAMILIES: Final = {
    "inet": (4, "dscp", "protocol", "icmp"),
    "inet6": (6, "traffic-class", "next-header", "icmp6"),
}
"""The version of IP of each family, and its words for code points, protocols and ICMP."""

_LEAST_POLICED: Final = 8_000
_LEAST_BURST: Final = 1_500
_MOST_BURST: Final = 100 * 10**9


def block(head: str, body: Sequence[str]) -> list[str]:
    """Return statements in braces."""
    return [f"{head} {{", *(f"    {line}" for line in body), "}"]


def dscp_name(dscp: int) -> str:
    """Return a code point in the words of filters, which have no names for 1 and 44."""
    name = str(format_dscp(dscp))
    return str(dscp) if name in ("le", "voice-admit") else name


def with_either_port(
    found: Sequence[tuple[int, Conditions]],
) -> list[tuple[int, Conditions, Ports | None]]:
    """Return decisions, with neighbours that are one condition on either port as one.

    Args:
        found: The number of a class, and the conditions of its packets.

    Returns:
        The number, the conditions, and the ports that the source or the destination must have.
    """
    done: list[tuple[int, Conditions, Ports | None]] = []
    for index, each in found:
        if done and done[-1][0] == index and done[-1][2] is None:
            _, before, _ = done[-1]
            ports = before.source_ports
            common = replace(before, source_ports=None)
            if (
                ports is not None
                and (before.destination_ports, each.source_ports) == (None, None)
                and each.destination_ports == ports
                and replace(each, destination_ports=None) == common
            ):
                done[-1] = index, common, ports
                continue
        done.append((index, each, None))
    return done


def versions(found: Iterable[Conditions]) -> set[int]:
    """Return the versions of IP of all addresses in some conditions."""
    sides = [side for each in found for side in (each.source, each.destination)]
    return {network.version for side in sides for network in side or ()}


def conditions(
    found: Conditions, family: str, *, either: Ports | None = None, classes: Sequence[str] = ()
) -> list[str] | None:
    """Return the block `from` of a term; nothing in it if all packets of the family meet it.

    Args:
        found: The conditions.
        family: One of `FAMILIES`.
        either: The ports that the source or the destination must have; None for any.
        classes: The forwarding classes that packets must have had before; empty for any.

    Returns:
        None if no packet of the family can meet the conditions.
    """
    version, dscp, protocol, icmp = FAMILIES[family]
    lines = [f"forwarding-class {one_of(classes)};"] if classes else []
    if found.dscp is not None:
        lines.append(f"{dscp} {one_of([dscp_name(each) for each in sorted(found.dscp)])};")
    if found.protocols is not None:
        names = [icmp if each == "icmp" else each for each in sorted(found.protocols)]
        lines.append(f"{protocol} {one_of(names)};")
    for key, networks in (("source", found.source), ("destination", found.destination)):
        if networks is not None:
            own = [each for each in networks if each.version == version]
            if not own:
                return None
            lines += block(f"{key}-address", [f"{each};" for each in own])
    for key, ports in (
        ("port", either),
        ("source-port", found.source_ports),
        ("destination-port", found.destination_ports),
    ):
        if ports is not None:
            lines.append(f"{key} {one_of(_ranges(ports))};")
    return block("from", lines) if lines else []


def one_of(words: Sequence[str]) -> str:
    """Return values of a statement, in brackets if there are several."""
    return words[0] if len(words) == 1 else f"[ {' '.join(words)} ]"


def _ranges(ports: Ports) -> list[str]:
    return [str(low) if low == high else f"{low}-{high}" for low, high in ports]


def losses(police: Police | None) -> dict[str, Action]:
    """Return the action on packets of each loss priority that a policer sets."""
    if police is None:
        return {}
    _, exceed, violate = police.actions
    if not police.three_colours:
        return {} if exceed.drops else {"high": exceed}
    return {"medium-high": exceed} | ({} if violate.drops else {"high": violate})


def levels(police: Police | None) -> list[str]:
    """Return the loss priorities that packets of a class can have."""
    return ["low", *losses(police)]


def policer(part: Part, police: Police, draft: Draft, *, terms: int) -> tuple[str, list[str]]:
    """Return the kind of a policer, and its statements.

    Args:
        part: The class.
        police: Its policer.
        draft: Where gaps are added.
        terms: The number of terms that refer to it, which share one bucket.
    """
    place = f"{part.place}.police"
    rate = police.rate.of(part.capacity)
    sizes = {"burst": police.burst}
    rates = {"rate": rate}
    conform, exceed, violate = police.actions
    if conform.drops or conform.remark is not None:
        reason = "policers of Junos send what conforms as it is; expected `mark` of the class"
        draft.gap(f"{place}.conform", reason)
    lines = ["filter-specific;"] if terms > 1 else []
    if not police.three_colours:
        kind = "policer"
        limits = [f"bandwidth-limit {rate};", f"burst-size-limit {police.burst};"]
        lines += block("if-exceeding", limits)
        lines += block("then", ["discard;" if exceed.drops else "loss-priority high;"])
    else:
        kind = "three-color-policer"
        colours = "color-aware;" if police.colour_aware else "color-blind;"
        inside = [
            colours,
            f"committed-information-rate {rate};",
            f"committed-burst-size {police.burst};",
        ]
        if police.peak_rate is not None and police.peak_burst is not None:
            peak = police.peak_rate.of(part.capacity)
            inside += [f"peak-information-rate {peak};", f"peak-burst-size {police.peak_burst};"]
            rates["peak_rate"], sizes["peak_burst"] = peak, police.peak_burst
            lines += block("two-rate", inside)
        elif police.excess_burst is not None:
            inside.append(f"excess-burst-size {police.excess_burst};")
            sizes["excess_burst"] = police.excess_burst
            lines += block("single-rate", inside)
        if exceed.drops:
            draft.gap(f"{place}.exceed", "three-colour policers of Junos send what exceeds")
        if violate.drops:
            lines += block("action", block("loss-priority high", ["then discard;"]))
    if police.colour_aware:
        reason = "Junos takes colours from loss priorities, not from code points"
        draft.gap(f"{place}.colour_aware", reason)
    for key, value in rates.items():
        if value < _LEAST_POLICED:
            draft.gap(f"{place}.{key}", f"Junos polices from {format_rate(_LEAST_POLICED)}")
    for key, value in sizes.items():
        if not _LEAST_BURST <= value <= _MOST_BURST:
            allowed = f"{format_size(_LEAST_BURST)} to {format_size(_MOST_BURST)}"
            draft.gap(f"{place}.{key}", f"Junos has bursts from {allowed}")
    return kind, lines
