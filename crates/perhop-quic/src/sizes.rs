//! Sizes on the wire, in bytes.
//!
//! A datagram has a UDP header (RFC 768) and one or more packets. A packet has a header, frames,
//! and the tag of the packet protection.

/// UDP header.
pub const UDP_HEADER: u32 = 8;

/// Least UDP payload that every path of QUIC carries, and of datagrams with Initial packets that
/// elicit acknowledgements (RFC 9000, section 14.1).
pub const LEAST_DATAGRAM: u16 = 1200;

/// Connection identifier: implementations choose 0 to 20 bytes (RFC 9000, section 17.2); 8 is the
/// least that a client's first one may have (section 7.2), and the choice of quinn and Chrome's
/// servers.
pub const CONNECTION_ID: u16 = 8;

/// Authentication tag of every AEAD of TLS 1.3 (RFC 9001, section 5.3).
pub const TAG: u16 = 16;

/// Header of a Handshake packet (RFC 9000, section 17.2.4) with a packet number of a byte: first
/// byte, version, both connection identifiers with their lengths, and its own length.
pub const LONG_HEADER: u16 = 1 + 4 + 2 * (1 + CONNECTION_ID) + 2 + 1;

/// Messages of a server's TLS handshake besides the certificates, with X25519 and ECDSA (RFC 8446):
/// ServerHello 90, EncryptedExtensions with transport parameters 100, CertificateVerify 80,
/// Finished 36, roughly.
pub const SERVER_MESSAGES: u32 = 90 + 100 + 80 + 36;

/// Greatest length of certificates, which a server's flight of 64 datagrams holds.
pub const MOST_CERTIFICATES: u32 = 65_535;

/// A client's Finished with SHA-256 (RFC 8446, section 4.4.4) in a CRYPTO frame.
pub const CLIENT_FINISHED: u16 = 36 + 3;

/// Returns the length of a variable-length integer (RFC 9000, section 16).
pub const fn varint(value: u64) -> u16 {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Returns the least length of a packet number: twice the numbers since the largest acknowledged
/// one fit (RFC 9000, section 17.1).
pub const fn packet_number(number: u64, largest_acked: Option<u64>) -> u16 {
    let unacked = match largest_acked {
        Some(largest) => number - largest,
        None => number + 1,
    };
    match 2 * unacked {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xff_ffff => 3,
        _ => 4,
    }
}

/// Returns the length of a 1-RTT packet without its frames (RFC 9000, section 17.3.1). Its number
/// has at least two bytes, so that lost data nearly always fits into a packet again.
pub const fn short_packet(number: u64, largest_acked: Option<u64>) -> u16 {
    let number = packet_number(number, largest_acked);
    1 + CONNECTION_ID + if number < 2 { 2 } else { number } + TAG
}

/// Returns the length of a STREAM frame without its data (RFC 9000, section 19.8), as the last
/// frame of a packet, which needs no length.
pub const fn stream_frame(stream: u64, offset: u64) -> u16 {
    1 + varint(stream) + if offset == 0 { 0 } else { varint(offset) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000, appendix A.1 and A.2.
    #[test]
    fn integers_are_as_long_as_in_the_examples() {
        let examples = [(151_288_809_941_952_652, 8), (494_878_333, 4), (15_293, 2), (37, 1)];
        for (value, length) in examples {
            assert_eq!(varint(value), length);
        }
        // "if an endpoint has received an acknowledgment for packet 0xabe8b3 and is sending a
        // packet with a number of 0xac5c02 [...] 16 bits are needed, 0xace8fe 24"
        assert_eq!(packet_number(0xac5c02, Some(0xabe8b3)), 2);
        assert_eq!(packet_number(0xace8fe, Some(0xabe8b3)), 3);
    }
}
