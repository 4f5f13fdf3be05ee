"""Rules of iptables that drop or mark packets, or give them a class or a code point.

Sources: iptables(8) and iptables-extensions(8). The table `nat` is not among them: only the first
packet of a connection passes it, and it may drop none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.linux import units
from perhop.routers.reading.linux.filters import Words, ports_of
from perhop.routers.reading.linux.model import Test
from perhop.routers.reading.linux.u32 import PROTOCOLS
from perhop.routers.reading.matching import OF_VERSION, Conditions
from perhop.scenario.model.dscp import parse_dscp

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HOOKS", "TABLES", "Parsed", "parse"]

HOOKS: Final = {
    name.upper(): name for name in ("prerouting", "input", "forward", "output", "postrouting")
}
"""The chains of the kernel, and the hooks of nftables that they are."""

TABLES: Final = {
    "raw": frozenset({"PREROUTING", "OUTPUT"}),
    "mangle": frozenset(HOOKS),
    "filter": frozenset({"INPUT", "FORWARD", "OUTPUT"}),
    "security": frozenset({"INPUT", "FORWARD", "OUTPUT"}),
}
"""The tables that all packets pass, and the chains of the kernel that each has."""

_ACTIONS: Final = {
    **dict.fromkeys(("-A", "--append"), "add"),
    **dict.fromkeys(("-I", "--insert"), "insert"),
    **dict.fromkeys(("-R", "--replace"), "replace"),
    **dict.fromkeys(("-D", "--delete"), "delete"),
    **dict.fromkeys(("-F", "--flush"), "flush"),
    **dict.fromkeys(("-P", "--policy"), "policy"),
}
_ALL: Final = 0xFFFFFFFF
_QUIET: Final = frozenset({"-v", "-n", "-w", "--wait", "--verbose", "--numeric"})
_MODULES: Final = frozenset(
    ("tcp", "udp", "icmp", "icmp6", "mark", "dscp", "multiport", "comment", "state", "conntrack")
)
_SHORT: Final = {
    **dict.fromkeys(("-p", "--protocol", "--proto"), "protocol"),
    **dict.fromkeys(("-s", "--source", "--src"), "source"),
    **dict.fromkeys(("-d", "--destination", "--dst"), "destination"),
    **dict.fromkeys(("--sport", "--source-port", "--sports", "--source-ports"), "source ports"),
    **dict.fromkeys(
        ("--dport", "--destination-port", "--dports", "--destination-ports"), "destination ports"
    ),
}
_PROTOCOLS: Final = {
    6: Conditions(protocols=frozenset({"tcp"})),
    17: Conditions(protocols=frozenset({"udp"})),
    1: OF_VERSION[4] & Conditions(protocols=frozenset({"icmp"})),
    58: OF_VERSION[6] & Conditions(protocols=frozenset({"icmp"})),
}
_NUMBERS: Final = {
    "ip": 0,
    "all": 0,
    "igmp": 2,
    "ipencap": 4,
    "ipip": 4,
    "ipv6": 41,
    "gre": 47,
    "esp": 50,
    "ah": 51,
    "ospf": 89,
    "sctp": 132,
    **PROTOCOLS,
}


@dataclass(slots=True)
class Parsed:
    """A command of iptables.

    Attributes:
        action: ``add``, ``insert``, ``replace``, ``delete``, ``flush`` or ``policy``.
        table: Its table.
        chain: Its chain; "" for all chains of the table.
        number: The number of its rule in the chain, from 1 on; None if it names none.
        words: What tells its rule, for the one to delete: the meaning of its words, or the words
            if perhop does not have them all.
        tests: Its conditions: alternatives.
        device: The interface by which its packets leave; None for any.
        arrives: The interface by which they come; None for any.
        changes: What it sets: `mark`, `priority` and `dscp`.
        kept: The bits of the mark that stay.
        verdict: ``accept``, ``drop``, ``return``, ``jump`` or ``goto``; "" if packets go on.
        to: The chain of a jump.
        note: How the rule differs from the command.
        unread: Why the rule is not modelled; "" if it is.
    """

    action: str = ""
    table: str = "filter"
    chain: str = ""
    number: int | None = None
    words: tuple[object, ...] = ()
    tests: list[Test] = field(default_factory=list)
    device: str | None = None
    arrives: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    kept: int = 0
    verdict: str = ""
    to: str = ""
    note: str = ""
    unread: str = ""


def parse(said: Sequence[str], *, ipv6: bool) -> Parsed | None:
    """Return what a command does to rules; None for one that does nothing to those of `TABLES`.

    Args:
        said: The words after ``iptables``.
        ipv6: True for `ip6tables`.

    Raises:
        ValueError: It is malformed.
    """
    words = Words(said)
    found = Parsed()
    header = OF_VERSION[6 if ipv6 else 4]
    marks: list[tuple[int, int]] = []
    negated: list[tuple[int, int]] = []
    rule: list[str] = []
    rest: list[str] = []
    never = False
    while words:
        start = len(said) - len(words)
        word = words.take()
        no = word == "!"
        if no:
            word = words.take()
        if word in ("-t", "--table"):
            found.table = words.take()
            continue
        if word in _ACTIONS:
            _action(found, _ACTIONS[word], words)
            continue
        try:
            if word in ("-j", "--jump", "-g", "--goto"):
                _target(found, word in ("-g", "--goto"), words)
            elif word in ("-m", "--match"):
                module = words.take()
                if module not in _MODULES:
                    raise ValueError(f"the match `{module[:20]}` is no condition of a scenario")
            elif word == "--mark":
                (negated if no else marks).append(_masked(words.take()))
            elif word in ("-o", "--out-interface"):
                found.device = _interface(words.take(), no)
            elif word in ("-i", "--in-interface"):
                found.arrives = _interface(words.take(), no)
            elif word in ("--comment", "--reject-with"):
                words.take()
            elif word in ("--state", "--ctstate"):
                if words.take() != "INVALID" or no:
                    raise ValueError(f"`{word}` is no condition of a scenario")
                never = True  # no packet of a simulation is
            elif _SHORT.get(word) == "protocol":
                text = words.take()
                one = _protocol(text)
                if no:
                    raise ValueError(f"`! {word[:20]}` is not modelled")
                if one and one not in _PROTOCOLS:
                    never = True
                    found.note = f"no packet of a scenario is of `{text[:20]}`"
                elif one:
                    header &= _PROTOCOLS[one]
            elif word in _SHORT or word in ("--dscp", "--dscp-class"):
                header &= _conditions(_SHORT.get(word, "dscp"), words.take())
                if no:
                    raise ValueError(f"`! {word[:20]}` is not modelled")
            elif word not in _QUIET:
                raise ValueError(f"`{word[:30]}` is no condition of a scenario")
        except ValueError as error:
            found.unread = found.unread or str(error)
        part = said[start : len(said) - len(words)]
        rule += part
        rest += _as_said(part)
    if found.table not in TABLES or not found.action:
        return None
    if found.chain in HOOKS and found.chain not in TABLES[found.table]:
        raise ValueError(f"the table `{found.table}` has no chain {found.chain}")
    if "priority" in found.changes and found.chain in ("PREROUTING", "INPUT"):
        raise ValueError(f"iptables refuses CLASSIFY in the chain {found.chain}")
    if "dscp" in found.changes and found.table != "mangle":
        raise ValueError("only the table `mangle` sets code points")
    if found.arrives is not None and (found.device is not None or found.changes):
        found.unread = found.unread or "the interface of arrival is no condition of a scenario"
    found.tests = [Test(header, tuple(marks), tuple(negated))]
    if found.unread or never:
        found.words = tuple(rule)
    else:
        if header.source_ports or header.destination_ports:
            rest = [word for word in rest if word not in ("tcp", "udp")]
        way = (found.device, found.arrives, found.verdict, found.to)
        found.words = (*rest, *found.tests, *way, *found.changes.items(), found.kept)
    if never:
        found.tests, found.unread = [], ""
        found.note = found.note if found.changes else ""
    return found


def _as_said(part: Sequence[str]) -> Sequence[str]:
    """Return the words of an option that tell its rule from others, beside what they mean."""
    match part[0]:
        case "-j" | "--jump" | "-g" | "--goto":
            return part if part[1] == "CONNMARK" else part[1:2]
        case "-m" | "--match":
            return part[1:] if part[1] in ("tcp", "udp", "multiport") else ()
        case "--comment" | "--reject-with":
            return part
    return ()


def _action(found: Parsed, action: str, words: Words) -> None:
    found.action = action
    if action != "flush" or words.next[:1] not in ("", "-"):
        found.chain = words.take()
    if action == "policy":
        found.verdict = words.take().lower()
    elif words.next.isdecimal():
        found.number = int(words.take()[:9])


def _interface(name: str, no: bool) -> str:
    if no or "+" in name:
        raise ValueError(f"interfaces `{name[:20]}` are no condition of a scenario")
    return name


def _masked(text: str) -> tuple[int, int]:
    value, _, mask = text.partition("/")
    return units.number(value), units.number(mask) if mask else _ALL


def _protocol(text: str) -> int:
    """Return the number of a protocol; 0 for all."""
    name = text.lower()
    number = int(name) if re.fullmatch("[0-9]{1,3}", name, re.ASCII) else _NUMBERS.get(name, 256)
    if number > 255:
        raise ValueError(f"`-p {text[:20]}` is no condition of a scenario")
    return number


def _conditions(kind: str, text: str) -> Conditions:
    match kind:
        case "source":
            return Conditions(source=_networks(text))
        case "destination":
            return Conditions(destination=_networks(text))
        case "source ports":
            return Conditions(source_ports=_ports(text))
        case "destination ports":
            return Conditions(destination_ports=_ports(text))
    return Conditions(dscp=frozenset({_dscp(text)}))


def _networks(text: str) -> tuple[Any, ...]:
    return tuple(ip_network(each, strict=False) for each in text.split(",")[:256])


def _ports(text: str) -> tuple[tuple[int, int], ...]:
    return tuple(part for each in text.split(",")[:64] for part in ports_of(each))


def _dscp(text: str) -> int:
    if text[:1].isdecimal():
        return units.number(text) & 63
    return 0 if text.lower() == "be" else parse_dscp(text.lower())


def _target(found: Parsed, goto: bool, words: Words) -> None:
    """Read a target and its options."""
    name = words.take()
    match name:
        case "MARK":
            _mark(found, words)
        case "CLASSIFY":
            _option(words, "--set-class")
            found.changes["priority"] = units.classid(words.take())
        case "DSCP":
            _option(words, "--set-dscp", "--set-dscp-class")
            found.changes["dscp"] = _dscp(words.take())
        case "TOS":
            _option(words, "--set-tos")
            value, _, mask = words.take().partition("/")
            if mask and units.number(mask) & 0xFC not in (0, 0xFC):
                raise ValueError("a type of service with a mask is not modelled")
            found.changes["dscp"] = (units.number(value) >> 2) & 63
        case "CONNMARK":
            option = words.take()
            if option not in ("--save-mark", "--restore-mark"):
                raise ValueError(f"`CONNMARK {option[:20]}` is not modelled")
            while words.next in ("--mask", "--nfmask", "--ctmask"):
                del words[-2:]
            found.note = "each packet gets the mark that rules give to it, not its connection's"
        case "ACCEPT" | "DROP" | "RETURN":
            found.verdict = name.lower()
        case "REJECT":
            found.verdict = "drop"
        case "QUEUE" | "NFQUEUE":
            found.verdict = "accept"
            raise ValueError("a program tells what passes")
        case _:
            found.verdict, found.to = "goto" if goto else "jump", name


def _option(words: Words, *names: str) -> None:
    if words.take() not in names:
        raise ValueError(f"expected `{names[0]}`")


def _mark(found: Parsed, words: Words) -> None:
    option = words.take()
    value, mask = _masked(words.take())
    match option:
        case "--set-mark" | "--set-xmark":
            found.kept = ~mask & _ALL
        case "--or-mark":
            found.kept = ~value & _ALL
        case "--and-mark":
            found.kept, value = value, 0
        case _:
            raise ValueError(f"`MARK {option[:20]}` is not modelled")
    found.changes["mark"] = value
