"""Agents: the hosts of a scenario's nodes on a live network."""

import binascii
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Annotated

from pydantic import BeforeValidator, StrictBool

from perhop.scenario.model.base import Model
from perhop.scenario.model.queues import one_or_more
from perhop.scenario.model.text import Text
from perhop.units import quote

AGENT_PORT = 4861
"""The default TCP port at which agents listen for controllers."""

IPERF3_PORT = 5201
"""The port of iperf3's servers, unless told otherwise."""

STAMP_PORT = 862
"""The UDP port of STAMP reflectors (RFC 8762, section 4.1), unless told otherwise."""

_KEY = "perhop-ed25519"
_KEY_BYTES = 32
_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host, by name or address, and a port.

    Attributes:
        host: A host name or an IP address.
        port: The port; None for the usual one of the service.
    """

    host: str
    port: int | None = None

    def __str__(self) -> str:
        """Return ``192.0.2.1:4861`` or ``[2001:db8::1]:4861``, as files have it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.host if self.port is None else f"{host}:{self.port}"


def _parse_host(text: str) -> str:
    """Return a host name or an IP address in its usual form."""
    try:
        address: IPv4Address | IPv6Address = ip_address(text)
    except ValueError:
        if len(text) > 253 or not _HOST_NAME.fullmatch(text) or re.fullmatch(r"[0-9.]+", text):
            raise ValueError(
                f"{quote(text)} is neither an IP address nor a host name; expected one such as "
                "`192.0.2.1` or `a.example.net`"
            ) from None
        return text
    if address.is_multicast or address.is_unspecified:
        raise ValueError(f"{quote(text)} is not one host's; expected a unicast address")
    return str(address)


def _parse_endpoint(text: str) -> Endpoint:
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::(.*))?", text)
    if bracketed:
        host, port = bracketed[1], bracketed[2]
        if ":" not in host:
            raise ValueError(f"{quote(text)}: only IPv6 addresses stand in brackets")
    elif text.count(":") == 1:
        host, port = text.split(":")
    else:
        host, port = text, None
    if port is None:
        return Endpoint(_parse_host(host))
    if not re.fullmatch(r"[0-9]{1,5}", port, re.ASCII) or not 0 < int(port) < 2**16:
        raise ValueError(f"{quote(text)} has no port from 1 to 65535 behind its last colon")
    return Endpoint(_parse_host(host), int(port))


def _parse_key(text: str) -> str:
    """Return a public key without its comment."""
    words = text.split()
    try:
        if words[0] != _KEY:
            raise ValueError
        key = b64decode(words[1], validate=True)
        if len(key) != _KEY_BYTES:
            raise ValueError
    except (IndexError, ValueError, binascii.Error):
        raise ValueError(
            f"{quote(text)} is not a public key; expected `{_KEY} …`, as `perhop agent key` "
            "prints it"
        ) from None
    return f"{_KEY} {b64encode(key).decode()}"


HostAddress = Annotated[
    str,
    Text(
        _parse_host,
        str,
        "an IP address or a host name, such as `192.0.2.1`",
        {"type": "string", "examples": ["192.0.2.1", "2001:db8::1", "a.example.net"]},
    ),
]
"""An IP address or a host name."""

HostEndpoint = Annotated[
    Endpoint,
    Text(
        _parse_endpoint,
        str,
        "an IP address or a host name, and a port, such as `192.0.2.1:4861`",
        {"type": "string", "examples": ["192.0.2.1:4861", "[2001:db8::1]:4861", "a.example.net"]},
    ),
]
"""An IP address or a host name, and a port if it is not the usual one."""

PublicKey = Annotated[
    str,
    Text(
        _parse_key,
        str,
        f"a public key: `{_KEY} …`",
        {"type": "string", "examples": [f"{_KEY} {b64encode(bytes(_KEY_BYTES)).decode()}"]},
    ),
]
"""The public key of an agent."""


class Agent(Model):
    """The host of a node on a live network: an agent, or a host without one.

    Written ``{address: 192.0.2.1:4861, key: perhop-ed25519 …}``, ``{iperf3: 192.0.2.1:5201}``,
    ``{stamp: 192.0.2.1}`` or ``{ping: 192.0.2.1}``.
    """

    address: HostEndpoint | None = None
    """The address at which the agent listens for controllers: host, and port unless it is 4861."""

    key: PublicKey | None = None
    """The agent's public key."""

    data: HostAddress | None = None
    """The address of the host in flows and pings; that of `address` unless set."""

    nat: StrictBool = False
    """With `true`, the host is behind NAT or a firewall: it opens all connections of its flows, and
    cannot be pinged."""

    iperf3: Annotated[tuple[HostEndpoint, ...] | None, BeforeValidator(one_or_more)] = None
    """The iperf3 servers of a host without an agent: host, and port unless it is 5201. A server
    runs one flow at a time; several on different ports run as many."""

    stamp: HostEndpoint | None = None
    """The STAMP or TWAMP Light reflector of a node without an agent, which answers pings: host, and
    port unless it is 862."""

    ping: HostAddress | None = None
    """The address of a node without an agent, which is only pinged."""

    @property
    def without_agent(self) -> str | None:
        """The key that says what the node has instead of an agent; None if it has an agent."""
        keys = ("iperf3", "stamp", "ping")
        return next((key for key in keys if getattr(self, key) is not None), None)
