//! When a receiver acknowledges as in Linux: what arrives together is acknowledged as one (generic
//! receive offload, net/core/gro.c), and while data is missing the sender hears of every arrival
//! only until it may know of the loss (`__tcp_ack_snd_check` in net/ipv4/tcp_input.c).

use perhop_core::{Duration, Time};

use crate::Offset;

/// Segments that follow each other within this time are handed over as one: Intel's drivers, in
/// their default mode, let an interface interrupt 20,000 times a second at most
/// (InterruptThrottleRate in Documentation/networking/device_drivers/ethernet/intel/e1000e.rst).
const TOGETHER: Duration = Duration::from_micros(50);
/// Acknowledgements that are sent at once while the same data is missing (TCP_FASTRETRANS_THRESH).
const AT_ONCE: u8 = 3;
/// The next ones wait for a twentieth of the round-trip time, but no longer than this
/// (`tcp_comp_sack_delay_ns`), …
const SHARE: u64 = 20;
const LONGEST: Duration = Duration::from_millis(1);
/// … nor for more arrivals than these (`tcp_comp_sack_nr`), …
const MOST: u8 = 44;
/// … nor for any in a third block: no more than three fit (TCP_SACK_BLOCKS_EXPECTED).
const BLOCKS: u8 = 2;

/// What came together and was not looked at yet.
#[derive(Clone, Copy, Debug)]
struct Batch {
    /// When it is handed over.
    at: Time,
    /// Where it ends.
    end: Offset,
    /// True if some of it was missing before what had arrived.
    filled: bool,
    /// True if it lies in another block than what came before it.
    elsewhere: bool,
}

/// What to do about a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Acknowledge it.
    Now,
    /// Acknowledge it as any segment in order is.
    InOrder,
    /// Wait for more that is out of order, for so long.
    After(Duration),
}

/// What a receiver has not acknowledged yet, and why.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinuxAcks {
    batch: Option<Batch>,
    /// The byte that was missing at the last arrival out of order, and the acknowledgements that
    /// were sent at once since it is.
    missing: Offset,
    sent: u8,
    /// Arrivals out of order that were not acknowledged, and how many blocks they lie in.
    held: u8,
    blocks: u8,
}

impl LinuxAcks {
    /// Returns `true` if what came before is to be handed over before data that begins at `start`.
    pub fn parts(&self, start: Offset) -> bool {
        self.batch.is_some_and(|batch| batch.end != start)
    }

    /// Takes new data that ends at `end`.
    pub fn add(&mut self, now: Time, end: Offset, filled: bool, elsewhere: bool) {
        let at = now + TOGETHER;
        let batch = self.batch.get_or_insert(Batch { at, end, filled: false, elsewhere });
        batch.end = end;
        batch.filled |= filled;
    }

    /// When the batch is handed over; [`Time::MAX`] if there is none.
    pub fn deadline(&self) -> Time {
        self.batch.map_or(Time::MAX, |batch| batch.at)
    }

    /// Hands the batch over. `missing` is the next byte wanted, if something has arrived beyond it;
    /// `rtt` the round-trip time.
    pub fn take(&mut self, missing: Option<Offset>, rtt: Option<Duration>) -> Answer {
        let Some(batch) = self.batch.take() else { return Answer::Now };
        if batch.filled {
            return Answer::Now;
        }
        let Some(missing) = missing else { return Answer::InOrder };
        if self.missing != missing {
            (self.missing, self.sent) = (missing, 0);
        }
        if self.sent < AT_ONCE {
            self.sent += 1;
            return Answer::Now;
        }
        self.blocks += u8::from(batch.elsewhere || self.held == 0);
        self.held += 1;
        match rtt {
            Some(rtt) if self.held < MOST && self.blocks <= BLOCKS => {
                Answer::After((rtt / SHARE).min(LONGEST))
            }
            _ => Answer::Now,
        }
    }

    /// Notes that everything is acknowledged.
    pub fn on_acknowledged(&mut self) {
        self.batch = None;
        (self.held, self.blocks) = (0, 0);
    }
}
