//! The clocks of those that send to this agent, against its own.
//!
//! Agents exchange STAMP packets (RFC 8762) during a run, authenticated by the run's token. Where
//! none come back, as behind a translation of addresses, the controller's view has to do: it is
//! wider, because it comes over two connections.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use perhop_traffic::{ClockOffset, Job, Traffic};

use crate::frames::{ClockPeer, PeerOffset};
use crate::stamp::{Key, PeerClock, Reflector, ReflectorSettings, SenderSettings};

/// The clocks that matter to a session.
#[derive(Debug, Default)]
pub struct Clocks {
    /// Answers those to whom this agent's clock matters.
    reflector: Option<Reflector>,
    key: Option<Key>,
    asked: Vec<(String, SocketAddr)>,
    neighbours: Vec<Neighbour>,
}

/// An agent that sends to this one.
#[derive(Debug)]
struct Neighbour {
    node: String,
    /// What one-way delays are corrected by.
    offset: ClockOffset,
    clock: Option<PeerClock>,
}

impl Clocks {
    /// Answers others from now on, as the node of this name.
    pub fn new(job: &Job, node: &str) -> Self {
        let key = job.live.as_ref().map(|live| Key::new(&live.token.0));
        let settings = ReflectorSettings { key: key.clone(), ..ReflectorSettings::default() };
        let any = match address(job, node) {
            Some(IpAddr::V6(_)) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        // Without a reflector, others learn this clock from the controller.
        let reflector = Reflector::start(SocketAddr::new(any, 0), settings).ok();
        Self { reflector, key, ..Self::default() }
    }

    /// The UDP port at which others are answered.
    pub fn port(&self) -> Option<u16> {
        self.reflector.as_ref().map(|reflector| reflector.address().port())
    }

    /// Takes note of where other agents answer: at addresses that the job has.
    pub fn ask(&mut self, job: &Job, peers: Vec<ClockPeer>) {
        let at = |ClockPeer { node, port }: ClockPeer| {
            // One behind a translation of addresses has none that could be asked.
            let address = address(job, &node).filter(|address| !address.is_unspecified())?;
            Some((node, SocketAddr::new(address, port)))
        };
        self.asked = peers.into_iter().filter_map(at).collect();
    }

    /// Begins to compare clocks, with those that have proved to want this agent's packets.
    pub fn compare(&mut self, traffic: &Traffic) {
        for (node, address) in std::mem::take(&mut self.asked) {
            let Some(offset) = traffic.clock_offset(&node) else { continue };
            let settings = SenderSettings { key: self.key.clone(), ..SenderSettings::default() };
            let clock = PeerClock::start(address, settings).ok();
            self.neighbours.push(Neighbour { node, offset, clock });
        }
    }

    /// Corrects one-way delays by what is known of the other clocks now.
    pub fn update(&self) {
        for Neighbour { offset, clock, .. } in &self.neighbours {
            if let Some(found) = clock.as_ref().and_then(PeerClock::estimate) {
                // Theirs minus ours; one-way delays need ours minus theirs.
                let rate_ppb = -found.rate_ppb.round() as i64;
                offset.set(found.at, -found.offset, rate_ppb, found.bound);
            }
        }
    }

    /// Takes the controller's view of a clock, if there is no better one.
    pub fn tell(&self, traffic: &Traffic, told: &PeerOffset) {
        let known = self.neighbours.iter().find(|one| one.node == told.node);
        let clock = known.and_then(|one| one.clock.as_ref());
        if clock.and_then(PeerClock::estimate).is_none()
            && let Some(offset) = traffic.clock_offset(&told.node)
        {
            offset.set(told.at, told.offset, told.rate_ppb, told.bound);
        }
    }
}

/// Where a node is sent to.
fn address(job: &Job, node: &str) -> Option<IpAddr> {
    let plan = job.nodes.iter().find(|plan| plan.name == node)?;
    plan.addresses.first().copied()
}
