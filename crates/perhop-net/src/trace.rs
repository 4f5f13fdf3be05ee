//! Rates, delays and losses of a link that follow a trace.

use perhop_core::{Bytes, Duration, Time};

/// Bytes of a delivery opportunity of mahimahi: the longest packet.
const OPPORTUNITY: u64 = 1500;
/// Rate during a delivery opportunity, in bit/s: a byte in a picosecond, so that packets leave one
/// after the other, and all of them within 1.5 ns.
const IN_OPPORTUNITY: u64 = 8_000_000_000_000;
const MILLISECOND: u64 = 1_000_000_000;
const SECOND: u64 = 1_000_000_000_000;
/// Number of steps after which a binary search is faster.
const NEAR: usize = 8;

/// Values of a direction of a link from an instant of its trace on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// Begin of the step, since the begin of the trace.
    pub at: Duration,
    /// Rate in bit/s, layer-2 overhead included; zero while nothing is transmitted.
    pub rate: u64,
    /// Delay, jitter and loss, if the trace has them; those of the wire are replaced.
    pub medium: Option<TraceMedium>,
}

/// Delay, jitter and loss of a step; `None` leaves that of the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceMedium {
    /// Propagation delay.
    pub delay: Option<Duration>,
    /// Greatest additional delay.
    pub jitter: Option<Duration>,
    /// Share of packets lost at random, in parts per billion.
    pub loss: Option<u32>,
}

/// The rate of a direction of a link over time: steps, which begin at zero and may repeat.
///
/// Nothing is scheduled for a step: the end of each transmission is computed when it begins, and
/// steps that nothing is transmitted in are passed over.
#[derive(Clone, Debug)]
pub struct Trace {
    steps: Vec<TraceStep>,
    period: Option<Duration>,
    /// Bits of one period times picoseconds in a second; zero without a period.
    total: u128,
    /// Step of the last transmission's end, and the begin of its repetition, from which to go on.
    place: (usize, Time),
}

/// Error: a trace cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The first step does not begin at zero, or there is none.
    #[error("a trace begins at zero")]
    Begin,
    /// Steps are not in order, or the last one is not before the end of the period.
    #[error("the steps of a trace rise, up to its period")]
    Order,
    /// Nothing is ever transmitted, or nothing any more.
    #[error("a trace ends with a rate, or repeats a rate")]
    Silent,
}

impl Trace {
    /// Creates a trace of steps, the last of which lasts for ever, or up to `period`, after which
    /// the trace begins again.
    ///
    /// # Errors
    /// [`TraceError`] if the steps are not in order, or a packet could wait for ever.
    pub fn new(steps: Vec<TraceStep>, period: Option<Duration>) -> Result<Self, TraceError> {
        if steps.first().is_none_or(|step| step.at > Duration::ZERO) {
            return Err(TraceError::Begin);
        }
        let rises = steps.windows(2).all(|pair| pair[0].at < pair[1].at);
        let last = steps.last().expect("there is a first");
        if !rises || period.is_some_and(|period| period <= last.at) {
            return Err(TraceError::Order);
        }
        let silent = match period {
            Some(_) => steps.iter().all(|step| step.rate == 0),
            None => last.rate == 0,
        };
        if silent {
            return Err(TraceError::Silent);
        }
        let ends = steps[1..].iter().map(|step| step.at).chain(period);
        let bits = |(step, end): (&TraceStep, Duration)| {
            u128::from(step.rate) * u128::from((end - step.at).as_picos())
        };
        let total = if period.is_some() { steps.iter().zip(ends).map(bits).sum() } else { 0 };
        Ok(Self { steps, period, total, place: (0, Time::ZERO) })
    }

    /// Creates a trace of delivery opportunities, each for 1500 bytes at a millisecond, as the
    /// files of mahimahi (Netravali et al., *Mahimahi: Accurate Record-and-Replay for HTTP*, 2015)
    /// list them. The trace begins again at its last opportunity.
    ///
    /// As in mahimahi, bytes of an opportunity that no packet waits for are lost; a packet that is
    /// longer than what is left continues with the next opportunity; and a packet that arrives at
    /// the instant of an opportunity is too late for it.
    ///
    /// # Errors
    /// [`TraceError`] if the times are not in order, or none is above zero.
    pub fn opportunities(times_ms: &[u32]) -> Result<Self, TraceError> {
        if !times_ms.is_sorted() {
            return Err(TraceError::Order);
        }
        let last = times_ms.last().copied().filter(|&last| last > 0).ok_or(TraceError::Begin)?;
        let mut steps = vec![TraceStep { at: Duration::ZERO, rate: 0, medium: None }];
        let mut push = |at: u64, rate: u64| {
            let step = TraceStep { at: Duration::from_picos(at), rate, medium: None };
            match steps.last_mut() {
                Some(before) if before.at == step.at => *before = step,
                _ => steps.push(step),
            }
        };
        // Those at zero begin the next repetition, at the instant of the last.
        let first = times_ms.partition_point(|&at| at == 0);
        for together in times_ms[first..].chunk_by(|a, b| a == b) {
            let more = if together[0] == last { first } else { 0 };
            let end = u64::from(together[0]) * MILLISECOND;
            let length = (OPPORTUNITY * (together.len() + more) as u64).min(MILLISECOND);
            push(end - length, IN_OPPORTUNITY);
            if together[0] < last {
                push(end, 0);
            }
        }
        Self::new(steps, Some(Duration::from_picos(u64::from(last) * MILLISECOND)))
    }

