"""Names of TCP and UDP ports in access lists (IOS command reference, `access-list`; IANA)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.ios.numbers import whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading.matching import Ports

PORTS: Final = {
    "bgp": 179,
    "biff": 512,
    "bootpc": 68,
    "bootps": 67,
    "chargen": 19,
    "cmd": 514,
    "connectedapps-plain": 15001,
    "connectedapps-tls": 15002,
    "daytime": 13,
    "discard": 9,
    "dnsix": 195,
    "domain": 53,
    "drip": 3949,
    "echo": 7,
    "exec": 512,
    "finger": 79,
    "ftp": 21,
    "ftp-data": 20,
    "gopher": 70,
    "h323": 1720,
    "hostname": 101,
    "http": 80,
    "https": 443,
    "ident": 113,
    "irc": 194,
    "isakmp": 500,
    "klogin": 543,
    "kshell": 544,
    "ldap": 389,
    "login": 513,
    "lpd": 515,
    "mobile-ip": 434,
    "msrpc": 135,
    "nameserver": 42,
    "netbios-dgm": 138,
    "netbios-ns": 137,
    "netbios-ss": 139,
    "netbios-ssn": 139,
    "nntp": 119,
    "non500-isakmp": 4500,
    "ntp": 123,
    "onep-plain": 15001,
    "onep-tls": 15002,
    "pim-auto-rp": 496,
    "pop2": 109,
    "pop3": 110,
    "rip": 520,
    "ripv6": 521,
    "sip": 5060,
    "sip-tls": 5061,
    "smtp": 25,
    "snmp": 161,
    "snmptrap": 162,
    "ssh": 22,
    "sunrpc": 111,
    "syslog": 514,
    "tacacs": 49,
    "tacacs-ds": 65,
    "talk": 517,
    "telnet": 23,
    "tftp": 69,
    "time": 37,
    "uucp": 540,
    "who": 513,
    "whois": 43,
    "www": 80,
    "xdmcp": 177,
}


def port(word: str) -> int | None:
    """Return a port from its number or name; None if it is none."""
    return PORTS.get(word, whole(word, 0, 65535))


def ranges(operator: str, values: Sequence[int]) -> Ports | None:
    """Return the ports that meet a comparison; None if it is not complete."""
    if not values or (operator == "range" and len(values) != 2):
        return None
    first = values[0]
    match operator:
        case "eq":
            return tuple((value, value) for value in values)
        case "neq":
            edges = [-1, *sorted(set(values)), 65536]
            return tuple(
                (low + 1, high - 1) for low, high in pairwise(edges) if low + 1 <= high - 1
            )
        case "lt":
            return ((0, first - 1),)
        case "gt":
            return ((first + 1, 65535),)
        case _:
            return ((min(values), max(values)),)
