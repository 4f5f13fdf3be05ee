//! Path MTU discovery of modelled hosts (RFC 1191, and RFC 8201 for IPv6).
//!
//! As Linux does, a host keeps the MTU that an error names for all connections to the same
//! destination, and forgets it after ten minutes (`ip_rt_mtu_expires` in net/ipv4/route.c,
//! `ip6_rt_mtu_expires` in net/ipv6/route.c).

use std::collections::BTreeMap;

use perhop_core::{Duration, Header, IpVersion, NodeId, Time};
use perhop_net::{IcmpError, TimerId};
use perhop_tcp::Sender;

use super::{MOST_ENDPOINTS, Message, ModelledHosts, Net, Role};

/// Time for which a path MTU is known (RFC 1191, section 6.3; RFC 8201, section 5.3).
const KNOWN: Duration = Duration::from_secs(600);

/// A path: the host that sends, the destination, and whether the packets are those of IPv6.
type Path = (NodeId, NodeId, bool);

/// MTUs that errors have named, and the times at which they are forgotten.
#[derive(Debug, Default)]
pub(super) struct PathMtus(BTreeMap<Path, (u32, Time)>);

impl PathMtus {
    /// Limits a sender to the MTU of its path, if one is known.
    pub fn apply(&self, header: &Header, sender: &mut Sender) {
        if let Some(&(mtu, _)) = self.0.get(&path(header)) {
            sender.limit_segments(Some(mtu - header.version().header_bytes()));
        }
    }
}

fn path(header: &Header) -> Path {
    (header.source, header.destination, header.version() == IpVersion::V6)
}

impl ModelledHosts {
    /// Takes an ICMP error about a packet of the sender `id`. An unreachable destination may be
    /// temporary and does not end a connection (RFC 1122, section 4.2.3.9). A datagram that was too
    /// long stays lost.
    #[cold]
    pub(super) fn take_error(&mut self, network: &mut Net, id: u32, message: Message) {
        let header = self.endpoints[id as usize].line.header;
        let Message::Error { error: IcmpError::TooBig { mtu }, quoted, sequence, .. } = message
        else {
            return;
        };
        let version = header.version();
        // An error never raises the MTU (RFC 1191, section 3). A host discards one that names less
        // than every link carries (RFC 8201, section 4).
        if path(&quoted) != path(&header) || mtu < version.least_mtu() || mtu >= quoted.size {
            return;
        }
        let now = network.now();
        let known = self.path_mtus.0.get(&path(&header)).map_or(u32::MAX, |(known, _)| *known);
        if mtu <= known {
            let until = now + KNOWN;
            self.path_mtus.0.insert(path(&header), (mtu, until));
            network.set_timer(until, TimerId(MOST_ENDPOINTS as u32));
        }
        if mtu < known {
            self.limit_senders(path(&header), Some(mtu));
        }
        let (sequence, room) =
            (perhop_tcp::Seq(sequence as u32), mtu.min(known) - version.header_bytes());
        match &mut self.endpoints[id as usize].role {
            Role::TcpSender(tcp) => {
                tcp.sender.on_too_big(now, sequence, room);
                self.send_segments(network, id);
            }
            // Not about an earlier connection.
            Role::Connection(end)
                if (quoted.source_port, quoted.destination_port)
                    == (header.source_port, header.destination_port) =>
            {
                end.sender.on_too_big(now, sequence, room);
                self.send_on_connection(network, id);
            }
            _ => {}
        }
    }

    /// Forgets the MTUs whose time has come: connections send segments of full length again.
    #[cold]
    pub(super) fn forget_path_mtus(&mut self, now: Time) {
        let mut forgotten = Vec::new();
        self.path_mtus.0.retain(|path, (_, until)| {
            let keeps = *until > now;
            if !keeps {
                forgotten.push(*path);
            }
            keeps
        });
        forgotten.into_iter().for_each(|path| self.limit_senders(path, None));
    }

    fn limit_senders(&mut self, along: Path, mtu: Option<u32>) {
        let room = mtu.map(|mtu| mtu - IpVersion::of(along.2).header_bytes());
        for endpoint in &mut self.endpoints {
            if path(&endpoint.line.header) != along {
                continue;
            }
            match &mut endpoint.role {
                Role::TcpSender(tcp) => {
                    tcp.sender.limit_segments(room);
                }
                Role::Connection(end) => {
                    end.sender.limit_segments(room);
                }
                Role::UdpSender(udp) => udp.mtu = mtu.unwrap_or(u32::MAX).min(udp.link_mtu),
                _ => {}
            }
        }
    }
}
