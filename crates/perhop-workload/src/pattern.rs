//! When datagrams go out, and how large they are.

use perhop_core::{Duration, Rate, Stream};

/// A pattern of traffic.
#[derive(Debug)]
pub enum Pattern {
    /// Drawn at random, or always the same.
    Drawn(Drawn),
    /// As somebody wrote it down.
    Replay(Replay),
}

impl Pattern {
    /// How long after the start the first datagram goes out; [`Duration::MAX`] for never.
    pub fn first(&mut self) -> Duration {
        match self {
            Self::Drawn(drawn) => drawn.first(),
            Self::Replay(replay) => replay.packets.first().map_or(Duration::MAX, |packet| packet.0),
        }
    }

    /// Returns the payload in bytes of the datagram that is due, and how long after it the next one
    /// is; [`Duration::MAX`] for never.
    #[inline]
    pub fn next_datagram(&mut self) -> (u16, Duration) {
        match self {
            Self::Drawn(drawn) => (drawn.payload(), drawn.gap()),
            Self::Replay(replay) => replay.next(),
        }
    }
}

/// Gaps and payloads from a list.
#[derive(Debug)]
pub struct Replay {
    /// The time before each, and its payload.
    pub packets: Vec<(Duration, u16)>,
    /// True if the list begins anew behind its end.
    pub repeat: bool,
    /// Which one is due.
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

/// Gaps, sizes and pauses, independently of each other.
#[derive(Debug)]
pub struct Drawn {
    pub gaps: Gaps,
    pub sizes: Sizes,
    /// When it pauses, if it does.
    pub bursts: Option<Bursts>,
}

impl Drawn {
    /// At once where datagrams come at regular times, or else after a gap, as between any two.
    fn first(&mut self) -> Duration {
        match self.gaps {
            Gaps::Even(_) => Duration::ZERO,
            Gaps::Exponential { .. } => self.gap(),
        }
    }

    /// Returns the time from one datagram to the next: the gap, and every pause in it.
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
            Sizes::Exponential { mean, header, random } => {
                let size = (*mean * random.exponential() + 0.5) as u64;
                let most = u64::from(MAX_PAYLOAD);
                size.saturating_sub((*header).into()).clamp(1, most) as u16
            }
        }
    }
}

/// The largest payload that an IPv4 packet holds behind its header and UDP's.
pub const MAX_PAYLOAD: u16 = u16::MAX - 28;

/// Returns a mean in picoseconds times a number, rounded; saturates.
fn scaled(mean: f64, factor: f64) -> Duration {
    Duration::from_picos((mean * factor + 0.5) as u64)
}

/// The times between datagrams.
#[derive(Debug)]
pub enum Gaps {
    /// Always the same.
    Even(Pace),
    /// Exponentially distributed, which makes a Poisson process.
    Exponential {
        /// In picoseconds.
        mean: f64,
        random: Stream,
    },
}

/// Bursts and pauses in turn. The clock by which datagrams are due stands still in a pause, so that
/// the mean rate is the rate in bursts times their share of the time, whatever the gaps are.
#[derive(Debug)]
pub struct Bursts {
    /// The mean length of bursts and of pauses, in picoseconds.
    on: f64,
    off: f64,
    lengths: Lengths,
    random: Stream,
    /// What is left of the present burst.
    left: Duration,
}

/// How the lengths of bursts and pauses are distributed.
#[derive(Clone, Copy, Debug)]
pub enum Lengths {
    /// Always the mean.
    Constant,
    /// Exponentially.
    Exponential,
    /// By Pareto, with this shape. Many such sources together are self-similar (Willinger, Taqqu,
    /// Sherman and Wilson, 1997).
    Pareto(f64),
}

impl Bursts {
    /// Begins with a burst.
    pub fn new(on: Duration, off: Duration, lengths: Lengths, random: Stream) -> Self {
        let [on, off] = [on, off].map(|mean| mean.as_picos() as f64);
        let mut bursts = Self { on, off, lengths, random, left: Duration::ZERO };
        bursts.left = bursts.draw(on);
        bursts
    }

    fn draw(&mut self, mean: f64) -> Duration {
        match self.lengths {
            Lengths::Constant => scaled(mean, 1.0),
            Lengths::Exponential => scaled(mean, self.random.exponential()),
            Lengths::Pareto(shape) => scaled(mean, self.random.pareto(shape)),
        }
    }

    /// How long it is until so much time of bursts has passed. What is due as a burst ends begins
    /// the next one.
    fn stretch(&mut self, gap: Duration) -> Duration {
        let (mut to_go, mut whole) = (gap, gap);
        while to_go >= self.left {
            to_go = to_go - self.left;
            whole += self.draw(self.off);
            self.left = self.draw(self.on);
        }
        self.left = self.left - to_go;
        whole
    }
}

/// The sizes of datagrams.
#[derive(Debug)]
pub enum Sizes {
    /// Payloads of so many bytes.
    Constant(u16),
    /// Sizes of `mean` bytes, of which `header` are none of the payload: exponentially distributed,
    /// rounded to whole bytes, and cut at what a datagram holds.
    Exponential { mean: f64, header: u16, random: Stream },
}

/// A regular time between datagrams, with the fraction of a picosecond that is carried over so that
/// rounding never adds up.
#[derive(Debug)]
pub struct Pace {
    gap: Duration,
    /// What `gap` leaves out, in units of 1 ps / `rate`.
    remainder: u64,
    rate: u64,
    carried: u64,
}

impl Pace {
    /// One datagram of `size` bytes after the other at `rate`.
    pub fn new(size: u16, rate: Rate) -> Self {
        // 2¹⁶ bytes are 2¹⁹ · 10¹² picobits, which a u64 holds.
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

    /// When the first datagrams go out: one a millisecond, in bursts of `on` and pauses of 7 ms.
    fn instants(on: Duration, lengths: Lengths, count: usize) -> Vec<Duration> {
        let bursts = Bursts::new(on, Duration::from_millis(7), lengths, Stream::new(1, "bursts"));
        let mut pattern = Drawn {
            gaps: Gaps::Even(Pace::new(1, Rate::new(8_000).unwrap())),
            sizes: Sizes::Constant(1),
            bursts: Some(bursts),
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
        // What is left of a gap is waited for in the next burst.
        let instants = self::instants(Duration::from_micros(2_500), Lengths::Constant, 7);
        let expected = [0, 1_000, 2_000, 10_000, 11_000, 19_000, 20_000].map(Duration::from_micros);
        assert_eq!(instants, expected);
    }

    #[test]
    fn the_mean_rate_is_the_bursts_share() {
        for lengths in [Lengths::Constant, Lengths::Exponential, Lengths::Pareto(2.5)] {
            let last = *instants(Duration::from_millis(3), lengths, 300_001).last().unwrap();
            // 300,000 gaps of 1 ms in 30% of the time. The lengths of some 100,000 bursts and
            // pauses vary by 0.9 of their mean at most, which makes 0.3% of their sum.
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
        };
        (0..100_000).map(|_| pattern.payload()).collect()
    }

    #[test]
    fn sizes_have_the_mean_asked_for() {
        for (mean, header) in [(1000.0, 0), (1000.0, 28), (5000.0, 28)] {
            let sizes = drawn(mean, header);
            let sum: f64 = sizes.iter().map(|&size| f64::from(size + header)).sum();
            // What is too small for its header is made larger: by mean · e⁻ʰ − mean + h on average,
            // h = (header + 1) / mean in units of the mean. Five standard deviations.
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
}
