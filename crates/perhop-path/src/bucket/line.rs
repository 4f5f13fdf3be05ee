//! Intervals of the rate and burst of a token bucket, from one train.

use super::{Bucket, Kind, LEAST, Sent};
use crate::capacity::lower_slope;
use crate::statistics::{Estimate, quantile};

/// Greatest difference of the rates of two hosts' clocks.
const DRIFT: f64 = 200e-6;
/// Share by which the rate may differ from its first estimate.
const AROUND: f64 = 0.05;
/// Pauses of the greatest length that a train may have.
const PAUSES: f64 = 3.0;
/// Greatest half width of a rate's interval, as a share.
const TRUSTED: f64 = 0.01;
/// Steps of the searches over rates.
const STEPS: usize = 40;
/// Rates beside the best one that are tried, at least and at most.
const MARGIN: usize = 10;
const MOST_STEPS: usize = 1000;

/// Rate in bit/s and burst in bytes of a token bucket, each with an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Rate.
    pub bps: Estimate,
    /// Burst.
    pub burst: Estimate,
}

impl Line {
    /// Returns what two trains have in common; `None` if they contradict each other.
    pub fn and(self, other: Self) -> Option<Self> {
        Some(Self { bps: self.bps.and(other.bps)?, burst: self.burst.and(other.burst)? })
    }
}

/// A packet that passed.
#[derive(Clone, Copy)]
struct Passed {
    /// Number of packets that passed before it.
    number: f64,
    /// Earliest and latest time at which the bucket can have got it, by the sender's clock and less
    /// the shortest delay.
    low: f64,
    high: f64,
}

/// Returns the rate and burst of the token bucket that a train has exceeded, with intervals that
/// contain them wherever the sender, the network and the receiver have delayed packets. `None` if
/// no bucket explains the train: it was disturbed, or packets were lost elsewhere.
///
/// The train begins with packets at so low a rate that they neither wait nor empty the bucket: they
/// tell the shortest delay. `rough` is the bucket that [`super::find`] found of the rest.
pub fn line(train: &[Sent], bytes: f64, rough: &Bucket) -> Option<Line> {
    match rough.kind {
        Kind::Policer => policer(train, bytes, rough),
        Kind::Shaper => shaper(train, bytes, rough),
    }
}

/// A packet reached the policer after it was sent, and before it could have arrived later than it
/// did. For all packets j and k that passed, and those between them, `bytes <= burst + rate · t`;
/// of a packet k that was dropped there is a j for which it would have been more.
fn policer(train: &[Sent], bytes: f64, rough: &Bucket) -> Option<Line> {
    let passed = within(train)?;
    let drops: Vec<(usize, f64)> = {
        let mut before = 0;
        let drops = train.iter().filter_map(|one| match one.arrived {
            Some(_) => {
                before += 1;
                None
            }
            None => Some((before, one.sent)),
        });
        drops.collect()
    };
    // The least and the greatest burst in bytes with which a rate in bytes/s explains the train.
    let low = |rate: f64| {
        let (mut most, mut earlier) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        for one in &passed {
            earlier = f64::max(earlier, rate * one.low - bytes * one.number);
            most = f64::max(most, bytes * (one.number + 1.0) - rate * one.high + earlier);
        }
        most
    };
    let high = |rate: f64| {
        let (mut least, mut earlier, mut next) = (f64::INFINITY, f64::NEG_INFINITY, 0);
        for &(before, sent) in &drops {
            for one in &passed[next..before] {
                earlier = f64::max(earlier, rate * one.high - bytes * one.number);
            }
            next = before;
            least = f64::min(least, bytes * (before as f64 + 1.0) - rate * sent + earlier);
        }
        least
    };
    let slack = |rate: f64| high(rate) - low(rate);
    let about = rough.bps / 8.0;
    let (mut from, mut to) = (about * (1.0 - AROUND), about * (1.0 + AROUND));
    for _ in 0..STEPS {
        let (a, b) = (from + (to - from) / 3.0, to - (to - from) / 3.0);
        if slack(a) < slack(b) { from = a } else { to = b }
    }
    let best = f64::midpoint(from, to);
    // Rates that explain the train need not be neighbours if packets were late. They are as far
    // from each other as the greatest lateness allows; each explains it within a packet's length.
    let duration = train.last()?.sent - train.first()?.sent;
    let late = passed.iter().map(|one| one.high - one.low).fold(0.0, f64::max);
    let step = bytes / duration / 2.0;
    let steps = (PAUSES * best * late / duration / step).ceil() as usize + MARGIN;
    if duration <= 0.0 || steps > MOST_STEPS {
        return None;
    }
    let explains =
        |side: f64| (0..=steps).rev().find(|&n| slack(best + side * n as f64 * step) >= 0.0);
    let edge = |side: f64| {
        let outermost = explains(side).or_else(|| explains(-side).map(|_| 0))?;
        let mut inside = best + side * outermost as f64 * step;
        let mut outside = inside + side * step;
        for _ in 0..STEPS {
            let middle = f64::midpoint(inside, outside);
            if slack(middle) < 0.0 { outside = middle } else { inside = middle }
        }
        (outermost < steps).then_some(inside)
    };
    let (slowest, fastest) = (edge(-1.0)?, edge(1.0)?);
    let bursts = (low(fastest).max(bytes), high(slowest));
    let bps = between(8.0 * slowest, 8.0 * fastest);
    // A train as disturbed as this may have more explanations than were tried.
    (bps.uncertainty() <= TRUSTED)
        .then(|| Line { bps, burst: between(bursts.0, bursts.1.max(bursts.0)) })
}

