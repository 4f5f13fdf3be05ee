"""The family of a configuration, and reading by that family's reader."""

from __future__ import annotations

import gc
import os
import re
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

from perhop.errors import UsageError
from perhop.files import read_file
from perhop.hints import did_you_mean
from perhop.routers.reading import systems
from perhop.routers.reading.configuration import AS_STATED, MAX_SIZE, Source, source
from perhop.routers.reading.selection import select
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perhop.routers.reading.configuration import Configuration, Direction

FAMILIES: Final = {
    "ios": "Cisco IOS and IOS-XE",
    "junos": "Junos, in braces or as set commands",
    "altq": "altq.conf, and pf.conf with altq or queues",
    "linux": "commands and JSON of tc and nft",
    "vyos": "VyOS, in braces or as set commands",
}
"""The families, each a package beside this module, and their configurations."""

ALIASES: Final = {"ios-xe": "ios", "iosxe": "ios", "pf": "altq", "tc": "linux", "nft": "linux"}
"""Other names of families."""

_LEAD: Final = 2
"""How many times the second family's evidence the first family's must be."""


class _Signs(NamedTuple):
    """Beginnings of lines by which a family is recognised, as regular expressions.

    Attributes:
        qos: Statements about quality of service that no other family has.
        general: Other statements of the family.
    """

    qos: str
    general: str


_SIGNS: Final = {
    "ios": _Signs(
        r"class-map (?:match-|type )?[\w-]+|policy-map [\w-]+|service-policy (?:in|out)put "
        r"|match (?:ip )?(?:dscp|precedence) |match (?:access-group|protocol|not|qos-group) "
        r"|priority (?:level|percent|\d+$)|bandwidth (?:percent|remaining) |random-detect"
        r"|queue-limit \d|police (?:cir |rate )?(?:percent )?\d+|shape (?:average|peak) "
        r"|set (?:ip )?(?:dscp|precedence) |(?:ip )?access-list (?:extended |standard )?[\w-]+",
        r"interface (?:\w*Ethernet|Serial|Tunnel|Loopback|Vlan|Port-channel|POS|ATM|Multilink"
        r"|Dialer|Cellular|FastE|Gi|Te|Fa)[\w/.: -]*$|hostname \S+$|version \d+\.\d+\s*$"
        r"|ip address (?:\d+\.){3}\d+ (?:\d+\.){3}\d+|no (?:ip|service|shutdown|aaa)\b"
        r"|router (?:bgp|ospf|eigrp|rip)\b|line (?:vty|con|aux) |service timestamps |!\s*$"
        r"|ip (?:cef|classless|http)\b|ip route (?:vrf \S+ )?(?:\d|static )|spanning-tree "
        r"|Current configuration",
    ),
    "junos": _Signs(
        r"class-of-service \{|(?:schedulers|scheduler-maps|forwarding-classes|drop-profiles"
        r"|rewrite-rules|traffic-control-profiles|code-point-aliases) \{|if-exceeding \{"
        r"|forwarding-class \S+ (?:\{|scheduler )|loss-priority \S+( code-points)?"
        r"|(?:transmit-rate|buffer-size) .*;|bandwidth-limit .*;|burst-size-limit .*;"
        r"|then \{|then (?:policer|discard|accept|forwarding-class)\b|from \{"
        r"|(?:term|filter|(?:[a-z]+-)*policer) \S+ \{|firewall \{ (?:family|policer) "
        r"|\[edit (?:class-of-service|firewall)\b"
        r"|(?:set|deactivate|activate) (?:logical-systems \S+ )?(?:class-of-service|firewall) ",
        r"host-name \S+;|version \S+;|unit \d+ \{|family (?:inet6?|iso|mpls|ccc|any)\b.*\{"
        r"|(?:system|protocols|routing-options|chassis|policy-options|groups|snmp) \{"
        r"|## Last |[gx]e-\d+/\d+/\d+ \{|set (?:routing-options|chassis|groups|version"
        r"|policy-options) |set interfaces (?:ge|xe|et|fe|so|t1|t3|e1|ae|lo0|irb|st0|fxp|em)\b",
    ),
    "altq": _Signs(
        r"interface \S+ (?:bandwidth|tbrsize|cbq|priq|hfsc|wfq|rio|red|blue)\b"
        r"|class (?:cbq|priq|hfsc) (?![0-9a-f]*:)\S+ |filter \S+ (?!\{)\S+ |altq on "
        r"|conditioner \S+ "
        r"|queue (?:\w+|<[^>]+>) (?:on |bandwidth |priority |parent |qlimit |cbq|priq|hfsc|flows )"
        r"|(?:match|pass|block) .*(?:\bqueue\b|set queue|set prio)",
        r"(?:pass|block|match) (?:in|out|on|all|quick|log|return|drop|proto|from|inet6?)\b"
        r"|set (?:skip|block-policy|optimization|limit|loginterface|timeout) |scrub (?:in|on|all)"
        r"|(?:nat|rdr|antispoof|anchor|table <)[ \w]*|\w+ ?= ?[\"{]",
    ),
    "linux": _Signs(
        r"(?:sudo )?(?:[\w./-]*/)?(?:\$\{?TC\}?|tc) (?:-\S+ )*(?:qdisc|class|filter|actions?) "
        r"|(?:qdisc|class|filter) (?:add|replace|change|del) |add (?:table|chain|rule) "
        r"|(?:sudo )?(?:[\w./-]*/)?nft (?:-\S+ )*(?:add|create|insert|-f|flush|'|\")"
        r"|table (?:ip6?|inet|netdev|bridge|arp) \S+ ?\{|type (?:filter|nat|route) hook "
        r"|(?:[\[{,][\[{, ]*)?\"(?:nftables|kind|qdisc|parent|protocol)\" ?:"
        r"|(?:qdisc|class) \w+ [0-9a-f]*:[0-9a-f]* (?:root|dev|parent)\b",
        r"#! ?/.*sh\b|(?:sudo )?(?:[\w./-]*/)?(?:ip6?tables|ip) (?:-\S+ )*"
        r"(?:link|addr|route (?!vrf |static )[a-z]+|rule|-A)\b|modprobe |ethtool "
        r"|flush ruleset|chain \S+ \{|(?:meta|ct|ip6?|tcp|udp) .*(?:accept|drop)|ifconfig ",
    ),
    "vyos": _Signs(
        r"(?:set |delete )?(?:qos (?:policy|interface|traffic-match-group)|traffic-policy)\b"
        r"|qos \{|(?:shaper|limiter|fair-queue|rate-control|priority-queue|random-detect"
        r"|drop-tail|round-robin|network-emulator|fq-codel|cake|shaper-hfsc) [\w-]+ \{"
        r"|class \d+ \{$|queue-type \S+$",
        r"(?:ethernet|bonding|wireguard|tunnel|dummy|loopback|openvpn|pppoe) \w+ \{$"
        r"|set interfaces (?:ethernet|bonding|wireguard|tunnel|dummy|loopback|openvpn|pppoe) "
        r"|/\* === vyatta-config|// vyos-config-version|// Release version|config-management \{"
        r"|set (?:service|system (?:config-management|console|conntrack|option)|nat|vpn) "
        r"|hw-id |host-name \S+$",
    ),
}
"""Signs of each family."""

