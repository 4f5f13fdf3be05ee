//! TCP, UDP, ICMP and the header before them: values that are written and read back.

use perhop_wire::{
    IcmpHeader, IcmpRepr, Malformed, PartialChecksum, SackBlocks, Segmentation, TcpHeader,
    TcpOption, TcpRepr, TcpSegment, UdpHeader, UdpRepr, VNET_HEADER, VnetHeader,
    fill_icmp_checksum, fill_transport_checksum, number, pseudo_header,
};
use proptest::prelude::*;

use crate::ip::{v4, v6};
use crate::{naive_checksum, naive_transport_checksum};

fn options() -> impl Strategy<Value = TcpOption<'static>> {
    let data = prop::sample::select(vec![&b""[..], b"1", b"perhop"]);
    prop_oneof![
        Just(TcpOption::Nop),
        any::<u16>().prop_map(TcpOption::Mss),
        any::<u8>().prop_map(TcpOption::WindowScale),
        Just(TcpOption::SackPermitted),
        prop::collection::vec(any::<(u32, u32)>(), 0..5)
            .prop_map(|blocks| TcpOption::Sack(blocks.into_iter().collect())),
        any::<(u32, u32)>().prop_map(|(value, echo)| TcpOption::Timestamps { value, echo }),
        (9_u8.., data).prop_map(|(kind, data)| TcpOption::Other { kind, data }),
    ]
}

proptest! {
    #[test]
    fn segments_are_read_as_they_are_written(
        words in any::<[u16; 4]>(), longs in any::<[u32; 2]>(), payload in 0..40_usize,
        wanted in prop::collection::vec(options(), 0..6),
    ) {
        let repr = TcpRepr {
            source_port: words[0],
            destination_port: words[1],
            sequence: longs[0],
            acknowledgement: longs[1],
            flags: words[2] & 0x1ff,
            window: words[3],
        };
        let mut bytes = repr.emit().to_vec();
        let mut written = Vec::new();
        for option in wanted {
            let before = bytes.len();
            option.write(&mut bytes);
            if bytes.len() > 60 {
                bytes.truncate(before);
                break;
            }
            written.push(option);
        }
        while !bytes.len().is_multiple_of(4) {
            TcpOption::Nop.write(&mut bytes);
            written.push(TcpOption::Nop);
        }
        let length = bytes.len();
        TcpHeader::of_mut(&mut bytes).unwrap().set_header_length(length);
        bytes.resize(length + payload, 7);
        let segment = TcpSegment::new_checked(&bytes).unwrap();
        prop_assert_eq!(TcpRepr::parse(&segment.header()), repr);
        prop_assert_eq!(segment.options().collect::<Vec<_>>(), written);
        prop_assert_eq!(segment.payload().len(), payload);
        for short in 0..length {
            prop_assert_eq!(TcpSegment::new_checked(&bytes[..short]), Err(Malformed::Truncated));
        }
    }

    #[test]
    fn whatever_options_say_they_end(bytes in prop::collection::vec(0..12_u8, 20..60)) {
        let mut bytes = bytes;
        bytes[12] = ((bytes.len() / 4) as u8) << 4;
        let segment = TcpSegment::new_checked(&bytes).unwrap();
        let mut again = Vec::new();
        segment.options().for_each(|option| option.write(&mut again));
        // The options that were read are those in the segment, up to their end.
        prop_assert!(segment.option_bytes().starts_with(&again));
    }

    #[test]
    fn flags_leave_the_length_of_the_header(flags in any::<u16>(), other in any::<u16>()) {
        let repr = TcpRepr {
            source_port: 1,
            destination_port: 2,
            sequence: 3,
            acknowledgement: 4,
            flags,
            window: 5,
        };
        let mut bytes = repr.emit();
        let mut header = TcpHeader::of_mut(&mut bytes).unwrap();
        header.set_flags(other);
        prop_assert_eq!((header.flags(), header.header_length()), (other & 0x1ff, 20));
        header.set_header_length(60);
        prop_assert_eq!((header.flags(), header.header_length()), (other & 0x1ff, 60));
    }

    /// Checksums over both versions equal those computed word by word.
    #[test]
    fn checksums_are_right(
        is_v4 in any::<bool>(), ports in any::<[u16; 2]>(),
        payload in prop::collection::vec(any::<u8>(), 0..99),
    ) {
        let offset = if is_v4 { 20 } else { 40 };
        let ip = |number, transport: &[u8]| match is_v4 {
            true => v4(0, 0, 64, number, 0, transport),
            false => v6(0, 64, number, transport),
        };
        let length = 8 + payload.len();
        let [source_port, destination_port] = ports;
        let repr = UdpRepr { source_port, destination_port, length: length as u16 };
        let mut packet = ip(17, &[&repr.emit()[..], &payload].concat());
        fill_transport_checksum(&mut packet, offset, number::UDP, length);
        prop_assert_eq!(naive_transport_checksum(&packet, offset, 17), 0);
        let header = UdpHeader::of(&packet[offset..]).unwrap();
        prop_assert_eq!((UdpRepr::parse(&header), header.checksum() == 0), (repr, false));

        let kind = if is_v4 { 8 } else { 128 };
        let repr = IcmpRepr::echo(kind, ports[0], ports[1]);
        prop_assert_eq!(naive_checksum(&repr.emit()), 0);
        let mut packet = ip(if is_v4 { 1 } else { 58 }, &[&repr.emit()[..], &payload].concat());
        fill_icmp_checksum(&mut packet, offset);
        prop_assert_eq!(IcmpRepr::parse(&IcmpHeader::of(&packet[offset..]).unwrap()), repr);
        let sum = match is_v4 {
            true => naive_checksum(&packet[offset..]),
            false => naive_transport_checksum(&packet, offset, 58),
        };
        prop_assert_eq!(sum, 0);
    }

    /// A sum of zero is written as ones' complement's other zero, because zero means that there is
    /// no checksum (RFC 768).
    #[test]
    fn a_datagram_has_a_checksum(first in any::<u16>()) {
        let mut packet = v4(0, 0, 64, 17, 0, &[0x30, 0x39, 0, 53, 0, 10, 0, 0, 0, 0]);
        packet[20..22].copy_from_slice(&first.to_be_bytes());
        // A word that makes the sum all ones.
        let rest = pseudo_header(&packet, 17, 10) + u64::from(first) + 53 + 10;
        let rest = (rest % 0xffff) as u16;
        packet[28..30].copy_from_slice(&(!rest).to_be_bytes());
        fill_transport_checksum(&mut packet, 20, number::UDP, 10);
        prop_assert_eq!(&packet[26..28], [0xff; 2]);
    }

    #[test]
    fn vnet_headers_are_read_as_they_are_written(bytes in any::<[u8; VNET_HEADER]>()) {
        let header = VnetHeader::parse(&bytes);
        prop_assert_eq!(header.emit(), bytes);
        // A checksum whose field is outside of the packet is ignored, and not filled in.
        let place = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let fits = usize::from(place(6)) + usize::from(place(8)) + 2 <= 1500;
        prop_assert_eq!(header.partial(1500).is_some(), bytes[0] & 1 == 1 && fits);
        PartialChecksum { start: place(6), offset: place(8) }.fill(&mut [0; 1500]);
    }
}

