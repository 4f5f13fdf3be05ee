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
        // A delay that is over, and one of more than any run.
        assert_eq!(clock.timer(at(12_000), -1), at(30_000));
        let longest = Time::from_picos(u64::MAX - 1);
        assert_eq!(clock.timer(at(12_000), Micros::MAX), longest);
        // A clock that never stands still.
        let picos = Clock::new(Duration::ZERO);
        assert_eq!(picos.next(Time::from_picos(7)), Time::from_picos(8));
        assert_eq!(picos.timer(Time::from_picos(7), 1), Time::from_picos(7 + 1_000_000 + 1));
    }

    /// Packets of 1000 bytes that leave a full bucket at once: the last one overdraws it, or leaves
    /// it empty.
    #[test]
    fn the_depth_of_the_regulator_by_rate() {
        for (bps, packets) in [
            (1, 1),
            (1_000_000, 1),
            (1_000_001, 4),
            (10_000_000, 4),
            (10_000_001, 8),
            (200_000_000, 8),
            (200_000_001, 24),
            (2_500_000_000, 24),
            (2_500_000_001, 128),
            (100_000_000_000, 128),
        ] {
            let mut regulator = Regulator::new(Rate::new(bps).unwrap(), Bytes::new(1000));
            let mut sent = 0;
            while regulator.allows(Time::ZERO) {
                regulator.take(Bytes::new(1000));
                sent += 1;
            }
            assert_eq!(sent, packets, "{bps}");
            // A byte less each, and one packet more.
            let mut regulator = Regulator::new(Rate::new(bps).unwrap(), Bytes::new(1000));
            (0..packets).for_each(|_| regulator.take(Bytes::new(999)));
            assert!(regulator.allows(Time::ZERO), "{bps}");
        }
    }

    /// 8 Mb/s, a byte in a microsecond. An empty bucket has the tokens of the time since it was
    /// last filled, and not of that before; those of a picosecond are enough.
    #[test]
    fn the_regulator_fills_since_the_last_time() {
        let mut regulator = Regulator::new(Rate::new(8_000_000).unwrap(), Bytes::new(1000));
        regulator.take(Bytes::new(4000)); // the bucket, which was full
        assert!(!regulator.allows(at(0)));
        assert!(regulator.allows(Time::from_picos(1)));
        regulator.take(Bytes::new(1000));
        assert!(!regulator.allows(at(999)) && !regulator.allows(at(1_000)));
        assert!(regulator.allows(at(1_001)));
        regulator.take(Bytes::new(101));
        assert!(!regulator.allows(at(1_100)) && !regulator.allows(at(1_101)));
        assert!(regulator.allows(at(1_102)));
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
