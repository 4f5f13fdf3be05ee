//! Connections whose controllers have not proved their keys yet.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// Most connections that have not sent `hello`.
pub const MOST_WAITING: usize = 64;

/// Source of connections: an IPv4 address, or the network of an IPv6 address (/64), which one host
/// has for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    V4(u32),
    V6(u64),
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => Self::V6((address.to_bits() >> 64) as u64),
        }
    }
}

/// Connections that have not sent `hello`, by number: `T` is the handle that closes one.
#[derive(Debug)]
pub struct Waiting<T>(BTreeMap<u64, (Source, T)>);

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Waiting<T> {
    /// Adds a connection with a higher number than all others. Returns the one to close if there
    /// are too many: the oldest of the source that has most. A source that floods the agent thus
    /// closes its own connections, and silent ones keep no controller out.
    pub fn add(&mut self, number: u64, from: IpAddr, handle: T) -> Option<T> {
        self.0.insert(number, (from.into(), handle));
        if self.0.len() <= MOST_WAITING {
            return None;
        }
        let mut counts: HashMap<Source, usize> = HashMap::new();
        for (source, _) in self.0.values() {
            *counts.entry(*source).or_default() += 1;
        }
        let most = counts.values().copied().max();
        let oldest = self.0.iter().find(|(_, (source, _))| counts.get(source).copied() == most);
        let oldest = oldest.map(|(&number, _)| number)?;
        self.0.remove(&oldest).map(|(_, handle)| handle)
    }

    /// Removes a connection that is closed, or has sent `hello`.
    pub fn remove(&mut self, number: u64) {
        self.0.remove(&number);
    }

    /// Returns the number of connections.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_source_that_floods_closes_its_own_connections() {
        let mut waiting = Waiting::default();
        assert_eq!(waiting.add(0, address("192.0.2.1"), 0), None);
        for number in 1..10_000 {
            // Addresses of one IPv6 network are one source.
            let from = address(&format!("2001:db8::{number:x}"));
            let closed = waiting.add(number, from, number);
            let oldest = number.checked_sub(MOST_WAITING as u64 - 1).filter(|&oldest| oldest > 0);
            assert_eq!(closed, oldest);
        }
        assert_eq!(waiting.len(), MOST_WAITING);
        waiting.remove(0);
        assert_eq!(waiting.add(10_000, address("192.0.2.1"), 0), None, "one has gone");
    }

    #[test]
    fn without_such_a_source_the_oldest_gives_way() {
        let mut waiting = Waiting::default();
        for number in 0..200 {
            let from = IpAddr::from([192, 0, 2, number as u8]);
            assert_eq!(waiting.add(number, from, number), number.checked_sub(64));
        }
        let mapped = address("::ffff:192.0.2.150");
        assert_eq!(waiting.add(200, mapped, 200), Some(150), "it has two");
    }
}
