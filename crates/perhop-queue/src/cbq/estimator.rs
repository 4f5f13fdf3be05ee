//! The estimator: how far a class is ahead of its rate, derived from the idle time between packets.

use perhop_core::{Bytes, Rate, power};

/// Microseconds of the run's clock.
pub(super) type Micros = i64;

/// Binary logarithm of the inverse gain of the average idle time: the gain is 2⁻⁵.
const GAIN: u32 = 5;

/// Idle time after which the estimate starts again from its maximum, in microseconds.
const LONG_IDLE: Micros = 2_000_000;

/// Limits of the estimate, which determine the length of bursts and of the sleep after them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Greatest average idle time, scaled by 2⁵.
    pub maxidle: Micros,
    /// Least average idle time, which is negative, scaled by 2⁵.
    pub minidle: Micros,
    /// Least time that a class over its limit sleeps beyond the recovery of its average, counted
    /// from its last packet, in microseconds.
    pub offtime: Micros,
}

impl Bounds {
    /// Returns the bounds for a class with this `rate` of a link whose rate is `link`, and for
    /// packets of up to `packet` bytes. The class sends `maxburst` packets back to back after a
    /// long idle time (by default 16, or 4 if it waits for more than 10 ms between two packets),
    /// and `minburst` after each sleep.
    pub fn new(
        rate: Rate,
        link: Rate,
        packet: Bytes,
        maxburst: Option<u32>,
        minburst: u32,
    ) -> Self {
        let micros = |rate: Rate| packet.get() as f64 * 8e6 / rate.bits_per_second() as f64;
        let share = rate.bits_per_second() as f64 / link.bits_per_second() as f64;
        let gain = 31.0 / 32.0;
        let packet_time = micros(link);
        // Additional time that a packet takes at the rate of the class.
        let wait = packet_time * (1.0 - share) / share;
        let maxburst = maxburst.unwrap_or(if wait > 10_000.0 { 4 } else { 16 });
        let minburst = minburst.min(maxburst);
        // The average idle time that is used up after `packets` packets.
        let enough = |packets: u32| {
            let left = power(gain, packets.into());
            (1.0 - left) / left
        };
        let maxidle = packet_time * ((1.0 / share - 1.0) * enough(maxburst)).max(1.0 - gain);
        let offtime = wait * (1.0 + 32.0 * enough(minburst.saturating_sub(1)));
        // Longer than any run, but small enough that sums do not overflow.
        let bounded = |micros: f64| micros.min(1e15) as Micros;
        Self {
            maxidle: bounded(maxidle * 32.0),
            minidle: -bounded(micros(rate) * 32.0),
            offtime: bounded(offtime),
        }
    }
}

/// Returns the time that `size` takes at `rate`, rounded down to a microsecond.
pub(super) fn packet_time(size: Bytes, rate: Rate) -> Micros {
    let micros = u128::from(size.get()) * 8_000_000 / u128::from(rate.bits_per_second());
    micros.min(1_000_000_000_000_000) as Micros
}

/// Estimate for one class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimator {
    rate: Rate,
    bounds: Bounds,
    /// Average idle time, scaled by 2⁵: the time between two packets on the link, less the time
    /// that the packet takes at the rate of the class.
    avgidle: Micros,
    /// Estimated time at which the last packet left the link.
    last: Micros,
    /// Time that the last packet took at the rate of the class.
    packet_time: Micros,
    /// Time until which the class is over its limit, if it is.
    undertime: Option<Micros>,
}

impl Estimator {
    /// Creates the estimate for a class that has been idle for long.
    pub fn new(rate: Rate, bounds: Bounds) -> Self {
        let avgidle = bounds.maxidle;
        Self { rate, bounds, avgidle, last: 0, packet_time: 0, undertime: None }
    }

    /// Returns `true` if the class is over its limit at `now`.
    pub fn is_over(&self, now: Micros) -> bool {
        self.undertime.is_some_and(|undertime| now < undertime)
    }

    /// Returns `true` if the average is at its minimum.
    pub fn is_pinned(&self) -> bool {
        self.avgidle <= self.bounds.minidle
    }

    /// Returns the sleep of a class below this one that wants to borrow while this one is over its
    /// limit.
    pub fn offtime(&self) -> Micros {
        self.bounds.offtime
    }

    /// Extends the time for which a class is over its limit: the time of its last packet is
    /// replaced by `offtime`, if that is longer. Returns the time until then, in microseconds.
    pub fn put_off(&mut self, now: Micros, offtime: Micros) -> Micros {
        let more = (offtime - self.packet_time).max(0);
        let until = self.undertime.unwrap_or(now) + more;
        self.undertime = Some(until);
        (until - now).max(0)
    }

    /// Clears the limit: the class may send, whatever its average.
    pub fn forgive(&mut self) {
        self.undertime = None;
    }