    /// Returns `true` if the trace changes delay, jitter or loss.
    pub(crate) fn changes_medium(&self) -> bool {
        self.steps.iter().any(|step| step.medium.is_some())
    }

    /// Returns the end of a transmission of `size` that begins at `begins` when nothing else is
    /// transmitted, and the medium at its end.
    pub(crate) fn transmit(&mut self, begins: Time, size: Bytes) -> (Time, Option<TraceMedium>) {
        let mut place = self.seek(begins);
        // Bits times picoseconds in a second, so that a rate times picoseconds needs no rounding.
        let mut left = size.get() * 8 * SECOND;
        let mut now = begins;
        if let Some(period) = self.period
            && u128::from(left) > self.total
        {
            // Whole periods, which may be many, from any instant on.
            let periods = (u128::from(left) - 1) / self.total;
            left -= (periods * self.total) as u64;
            let skipped = periods.saturating_mul(period.as_picos().into());
            let skipped = Duration::from_picos(skipped.try_into().unwrap_or(u64::MAX));
            now += skipped;
            place.1 += skipped;
        }
        loop {
            let (step, end) = (self.steps[place.0], self.end(place));
            let room = step.rate.saturating_mul(end.since(now).as_picos());
            if left <= room {
                self.place = place;
                return (now + Duration::from_picos(left.div_ceil(step.rate)), step.medium);
            }
            if end == Time::MAX {
                return (end, step.medium); // not before the end of time
            }
            left -= room;
            now = end;
            place = self.after(place);
        }
    }

    /// Returns the first instant, from `now` on, at which something is transmitted.
    pub(crate) fn transmits_from(&self, now: Time) -> Time {
        let (mut now, mut place) = (now, self.find(now));
        while self.steps[place.0].rate == 0 && now < Time::MAX {
            now = self.end(place);
            place = self.after(place);
        }
        now
    }

    /// Returns the number of bytes that can be transmitted from `from` to `to`.
    pub fn capacity(&self, from: Time, to: Time) -> f64 {
        let (mut now, mut bits) = (from, 0.0);
        if let Some(period) = self.period {
            let periods = to.since(from).as_picos() / period.as_picos();
            now += Duration::from_picos(periods * period.as_picos());
            bits += periods as f64 * (self.total as f64 / SECOND as f64);
        }
        let mut place = self.find(now);
        while now < to {
            let end = self.end(place).min(to);
            bits += self.steps[place.0].rate as f64 * end.since(now).as_secs_f64();
            now = end;
            place = self.after(place);
        }
        bits / 8.0
    }

    /// Returns the end of a step: its number, and the begin of its repetition.
    fn end(&self, (step, begin): (usize, Time)) -> Time {
        match (self.steps.get(step + 1), self.period) {
            (Some(next), _) => begin + next.at,
            (None, Some(period)) => begin + period,
            (None, None) => Time::MAX,
        }
    }

    /// Returns the step after one that ends.
    fn after(&self, place: (usize, Time)) -> (usize, Time) {
        if place.0 + 1 < self.steps.len() { (place.0 + 1, place.1) } else { (0, self.end(place)) }
    }

    /// Returns the step at `now`, from the last one if that is near.
    fn seek(&self, now: Time) -> (usize, Time) {
        let mut place = self.place;
        if now < place.1 + self.steps[place.0].at {
            return self.find(now);
        }
        for _ in 0..NEAR {
            if now < self.end(place) {
                return place;
            }
            place = self.after(place);
        }
        self.find(now)
    }

    /// Returns the step at `now`.
    fn find(&self, now: Time) -> (usize, Time) {
        let begin = match self.period {
            Some(period) => now.as_picos() / period.as_picos() * period.as_picos(),
            None => 0,
        };
        let since = Duration::from_picos(now.as_picos() - begin);
        let step = self.steps.partition_point(|step| step.at <= since) - 1;
        (step, Time::from_picos(begin))
    }
}

#[cfg(test)]
mod tests;
