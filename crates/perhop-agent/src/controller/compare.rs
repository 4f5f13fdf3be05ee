//! Comparison of the agents' monotonic clocks before the start.

use std::time::Duration;

use perhop_socket::{Nanos, monotonic};

use super::error::LiveError;
use super::gather::PeerGroup;
use super::peer::Peer;

/// Time within which every agent must answer.
const LONGEST: Duration = Duration::from_secs(20);
/// Least time of the exchanges, in nanoseconds. A queue that fills for a moment empties within it.
const LEAST: Nanos = 500_000_000;
/// Time after which unsettled estimates are used, in nanoseconds.
const PATIENCE: Nanos = 3_000_000_000;
/// Least number of exchanges of time with each agent.
const EXCHANGES: usize = 20;
/// Time between two exchanges with one agent, in nanoseconds.
const PAUSE: Nanos = 10_000_000;
/// Least time between two exchanges with any agents, in nanoseconds.
const SHORTEST_PAUSE: Nanos = 500_000;

/// Measures the offset of each agent's monotonic clock from ours by exchanges of time that do not
/// wait for each other. Exchanges with an agent continue until several have met the shortest
/// delays, or until [`PATIENCE`].
///
/// # Errors
/// [`LiveError`] if an agent is lost, or does not answer.
pub(crate) fn compare_clocks(peers: &mut [Peer]) -> Result<(), LiveError> {
    let began = monotonic();
    let until = began + LONGEST.as_nanos() as Nanos;
    peers.iter_mut().for_each(|peer| peer.clock.reset());
    let mut group = PeerGroup::new(peers);
    let (mut turn, mut next) = (0, began);
    loop {
        let now = monotonic();
        let is_known = |peer: &Peer| {
            let enough = peer.clock.exchanges >= EXCHANGES && now > began + LEAST;
            enough && (peer.clock.is_settled() || now > began + PATIENCE)
        };
        let peers = group.peers();
        let unknown = peers.iter().filter(|peer| !is_known(peer)).count();
        let Some(first) = peers.iter().find(|peer| !is_known(peer)) else { return Ok(()) };
        if now > until {
            return Err(first.late("told its time", LONGEST));
        }
        if now >= next {
            // One agent at a time: their answers do not wait for each other here.
            let mut order = (0..peers.len()).map(|place| (turn + place) % peers.len());
            if let Some(number) = order.find(|&number| !is_known(&peers[number])) {
                peers[number].ask_time();
                turn = number + 1;
            }
            next = now + (PAUSE / unknown as Nanos).max(SHORTEST_PAUSE);
        }
        group.step(next, |_, peer, reply| Err(peer.unexpected(&reply)))?;
    }
}
