//! Collection of fragments sent to a router until all have arrived (RFC 791, section 3.2; RFC 8200,
//! section 4.5).
//!
//! Fragments stay as they are: a router answers a request fragment by fragment, once all have
//! arrived.

use std::collections::VecDeque;
use std::net::IpAddr;

use perhop_core::{Duration, Header, NodeId, Time};
use perhop_wire::{FRAGMENT_HEADER, IPV6_HEADER, IpPacket};

use crate::store::{Buffer, Store};

/// Time for which fragments wait for others: Linux's `ipfrag_time`.
const PATIENCE: Duration = Duration::from_micros(30_000_000);
/// Greatest number of incomplete requests, of all routers together; the oldest is discarded.
const MOST: usize = 256;

/// A fragment as it arrived.
pub(crate) type Piece = (Header, Buffer);

/// Identification of a fragment's packet: its router, source and destination, protocol and
/// identification field.
type Key = (NodeId, IpAddr, IpAddr, u8, u32);

#[derive(Debug)]
struct Incomplete {
    key: Key,
    since: Time,
    /// Fragments by their offset.
    pieces: Vec<(Extent, Piece)>,
}

/// Range of a fragment in its packet, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    from: usize,
    to: usize,
    last: bool,
}

/// Requests that are not complete.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    waiting: VecDeque<Incomplete>,
}

impl Reassembly {
    /// Adds a fragment. Returns all fragments of its packet, in order, once it is complete.
    /// Overlapping fragments are discarded, with the others of their packet (RFC 5722).
    pub fn take(
        &mut self,
        store: &mut Store,
        (now, router): (Time, NodeId),
        (header, body): Piece,
        parsed: &IpPacket,
    ) -> Option<Vec<Piece>> {
        let Some(extent) = extent(parsed) else {
            store.release(body);
            return None;
        };
        while self.waiting.front().is_some_and(|first| first.since + PATIENCE < now) {
            self.give_up(0, store);
        }
        let key = (
            router,
            parsed.source,
            parsed.destination,
            parsed.number,
            parsed.fragment.identification,
        );
        let place = self.waiting.iter().position(|each| each.key == key).unwrap_or_else(|| {
            if self.waiting.len() == MOST {
                self.give_up(0, store);
            }
            self.waiting.push_back(Incomplete { key, since: now, pieces: Vec::new() });
            self.waiting.len() - 1
        });
        let pieces = &mut self.waiting[place].pieces;
        if pieces.iter().any(|(other, _)| *other == extent) {
            // A duplicate of a fragment.
            store.release(body);
            return None;
        }
        let at = pieces.partition_point(|(other, _)| other.from < extent.from);
        pieces.insert(at, (extent, (header, body)));
        let joins = |pair: &[(Extent, Piece)]| (pair[0].0.to, pair[0].0.last, pair[1].0.from);
        if pieces.windows(2).map(joins).any(|(to, last, from)| to > from || last) {
            self.give_up(place, store);
            return None;
        }
        let whole = pieces.first().is_some_and(|(first, _)| first.from == 0)
            && pieces.last().is_some_and(|(last, _)| last.last)
            && pieces.windows(2).map(joins).all(|(to, _, from)| to == from);
        whole.then(|| {
            let found = self.waiting.remove(place).map(|each| each.pieces).unwrap_or_default();
            found.into_iter().map(|(_, piece)| piece).collect()
        })
    }

    fn give_up(&mut self, place: usize, store: &mut Store) {
        let given_up = self.waiting.remove(place).map(|each| each.pieces).unwrap_or_default();
        given_up.into_iter().for_each(|(_, (_, body))| store.release(body));
    }
}

/// Returns the range of a fragment in its packet; `None` for a whole packet, and for one with an
/// extension header other than that of the fragment.
fn extent(parsed: &IpPacket) -> Option<Extent> {
    let fragment = parsed.fragment;
    if parsed.source.is_ipv6() && parsed.transport != IPV6_HEADER + FRAGMENT_HEADER {
        return None;
    }
    let from = usize::from(fragment.offset);
    let to = from + parsed.length - parsed.transport;
    fragment.is_part().then_some(Extent { from, to, last: !fragment.more })
}

/// Returns `true` if a packet is a fragment that [`Reassembly`] takes.
pub(crate) fn is_fragment(parsed: &IpPacket) -> bool {
    extent(parsed).is_some()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fragment::divide;
    use crate::packets::v4;

    proptest! {
        /// In any order, with one duplicate, all fragments are kept until the last one arrives, and
        /// no memory stays in use.
        #[test]
        fn fragments_come_together(
            length in 1000_usize..4000,
            mtu in 100_usize..900,
            order in Just((0..64_usize).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let mut store = Store::new(4100, 1 << 22);
            let mut reassembly = Reassembly::default();
            let payload: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let whole = v4(0, 0, 64, 1, 0, &payload);
            let mut pieces = Vec::new();
            divide(&whole, &IpPacket::parse(&whole).unwrap(), mtu, &mut store, &mut pieces);
            let mut came: Vec<usize> = order.into_iter().filter(|at| *at < pieces.len()).collect();
            came.insert(0, came[0]);
            let mut found = None;
            let first = pieces[came[0]];
            let again = store.copy(first.0).unwrap();
            for (turn, at) in came.into_iter().enumerate() {
                prop_assert!(found.is_none());
                let (body, size) = if turn == 0 { (again, first.1) } else { pieces[at] };
                let parsed = IpPacket::parse(&store.bytes(body)[..size as usize]).unwrap();
                let header = Header { size, ..header() };
                let place = (Time::ZERO, NodeId(0));
                found = reassembly.take(&mut store, place, (header, body), &parsed);
            }
            let found = found.expect("all have come");
            let data: Vec<u8> = found
                .iter()
                .flat_map(|(header, body)| store.bytes(*body)[20..header.size as usize].to_vec())
                .collect();
            prop_assert_eq!(data, payload);
            prop_assert!(reassembly.waiting.is_empty());
        }
    }

    fn header() -> Header {
        Header {
            size: 0,
            source: NodeId(1),
            destination: NodeId(0),
            source_port: 0,
            destination_port: 0,
            protocol: perhop_core::Protocol::Icmp.into(),
            traffic_class: perhop_core::TrafficClass::from_octet(0),
            ttl: 64,
            ack: perhop_core::AckHint::NONE,
        }
    }
}
