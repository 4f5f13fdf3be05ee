//! The clock of another host, measured all the time.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use perhop_measure::{ClockEstimate, ClockEstimator, ClockModel};
use perhop_socket::{Nanos, be_prompt, monotonic, realtime};

use super::sender::{Sender, SenderSettings};

/// Packets at the beginning, and the time between them in nanoseconds.
const BURST: (u32, Nanos) = (20, 20_000_000);
/// Time between packets after that, in nanoseconds.
const EVERY: Nanos = 200_000_000;

/// Exchanges of packets with the reflector of another host, in a thread of its own until it is
/// dropped.
#[derive(Debug)]
pub struct PeerClock {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    estimator: Mutex<ClockEstimator>,
}

impl Shared {
    fn with<T>(&self, act: impl FnOnce(&mut ClockEstimator) -> T) -> T {
        // An estimator stays whole whatever panics beside it.
        act(&mut self.estimator.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PeerClock {
    /// Begins to measure the clock of a reflector's host: 20 packets within 0.4 s, then 5 a second.
    ///
    /// # Errors
    /// If there is no socket, no route or no thread.
    pub fn start(peer: SocketAddr, settings: SenderSettings) -> io::Result<Self> {
        let mut sender = Sender::new(peer, settings)?;
        let estimator = Mutex::new(ClockEstimator::new(ClockModel::default()));
        let shared = Arc::new(Shared { stop: AtomicBool::new(false), estimator });
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("stamp-clock".into()).spawn(move || {
            be_prompt(false);
            let mut next = monotonic();
            while !of_thread.stop.load(Ordering::Relaxed) {
                // What cannot be sent is lost, as on the way.
                let _ = sender.send();
                next += if sender.sent() < BURST.0 { BURST.1 } else { EVERY };
                let take = |answer: super::Answer| {
                    of_thread.with(|estimator| estimator.add(answer.exchange));
                };
                if sender.receive(next, take).is_err() {
                    return;
                }
                // Replies are there: nothing is waited for, but the next time is.
                let left = next.saturating_sub(monotonic());
                thread::park_timeout(std::time::Duration::from_nanos(left));
            }
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The peer's clock now, minus this host's real-time clock; `None` before the first reply.
    pub fn estimate(&self) -> Option<ClockEstimate> {
        self.shared.with(|estimator| estimator.at(realtime()))
    }

    /// How often a clock was set meanwhile.
    pub fn resets(&self) -> u64 {
        self.shared.with(|estimator| estimator.resets())
    }
}

impl Drop for PeerClock {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
