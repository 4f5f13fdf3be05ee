//! The congestion window: `tcp_cong_control`, and whether it is used.

use perhop_core::{Duration, Time};

use super::cubic::Moment;
use super::{Control, INFINITE, LEAST_CHUNK, Machine, REORDERING, Seen, State, whole_micros};
use crate::Offset;
use crate::sender::Sender;
use crate::sender::pacing::{AVOIDANCE, SLOW_START};
use crate::sender::small_queues::chunk_bytes;

/// Large segments for which acknowledgements may wait at the pacing rate, and at most how long in
/// µs (hystart_ack_delay).
const LARGEST: f64 = 4.0 * 65_536.0;
const HELD_BACK: f64 = 1_000.0;

impl Machine<'_> {
    /// Begins with the initial window when the connection opens (tcp_init_transfer): with one
    /// segment if the SYN was sent again more than once.
    pub(super) fn open(&mut self) {
        let again = self.sender.retransmits;
        self.sender.rtt.opened(again > 0);
        let linux = &mut *self.linux;
        linux.window = if again > 1 { 1 } else { self.sender.config.initial_window };
        linux.threshold = INFINITE;
        linux.state = State::Open;
        linux.undo_from = None;
        linux.first_resent = None;
        let (micros, end) = (self.micros(), self.end());
        if let Control::Cubic(cubic) = &mut self.linux.control {
            cubic.on_timeout(micros, end);
        }
        self.set_timer();
    }

    fn micros(&self) -> u64 {
        self.now.as_picos() / 1_000_000
    }

    /// Returns the threshold after a loss.
    pub(super) fn threshold(&mut self) -> u32 {
        let window = self.linux.window;
        match &mut self.linux.control {
            Control::Reno => (window / 2).max(2),
            Control::Cubic(cubic) => cubic.threshold(window),
        }
    }

    /// Resets congestion control after a timeout.
    pub(super) fn reset_control(&mut self) {
        let (micros, end) = (self.micros(), self.end());
        if let Control::Cubic(cubic) = &mut self.linux.control {
            cubic.on_timeout(micros, end);
        }
    }

    /// Passes a round-trip time to congestion control.
    pub(super) fn pass_rtt(&mut self, rtt: Option<Duration>, acked: Offset) {
        let Some(rtt) = rtt else { return };
        let (ticks, micros, end) = (self.tick(), self.micros(), self.end());
        let slow_start = self.linux.in_slow_start();
        let window = self.linux.window;
        let held_back = self.held_back();
        if let Control::Cubic(cubic) = &mut self.linux.control {
            let at = Moment { ticks, micros, acked, end, window, slow_start, held_back };
            if cubic.on_rtt(whole_micros(rtt), at) && slow_start {
                self.linux.threshold = window;
            }
        }
    }

    fn held_back(&self) -> u64 {
        let Some(round) = self.sender.rtt.smoothed() else { return 0 };
        let factor = match self.linux.window < self.linux.threshold / 2 {
            true => SLOW_START,
            false => AVOIDANCE,
        };
        let rate = factor * f64::from(self.linux.window) * self.sender.mss();
        (LARGEST * round.as_secs_f64() * 1e6 / rate).min(HELD_BACK) as u64
    }

    /// Sets the number of segments that are handed to the device at once: what the pacing rate
    /// sends in 2⁻¹⁰ s, and more on short paths (tcp_update_pacing_rate, tcp_tso_autosize).
    pub(super) fn size_chunks(&mut self) {
        if self.sender.config.tso_divisor == 0 {
            return;
        }
        let Some(round) = self.sender.rtt.smoothed() else { return };
        let factor = match self.linux.window < self.linux.threshold / 2 {
            true => SLOW_START,
            false => AVOIDANCE,
        };
        let window = f64::from(self.linux.window.max(self.packets())) * self.sender.mss();
        let rate = factor * window / round.as_secs_f64().max(1e-9);
        let bytes = chunk_bytes(rate, self.linux.least_rtt);
        self.linux.chunk = ((bytes / self.sender.mss()) as u32).max(LEAST_CHUNK);
    }

    /// Changes the window after an acknowledgement (tcp_cong_control).
    pub(super) fn control_congestion(&mut self, seen: &Seen, lost: bool) {
        let arrival = &seen.arrival;
        if self.linux.is_reducing() {
            self.reduce(arrival.delivered, seen.advanced && !lost);
            return;
        }
        let progress = match self.linux.reordering > REORDERING {
            true => arrival.acked > 0 || arrival.sacked,
            false => arrival.acked > 0,
        };
        if progress && self.is_limited() {
            self.grow(arrival.delivered);
        }
    }

    /// Sets the window in proportion to what was delivered (tcp_cwnd_reduction).
    pub(super) fn reduce(&mut self, delivered: u32, safe: bool) {
        let in_flight = self.in_flight();
        let linux = &mut *self.linux;
        if delivered == 0 || linux.window_before == 0 {
            return;
        }
        linux.delivered += delivered;
        let (sent, room) =
            (i64::from(linux.sent), i64::from(linux.threshold) - i64::from(in_flight));
        let count = if room < 0 {
            let share = u64::from(linux.threshold) * u64::from(linux.delivered);
            share.div_ceil(linux.window_before.into()) as i64 - sent
        } else {
            let owed = (i64::from(linux.delivered) - sent).max(delivered.into());
            (owed + i64::from(safe)).min(room)
        };
        let count = count.max(i64::from(linux.sent == 0));
        linux.window = (i64::from(in_flight) + count).max(1) as u32;
    }

    /// Returns `true` if the window is the limit, or slow start has not yet doubled the flight
    /// (tcp_is_cwnd_limited).
    fn is_limited(&self) -> bool {
        let linux = &self.linux;
        linux.limited || linux.in_slow_start() && linux.window < 2 * linux.most
    }

    fn grow(&mut self, delivered: u32) {
        let now = self.tick();
        let linux = &mut *self.linux;
        let mut acked = delivered;
        if linux.in_slow_start() {
            let window = (linux.window + acked).min(linux.threshold);
            acked -= window - linux.window;
            linux.window = window;
            if acked == 0 {
                return;
            }
        }
        let count = match &mut linux.control {
            Control::Reno => linux.window,
            Control::Cubic(cubic) => cubic.count(linux.window, acked, now),
        };
        // tcp_cong_avoid_ai
        if linux.credit >= count {
            linux.credit = 0;
            linux.window += 1;
        }
        linux.credit += acked;
        linux.window += linux.credit / count;
        linux.credit %= count;
    }

    /// Records how much of the window a burst has used (tcp_cwnd_validate). In recordings of Linux
    /// 6.18 a window that was not used for long shrinks only before data after a pause.
    pub(super) fn validate(&mut self, limited: bool) {
        let (una, end, packets) = (self.una(), self.end(), self.packets());
        let linux = &mut *self.linux;
        if una >= linux.usage_until || limited || !linux.limited && packets > linux.most {
            (linux.limited, linux.most, linux.usage_until) = (limited, packets, end);
        }
    }

    /// Reduces the window before data after a pause (tcp_slow_start_after_idle_check).
    fn restart(&mut self) {
        let timeout = self.timeout_ticks();
        let idle = self.tick() - self.linux.last_sent;
        if self.packets() > 0 || idle <= timeout {
            return;
        }
        let linux = &mut *self.linux;
        linux.threshold = linux.current_threshold();
        let least = self.sender.config.initial_window.min(linux.window);
        let mut left = idle.saturating_sub(timeout);
        let mut window = linux.window;
        while left > 0 && window > least {
            window /= 2;
            left = left.saturating_sub(timeout);
        }
        linux.window = window.max(least);
    }

    /// Tells congestion control that data follows a pause.
    pub(super) fn note_start(&mut self) {
        let now = self.tick();
        let idle = now - self.linux.last_sent.min(now);
        if let Control::Cubic(cubic) = &mut self.linux.control {
            cubic.on_restart(idle, now);
        }
    }
}

