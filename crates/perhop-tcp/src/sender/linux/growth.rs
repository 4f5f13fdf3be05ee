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
