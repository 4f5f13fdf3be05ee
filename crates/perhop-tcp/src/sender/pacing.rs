//! Pacing: segments are sent at a rate instead of in bursts.
//!
//! Congestion control sets the rate, or it is the window per round trip times a factor: Linux's
//! `tcp_pacing_ss_ratio` and `tcp_pacing_ca_ratio` (Documentation/networking/ip-sysctl.rst).

use perhop_core::{Duration, Time};

use super::Sender;

/// Factor below half the threshold, so that slow start can double the rate in a round trip.
pub(super) const SLOW_START: f64 = 2.0;
/// Factor from there on, so that the window and not the pacing limits the sender.
pub(super) const AVOIDANCE: f64 = 1.2;

#[derive(Clone, Debug)]
pub(super) struct Pacer {
    /// Earliest time of the next transmission.
    next: Time,
    /// True if a segment waits for it.
    waiting: bool,
}

impl Pacer {
    pub fn new() -> Self {
        Self { next: Time::ZERO, waiting: false }
    }

    /// Returns when to poll for a segment again; [`Time::MAX`] if none waits.
    pub fn deadline(&self) -> Time {
        if self.waiting { self.next } else { Time::MAX }
    }

    /// Returns `true` if no segment may be sent yet; the deadline is the time when one may.
    fn holds(&mut self, now: Time) -> bool {
        self.waiting = now < self.next;
        self.waiting
    }

    /// Ends the wait at its deadline, even if something else holds the segment: its sender polls
    /// again when that is over.
    pub fn on_timer(&mut self, now: Time) {
        self.waiting &= now < self.next;
    }

    /// Records a transmission of `bytes` at `rate` bytes per second.
    fn on_sent(&mut self, now: Time, bytes: u32, rate: f64) {
        let gap = f64::from(bytes) / rate * 1e12;
        self.next = self.next.max(now) + Duration::from_picos(gap as u64);
    }
}

impl Sender {
    /// Returns the pacing rate, in bytes per second; `None` without pacing or before a sample of
    /// the round-trip time.
    pub fn pacing_rate(&self) -> Option<f64> {
        self.pacer.as_ref()?;
        if let Some(rate) = self.config.congestion.pacing_rate() {
            return Some(rate);
        }
        let round = self.rtt.smoothed()?.as_secs_f64();
        let factor = match self.window.cwnd < self.window.ssthresh / 2.0 {
            true => SLOW_START,
            false => self.config.congestion.pacing_factor().unwrap_or(AVOIDANCE),
        };
        // In recovery more may be in flight than the window.
        let window = self.window.cwnd.max(self.scoreboard.pipe() as f64);
        (round > 0.0).then_some(factor * window / round)
    }

    /// Returns `true` if the next segment has to wait for its time.
    pub(super) fn is_held(&mut self, now: Time) -> bool {
        let held = self.pacer.as_mut().is_some_and(|pacer| pacer.holds(now));
        if held {
            // The pacing is that of the window: a sender with data that waits for it is limited by
            // congestion control.
            if self.available().is_some_and(|length| self.fits_windows(length)) {
                self.note_usage(true);
            }
        }
        held
    }

    /// Sets when the segment after this one may be sent.
    pub(super) fn pace(&mut self, now: Time, length: u32) {
        if let Some(rate) = self.pacing_rate()
            && let Some(pacer) = &mut self.pacer
        {
            pacer.on_sent(now, length, rate);
        }
    }
}
