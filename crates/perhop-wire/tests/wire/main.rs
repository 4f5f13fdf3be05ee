//! Packets written by hand, sent by Linux, and made of random values.

mod fuzz;
mod ip;
mod linux;
mod stamp;
mod transports;

/// Returns the Internet checksum, computed word by word (RFC 1071, section 4.1), without code of
/// the crate.
fn naive_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u32::from);
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !sum as u16
}

/// Returns the checksum of a transport at `offset` and its pseudo-header, word by word: zero if it
/// is right.
fn naive_transport_checksum(packet: &[u8], offset: usize, number: u8) -> u16 {
    let addresses = if packet[0] >> 4 == 6 { &packet[8..40] } else { &packet[12..20] };
    let length = ((packet.len() - offset) as u16).to_be_bytes();
    naive_checksum(&[addresses, &[0, number], &length, &packet[offset..]].concat())
}
