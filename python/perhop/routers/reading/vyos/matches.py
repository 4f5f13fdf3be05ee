"""Conditions of VyOS' classes."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.conditions import PROTOCOLS
from perhop.routers.reading.configuration import Fault
from perhop.routers.reading.linux.model import Test
from perhop.routers.reading.matching import OF_VERSION, Conditions
from perhop.scenario.model.dscp import parse_dscp

if TYPE_CHECKING:
    from perhop.routers.reading.linux.ledger import Ledger
    from perhop.routers.reading.vyos.tree import Node

__all__ = ["dscp", "in_order", "test_of"]

_NAMES: Final = {
    "default": 0,
    "lowdelay": 4,
    "throughput": 2,
    "reliability": 1,
    "priority": 8,
    "immediate": 16,
    "flash": 24,
    "flash-override": 32,
    "internet": 48,
    "network": 56,
}
"""The code points of VyOS' names for octets of the type of service (`_dsfields`)."""

_CAPABLE: Final = ("mincost", "critical")
"""Names of octets with a code point of ECN, which packets must have, too."""

_OCTET: Final = (
    "a number stands for a DSCP, as documented; the script of VyOS 1.5 (2024) compares it with the "
    "whole octet of the type of service"
)

_OLD_SIX: Final = (
    "as documented; the script of VyOS 1.3 compares the traffic class with another number"
)
_OLD_ZERO: Final = "as documented; the script of VyOS 1.3 sets no condition for DSCP 0"

_PROTOCOLS: Final = PROTOCOLS | dict.fromkeys(("icmpv6", "ipv6-icmp", "58"), "icmp")
_OTHERS: Final = {
    "ether": "Ethernet addresses",
    "interface": "the interface of arrival",
    "vif": "the VLAN",
    "mark": "the mark of the firewall",
    "max-length": "the length of a packet",
    "tcp": "flags of TCP",
}


def in_order(each: Node, groups: Node | None, ledger: Ledger) -> list[Node]:
    """Return the matches of a class: its own, then those of its groups of matches."""
    found = each.each("match")
    seen: set[str] = set()
    todo = [(name, name.place) for name in reversed(each.each("match-group"))]
    while todo:
        name, place = todo.pop()
        group = groups.children.get(name.word) if groups is not None else None
        if group is None:
            note = f"there is no group of matches {name.word[:40]}"
            ledger.ignored(place, note, Fault.UNDEFINED)
        elif name.word not in seen:
            seen.add(name.word)
            group.used = True
            group.value("description")
            found += group.each("match")
            todo += [(inner, inner.place) for inner in reversed(group.each("match-group"))]
    return found


def test_of(match: Node, ledger: Ledger, *, older: bool) -> Test | None:
    """Return the conditions of a match; None if one of them is not modelled.

    Args:
        match: The match.
        ledger: What became of its lines.
        older: True for `traffic-policy` of VyOS 1.3 (`lib/Vyatta/Qos/Match.pm`).
    """
    header = Conditions()
    lost = not match.children
    for family in match.each():
        if family.word == "description":
            family.value()
            continue
        if family.word not in ("ip", "ipv6"):
            _lost(family, ledger)
            lost = True
            continue
        header &= OF_VERSION[6 if family.word == "ipv6" else 4]
        for condition in family.each():
            if condition.word not in ("dscp", "protocol", "source", "destination"):
                _lost(condition, ledger)
                lost = True
                continue
            try:
                header &= _header(condition)
                if note := _note(family.word, condition, older=older):
                    ledger.approximated(match.place, note)
            except ValueError as error:
                for node in condition.walk():
                    node.used = True
                    ledger.ignored(node.place, str(error)[:160])
                lost = True
    if lost:
        ledger.approximated(match.place, "the match leads no packets to its class")
        return None
    return Test(header)


def _note(family: str, condition: Node, *, older: bool) -> str:
    """Return how VyOS' script differs from its documentation; nothing where it does not."""
    word = (condition.text_of() or "").lower()
    if condition.word != "dscp":
        return ""
    if not older:
        return _OCTET if word.isdecimal() else ""
    if dscp(word) == 0:
        return _OLD_ZERO
    return _OLD_SIX if family == "ipv6" else ""


def _lost(node: Node, ledger: Ledger) -> None:
    what = _OTHERS.get(node.word, f"`{node.word[:30]}`")
    for each in node.walk():
        each.used = True
        ledger.ignored(each.place, f"a scenario has no condition on {what}")


def _header(condition: Node) -> Conditions:
    match condition.word:
        case "dscp":
            word = condition.text_of() or ""
            if word in _CAPABLE:
                raise ValueError(f"`{word}` asks for a code point of ECN: perhop matches none")
            return Conditions(dscp=frozenset({dscp(word)}))
        case "protocol":
            word = (condition.text_of() or "").lower()
            if word in ("all", "ip"):
                return Conditions()
            if word == "tcp_udp":
                return Conditions(protocols=frozenset({"tcp", "udp"}))
            if word.startswith("!"):  # the script gives it to tc as it is
                raise ValueError("tc has no match for all protocols but one")
            if word not in _PROTOCOLS:
                raise ValueError(f"a scenario has no packets of protocol `{word[:40]}`")
            return Conditions(protocols=frozenset({_PROTOCOLS[word]}))
    found = Conditions()
    address, port = condition.text_of("address"), condition.text_of("port")
    source = condition.word == "source"
    if address is not None:
        network = (ip_network(address, strict=False),)
        found &= Conditions(source=network) if source else Conditions(destination=network)
    if port is not None:
        ports = _ports(port)
        found &= Conditions(source_ports=ports) if source else Conditions(destination_ports=ports)
    return found


def dscp(word: str) -> int:
    """Return a code point by number or name; ValueError says what is wrong."""
    if word.lower() in _NAMES:
        return _NAMES[word.lower()]
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,2}", word):
        word = str(int(word, 16))
    return parse_dscp(word)


def _ports(text: str) -> tuple[tuple[int, int], ...]:
    names = {"http": "80", "https": "443", "ssh": "22", "domain": "53", "sip": "5060", "ftp": "21"}
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", names.get(part, part), re.ASCII)
        if match is None:
            raise ValueError(f"`{text[:40]}` is not a port")
        found.append((int(match[1]), int(match[2] or match[1])))
    return tuple(found)
