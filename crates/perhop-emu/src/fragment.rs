//! Fragments of IPv4 (RFC 791, section 3.2).

use perhop_wire::{
    FRAGMENT_OFFSET, IPV4_HEADER, IpPacket, Ipv4Header, MORE_FRAGMENTS, fill_ipv4_checksum,
};

use crate::store::{Buffer, Store};

/// Divides a packet into fragments of at most `mtu` bytes, each with its length; into none if the
/// packet must not be fragmented, or memory for one is missing. A packet with options is not
/// fragmented either: some options belong into all fragments and some into the first only, and
/// senders that use options expect an error.
pub(crate) fn divide(
    bytes: &[u8],
    parsed: &IpPacket,
    mtu: usize,
    store: &mut Store,
    fragments: &mut Vec<(Buffer, u32)>,
) {
    let Some(piece) = mtu.checked_sub(IPV4_HEADER).map(|room| room & !7).filter(|&room| room > 0)
    else {
        return;
    };
    if !parsed.may_be_fragmented || parsed.transport != IPV4_HEADER {
        return;
    }
    let (header, payload) = bytes[..parsed.length].split_at(IPV4_HEADER);
    let Some(flags) = Ipv4Header::of(header).map(|header| header.fragment()) else { return };
    let last = payload.len().div_ceil(piece).saturating_sub(1);
    for (number, part) in payload.chunks(piece).enumerate() {
        let Some(buffer) = store.take() else {
            fragments.drain(..).for_each(|(buffer, _)| store.release(buffer));
            return;
        };
        let length = IPV4_HEADER + part.len();
        let packet = &mut store.bytes_mut(buffer)[..length];
        packet[..IPV4_HEADER].copy_from_slice(header);
        packet[IPV4_HEADER..].copy_from_slice(part);
        let more = if number < last { MORE_FRAGMENTS } else { flags & MORE_FRAGMENTS };
        let offset = (flags & FRAGMENT_OFFSET) + (number * piece / 8) as u16;
        if let Some(mut header) = Ipv4Header::of_mut(packet) {
            header.set_fragment(flags & !MORE_FRAGMENTS & !FRAGMENT_OFFSET | more | offset);
            header.set_total_length(length as u16);
        }
        fill_ipv4_checksum(packet);
        fragments.push((buffer, length as u32));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packets::{v4, v6};

    fn fragments(bytes: &[u8], mtu: usize) -> Vec<Vec<u8>> {
        let mut store = Store::new(1500, 1 << 22);
        let mut found = Vec::new();
        divide(bytes, &IpPacket::parse(bytes).unwrap(), mtu, &mut store, &mut found);
        found.iter().map(|&(each, length)| store.bytes(each)[..length as usize].to_vec()).collect()
    }

    proptest! {
        /// Fragments in any order, some of them fragmented again, are reassembled by their offsets.
        #[test]
        fn fragments_make_the_packet(
            length in 0..9_000_usize, first in 68..1500_usize, second in 68..1500_usize,
        ) {
            let payload: Vec<u8> = (0..length).map(|at| (at * 7 + at / 251) as u8).collect();
            let once = fragments(&v4(0x28, 0, 64, 17, 0, &payload), first);
            let mut twice: Vec<Vec<u8>> =
                once.iter().flat_map(|each| fragments(each, second)).collect();
            twice.reverse();
            let mut seen = vec![0; length];
            let (mut bytes, mut ends) = (0, 0);
            for fragment in &twice {
                prop_assert!(fragment.len() <= second);
                prop_assert!(IpPacket::parse(fragment).is_ok());
                let flags = u16::from_be_bytes([fragment[6], fragment[7]]);
                let at = 8 * usize::from(flags & FRAGMENT_OFFSET);
                seen[at..at + fragment.len() - 20].copy_from_slice(&fragment[20..]);
                bytes += fragment.len() - 20;
                if flags & MORE_FRAGMENTS == 0 {
                    prop_assert_eq!(at + fragment.len() - 20, length);
                    ends += 1;
                }
            }
            prop_assert_eq!((bytes, ends), (length, usize::from(length > 0)));
            prop_assert_eq!(seen, payload);
        }
    }

    #[test]
    fn what_may_not_be_divided_is_not() {
        let payload = [0; 1000];
        assert!(!fragments(&v4(0, 0, 64, 17, 0, &payload), 576).is_empty());
        assert!(fragments(&v4(0, 0x4000, 64, 17, 0, &payload), 576).is_empty());
        assert!(fragments(&v4(0, 0, 64, 17, 1, &payload), 576).is_empty());
        assert!(fragments(&v6(0, 64, 17, &payload), 576).is_empty());
    }
}
