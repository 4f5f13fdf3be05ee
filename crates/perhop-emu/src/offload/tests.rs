//! Splitting gives the packets of a real device, and joining reverses it.

use proptest::prelude::*;

use perhop_fuzz::fuzz;
use perhop_wire::VNET_HEADER;
use perhop_wire::number::{TCP, UDP};

use super::*;
use crate::packets::{v4, v6};

const FIN: u8 = flags::FIN as u8;
const PSH: u8 = flags::PSH as u8;
const ACK: u8 = flags::ACK as u8;
const CWR: u8 = flags::CWR as u8;

/// `struct virtio_net_hdr` of several packets as one, as Linux writes it.
fn vnet(gso: u8, size: u16) -> VnetHeader {
    let mut bytes = [0; VNET_HEADER];
    bytes[..2].copy_from_slice(&[1, gso]); // VIRTIO_NET_HDR_F_NEEDS_CSUM
    bytes[4..6].copy_from_slice(&size.to_ne_bytes());
    VnetHeader::parse(&bytes)
}

/// The Internet checksum of a transport and its pseudo-header, word by word; zero if it is right.
fn transport_checksum(packet: &[u8], parsed: &IpPacket) -> u16 {
    let addresses = if packet[0] >> 4 == 6 { &packet[8..40] } else { &packet[12..20] };
    let payload = parsed.payload(packet);
    let mut covered = addresses.to_vec();
    covered.extend([0, parsed.number]);
    covered.extend((payload.len() as u16).to_be_bytes());
    covered.extend(payload);
    covered.resize(covered.len().next_multiple_of(2), 0);
    let mut sum = 0_u32;
    for word in covered.chunks(2) {
        sum += u32::from(word[0]) << 8 | u32::from(word[1]);
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !sum as u16
}

/// Returns a segment of TCP with so many words of options.
fn segment(sequence: u32, flags: u8, options: usize, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x30, 0x39, 0x14, 0x51];
    bytes.extend(sequence.to_be_bytes());
    bytes.extend(0x0102_0304_u32.to_be_bytes());
    bytes.extend([(5 + options as u8) << 4, flags, 0x01, 0xf5, 0, 0, 0, 0]);
    bytes.resize(20 + 4 * options, 1);
    bytes.extend(payload);
    bytes
}

