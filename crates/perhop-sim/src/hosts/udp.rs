//! An application that sends datagrams, and one that counts them.

use perhop_core::{Duration, Rate, Time};

#[derive(Debug)]
pub(crate) struct UdpSender {
    pub stop: Time,
    /// Bytes that are left to send; [`u64::MAX`] has no end.
    pub left: u64,
    pub payload: u16,
    pub sent: u32,
    pub lost: u64,
    /// When the next datagram is due.
    pub due: Time,
    pub pace: Pace,
}

/// The time between datagrams, with the fraction of a picosecond that is carried over so that
/// rounding never adds up.
#[derive(Debug)]
pub(crate) struct Pace {
    gap: Duration,
    /// What `gap` leaves out, in units of 1 ps / `rate`.
    remainder: u64,
    rate: u64,
    carried: u64,
}

impl Pace {
    /// One datagram of `payload` bytes after the other at `rate`.
    pub fn new(payload: u16, rate: Rate) -> Self {
        // 2¹⁶ bytes are 2¹⁹ · 10¹² picobits, which a u64 holds.
        let picobits = u64::from(payload) * 8_000_000_000_000;
        let rate = rate.bits_per_second();
        let gap = Duration::from_picos(picobits / rate);
        Self { gap, remainder: picobits % rate, rate, carried: 0 }
    }

    fn next(&mut self) -> Duration {
        self.carried += self.remainder;
        let whole = u64::from(self.carried >= self.rate);
        self.carried -= whole * self.rate;
        self.gap + Duration::from_picos(whole)
    }
}

#[derive(Debug, Default)]
pub(crate) struct UdpReceiver {
    pub delivered: u64,
    pub packets: u64,
    pub reordered: u64,
    /// Packets that were marked: congestion experienced.
    pub marked: u64,
    /// One above the highest sequence number that has arrived.
    pub next: u32,
}

impl UdpSender {
    pub fn deadline(&self) -> Time {
        if self.due < self.stop && self.left > 0 { self.due } else { Time::MAX }
    }

    /// The payload of the datagram that is due.
    pub fn next_payload(&mut self) -> u32 {
        let payload = self.left.min(self.payload.into());
        if self.left != u64::MAX {
            self.left -= payload;
        }
        self.sent += 1;
        self.due += self.pace.next();
        payload as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_core::Bytes;

    #[test]
    fn pacing_does_not_drift() {
        // 1500 · 8 · 10¹² / 155,520,007 is not a whole number of picoseconds.
        let rate = Rate::new(155_520_007).unwrap();
        let mut pace = Pace::new(1500, rate);
        let mut at = Time::ZERO;
        for sent in 1..=10_000_u64 {
            at += pace.next();
            let exact = Bytes::new(sent * 1500) / rate;
            assert!(exact.as_picos() - at.as_picos() <= 1, "{sent}: {at:?}, not {exact:?}");
        }
    }
}
