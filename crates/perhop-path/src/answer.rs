//! Answers to probes: echo replies, and ICMP errors that quote a probe (RFC 792; RFC 1812, section
//! 4.3.2.3; RFC 4443, section 2.4). Input is not trusted: messages that are truncated,
//! contradictory or quote no probe of ours are ignored.

use std::net::IpAddr;

use perhop_core::TrafficClass;
use perhop_wire::{
    ICMP_HEADER, IcmpHeader, IpPacket, QuotedPacket, UdpHeader, checksum, icmpv4, icmpv6, number,
    sum_of_words,
};

use crate::probe::{ProbeProtocol, Target};

/// Meaning of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The destination replied to an echo request.
    Reply,
    /// The time to live expired at a router.
    TimeExceeded,
    /// The port of the destination is closed.
    PortUnreachable,
    /// A router or firewall has not forwarded the probe; the code of the error.
    Unreachable(u8),
    /// The probe is longer than the MTU of the next link, in bytes. Zero if the router does not
    /// say (RFC 1191, section 5).
    TooBig(u32),
}

impl Kind {
    /// Returns whether the path of the probe's flow ends here.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Reply | Self::PortUnreachable | Self::Unreachable(_))
    }
}

/// Answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Number that the probe was written with.
    pub identity: u16,
    /// Flow of the probe, by its port.
    pub flow: u16,
    /// Sender of the answer.
    pub from: IpAddr,
    /// Meaning.
    pub kind: Kind,
    /// DSCP and ECN of the probe as the sender of the error received it. `None` for echo replies.
    pub class: Option<TrafficClass>,
    /// True if a network address translator changed the probe: its UDP checksum is not the one that
    /// it was sent with (as Dublin traceroute detects NAT).
    pub translated: bool,
    /// Length of the answer's ICMP message, in bytes.
    pub length: usize,
}

impl Target {
    /// Reads a message that a raw ICMP socket received: over IPv4 with its IP header. `from` is the
    /// sender that the socket names.
    ///
    /// Return `None` unless the message answers a probe of this target: the quoted addresses,
    /// ports and numbers must be those of the probe.
    pub fn answer(&self, bytes: &[u8], from: IpAddr) -> Option<Answer> {
        let message = match self.source {
            IpAddr::V4(_) => {
                let packet = IpPacket::parse(bytes).ok()?;
                let whole = packet.number == number::ICMP && !packet.fragment.is_part();
                let message = packet.payload(bytes);
                // Linux hands packets to raw sockets before it looks at this checksum.
                (whole && packet.source == from && checksum(sum_of_words(message)) == 0)
                    .then_some(message)?
            }
            IpAddr::V6(_) => bytes,
        };
        let header = IcmpHeader::of(message)?;
        let kind = match self.source {
            IpAddr::V4(_) => kind_v4(&header)?,
            IpAddr::V6(_) => kind_v6(&header)?,
        };
        let length = message.len();
        if kind == Kind::Reply {
            let flow = self.flow_of(header.identifier());
            let ours = self.protocol == ProbeProtocol::Icmp && from == self.destination;
            let identity = header.sequence();
            return ours.then_some(Answer {
                identity,
                flow,
                from,
                kind,
                class: None,
                translated: false,
                length,
            });
        }
        let quoted = QuotedPacket::parse(&message[ICMP_HEADER..])?;
        let same_ends = quoted.source == self.source && quoted.destination == self.destination;
        let (identity, flow, translated) =
            if same_ends { self.quoted_probe(&quoted)? } else { None? };
        let class = Some(quoted.traffic_class);
        Some(Answer { identity, flow, from, kind, class, translated, length })
    }

    /// Returns the identity and the flow of a quoted probe, and whether it was translated.
    fn quoted_probe(&self, quoted: &QuotedPacket<'_>) -> Option<(u16, u16, bool)> {
        match (self.protocol, quoted.number) {
            (ProbeProtocol::Udp, number::UDP) => {
                let header = UdpHeader::of(quoted.transport)?;
                if header.destination_port() != self.destination_port {
                    return None;
                }
                let identity = match self.source {
                    IpAddr::V4(_) => quoted.identification as u16,
                    IpAddr::V6(_) => header.checksum(),
                };
                let translated = header.checksum() != identity;
                Some((identity, self.flow_of(header.source_port()), translated))
            }
            (ProbeProtocol::Icmp, number::ICMP | number::ICMPV6) => {
                let header = IcmpHeader::of(quoted.transport)?;
                let request = match self.source {
                    IpAddr::V4(_) => icmpv4::ECHO_REQUEST,
                    IpAddr::V6(_) => icmpv6::ECHO_REQUEST,
                };
                (header.kind() == request).then_some(())?;
                Some((header.sequence(), self.flow_of(header.identifier()), false))
            }
            _ => None,
        }
    }

    /// Returns the flow of a source port or identifier.
    const fn flow_of(&self, port: u16) -> u16 {
        port.wrapping_sub(self.source_port)
    }
}

fn kind_v4(header: &IcmpHeader<&[u8; ICMP_HEADER]>) -> Option<Kind> {
    Some(match (header.kind(), header.code()) {
        (icmpv4::ECHO_REPLY, _) => Kind::Reply,
        (icmpv4::TIME_EXCEEDED, 0) => Kind::TimeExceeded,
        (icmpv4::UNREACHABLE, 3) => Kind::PortUnreachable,
        // The MTU is in the low half of the word (RFC 1191, section 4).
        (icmpv4::UNREACHABLE, 4) => Kind::TooBig(header.rest() & 0xffff),
        (icmpv4::UNREACHABLE, code) => Kind::Unreachable(code),
        _ => return None,
    })
}

fn kind_v6(header: &IcmpHeader<&[u8; ICMP_HEADER]>) -> Option<Kind> {
    Some(match (header.kind(), header.code()) {
        (icmpv6::ECHO_REPLY, _) => Kind::Reply,
        (icmpv6::TIME_EXCEEDED, 0) => Kind::TimeExceeded,
        (icmpv6::UNREACHABLE, 4) => Kind::PortUnreachable,
        (icmpv6::PACKET_TOO_BIG, _) => Kind::TooBig(header.rest()),
        (icmpv6::UNREACHABLE, code) => Kind::Unreachable(code),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
