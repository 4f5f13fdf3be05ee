//! Use of the congestion window: a window that is not used does not grow (RFC 7661, section 1), by
//! Linux's rule (tcp_cwnd_validate in net/ipv4/tcp_output.c and tcp_is_cwnd_limited in
//! include/net/tcp.h).

use perhop_core::{Duration, Time};

use super::Sender;
use crate::{Offset, Window};

/// Use of the window in the current round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// True if the window, rather than the application or the other windows, limited the sender.
    pub limited: bool,
    /// Greatest flight, if it did not.
    pub flight: u64,
    /// End of the data sent at the beginning: once it is acknowledged, the round trip has ended.
    pub until: Offset,
}

impl Usage {
    /// Returns `true` if `window` may grow: it was the limit, or slow start has not yet doubled the
    /// flight. After a timeout it grows although no new data can be sent.
    pub fn lets_grow(&self, window: &Window) -> bool {
        let slow_start = window.cwnd < window.ssthresh;
        self.limited || slow_start && window.cwnd < 2.0 * self.flight as f64
    }
}

impl Sender {
    /// Records a transmission, or that the congestion window is the limit (`limited`).
    pub(super) fn note_usage(&mut self, limited: bool) {
        let (una, flight) = (self.scoreboard.acknowledged(), self.scoreboard.flight());
        let Usage { limited: was, flight: greatest, until } = self.usage;
        if limited || una >= until || !was && flight > greatest {
            self.usage = Usage { limited, flight, until: self.scoreboard.end() };
        }
    }

    /// Reduces the window before the first data at `now`, after `idle` in which nothing was sent
    /// (RFC 5681, section 4.1), as Linux does (tcp_cwnd_restart in net/ipv4/tcp_output.c): it is
    /// halved for every retransmission timeout, but stays at least the initial one, and slow start
    /// leads back to three quarters of it. Models of the path have a rule of their own.
    pub fn restart_after_idle(&mut self, now: Time, idle: Duration) {
        if self.linux.is_some() {
            self.restart_as_linux(now);
            return;
        }
        let timeout = self.rtt.timeout();
        if !self.scoreboard.is_empty() || self.config.congestion.is_modelled() || idle <= timeout {
            return;
        }
        let initial = f64::from(self.config.initial_window) * self.mss();
        let Window { cwnd, ssthresh } = &mut self.window;
        *ssthresh = ssthresh.max(0.75 * *cwnd);
        let least = initial.min(*cwnd);
        let mut left = idle - timeout;
        while left > Duration::ZERO && *cwnd > least {
            *cwnd = (*cwnd / 2.0).max(least);
            left = left - timeout;
        }
        self.usage = Usage::default();
    }
}
