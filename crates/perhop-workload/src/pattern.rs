//! Patterns of datagrams: transmission times and sizes.

use perhop_core::{Duration, Rate, Stream};

/// A pattern of traffic.
#[derive(Debug)]
pub enum Pattern {
    /// Times and sizes that are constant or drawn at random.
    Drawn(Drawn),
    /// Times and sizes from a list.
    Replay(Replay),
    /// Times and sizes with extreme value distributions.
    Extreme(Box<Extreme>),
}

impl Pattern {
    /// Returns the time from the start to the first datagram; [`Duration::MAX`] for never.
    pub fn first(&mut self) -> Duration {
        match self {
            Self::Drawn(drawn) => drawn.first(),
            Self::Replay(replay) => replay.packets.first().map_or(Duration::MAX, |packet| packet.0),
            Self::Extreme(extreme) => extreme.start,
        }
    }

    /// Returns the payload of the next datagram, in bytes, and the time from it to the one after;
    /// [`Duration::MAX`] for never.
    #[inline]
    pub fn next_datagram(&mut self) -> (u16, Duration) {
        match self {
            Self::Drawn(drawn) => (drawn.payload(), drawn.gap()),
            Self::Replay(replay) => replay.next(),
            Self::Extreme(extreme) => (extreme.payload(), extreme.gap()),
        }
    }
}

/// Independent times and sizes with largest extreme value distributions.
#[derive(Debug)]
pub struct Extreme {
    /// Time before the first datagram.
    pub start: Duration,
    /// Location and scale of the times between datagrams, in picoseconds.
    pub gap: [f64; 2],
    /// Location and scale of the payloads, in bytes.
    pub size: [f64; 2],
    pub random: Stream,
}

impl Extreme {
    /// Draws a value of the distribution with this location and scale.
    fn draw(&mut self, [location, scale]: [f64; 2]) -> f64 {
        if scale == 0.0 {
            return location;
        }
        location + scale * self.random.extreme()
    }

    fn gap(&mut self) -> Duration {
        Duration::from_picos((self.draw(self.gap) + 0.5) as u64).max(Duration::from_picos(1))
    }

    /// Draws a payload, rounded down to whole bytes, as the source of the model does.
    fn payload(&mut self) -> u16 {
        (self.draw(self.size) as u64).clamp(1, MAX_PAYLOAD.into()) as u16
    }
}

/// Times and payloads from a list.
#[derive(Debug)]
pub struct Replay {
    /// Time before each datagram, and its payload in bytes.
    pub packets: Vec<(Duration, u16)>,
    /// True if the list is repeated.
    pub repeat: bool,
    /// Index of the next datagram.
    pub at: usize,
}

impl Replay {
    fn next(&mut self) -> (u16, Duration) {
        let payload = self.packets[self.at].1;
        self.at += 1;
        if self.at == self.packets.len() && self.repeat {
            self.at = 0;
        }
        (payload, self.packets.get(self.at).map_or(Duration::MAX, |packet| packet.0))
    }
}

/// Independent times, sizes and pauses.
#[derive(Debug)]
pub struct Drawn {
    pub gaps: Gaps,
    pub sizes: Sizes,
    /// Bursts and pauses, if any.
    pub bursts: Option<Bursts>,
    /// Time before the first datagram, if they are sent at regular times.
    pub start: Duration,
}

impl Drawn {
    /// Returns the start if datagrams are sent at regular times, and a gap otherwise. A pause at
    /// the start comes before.
    fn first(&mut self) -> Duration {
        match self.gaps {
            Gaps::Even(_) => {
                let pause = self.bursts.as_mut().map_or(Duration::ZERO, Bursts::first_pause);
                pause + self.start
            }
            Gaps::Exponential { .. } => self.gap(),
        }
    }

    /// Returns the time from one datagram to the next: the gap, and all pauses in it.
    #[inline]
    fn gap(&mut self) -> Duration {
        let gap = match &mut self.gaps {
            Gaps::Even(pace) => pace.next(),
            Gaps::Exponential { mean, random } => scaled(*mean, random.exponential()),
        };
        match &mut self.bursts {
            None => gap,
            Some(bursts) => bursts.stretch(gap),
        }
    }

