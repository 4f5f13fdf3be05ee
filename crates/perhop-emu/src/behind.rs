//! Addresses behind hosts, such as those of a network that a host is connected to.

use std::cmp::Reverse;
use std::net::IpAddr;

use perhop_core::NodeId;

/// A prefix of addresses: its first address, and its length in bits.
pub(crate) type Prefix = (IpAddr, u8);

/// Prefixes of addresses, each behind a host.
#[derive(Debug)]
pub(crate) struct Behind(Vec<(Prefix, NodeId)>);

impl Behind {
    pub fn new(mut prefixes: Vec<(Prefix, NodeId)>) -> Self {
        prefixes.sort_by_key(|((_, length), _)| Reverse(*length));
        Self(prefixes)
    }

    /// Returns the host that has an address behind it, by the longest prefix.
    #[cold]
    pub fn host(&self, address: IpAddr) -> Option<NodeId> {
        self.0.iter().find(|(prefix, _)| contains(*prefix, address)).map(|(_, host)| *host)
    }
}

/// Returns `true` if an address begins with a prefix.
fn contains((first, length): Prefix, address: IpAddr) -> bool {
    let bits = |address: IpAddr| match address {
        // Both begin at the uppermost bit.
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let other = bits(first) ^ bits(address);
    first.is_ipv4() == address.is_ipv4() && other.leading_zeros() >= u32::from(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(behind: &Behind, address: &str) -> Option<u16> {
        behind.host(address.parse().unwrap()).map(|NodeId(host)| host)
    }

    #[test]
    fn the_longest_prefix_decides() {
        let prefix = |text: &str, length, host| ((text.parse().unwrap(), length), NodeId(host));
        let behind = Behind::new(vec![
            prefix("0.0.0.0", 0, 1),
            prefix("192.168.7.0", 24, 2),
            prefix("192.168.7.128", 25, 3),
            prefix("fd00:1::", 32, 4),
        ]);
        for (address, expected) in [
            ("8.8.8.8", Some(1)),
            ("192.168.8.1", Some(1)),
            ("192.168.7.0", Some(2)),
            ("192.168.7.127", Some(2)),
            ("192.168.7.255", Some(3)),
            ("fd00:1:ffff::1", Some(4)),
            ("fd00:2::1", None),
            ("::", None),
        ] {
            assert_eq!(host(&behind, address), expected, "{address}");
        }
        assert_eq!(host(&Behind::new(Vec::new()), "8.8.8.8"), None);
    }

    #[test]
    fn a_whole_address_is_a_prefix() {
        let behind = Behind::new(vec![(("10.0.0.1".parse().unwrap(), 32), NodeId(1))]);
        assert_eq!([host(&behind, "10.0.0.1"), host(&behind, "10.0.0.0")], [Some(1), None]);
    }
}
