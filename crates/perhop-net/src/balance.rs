//! Load sharing among paths of equal cost.

use perhop_core::{Header, NodeId, Protocol};

use crate::PortId;

/// Method by which a node chooses among links and paths of equal cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Balance {
    /// By a hash of addresses, protocol and ports: a flow stays on one path and in order (RFC 2992
    /// compares such hashes).
    #[default]
    PerFlow,
    /// By a hash of the destination's address.
    PerDestination,
    /// In turn, for each packet: even shares, but reordering if paths differ in delay.
    PerPacket,
}

/// Ports of a node that lead to the same destination at equal cost.
#[derive(Debug)]
pub(crate) struct Group {
    pub node: NodeId,
    pub ports: Vec<PortId>,
    pub balance: Balance,
    /// Initial value of hashes.
    pub salt: u64,
    /// Index of the next port in turn.
    pub turn: usize,
}

impl Group {
    /// Returns the port that takes a packet.
    #[inline]
    pub fn choose(&mut self, header: &Header) -> PortId {
        let hash = match self.balance {
            Balance::PerFlow => header.outer_hash(self.salt),
            Balance::PerDestination => destination(header).outer_hash(self.salt),
            Balance::PerPacket => {
                let port = self.ports[self.turn];
                self.turn = if self.turn + 1 == self.ports.len() { 0 } else { self.turn + 1 };
                return port;
            }
        };
        let share = (hash >> 32) * self.ports.len() as u64;
        self.ports[(share >> 32) as usize]
    }
}

/// Returns a header with nothing but the destination, for hashing.
fn destination(header: &Header) -> Header {
    let nobody = NodeId(0);
    Header {
        source: nobody,
        source_port: 0,
        destination_port: 0,
        protocol: Protocol::Icmp.into(),
        ..*header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_core::{AckHint, TrafficClass};

    fn header(source: u16, destination: u16, source_port: u16) -> Header {
        Header {
            size: 100,
            source: NodeId(source),
            destination: NodeId(destination),
            source_port,
            destination_port: 80,
            protocol: Protocol::Udp.into(),
            traffic_class: TrafficClass::default(),
            ttl: Header::TTL,
            ack: AckHint::NONE,
        }
    }

    fn group(balance: Balance) -> Group {
        let ports = [3, 5, 8].map(PortId).into();
        Group { node: NodeId(9), ports, balance, salt: 7, turn: 0 }
    }

    /// A third of the hashes is for each port: those of the upper 32 bits up to 2³² / 3, up to
    /// 2 · 2³² / 3, and above.
    #[test]
    fn a_flow_takes_the_port_of_its_third_of_the_hashes() {
        let mut group = group(Balance::PerFlow);
        let mut shares = [0; 3];
        for source_port in 0..3_000 {
            let header = header(1, 2, source_port);
            let third = match header.outer_hash(7) >> 32 {
                0..=1_431_655_765 => 0,
                1_431_655_766..=2_863_311_530 => 1,
                _ => 2,
            };
            shares[third] += 1;
            assert_eq!(group.choose(&header), [3, 5, 8].map(PortId)[third]);
        }
        // Five standard deviations of a binomial: √(3000 · 1/3 · 2/3) = 26.
        assert!(shares.iter().all(|share: &i32| (share - 1_000).abs() < 130), "{shares:?}");
        assert_eq!(group.turn, 0);
    }

    #[test]
    fn a_destination_takes_one_port_for_all_its_packets() {
        let mut group = group(Balance::PerDestination);
        let mut shares = [0; 3];
        for destination in 0..300 {
            let port = group.choose(&header(1, destination, 0));
            for (source, source_port) in [(1, 9), (4, 0), (5, 6)] {
                let mut other = header(source, destination, source_port);
                other.destination_port = source_port;
                other.protocol = Protocol::Tcp.into();
                assert_eq!(group.choose(&other), port);
            }
            shares[[3, 5, 8].iter().position(|known| PortId(*known) == port).unwrap()] += 1;
        }
        // Five standard deviations: √(300 · 1/3 · 2/3) = 8.2.
        assert!(shares.iter().all(|share: &i32| (share - 100).abs() < 42), "{shares:?}");
    }

    #[test]
    fn packets_take_ports_in_turn() {
        let mut group = group(Balance::PerPacket);
        let ports: Vec<u32> = (0..7).map(|_| group.choose(&header(1, 2, 3)).0).collect();
        assert_eq!(ports, [3, 5, 8, 3, 5, 8, 3]);
    }
}