/// `linux/virtio_net.h`, `VIRTIO_NET_HDR_GSO_*`.
#[test]
fn segmentation_is_told_by_its_number() {
    let of = |kind| VnetHeader::parse(&[0, kind, 0, 0, 0, 0, 0, 0, 0, 0]).segmentation();
    assert_eq!((of(0), of(0x80)), (None, None));
    assert_eq!((of(1), of(0x81)), (Some(Segmentation::TcpV4), Some(Segmentation::TcpV4)));
    assert_eq!((of(4), of(5)), (Some(Segmentation::TcpV6), Some(Segmentation::Udp)));
    assert_eq!(of(3), Some(Segmentation::Other));
    let partial = PartialChecksum { start: 20, offset: 16 };
    let header = VnetHeader::of_segments(false, 52, 1448, partial);
    assert_eq!(header.emit()[..2], [1, 1]);
    assert_eq!((header.segment(), header.partial(1500)), (1448, Some(partial)));
    assert_eq!(VnetHeader::of(Some(partial)).partial(37), None);
    assert_eq!(VnetHeader::of(None).emit(), [0; VNET_HEADER]);
}

#[test]
fn blocks_beyond_the_fourth_have_no_room() {
    let blocks: SackBlocks = (0..6).map(|n| (n, n + 1)).collect();
    assert_eq!(blocks.as_slice(), [(0, 1), (1, 2), (2, 3), (3, 4)]);
}
