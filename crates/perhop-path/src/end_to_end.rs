//! Policers and shapers on the path to a responder.

use perhop_core::TrafficClass;
use perhop_socket::{Nanos, monotonic, sleep_until};
use serde::Serialize;

use crate::bucket::{Bucket, Kind, Line, Sent, find, line};
use crate::capacity::lower_slope;
use crate::hops::Mark;
use crate::prober::{GoOn, ProbeError};
use crate::sender::{EndToEndSettings, LEAD, MOST_PPS, Sender, Train, by_mark};
use crate::statistics::Estimate;

/// Findings of the trains of one mark.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EndToEnd {
    /// Mark that they were sent with.
    pub sent: Mark,
    /// Rate of the narrowest link in bit/s of IP packets, as the responder received a short train;
    /// `None` behind a policer.
    pub narrow_bps: Option<f64>,
    /// Token bucket that the trains have exceeded; `None` if they have not exceeded any.
    pub bucket: Option<EndToEndBucket>,
    /// Rate in bit/s and bytes of the longest train.
    pub train_bps: f64,
    /// Bytes of that train: a greater bucket is not found. 0 if nothing was measured: no packet
    /// arrived, or no more bytes may be sent.
    pub train_bytes: u64,
}

/// A token bucket on the path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EndToEndBucket {
    /// Its kind.
    pub kind: Kind,
    /// Its rate in bit/s of IP packets; `None` if that is not known within 2%.
    pub bps: Option<Estimate>,
    /// Its burst in bytes; `None` if that is not known within 10%.
    pub burst: Option<Estimate>,
    /// Trains by which it was measured.
    pub trains: usize,
    /// True if trains contradicted the model of a token bucket or each other.
    pub disturbed: bool,
}

/// Length of the shortest packets, headers included.
const SHORT: f64 = 120.0;
/// Packets of a train at most: what a responder keeps.
const MOST: f64 = 60_000.0;
/// Packets of the first train.
const FIRST: u32 = 64;
/// Packets of it that pass most buckets, and how much faster they must be than all.
const FULL: usize = 16;
const FASTER: f64 = 1.3;
/// Share of the narrowest link's rate that trains take, so that they do not queue there.
const BELOW: f64 = 0.95;
/// Bytes that trains of one mark need at least.
const LEAST_VOLUME: f64 = 1e6;
/// Trains that measure a bucket, at most, and those that must agree.
const FINE: usize = 6;
const AGREE: usize = 2;
/// Greatest half width of the interval of a rate and of a burst that count as known, and that of a
/// burst with which no more trains are sent.
const MOST_OF_RATE: f64 = 0.02;
const MOST_OF_BURST: f64 = 0.1;
const ENOUGH: f64 = 0.04;

/// Measures the path to a responder.
///
/// # Errors
/// [`ProbeError`] if no responder answers, sockets cannot be used, or the time is over before any
/// mark is measured; later marks are left out then.
pub fn measure_end_to_end(
    settings: &EndToEndSettings,
    go_on: GoOn,
) -> Result<Vec<EndToEnd>, ProbeError> {
    by_mark(settings, go_on, measure)
}

/// Returns the rate of the narrowest link in bit/s, by a train at the greatest rate.
pub(crate) fn narrowest(train: &[Sent], bytes: f64) -> Option<f64> {
    let arrivals = train.iter().enumerate();
    let points: Vec<(f64, f64)> =
        arrivals.filter_map(|(index, one)| Some((index as f64, one.arrived?))).collect();
    let rate = |points: &[(f64, f64)]| {
        lower_slope(points).filter(|&it| it > 0.0).map(|it| 8.0 * bytes / it)
    };
    // Before a shaper's bucket is empty, packets come as fast as the links are.
    match (rate(&points[..points.len().min(FULL)]), rate(&points)) {
        (Some(early), Some(all)) if early > FASTER * all => Some(early),
        (_, all) => all,
    }
}

