//! The result of probing a path. Times are in seconds, sizes in bytes, rates in bit/s.

use std::net::IpAddr;

use serde::Serialize;

use crate::capacity::Capacity;
use crate::hops::{Mark, Retest, Rewrite, Silence};
use crate::mtu::HopMtu;
use crate::probe::ProbeProtocol;
use crate::statistics::Spread;

/// Report on a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Source address of the probes.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol of the probes.
    pub protocol: ProbeProtocol,
    /// Source port of the first flow, or identifier of its echo requests.
    pub source_port: u16,
    /// Destination port of UDP probes.
    pub destination_port: u16,
    /// IPv6 flow label of the first flow.
    pub flow_label: Option<u32>,
    /// True if the destination answered.
    pub reached: bool,
    /// The hops of the first flow, from the first router to the destination.
    pub hops: Vec<Hop>,
    /// Links between hops that any flow took.
    pub links: Vec<LinkBetween>,
    /// Probability with which all next hops of a router are among `links`, if the router shares
    /// load evenly by flow.
    pub confidence: f64,
    /// True if that confidence was reached for every router.
    pub complete: bool,
    /// Changes of marks.
    pub rewrites: Vec<Rewrite>,
    /// Path MTU to the last hop that answers long packets; `None` if it was not measured.
    pub path_mtu: Option<u32>,
    /// Packets that were sent, and their bytes.
    pub packets_sent: u64,
    /// Bytes of these packets, IP headers included.
    pub bytes_sent: u64,
    /// Measurements that the time limit ended: `hops`, `parallel paths`, `marks and loss`, `loss to
    /// the last hop`, `mtu`, `capacity`.
    pub unfinished: Vec<&'static str>,
}

/// A hop of the first flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hop {
    /// Time to live with which probes end here.
    pub ttl: u8,
    /// Nodes at this distance, by any flow; that of the first flow first.
    pub addresses: Vec<Address>,
    /// Probes of the first flow, and their answers.
    pub sent: u64,
    /// Answers.
    pub answered: u64,
    /// Judgement of the missing answers.
    pub silence: Silence,
    /// Share of probes that are lost up to here, answers' losses included; `None` if the missing
    /// answers do not show it. Of `retest`, if there is one.
    pub loss: Option<f64>,
    /// How the last hop was probed again because it did not answer every probe; `None` also if
    /// that says nothing.
    pub retest: Option<Retest>,
    /// Round-trip times; `None` without answers.
    pub rtt_s: Option<Spread>,
    /// True if one flow comes to several nodes: a balancer before this hop takes turns.
    pub per_packet: bool,
    /// True if a network address translator before this hop changed probes; `None` if no answer
    /// shows it. Translators restore the probes that errors quote, so that none need show it.
    pub translated: Option<bool>,
    /// The same by mark.
    pub marks: Vec<MarkSeen>,
    /// Path MTU up to this hop.
    pub mtu: Option<HopMtu>,
    /// Capacity of the link before this hop; `None` if it was not measured.
    pub capacity: Option<Capacity>,
}

/// A node at a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Address {
    /// Its address.
    pub address: IpAddr,
    /// Flows that were seen to come here, …
    pub flows: usize,
    /// … and the source port, or identifier, of one of them.
    pub source_port: u16,
}

/// Probes of one mark at a hop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MarkSeen {
    /// Mark that they were sent with.
    pub sent: Mark,
    /// Mark with which the hop received them, as its errors quote it; `None` if unknown.
    pub received: Option<Mark>,
    /// The node that answered most of them.
    pub address: Option<IpAddr>,
    /// Probes.
    pub probes: u64,
    /// Answers.
    pub answered: u64,
    /// Round-trip times.
    pub rtt_s: Option<Spread>,
}

/// A link between two nodes. `None` is a router that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LinkBetween {
    /// Hop of the far end.
    pub ttl: u8,
    /// Node at the hop before.
    pub from: Option<IpAddr>,
    /// Node at this hop.
    pub to: Option<IpAddr>,
}
