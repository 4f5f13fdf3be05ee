"""Rules of iptables that mark packets, or give them a class or a code point.

Source: iptables-extensions(8). Only the table `mangle` has such rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.linux import units
from perhop.routers.reading.linux.filters import Words, ports_of
from perhop.routers.reading.linux.model import Test
from perhop.routers.reading.matching import OF_VERSION, Conditions
from perhop.scenario.model.dscp import parse_dscp

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HOOKS", "Parsed", "parse"]

HOOKS: Final = {
    name.upper(): name for name in ("prerouting", "input", "forward", "output", "postrouting")
}
"""The chains of the kernel, and the hooks of nftables that they are."""

_ALL: Final = 0xFFFFFFFF
_QUIET: Final = frozenset({"-v", "-n", "-w", "--wait", "--verbose", "--numeric"})
_MODULES: Final = frozenset({"tcp", "udp", "icmp", "mark", "dscp", "multiport", "comment"})
_SHORT: Final = {
    **dict.fromkeys(("-p", "--protocol", "--proto"), "protocol"),
    **dict.fromkeys(("-s", "--source", "--src"), "source"),
    **dict.fromkeys(("-d", "--destination", "--dst"), "destination"),
    **dict.fromkeys(("--sport", "--source-port", "--sports", "--source-ports"), "source ports"),
    **dict.fromkeys(
        ("--dport", "--destination-port", "--dports", "--destination-ports"), "destination ports"
    ),
}
_PROTOCOLS: Final = {"6": "tcp", "17": "udp", "1": "icmp", "icmpv6": "icmp", "ipv6-icmp": "icmp"}


@dataclass(slots=True)
class Parsed:
    """A command of iptables about a rule of the table `mangle`.

    Attributes:
        chain: Its chain.
        first: True if it stands before the rules so far.
        test: Its conditions.
        device: The interface by which its packets leave; None for any.
        changes: What it sets: `mark`, `priority` and `dscp`.
        kept: The bits of the mark that stay.
        verdict: ``accept``, ``drop``, ``return``, ``jump`` or ``goto``; "" if packets go on.
        to: The chain of a jump.
        note: How the rule differs from the command.
    """

    chain: str = ""
    first: bool = False
    test: Test = field(default_factory=Test)
    device: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    kept: int = 0
    verdict: str = ""
    to: str = ""
    note: str = ""


def parse(said: Sequence[str], *, ipv6: bool) -> Parsed | None:
    """Return a rule; None for a command that adds no rule to the table `mangle`.

    Args:
        said: The words after ``iptables``.
        ipv6: True for `ip6tables`.

    Raises:
        ValueError: It has conditions or targets that no scenario has, or is malformed.
    """
    words = Words(said)
    found = Parsed()
    header = OF_VERSION[6 if ipv6 else 4]
    marks: list[tuple[int, int]] = []
    negated: list[tuple[int, int]] = []
    table, added, refused = "filter", False, ""
    while words:
        word = words.take()
        no = word == "!"
        if no:
            word = words.take()
        if word in ("-t", "--table"):
            table = words.take()
        elif word in ("-A", "--append", "-I", "--insert"):
            found.chain, added = words.take(), True
            found.first = word in ("-I", "--insert")
            if words.next.isdecimal():
                words.take()
        elif word in ("-j", "--jump", "-g", "--goto"):
            _target(found, word in ("-g", "--goto"), words)
        elif word in ("-m", "--match"):
            module = words.take()
            if module not in _MODULES:
                refused = refused or f"the match `{module[:20]}` is no condition of a scenario"
        elif word == "--mark":
            (negated if no else marks).append(_masked(words.take()))
        elif word in ("-o", "--out-interface"):
            found.device = words.take()
            if no or "+" in found.device:
                refused = f"interfaces `{found.device[:20]}` are no condition of a scenario"
        elif word in ("-i", "--in-interface"):
            words.take()
            refused = refused or "the interface of arrival is no condition of a scenario"
        elif word == "--comment":
            words.take()
        elif word in _SHORT or word in ("--dscp", "--dscp-class"):
            more = _conditions(_SHORT.get(word, "dscp"), words.take())
            header &= more
            if no:
                refused = refused or f"`! {word[:20]}` is not modelled"
        elif word not in _QUIET:
            refused = refused or f"`{word[:30]}` is no condition of a scenario"
    if table != "mangle" or not added:
        return None
    if refused:
        raise ValueError(refused)
    found.test = Test(header, tuple(marks), tuple(negated))
    return found


def _masked(text: str) -> tuple[int, int]:
    value, _, mask = text.partition("/")
    return units.number(value), units.number(mask) if mask else _ALL


def _conditions(kind: str, text: str) -> Conditions:
    match kind:
        case "protocol":
            name = _PROTOCOLS.get(text.lower(), text.lower())
            return Conditions() if name == "all" else Conditions(protocols=frozenset({name}))
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
