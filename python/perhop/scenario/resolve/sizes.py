"""The lengths of a flow's packets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from perhop.scenario.model.traffic import Flow

TCP_HEADERS: Final = 40
"""The bytes of an IPv4 and a TCP header without options."""

TIMESTAMPS: Final = 12
"""The bytes of the timestamps option in every segment (RFC 7323)."""

DATAGRAM_HEADERS: Final = 28
"""The bytes of an IPv4 header and a UDP or ICMP header."""


def packet_size(flow: Flow) -> int:
    """Return the length of a flow's full packets in bytes, including the IP header."""
    if flow.tcp is not None:
        return flow.tcp.mss + TCP_HEADERS + TIMESTAMPS * flow.tcp.timestamps
    assert flow.udp is not None
    header = 0 if flow.udp.layer == "ip" else DATAGRAM_HEADERS
    if flow.udp.replay is not None:
        return max(size for _, size in flow.udp.replay.packets) + header
    return flow.udp.size + header