    #[inline]
    fn payload(&mut self) -> u16 {
        match &mut self.sizes {
            Sizes::Constant(payload) => *payload,
            Sizes::Mix(mix) => mix.draw(),
            Sizes::Exponential { mean, header, random } => {
                let size = (*mean * random.exponential() + 0.5) as u64;
                let most = u64::from(MAX_PAYLOAD);
                size.saturating_sub((*header).into()).clamp(1, most) as u16
            }
        }
    }
}

/// Largest payload of a UDP datagram over IPv4, in bytes.
pub const MAX_PAYLOAD: u16 = u16::MAX - 28;

/// Returns a mean in picoseconds multiplied by a number, rounded; saturates.
fn scaled(mean: f64, factor: f64) -> Duration {
    Duration::from_picos((mean * factor + 0.5) as u64)
}

/// Times between datagrams.
#[derive(Debug)]
pub enum Gaps {
    /// Constant.
    Even(Pace),
    /// Exponentially distributed: a Poisson process.
    Exponential {
        /// Mean, in picoseconds.
        mean: f64,
        random: Stream,
    },
}

/// Alternating bursts and pauses. The clock for datagrams stops in a pause, so that the mean rate
/// is the rate in bursts times their share of the time, whatever the distribution of the gaps.
#[derive(Debug)]
pub struct Bursts {
    /// Mean length of bursts and of pauses, in picoseconds.
    on: f64,
    off: f64,
    lengths: Lengths,
    random: Stream,
    /// Rest of the present burst.
    left: Duration,
    /// Pause before the first burst.
    pause: Duration,
}

/// Distribution of the lengths of bursts and pauses.
#[derive(Clone, Copy, Debug)]
pub enum Lengths {
    /// Constant.
    Constant,
    /// Exponential.
    Exponential,
    /// Pareto, with this shape. The sum of many such sources is self-similar (Willinger, Taqqu,
    /// Sherman and Wilson, 1997).
    Pareto(f64),
}

impl Bursts {
    /// Creates bursts and pauses that begin with a burst.
    pub fn new(on: Duration, off: Duration, lengths: Lengths, random: Stream) -> Self {
        let [on, off] = [on, off].map(|mean| mean.as_picos() as f64);
        let mut bursts =
            Self { on, off, lengths, random, left: Duration::ZERO, pause: Duration::ZERO };
        bursts.left = bursts.draw(on);
        bursts
    }

    /// Creates bursts and pauses of a stationary process: it begins in a burst with the probability
    /// of the bursts' share of the time, and the rest of that burst or pause has the distribution
    /// of the residual life of a renewal process, whose density at x is P(length > x) / mean.
    pub fn stationary(on: Duration, off: Duration, lengths: Lengths, random: Stream) -> Self {
        let mut bursts = Self::new(on, off, lengths, random);
        if bursts.random.unit() * (bursts.on + bursts.off) < bursts.on {
            bursts.left = bursts.residual(bursts.on);
        } else {
            bursts.pause = bursts.residual(bursts.off);
        }
        bursts
    }

    fn residual(&mut self, mean: f64) -> Duration {
        match self.lengths {
            Lengths::Constant => scaled(mean, self.random.unit()),
            Lengths::Exponential => scaled(mean, self.random.exponential()),
            Lengths::Pareto(shape) => scaled(mean, self.random.pareto_residual(shape)),
        }
    }

    /// Takes the pause before the first burst.
    fn first_pause(&mut self) -> Duration {
        std::mem::take(&mut self.pause)
    }

    fn draw(&mut self, mean: f64) -> Duration {
        match self.lengths {
            Lengths::Constant => scaled(mean, 1.0),
            Lengths::Exponential => scaled(mean, self.random.exponential()),
            Lengths::Pareto(shape) => scaled(mean, self.random.pareto(shape)),
        }
    }

