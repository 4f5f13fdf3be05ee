"""Tunnels between nodes: the section `tunnels`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from perhop.scenario.model.base import Model
from perhop.scenario.model.classes import MOST_SHARED
from perhop.scenario.model.dscp import DSCP_SCHEMA, format_dscp, parse_dscp
from perhop.scenario.model.names import Name  # noqa: TC001 (pydantic evaluates it)
from perhop.scenario.model.quantities import Mtu, OuterBytes  # noqa: TC001 (as above)
from perhop.scenario.model.text import Text
from perhop.scenario.model.topology import Link, Shapers

COPY: Final = -1
"""The value of `dscp` that stands for the DSCP of the inner packet."""

TunnelType = Literal["ipip", "gre", "gre-key", "vxlan", "wireguard", "esp", "esp-udp"]
"""Encapsulations by name."""

InnerFlow = Literal["hidden", "at-entry", "dissected"]
"""Extent to which Linux's queues see the flows inside a tunnel."""


@dataclass(frozen=True, slots=True)
class TunnelHeaders:
    """What a tunnel over IPv4 adds to a packet.

    Attributes:
        overhead: Bytes of all headers, the outer IP header of 20 B included, and of the integrity
            check value.
        protocol: IP protocol number in the outer header.
        port: UDP port of the tunnel; None without UDP.
        hashed: True if the source port is a hash of the inner flow.
        trailer: Bytes behind the inner packet that are padded with it.
        multiple: Number of which the length of inner packet and trailer becomes a multiple.
        capped: True if padding ends at the tunnel's MTU.
        dscp: Outer DSCP unless set.
        flows: Where Linux's queues see inner flows: nowhere, at the entry, or on the whole path.
    """

    overhead: int
    protocol: int
    port: int | None = None
    hashed: bool = False
    trailer: int = 0
    multiple: int = 1
    capped: bool = False
    dscp: int = COPY
    flows: InnerFlow = "hidden"

    def room(self, mtu: int) -> int:
        """Return the longest packet whose outer packet has `mtu` bytes at most; or less than 1."""
        inside = mtu - self.overhead
        return inside - (0 if self.capped else inside % self.multiple) - self.trailer


EXPERIMENTAL: Final = 253
"""A protocol number for experiments (RFC 3692): that of tunnels with an overhead of their own."""

TUNNEL_TYPES: Final[dict[TunnelType, TunnelHeaders]] = {
    # Linux's flow dissector reads the headers inside IPIP and GRE (net/core/flow_dissector.c).
    # RFC 2003, section 3.1: a second IP header.
    "ipip": TunnelHeaders(20, 4, flows="dissected"),
    # RFC 2784, section 2.1: 4 B; RFC 2890, section 2: a key of 4 B.
    "gre": TunnelHeaders(24, 47, flows="dissected"),
    "gre-key": TunnelHeaders(28, 47, flows="dissected"),
    # RFC 7348, section 5: UDP 8 B, VXLAN 8 B, and the inner Ethernet header, 14 B.
    "vxlan": TunnelHeaders(50, 17, port=4789, hashed=True),
    # Donenfeld, "WireGuard: Next Generation Kernel Network Tunnel", section 5.4.6: UDP 8 B, type,
    # receiver and counter 16 B, the tag of Poly1305 16 B; padding to 16 B that does not exceed the
    # MTU. The outer DSCP is zero (Linux, drivers/net/wireguard/send.c). The hash of the inner flow
    # stays with the packet until it leaves the host (`wg_reset_packet`, queueing.h).
    "wireguard": TunnelHeaders(
        60, 17, port=51820, multiple=16, capped=True, dscp=0, flows="at-entry"
    ),
    # RFC 4303, section 2, with AES-GCM (RFC 4106): SPI and sequence number 8 B, IV 8 B, ICV 16 B;
    # pad length and next header, 2 B, end at a multiple of 4 B. The DSCP is copied (RFC 4301,
    # section 5.1.2.1). In UDP: RFC 3948, section 2.1.
    "esp": TunnelHeaders(52, 50, trailer=2, multiple=4),
    "esp-udp": TunnelHeaders(60, 17, port=4500, trailer=2, multiple=4),
}
"""Encapsulations by name, over IPv4."""


def _parse_outer(text: str) -> int:
    return COPY if text == "copy" else parse_dscp(text)


OuterDscp = Annotated[
    int,
    Text(
        _parse_outer,
        lambda value: "copy" if value == COPY else format_dscp(value),
        "`copy`, or a DSCP such as `cs1`",
        {"anyOf": [{"const": "copy"}, *DSCP_SCHEMA["anyOf"]]},
        accepts=(str, int),
    ),
]
"""The DSCP of outer packets: a code point, or that of the inner packet."""


class Tunnel(Model):
    """A tunnel between two nodes, in both directions, over IPv4.

    Packets enter it at one end if their path leads through the other end and further, or to the
    other end if that is a host. Between the
    ends they have the outer addresses, protocol, ports and DSCP. ECN fields follow RFC 6040.
    """

    ends: tuple[Name, Name]
    """The two nodes: routers, or hosts such as clients of a virtual private network."""

    type: TunnelType | None = None
    """The encapsulation, or `overhead`."""

    overhead: OuterBytes | None = None
    """The bytes of an encapsulation of another kind, the outer IP header included."""

    dscp: OuterDscp | None = None
    """The DSCP of outer packets: `copy`, that of the inner packet, or a code point. Unless set, it
    is copied; WireGuard sends `be`."""

    model: Literal["pipe", "uniform"] = "pipe"
    """The DSCP behind the tunnel (RFC 2983, section 3.1): that before the tunnel (`pipe`), or that
    of the outer packet (`uniform`)."""

    mtu: Mtu | None = None
    """The longest inner packet; unless set, what fits the links of both ends to each other. A link
    without an MTU counts as one of 1500 B here."""

    egress: dict[Name, Name] = Field(default_factory=dict)
    """The policies of the devices at the ends, by node: they see inner packets, which then enter
    the tunnel. A device has no rate, so that packets wait for shapers only."""

    shape: Annotated[Shapers, Field(default={})]
    """Shapers of the devices at the ends, by node. Tokens are bytes of inner packets."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        known = ", ".join(f"`{name}`" for name in TUNNEL_TYPES)
        if (self.type is None) == (self.overhead is None):
            said = "has both `type` and `overhead`" if self.type else "lacks `type`"
            raise ValueError(f"{said}; expected one of {known}, or `overhead: 60 B`")
        if self.model == "uniform" and self.outer_dscp != COPY:
            why = f"`{self.type}` copies none" if self.dscp is None else "`dscp` is fixed"
            raise ValueError(
                f"`uniform` copies DSCPs at both ends, but {why} at the entry; expected "
                "`dscp: copy`"
            )
        return self

    @property
    def headers(self) -> TunnelHeaders:
        """The headers that it adds."""
        if self.type is not None:
            return TUNNEL_TYPES[self.type]
        assert self.overhead is not None
        return TunnelHeaders(self.overhead, EXPERIMENTAL)

    @property
    def outer_dscp(self) -> int:
        """The DSCP of outer packets, or `COPY`."""
        return self.headers.dscp if self.dscp is None else self.dscp

    def device(self, name: str) -> Link:
        """The devices at the ends of the tunnel of this name, as a link without a rate of note."""
        return Link.model_construct(
            ends=self.ends, name=name, rate=MOST_SHARED, egress=self.egress, shape=self.shape
        )

    def other(self, node: str) -> str:
        """The end that is not `node`."""
        first, second = self.ends
        return second if node == first else first