fn datagram(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x30, 0x39, 0x14, 0x51];
    bytes.extend((8 + payload.len() as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    bytes
}

fn ip(is_v4: bool, number: u8, payload: &[u8]) -> Vec<u8> {
    if is_v4 { v4(0x28, 0x4000, 64, number, 0, payload) } else { v6(0x28, 64, number, payload) }
}

fn super_header(is_v4: bool, number: u8, size: u16) -> VnetHeader {
    // VIRTIO_NET_HDR_GSO_TCPV4, _TCPV6, _UDP_L4.
    let gso = match (number, is_v4) {
        (TCP, true) => 1,
        (TCP, false) => 4,
        _ => 5,
    };
    vnet(gso, size)
}

/// Returns the packets, each with the checksum that it leaves open.
fn pieces(bytes: &[u8], header: VnetHeader) -> Option<Vec<(Vec<u8>, Option<PartialChecksum>)>> {
    let parsed = IpPacket::parse(bytes).ok()?;
    let mut store = Store::new(1500, 1 << 23);
    let mut packets = Vec::new();
    split(bytes, (header, &parsed), &mut store, &mut packets)?;
    let piece = |&(buffer, length): &(Buffer, usize)| {
        (store.bytes(buffer)[..length].to_vec(), store.partial(buffer))
    };
    Some(packets.iter().map(piece).collect())
}

proptest! {
    #[test]
    fn segments_are_those_that_a_device_would_send(
        is_v4 in any::<bool>(), sequence in any::<u32>(), options in 0..11_usize,
        size in 8..1400_usize, length in 1..20_000_usize, flags in any::<u8>(),
    ) {
        let payload: Vec<u8> = (0..length).map(|at| (at * 7 + at / 251) as u8).collect();
        let bytes = ip(is_v4, TCP, &segment(sequence, flags, options, &payload));
        let packets = pieces(&bytes, super_header(is_v4, TCP, size as u16)).unwrap();
        prop_assert_eq!(packets.len(), length.div_ceil(size));
        let mut seen = Vec::new();
        for (number, (packet, partial)) in packets.iter().enumerate() {
            let mut whole = packet.clone();
            partial.unwrap().fill(&mut whole);
            let parsed = IpPacket::parse(&whole).unwrap();
            prop_assert_eq!(parsed.length, whole.len());
            prop_assert_eq!(transport_checksum(&whole, &parsed), 0);
            let own = parsed.payload(&whole);
            let expected = sequence.wrapping_add(seen.len() as u32);
            prop_assert_eq!(&own[4..8], &expected.to_be_bytes());
            let last = number + 1 == packets.len();
            let not_last = if last { 0xff } else { !(FIN | PSH) };
            let not_first = if number > 0 { !CWR } else { 0xff };
            prop_assert_eq!(own[13], flags & not_last & not_first);
            seen.extend_from_slice(&own[20 + 4 * options..]);
            prop_assert!(last || own.len() == 20 + 4 * options + size);
        }
        prop_assert_eq!(seen, payload);
    }

    #[test]
    fn datagrams_are_those_that_a_device_would_send(
        is_v4 in any::<bool>(), size in 8..1400_usize, length in 1..20_000_usize,
    ) {
        let payload: Vec<u8> = (0..length).map(|at| (at * 7 + at / 251) as u8).collect();
        let bytes = ip(is_v4, UDP, &datagram(&payload));
        let packets = pieces(&bytes, super_header(is_v4, UDP, size as u16)).unwrap();
        let mut seen = Vec::new();
        for (packet, partial) in &packets {
            let mut whole = packet.clone();
            partial.unwrap().fill(&mut whole);
            let parsed = IpPacket::parse(&whole).unwrap();
            let own = parsed.payload(&whole);
            prop_assert_eq!(transport_checksum(&whole, &parsed), 0);
            prop_assert_ne!(&own[6..8], &[0, 0]);
            prop_assert_eq!(usize::from(u16::from_be_bytes([own[4], own[5]])), own.len());
            seen.extend_from_slice(&own[8..]);
        }
        prop_assert_eq!(seen, payload);
    }

    /// Joining the split packets gives the original segment, whichever packets are lost.
    #[test]
    fn joining_takes_splitting_back(
        is_v4 in any::<bool>(), sequence in any::<u32>(), options in 0..11_usize,
        size in 8..1400_usize, length in 1..20_000_usize, pushed in any::<bool>(),
        lost in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let payload: Vec<u8> = (0..length).map(|at| (at * 7 + at / 251) as u8).collect();
        let flags = ACK | if pushed { PSH } else { 0 };
        let bytes = ip(is_v4, TCP, &segment(sequence, flags, options, &payload));
        let packets = pieces(&bytes, super_header(is_v4, TCP, size as u16)).unwrap();
        let lost = lost.map(|lost| lost.index(packets.len()));
        let sent = packets.iter().enumerate().filter(|(number, _)| Some(*number) != lost);
        let mut sent = sent.map(|(_, packet)| packet).peekable();
        let (mut groups, mut seen) = (0, Vec::new());
        while let Some((first, partial)) = sent.next() {
            let mut joined = Joined::begin(first, *partial).unwrap();
            let headers = joined.headers().len();
            let mut whole = first[headers..].to_vec();
            while let Some((next, partial)) = sent.peek() && joined.follow(next, *partial) {
                whole.extend_from_slice(&next[headers..]);
                sent.next();
            }
            joined.seal();
            let mut packet = joined.headers().to_vec();
            packet.extend_from_slice(&whole);
            let open = joined.vnet.partial(packet.len()).unwrap();
            open.fill(&mut packet);
            let parsed = IpPacket::parse(&packet).unwrap();
            prop_assert_eq!(parsed.length, packet.len());
            prop_assert_eq!(transport_checksum(&packet, &parsed), 0);
            let at = u32::from_be_bytes(parsed.payload(&packet)[4..8].try_into().unwrap());
            seen.push((at.wrapping_sub(sequence) as usize, whole));
            groups += 1;
        }
        prop_assert!(groups <= 1 + usize::from(lost.is_some()));
        let mut expected = payload.clone();
        if let Some(lost) = lost {
            expected[lost * size..((lost + 1) * size).min(length)].fill(0);
        }
        let mut arrived = vec![0; length];
        for (at, bytes) in seen {
            arrived[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        prop_assert_eq!(arrived, expected);
    }
}

/// Data from a host as the loop processes it: its header, and the packet or packets.
#[test]
fn fuzz_segmentation() {
    let seed = |is_v4, number, payload: &[u8]| {
        let packet = ip(is_v4, number, payload);
        [&super_header(is_v4, number, 100).emit()[..], &packet].concat()
    };
    let mut seeds = Vec::new();
    for is_v4 in [true, false] {
        seeds.push(seed(is_v4, TCP, &segment(1000, ACK | PSH, 3, &[5; 450])));
        seeds.push(seed(is_v4, UDP, &datagram(&[5; 450])));
    }
    let mut store = Store::new(1500, 1 << 23);
    let mut packets = Vec::new();
    let store = std::cell::RefCell::new((&mut store, &mut packets));
    fuzz("segmentation", &seeds, |bytes| {
        let Some((vnet, bytes)) = bytes.split_first_chunk() else { return false };
        let (vnet, Ok(parsed)) = (VnetHeader::parse(vnet), IpPacket::parse(bytes)) else {
            return false;
        };
        let (store, packets) = &mut *store.borrow_mut();
        let divided = split(bytes, (vnet, &parsed), store, packets);
        assert!(divided.is_none_or(|count| count == packets.len()));
        let (mut payload, mut joined) = (0, None::<Joined>);
        for &(buffer, length) in packets.iter() {
            let packet = &mut store.bytes_mut(buffer)[..length];
            let parsed = IpPacket::parse(packet).expect("each is a packet");
            assert_eq!(parsed.length, length);
            let partial = store.partial(buffer).expect("each leaves its checksum open");
            let packet = &mut store.bytes_mut(buffer)[..length];
            if joined.as_mut().is_none_or(|joined| !joined.follow(packet, Some(partial))) {
                joined = Joined::begin(packet, Some(partial));
            }
            if let Some(joined) = &mut joined {
                joined.seal();
            }
            partial.fill(packet);
            assert_eq!(transport_checksum(packet, &parsed), 0);
            let own = parsed.payload(packet);
            let header = if parsed.number == TCP { 4 * usize::from(own[12] >> 4) } else { 8 };
            payload += own.len() - header;
        }
        packets.drain(..).for_each(|(buffer, _)| store.release(buffer));
        assert_eq!(store.taken(), 0);
        assert!(payload <= bytes.len());
        divided.is_some()
    });
}

#[test]
fn other_packets_are_not_joined() {
    let packet = |sequence, flags, class: u8| {
        let mut bytes = v4(class, 0x4000, 64, TCP, 0, &segment(sequence, flags, 3, &[5; 100]));
        bytes.truncate(20 + 32 + 100);
        bytes
    };
    let partial = Some(PartialChecksum { start: 20, offset: TCP_CHECKSUM as u16 });
    let first = || Joined::begin(&packet(1000, ACK, 0), partial).unwrap();
    assert!(first().follow(&packet(1100, ACK, 0), partial));
    assert!(!first().follow(&packet(1101, ACK, 0), partial), "a hole");
    assert!(!first().follow(&packet(1100, ACK | FIN, 0), partial), "an end");
    assert!(!first().follow(&packet(1100, ACK, 3), partial), "a mark of congestion");
    assert!(!first().follow(&packet(1100, ACK, 0), None), "a checksum of its own");
    let mut acknowledges = packet(1100, ACK, 0);
    acknowledges[31] ^= 1;
    assert!(!first().follow(&acknowledges, partial), "another acknowledgement");
    let mut pushed = Joined::begin(&packet(1000, ACK | PSH, 0), partial).unwrap();
    assert!(!pushed.follow(&packet(1100, ACK, 0), partial), "behind a push");
    assert!(Joined::begin(&packet(1000, ACK | CWR, 0), partial).is_none());
    assert!(Joined::begin(&packet(1000, ACK, 0), None).is_none());
}
