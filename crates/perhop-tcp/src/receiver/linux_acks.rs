//! Acknowledgements in Linux: segments that arrive together are acknowledged as one (generic
//! receive offload, net/core/gro.c), and while data is missing every arrival is acknowledged only
//! until the sender can have detected the loss (`__tcp_ack_snd_check` in net/ipv4/tcp_input.c).

use perhop_core::{Duration, Time};

use crate::Offset;

/// Time within which successive segments are handed over as one: Intel's drivers, in their default
/// mode, limit an interface to 20,000 interrupts per second (InterruptThrottleRate in
/// Documentation/networking/device_drivers/ethernet/intel/e1000e.rst).
const TOGETHER: Duration = Duration::from_micros(50);
/// Number of immediate acknowledgements while the same data is missing (TCP_FASTRETRANS_THRESH).
const AT_ONCE: u8 = 3;
/// Share of the round-trip time by which later acknowledgements are delayed, up to a limit
/// (`tcp_comp_sack_delay_ns`).
const SHARE: u64 = 20;
const LONGEST: Duration = Duration::from_millis(1);
/// Greatest number of arrivals without an acknowledgement (`tcp_comp_sack_nr`).
const MOST: u8 = 44;
/// Number of other blocks after which an acknowledgement is sent, because no more than three fit
/// (TCP_SACK_BLOCKS_EXPECTED).
const BLOCKS: u8 = 2;

/// Segments that arrived together and were not processed yet.
#[derive(Clone, Copy, Debug)]
struct Batch {
    /// Time at which they are handed over.
    at: Time,
    /// End of their data.
    end: Offset,
    /// True if some of it filled a hole.
    filled: bool,
    /// True if it is in another block than the data before it.
    elsewhere: bool,
}

/// Decision about a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Acknowledge at once.
    Now,
    /// Acknowledge like any segment in order.
    InOrder,
    /// Wait this long for more segments out of order.
    After(Duration),
}

/// Segments that a receiver has not acknowledged yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinuxAcks {
    batch: Option<Batch>,
    /// Byte that was missing at the last arrival out of order, and the number of immediate
    /// acknowledgements since.
    missing: Offset,
    sent: u8,
    /// Arrivals out of order that were not acknowledged, and the number of their blocks.
    held: u8,
    blocks: u8,
}

impl LinuxAcks {
    /// Returns `true` if the batch must be handed over before data that begins at `start`, and that
    /// is outdated or not: Linux does not join segments of different timestamps.
    pub fn parts(&self, start: Offset, outdated: bool) -> bool {
        self.batch.is_some_and(|batch| outdated || batch.end != start)
    }

    /// Takes new data that ends at `end`.
    pub fn add(&mut self, now: Time, end: Offset, filled: bool, elsewhere: bool) {
        let at = now + TOGETHER;
        let batch = self.batch.get_or_insert(Batch { at, end, filled: false, elsewhere });
        batch.end = end;
        batch.filled |= filled;
    }

    /// Returns when the batch is handed over; [`Time::MAX`] if there is none.
    pub fn deadline(&self) -> Time {
        self.batch.map_or(Time::MAX, |batch| batch.at)
    }

    /// Hands the batch over. `missing` is the next byte expected, if data beyond it has arrived;
    /// `rtt` is the round-trip time.
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

    /// Records that everything is acknowledged.
    pub fn on_acknowledged(&mut self) {
        self.batch = None;
        (self.held, self.blocks) = (0, 0);
    }
}