/// Measures with one mark.
fn measure(sender: &mut Sender, octet: u8) -> Result<EndToEnd, ProbeError> {
    let mut found = EndToEnd {
        sent: TrafficClass::from_octet(octet).into(),
        narrow_bps: None,
        bucket: None,
        train_bps: 0.0,
        train_bytes: 0,
    };
    if sender.volume < LEAST_VOLUME {
        return Ok(found);
    }
    let (long, most_bps) = (sender.long, sender.max_bps);
    let first = sender
        .train(octet, Train { packets: FIRST, bytes: long, bps: most_bps, lead_bps: None })?;
    found.narrow_bps = narrowest(&first, long);
    let Some(narrow) = found.narrow_bps else { return Ok(found) };
    let fastest = (BELOW * narrow).min(most_bps);
    // A second of traffic, to see whether there is a bucket.
    let limit = f64::min(sender.volume / long / 4.0, MOST);
    let rate = fastest.min(MOST_PPS * 8.0 * long);
    let packets = (rate / 8.0 / long).clamp(200.0, limit.max(200.0));
    refill(None, long, narrow);
    let shape = Train { packets: packets as u32, bytes: long, bps: rate, lead_bps: None };
    let train = sender.train(octet, shape)?;
    (found.train_bps, found.train_bytes) = (rate, (packets * long) as u64);
    let Some(mut rough) = find(&train, long) else { return Ok(found) };
    let mut lines = Vec::new();
    for _ in 0..FINE {
        // Short packets, and about three times the bucket's rate.
        let rate = fastest.min(3.0 * rough.bps);
        let least = (rate / 8.0 / MOST_PPS).max(SHORT);
        let bytes = (rough.burst / 40.0).clamp(least, f64::max(least, long)).min(long).floor();
        let rate = rate.min(MOST_PPS * 8.0 * bytes);
        let empty = 8.0 * rough.burst / (rate - rough.bps);
        let enough = (8.0 * 1500.0 * bytes / rough.bps).clamp(0.5, 4.0);
        let limit = f64::min(sender.volume / bytes / 2.0, MOST);
        let packets = ((empty + enough) * rate / 8.0 / bytes).min(limit);
        if rate < 1.2 * rough.bps || packets * bytes < 2.0 * rough.burst {
            break;
        }
        refill(Some(rough), long, narrow);
        let packets = packets as u32;
        let lead_bps = Some(rough.bps / 4.0);
        let train = sender.train(octet, Train { packets, bytes, bps: rate, lead_bps })?;
        let Some(again) = find(&train[LEAD as usize..], bytes) else {
            lines.push(None);
            continue;
        };
        rough = again;
        lines.push(line(&train, bytes, &rough));
        let good = |it: EndToEndBucket| it.burst.is_some_and(|burst| burst.uncertainty() <= ENOUGH);
        if lines.len() >= AGREE && good(agreed(rough.kind, &lines)) {
            break;
        }
    }
    found.bucket = Some(agreed(rough.kind, &lines));
    if rough.kind == Kind::Policer {
        // The packets that pass come as they were sent.
        found.narrow_bps = None;
    }
    Ok(found)
}

/// Returns what trains say of a bucket. Each says something true, or nothing; if two contradict
/// each other, what they assume does not hold.
fn agreed(kind: Kind, lines: &[Option<Line>]) -> EndToEndBucket {
    let said: Vec<Line> = lines.iter().copied().flatten().collect();
    let both = |all: Option<Line>, one: &Line| all?.and(*one);
    let joint = said.split_first().and_then(|(first, rest)| rest.iter().fold(Some(*first), both));
    let known = |pick: fn(Line) -> Estimate, most| {
        joint.map(pick).filter(|it| said.len() >= AGREE && it.uncertainty() <= most)
    };
    EndToEndBucket {
        kind,
        bps: known(|it| it.bps, MOST_OF_RATE),
        burst: known(|it| it.burst, MOST_OF_BURST),
        trains: lines.len(),
        disturbed: said.len() < lines.len() || (joint.is_none() && !said.is_empty()),
    }
}

/// Waits until a bucket is full again, as far as it is known.
fn refill(bucket: Option<Bucket>, long: f64, narrow: f64) {
    let full = match bucket {
        Some(bucket) => 1.5 * 8.0 * bucket.burst / bucket.bps,
        None => 8.0 * 100.0 * long / narrow,
    };
    sleep_until(monotonic() + ((full.clamp(0.1, 5.0)) * 1e9) as Nanos);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trains_that_contradict_each_other_say_nothing() {
        let near = |value: f64, share: f64| Estimate {
            value,
            low: value * (1.0 - share),
            high: value * (1.0 + share),
        };
        let line = |burst, share| Some(Line { bps: near(9e6, 1e-3), burst: near(burst, share) });
        let agreed = |lines: &[Option<Line>]| agreed(Kind::Policer, lines);
        let one = agreed(&[line(20e3, 0.03)]);
        assert_eq!((one.bps, one.burst), (None, None), "nothing confirms it");
        let two = agreed(&[line(20e3, 0.03), line(23e3, 0.2)]);
        assert_eq!(two.burst, Some(Estimate { value: 20e3, low: 19.4e3, high: 20.6e3 }));
        assert!(!two.disturbed);
        let apart = agreed(&[line(20e3, 0.03), line(23.7e3, 0.03)]);
        assert_eq!((apart.bps, apart.burst, apart.disturbed), (None, None, true));
        let wide = agreed(&[line(20e3, 0.2), line(20e3, 0.2), None]);
        assert!(wide.bps.is_some() && wide.burst.is_none() && wide.disturbed);
    }
}
