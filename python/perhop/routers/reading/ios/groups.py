"""Object groups: named addresses and services that access lists refer to."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, ip_network, summarize_address_range
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.ios.addresses import prefix
from perhop.routers.reading.ios.ports import port, ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading.ios.account import Account
    from perhop.routers.reading.ios.tree import Statement
    from perhop.routers.reading.matching import Networks, Ports

MAX_MEMBERS: Final = 4096
"""The most members of a group, those of nested groups included."""


@dataclass(frozen=True, slots=True)
class Service:
    """A protocol with ports; None for any."""

    protocol: str | None = None
    source: Ports | None = None
    destination: Ports | None = None


class Groups:
    """The object groups of a configuration; the account has those that are used."""

    def __init__(self, statements: Sequence[Statement], account: Account) -> None:
        """Find the groups among the statements of the top level."""
        self._account = account
        self._members: dict[str, list[Statement]] = {}
        self._headers: dict[str, list[Statement]] = {}
        self._kinds: dict[str, str] = {}
        self._networks: dict[str, Networks] = {}
        self._services: dict[str, list[Service]] = {}
        for statement in statements:
            if statement.kind == "object-group" and len(statement.words) > 1:
                addresses = statement.starts("object-group", "ip", "address")
                named = len(statement.words) > 2
                name = statement.words[-1 if addresses else 2 if named else 1]
                kind = statement.word(1) if named and not addresses else "network"
                self._kinds[name] = kind
                self._headers.setdefault(name, []).append(statement)
                self._members.setdefault(name, []).extend(statement.children)

    def networks(self, name: str) -> Networks | None:
        """Return the addresses of a group; None if there is no such group of addresses."""
        if self._kinds.get(name) not in ("network", "v4-network", "v6-network"):
            return None
        if name not in self._networks:
            found: list[Networks] = []
            for member in self._all(name):
                networks = _networks(member)
                if networks is None:
                    self._account.not_modelled(member, "no address that can be read")
                else:
                    found.append(networks)
            self._networks[name] = tuple(each for networks in found for each in networks)
        return self._networks[name]

    def services(self, name: str) -> list[Service] | None:
        """Return the services of a group; None if there is no such group of services."""
        if self._kinds.get(name) != "service":
            return None
        if name not in self._services:
            found: list[Service] = []
            for member in self._all(name):
                services = _service(member)
                if services is None:
                    self._account.not_modelled(member, "no service that scenarios have")
                else:
                    found += services
            self._services[name] = found
        return self._services[name]

    def ports(self, name: str) -> Ports | None:
        """Return the ports of a group of services, whatever their protocol; None if it is none."""
        if self._kinds.get(name) not in ("service", "port"):
            return None
        services = self.services(name) or []
        return tuple(each for service in services for each in service.destination or ())

    def _all(self, name: str) -> list[Statement]:
        """Return the members of a group and of the groups that it contains."""
        found: list[Statement] = []
        seen = {name}
        todo = [name]
        while todo:
            current = todo.pop()
            for header in self._headers[current]:
                self._account.modelled(header)
            for member in self._members[current]:
                self._account.modelled(member)
                if member.starts("group-object") and len(member.words) > 1:
                    inner = member.words[1]
                    if inner in self._headers and inner not in seen:
                        seen.add(inner)
                        todo.append(inner)
                    elif inner not in self._headers:
                        self._account.undefined(member, f"object group {inner}")
                elif not member.starts("description"):
                    found.append(member)
        for member in found[MAX_MEMBERS:]:
            self._account.not_modelled(member, f"more than {MAX_MEMBERS:,} members")
        return found[:MAX_MEMBERS]


def _networks(member: Statement) -> Networks | None:
    words = [word.lower() for word in member.words]
    if words and words[0].isdigit() and len(words) > 1:
        words = words[1:]
    if words[:1] == ["network-object"]:
        words = words[1:]
    try:
        match words:
            case ["any"]:
                return (ip_network("0.0.0.0/0"),)
            case ["host", address]:
                return (ip_network(address),)
            case ["range", low, high]:
                return tuple(summarize_address_range(IPv4Address(low), IPv4Address(high)))
            case [address, mask]:
                return prefix(address, mask)
            case [address]:
                return (ip_network(address, strict=False),)
    except (ValueError, TypeError):
        pass
    return None


def _service(member: Statement) -> list[Service] | None:
    words = [word.lower() for word in member.words]
    if words[:1] == ["service-object"] or words[:1] == ["port-object"]:
        words = words[1:]
    protocols: list[str | None]
    match words[:1]:
        case ["tcp" | "udp" | "icmp" as protocol]:
            protocols = [protocol]
        case ["tcp-udp"]:
            protocols = ["tcp", "udp"]
        case ["ip"]:
            protocols = [None]
        case ["eq" | "gt" | "lt" | "range" | "neq"]:
            protocols, words = ["tcp", "udp"], ["", *words]
        case _:
            return None
    source: Ports | None = None
    destination: Ports | None = None
    rest = words[1:] if protocols != ["icmp"] else []
    if rest[:1] == ["source"]:
        source, rest = _ports(rest[1:])
        if source is None:
            return None
    if rest:
        destination, rest = _ports(rest)
        if destination is None or rest:
            return None
    return [Service(protocol, source, destination) for protocol in protocols]


def _ports(words: list[str]) -> tuple[Ports | None, list[str]]:
    """Return ports and the words after them."""
    operator = words[0] if words[:1] and words[0] in ("eq", "gt", "lt", "range", "neq") else "eq"
    values = words[1:] if words[:1] == [operator] else words
    count = 2 if operator == "range" else 1
    numbers = [port(word) for word in values[:count]]
    if None in numbers:
        return None, values
    return ranges(operator, [number for number in numbers if number is not None]), values[count:]
