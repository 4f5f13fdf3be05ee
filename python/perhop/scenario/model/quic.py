"""QUIC settings of a flow."""

from typing import Literal

from pydantic import StrictBool

from perhop.scenario.model.base import Model
from perhop.scenario.model.quantities import (
    Certificates,
    Duration,
    PacketCount,
    Packets,
    QuicDatagram,
    QuicWindow,
    Streams,
)
from perhop.scenario.model.tcp import DEFAULT_WINDOW
from perhop.units import MILLISECOND

LEAST_DATAGRAM = 1200
"""The least UDP payload that a path of QUIC carries, in bytes (RFC 9000, section 14)."""


class AckFrequency(Model):
    """The frequency of acknowledgements that the sender requests."""

    threshold: PacketCount = 1
    """The number of packets that may arrive without an acknowledgement: with 1, every second packet
    is acknowledged."""

    max_delay: Duration = 25 * MILLISECOND
    """The longest delay of an acknowledgement."""

    reordering: PacketCount = 1
    """The number of packets after a missing one at which it is reported at once; 0 for never. The
    sender declares a packet lost after 3."""


class Quic(Model):
    """The settings of a QUIC connection (RFC 9000, RFC 9002)."""

    congestion_control: Literal["reno", "cubic", "bbr", "bbr1", "prague"] = "cubic"
    """The congestion control, as that of TCP; `reno` is that of RFC 9002, section 7."""

    hystart: StrictBool = True
    """With `true`, CUBIC leaves its first slow start when the round-trip time rises, before the
    queue is full (HyStart++, RFC 9406)."""

    streams: Streams = 1
    """The number of QUIC streams of each connection, which send packets in turn. A lost packet
    delays the data of its own stream only. The flow's `streams` is the number of connections. Each
    request of an application has a stream of its own."""

    window: QuicWindow = DEFAULT_WINDOW
    """The window of the connection's flow control: the data that the receiver accepts beyond what
    its application has read."""

    stream_window: QuicWindow | None = None
    """The window of each stream's flow control; by default that of the connection."""

    datagram: QuicDatagram = LEAST_DATAGRAM
    """The UDP payload of full packets at the start, including QUIC's headers."""

    max_datagram: QuicDatagram = 1452
    """The largest UDP payload for which the sender probes the path (DPLPMTUD, RFC 8899): by default
    the largest that fits an MTU of 1500 B with IPv6. No probes if it is at most `datagram`."""

    initial_window: Packets | None = None
    """The congestion window of a new connection, in packets of `datagram`; by default 10, but at
    most 14720 B (RFC 9002, section 7.2)."""

    pacing: StrictBool = True
    """With `true`, the sender paces packets at 1.25 windows per round trip, after bursts of at most
    the initial window (RFC 9002, section 7.7). With `false`, bursts have the same limit. BBR and
    Prague always pace."""

    ecn: StrictBool | None = None
    """With `true`, packets are ECN-capable, and marks count as losses do (RFC 9000, section 13.4);
    by default for Prague only."""

    ack_frequency: AckFrequency | None = None
    """The frequency of acknowledgements that the sender requests
    (draft-ietf-quic-ack-frequency). By default every second packet, packets out of order and marked
    packets are acknowledged at once, and others after at most 25 ms (RFC 9000, section 13.2)."""

    certificates: Certificates = 2000
    """The size of the receiver's TLS certificates. With more than about 3 kB, the handshake takes
    two round trips: the receiver sends at most three times the bytes that it has received until the
    sender's address is validated (RFC 9000, section 8.1)."""

    @property
    def effective_stream_window(self) -> int:
        """The window of each stream's flow control in bytes."""
        return self.stream_window or self.window

    @property
    def effective_ecn(self) -> bool:
        """True if packets are ECN-capable."""
        return self.congestion_control == "prague" if self.ecn is None else self.ecn