    /// Updates the average after the class has sent `size` at `now`, which leaves the link at
    /// `left`. Returns `true` if the class is within its limit.
    pub fn charge(&mut self, now: Micros, left: Micros, size: Bytes) -> bool {
        let idle = left - self.last;
        if idle >= LONG_IDLE {
            self.avgidle = self.bounds.maxidle;
        }
        self.packet_time = packet_time(size, self.rate);
        self.last = left;
        let average = self.avgidle + (idle - self.packet_time) - (self.avgidle >> GAIN);
        if average <= 0 {
            self.avgidle = average.max(self.bounds.minidle);
            self.undertime = Some(now + self.packet_time + ((-31 * self.avgidle) >> GAIN));
        } else {
            self.avgidle = average.min(self.bounds.maxidle);
            self.undertime = None;
        }
        self.undertime.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bps: u64) -> Rate {
        Rate::new(bps).unwrap()
    }

    fn half_of_100_megabit() -> Estimator {
        let bounds = Bounds::new(rate(50_000_000), rate(100_000_000), Bytes::new(1500), None, 2);
        Estimator::new(rate(50_000_000), bounds)
    }

    /// A packet of 1500 B takes 120 µs on the link and 240 µs at the class's rate; g¹⁶ = 0.60171,
    /// so that (1 - g¹⁶)/g¹⁶ = 0.66193.
    #[test]
    fn bounds_follow_from_the_rates() {
        let class = half_of_100_megabit();
        assert_eq!(class.bounds.maxidle, 2541); // 32 · 120 · 0.66193
        assert_eq!(class.bounds.minidle, -7680); // -32 · 240
        assert_eq!(class.bounds.offtime, 243); // 120 · (1 + 32 · (1/31))
        // The root has the whole link, and is granted a 32nd of a packet.
        let root = Bounds::new(rate(100_000_000), rate(100_000_000), Bytes::new(1500), None, 2);
        assert_eq!((root.maxidle, root.minidle, root.offtime), (120, -3840, 0));
        // A class of 1% of 10 Mb/s waits for 119 ms between packets: bursts of 4, (1 - g⁴)/g⁴ =
        // 125055/923521; 32 · 1200 · 99 · 0.135411.
        let slow = Bounds::new(rate(100_000), rate(10_000_000), Bytes::new(1500), None, 2);
        assert_eq!(slow.maxidle, 514_778);
    }

    /// The class sends back to back: each packet leaves 120 µs after the last, while its rate
    /// requires 240. The averages are `a + (120 - 240) - (a >> 5)`, by hand.
    #[test]
    fn the_average_falls_as_computed_by_hand() {
        let mut class = half_of_100_megabit();
        let mut left = 3_000_000;
        let mut averages = Vec::new();
        for _ in 0..18 {
            let now = left;
            left += 120;
            let under = class.charge(now, left, Bytes::new(1500));
            averages.push(class.avgidle);
            assert_eq!(under, class.avgidle > 0);
        }
        // After a long idle time it starts from the maximum: 2541 + (3000120 - 240) - 79, capped.
        let by_hand = [
            2541, 2342, 2149, 1962, 1781, 1606, 1436, 1272, 1113, 959, 810, 665, 525, 389, 257,
            129, 5, -115,
        ];
        assert_eq!(averages, by_hand);
        // Over its limit: the last packet left at 3 000 000 + 17 · 120, plus 240 for itself and 31
        // · 115 / 32 = 111.4 for the average.
        assert_eq!(class.undertime, Some(3_002_040 + 240 + 111));
        assert!(class.is_over(3_002_390) && !class.is_over(3_002_391));
        // Polled at 3 002 160, it sleeps: 243 instead of 240, 234 from then.
        assert_eq!(class.put_off(3_002_160, class.offtime()), 234);
        assert_eq!(class.undertime, Some(3_002_394));
    }

    #[test]
    fn the_average_has_a_floor() {
        let mut class = half_of_100_megabit();
        for _ in 0..1000 {
            // On a wire without length.
            let _ = class.charge(5, 5, Bytes::new(1500));
        }
        // -240 a packet, decaying by a 32nd: down to where -7649 >> 5 is -240.
        assert_eq!(class.avgidle, -7649);
        assert_eq!(class.undertime, Some(5 + 240 + 31 * 7649 / 32));
        assert!(!class.is_pinned());
        // A packet longer than the longest.
        let _ = class.charge(5, 5, Bytes::new(9000));
        assert_eq!(class.avgidle, -7680);
        assert!(class.is_pinned());
    }

    #[test]
    fn two_seconds_make_a_class_as_good_as_new() {
        let mut class = half_of_100_megabit();
        for _ in 0..1000 {
            let _ = class.charge(5, 5, Bytes::new(1500));
        }
        assert!(class.charge(2_000_005, 2_000_005, Bytes::new(1500)));
        assert_eq!(class.avgidle, 2541);
    }

