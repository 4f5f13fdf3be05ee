//! DCTCP (RFC 8257) and Prague (draft-briscoe-iccrg-prague-congestion-control-04): the window
//! shrinks in proportion to the share of marks, so that marks are frequent and each has little
//! effect.

use perhop_core::{Duration, Time};

use super::{Acked, Window};
use crate::Offset;

/// Weight of a window's share in the average (RFC 8257, section 3.3: g).
const GAIN: f64 = 1.0 / 16.0;
/// Least round-trip time that Prague assumes (section 2.4.4: RTT_VIRT_MIN).
const LEAST_ROUND: Duration = Duration::from_millis(25);
/// Number of round trips after which Prague assumes it; until then it converges as fast as others
/// (D).
const ROUNDS: u32 = 500;

/// State of either.
#[derive(Clone, Debug)]
pub(super) struct Scalable {
    /// Average share of marked bytes: alpha.
    share: f64,
    /// End of the window over which the share is measured, in data and, at least, in time.
    window_end: Offset,
    not_before: Time,
    delivered: u64,
    marked: u64,
    /// Prague: round trips since it began; `None` for DCTCP.
    rounds: Option<u32>,
    /// End of the round trip of the last response to marks.
    answered_until: Time,
}

/// Information about an acknowledgement and its marks.
#[derive(Clone, Copy, Debug)]
pub struct Marked {
    /// Its time.
    pub now: Time,
    /// End of the acknowledged data: SND.UNA.
    pub ack: Offset,
    /// End of the sent data: SND.NXT.
    pub end: Offset,
    /// Bytes that it is the first to cover.
    pub delivered: u64,
    /// The marked ones of these.
    pub marked: u64,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
}

impl Scalable {
    /// Creates DCTCP, which initially assumes that all data is marked (RFC 8257, section 3.3).
    pub fn dctcp() -> Self {
        Self {
            share: 1.0,
            window_end: 0,
            not_before: Time::ZERO,
            delivered: 0,
            marked: 0,
            rounds: None,
            answered_until: Time::ZERO,
        }
    }

    pub fn prague() -> Self {
        Self { rounds: Some(0), ..Self::dctcp() }
    }

    pub fn is_prague(&self) -> bool {
        self.rounds.is_some()
    }

    /// Returns the assumed round-trip time.
    fn round(&self, smoothed: Duration) -> Duration {
        match self.rounds {
            Some(rounds) if rounds >= ROUNDS => smoothed.max(LEAST_ROUND),
            _ => smoothed,
        }
    }

    /// Returns the end of an assumed round trip that begins now, if it is longer than the measured
    /// one.
    fn round_ends(&self, now: Time, smoothed: Duration) -> Time {
        let round = self.round(smoothed);
        if round > smoothed { now + round } else { Time::ZERO }
    }

    /// Averages the share over windows of data (RFC 8257, section 3.3, steps 1 to 8).
    pub fn on_delivered(&mut self, marked: Marked) {
        self.delivered += marked.delivered;
        self.marked += marked.marked;
        if marked.ack <= self.window_end || marked.now < self.not_before {
            return;
        }
        if self.delivered > 0 {
            let share = self.marked as f64 / self.delivered as f64;
            self.share += GAIN * (share.min(1.0) - self.share);
        }
        (self.delivered, self.marked) = (0, 0);
        self.window_end = marked.end;
        if let Some(rounds) = &mut self.rounds {
            *rounds = rounds.saturating_add(1);
        }
        self.not_before = self.round_ends(marked.now, marked.smoothed_rtt);
    }

    /// Performs additive increase: a segment per round trip. Prague grows as fast as over its
    /// assumed round trip (section 2.4.4): one factor for the number of round trips, and one for
    /// the window that gives the same rate.
    pub fn on_ack(&self, window: &mut Window, mss: f64, acked: Acked) {
        let round = self.round(acked.smoothed_rtt).as_secs_f64();
        let ratio = if round > 0.0 { acked.smoothed_rtt.as_secs_f64() / round } else { 1.0 };
        window.cwnd += ratio * ratio * mss * acked.bytes as f64 / window.cwnd;
    }

