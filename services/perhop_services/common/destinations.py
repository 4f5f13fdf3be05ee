"""Permitted destinations of webhooks: not in networks that only the service itself reaches."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING

from perhop_services.common.errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def addresses(host: str, port: int, allowed: Sequence[Network]) -> list[str]:
    """Return the addresses of a host to connect to, and to no others: names can change.

    Raises:
        BadRequestError: One of them is not on the public internet, and not allowed.
        OSError: The name has none.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    every = list(dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found))
    for text in every:
        check(ipaddress.ip_address(text), allowed)
    return every


def check(address: Address, allowed: Sequence[Network]) -> None:
    """Raise BadRequestError unless webhooks may lead to an address."""
    for each in (address, _inner(address)):
        if each is None or any(each in net for net in allowed if net.version == each.version):
            continue
        if not each.is_global or each.is_multicast or each.is_reserved:
            raise BadRequestError(
                f"webhooks do not lead to {address}, which is no public address; an administrator "
                "can allow its network: --webhooks-to"
            )


def _inner(address: Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that packets to an IPv6 address come to in the end, if any."""
    if not isinstance(address, ipaddress.IPv6Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
