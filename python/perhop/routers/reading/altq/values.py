"""Values as ALTQ and pf spell them: rates, sizes, protocols, ports, code points."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TYPE_CHECKING, Final

from perhop.scenario.model.dscp import DSCP_NAMES
from perhop.units import MAX_DURATION, MILLISECOND, U64_MAX, WHOLE

if TYPE_CHECKING:
    from perhop.routers.reading.matching import Network

_NUMBER: Final = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9})[0-9]*)?([A-Za-z]{0,2})")

_IPV4: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?:/(\d{1,2}))?", re.ASCII)

SERVICES: Final = {
    "ftp-data": 20,
    "ftp": 21,
    "ssh": 22,
    "telnet": 23,
    "smtp": 25,
    "nicname": 43,
    "whois": 43,
    "domain": 53,
    "bootps": 67,
    "bootpc": 68,
    "tftp": 69,
    "gopher": 70,
    "finger": 79,
    "http": 80,
    "www": 80,
    "kerberos": 88,
    "pop2": 109,
    "pop3": 110,
    "sunrpc": 111,
    "auth": 113,
    "ident": 113,
    "nntp": 119,
    "ntp": 123,
    "netbios-ns": 137,
    "netbios-dgm": 138,
    "netbios-ssn": 139,
    "imap": 143,
    "imap2": 143,
    "snmp": 161,
    "snmptrap": 162,
    "snmp-trap": 162,
    "bgp": 179,
    "irc": 194,
    "ldap": 389,
    "https": 443,
    "microsoft-ds": 445,
    "isakmp": 500,
    "login": 513,
    "shell": 514,
    "syslog": 514,
    "printer": 515,
    "submission": 587,
    "ipp": 631,
    "ldaps": 636,
    "rsync": 873,
    "ftps": 990,
    "imaps": 993,
    "pop3s": 995,
    "socks": 1080,
    "openvpn": 1194,
    "l2tp": 1701,
    "pptp": 1723,
    "radius": 1812,
    "cvsup": 5999,
    "nfs": 2049,
    "nfsd": 2049,
    "cvspserver": 2401,
    "mysql": 3306,
    "rdp": 3389,
    "svn": 3690,
    "ipsec-nat-t": 4500,
    "sip": 5060,
    "sips": 5061,
    "postgresql": 5432,
    "vnc": 5900,
    "x11": 6000,
    "ircd": 6667,
    "http-alt": 8080,
    "webcache": 8080,
}
"""Ports by the names of BSD's `services`."""


def rate(text: str) -> int | None:
    """Return a rate in bit/s: ``10M``, ``1.5Mb``, ``64K``, ``64000b``; None if it is none."""
    return _scaled(text.removesuffix("/s"), 1000, ("", "b"))


def size(text: str) -> int | None:
    """Return a size in bytes: ``1500``, ``32K``; None if it is none."""
    return _scaled(text, 1024, ("", "b"))


def _scaled(text: str, base: int, endings: tuple[str, ...]) -> int | None:
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    unit = match[3].lower()
    power = "kmg".find(unit[0]) + 1 if unit else 0
    if (unit[1:] if power else unit) not in endings:
        return None
    fraction = match[2] or ""
    value = int(match[1] + fraction) * base**power // 10 ** len(fraction)
    return value if value <= U64_MAX // 10**9 else None


def share(text: str) -> int | None:
    """Return a share in parts per billion: ``20%``; None if it is none, or above 100%."""
    match = re.fullmatch(r"([0-9]{1,3})(?:\.([0-9]{1,7}))?%?", text, re.ASCII)
    if match is None:
        return None
    value = int(match[1]) * (WHOLE // 100) + int((match[2] or "").ljust(7, "0"))
    return value if value <= WHOLE else None


def count(text: str) -> int | None:
    """Return a whole number below 2^31, decimal or as ``0x…``; None if it is none."""
    if re.fullmatch(r"[0-9]{1,10}|0[xX][0-9A-Fa-f]{1,8}", text, re.ASCII) is None:
        return None
    value = int(text, 16) if text[1:2] in ("x", "X") else int(text)
    return value if value < 2**31 else None


def milliseconds(text: str) -> int | None:
    """Return a number of milliseconds in picoseconds; None if it is none, or too long."""
    value = count(text)
    return None if value is None or value * MILLISECOND > MAX_DURATION else value * MILLISECOND


def port(text: str) -> int | None:
    """Return a port from 0 to 65535, by number or by name; None if it is none."""
    value = SERVICES.get(text.lower())
    value = count(text) if value is None else value
    return value if value is not None and value <= 65535 else None


def tos_dscps(tos: int, mask: int = 0xFF) -> frozenset[int]:
    """Return the code points of an octet of type of service: its first six bits."""
    return frozenset(d for d in range(64) if (d << 2) & mask & 0xFC == tos & mask & 0xFC)


_TOS: Final = {
    "lowdelay": 0x10, "throughput": 0x08, "reliability": 0x04,
    "critical": 0xA0, "inetcontrol": 0xC0, "netcontrol": 0xE0,
}  # fmt: skip
_CODE_POINT: Final = re.compile(r"(?:af[1-4][1-3]|cs[0-7]|ef)")


def tos(text: str) -> int | None:
    """Return the type of service that a rule of pf names: a word, a code point or an octet."""
    if text in _TOS:
        return _TOS[text]
    if _CODE_POINT.fullmatch(text):
        return DSCP_NAMES[text] << 2
    value = count(text)
    return value if value is not None and value <= 0xFF else None


def network(text: str) -> Network | None:
    """Return a prefix; bits beyond its length do not count. None if it is none.

    IPv4 prefixes may be short, such as ``10/8``.
    """
    plain = _IPV4.fullmatch(text)
    if plain is not None:
        octets = plain.groups()
        length_of = 32 if octets[4] is None else int(octets[4])
        address_of = 0
        for octet in octets[:4]:
            if (number := int(octet)) > 255:
                return None
            address_of = address_of << 8 | number
        if length_of > 32:
            return None
        return IPv4Network((address_of >> (32 - length_of) << (32 - length_of), length_of))
    if len(text) > 64 or (not text[:1].isalnum() and text[:1] != ":"):
        return None
    address, slash, length = text.partition("/")
    if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){0,2}", address) and slash:
        text = address + ".0" * (3 - address.count(".")) + "/" + length
    try:
        found: IPv4Network | IPv6Network = ip_network(text, strict=False)
    except ValueError:
        return None
    return found
