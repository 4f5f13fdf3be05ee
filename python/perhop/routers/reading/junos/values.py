"""Values of Junos: rates, sizes, code points, ports, and names of interfaces."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from perhop.routers.reading import conditions
from perhop.scenario.model.dscp import DSCP_NAMES
from perhop.units import U64_MAX

_SCALES: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def number(text: str) -> int | None:
    """Return a rate in bit/s or a size in bytes: k, m and g are decimal. None if it is neither."""
    match = re.fullmatch(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?([kmgt]?)", text, re.I)
    if match is None:
        return None
    digits, decimals, scale = match[1], match[2] or "", match[3].lower()
    value = int(digits + decimals) * _SCALES[scale] // 10 ** len(decimals)
    return value if value <= U64_MAX else None


def percent(text: str) -> Fraction | None:
    """Return a percentage from 0 to 100, with up to seven decimals; None if it is none."""
    if re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{1,7})?%?", text) is None:
        return None
    value = Fraction(text.rstrip("%"))
    return value if value <= 100 else None


# Code points

DSCP_ALIASES: Final = {
    name: code for name, code in DSCP_NAMES.items() if name not in ("default", "le", "voice-admit")
} | {"nc1": 48, "nc2": 56}
"""Names of code points that every router knows; with aliases of `code-point-aliases`."""

PRECEDENCE_ALIASES: Final = {
    "be": 0,
    "be1": 1,
    "ef1": 2,
    "ef2": 3,
    "af11": 4,
    "af12": 5,
    "nc1": 6,
    "nc2": 7,
    "cs6": 6,
    "cs7": 7,
}
"""The same for the three bits of the precedence."""

PRECEDENCE_NAMES: Final = {
    "routine": 0,
    "priority": 1,
    "immediate": 2,
    "flash": 3,
    "flash-override": 4,
    "critical-ecp": 5,
    "internet-control": 6,
    "net-control": 7,
}
"""Names of precedences in the conditions of firewall filters."""


LINK_ALIASES: Final = {
    **dict(zip(("be", "be1", "ef", "ef1", "af11", "af12", "nc1", "nc2"), range(8), strict=True)),
    "cs6": 6,
    "cs7": 7,
}
"""The aliases of code points of MPLS labels and VLAN tags that every router has."""


def code_point(text: str, bits: int, aliases: dict[str, int]) -> int | None:
    """Return a code point of `bits` bits: binary digits, or an alias; None if it is neither."""
    if text in aliases:
        return aliases[text]
    if re.fullmatch(rf"[01]{{{bits}}}", text):
        return int(text, 2)
    return None


def filter_dscp(text: str) -> int | None:
    """Return a code point in a firewall filter: a name, a number, hexadecimal, or binary."""
    if text.lower() in DSCP_ALIASES:
        return DSCP_ALIASES[text.lower()]
    value = -1
    if re.fullmatch(r"[0-9]{1,2}", text):
        value = int(text)
    elif match := re.fullmatch(r"0x([0-9a-f]{1,2})|b?([01]{6})b?", text, re.I):
        value = int(match[1], 16) if match[1] else int(match[2], 2)
    return value if 0 <= value < 64 else None


def filter_precedence(text: str) -> int | None:
    """Return a precedence in a firewall filter: a name or a number."""
    if re.fullmatch("[0-7]", text):
        return int(text)
    return PRECEDENCE_NAMES.get(text)


# Ports and protocols

_PORTS: Final = tuple(
    """
    afs 1483 bgp 179 biff 512 bootpc 68 bootps 67 cmd 514 cvspserver 2401 dhcp 67 domain 53
    eklogin 2105 ekshell 2106 exec 512 finger 79 ftp 21 ftp-data 20 http 80 https 443 ident
    113 imap 143 kerberos-sec 88 klogin 543 kpasswd 761 krb-prop 754 krbupdate 760 kshell 544
    ldap 389 ldp 646 login 513 mobileip-agent 434 mobilip-mn 435 msdp 639 netbios-dgm 138
    netbios-ns 137 netbios-ssn 139 nfsd 2049 nntp 119 ntalk 518 ntp 123 pop3 110 pptp 1723
    printer 515 radacct 1813 radius 1812 rip 520 rkinit 2108 smtp 25 snmp 161 snmptrap 162
    snpp 444 socks 1080 ssh 22 sunrpc 111 syslog 514 tacacs 49 tacacs-ds 65 talk 517 telnet 23
    tftp 69 timed 525 who 513 xdmcp 177 twamp 862 sip 5060
    """.split()  # noqa: SIM905
)

PORTS: Final = dict(zip(_PORTS[::2], map(int, _PORTS[1::2]), strict=True))
"""Ports by their names in firewall filters."""

PROTOCOLS: Final = conditions.PROTOCOLS | dict.fromkeys(("icmp6", "icmpv6", "58"), "icmp")
"""The protocols that scenarios have, by their names and numbers in firewall filters."""

OTHER_PROTOCOLS: Final = re.compile(
    r"ah|dstopts|egp|esp|fragment|gre|hop-by-hop|igmp|ipip|ipv6|no-next-header|ospf|pim|routing"
    r"|rsvp|sctp|vrrp|[0-9]{1,3}(?:-[0-9]{1,3})?"
)
"""Other protocols."""


def protocols(text: str) -> frozenset[str]:
    """Return the protocols of scenarios that a name, a number or a range of numbers stands for."""
    match = re.fullmatch("([0-9]{1,3})-([0-9]{1,3})", text)
    if match is None:
        return frozenset({PROTOCOLS[text]} if text in PROTOCOLS else ())
    numbers = range(int(match[1]), int(match[2]) + 1)
    named = PROTOCOLS.items()
    return frozenset(name for word, name in named if word.isdecimal() and int(word) in numbers)


def ports(text: str) -> tuple[int, int] | None:
    """Return the first and last port of a port or range, by name or number; None if it is none."""
    low, dash, high = text, "", ""
    if text not in PORTS:
        low, dash, high = text.partition("-")
    first = _port(low)
    last = _port(high) if dash else first
    return None if first is None or last is None or first > last else (first, last)


def _port(text: str) -> int | None:
    if text in PORTS:
        return PORTS[text]
    value = int(text) if re.fullmatch(r"[0-9]{1,5}", text) else 65536
    return value if value < 65536 else None


# Interfaces

SPEEDS: Final = {
    "fe": 10**8,
    "ge": 10**9,
    "mge": 10**9,
    "xe": 10**10,
    "et": 10**11,
    "t1": 1_544_000,
    "e1": 2_048_000,
    "t3": 44_736_000,
    "e3": 34_368_000,
}
"""Rates of interfaces by the beginning of their names, in bit/s."""

SPEED_SOURCE: Final = "the type of interface in its name; `speed` states another"
"""The source of a rate that follows from an interface's name."""


def speed_of(name: str) -> int | None:
    """Return the rate in bit/s that the name of an interface implies; None if it implies none."""
    match = re.match(r"(t1|t3|e1|e3|[a-z]+)-[0-9]", name)
    return SPEEDS.get(match[1]) if match is not None else None


def stated_speed(text: str) -> int | None:
    """Return the rate in bit/s of a `speed` statement, such as ``100m`` or ``oc12``."""
    match = re.fullmatch(r"oc([0-9]{1,3})", text, re.I)
    if match is not None:
        return int(match[1]) * 51_840_000
    match = re.fullmatch(r"([0-9]{1,4})([mg])(?:bps)?", text, re.I)
    return number(match[1] + match[2]) if match is not None else None