    /// Returns the time until `gap` of burst time has passed. A datagram that is due at the end of
    /// a burst begins the next one.
    fn stretch(&mut self, gap: Duration) -> Duration {
        let (mut to_go, mut whole) = (gap, gap + self.first_pause());
        while to_go >= self.left {
            to_go = to_go - self.left;
            whole += self.draw(self.off);
            self.left = self.draw(self.on);
        }
        self.left = self.left - to_go;
        whole
    }
}

/// Sizes of datagrams.
#[derive(Debug)]
pub enum Sizes {
    /// Constant payload, in bytes.
    Constant(u16),
    /// Sizes with a mean of `mean` bytes, which include `header` bytes of headers: exponentially
    /// distributed, rounded to whole bytes, and limited to the largest datagram.
    Exponential { mean: f64, header: u16, random: Stream },
    /// One of a few payloads.
    Mix(Mix),
}

/// A few payloads, each with a probability in proportion to its weight.
#[derive(Debug)]
pub struct Mix {
    /// Payloads in bytes, with the sum of the weights up to them.
    sizes: Vec<(u16, u64)>,
    random: Stream,
}

impl Mix {
    /// Creates a mix of payloads in bytes with weights; `None` if the sum of weights is zero.
    pub fn new(sizes: Vec<(u16, u32)>, random: Stream) -> Option<Self> {
        let mut sum = 0;
        let until = |(payload, weight)| {
            sum += u64::from(weight);
            (payload, sum)
        };
        let sizes: Vec<_> = sizes.into_iter().map(until).collect();
        (sum > 0).then_some(Self { sizes, random })
    }

    fn draw(&mut self) -> u16 {
        let sum = self.sizes.last().map_or(1, |last| last.1);
        let drawn = self.random.up_to(sum - 1);
        self.sizes[self.sizes.partition_point(|&(_, until)| until <= drawn)].0
    }
}

/// A regular time between datagrams. The fraction of a picosecond is carried over, so that rounding
/// errors do not add up.
#[derive(Debug)]
pub struct Pace {
    gap: Duration,
    /// Fraction that `gap` omits, in units of 1 ps / `rate`.
    remainder: u64,
    rate: u64,
    carried: u64,
}