_PROMPT: Final = re.compile(
    r"^[ \t]*[\w.-]{1,64}(?:\(config[\w-]*\)# *|(?:@[\w.:~-]{1,64})?[#>$] +)", re.M
)
"""What stands before commands that were copied from a terminal."""

_PATTERNS: Final = {
    family: re.compile(rf"^[ \t]*(?=\S)(?:({signs.qos})|(?:{signs.general}))", re.M)
    for family, signs in _SIGNS.items()
}

_SHELL: Final = re.compile(r"#!.*sh\b")
_SCRIPTED: Final = frozenset({"linux", "vyos"})
"""Families whose configurations can be scripts of a shell."""

_QOS_WEIGHT: Final = 5
"""The weight of a statement about quality of service, in general ones."""


def read(
    files: Sequence[str | os.PathLike[str] | Source],
    family: str | None = None,
    *,
    rates: Mapping[str, int] = AS_STATED,
    option: str = "--family",
) -> Configuration:
    """Return what a configuration says about quality of service.

    Args:
        files: The configuration's files, or their texts; several for families whose
            configurations are several files, such as commands of tc and of nft.
        family: A key of `FAMILIES` or of `ALIASES`; by default the family is detected.
        rates: Rates of interfaces in bit/s, in place of what the files say, by the interface of
            the policy; "" for policies that no interface uses.
        option: The setting for `family` in messages.

    Raises:
        UsageError: A file cannot be read or is no text, or the family is unknown.
    """
    if not files:
        raise UsageError("expected a file with the configuration of a router")
    texts = _texts(files)
    found = detect(texts, option=option) if family is None else _known(family, option)
    module = import_module(f"perhop.routers.reading.{found}")
    with _without_collection():
        configuration: Configuration = module.read(texts, rates)
    return configuration


