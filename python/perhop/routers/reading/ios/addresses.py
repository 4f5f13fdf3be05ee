"""Addresses with wildcard masks and subnet masks."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, ip_network
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from perhop.routers.reading.matching import Networks

MAX_PREFIXES: Final = 256
"""The most prefixes that a wildcard mask may stand for."""


@lru_cache(maxsize=4096)
def wildcard(address: str, mask: str) -> Networks | None:
    """Return the prefixes of an address with a wildcard mask; None for all, or none, is an error.

    A mask whose bits do not follow each other stands for several prefixes.
    """
    try:
        base, free = int(IPv4Address(address)), _mask(mask)
    except ValueError:
        return None
    if not free & (free + 1):
        return (IPv4Network((base & ~free, 32 - free.bit_length())),)
    low = (free ^ (free + 1)) >> 1  # the bits at the end
    bits = [bit for bit in range(32) if (free & ~low) >> bit & 1]
    if 2 ** len(bits) > MAX_PREFIXES:
        return None
    values = [base & ~free]
    for bit in bits:
        values += [value | 1 << bit for value in values]
    length = 32 - low.bit_length()
    return tuple(IPv4Network((value, length)) for value in sorted(values))


@lru_cache(maxsize=4096)
def one(address: str) -> Networks:
    """Return an address or a prefix with a length as prefixes.

    Raises:
        ValueError: It is none.
    """
    return (ip_network(address, strict=False),)


@lru_cache(maxsize=256)
def _mask(mask: str) -> int:
    return int(IPv4Address(mask))


def prefix(address: str, mask: str) -> Networks | None:
    """Return the prefix of an address with a subnet mask or length; None if it is none."""
    try:
        return (ip_network(f"{address}/{mask.removeprefix('/')}", strict=False),)
    except ValueError:
        return None
