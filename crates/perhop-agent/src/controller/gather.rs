//! Connections to many agents, served by one thread.

use std::time::Duration;

use perhop_socket::{Nanos, monotonic};

use super::error::LiveError;
use super::peer::Peer;
use crate::channel::wait;
use crate::frames::Reply;

/// Period of the requests for each agent's time, which also keep the connection alive.
const HEARTBEAT_INTERVAL: Nanos = 500_000_000;

/// Longest wait at a time.
const MAX_WAIT: Nanos = 20_000_000;

/// Periodic requests that keep connections alive.
#[derive(Debug)]
pub struct Heartbeats {
    next: Nanos,
}

impl Heartbeats {
    /// Starts the period now.
    pub fn new() -> Self {
        Self { next: monotonic() }
    }

    /// Returns the time of the next request.
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// Sends a request for its time to every agent if it is due, and returns whether it was.
    pub fn send_if_due<'a>(&mut self, peers: impl Iterator<Item = &'a mut Peer>) -> bool {
        let now = monotonic();
        let due = now >= self.next;
        if due {
            self.next = now + HEARTBEAT_INTERVAL;
            peers.for_each(Peer::ask_time);
        }
        due
    }
}

/// Connections to several agents, each of which owes an answer.
#[derive(Debug)]
pub struct PeerGroup<'a> {
    peers: &'a mut [Peer],
    ready: Vec<bool>,
    heartbeats: Heartbeats,
}

impl<'a> PeerGroup<'a> {
    /// Creates it for these agents.
    pub fn new(peers: &'a mut [Peer]) -> Self {
        Self { ready: vec![true; peers.len()], peers, heartbeats: Heartbeats::new() }
    }

    /// Returns the agents.
    pub fn peers(&mut self) -> &mut [Peer] {
        self.peers
    }

    /// Passes received messages to `take`, and waits until there are more or the monotonic clock
    /// shows
    /// `until`. Keeps all connections alive.
    ///
    /// # Errors
    /// The first [`LiveError`] of any agent.
    pub fn step(
        &mut self,
        until: Nanos,
        mut take: impl FnMut(usize, &mut Peer, Reply) -> Result<(), LiveError>,
    ) -> Result<(), LiveError> {
        let ready = std::mem::take(&mut self.ready);
        for (number, peer) in self.peers.iter_mut().enumerate().filter(|(at, _)| ready[*at]) {
            while let Some(reply) = peer.poll()? {
                take(number, peer, reply)?;
            }
        }
        self.heartbeats.send_if_due(self.peers.iter_mut());
        for peer in self.peers.iter_mut() {
            peer.flush()?;
            peer.check_silence()?;
        }
        let channels: Vec<_> = self.peers.iter().map(Peer::channel).collect();
        self.ready = wait(&channels, until.min(self.heartbeats.next()));
        Ok(())
    }
}

/// Waits until `take` has accepted an answer of every agent.
///
/// # Errors
/// The first [`LiveError`] of any agent; [`LiveError::Late`] of the first without an answer in
/// time.
pub fn gather(
    peers: &mut [Peer],
    within: Duration,
    what: &'static str,
    mut take: impl FnMut(&mut Peer, Reply) -> Result<(), LiveError>,
) -> Result<(), LiveError> {
    let until = monotonic() + within.as_nanos() as Nanos;
    let mut done = vec![false; peers.len()];
    let mut group = PeerGroup::new(peers);
    while let Some(last) = done.iter().position(|done| !done) {
        if monotonic() > until {
            return Err(group.peers()[last].late(what, within));
        }
        // No wait is needed after the last answer.
        group.step(until.min(monotonic() + MAX_WAIT), |number, peer, reply| {
            if done[number] {
                return Err(peer.unexpected(&reply));
            }
            take(peer, reply)?;
            done[number] = true;
            Ok(())
        })?;
    }
    Ok(())
}
