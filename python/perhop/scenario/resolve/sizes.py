"""The lengths of a flow's packets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.scenario.model.game import GAMES
from perhop.scenario.model.traffic import IMIX

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
    if flow.game is not None:
        return GAMES[flow.game].usual_maximum + DATAGRAM_HEADERS
    udp = flow.datagrams
    assert udp is not None
    header = 0 if udp.layer == "ip" else DATAGRAM_HEADERS
    if udp.replay is not None:
        return max(size for _, size in udp.replay.packets) + header
    if udp.sizes == "imix":
        return max(size for size, _ in IMIX)
    return udp.size + header