    /// At half of 1 Mb/s, a packet of 1250 bytes takes 10 ms on the link, and 10 ms more at the
    /// rate of the class: 16 packets at once, and 4 if it waits for longer. Of 1250 bytes, maxidle
    /// is 32 · 10,000 · 0.66193 for 16 and 32 · 10,000 · 0.13541 for 4.
    #[test]
    fn bursts_depend_on_the_wait() {
        let bounds = |bytes, maxburst, minburst| {
            let (class, link) = (rate(500_000), rate(1_000_000));
            Bounds::new(class, link, Bytes::new(bytes), maxburst, minburst)
        };
        assert_eq!(bounds(1250, None, 2).maxidle, 211_817);
        assert_eq!(bounds(1251, None, 2).maxidle, 43_366);
        assert_eq!(bounds(1250, Some(4), 2).maxidle, 43_331);
        // At least 1/32 of a packet, which a burst of none does not exceed.
        assert_eq!(bounds(1250, Some(0), 2).maxidle, 10_000);
        assert_eq!(bounds(1250, None, 2).minidle, -640_000);
        // The wait of 10 ms, and 32 times what n - 1 packets use up: 1/31 for one, and
        // (1 - g²)/g² = 63/961 for two. No more than maxburst.
        for (maxburst, minburst, offtime) in [
            (None, 0, 10_000),
            (None, 1, 10_000),
            (None, 2, 10_000 + 10_322),
            (None, 3, 10_000 + 20_978),
            (Some(2), 3, 10_000 + 10_322),
        ] {
            assert_eq!(
                bounds(1250, maxburst, minburst).offtime,
                offtime,
                "{maxburst:?} {minburst}"
            );
        }
    }

    /// A class of 8 kb/s, at which 1500 bytes take 1.5 s: after two seconds it begins from its
    /// maximum, which is 6.5 s scaled by 2⁵; a microsecond before, from its average.
    #[test]
    fn a_slow_class_is_as_good_as_new_after_two_seconds() {
        let bounds = Bounds::new(rate(8_000), rate(10_000_000), Bytes::new(1500), None, 2);
        let most = bounds.maxidle;
        assert!((6_400_000..6_600_000).contains(&most), "{most}");
        for (idle, average) in [(1_999_999, 499_999), (2_000_000, most)] {
            let mut class = Estimator { avgidle: 0, ..Estimator::new(rate(8_000), bounds) };
            assert!(class.charge(idle, idle, Bytes::new(1500)));
            assert_eq!((class.avgidle, class.last), (average, idle));
        }
    }

    /// An average of zero is over the limit, until the packet has been sent at the rate of the
    /// class: 1000 bytes at 50 Mb/s take 160 µs. One of 1 is within it.
    #[test]
    fn a_class_is_over_its_limit_from_an_average_of_zero_on() {
        for (idle, average, until) in [
            (160, 0, Some(1_160)),
            (161, 1, None),
            // -32 / 32 · 31 = 31 µs more.
            (128, -32, Some(1_160 + 31)),
        ] {
            let mut class = Estimator { avgidle: 0, last: 1_000 - idle, ..half_of_100_megabit() };
            assert_eq!(class.charge(1_000, 1_000, Bytes::new(1000)), until.is_none());
            assert_eq!((class.avgidle, class.undertime, class.packet_time), (average, until, 160));
            for now in [0, 1_159, 1_160, 1_190, 1_191] {
                assert_eq!(class.is_over(now), until.is_some_and(|until| now < until), "{now}");
            }
        }
    }

    /// The time of the last packet is replaced by the time off, if that is longer. A class that is
    /// forgiven is within its limit.
    #[test]
    fn a_class_is_put_off_by_hand() {
        for (undertime, offtime, wait, until) in [
            (Some(1_500), 260, 600, 1_600), // 100 more than the 160 of the packet
            (Some(1_500), 160, 500, 1_500),
            (Some(1_500), 100, 500, 1_500),
            (Some(900), 160, 0, 900), // over already
            (None, 261, 101, 1_101),
        ] {
            let mut class = Estimator { undertime, packet_time: 160, ..half_of_100_megabit() };
            assert_eq!(class.put_off(1_000, offtime), wait);
            assert_eq!(class.undertime, Some(until));
            class.forgive();
            assert!(!class.is_over(0));
        }
    }

    /// 1500 bytes at 1 Gb/s, and sizes that take no whole number of microseconds.
    #[test]
    fn times_are_rounded_down() {
        for (size, bps, micros) in [
            (1500, 1_000_000_000, 12),
            (1499, 1_000_000_000, 11),
            (124, 1_000_000_000, 0),
            (1, 1, 8_000_000),
        ] {
            assert_eq!(packet_time(Bytes::new(size), rate(bps)), micros);
        }
    }
}
