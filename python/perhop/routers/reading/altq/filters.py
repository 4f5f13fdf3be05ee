"""Filters of altq.conf, in the order in which ALTQ compares packets with them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Network
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.altq.interface import Filter, Interface
from perhop.routers.reading.altq.values import count, network, port, tos_dscps
from perhop.routers.reading.conditions import PROTOCOLS
from perhop.routers.reading.matching import OF_VERSION, Conditions, Network
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perhop.routers.reading.altq.ledger import Ledger, Statement
    from perhop.routers.reading.altq.nodes import Entry

_OF_V6: Final = dict.fromkeys(("ipv6-icmp", "58"), "icmp")
NO_PROTOCOL: Final = "perhop has TCP, UDP and ICMP only"


class FilterError(Exception):
    """A filter that perhop does not have; the message says why."""


def read(ledger: Ledger, interface: Interface, statement: Statement, words: Sequence[str]) -> None:
    """Read a filter, after the name of its interface."""
    target = words[0] if words else ""
    node = interface.nodes.get(target)
    if node is None and target in interface.lost:
        ledger.ignored(statement, f"the class or conditioner {quote(target)} is not modelled")
        return
    if node is None and target not in interface.conditioners:
        reason = f"can't add filter to class '{target}' on interface "
        ledger.refused(
            statement, f"{reason}'{interface.device.interface}', as no class is {target}"
        )
        return
    try:
        number, conditions = _parse(words[1:], version=6 if statement.words[0] == "filter6" else 4)
    except FilterError as error:
        ledger.ignored(statement, str(error))
        return
    found = Filter(statement, conditions, target, number, node)
    (interface.conditioned if node is None else interface.filters).append(found)


def entries(filters: Sequence[Filter]) -> list[Entry]:
    """Return filters of classes as ALTQ tries them (`acc_add_filter`, `acc_classify`)."""
    return [(each.conditions, each.node) for each in ordered(filters) if each.node is not None]


def ordered(filters: Iterable[Filter]) -> list[Filter]:
    """Return filters in the order in which ALTQ tries them.

    Those of a single destination come first, then larger numbers, then later ones.
    """
    found = list(filters)[::-1]
    found.sort(key=lambda each: (not _is_host(each.conditions.destination), -each.number))
    return found


def _is_host(networks: tuple[Network, ...] | None) -> bool:
    return networks is not None and any(
        isinstance(each, IPv4Network) and each.prefixlen == 32 for each in networks
    )


def _parse(words: Sequence[str], *, version: int) -> tuple[int, Conditions]:
    todo = list(words)
    number = 0
    while todo[:1] in (["name"], ["ruleno"]):
        if todo[0] == "ruleno":
            value = count(todo[1].removeprefix("-")) if len(todo) > 1 else None
            number = (value or 0) * (-1 if todo[1:] and todo[1].startswith("-") else 1)
        del todo[:2]
    destination = _address(todo, version)
    destination_port = _port(todo)
    source = _address(todo, version)
    source_port = _port(todo)
    if not todo:
        raise FilterError("a value is missing: expected destination, port, source, port, protocol")
    protocol = todo.pop(0)
    protocols = None
    if protocol != "0":
        known = PROTOCOLS | (_OF_V6 if version == 6 else {})
        if protocol not in known:
            raise FilterError(f"protocol {quote(protocol)}: {NO_PROTOCOL}")
        protocols = frozenset((known[protocol],))
    dscp = None
    while todo:
        word = todo.pop(0)
        if word in ("tos", "tclass"):
            value, mask = count(todo.pop(0)) if todo else None, 0xFF
            if todo[:1] in (["tosmask"], ["tclassmask"]):
                mask = (count(todo[1]) if len(todo) > 1 else None) or 0
                del todo[:2]
            if value is None or value > 0xFF:
                raise FilterError("the type of service is no octet")
            if value:
                dscp = tos_dscps(value & mask, mask)
        elif word != "dontwarn":
            raise FilterError(f"{quote(word)} is not modelled")
    found = Conditions(dscp, protocols, source, destination, source_port, destination_port)
    # A filter of either version takes no packets of the other (`apply_filter4`, `apply_filter6`).
    return number, found & OF_VERSION[version]


def _address(todo: list[str], version: int) -> tuple[Network, ...] | None:
    """Take an address with its mask; 0 is any."""
    if not todo:
        raise FilterError("an address is missing")
    word = todo.pop(0)
    mask = ""
    if todo[:1] == ["netmask"]:
        mask = todo[1] if len(todo) > 1 else "?"
        del todo[:2]
    if word == "0" and version == 4:
        return None
    if word in ("::0", "::", "0", "::/0"):
        return (IPv6Network("::/0"),)
    found = network(word if version == 6 or "/" not in word else "?")
    if found is None or found.version != version:
        raise FilterError(f"the address of {quote(word)} is not in the configuration")
    if mask and isinstance(found, IPv4Network):
        bits = _mask(mask)
        if bits is None:
            raise FilterError(f"{quote(mask)} is no mask of a prefix")
        if not bits:
            return None
        found = IPv4Network((int(found.network_address), bits), strict=False)
    return (found,)


def _mask(text: str) -> int | None:
    """Return the length of the prefix that a mask leaves; None if it leaves none."""
    value = count(text) if not text.startswith("0x") else None
    if text[:2] == "0x" and len(text) <= 10:
        try:
            value = int(text, 16)
        except ValueError:
            return None
    elif value is None:
        try:
            value = int(IPv4Address(text))
        except ValueError:
            return None
    bits = value.bit_count() if value is not None else 0
    return bits if value == (0xFFFFFFFF << (32 - bits)) & 0xFFFFFFFF else None


def _port(todo: list[str]) -> tuple[tuple[int, int], ...] | None:
    """Take a port; 0 is any."""
    if not todo:
        raise FilterError("a port is missing")
    word = todo.pop(0)
    value = port(word)
    if value is None:
        raise FilterError(f"{quote(word)} is not a port that perhop knows")
    return ((value, value),) if value else None
