//! Bytes of packets: IPv4, IPv6, ICMP, TCP, UDP and STAMP, and the header that Linux puts before
//! them.
//!
//! Views are apart from values. A view ([`Ipv4Header`], [`TcpHeader`], …) reads and writes fields
//! in place. It holds an array of the header's length, so that no accessor can fail. A value
//! ([`Ipv4Repr`], [`TcpRepr`], …) is read by `parse` and becomes bytes by `emit`. Data of variable
//! length is checked once: [`IpPacket::parse`], [`TcpSegment::new_checked`].
//!
//! All functions take untrusted input: no bytes make one panic or read beyond their end.

#![forbid(unsafe_code)]

mod checksum;
mod icmp;
mod ip;
mod ipv4;
mod ipv6;
mod outer;
mod stamp;
mod tcp;
mod udp;
mod view;
mod vnet;

pub use checksum::{checksum, fold, sum_of_words, updated_checksum};
pub use icmp::{ICMP_HEADER, IcmpHeader, IcmpRepr, fill_icmp_checksum, icmpv4, icmpv6};
pub use ip::{
    Fragment, IpPacket, Malformed, QuotedPacket, fill_transport_checksum, is_ipv6, number,
    pseudo_header, set_class_and_ttl, set_length,
};
pub use ipv4::{
    DONT_FRAGMENT, FRAGMENT_OFFSET, IPV4_HEADER, Ipv4Header, Ipv4Repr, MORE_FRAGMENTS,
    fill_ipv4_checksum,
};
pub use ipv6::{FRAGMENT_HEADER, IPV6_HEADER, Ipv6Header, Ipv6Repr};
pub use outer::complete_outer;
pub use stamp::{
    ClassOfService, DirectMeasurement, STAMP_HMAC, STAMP_PORT, STAMP_TLV_HEADER, StampError,
    StampFormat, StampMode, StampReply, StampRequest, StampTlv, push_stamp_tlv, stamp_tlv,
    stamp_tlvs,
};
pub use tcp::{
    SackBlocks, TCP_CHECKSUM, TCP_HEADER, TcpHeader, TcpOption, TcpOptions, TcpRepr, TcpSegment,
    flags,
};
pub use udp::{UDP_CHECKSUM, UDP_HEADER, UdpHeader, UdpRepr};
pub use vnet::{PartialChecksum, Segmentation, VNET_HEADER, VnetHeader};
