//! Outer packets of modelled tunnels. What is behind the outer headers is zero, as if it were
//! encrypted.

use perhop_core::Header;

use crate::ip::number;
use crate::ipv4::{IPV4_HEADER, fill_ipv4_checksum};
use crate::udp::UdpRepr;

/// Place of the protocol in an IPv4 header (RFC 791, section 3.1).
const PROTOCOL: usize = 9;

/// Completes the IPv4 header that `out` ends with by the protocol `carrier`, and writes the UDP
/// header behind it if that is UDP. Its checksum is zero: none (RFC 768, RFC 7348, section 5).
///
/// # Panics
/// If `out` is shorter than an IPv4 header.
pub fn complete_outer(out: &mut Vec<u8>, header: &Header, carrier: u8) {
    let start = out.len() - IPV4_HEADER;
    let ip = &mut out[start..];
    ip[PROTOCOL] = carrier;
    fill_ipv4_checksum(ip);
    if carrier == number::UDP {
        let (source_port, destination_port) = header.ports();
        let values = UdpRepr {
            source_port,
            destination_port,
            length: (header.size as usize - IPV4_HEADER) as u16,
        };
        out.extend_from_slice(&values.emit());
    }
}
