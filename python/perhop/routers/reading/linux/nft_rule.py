"""Rules of nft: their conditions and statements.

Source: nft(8).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_network, summarize_address_range
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.linux import units
from perhop.routers.reading.linux.filters import ports_of
from perhop.routers.reading.linux.model import Test
from perhop.routers.reading.linux.u32 import PROTOCOLS
from perhop.routers.reading.matching import OF_VERSION, Conditions
from perhop.scenario.model.dscp import format_dscp, parse_dscp
from perhop.units import format_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.linux.ledger import Ledger

__all__ = ["ALL", "POLICE", "VERSIONS", "Rule", "read"]

POLICE: Final = frozenset({"police"})
VERSIONS: Final = {"ip": 4, "ip6": 6}
"""The versions of IP of families, and of fields of a header."""

ALL: Final = 0xFFFFFFFF
"""A mask of all bits of a mark."""

_UNITS: Final = {"bytes": 8, "kbytes": 8 * 1024, "mbytes": 8 * 1024 * 1024}
_PERIODS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
"""The units of time of limits, in seconds."""

_NAMES: Final = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmp"}
_OF_ICMP: Final = {1: OF_VERSION[4], 58: OF_VERSION[6]}
_META: Final = frozenset({"mark", "priority", "l4proto", "nfproto", "protocol"})
_NFPROTO: Final = {"ipv4": 4, "ip": 4, "ipv6": 6, "ip6": 6}

_UNCHANGED: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(slots=True)
class Rule:
    """A rule.

    `earlier` has the changes before its limit, `exceeding` the mark after it, and `kept` the bits
    of the mark that stay when it sets the mark. `arrives` is the interface by which its packets
    come, and `within` is true if its verdict is that of packets within its limit. `unread` says
    why the rule is not modelled, and `text` is its line. `words` are those that tell a rule of
    iptables which is deleted.
    """

    place: Place
    tests: list[Test] = field(default_factory=lambda: [Test()])
    device: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    verdict: str = ""
    to: str = ""
    earlier: Mapping[str, Any] = field(default_factory=lambda: _UNCHANGED)
    exceeding: int | None = None
    kept: int = 0
    arrives: str | None = None
    within: bool = False
    unread: str = ""
    text: str = ""
    words: tuple[object, ...] = ()

    def narrow(self, conditions: Conditions) -> None:
        """Require that packets satisfy these conditions, too."""
        self.tests = [replace(test, header=test.header & conditions) for test in self.tests]

    def exceed(self, dscp: int | None) -> None:
        """Set what its policer does to packets that exceed: it sends them, with a code point."""
        action = "send" if dscp is None else (("remark", format_dscp(dscp)),)
        self.changes["police"] = (*self.changes["police"][:2], ("exceed", action))


def read(rule: Rule, words: list[str], table: str, ledger: Ledger) -> None:
    """Read the conditions and statements of a rule of a table into it, left to right.

    Raises:
        IndexError: It ends too early.
        ValueError: A part of it is not modelled.
    """
    while words:
        word = words.pop(0)
        if word == ";":
            continue
        if word in ("accept", "drop", "return", "continue"):
            rule.verdict = word
        elif word == "reject":
            rule.verdict = "drop"
            words.clear()  # the ICMP error that it sends
        elif word in ("jump", "goto"):
            rule.verdict, rule.to = word, f"{table}/{words.pop(0)}"
        elif word == "counter":
            if words[:1] == ["name"]:
                del words[:2]
            elif words[:1] == ["packets"]:
                del words[:4]
        elif word in ("comment", "log"):
            del words[:1]
        elif word in ("oifname", "oif"):
            rule.device = _interface(word, words)
        elif word in ("iifname", "iif"):
            rule.arrives = _interface(word, words)
        elif word == "limit":
            _limit(rule, words)
        elif word == "ct" and words[:2] == ["state", "invalid"]:
            rule.tests = []  # no packet of a simulation is
            del words[:2]
        elif word in ("meta", "mark", "priority", "l4proto") or word in ("ip", "ip6", "th"):
            _field(rule, word, words, ledger)
        elif word in ("tcp", "udp"):
            rule.narrow(Conditions(protocols=frozenset({word})))
            _field(rule, "th", words, ledger)
        else:
            raise ValueError(f"`{word[:30]}`")
    if rule.arrives is not None and (rule.device is not None or rule.changes.keys() - POLICE):
        raise ValueError("`iifname`, but to police what arrives")


def _limit(rule: Rule, words: list[str]) -> None:
    if words[:1] != ["rate"]:
        raise ValueError(f"`limit {' '.join(words[:2])[:30]}`")
    rule.within = words[1] != "over"
    del words[: 1 if rule.within else 2]
    number, (unit, _, per) = units.number(words[0]), words[1].partition("/")
    if unit not in _UNITS or per not in _PERIODS or not number:
        raise ValueError(f"a limit in `{words[1][:20]}`")
    del words[:2]
    held, burst = number * _UNITS[unit] // 8, 0
    if words[:1] == ["burst"]:
        burst = units.number(words[1]) * _UNITS.get(words[2], 8) // 8
        del words[:3]
    # The bucket holds what the rate brings in its unit of time, too (nft_limit_init in Linux).
    rate = max(held * 8 // _PERIODS[per], 1)
    police: dict[str, Any] = {"rate": format_rate(rate), "burst": f"{held + burst} B"}
    rule.earlier = dict(rule.changes)
    rule.changes["police"] = tuple(police.items())


def _field(rule: Rule, word: str, words: list[str], ledger: Ledger) -> None:
    if word == "meta":
        word = words.pop(0)
    key = word if word in _META else f"{word} {words.pop(0)}"
    if word in VERSIONS:
        # nft asks for the version before the field, also where it sets the field.
        before, of_version = rule.tests, OF_VERSION[VERSIONS[word]]
        rule.narrow(of_version)
        if rule.changes and not all(of_version.contains(test.header) for test in before):
            note = f"what stands before `{key[:20]}` is for both versions of IP"
            ledger.approximated(rule.place, note)
    if words[0] == "set":
        del words[0]
        value = words.pop(0)
        if key == "priority":
            rule.changes["priority"] = units.classid(value) if ":" in value else int(value, 0)
        elif key == "mark":
            rule.changes["mark"] = units.number(value)
        elif key in ("ip dscp", "ip6 dscp"):
            rule.changes["dscp"] = _dscp(value)
        else:
            raise ValueError(f"`{key[:30]} set`")
        return
    negated = words[0] in ("!=", "ne")
    if words[0] in ("!=", "ne", "==", "eq"):
        del words[0]
    values = [words.pop(0)]
    if values == ["{"]:
        end = words.index("}")
        values = [each for each in words[:end] if each != ","]
        del words[: end + 1]
    if key == "mark":
        pairs = tuple((units.number(each), ALL) for each in values)
        rule.tests = [
            replace(test, negated=(*test.negated, *pairs))
            if negated
            else replace(test, marks=(*test.marks, pair))
            for test in rule.tests
            for pair in (pairs[:1] if negated else pairs)
        ]
        return
    if negated:
        raise ValueError(f"`{key[:30]} !=`")
    rule.narrow(_conditions(key, values))


def _dscp(word: str) -> int:
    return int(word, 16) & 63 if word.startswith("0x") else parse_dscp(word)


def _interface(word: str, words: list[str]) -> str:
    name = words.pop(0)
    if name in ("==", "eq"):
        name = words.pop(0)
    if name in ("!=", "ne", "{") or name.startswith(("@", "$")) or "*" in name:
        raise ValueError(f"`{word} {name[:20]}`")
    return name.strip('"')


def _networks(values: Iterable[str]) -> tuple[Any, ...]:
    found: list[Any] = []
    for each in values:
        first, dash, last = each.partition("-")
        if dash:
            found += summarize_address_range(ip_address(first), ip_address(last))
        else:
            found.append(ip_network(each, strict=False))
    return tuple(found)


def _conditions(key: str, values: list[str]) -> Conditions:
    match key:
        case "nfproto" | "protocol":
            versions = {_NFPROTO.get(each, 0) for each in values}
            if len(versions) != 1 or 0 in versions:
                raise ValueError(f"`meta {key} {values[0][:20]}`")
            return OF_VERSION[versions.pop()]
        case "ip dscp" | "ip6 dscp":
            return Conditions(dscp=frozenset(_dscp(each) for each in values))
        case "l4proto" | "ip protocol" | "ip6 nexthdr":
            some = [PROTOCOLS.get(each) or int(each, 0) for each in values]
            found = Conditions(protocols=frozenset(_NAMES[n] for n in some if n in _NAMES))
            return found & _OF_ICMP[some[0]] if len(some) == 1 and some[0] in _OF_ICMP else found
        case "ip saddr" | "ip6 saddr":
            return Conditions(source=_networks(values))
        case "ip daddr" | "ip6 daddr":
            return Conditions(destination=_networks(values))
        case "th sport":
            return Conditions(source_ports=tuple(p for each in values for p in ports_of(each)))
        case "th dport":
            return Conditions(destination_ports=tuple(p for each in values for p in ports_of(each)))
    raise ValueError(f"`{key[:30]}`")
