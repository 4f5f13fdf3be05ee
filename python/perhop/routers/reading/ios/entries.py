"""Entries of access lists."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Network
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.configuration import Fault
from perhop.routers.reading.ios.addresses import one, wildcard
from perhop.routers.reading.ios.numbers import dscp, precedence, whole
from perhop.routers.reading.ios.ports import port, ranges
from perhop.routers.reading.matching import Conditions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading.ios.account import Account
    from perhop.routers.reading.ios.groups import Groups, Service
    from perhop.routers.reading.ios.tree import Statement
    from perhop.routers.reading.matching import Networks, Ports, Rule

_EVERY_IPV6: Final = (IPv6Network("::/0"),)
_MODELLED: Final = {
    word: frozenset({name})
    for name, number in (("tcp", "6"), ("udp", "17"), ("icmp", "1"))
    for word in (name, number)
}
_EVERY: Final = frozenset({"ip", "ipv4", "ipv6"})
_OTHER: Final = frozenset(
    word
    for words in (
        "ahp ah eigrp esp gre igmp igrp ipinip nos ospf pcp pim sctp hbh mobility",
        "rsvp vrrp l2tp",
    )
    for word in words.split()
)
_SERVICES: Final = {
    "normal": 0,
    "min-monetary-cost": 1,
    "max-reliability": 2,
    "max-throughput": 4,
    "min-delay": 8,
}
_BITS: Final = frozenset({"ack", "fin", "psh", "rst", "syn", "urg", "established"})


class _UnreadableError(Exception):
    """The entry cannot be stated as conditions; the message says why."""

    fault: Fault | None = None


class _UndefinedError(_UnreadableError):
    """The entry names a group that the configuration does not define."""

    fault = Fault.UNDEFINED


class Entry:
    """One entry, which is read word by word."""

    def __init__(
        self,
        statement: Statement,
        words: Sequence[str],
        account: Account,
        groups: Groups,
        *,
        standard: bool,
        every: Networks | None,
    ) -> None:
        """Begin at the first word; entries of `standard` lists have a source only.

        `every` are the addresses that `any` stands for; None for those of both versions.
        """
        self._standard = standard
        self._every = every
        self._statement = statement
        self._account = account
        self._groups = groups
        self._words = [word.lower() for word in words]
        self._spelt = list(words)
        self._at = 0
        self._notes: list[str] = []

    def rules(self) -> list[Rule]:
        """Return the rules that the entry stands for; none if it is not modelled or a remark."""
        try:
            rules = self._rules()
        except _UnreadableError as error:
            self._account.not_modelled(self._statement, str(error), error.fault)
            return []
        for note in dict.fromkeys(self._notes):
            self._account.approximated(self._statement, note)
        return rules

    def _rules(self) -> list[Rule]:
        if self._word() == "sequence":
            self._next()
        if self._word().isdigit():
            self._next()
        action = self._next()
        if action == "remark":
            return []
        if action not in ("permit", "deny"):
            raise _UnreadableError("unknown statement")
        permit = action == "permit"
        if self._standard:
            source = self._network()
            self._options({})
            return [(permit, Conditions(source=source))]
        return [(permit, each) for each in self._extended()]

    def _extended(self) -> list[Conditions]:
        services: list[Service] | None = None
        protocols: frozenset[str] | None = None
        if self._word() == "object-group":
            self._next()
            name = self._spelt[self._at] if self._at < len(self._spelt) else ""
            self._next()
            services = self._groups.services(name)
            if services is None:
                raise _UndefinedError(f"no object group {name} of services")
        else:
            protocols = self._protocol(self._next())
        values: dict[str, Any] = {}
        values["source"] = self._network()
        source_ports = self._ports()
        values["destination"] = self._network()
        destination_ports = self._ports()
        self._options(values)
        if services is None:
            values["source_ports"] = source_ports
            values["destination_ports"] = destination_ports
            return [Conditions(protocols=protocols, **values)]
        return [
            Conditions(
                protocols=None if service.protocol is None else frozenset({service.protocol}),
                source_ports=service.source,
                destination_ports=service.destination,
                **values,
            )
            for service in services
        ]

    def _protocol(self, word: str) -> frozenset[str] | None:
        if word in _EVERY:
            return None
        if word in _MODELLED:
            return _MODELLED[word]
        if word in _OTHER or word.isdigit():
            raise _UnreadableError(f"scenarios have no packets of protocol {word}")
        raise _UnreadableError(f"unknown protocol {word or 'at the end of the line'}")

    def _network(self) -> Networks | None:
        """Read an address; None for any."""
        word = self._next()
        if word in ("any", "any4", "any6"):
            return _EVERY_IPV6 if word == "any6" else self._every
        if word in ("object-group", "addrgroup"):
            name = self._spelt[self._at] if self._at < len(self._spelt) else ""
            self._next()
            networks = self._groups.networks(name)
            if networks is None:
                raise _UndefinedError(f"no object group {name} of addresses")
            return networks
        if word == "host":
            word = self._next()
            return self._one(word)
        if "/" in word or ":" in word:
            return self._one(word)
        follows = self._word()
        if self._standard and not _is_address(follows):
            return self._one(word)
        self._next()
        networks = wildcard(word, follows)
        if networks is None:
            raise _UnreadableError("an address or wildcard mask that is none, or too many prefixes")
        return networks

    def _one(self, word: str) -> Networks:
        try:
            return one(word)
        except ValueError:
            raise _UnreadableError(f"{word or 'the end of the line'} is no address") from None

    def _ports(self) -> Ports | None:
        word = self._word()
        if word == "object-group" and self._at + 1 < len(self._words):
            name = self._spelt[self._at + 1]
            ports = self._groups.ports(name)
            if ports is None:
                return None  # a group of addresses: that of the destination
            self._at += 2
            return ports
        if word not in ("eq", "neq", "lt", "gt", "range"):
            return None
        self._next()
        found: list[int] = []
        while (value := port(self._word())) is not None:
            found.append(value)
            self._next()
            if word in ("lt", "gt") or (word == "range" and len(found) == 2):
                break
        ports = ranges(word, found)
        if ports is None:
            raise _UnreadableError(f"unknown port {self._word() or 'at the end of the line'}")
        return ports

    def _options(self, values: dict[str, Any]) -> None:
        """Read what follows the addresses."""
        points: frozenset[int] = frozenset(range(64))
        while self._at < len(self._words):
            word = self._next()
            if word == "dscp" and (value := dscp(self._word())) is not None:
                points &= {value}
            elif word == "precedence" and (value := precedence(self._word())) is not None:
                points &= frozenset(range(8 * value, 8 * value + 8))
            elif word == "tos" and (value := _service(self._word())) is not None:
                points &= {point for point in range(64) if point & 7 == value >> 1}
                if value & 1:
                    self._notes.append("the lowest bit of TOS is part of ECN, and is not compared")
            elif word in ("log", "log-input"):
                if self._at < len(self._words) and not _is_option(self._word()):
                    self._at += 1
                continue
            elif word == "sequence" and self._word().isdigit():
                pass
            elif word == "fragments":
                raise _UnreadableError("scenarios have no fragments")
            elif word == "time-range":
                name = "".join(self._spelt[self._at : self._at + 1])
                self._notes.append(f"always, and not only in time range {name}")
            elif word in _BITS or word in ("match-all", "match-any") or word[:1] in "+-":
                self._notes.append("all packets of TCP, whatever their flags")
                continue
            elif "icmp" in self._words:
                self._notes.append("all packets of ICMP, whatever their type")
                self._at = len(self._words)
            elif word in ("reflect", "timeout", "option", "ttl", "routing", "flow-label"):
                raise _UnreadableError(f"{word} is not modelled")
            else:
                raise _UnreadableError(f"unknown word {word}")
            self._at += 1
        if len(points) < 64:
            values["dscp"] = points

    def _word(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _next(self) -> str:
        word = self._word()
        self._at += 1
        return word


def _is_address(word: str) -> bool:
    try:
        IPv4Address(word)
    except ValueError:
        return False
    return True


def _service(word: str) -> int | None:
    value = _SERVICES.get(word)
    return whole(word, 0, 15) if value is None else value


def _is_option(word: str) -> bool:
    return word in _BITS or word in (
        "dscp",
        "precedence",
        "tos",
        "log",
        "log-input",
        "fragments",
        "time-range",
    )
