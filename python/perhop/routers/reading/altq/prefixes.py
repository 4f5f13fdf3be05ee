"""Sets of addresses as prefixes: those outside others."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING, Final, TypeVar

from perhop.routers.reading.conditions import ALL_ADDRESSES
from perhop.routers.reading.matching import Network

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["MAX_NETWORKS", "Networks", "complement", "outside"]

Networks = tuple[Network, ...]
_Prefix = TypeVar("_Prefix", IPv4Network, IPv6Network)

MAX_NETWORKS: Final = 512
"""The most prefixes that a rule compares a packet with."""


def complement(networks: Networks, versions: Collection[int]) -> list[Network]:
    """Return the prefixes of some versions of IP outside some prefixes."""
    rest: list[Network] = [each for each in ALL_ADDRESSES if each.version in versions]
    for taken in networks:
        if len(rest) <= MAX_NETWORKS:
            rest = [part for each in rest for part in outside(each, taken)]
    return rest


def outside(prefix: Network, taken: Network) -> list[Network]:
    """Return the prefixes of the addresses in `prefix` that are not in `taken`."""
    if isinstance(prefix, IPv4Network) and isinstance(taken, IPv4Network):
        return [*_outside(prefix, taken)]
    if isinstance(prefix, IPv6Network) and isinstance(taken, IPv6Network):
        return [*_outside(prefix, taken)]
    return [prefix]


def _outside(prefix: _Prefix, taken: _Prefix) -> Iterable[_Prefix]:
    if taken.subnet_of(prefix):
        return prefix.address_exclude(taken)
    return () if prefix.subnet_of(taken) else (prefix,)