    /// Responds to the first mark of a round trip; returns the factor for the window, unless Prague
    /// has responded within an assumed round trip.
    pub fn on_mark(&mut self, now: Time, smoothed: Duration) -> Option<f64> {
        if now < self.answered_until {
            return None;
        }
        self.answered_until = self.round_ends(now, smoothed);
        Some(1.0 - self.share / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: f64 = 1000.0;
    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// Simulates a window with a share of marks; the next one begins with it.
    fn window(scalable: &mut Scalable, number: u64, marked: u64) {
        let rtt = MS(10);
        scalable.on_delivered(Marked {
            now: Time::ZERO + rtt * number,
            ack: number * 10_000 + 1,
            end: (number + 1) * 10_000,
            delivered: 10_000,
            marked,
            smoothed_rtt: rtt,
        });
    }

    /// RFC 8257, section 3.3: alpha = alpha (1 - g) + g M.
    #[test]
    fn the_share_is_averaged_over_windows() {
        let mut dctcp = Scalable::dctcp();
        window(&mut dctcp, 1, 0);
        assert_eq!(dctcp.share, 15.0 / 16.0);
        window(&mut dctcp, 2, 5_000);
        assert_eq!(dctcp.share, 15.0 / 16.0 * (15.0 / 16.0) + 0.5 / 16.0);
        (3..300).for_each(|number| window(&mut dctcp, number, 2_000));
        assert!((dctcp.share - 0.2).abs() < 1e-6);
        assert!((dctcp.on_mark(Time::ZERO, MS(10)).unwrap() - 0.9).abs() < 1e-6);
    }

    /// Section 2.4.4: at a round trip of 5 ms, increase and decrease per second are those of 25 ms.
    #[test]
    fn prague_is_as_fast_as_over_25_ms() {
        let mut prague = Scalable::prague();
        let growth = |prague: &Scalable| {
            let mut window = Window { cwnd: 10.0 * MSS, ssthresh: 1.0 };
            let acked = Acked {
                now: Time::ZERO,
                bytes: 10_000,
                smoothed_rtt: MS(5),
                rtt: None,
                ack: 0,
                end: 0,
                limited: true,
                stretched: false,
                bytewise: false,
            };
            prague.on_ack(&mut window, MSS, acked);
            window.cwnd / MSS - 10.0
        };
        assert!((growth(&prague) - 1.0).abs() < 1e-9, "at first as others");
        prague.rounds = Some(ROUNDS);
        assert!((growth(&prague) - 1.0 / 25.0).abs() < 1e-9);
        let at = |ms| Time::ZERO + MS(ms);
        assert!(prague.on_mark(at(100), MS(5)).is_some());
        assert!(prague.on_mark(at(124), MS(5)).is_none());
        assert!(prague.on_mark(at(125), MS(5)).is_some());
    }

    /// The share is that of a window of data: after data sent at its beginning is acknowledged;
    /// Prague's lasts 25 ms at least from its 500th round trip on, and so does its response.
    #[test]
    fn windows_of_data_and_time() {
        let at = |ms| Time::ZERO + MS(ms);
        for (mut control, rounds, rtt, ends) in [
            (Scalable::dctcp(), 0, 5, 100),
            (Scalable::prague(), 0, 5, 100),
            (Scalable::prague(), ROUNDS - 1, 5, 125),
            (Scalable::prague(), ROUNDS, 25, 100),
            (Scalable::prague(), ROUNDS, 24, 125),
        ] {
            if control.is_prague() {
                control.rounds = Some(rounds);
            }
            let marked = |ms, ack, end, marked| Marked {
                now: at(ms),
                ack,
                end,
                delivered: 1_000,
                marked,
                smoothed_rtt: MS(rtt),
            };
            control.on_delivered(marked(100, 1, 9_000, 0));
            assert_eq!(control.share, 15.0 / 16.0);
            assert_eq!(control.rounds, control.is_prague().then_some(rounds + 1));
            control.on_delivered(marked(100, 9_000, 9_500, 0));
            assert_eq!(control.share, 15.0 / 16.0, "not beyond the end");
            if ends > 100 {
                control.on_delivered(marked(ends - 1, 9_001, 9_500, 0));
                assert_eq!(control.share, 15.0 / 16.0, "too early");
            }
            // A third or half of the data was marked; more than all counts as all.
            control.on_delivered(marked(ends, 9_001, 9_500, 1_000));
            let share = if ends > 100 { 1.0 / 3.0 } else { 0.5 };
            let expected = 15.0 / 16.0 + (share - 15.0 / 16.0) / 16.0;
            assert!((control.share - expected).abs() < 1e-12, "{} {expected}", control.share);
            control.not_before = Time::ZERO;
            control.on_delivered(marked(500, 20_000, 20_000, 3_000));
            let expected = expected + (1.0 - expected) / 16.0;
            assert!((control.share - expected).abs() < 1e-12, "{} {expected}", control.share);
        }
    }

    /// A window of which nothing is newly delivered, since all of it was SACKed before, says
    /// nothing of marks.
    #[test]
    fn a_window_without_deliveries_has_no_share() {
        let mut dctcp = Scalable::dctcp();
        window(&mut dctcp, 1, 0);
        let silent = Marked {
            now: Time::ZERO,
            ack: 50_000,
            end: 60_000,
            delivered: 0,
            marked: 0,
            smoothed_rtt: MS(10),
        };
        dctcp.on_delivered(silent);
        assert_eq!((dctcp.share, dctcp.window_end), (15.0 / 16.0, 60_000));
    }
}
