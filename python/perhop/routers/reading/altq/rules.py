"""Rules of pf.conf that pass or block packets, with the queues that they assign."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.altq.filters import NO_PROTOCOL
from perhop.routers.reading.altq.prefixes import MAX_NETWORKS, complement
from perhop.routers.reading.altq.syntax import bare, items
from perhop.routers.reading.altq.values import network, port, tos, tos_dscps
from perhop.routers.reading.conditions import OF_VERSION, PROTOCOLS
from perhop.routers.reading.matching import Conditions
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop.routers.reading.altq.ledger import Statement
    from perhop.routers.reading.altq.prefixes import Networks
    from perhop.routers.reading.matching import Network

Ports = tuple[tuple[int, int], ...]

_SKIPPED: Final = {
    "log": 0, "quick": 0, "flags": 1, "label": 1, "tag": 1, "allow-opts": 0, "rtable": 1,
    "keep": 1, "modulate": 1, "synproxy": 1, "all": 0, "ridentifier": 1, "tracker": 1, "scrub": 0,
    "static-port": 0, "bitmask": 0, "random": 0, "round-robin": 0, "source-hash": 0,
    "sticky-address": 0, "least-states": 0,
    "drop": 0, "return": 0, "return-rst": 0, "return-icmp": 0, "return-icmp6": 0,
}  # fmt: skip
"""Options that change no queue, and the number of words that follow each."""

_TRANSLATIONS: Final = {"nat-to": 1, "rdr-to": 1, "binat-to": 1, "af-to": 1}
"""Options with an address, which a port may follow, and the number of words that follow each."""

_ELSEWHERE: Final = {
    "route-to": 1, "reply-to": 1, "dup-to": 1, "fastroute": 0, "divert-to": 1, "divert-packet": 2,
    "divert-reply": 0,
}  # fmt: skip
"""Options that lead packets elsewhere, and the number of words that follow each."""

_PIPES: Final = ("dnpipe", "dnqueue")
"""Options that lead packets through dummynet."""

_CONDITIONS: Final = {
    "tagged": 1, "user": 1, "group": 1, "os": 1, "probability": 1, "received-on": 1,
    "fragment": 0, "icmp-type": 1, "icmp6-type": 1, "code": 1, "prio": 1, "!": 0,
    "once": 0, "max-pkt-rate": 1,
}  # fmt: skip
"""Conditions that perhop does not have, and the number of words that follow each."""

_ICMP_TYPES: Final = ("icmp-type", "icmp6-type", "code")


class RuleError(Exception):
    """A rule that perhop does not have; the message says why."""


@dataclass(slots=True)
class Rule:
    """A rule that passes packets, or blocks them.

    Attributes:
        statement: Its statement.
        direction: `in`, `out`, or "" for both.
        interfaces: The interfaces that it names; empty for all.
        others: Whether it applies to all other interfaces instead.
        quick: Whether no later rule decides.
        matches: Whether it is a `match` rule.
        blocks: Whether it is a `block` rule.
        stateful: Whether replies follow it.
        queue: The queue that it assigns; "" for none.
        urgent: The queue of packets with low delay, and of empty acknowledgements.
        conditions: Its packets.
        octets: The types of service that it compares with.
        translates: Whether it changes an address of its packets.
        notes: How its conditions are approximated.
    """

    statement: Statement
    direction: str = ""
    interfaces: tuple[str, ...] = ()
    others: bool = False
    quick: bool = False
    matches: bool = False
    blocks: bool = False
    stateful: bool = True
    queue: str = ""
    urgent: str = ""
    conditions: Conditions = field(default_factory=Conditions)
    octets: frozenset[int] = frozenset()
    translates: bool = False
    notes: list[str] = field(default_factory=list)

    def at(self, interface: str) -> bool:
        """Return whether the rule applies at an interface."""
        if not self.interfaces:
            return True
        named = any(
            interface == each
            or each == "egress"
            or (is_group(each) and interface.rstrip("0123456789") == each)
            for each in self.interfaces
        )
        return named != self.others

    def elsewhere(self, interface: str) -> bool:
        """Return whether the rule names other interfaces than one."""
        if not self.interfaces:
            return False
        return self.others or not self.at(interface) or any(n != interface for n in self.interfaces)

    def covers(self, other: Rule) -> bool:
        """Return whether it applies to all packets of another rule, wherever that applies."""
        everywhere = not self.interfaces or {*other.interfaces} <= {*self.interfaces}
        same = (self.others, self.direction) == (other.others, other.direction)
        anyhow = not self.interfaces and self.direction in ("", other.direction)
        return everywhere and (same or anyhow) and self.conditions.contains(other.conditions)

    def packets(self, *, reply: bool) -> Conditions:
        """Return its packets, or those of the replies to them."""
        if not reply:
            return self.conditions
        own = self.conditions
        return Conditions(
            None,
            own.protocols,
            own.destination,
            own.source,
            own.destination_ports,
            own.source_ports,
        )


@dataclass(slots=True)
class _Reading:
    """A rule while its words are read."""

    rule: Rule
    words: list[str]
    tables: Mapping[str, Networks | None]
    at: int = 0
    protocols: frozenset[str] | None = None
    versions: set[int] = field(default_factory=lambda: {4, 6})
    dscp: frozenset[int] | None = None
    source: Networks | None = None
    destination: Networks | None = None
    source_ports: Ports | None = None
    destination_ports: Ports | None = None

    def next(self) -> str:
        self.at += 1
        return bare(self.words[self.at - 1]) if self.at <= len(self.words) else ""

    def items(self) -> list[str]:
        found, self.at = items(self.words, self.at)
        return found

    def parenthesis(self) -> list[str]:
        """Take what is in parentheses, if they are next."""
        found: list[str] = []
        if self.words[self.at : self.at + 1] == ["("]:
            depth = 0
            while self.at < len(self.words):
                word = self.next()
                depth += (word == "(") - (word == ")")
                if not depth:
                    break
                if word not in ("(", ","):
                    found.append(word)
        return found

    def arguments(self, count: int, *, port: bool = True) -> None:
        """Take the words that follow an option, with what is in parentheses around them."""
        self.parenthesis()
        for _ in range(count):
            self.items()
        self.parenthesis()
        if port and self.words[self.at : self.at + 1] == ["port"]:
            self.at += 1
            self.items()


def is_group(name: str) -> bool:
    """Return whether a name is one of a group of interfaces, such as those of a driver."""
    return name.isalpha()


def parse(statement: Statement, words: list[str], tables: Mapping[str, Networks | None]) -> Rule:
    """Read a rule, with macros replaced.

    Raises:
        RuleError: perhop does not have one of its conditions.
    """
    rule = Rule(statement, matches=words[0] == "match", blocks=words[0] == "block")
    reading = _Reading(rule, words, tables, at=1)
    while reading.at < len(words):
        _option(reading, reading.next())
    rule.conditions = Conditions(
        reading.dscp,
        reading.protocols,
        reading.source,
        reading.destination,
        reading.source_ports,
        reading.destination_ports,
    )
    versions = reading.versions
    if reading.destination is not None:
        versions &= {each.version for each in reading.destination}
    for version, other in ((4, 6), (6, 4)):
        if version not in versions:
            rule.conditions &= OF_VERSION[other]
    return rule


def _option(reading: _Reading, word: str) -> None:
    rule = reading.rule
    match word:
        case "keep":
            reading.next()
            reading.parenthesis()
        case "in" | "out":
            rule.direction = word
        case "on":
            rule.others = reading.words[reading.at : reading.at + 1] == ["!"]
            reading.at += rule.others
            rule.interfaces = tuple(name for name in reading.items() if name != "any")
        case "quick":
            rule.quick = True
        case "inet" | "inet6":
            reading.versions &= {6 if word == "inet6" else 4}
        case "proto":
            _protocols(reading)
        case "from":
            reading.source = _addresses(reading)
            reading.source_ports = _ports(reading)
        case "to":
            reading.destination = _addresses(reading)
            reading.destination_ports = _ports(reading)
        case "tos":
            values = [tos(text) for text in reading.items()]
            octets = [value for value in values if value is not None]
            if not octets or len(octets) != len(values):
                raise RuleError("its type of service is not understood")
            if 0 in octets:
                return  # pf takes 0 for no condition
            rule.octets = frozenset(octets)
            reading.dscp = frozenset(dscp for octet in octets for dscp in tos_dscps(octet))
        case "queue":
            _queue(reading)
        case "set":
            _settings(reading)
        case "no":
            rule.stateful = reading.next() != "state"
        case _ if word in _CONDITIONS:
            for _ in range(_CONDITIONS[word]):
                reading.items()
            if word not in _ICMP_TYPES:
                raise RuleError(f"perhop has no condition {quote(word)}")
            rule.notes.append("the type of ICMP is not modelled: all ICMP packets match")
        case _ if word in _PIPES:
            reading.parenthesis() or reading.items()
            rule.notes.append("pipes of dummynet are not modelled")
        case _ if word in _ELSEWHERE:
            reading.arguments(_ELSEWHERE[word])
            rule.notes.append("routes of rules are not modelled")
        case _ if word in _TRANSLATIONS:
            reading.arguments(_TRANSLATIONS[word])
            rule.translates = True
        case _ if word in _SKIPPED:
            reading.arguments(_SKIPPED[word], port=False)
        case "port":
            raise RuleError("its port belongs to neither `from` nor `to`")
        case "(":
            reading.at -= 1
            reading.parenthesis()
        case _ if word not in (",", "{", "}", ")", "@", "state"):
            rule.notes.append(f"{quote(word)} is not modelled")


def _queue(reading: _Reading) -> None:
    """Take a queue, or a pair of queues."""
    pair = reading.parenthesis()
    if pair:
        reading.rule.queue = pair[0]
        reading.rule.urgent = pair[1] if len(pair) > 1 else ""
    else:
        reading.rule.queue = reading.next()


def _settings(reading: _Reading) -> None:
    """Take the settings of OpenBSD: ``set queue web``, ``set (queue web, prio 5)``."""
    inner = reading.words[reading.at : reading.at + 1] == ["("]
    reading.at += inner
    while reading.at < len(reading.words):
        word = reading.next()
        if word == "queue":
            _queue(reading)
        elif word == "prio":
            if not reading.parenthesis():
                reading.next()
            reading.rule.notes.append("priorities of packets (`set prio`) are not modelled")
        elif word == "tos":
            reading.next()
            reading.rule.notes.append("setting the code point in a rule is not modelled")
        elif word == "delay":
            reading.next()
            reading.rule.notes.append("delays of rules (`set delay`) are not modelled")
        if not inner or word == ")":
            return


def _protocols(reading: _Reading) -> None:
    found = set()
    versions = set()
    """The versions of IP of the kinds of ICMP."""
    for word in reading.items():
        if PROTOCOLS.get(word) == "icmp":
            versions.add(4)
        elif word in ("icmp6", "ipv6-icmp", "58"):
            versions.add(6)
        elif word in PROTOCOLS:
            found.add(PROTOCOLS[word])
    if not (found or versions):
        raise RuleError(f"its protocol: {NO_PROTOCOL}")
    reading.protocols = frozenset(found | ({"icmp"} if versions else set()))
    if versions and not found:
        reading.versions &= versions
    elif versions and not reading.versions <= versions:
        reading.rule.notes.append("ICMP of both versions of IP matches beside other protocols")


def _addresses(reading: _Reading) -> Networks | None:
    """Take addresses; None for any."""
    words, start = reading.words, reading.at
    if start < len(words) and words[start] == "port":
        return None
    negated = words[start : start + 1] == ["!"]
    reading.at += negated
    if words[reading.at : reading.at + 1] == ["("]:
        texts = [f"({' '.join(reading.parenthesis())})"]
    else:
        texts = reading.items()
    if len(texts) > MAX_NETWORKS:
        raise RuleError(f"it has more than {MAX_NETWORKS} addresses")
    if words[reading.at : reading.at + 1] == ["-"]:
        raise RuleError("perhop has no ranges of addresses")
    found: list[Network] = []
    unknown = False
    not_next = negated
    for text in texts:
        if text in ("!", "(", ")"):
            not_next = not_next or text == "!"
            unknown = unknown or text == "("
            continue
        some = _networks(reading, text)
        if some is None and not_next:
            raise RuleError(f"the address of {quote(text)} is not in the configuration")
        if some is None:
            unknown = True
        else:
            # An address is of one version; packets of the other one are in no table without it.
            versions = {4, 6} if text[:1] == "<" else {each.version for each in some}
            found += complement(some, versions) if not_next else some
        not_next = negated
    if unknown or len(found) > MAX_NETWORKS:
        return None
    return tuple(found)


def _networks(reading: _Reading, text: str) -> Networks | None:
    """Return the prefixes of an address; None for any."""
    if text == "any":
        return None
    if text[:1] == "<":
        known = reading.tables.get(text[1:-1])
        if known is None:
            raise RuleError(f"the addresses of table {quote(text)} are not in the configuration")
        return known
    found = network(text)
    if found is not None:
        return (found,)
    name = text.strip("()").partition(":")[0]
    if name[-1:].isdigit() or text[:1] == "(" or ":" in text or name in ("self", "egress"):
        reading.rule.notes.append(
            f"the address of {quote(name)} is not in the configuration: any address matches"
        )
        return None
    raise RuleError(f"the address of {quote(text)} is not in the configuration")


def _ports(reading: _Reading) -> Ports | None:
    """Take ports, if a condition on them is next; None for any."""
    if reading.words[reading.at : reading.at + 1] != ["port"]:
        return None
    reading.at += 1
    words = list(reading.words[reading.at : reading.at + 3])
    if words[:1] == ["{"]:
        texts = reading.items()
    else:
        taken = 1
        if words[:1] in (["="], ["!="], ["<"], [">"], ["<="], [">="]):
            taken = 2
        elif words[1:2] in (["><"], ["<>"]):
            taken = 3
        reading.at += taken
        texts = [bare(each) for each in words[:taken]]
    found: list[tuple[int, int]] = []
    index = 0
    while index < len(texts):
        text, index = texts[index], index + 1
        if text in ("=", "!=", "<", ">", "<=", ">="):
            first, index = _port(texts[index] if index < len(texts) else ""), index + 1
            found += {
                "=": ((first, first),),
                "!=": ((0, first - 1), (first + 1, 65535)),
                "<": ((0, first - 1),),
                "<=": ((0, first),),
                ">": ((first + 1, 65535),),
                ">=": ((first, 65535),),
            }[text]
        elif texts[index : index + 1] in (["><"], ["<>"]):
            low, high = _port(text), _port(texts[index + 1] if index + 1 < len(texts) else "")
            within = texts[index] == "><"
            found += ((low + 1, high - 1),) if within else ((0, low - 1), (high + 1, 65535))
            index += 2
        else:
            low_text, colon, high_text = text.partition(":")
            low = _port(low_text) if low_text else 0
            found.append((low, (_port(high_text) if high_text else 65535) if colon else low))
    return tuple((low, high) for low, high in found if low <= high)


def _port(text: str) -> int:
    value = port(text)
    if value is None:
        raise RuleError(f"{quote(text)} is not a port that perhop knows")
    return value
