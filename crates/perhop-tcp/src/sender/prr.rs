//! Proportional rate reduction (RFC 9937, section 6): in recovery delivered data clocks
//! transmissions, and the flight ends at the target of congestion control.

/// One recovery; all amounts are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Prr {
    /// Bytes delivered and bytes sent since recovery began.
    delivered: u64,
    sent: u64,
    /// Flight at the beginning: RecoverFS.
    flight: u64,
    /// Flight at the end: ssthresh.
    target: u64,
}

/// Information about an acknowledgement in recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    /// Bytes that it is the first to cover: DeliveredData.
    pub delivered: u64,
    /// True if it advances without a sign of further loss: SafeACK.
    pub safe: bool,
    /// Estimate of the bytes in the network.
    pub pipe: u64,
}

impl Prr {
    /// Begins a recovery. `flight` is the outstanding data without that SACKed before the
    /// acknowledgement that began it, and with the data that this one acknowledged.
    pub fn new(flight: u64, target: u64) -> Self {
        Self { delivered: 0, sent: 0, flight: flight.max(1), target }
    }

    /// Records that `bytes` were sent.
    pub fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// Returns the window after an acknowledgement; `None` if that delivered nothing.
    pub fn on_ack(&mut self, mss: u64, ack: Delivery) -> Option<u64> {
        let Delivery { delivered, safe, pipe } = ack;
        if delivered == 0 {
            return None;
        }
        self.delivered += delivered;
        let mut count = if pipe > self.target {
            let share = u128::from(self.delivered) * u128::from(self.target);
            let share = share.div_ceil(self.flight.into()) as u64;
            share.saturating_sub(self.sent)
        } else {
            // Below the target: one for one, or faster while that succeeds.
            let one_for_one = self.delivered.saturating_sub(self.sent).max(delivered);
            (one_for_one + if safe { mss } else { 0 }).min(self.target - pipe)
        };
        if self.sent == 0 && count == 0 {
            count = mss; // the fast retransmission
        }
        Some(pipe + count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 9937, section 7 (RFC 6937, section 3.1): 20 segments, the first of which
    /// is lost, Reno. After the first retransmission every other acknowledgement sends a segment.
    #[test]
    fn one_loss_of_twenty_sends_on_every_other_acknowledgement() {
        let mut prr = Prr::new(20, 10);
        // Two duplicates arrived before the third began recovery; limited transmit sent two more.
        let mut pipe = 20 - 1 - 3 + 2;
        let mut sent = Vec::new();
        for ack in 4..20 {
            let Some(window) = prr.on_ack(1, Delivery { delivered: 1, safe: false, pipe }) else {
                panic!("an acknowledgement that delivers");
            };
            let burst = window.saturating_sub(pipe);
            assert!(burst <= 1, "a burst of {burst}");
            if burst > 0 {
                sent.push(ack);
            }
            prr.on_sent(burst);
            pipe = pipe + burst - 1;
        }
        // Segments 4, 6, 8 …: half as many as are delivered.
        assert_eq!(sent, (4..20).step_by(2).collect::<Vec<_>>());
        assert_eq!(pipe, 10);
    }

    /// RFC 6937, section 3.1, second example: 15 of 20 are lost and 4 acknowledgements arrive. Each
    /// sends one segment, never more than was delivered (the conservative bound).
    #[test]
    fn heavy_loss_is_repaired_one_for_one() {
        let mut prr = Prr::new(20, 10);
        let mut pipe = 4;
        for _ in 0..4 {
            let window = prr.on_ack(1, Delivery { delivered: 1, safe: false, pipe }).unwrap();
            assert_eq!(window - pipe, 1);
            prr.on_sent(1);
        }
        // If an acknowledgement advances without further loss, slow start catches up.
        for _ in 0..3 {
            let window = prr.on_ack(1, Delivery { delivered: 1, safe: true, pipe }).unwrap();
            assert_eq!(window - pipe, 2);
            prr.on_sent(2);
            pipe += 1;
        }
    }

    #[test]
    fn the_first_retransmission_is_never_withheld() {
        let mut prr = Prr::new(100, 10);
        // 5 · 10 / 100 is rounded up; nothing is due once that was sent.
        let heavy = Delivery { delivered: 0, safe: false, pipe: 50 };
        assert_eq!(prr.on_ack(1, heavy), None);
        let begins = Delivery { delivered: 5, ..heavy };
        assert_eq!(prr.on_ack(1, begins), Some(51));
        prr.on_sent(1);
        assert_eq!(prr.on_ack(1, Delivery { delivered: 1, ..heavy }), Some(50));
    }

    /// Section 6.2, from 20 segments to 10: bytes delivered and sent before, now delivered, whether
    /// that is safe, and in flight; and the window.
    #[test]
    fn windows_by_the_formulas() {
        for (before, sent, delivered, safe, pipe, window) in [
            // Above the target: half of what was delivered, rounded up to a byte.
            (0, 0, 1_000, false, 19_000, 19_500),
            (1_000, 500, 1_000, true, 19_000, 19_500),
            (1_000, 1_000, 1_000, false, 19_000, 19_000),
            (1_000, 3_000, 1_000, false, 19_000, 19_000),
            (2_000, 1_000, 1, false, 10_001, 10_002),
            // At the target and below: up to it.
            (5_000, 1_000, 1_000, false, 10_000, 10_000),
            (3_000, 2_000, 1_000, false, 9_000, 10_000),
            (3_000, 2_000, 1_000, false, 5_000, 7_000),
            (3_000, 2_000, 1_000, true, 5_000, 8_000),
            (3_000, 9_000, 1_000, false, 5_000, 6_000),
            (3_000, 9_000, 1_000, true, 5_000, 7_000),
            // The first retransmission.
            (0, 0, 1_000, false, 10_000, 11_000),
            (0, 1, 1_000, false, 10_000, 10_000),
        ] {
            let mut prr = Prr::new(20_000, 10_000);
            (prr.delivered, prr.sent) = (before, sent);
            let ack = Delivery { delivered, safe, pipe };
            assert_eq!(prr.on_ack(1_000, ack), Some(window), "{before} {sent} {ack:?}");
            assert_eq!((prr.delivered, prr.sent), (before + delivered, sent));
        }
        // Recovery that begins with nothing in flight.
        let first = Delivery { delivered: 10, safe: false, pipe: 101 };
        assert_eq!(Prr::new(0, 100).on_ack(10, first), Some(101 + 1_000));
    }
}
