"""The lengths of a flow's packets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.scenario.model.game import GAMES
from perhop.scenario.model.traffic import IMIX

if TYPE_CHECKING:
    from perhop.scenario.model.names import IpVersion
    from perhop.scenario.model.traffic import Flow

IP_HEADER: Final[dict[IpVersion, int]] = {4: 20, 6: 40}
"""The bytes of an IP header without options or extensions (RFC 791, section 3.1; RFC 8200, section
3)."""

TIMESTAMPS: Final = 12
"""The bytes of the timestamps option in every segment (RFC 7323)."""


def tcp_headers(ip: IpVersion) -> int:
    """Return the bytes of an IP and a TCP header without options."""
    return IP_HEADER[ip] + 20


def datagram_headers(ip: IpVersion) -> int:
    """Return the bytes of an IP header and a UDP or ICMP header."""
    return IP_HEADER[ip] + 8


def packet_size(flow: Flow, ip: IpVersion) -> int:
    """Return the length of a flow's full packets in bytes, including the IP header.

    Packets of QUIC grow, as far as their path permits.
    """
    if flow.tcp is not None:
        return flow.tcp.effective_mss(ip) + tcp_headers(ip) + TIMESTAMPS * flow.tcp.timestamps
    if flow.quic is not None:
        return flow.quic.datagram + datagram_headers(ip)
    if flow.game is not None:
        return GAMES[flow.game].usual_maximum + datagram_headers(ip)
    udp = flow.datagrams
    assert udp is not None
    header = 0 if udp.layer == "ip" else datagram_headers(ip)
    if udp.replay is not None:
        return max(size for _, size in udp.replay.packets) + header
    if udp.sizes == "imix":
        return max(size for size, _ in IMIX[ip])
    return udp.size + header
