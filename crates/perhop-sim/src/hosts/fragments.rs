//! Fragments of datagrams that exceed the MTU of their path (RFC 791, section 3.2, and RFC 8200,
//! section 4.5). As in Linux, the host that sends fragments them, and routers divide those of IPv4
//! further.

use std::collections::BTreeMap;

use perhop_core::{Duration, Ecn, Header, IpVersion, Packet, Time};
use perhop_workload::WhenFull;

use super::bodies::{Body, BodyId, Message};
use super::{IP_HEADER, ModelledHosts, Net, Role};

/// Time for which the parts of a datagram are kept: Linux's `ipfrag_time`, and 60 s for IPv6 (RFC
/// 8200, section 4.5).
const fn kept(version: IpVersion) -> Duration {
    match version {
        IpVersion::V4 => Duration::from_secs(30),
        IpVersion::V6 => Duration::from_secs(60),
    }
}

/// Bytes of the fragment header of IPv6; IPv4 has the fields in its header.
const fn fragment_header(version: IpVersion) -> u32 {
    match version {
        IpVersion::V4 => 0,
        IpVersion::V6 => 8,
    }
}

/// Bytes of all headers before a fragment's part of the datagram.
const fn headers(version: IpVersion) -> u32 {
    version.header_bytes() + fragment_header(version)
}

/// A datagram: the endpoint that receives it, and its number.
type Datagram = (u32, u64);

/// Parts of a datagram that have arrived.
#[derive(Debug)]
struct Parts {
    since: Time,
    /// Bytes of each part, by its offset.
    bytes: BTreeMap<u16, u32>,
    marked: bool,
}

/// Datagrams that have arrived in part.
#[derive(Debug, Default)]
pub(super) struct Reassembly(BTreeMap<Datagram, Parts>);

impl Reassembly {
    /// Adds a part, with its offset, the length of all parts and its header. Returns whether the
    /// datagram was marked if it is complete: CE in one part is CE of all (RFC 3168, section 5.3).
    #[cold]
    pub fn add(
        &mut self,
        now: Time,
        datagram: Datagram,
        (offset, total, header): (u16, u16, Header),
    ) -> Option<bool> {
        let first = (datagram.0, 0);
        while let Some((&oldest, parts)) = self.0.range(first..datagram).next()
            && parts.since + kept(header.version()) < now
        {
            self.0.remove(&oldest);
        }
        let fresh = || Parts { since: now, bytes: BTreeMap::new(), marked: false };
        let parts = self.0.entry(datagram).or_insert_with(fresh);
        parts.bytes.insert(offset, header.size - headers(header.version()));
        parts.marked |= header.ecn() == Ecn::Ce;
        let marked = parts.marked;
        let complete = parts.bytes.values().sum::<u32>() >= total.into();
        complete.then(|| self.0.remove(&datagram)).map(|_| marked)
    }
}

/// Returns the places and lengths of the parts of `data` bytes behind `headers` bytes, in packets
/// of `mtu` bytes.
fn parts(data: u32, headers: u32, mtu: u32) -> impl Iterator<Item = (u32, u32)> {
    let room = (mtu.saturating_sub(headers) & !7).max(8);
    (0..data.div_ceil(room)).map(move |part| (part * room, room.min(data - part * room)))
}

impl ModelledHosts {
    /// Lets all senders of datagrams know the MTU of their host's links.
    pub(super) fn fit_datagrams(&mut self, network: &Net) {
        for endpoint in &mut self.endpoints {
            if let Role::UdpSender(udp) = &mut endpoint.role {
                udp.link_mtu = network.least_mtu(endpoint.line.header.source);
                udp.mtu = udp.link_mtu;
            }
        }
    }

    /// Sends a datagram of `data` bytes, UDP header included, in fragments.
    #[cold]
    pub(super) fn send_fragments(&mut self, network: &mut Net, id: u32, data: u16) {
        let endpoint = &self.endpoints[id as usize];
        let Role::UdpSender(udp) = &endpoint.role else { return };
        let (mut line, waits_for_room) = (endpoint.line, udp.when_full == WhenFull::Wait);
        let (sequence, mtu) = (udp.sent - 1, udp.mtu);
        let version = line.header.version();
        let mut identification = None;
        for (place, length) in parts(data.into(), headers(version), mtu) {
            let offset = (place / 8) as u16;
            let message = Message::Fragment { sequence, offset, total: data };
            let size = IP_HEADER + fragment_header(version) + length;
            let (packet, sent) = line.send(network, &mut self.bodies, size, message);
            let own = self.bodies.get(packet.0).identification;
            self.bodies.identify(packet.0, *identification.get_or_insert(own));
            if let Some(waits) = sent.waits
                && waits_for_room
            {
                self.wait(network, id, packet, waits);
            }
            // Only the first one has a UDP header.
            (line.header.source_port, line.header.destination_port) = (0, 0);
        }
    }

    /// Divides a fragment at a router; a whole packet must not be divided, nor one of IPv6 (RFC
    /// 8200, section 5).
    pub(super) fn divide_fragment(
        &mut self,
        packet: &Packet<BodyId>,
        mtu: u32,
        pieces: &mut Vec<(BodyId, u32)>,
    ) {
        let Body { endpoint, identification, sent, message } = self.bodies.get(packet.body);
        let Message::Fragment { sequence, offset, total } = message else { return };
        if packet.header.version() == IpVersion::V6 {
            return;
        }
        for (place, length) in parts(packet.header.size - IP_HEADER, IP_HEADER, mtu) {
            let offset = offset + (place / 8) as u16;
            let message = Message::Fragment { sequence, offset, total };
            let body = self.bodies.put(endpoint, sent, message);
            self.bodies.identify(body, identification);
            pieces.push((body, IP_HEADER + length));
        }
        self.bodies.lose(packet.body);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Every part but the last is a multiple of eight bytes, as long as fits, and together they
        /// are the data.
        #[test]
        fn parts_make_the_whole(data in 1_u32..65_515, mtu in 68_u32..9_000, v6: bool) {
            let headers = headers(IpVersion::of(v6));
            let found: Vec<_> = parts(data, headers, mtu).collect();
            let mut end = 0;
            for (number, &(place, length)) in found.iter().enumerate() {
                prop_assert_eq!(place, end);
                prop_assert!(length > 0 && headers + length <= mtu);
                if number + 1 < found.len() {
                    prop_assert!(length % 8 == 0 && headers + length + 8 > mtu);
                }
                end += length;
            }
            prop_assert_eq!(end, data);
        }
    }
}
