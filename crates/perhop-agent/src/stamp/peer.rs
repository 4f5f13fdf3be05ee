//! Continuous measurement of the clock of another host.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use perhop_measure::ClockEstimate;
use perhop_socket::{Nanos, monotonic, realtime, reduce_wakeup_latency};

use super::pair::{ClockPair, StatedErrors};
use super::sender::{Sender, SenderSettings};

/// Number of packets at the beginning, and the time between them in nanoseconds.
const BURST: (u32, Nanos) = (20, 20_000_000);
/// Time between packets after that, in nanoseconds.
const EVERY: Nanos = 200_000_000;
/// Number of packets without any reply after which the measurement ends: no reflector is there.
const MOST_UNANSWERED: u32 = 30;

/// Measurement of the clock of another host by exchanges of packets with its reflector. Its thread
/// ends when the value is dropped.
#[derive(Debug)]
pub struct PeerClock {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    clocks: Mutex<ClockPair>,
}

impl Shared {
    fn with<T>(&self, act: impl FnOnce(&mut ClockPair) -> T) -> T {
        // The estimate is valid even if another thread has panicked.
        act(&mut self.clocks.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PeerClock {
    /// Begins to measure the clock of a reflector's host: 20 packets within 0.4 s, then 5 packets
    /// per second. If none of the first 30 packets has a reply, no more are sent.
    ///
    /// # Errors
    /// If a socket or thread cannot be created, or there is no route.
    pub fn start(peer: SocketAddr, settings: SenderSettings) -> io::Result<Self> {
        let clocks = Mutex::new(ClockPair::new(settings.trusts_clock));
        let shared = Arc::new(Shared { stop: AtomicBool::new(false), clocks });
        let mut sender = Sender::new(peer, settings)?;
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("stamp-clock".into()).spawn(move || {
            reduce_wakeup_latency(false);
            let (mut next, mut answered) = (monotonic(), false);
            while !of_thread.stop.load(Ordering::Relaxed) {
                // A packet that cannot be sent counts as lost.
                let _ = sender.send();
                next += if sender.sent() < BURST.0 { BURST.1 } else { EVERY };
                let take = |answer: super::Answer| {
                    answered = true;
                    of_thread.with(|clocks| clocks.add(&answer));
                };
                if sender.receive(next, take).is_err()
                    || (!answered && sender.sent() >= MOST_UNANSWERED)
                {
                    return;
                }
                // All replies have arrived: sleep until the next packet is due.
                let left = next.saturating_sub(monotonic());
                thread::park_timeout(std::time::Duration::from_nanos(left));
            }
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Returns the offset of the peer's clock from this host's real-time clock now; `None` before
    /// the first reply.
    pub fn estimate(&self) -> Option<ClockEstimate> {
        self.shared.with(|clocks| clocks.at(realtime()))
    }

    /// Returns the use of the errors that both hosts state for their clocks.
    pub fn stated(&self) -> StatedErrors {
        self.shared.with(|clocks| clocks.stated())
    }

    /// Returns the number of times that a clock was set since the start.
    pub fn resets(&self) -> u64 {
        self.shared.with(|clocks| clocks.resets())
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
