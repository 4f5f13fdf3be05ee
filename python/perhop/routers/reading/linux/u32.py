"""The classifier u32: comparisons of bits at offsets in a packet, as conditions on its header.

A packet has an IPv4 header of 20 bytes, or an IPv6 header of 40, without options.
Source: tc-u32(8), and `parse_ip` and its like in iproute2's f_u32.c.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from socket import AF_INET, inet_pton
from typing import Final

from perhop.routers.reading.linux import units
from perhop.routers.reading.matching import Conditions

__all__ = ["PROTOCOLS", "Key", "UnsupportedMatchError", "conditions", "keys"]

Key = tuple[int, int, int, int]
"""A comparison: the offset in bytes, the length in bytes, the value and the mask."""

PROTOCOLS: Final = {"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58, "ipv6-icmp": 58, "icmp6": 58}
"""Protocols by name; others do not occur in scenarios."""

_OTHERS: Final = {
    "sctp": 132,
    "ipv6": 41,
    "ip": 0,
    "igmp": 2,
    "ipip": 4,
    "ipencap": 4,
    "gre": 47,
    "esp": 50,
    "ah": 51,
    "ospf": 89,
}
_NUMBERS: Final = {**PROTOCOLS, **_OTHERS}
_KNOWN: Final = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmp"}
_HEADER: Final = {4: 20, 6: 40}
_FIELDS: Final = {
    version: {
        "protocol": (protocol_at, 1),
        "ihl": (0, 1),
        "sport": (start, 2),
        "dport": (start + 2, 2),
        "icmp_type": (start, 1),
        "icmp_code": (start + 1, 1),
    }
    for version, start, protocol_at in ((4, 20, 9), (6, 40, 6))
}
"""The offset and length of fields, in bytes."""

_FRAGMENTS: Final = {
    "nofrag": (0, 0x3FFF),
    "firstfrag": (0x2000, 0x3FFF),
    "df": (0x4000, 0x4000),
    "mf": (0x2000, 0x2000),
}
"""The values and masks of words about fragments, which have no value (`parse_ip` of f_u32.c)."""

_BYTES: Final = {
    4: frozenset((0, 1, 9, *range(12, 20), *range(20, 24))),
    6: frozenset((0, 1, 6, *range(8, 40), *range(40, 44))),
}
"""The bytes of a packet that scenarios have conditions on."""

_OTHER_BYTES: Final = {
    version: int.from_bytes(bytes(0 if at in known else 255 for at in range(64)), "big")
    for version, known in _BYTES.items()
}
_LENGTHS: Final = frozenset(map(str, range(33)))
_RAW: Final = {"u8": 1, "u16": 2, "u32": 4}
_MOST_PORTS: Final = 256


class UnsupportedMatchError(ValueError):
    """A condition that no scenario has; the message says which."""


def _value(word: str) -> int:
    if re.fullmatch(r"[0-9a-fA-F]{1,8}", word) and not word.isdigit():
        return int(word, 16)
    return units.number(word)


def _mask(word: str) -> int:
    if not re.fullmatch(r"(0[xX])?[0-9a-fA-F]{1,8}", word, re.ASCII):
        raise ValueError(f"`{word[:40]}` is not a hexadecimal mask")
    return int(word, 16)


def _ipv4(text: str) -> tuple[int, int] | None:
    """Return the number and mask of a prefix such as ``10.0.0.0/8``; None for other forms."""
    address, _, length = ("0/0" if text in ("any", "all", "default") else text).partition("/")
    if re.fullmatch(r"[0-9]+(\.[0-9]+){0,2}", address):  # `get_addr_ipv4` fills up
        address += ".0" * (3 - address.count("."))
    try:
        number = int.from_bytes(inet_pton(AF_INET, address), "big")
    except OSError:
        return None
    length = length or "32"
    if length not in _LENGTHS:
        return None
    mask = 0xFFFFFFFF << (32 - int(length)) & 0xFFFFFFFF
    return number & mask, mask


_SHORT: Final = frozenset(
    ("sport", "dport", "protocol", "tos", "dsfield", "precedence", "ihl", "icmp_type", "icmp_code")
)
_WORDS: Final = {
    "ip": "src dst tos dsfield ds precedence ihl protocol nofrag firstfrag df mf dport sport "
    "icmp_type icmp_code",
    "ip6": "src dst priority protocol flowlabel dport sport icmp_type icmp_code",
    "tcp": "src dst",
    "udp": "src dst",
    "icmp": "type code",
    "ether": "src dst",
    "mark": "",
}
"""The fields of protocols."""


def keys(words: list[str], version: int) -> tuple[list[Key], list[str], int]:
    """Return the comparisons of ``match`` (without that word), the remaining words, the version.

    ``at`` stands in place of the offset of a field (`parse_u16` and its like of iproute2).

    Raises:
        ValueError: If the words are no match.
    """
    found, rest, version = _match(words, version)
    if rest[:1] == ["at"] and len(found) == 1:
        ((_, size, value, mask),) = found
        found, rest = [(_offset(rest[1], version), size, value, mask)], rest[2:]
    return found, rest, version


def _offset(place: str, version: int) -> int:
    """Return the bytes from the begin of a packet of what stands behind ``at``."""
    start = _HEADER[version] if place.startswith("nexthdr") else 0
    return start + int(place.removeprefix("nexthdr").lstrip("+") or "0", 0)


def _match(words: list[str], version: int) -> tuple[list[Key], list[str], int]:
    """Return what `keys` does, without an offset."""
    kind, rest = words[0].lower(), words[1:]
    start = _HEADER[version]
    if kind in _RAW:
        # Masks are hexadecimal even without 0x, values are not (tc-u32(8), `u32_hex_mask`).
        value, mask, at = _value(rest[0]), _mask(rest[1]), 0
        rest = rest[2:]
        if rest[:1] == ["at"]:
            at, rest = _offset(rest[1], version), rest[2:]
        length = _RAW[kind]
        if max(value, mask) >> (8 * length) or (length == 4 and at % 4):
            raise ValueError(f"`{kind}` needs a value and a mask of its length, at its own bytes")
        return [(at, _RAW[kind], value, mask)], rest, version
    if kind in ("ip", "ip6"):
        version = 6 if kind == "ip6" else 4
        start = _HEADER[version]
        field, rest = rest[0].lower(), rest[1:]
        if version == 4 and field in _FRAGMENTS:
            return [(6, 2, *_FRAGMENTS[field])], rest, version
        if field in ("src", "dst"):
            simple = _ipv4(rest[0]) if version == 4 else None
            if simple is not None:
                return [(12 if field == "src" else 16, 4, *simple)], rest[1:], version
            network = ip_network(rest[0], strict=False)
            if network.version != version:
                raise ValueError(f"`{rest[0][:40]}` is not an address of this version")
            size = network.max_prefixlen // 8
            at = (12 if version == 4 else 8) + (size if field == "dst" else 0)
            mask = int(network.netmask)
            return [(at, size, int(network.network_address), mask)], rest[1:], version
        if not any(each.startswith(field) for each in _WORDS[kind].split()):
            raise ValueError(f"`{field[:20]}` is no field")
        value = _value(rest[0])
        after = rest[1:]
        masked = bool(after) and re.fullmatch(r"(0[xX])?[0-9a-fA-F]{1,8}", after[0]) is not None
        full = 0xFFFF if field in ("sport", "dport") else 0xFF
        if not masked or (field in _SHORT and max(value, _mask(after[0])) > full):
            raise ValueError(f"`{field}` needs a value of its length, and a mask")
        mask, rest = _mask(after[0]), after[1:]
        if field in ("tos", "dsfield", "precedence", "priority", "ds"):
            if version == 4:
                return [(1, 1, value, mask)], rest, version
            return [(0, 2, value << 4, mask << 4)], rest, version
        if field not in _FIELDS[version]:
            raise UnsupportedMatchError(f"the field {field[:20]} is no condition of a scenario")
        return [(*_FIELDS[version][field], value, mask)], rest, version
    if kind in ("tcp", "udp"):
        field, rest = rest[0].lower(), rest[1:]
        if field not in ("src", "dst"):
            raise ValueError(f"`{field[:20]}` is no field")
        number, mask = _value(rest[0]), _mask(rest[1])
        return [(start + (2 if field == "dst" else 0), 2, number, mask)], rest[2:], version
    if kind not in _WORDS:
        raise ValueError(f"`{kind[:20]}` is no match")
    names = {"mark": "mark", "ether": "an Ethernet address", "icmp": "the type of an ICMP packet"}
    raise UnsupportedMatchError(f"{names.get(kind, kind[:20])} is no condition of a scenario")


def conditions(found: list[Key], version: int) -> tuple[Conditions, str]:
    """Return the conditions that comparisons amount to, and a note on what they leave out.

    Raises:
        UnsupportedMatchError: If they compare something that no scenario has.
    """
    value, mask = bytearray(64), bytearray(64)
    for at, length, number, bits in found:
        if not 0 <= at <= 64 - length or bits >> (8 * length):
            raise UnsupportedMatchError(f"bytes at offset {at} are no condition of a scenario")
        for index, (one, other) in enumerate(
            zip((number & bits).to_bytes(length, "big"), bits.to_bytes(length, "big"), strict=True)
        ):
            place = at + index
            if mask[place] & other & (value[place] ^ one):
                return Conditions(dscp=frozenset()), ""
            value[place] |= one
            mask[place] |= other
    start = _HEADER[version]
    size = 4 if version == 4 else 16
    first = 12 if version == 4 else 8
    if version == 4:
        # The version and length of the header are always 4 and 5 words.
        if (0x45 ^ value[0]) & mask[0]:
            return Conditions(dscp=frozenset()), ""
        tos, bits, at = value[1], mask[1], 9
    else:
        if (0x60 ^ value[0]) & mask[0] & 0xF0:
            return Conditions(dscp=frozenset()), ""
        tos = (value[0] << 4 | value[1] >> 4) & 0xFF
        bits, at = (mask[0] << 4 | mask[1] >> 4) & 0xFF, 6
        if mask[1] & 0x0F:
            raise UnsupportedMatchError("the flow label is no condition of a scenario")
    if int.from_bytes(mask, "big") & _OTHER_BYTES[version]:
        place = next(each for each in range(64) if mask[each] and each not in _BYTES[version])
        raise UnsupportedMatchError(_what(place, version))
    note = "it compares the bits of ECN, too" if bits & 0x03 else ""
    return (
        Conditions(
            dscp=dscps(tos, bits) if bits else None,
            protocols=_protocols(value[at], mask[at]),
            source=_network(value, mask, first, size),
            destination=_network(value, mask, first + size, size),
            source_ports=_ports(value, mask, start),
            destination_ports=_ports(value, mask, start + 2),
        ),
        note,
    )


def _what(place: int, version: int) -> str:
    names = {2: "the length", 3: "the length", 6: "fragmentation", 7: "fragmentation", 8: "the TTL"}
    if version == 6:
        names = {4: "the length", 5: "the length", 7: "the hop limit"}
    name = names.get(place, f"the byte at offset {place}")
    if place == _HEADER[version] + 13:
        name = "TCP's flags"
    return f"{name} of a packet is no condition of a scenario"


@lru_cache(maxsize=1024)
def dscps(tos: int, mask: int) -> frozenset[int]:
    """Return the code points of the bytes (traffic class, type of service) that a mask permits."""
    return frozenset(d for d in range(64) if not ((d << 2) ^ tos) & mask & 0xFC)


@lru_cache(maxsize=1024)
def _protocols(value: int, mask: int) -> frozenset[str] | None:
    if not mask:
        return None
    return frozenset(name for number, name in _KNOWN.items() if not (number ^ value) & mask)


def _network(
    value: bytearray, mask: bytearray, at: int, size: int
) -> tuple[IPv4Network | IPv6Network, ...] | None:
    bits = int.from_bytes(mask[at : at + size], "big")
    if not bits:
        return None if size == 4 else (IPv6Network("::/0"),)
    length = bits.bit_count()
    if bits != ((1 << length) - 1) << (8 * size - length):
        raise UnsupportedMatchError("an address mask with gaps is no condition of a scenario")
    kind = IPv4Network if size == 4 else IPv6Network
    return (kind((int.from_bytes(value[at : at + size], "big"), length)),)


def _ports(value: bytearray, mask: bytearray, at: int) -> tuple[tuple[int, int], ...] | None:
    bits = int.from_bytes(mask[at : at + 2], "big")
    number = int.from_bytes(value[at : at + 2], "big")
    if not bits:
        return None
    # Bits below the lowest one that counts make ranges; gaps above it repeat these.
    span = (bits & -bits).bit_length() - 1
    gaps = [bit for bit in range(span, 16) if not bits >> bit & 1]
    if 1 << len(gaps) > _MOST_PORTS:
        raise UnsupportedMatchError("a mask of ports with many gaps is no condition of a scenario")
    found = []
    for choice in range(1 << len(gaps)):
        start = number | sum(1 << bit for index, bit in enumerate(gaps) if choice >> index & 1)
        found.append((start, start + (1 << span) - 1))
    return tuple(found)