def read_at(
    rate: int | None,
    files: Sequence[str | os.PathLike[str] | Source],
    family: str | None = None,
    *,
    interface: str | None = None,
    direction: Direction | None = None,
) -> Configuration:
    """Return what a configuration says if the interface of a policy has a rate.

    Args:
        rate: The rate in bit/s; by default as the files say.
        files: As for `read`.
        family: As for `read`.
        interface: The interface of the policy; by default the first with one.
        direction: The direction of the policy; by default `out`, if the interface has one there.

    Raises:
        UsageError: As for `read`; or there is no such policy, but others, and a rate is given.
    """
    texts = _texts(files)
    found = read(texts, family)
    if rate is None or not found.attachments:
        return found
    chosen = select(
        found, texts[0].file, interface=interface, direction=direction, any_of_several=True
    )
    return found if chosen.rate == rate else read(texts, family, rates={chosen.interface: rate})


def _texts(files: Sequence[str | os.PathLike[str] | Source]) -> list[Source]:
    return [each if isinstance(each, Source) else _source(os.fspath(each)) for each in files]


@contextmanager
def _without_collection() -> Iterator[None]:
    """Keep the cyclic garbage collector from searching the many objects of a configuration.

    They have few cycles, and the search takes about 40% of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def detect(texts: Sequence[Source], *, option: str = "--family") -> str:
    """Return the family of a configuration.

    The header of an archive decides, or else the statements.

    Raises:
        UsageError: The configuration is of a system that perhop does not read; or no family, or
            more than one, has statements like these.
    """
    ranked = sorted(_evidence(texts).items(), key=lambda item: -item[1])
    (first, most), (second, less) = ranked[:2]
    archived = {header.system for header in systems.headers(texts)}
    archive = archived.pop() if len(archived) == 1 else None
    if archive is None or archive not in FAMILIES or archive == "ios":
        like_ios = "ios" in (archive, first) or not most
        refuse_unread(texts, like_ios=like_ios, option=option)
    if archive is not None:
        return archive
    if most and most >= _LEAD * less:
        return first
    said = (
        f"could be of the family {first} or {second}"
        if most
        else "has no statement by which its family can be recognised"
    )
    raise UsageError(f"{texts[0].file}: {said}; give {option}: {_families()}")


def refuse_unread(
    texts: Sequence[Source], *, like_ios: bool = True, option: str = "--family"
) -> None:
    """Refuse configurations of systems that perhop does not read.

    Args:
        texts: The texts.
        like_ios: True to look for statements of the systems that are like IOS, too.
        option: The setting for the family in messages.

    Raises:
        UsageError: A header or a statement is of such a system.
    """
    named = [each for each in systems.headers(texts) if each.system not in FAMILIES]
    sign = named[0] if named else systems.sign(texts, like_ios=like_ios)
    if sign is None:
        return
    cure = (
        "its defaults differ from those of IOS and IOS-XE; to read it as one of these, give "
        f"{option}: ios"
        if sign.system in systems.LIKE_IOS
        else "give what `tc -j qdisc show`, `tc -j class show` and `tc -j filter show` print"
        if sign.system in systems.OF_LINUX
        else f"perhop reads {_families('and')}"
    )
    what = "the header of a configuration" if named else "a statement"
    raise UsageError(
        f"{sign.file}:{sign.line}: {quote(sign.text, 80)} is {what} of {sign.system}, which perhop "
        f"does not read; {cure}"
    )


def _evidence(texts: Sequence[Source]) -> dict[str, int]:
    """Return the weight of the statements of each family."""
    commands = [(_PROMPT.sub("", text.text), bool(_SHELL.match(text.text))) for text in texts]
    return {
        family: sum(
            _QOS_WEIGHT if match[1] is not None else 1
            for text, script in commands
            if family in _SCRIPTED or not script
            for match in pattern.finditer(text)
        )
        for family, pattern in _PATTERNS.items()
    }


def _source(path: str) -> Source:
    try:
        return source(read_file(path, MAX_SIZE), path)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def _known(family: str, option: str) -> str:
    found = ALIASES.get(family, family)
    if found not in FAMILIES:
        hint = did_you_mean(family, [*FAMILIES, *ALIASES])
        raise UsageError(
            f"{option}: {quote(family)} is not a family of configurations; "
            f"expected {_families()}{f'; {hint}' if hint else ''}"
        )
    return found


def _families(before_last: str = "or") -> str:
    *others, last = (f"{name} ({what})" for name, what in FAMILIES.items())
    return f"{', '.join(others)}, {before_last} {last}"
