//! Offsets between the clocks of hosts that send to this agent and its own clock.
//!
//! Agents exchange STAMP packets (RFC 8762) during a run, authenticated by the run's token. Where
//! STAMP packets do not pass, as behind address translation, it uses the controller's estimate,
//! whose bound is wider, because it is derived from two control connections.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use perhop_traffic::{ClockOffset, Job, Traffic};

use crate::frames::{ClockPeer, PeerOffset};
use crate::stamp::{Key, PeerClock, Reflector, ReflectorSettings, SenderSettings};

/// The clocks that a session needs.
#[derive(Debug, Default)]
pub struct Clocks {
    /// Reflector for agents that need this agent's clock.
    reflector: Option<Reflector>,
    key: Option<Key>,
    pending: Vec<(String, SocketAddr)>,
    sources: Vec<Source>,
}

/// An agent that sends to this one.
#[derive(Debug)]
struct Source {
    node: String,
    /// The correction of one-way delays.
    offset: ClockOffset,
    clock: Option<PeerClock>,
}

impl Clocks {
    /// Starts the reflector, for the node of this name.
    pub fn new(job: &Job, node: &str) -> Self {
        let key = job.live.as_ref().map(|live| Key::new(&live.token.0));
        let settings = ReflectorSettings { key: key.clone(), ..ReflectorSettings::default() };
        let any = match address(job, node) {
            Some(IpAddr::V6(_)) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        // Without a reflector, other agents learn this clock from the controller.
        let reflector = Reflector::start(SocketAddr::new(any, 0), settings).ok();
        Self { reflector, key, ..Self::default() }
    }

    /// Returns the UDP port of the reflector.
    pub fn port(&self) -> Option<u16> {
        self.reflector.as_ref().map(|reflector| reflector.address().port())
    }

    /// Sets the reflectors' addresses of other agents; their hosts must be in the job.
    pub fn set_peers(&mut self, job: &Job, peers: Vec<ClockPeer>) {
        let at = |ClockPeer { node, port }: ClockPeer| {
            // A host behind address translation has no address for requests.
            let address = address(job, &node).filter(|address| !address.is_unspecified())?;
            Some((node, SocketAddr::new(address, port)))
        };
        self.pending = peers.into_iter().filter_map(at).collect();
    }

    /// Starts to measure the clocks of hosts from which packets of this run have arrived.
    pub fn compare(&mut self, traffic: &Traffic) {
        for (node, address) in std::mem::take(&mut self.pending) {
            let Some(offset) = traffic.clock_offset(&node) else { continue };
            // The token of the run authenticates the packets, so that the agent states the error.
            let key = self.key.clone();
            let settings = SenderSettings { key, trusts_clock: true, ..SenderSettings::default() };
            // The job could name any address.
            let known = traffic.knows(address.ip());
            let clock = known.then(|| PeerClock::start(address, settings).ok()).flatten();
            self.sources.push(Source { node, offset, clock });
        }
    }

    /// Updates the corrections of one-way delays.
    pub fn update(&self) {
        for Source { offset, clock, .. } in &self.sources {
            if let Some(found) = clock.as_ref().and_then(PeerClock::estimate) {
                // The estimate is their clock minus ours; one-way delays need ours minus theirs.
                let rate_ppb = -found.rate_ppb.round() as i64;
                offset.set(found.at, -found.offset, rate_ppb, found.bound);
            }
        }
    }

    /// Uses the controller's estimate of a clock, unless there is a better one.
    pub fn apply_estimate(&self, traffic: &Traffic, estimate: &PeerOffset) {
        let known = self.sources.iter().find(|one| one.node == estimate.node);
        let clock = known.and_then(|one| one.clock.as_ref());
        if clock.and_then(PeerClock::estimate).is_none()
            && let Some(offset) = traffic.clock_offset(&estimate.node)
        {
            offset.set(estimate.at, estimate.offset, estimate.rate_ppb, estimate.bound);
        }
    }
}

/// Returns the address of a node.
fn address(job: &Job, node: &str) -> Option<IpAddr> {
    let plan = job.nodes.iter().find(|plan| plan.name == node)?;
    plan.addresses.first().copied()
}