impl Pace {
    /// Creates the pace of datagrams of `size` bytes, sent back to back at `rate`.
    pub fn new(size: u16, rate: Rate) -> Self {
        // 2¹⁶ bytes are 2¹⁹ · 10¹² picobits, which fit into a u64.
        let picobits = u64::from(size) * 8_000_000_000_000;
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

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_core::{Bytes, Time};

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

    /// Returns the times of the first datagrams: one per millisecond, in bursts of `on` and pauses
    /// of 7 ms.
    fn instants(on: Duration, lengths: Lengths, count: usize) -> Vec<Duration> {
        let bursts = Bursts::new(on, Duration::from_millis(7), lengths, Stream::new(1, "bursts"));
        let mut pattern = Drawn {
            gaps: Gaps::Even(Pace::new(1, Rate::new(8_000).unwrap())),
            sizes: Sizes::Constant(1),
            bursts: Some(bursts),
            start: Duration::ZERO,
        };
        let mut at = pattern.first();
        let mut instants = Vec::new();
        while instants.len() < count {
            instants.push(at);
            at += pattern.gap();
        }
        instants
    }

    #[test]
    fn a_burst_has_what_fits_in_it_and_a_pause_nothing() {
        let instants = instants(Duration::from_millis(3), Lengths::Constant, 7);
        let expected = [0, 1, 2, 10, 11, 12, 20].map(Duration::from_millis);
        assert_eq!(instants, expected);
        // The rest of a gap passes in the next burst.
        let instants = self::instants(Duration::from_micros(2_500), Lengths::Constant, 7);
        let expected = [0, 1_000, 2_000, 10_000, 11_000, 19_000, 20_000].map(Duration::from_micros);
        assert_eq!(instants, expected);
    }

    #[test]
    fn the_mean_rate_is_the_bursts_share() {
        for lengths in [Lengths::Constant, Lengths::Exponential, Lengths::Pareto(2.5)] {
            let last = *instants(Duration::from_millis(3), lengths, 300_001).last().unwrap();
            // 300,000 gaps of 1 ms in 30% of the time. The lengths of some 100,000 bursts and
            // pauses have a coefficient of variation of at most 0.9, so that their sum varies by
            // 0.3%.
            let share = 300.0 / last.as_secs_f64();
            assert!((share / 0.3 - 1.0).abs() < 0.015, "{share} with {lengths:?}");
        }
    }

    #[test]
    fn a_replay_ends_or_begins_anew() {
        let packets = [(3, 100), (0, 200), (4, 300)];
        let packets: Vec<_> =
            packets.map(|(gap, payload)| (Duration::from_millis(gap), payload)).into();
        for repeat in [false, true] {
            let replay = Replay { packets: packets.clone(), repeat, at: 0 };
            let mut pattern = Pattern::Replay(replay);
            let mut at = Time::ZERO + pattern.first();
            let mut sent = Vec::new();
            while sent.len() < 5 && at < Time::MAX {
                let (payload, gap) = pattern.next_datagram();
                sent.push((at.as_picos() / 1_000_000_000, payload));
                at += gap;
            }
            let expected = [(3, 100), (3, 200), (7, 300), (10, 100), (10, 200)];
            assert_eq!(sent, expected[..if repeat { 5 } else { 3 }]);
        }
    }

    fn drawn(mean: f64, header: u16) -> Vec<u16> {
        let random = Stream::new(1, "sizes");
        let mut pattern = Drawn {
            gaps: Gaps::Even(Pace::new(1, Rate::new(1).unwrap())),
            sizes: Sizes::Exponential { mean, header, random },
            bursts: None,
            start: Duration::ZERO,
        };
        (0..100_000).map(|_| pattern.payload()).collect()
    }

    #[test]
    fn sizes_have_the_mean_asked_for() {
        for (mean, header) in [(1000.0, 0), (1000.0, 28), (5000.0, 28)] {
            let sizes = drawn(mean, header);
            let sum: f64 = sizes.iter().map(|&size| f64::from(size + header)).sum();
            // Sizes below that of the header are increased: by mean · e⁻ʰ − mean + h on average, h
            // = (header + 1) / mean in units of the mean. Five standard deviations.
            let least = f64::from(header) + 1.0;
            let more = least - mean * (1.0 - (-least / mean).exp());
            let error = sum / 1e5 - mean - more;
            assert!(error.abs() < 5.0 * mean / 1e5_f64.sqrt(), "{error} at {mean}");
        }
    }

    #[test]
    fn sizes_fit_a_packet() {
        assert!(drawn(65_507.0, 0).into_iter().all(|size| (1..=MAX_PAYLOAD).contains(&size)));
        assert!(drawn(29.0, 28).contains(&1));
    }

    #[test]
    fn extreme_values_have_the_mean_of_the_distribution() {
        let random = Stream::new(1, "extreme");
        let (gap, size) = ([55e9, 6e9], [120.0, 36.0]);
        let mut pattern = Pattern::Extreme(Box::new(Extreme {
            start: Duration::from_millis(7),
            gap,
            size,
            random,
        }));
        assert_eq!(pattern.first(), Duration::from_millis(7));
        let (mut bytes, mut time) = (0.0, 0.0);
        for _ in 0..100_000 {
            let (payload, gap) = pattern.next_datagram();
            bytes += f64::from(payload) / 1e5;
            time += gap.as_picos() as f64 / 1e5;
        }
        // The mean is the location plus Euler's constant times the scale, the standard deviation
        // 1.28 times the scale. Sizes are rounded down, which takes half a byte. Five standard
        // errors.
        let mean = |[location, scale]: [f64; 2]| location + 0.577_215_66 * scale;
        assert!((time - mean(gap)).abs() < 5.0 * 1.28 * gap[1] / 1e5_f64.sqrt(), "{time}");
        assert!((bytes + 0.5 - mean(size)).abs() < 5.0 * 1.28 * 36.0 / 1e5_f64.sqrt(), "{bytes}");
    }
}