/// From the first packet that waits, the last of n packets leaves a shaper when
/// `n · bytes = burst + rate · t`.
fn shaper(train: &[Sent], bytes: f64, rough: &Bucket) -> Option<Line> {
    let passed = within(train)?;
    let spacing = 8.0 * bytes / rough.bps;
    let waits: Vec<Passed> = passed[passed.len() / 2..].to_vec();
    // A queue that runs empty fills the bucket again.
    if waits.len() < 3 * LEAST || waits.iter().any(|one| one.high - one.low < spacing) {
        return None;
    }
    let point = |one: &Passed| (bytes * (one.number + 1.0), one.high);
    let points: Vec<(f64, f64)> = waits.iter().map(point).collect();
    let part = points.len() * 2 / 3;
    let slopes = [
        lower_slope(&points)?,
        lower_slope(&points[..part])?,
        lower_slope(&points[points.len() - part..])?,
    ];
    // The bucket was last full at the packet for which this is greatest.
    let full = |rate: f64, at: fn(&Passed) -> f64| {
        let all = passed.iter().map(|one| rate * at(one) - bytes * one.number);
        all.fold(f64::NEG_INFINITY, f64::max)
    };
    let (mut bps, mut burst) = (Vec::new(), Vec::new());
    for slope in slopes {
        let line = |&(done, at): &(f64, f64)| done - at / slope;
        let mut lines: Vec<f64> = points.iter().map(line).collect();
        lines.sort_by(f64::total_cmp);
        let most = lines.last()?;
        // Packets are typically as late as this after they leave the shaper.
        let late = most - quantile(&lines, 0.5);
        bps.push(8.0 / slope);
        let rate = 1.0 / slope;
        burst.push(most + full(rate, |one| one.low) - late);
        burst.push(most + full(rate, |one| one.high) + late);
    }
    let ends = |all: &[f64]| {
        let fold = |by: fn(f64, f64) -> f64| all.iter().copied().reduce(by);
        Some((fold(f64::min)?, fold(f64::max)?))
    };
    let (bps, burst) = (ends(&bps)?, ends(&burst)?);
    // A bucket holds a packet at least.
    Some(Line {
        bps: between(bps.0, bps.1),
        burst: between(burst.0.max(bytes), burst.1.max(bytes)),
    })
}

fn between(low: f64, high: f64) -> Estimate {
    Estimate { value: f64::midpoint(low, high), low, high }
}

/// Returns the packets that passed, with the times between which they did.
fn within(train: &[Sent]) -> Option<Vec<Passed>> {
    let delays: Vec<(f64, f64)> =
        train.iter().filter_map(|one| Some((one.sent, one.arrived? - one.sent))).collect();
    // The clocks drift by at most so much; more is a queue.
    let drift = lower_slope(&delays)?;
    let drift = if drift.abs() > DRIFT { 0.0 } else { drift };
    let least = delays.iter().map(|&(sent, delay)| delay - drift * sent).reduce(f64::min)?;
    let passed = delays.iter().enumerate().map(|(number, &(sent, delay))| Passed {
        number: number as f64,
        low: sent,
        high: sent + delay - drift * sent - least,
    });
    let mut passed: Vec<Passed> = passed.collect();
    // Packets keep their order.
    let mut latest = f64::INFINITY;
    for one in passed.iter_mut().rev() {
        latest = latest.min(one.high);
        one.high = latest;
    }
    Some(passed)
}
