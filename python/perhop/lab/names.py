"""The names of a lab's nodes, as programs in its hosts look them up: by files, and by DNS."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop.lab.record import Record

__all__ = ["SERVER", "Names"]

SERVER: Final = "127.0.0.53"
"""The address of the name server in every host. It is on the host's loopback device."""

PREFERENCES: Final = Path("/etc/gai.conf")
_IPV4_FIRST: Final = """\
precedence ::1/128 50
precedence ::/0 40
precedence 2002::/16 30
precedence ::/96 20
precedence ::ffff:0:0/96 100
"""
"""The preferences of getaddrinfo(3) that are its own, but for the last, which is that of IPv4."""

_TTL_S: Final = 5
"""Time for which an answer is valid: another lab has other addresses."""

_A, _PTR, _AAAA, _OPT, _ANY = 1, 12, 28, 41, 255
_INTERNET: Final = 1
_RESPONSE, _AUTHORITATIVE, _OPCODE, _RECURSION_DESIRED = 0x8000, 0x0400, 0x7800, 0x0100
_FORMAT_ERROR, _NO_NAME, _NOT_IMPLEMENTED, _BAD_VERSION = 1, 3, 4, 16
_UDP_SIZE: Final = 1232
"""Bytes of the longest query that is read, as announced by EDNS."""


@dataclass(frozen=True, slots=True)
class _Query:
    """A question of DNS.

    Attributes:
        question: Its bytes.
        name: The name, in lower case and without the last dot.
        kind: The type of the records.
        edns: The version of EDNS; None without EDNS.
    """

    question: bytes
    name: str
    kind: int
    edns: int | None


class Names:
    """Names and their addresses."""

    def __init__(
        self, addresses: Mapping[str, IPv4Address], addresses_v6: Mapping[str, IPv6Address]
    ) -> None:
        """Take the addresses of nodes.

        Names have IPv6 addresses only if there is a file of preferences to replace. Without it
        programs would take IPv6 where IPv4 was not asked for.
        """
        v6 = addresses_v6 if PREFERENCES.exists() else {}
        self._lines: list[tuple[str, str]] = []
        self._records: dict[str, dict[int, bytes]] = {}
        self._pointers: dict[str, str] = {}
        localhost = {"localhost": IPv4Address("127.0.0.1")}, {"localhost": IPv6Address("::1")}
        for kind, of in ((_A, localhost[0]), (_AAAA, localhost[1]), (_A, addresses), (_AAAA, v6)):
            for name, address in of.items():
                self._lines.append((str(address), name))
                self._records.setdefault(name.lower(), {})[kind] = address.packed
                self._pointers[address.reverse_pointer] = name

    def write(self, record: Record) -> None:
        """Write the files that replace /etc/hosts, /etc/resolv.conf and /etc/gai.conf in hosts."""
        text = "".join(f"{address}\t{name}\n" for address, name in self._lines)
        record.names.write_text(text, encoding="utf-8")
        record.resolver.write_text(f"nameserver {SERVER}\n", encoding="ascii")
        if PREFERENCES.exists():
            record.preferences.write_text(_IPV4_FIRST, encoding="ascii")

    def is_foreign(self, message: bytes) -> bool:
        """Return whether a message is a query for a name that no node has."""
        if len(message) < 12 or message[2] & 0xF8:
            return False
        query = _parse(message)
        return query is not None and query.name not in {*self._records, *self._pointers}

    def answer(self, message: bytes) -> bytes | None:
        """Return the answer to a message of DNS (RFC 1035, section 4); None for a response.

        The server is authoritative for all names: those that no node has do not exist.
        """
        if len(message) < 12 or message[2] & 0x80:
            return None
        number, asked, *_ = struct.unpack_from("!6H", message)
        flags = _RESPONSE | asked & (_OPCODE | _RECURSION_DESIRED)
        if asked & _OPCODE:
            return struct.pack("!6H", number, flags | _NOT_IMPLEMENTED, 0, 0, 0, 0)
        query = _parse(message)
        if query is None:
            return struct.pack("!6H", number, flags | _FORMAT_ERROR, 0, 0, 0, 0)
        if query.edns:
            return _message(number, flags, query, [], _BAD_VERSION)
        known = self._records.get(query.name, {})
        found = [(kind, data) for kind, data in known.items() if query.kind in (kind, _ANY)]
        pointer = self._pointers.get(query.name)
        if pointer is not None and query.kind in (_PTR, _ANY):
            found.append((_PTR, _labels(pointer)))
        code = 0 if known or pointer is not None else _NO_NAME
        return _message(number, flags | _AUTHORITATIVE, query, found, code)


def _parse(message: bytes) -> _Query | None:
    """Read a query with one question; None if it is malformed."""
    _, _, questions, answers, authorities, others = struct.unpack_from("!6H", message)
    if (questions, answers, authorities) != (1, 0, 0) or others > 4:
        return None
    try:
        name, at = _name(message, 12)
        kind, group = struct.unpack_from("!2H", message, at)
        at += 4
        question = message[12:at]
        edns = None
        for _ in range(others):
            _, at = _name(message, at)
            of, _, more, length = struct.unpack_from("!HHIH", message, at)
            at += 10 + length
            if at > len(message):
                return None
            if of == _OPT:
                edns = more >> 16 & 0xFF
    except (IndexError, struct.error):
        return None
    return _Query(question, name, kind, edns) if group == _INTERNET else None


def _name(message: bytes, at: int) -> tuple[str, int]:
    """Return the name at a place, and the place after it. A query needs no compression.

    Raises:
        IndexError: It has no end, or is too long.
    """
    labels: list[str] = []
    while length := message[at]:
        if length > 63 or len(labels) >= 128 or at + length >= len(message):
            raise IndexError
        labels.append(message[at + 1 : at + 1 + length].decode("latin-1").lower())
        at += 1 + length
    return ".".join(labels), at + 1


def _labels(name: str) -> bytes:
    parts = [part.encode()[:63] for part in name.split(".") if part]
    return b"".join(bytes([len(part)]) + part for part in parts) + b"\0"


def _message(
    number: int, flags: int, query: _Query, found: list[tuple[int, bytes]], code: int
) -> bytes:
    """Write an answer, with the option of EDNS if the query has it (RFC 6891, section 6.1)."""
    counts = (1, len(found), 0, int(query.edns is not None))
    parts = [struct.pack("!6H", number, flags | code & 0xF, *counts), query.question]
    for kind, data in found:
        # The name is that of the question, which begins after the header.
        parts += [struct.pack("!HHHIH", 0xC00C, kind, _INTERNET, _TTL_S, len(data)), data]
    if query.edns is not None:
        parts.append(struct.pack("!BHHIH", 0, _OPT, _UDP_SIZE, code >> 4 << 24, 0))
    return b"".join(parts)
