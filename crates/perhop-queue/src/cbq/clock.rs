//! The clock tick, and the regulator that depends on it.

use perhop_core::{Bytes, Duration, Rate, Time};

use super::estimator::Micros;

/// A clock that ticks from the beginning of the run. Timers expire at ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(u64);

impl Clock {
    pub fn new(tick: Duration) -> Self {
        Self(tick.as_picos().max(1))
    }

    /// Returns the tick after `now`.
    pub fn next(&self, now: Time) -> Time {
        self.after(now, 1)
    }

    /// Returns the expiry of a timer that is set at `now` for `delay`: after two ticks, because the
    /// next one may follow at once; for longer delays, one tick after the delay rounded up to
    /// ticks.
    pub fn timer(&self, now: Time, delay: Micros) -> Time {
        let delay = u64::try_from(delay).unwrap_or(0).saturating_mul(1_000_000);
        if delay > self.0.saturating_mul(2) {
            self.after(now, delay.div_ceil(self.0).saturating_add(1))
        } else {
            self.after(now, 2)
        }
    }

    fn after(&self, now: Time, ticks: u64) -> Time {
        let ticks = (now.as_picos() / self.0).saturating_add(ticks);
        // `Time::MAX` stands for "never".
        Time::from_picos(ticks.saturating_mul(self.0).min(Time::MAX.as_picos() - 1))
    }
}

/// The token bucket between the scheduler and the driver. It fills only at a poll that finds it
/// empty, and passes packets while it holds any token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Regulator {
    rate: Rate,
    /// In 10⁻¹² bits, like the tokens.
    depth: i128,
    tokens: i128,
    filled: Time,
}

/// 10⁻¹² bits in a byte.
const BYTE: i128 = 8_000_000_000_000;

impl Regulator {
    /// Creates a full bucket, whose depth depends on its rate: 1, 4, 8, 24 or 128 packets for up to
    /// 1, 10, 200, 2500 Mb/s or more.
    pub fn new(rate: Rate, packet: Bytes) -> Self {
        const DEPTHS: [(u64, i128); 4] = [(1, 1), (10, 4), (200, 8), (2_500, 24)];
        let reaches =
            |&&(megabits, _): &&(u64, i128)| rate.bits_per_second() <= megabits * 1_000_000;
        let packets = DEPTHS.iter().find(reaches).map_or(128, |&(_, packets)| packets);
        let depth = packets * i128::from(packet.get()) * BYTE;
        Self { rate, depth, tokens: depth, filled: Time::ZERO }
    }

    /// Returns `true` if a packet may be sent at `now`.
    pub fn allows(&mut self, now: Time) -> bool {
        if self.tokens <= 0 {
            let elapsed = i128::from(now.since(self.filled).as_picos());
            let earned = elapsed * i128::from(self.rate.bits_per_second());
            self.tokens = self.tokens.saturating_add(earned).min(self.depth);
            self.filled = now;
        }
        self.tokens > 0
    }

    /// Takes the tokens of a packet that was sent.
    pub fn take(&mut self, size: Bytes) {
        self.tokens -= i128::from(size.get()) * BYTE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn timers_end_at_ticks() {
        let clock = Clock::new(Duration::from_millis(10));
        assert_eq!(clock.next(at(9_999)), at(10_000));
        assert_eq!(clock.next(at(10_000)), at(20_000));
        assert_eq!(clock.timer(at(12_000), 300), at(30_000));
        assert_eq!(clock.timer(at(12_000), 20_000), at(30_000));
        // 20.001 ms are three ticks, plus one.
        assert_eq!(clock.timer(at(12_000), 20_001), at(50_000));
    }

    /// 100 Mb/s: 8 packets of 1500 B, filled at 12.5 bytes a microsecond.
    #[test]
    fn the_regulator_fills_only_when_it_is_empty() {
        let mut regulator = Regulator::new(Rate::new(100_000_000).unwrap(), Bytes::new(1500));
        // A 1 Gb/s wire takes 12 µs a packet. The first eight empty the bucket.
        let mut now = 1_000_000;
        let mut sent = 0;
        while regulator.allows(at(now)) {
            regulator.take(Bytes::new(1500));
            sent += 1;
            now += 12;
        }
        // Then the bucket fills for the million microseconds since its creation, to its depth.
        // After 8 more packets it is empty; 8 · 12 · 12.5 = 1200 bytes allow one, which leaves
        // -300; the 150 bytes that arrive in the next 12 µs are not enough.
        assert_eq!(sent, 17);
        assert!(!regulator.allows(at(now + 11)));
        assert!(regulator.allows(at(now + 13)));
    }
}
