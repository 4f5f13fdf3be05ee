//! Use of the congestion window: a window that is not used does not grow (RFC 7661, section 1), by
//! Linux's rule (tcp_cwnd_validate in net/ipv4/tcp_output.c and tcp_is_cwnd_limited in
//! include/net/tcp.h).

use super::Sender;
use crate::{Offset, Window};

/// Use of the window in the current round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// True if the window, rather than the application or the other windows, limited the sender.
    limited: bool,
    /// Greatest flight, if it did not.
    flight: u64,
    /// End of the data sent at the beginning: once it is acknowledged, the round trip has ended.
    until: Offset,
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
}
