"""Class maps and access lists of Cisco IOS."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network
from itertools import product
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.conditions import Conditions
from perhop.scenario import format_dscp

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from perhop.routers.reading.matching import Network, Ports, Rules
    from perhop.routers.writing.draft import Definitions
    from perhop.scenario.model.names import IpVersion

__all__ = ["LINK_CLASS", "class_map", "dscp_name", "has_class_map"]

_WHOLE: Final = {Conditions(): "", Conditions(source=(IPv4Network("0.0.0.0/0"),)): "ip "}
"""Conditions that `match dscp` has beside code points: none, or `ip`, for IPv4 only."""

MOST_VALUES: Final = 8
"""The most values of `match dscp` (IOS Quality of Service command reference)."""


def dscp_name(dscp: int) -> str:
    """Return a code point in the words of IOS, which has no names for 1 and 44."""
    name = "default" if dscp == 0 else str(format_dscp(dscp))
    return str(dscp) if name in ("le", "voice-admit") else name


def class_map(
    name: str, rules: Rules, lists: Definitions, traffic: Collection[IpVersion]
) -> list[str]:
    """Return a class map: `match-any` or `match-all`, then its lines.

    Args:
        name: The name of the class, for access lists.
        rules: The packets.
        lists: Where access lists are added.
        traffic: The versions of IP of the traffic; those of addresses are written, too.
    """
    conditions = [each for _, each in rules.rules]
    if any(each.pcp is not None or each.mpls_tc is not None for each in conditions):
        return _link_class_map(rules)
    plain = all(permit for permit, _ in rules.rules)
    marks = [sorted(each.dscp) for each in conditions if each.dscp is not None]
    others = [replace(each, dscp=None) for each in conditions]
    if plain and len(marks) == len(conditions) and all(each in _WHOLE for each in others):
        words = [_WHOLE[each] for each in others]
        found = (_match_dscp(*each) for each in zip(marks, words, strict=True))
        return ["match-any", *(line for lines in found for line in lines)]
    versions = {*traffic, *(network.version for each in conditions for network in _networks(each))}
    entries = rules.rules
    head = ["match-any"]
    single = plain and len(conditions) == len(marks) == 1
    if single and len(marks[0]) <= MOST_VALUES and 6 not in versions:
        head = ["match-all", *_match_dscp(marks[0])]
        entries = ((True, others[0]),)
    named = []
    for version in sorted(versions):
        lines = [line for rule in entries for line in _entries(*rule, version)]
        if lines:
            kind = "ip access-list extended" if version == 4 else "ipv6 access-list"
            wanted = name if version == 4 else f"{name}-v6"
            named.append(lists.define(wanted, [kind, *lines]))
    return [*head, *(f"match access-group name {each}" for each in named)]


LINK_CLASS: Final = "IOS matches classes at layer 2 beside DSCPs only, in a list without exceptions"
"""Why a match with classes at layer 2 has no class map."""

_MOST_COS: Final = 4
"""The most values of `match cos`; later releases and IOS-XR have eight."""


def has_class_map(rules: Rules) -> bool:
    """Return whether a class map can state a match, if that looks at classes at layer 2."""
    conditions = [each for _, each in rules.rules]
    if all(each.pcp is None and each.mpls_tc is None for each in conditions):
        return True
    bare = (replace(each, dscp=None, pcp=None, mpls_tc=None) for each in conditions)
    if not all(permit for permit, _ in rules.rules) or not all(each.is_any for each in bare):
        return False
    lines = [_link_lines(each) for each in conditions]
    kinds = [len({line.split()[1] for line in each}) for each in lines]
    return set(kinds) == {1} or (len(lines) == 1 and len(lines[0]) == kinds[0])


def _link_class_map(rules: Rules) -> list[str]:
    """Return a class map of classes at layer 2 and DSCPs, if it has one."""
    lines = [_link_lines(each) for _, each in rules.rules]
    kinds = {line.split()[1] for each in lines for line in each}
    every = len(lines) == 1 and len(lines[0]) == len(kinds)
    return ["match-all" if every else "match-any", *(line for each in lines for line in each)]


def _link_lines(conditions: Conditions) -> list[str]:
    """Return the lines of a class map for classes at layer 2 and DSCPs."""
    lines = [] if conditions.dscp is None else _match_dscp(sorted(conditions.dscp))
    codes = sorted(conditions.pcp or ())
    for start in range(0, len(codes), _MOST_COS):
        lines.append(f"match cos {' '.join(map(str, codes[start : start + _MOST_COS]))}")
    if conditions.mpls_tc is not None:
        values = " ".join(map(str, sorted(conditions.mpls_tc)))
        lines.append(f"match mpls experimental topmost {values}")
    return lines


def _match_dscp(points: Sequence[int], version: str = "") -> list[str]:
    return [
        f"match {version}dscp " + " ".join(map(dscp_name, points[start : start + MOST_VALUES]))
        for start in range(0, len(points), MOST_VALUES)
    ]


def _networks(conditions: Conditions) -> tuple[Network, ...]:
    return (*(conditions.source or ()), *(conditions.destination or ()))


def _entries(permit: bool, conditions: Conditions, version: int) -> Iterator[str]:
    """Yield the entries of an access list that together are one rule."""
    protocols = ["ip" if version == 4 else "ipv6"]
    if conditions.protocols is not None:
        protocols = sorted(conditions.protocols)
    points = [""]
    if conditions.dscp is not None:
        points = [f" dscp {dscp_name(dscp)}" for dscp in sorted(conditions.dscp)]
    for protocol, source, port, destination, to, dscp in product(
        protocols,
        _addresses(conditions.source, version),
        _ports(conditions.source_ports),
        _addresses(conditions.destination, version),
        _ports(conditions.destination_ports),
        points,
    ):
        verb = "permit" if permit else "deny"
        yield f"{verb} {protocol} {source}{port} {destination}{to}{dscp}"


def _addresses(networks: Sequence[Network] | None, version: int) -> list[str]:
    if networks is None:
        return ["any"]
    return [_address(each) for each in networks if each.version == version]


def _address(network: Network) -> str:
    if network.prefixlen == 0:
        return "any"
    if network.prefixlen == network.max_prefixlen:
        return f"host {network.network_address}"
    if isinstance(network, IPv4Network):
        return f"{network.network_address} {network.hostmask}"
    return str(network)


def _ports(ports: Ports | None) -> list[str]:
    if ports is None:
        return [""]
    return [f" eq {low}" if low == high else f" range {low} {high}" for low, high in ports]