impl Sender {
    /// Reduces the window before data at `now` after a pause, as Linux does.
    pub(in crate::sender) fn restart_as_linux(&mut self, now: Time) {
        self.as_linux(now, |machine| machine.restart());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LossDetection;
    use crate::sender::linux::Linux;
    use crate::sender::linux::tests::configured;

    /// Returns a sender of 1000-byte segments with a round-trip time of 40 ms and thus a timeout of
    /// 60 ticks, and its Linux state with this window and threshold.
    fn linux(window: u32, threshold: u32, tso_divisor: u32) -> (Sender, Box<Linux>) {
        let (mut sender, mut linux) = configured(LossDetection::Rack, tso_divisor);
        (linux.window, linux.threshold, linux.last_sent) = (window, threshold, 1_000);
        sender.rtt.sample(Duration::from_millis(40), 1, 1);
        (sender, linux)
    }

    /// tcp_cwnd_restart: halved for each timeout, but ten segments stay, or the window if it is
    /// less; the threshold is three quarters of it at least.
    #[test]
    fn a_pause_halves_the_window_for_each_timeout() {
        for (idle, window, threshold, after) in [
            (60, 40, 10, (40, 10)),
            (61, 40, 10, (20, 30)),
            (61, 40, 35, (20, 35)),
            (61, 43, 10, (21, 31)),
            (120, 40, 10, (20, 30)),
            (121, 40, 10, (10, 30)),
            (121, 38, 10, (10, 28)),
            (180, 80, 10, (20, 60)),
            (181, 80, 10, (10, 60)),
            (100_000, 80, 10, (10, 60)),
            (100_000, 8, 4, (8, 6)),
        ] {
            let (mut sender, mut linux) = linux(window, threshold, 0);
            let now = Time::from_picos((1_000 + idle) * super::super::TICK);
            Machine { sender: &mut sender, linux: &mut linux, now }.restart();
            assert_eq!((linux.window, linux.threshold), after, "{idle} {window}");
        }
        // Not while data is outstanding.
        let (mut sender, mut linux) = linux(40, 10, 0);
        sender.scoreboard.send(1, Time::ZERO);
        let now = Time::from_picos(9_000 * super::super::TICK);
        Machine { sender: &mut sender, linux: &mut linux, now }.restart();
        assert_eq!(linux.window, 40);
    }

    /// tcp_tso_autosize and hystart_ack_delay: a 1024th of 2 or 1.2 windows per round trip of 40
    /// ms, and four times 64 KiB at that rate, but a millisecond.
    #[test]
    fn sizes_follow_the_pacing_rate() {
        for (window, threshold, divisor, chunk, held_back) in [
            (20, INFINITE, 3, 2, 1_000),
            (1_000, INFINITE, 3, 48, 1_000), // 50 MB/s: 48,828 B
            (1_000, 2_000, 3, 29, 1_000),    // 30 MB/s: 29,296 B
            (1_000, 2_002, 3, 48, 1_000),    // less than half the threshold
            (1_000, INFINITE, 0, 2, 1_000),  // the sender does not wait for chunks
            (20_000, INFINITE, 3, 65, 262),  // 1 GB/s, and 64 KiB at most
            (20_000, 20_000, 3, 65, 436),
        ] {
            let (mut sender, mut linux) = linux(window, threshold, divisor);
            let now = Time::from_picos(1_000 * super::super::TICK);
            let mut machine = Machine { sender: &mut sender, linux: &mut linux, now };
            machine.size_chunks();
            assert_eq!(machine.held_back(), held_back, "{window} {threshold}");
            assert_eq!(linux.chunk, chunk, "{window} {threshold}");
        }
        // What is outstanding counts if it is more than the window.
        let (mut sender, mut linux) = linux(1, 1, 3);
        (0..1_000).for_each(|_| _ = sender.scoreboard.send(1, Time::ZERO));
        Machine { sender: &mut sender, linux: &mut linux, now: Time::ZERO }.size_chunks();
        assert_eq!(linux.chunk, 29);
    }

    /// tcp_cwnd_reduction, before at 20 segments and with a threshold of 10: segments delivered and
    /// sent before, outstanding, now delivered, safe; and the window after.
    #[test]
    fn rate_reduction_in_segments() {
        for (before, sent, outstanding, delivered, safe, window) in [
            (0, 0, 19, 1, false, 20), // half a segment is rounded up
            (1, 1, 19, 1, false, 19),
            (1, 1, 18, 2, false, 19),
            (3, 1, 18, 2, false, 20), // ceil(2.5) - 1
            (0, 0, 18, 0, false, 20), // nothing was delivered
            (0, 0, 10, 1, false, 11), // no room, but the first retransmission
            (4, 2, 10, 1, true, 10),
            (4, 2, 5, 1, false, 8), // 5 - 2
            (4, 2, 5, 1, true, 9),
            (4, 2, 8, 1, true, 10), // up to the threshold
            (4, 9, 5, 2, false, 7), // as many as are delivered
            (4, 9, 0, 2, false, 2),
        ] {
            let (mut sender, mut linux) = linux(20, 10, 0);
            (linux.window_before, linux.delivered, linux.sent) = (20, before, sent);
            (0..outstanding).for_each(|_| _ = sender.scoreboard.send(1, Time::ZERO));
            let mut machine = Machine { sender: &mut sender, linux: &mut linux, now: Time::ZERO };
            machine.reduce(delivered, safe);
            let case = (before, sent, outstanding, delivered, safe);
            assert_eq!(linux.window, window, "{case:?}");
            assert_eq!(linux.delivered, before + delivered);
        }
    }

    /// tcp_reno_cong_avoid: slow start up to the threshold, and the rest as in congestion
    /// avoidance: a segment for a window, and one for credit that a larger window has left.
    #[test]
    fn growth_in_segments() {
        for (window, threshold, credit, acked, after) in [
            (10, INFINITE, 0, 7, (17, 0)),
            (10, 17, 0, 7, (17, 0)),
            (10, 15, 0, 7, (15, 2)),
            (20, 15, 0, 7, (20, 7)),
            (20, 15, 13, 6, (20, 19)),
            (20, 15, 13, 7, (21, 0)),
            (20, 15, 13, 30, (22, 3)),
            (20, 15, 20, 3, (21, 3)),
            (20, 20, 25, 1, (21, 1)),
        ] {
            let (mut sender, mut linux) = linux(window, threshold, 0);
            linux.credit = credit;
            Machine { sender: &mut sender, linux: &mut linux, now: Time::ZERO }.grow(acked);
            assert_eq!(
                (linux.window, linux.credit),
                after,
                "{window} {threshold} {credit} {acked}"
            );
        }
    }

    /// tcp_cwnd_validate and tcp_is_cwnd_limited, in a round trip that ends at 100: end of what is
    /// acknowledged, limited now, limited before, outstanding and most before; then limited, and
    /// most.
    #[test]
    fn use_of_the_window() {
        for (una, limited, was, outstanding, most, after) in [
            (50, false, false, 9, 10, (false, 10)),
            (50, false, false, 11, 10, (false, 11)),
            (50, false, true, 11, 10, (true, 10)),
            (50, true, true, 9, 10, (true, 9)),
            (99, false, true, 9, 10, (true, 10)),
            (100, false, true, 9, 10, (false, 9)),
        ] {
            let (mut sender, mut linux) = linux(30, INFINITE, 0);
            sender.scoreboard.send(una, Time::ZERO);
            sender.scoreboard.acknowledge(una.into(), Time::ZERO, &mut Default::default());
            (0..outstanding).for_each(|_| _ = sender.scoreboard.send(1, Time::ZERO));
            (linux.limited, linux.most, linux.usage_until) = (was, most, 100);
            let mut machine = Machine { sender: &mut sender, linux: &mut linux, now: Time::ZERO };
            machine.validate(limited);
            assert_eq!((linux.limited, linux.most), after, "{una} {limited} {was} {outstanding}");
        }
        for (limited, window, threshold, most, expected) in [
            (true, 30, 30, 1, true),
            (false, 30, 31, 15, false),
            (false, 30, 31, 16, true),
            (false, 30, 30, 16, false),
        ] {
            let (mut sender, mut linux) = linux(window, threshold, 0);
            (linux.limited, linux.most) = (limited, most);
            let machine = Machine { sender: &mut sender, linux: &mut linux, now: Time::ZERO };
            assert_eq!(machine.is_limited(), expected, "{limited} {threshold} {most}");
        }
    }
}
