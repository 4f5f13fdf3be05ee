//! Conversing with many agents at once, in one thread.

use std::time::Duration;

use perhop_socket::{Nanos, monotonic};

use super::error::LiveError;
use super::peer::Peer;
use crate::channel::wait;
use crate::frames::Reply;

/// How often each agent is told that the controller is there, and asked for its time.
const BEAT: Nanos = 500_000_000;

/// How long to wait at a time, at most.
const PACE: Nanos = 20_000_000;

/// Keeps the conversation with agents alive.
#[derive(Debug)]
pub struct Beats {
    next: Nanos,
}

impl Beats {
    /// Beats from now on.
    pub fn new() -> Self {
        Self { next: monotonic() }
    }

    /// When the next one is due.
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// Asks every agent for its time if that is due. Says whether it was.
    pub fn beat<'a>(&mut self, peers: impl Iterator<Item = &'a mut Peer>) -> bool {
        let now = monotonic();
        let due = now >= self.next;
        if due {
            self.next = now + BEAT;
            peers.for_each(Peer::ask_time);
        }
        due
    }
}

/// A conversation with several agents that are all expected to say something.
#[derive(Debug)]
pub struct Gathering<'a> {
    peers: &'a mut [Peer],
    ready: Vec<bool>,
    beats: Beats,
}

impl<'a> Gathering<'a> {
    /// A conversation with these agents.
    pub fn new(peers: &'a mut [Peer]) -> Self {
        Self { ready: vec![true; peers.len()], peers, beats: Beats::new() }
    }

    /// The agents.
    pub fn peers(&mut self) -> &mut [Peer] {
        self.peers
    }

    /// Hands what has come to `take`, and waits until there is more or the monotonic clock shows
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
        self.beats.beat(self.peers.iter_mut());
        for peer in self.peers.iter_mut() {
            peer.flush()?;
            peer.check_silence()?;
        }
        let channels: Vec<_> = self.peers.iter().map(Peer::channel).collect();
        self.ready = wait(&channels, until.min(self.beats.next()));
        Ok(())
    }
}

/// Waits until every agent has said what `take` accepts.
///
/// # Errors
/// The first [`LiveError`] of any agent; [`LiveError::Late`] of the first that is not done in time.
pub fn gather(
    peers: &mut [Peer],
    within: Duration,
    what: &'static str,
    mut take: impl FnMut(&mut Peer, Reply) -> Result<(), LiveError>,
) -> Result<(), LiveError> {
    let until = monotonic() + within.as_nanos() as Nanos;
    let mut done = vec![false; peers.len()];
    let mut gathering = Gathering::new(peers);
    while let Some(last) = done.iter().position(|done| !done) {
        if monotonic() > until {
            return Err(gathering.peers()[last].late(what, within));
        }
        // Nothing is waited for when the last has answered.
        gathering.step(until.min(monotonic() + PACE), |number, peer, reply| {
            take(peer, reply)?;
            done[number] = true;
            Ok(())
        })?;
    }
    Ok(())
}
