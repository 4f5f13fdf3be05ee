"""Names and addresses, as fields of the model."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TYPE_CHECKING, Annotated, Final, Literal

from perhop.scenario.model.text import Text
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_YAML_WORDS = frozenset({"null", "true", "false"})


def _parse_name(text: str) -> str:
    if len(text) > 64:
        raise ValueError(f"{quote(text)} is too long for a name; expected at most 64 characters")
    if not re.fullmatch(_NAME, text, re.ASCII):
        raise ValueError(
            f"{quote(text)} is not a name; expected a letter or `_`, then letters, digits, `_`, `-`"
        )
    if text.lower() in _YAML_WORDS:
        raise ValueError(f"{quote(text)} is a reserved word of YAML; expected another name")
    return text


Name = Annotated[
    str,
    Text(
        _parse_name,
        str,
        "a name such as `core-1`",
        {"type": "string", "pattern": f"^{_NAME}$", "maxLength": 64},
    ),
]
"""The name of a node, policy, class, flow or ping."""


def _parse_direction(text: str) -> str:
    if re.fullmatch(rf"{_NAME}>{_NAME}(#({_NAME}|[0-9]+))?", text, re.ASCII) is None:
        raise ValueError(f"{quote(text)} is not a directed link; expected one such as `r1>r2`")
    return text


Direction = Annotated[
    str,
    Text(_parse_direction, str, "a directed link such as `r1>r2`", {"type": "string"}),
]
"""A direction of a link, as results name it: ``r1>r2``, ``r1>r2#2``, ``r1>r2#south``."""


def _parse_path(text: str) -> str:
    if re.fullmatch(rf"{_NAME}(/{_NAME})*", text, re.ASCII) is None:
        raise ValueError(f"{quote(text)} is not a class; expected a name such as `bulk/web`")
    return text


ClassPath = Annotated[
    str,
    Text(_parse_path, str, "the name of a class such as `bulk` or `bulk/web`", {"type": "string"}),
]
"""A class at the end of a link, as results name it: those inside another as ``outer/inner``."""


def _parse_target(text: str) -> str:
    return text


Target = Annotated[
    str,
    Text(_parse_target, str, "the name of a flow or ping", {"type": "string"}),
]
"""The target of an expectation: the name of a flow or ping, or ``total``."""


def _parse_address(text: str) -> IPv4Address:
    try:
        address = IPv4Address(text)
    except ValueError:
        raise ValueError(f"{quote(text)} is not an IPv4 address such as `192.0.2.1`") from None
    if address.is_multicast or address.is_loopback or address.is_unspecified or address.is_reserved:
        raise ValueError(f"{quote(text)} cannot be a node's own; expected a unicast address")
    return address


Address = Annotated[
    IPv4Address,
    Text(
        _parse_address,
        str,
        "an IPv4 address such as `192.0.2.1`",
        {"type": "string", "format": "ipv4"},
    ),
]
"""A node's IPv4 address."""


def _parse_address_v6(text: str) -> IPv6Address:
    try:
        address = IPv6Address(text)
    except ValueError:
        raise ValueError(f"{quote(text)} is not an IPv6 address such as `2001:db8::1`") from None
    used = address.is_multicast or address.is_loopback or address.is_unspecified
    if used or address.is_link_local or address.ipv4_mapped or address.scope_id:
        raise ValueError(f"{quote(text)} cannot be a node's own; expected a unicast address")
    return address


AddressV6 = Annotated[
    IPv6Address,
    Text(
        _parse_address_v6,
        str,
        "an IPv6 address such as `2001:db8::1`",
        {"type": "string", "format": "ipv6"},
    ),
]
"""A node's IPv6 address."""

IpVersion = Literal[4, 6]
"""A version of the internet protocol."""

EVERY_ADDRESS: Final[dict[IpVersion, IPv4Network | IPv6Network]] = {
    4: IPv4Network("0.0.0.0/0"),
    6: IPv6Network("::/0"),
}
"""The prefix of all addresses of a version."""

Network = IPv4Network | IPv6Network


def _parse_end(text: str) -> str | Network:
    """A node's name, or a prefix: what has a dot, a colon or a slash is a prefix."""
    if not re.search(r"[.:/]", text):
        return _parse_name(text)
    try:
        return ip_network(text)
    except ValueError:
        pass
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        raise ValueError(
            f"{quote(text)} is neither a node nor a prefix such as `192.0.2.0/24`"
        ) from None
    raise ValueError(f"{quote(text)} has bits beyond its length; did you mean `{network}`?")


def _format_end(end: str | Network) -> str:
    if isinstance(end, str):
        return end
    return str(end.network_address if end.prefixlen == end.max_prefixlen else end)


MatchEnd = Annotated[
    str | IPv4Network | IPv6Network,
    Text(
        _parse_end,
        _format_end,
        "a node, or a prefix such as `192.0.2.0/24`",
        {"type": "string", "minLength": 1},
    ),
]
"""A source or destination: a node's name or an address prefix."""


def prefixes_of(
    ends: Iterable[str | Network], addresses: Mapping[str, Iterable[IPv4Address | IPv6Address]]
) -> tuple[Network, ...]:
    """Return the address prefixes of a match's `ends`; a node becomes its `addresses`."""
    found: list[Network] = []
    for end in ends:
        found += map(ip_network, addresses[end]) if isinstance(end, str) else (end,)
    return tuple(found)
