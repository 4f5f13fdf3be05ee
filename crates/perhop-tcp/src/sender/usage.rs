//! How much of the congestion window is used: a window that is not does not grow (RFC 7661,
//! section 1), by Linux's rule (tcp_cwnd_validate in net/ipv4/tcp_output.c and tcp_is_cwnd_limited
//! in include/net/tcp.h).

use super::Sender;
use crate::{Offset, Window};

/// The use of the window in the current round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// True if the window, rather than the application or the other windows, held the sender up.
    limited: bool,
    /// The greatest flight, if it did not.
    flight: u64,
    /// What was sent by then: once it is acknowledged, the round trip is over.
    until: Offset,
}

impl Usage {
    /// Returns `true` if `window` may grow: it was the limit, or slow start has not yet doubled
    /// what was in flight. After a timeout it grows though nothing new can be sent.
    pub fn lets_grow(&self, window: &Window) -> bool {
        let slow_start = window.cwnd < window.ssthresh;
        self.limited || slow_start && window.cwnd < 2.0 * self.flight as f64
    }
}

impl Sender {
    /// Something was sent, or `limited` by the congestion window.
    pub(super) fn note_usage(&mut self, limited: bool) {
        let (una, flight) = (self.scoreboard.acknowledged(), self.scoreboard.flight());
        let Usage { limited: was, flight: greatest, until } = self.usage;
        if limited || una >= until || !was && flight > greatest {
            self.usage = Usage { limited, flight, until: self.scoreboard.end() };
        }
    }
}
