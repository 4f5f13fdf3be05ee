//! COBALT: CoDel and BLUE side by side (Høiland-Jørgensen, Täht and Morton, "Piece of CAKE", 2018,
//! section III.D; Linux: `cobalt_should_drop` in net/sched/sch_cake.c).
//!
//! Other than in RFC 8289, a queue that has become short slowly forgets its drops: each due time
//! takes one back. BLUE (Feng, Shin, Kandlur and Saha, 2002) drops packets of flows that do not
//! react: its probability rises when the queue overflows, and falls when it is empty.

use perhop_core::{Bytes, Duration, Rate, Stream, Time};

/// Longest usual frame: an Ethernet frame without its CRC.
const FRAME: Bytes = Bytes::new(1514);

/// BLUE's probabilities are multiples of 2⁻³². An overflow adds 1/256, an empty queue takes 1/4096.
const RISE: u32 = 1 << 24;
const FALL: u32 = 1 << 20;

/// Times of COBALT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Acceptable standing delay.
    pub target: Duration,
    /// Time between two signals, divided by the square root of their number.
    pub interval: Duration,
    /// Transmission time of the longest frame.
    pub frame: Duration,
}

impl Times {
    /// Returns the times of a tin of `rate`, without a shaper `None`. At low rates the target is no
    /// less than one and a half frames, and the interval rises by as much (`cake_set_rate`).
    pub fn new(rate: Option<Rate>, target: Duration, rtt: Duration) -> Self {
        let frame = rate.map_or(Duration::ZERO, |rate| FRAME / rate);
        let own = target.max(frame * 3 / 2);
        Self { target: own, interval: (rtt + (own - target)).max(own * 2), frame }
    }

    fn spacing(&self, count: u32) -> Duration {
        let root = f64::from(count.max(1)).sqrt();
        Duration::from_picos((self.interval.as_picos() as f64 / root) as u64)
    }
}

/// What COBALT decides about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// CoDel signals congestion: by a mark if the transport is ECN-capable, else by a drop.
    pub congestion: bool,
    /// BLUE drops the packet.
    pub flood: bool,
}

/// COBALT's state for a flow queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cobalt {
    /// Number of signals that are not yet forgotten.
    count: u32,
    dropping: bool,
    /// Time of the next signal while `dropping`; of the next one to forget otherwise.
    next: Time,
    /// BLUE's probability.
    blue: u32,
    /// Time at which it last changed.
    blue_changed: Time,
}

impl Cobalt {
    /// Decides about a packet that has waited for `delay` and is sent at `now`. While drops are
    /// charged to the shaper, `bulk` is the number of backlogged flows, and zero otherwise.
    pub fn decide(
        &mut self,
        times: &Times,
        (now, delay): (Time, Duration),
        bulk: u64,
        capable: bool,
        random: &mut Stream,
    ) -> Signal {
        let above =
            delay > times.target && delay > times.frame * 2 * bulk && delay > times.frame * 4;
        let due = self.count > 0 && now >= self.next;
        if above {
            if !self.dropping {
                self.dropping = true;
                self.next = now + times.spacing(self.count);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        let congestion = due && self.dropping;
        if congestion {
            self.count = self.count.saturating_add(1);
            self.next += times.spacing(self.count);
        } else if due {
            self.forget(times, now);
        }
        let flood = self.blue > 0 && {
            let dropped = congestion && !capable;
            !dropped && random.up_to(u32::MAX.into()) < self.blue.into()
        };
        let delivered = !flood && (capable || !congestion);
        if self.count == 0 {
            self.next = now + times.interval;
        } else if now > self.next && delivered {
            self.next = now;
        }
        Signal { congestion, flood }
    }

    /// Records that a packet was dropped because all queues together were full.
    pub fn on_overflow(&mut self, times: &Times, now: Time) {
        if now.since(self.blue_changed) > times.target {
            self.blue = self.blue.saturating_add(RISE);
            self.blue_changed = now;
        }
        self.dropping = true;
        self.next = now;
        self.count = self.count.max(1);
    }

    /// Records that the queue was found empty.
    pub fn on_empty(&mut self, times: &Times, now: Time) {
        self.dropping = false;
        if self.blue > 0 && now.since(self.blue_changed) > times.target {
            self.blue = self.blue.saturating_sub(FALL);
            self.blue_changed = now;
        }
    }

    /// Brings the state of a queue that has been empty for a while up to `now`. Returns `true` if
    /// nothing is left to forget.
    pub fn rest(&mut self, times: &Times, now: Time) -> bool {
        if self.count > 0 && now >= self.next {
            self.forget(times, now);
        }
        let target = times.target.as_picos().max(1);
        let steps = now.since(self.blue_changed).as_picos() / target;
        if self.blue > 0 && steps > 0 {
            self.blue = self.blue.saturating_sub(FALL.saturating_mul(steps.min(4096) as u32));
            self.blue_changed += times.target * steps;
        }
        self.count == 0 && self.blue == 0 && now >= self.next
    }

    /// Takes back the signals whose times have passed.
    fn forget(&mut self, times: &Times, now: Time) {
        while self.count > 0 && now >= self.next {
            self.count -= 1;
            self.next += times.spacing(self.count);
        }
    }
}

#[cfg(test)]
mod tests;
