//! Streams to a responder, for the available bandwidth.

use perhop_core::TrafficClass;
use perhop_socket::Nanos;
use serde::Serialize;

use crate::available::{Fleet, Search, Trend, Unknown, Verdict, trend};
use crate::bucket::Sent;
use crate::end_to_end::narrowest;
use crate::hops::Mark;
use crate::prober::{GoOn, ProbeError};
use crate::sender::{EndToEndSettings, Sender, Train, by_mark};
use crate::statistics::Estimate;

/// Available bandwidth of one mark, in bit/s of IP packets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AvailableBandwidth {
    /// Mark of the streams.
    pub sent: Mark,
    /// Available bandwidth; `None` if it is unknown.
    pub bps: Option<Estimate>,
    /// Reason why it is unknown.
    pub unknown: Option<Unknown>,
    /// Greatest rate at which no queue filled.
    pub at_least_bps: f64,
    /// Least rate at which one did, or the rate at which a fast train arrived.
    pub at_most_bps: Option<f64>,
    /// Streams.
    pub streams: u32,
    /// The same one by one, in their order.
    pub each: Vec<StreamResult>,
}

/// Result of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StreamResult {
    /// Time of its first packet by this host's clock, in seconds since 1970.
    pub at_s: f64,
    /// Time from its first to its last packet, in seconds.
    pub duration_s: f64,
    /// Rate at which it was sent, in bit/s.
    pub sent_bps: f64,
    /// Rate at which it arrived; `None` if fewer than two packets did.
    pub arrived_bps: Option<f64>,
    /// Trend of its delays; `None` if this host did not send it evenly.
    pub trend: Option<Trend>,
}

impl StreamResult {
    fn new(begun: Nanos, stream: &[Sent], bytes: f64, trend: Option<Trend>) -> Self {
        let rate = |times: &[f64]| {
            let least = times.iter().copied().fold(f64::INFINITY, f64::min);
            let most = times.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let bits = 8.0 * bytes * times.len().saturating_sub(1) as f64;
            (most > least).then(|| (most - least, bits / (most - least)))
        };
        let sent: Vec<f64> = stream.iter().map(|one| one.sent).collect();
        let arrived: Vec<f64> = stream.iter().filter_map(|one| one.arrived).collect();
        let (duration_s, sent_bps) = rate(&sent).unwrap_or_default();
        Self {
            at_s: begun as f64 / 1e9,
            duration_s,
            sent_bps,
            arrived_bps: rate(&arrived).map(|(_, bps)| bps),
            trend,
        }
    }
}

/// Packets of the train that tells the greatest rate, and how much more that may be.
const FIRST: u32 = 128;
const MORE: f64 = 1.05;
/// Duration of a stream in seconds, and its packets at least and at most.
const LONG: f64 = 0.05;
const LEAST: f64 = 100.0;
const MOST: f64 = 1200.0;
/// Length of the shortest packets, headers included.
const SHORT: f64 = 200.0;

/// Measures the available bandwidth to a responder with each mark.
///
/// # Errors
/// [`ProbeError`] if no responder answers, sockets cannot be used, or the time is over before any
/// mark is measured; later marks are left out then.
pub fn measure_available_bandwidth(
    settings: &EndToEndSettings,
    go_on: GoOn,
) -> Result<Vec<AvailableBandwidth>, ProbeError> {
    by_mark(settings, go_on, measure)
}

fn measure(sender: &mut Sender, octet: u8) -> Result<AvailableBandwidth, ProbeError> {
    let mut found = AvailableBandwidth {
        sent: TrafficClass::from_octet(octet).into(),
        bps: None,
        unknown: None,
        at_least_bps: 0.0,
        at_most_bps: None,
        streams: 0,
        each: Vec::new(),
    };
    let (bytes, bps) = (sender.long, sender.max_bps);
    if sender.volume < bytes * f64::from(FIRST) {
        found.unknown = Some(Unknown::Volume);
        return Ok(found);
    }
    let first = sender.train(octet, Train { packets: FIRST, bytes, bps, lead_bps: None })?;
    // A train that fills a queue leaves it at a rate that is not less than the available one.
    let Some(fast) = narrowest(&first, bytes) else {
        found.unknown = Some(Unknown::Unanswered);
        return Ok(found);
    };
    let most = MORE * fast;
    let limited = most > bps;
    let mut search = Search::new(most.min(bps));
    found.at_most_bps = (!limited).then_some(most);
    let mut disturbed = false;
    // Whether the greatest rate that is allowed is too much must be seen first.
    let mut next = if limited { Some(bps) } else { search.next() };
    while let Some(rate) = next {
        let Some(verdict) = fleet(sender, octet, rate, &mut found.each)? else {
            found.unknown = Some(Unknown::Volume);
            break;
        };
        search.add(rate, verdict);
        match verdict {
            Verdict::Below => found.at_least_bps = rate,
            Verdict::Above => found.at_most_bps = Some(rate),
            Verdict::Grey => {}
            Verdict::Disturbed => disturbed = true,
        }
        next = if limited && verdict == Verdict::Below && rate >= bps {
            found.unknown = Some(Unknown::Limit);
            None
        } else {
            search.next()
        };
    }
    found.unknown = found.unknown.or(match () {
        () if disturbed => Some(Unknown::Sender),
        () if found.at_most_bps.is_none() => Some(Unknown::Limit),
        () if search.low <= 0.0 && search.high > 0.5 * most => Some(Unknown::Lossy),
        () => None,
    });
    found.streams = found.each.len() as u32;
    if found.unknown.is_none() {
        let (low, high) = (search.low, search.high);
        found.bps = Some(Estimate { value: f64::midpoint(low, high), low, high });
    }
    Ok(found)
}

/// Sends streams of a rate until they say how it relates to the available bandwidth; `None` if no
/// more bytes may be sent.
fn fleet(
    sender: &mut Sender,
    octet: u8,
    bps: f64,
    each: &mut Vec<StreamResult>,
) -> Result<Option<Verdict>, ProbeError> {
    let mut fleet = Fleet::default();
    loop {
        let bytes = (bps * LONG / 8.0 / LEAST).clamp(SHORT, sender.long).floor();
        let packets = (bps * LONG / 8.0 / bytes).clamp(LEAST, MOST) as u32;
        if sender.volume < bytes * f64::from(packets) {
            return Ok(None);
        }
        let stream = sender.train(octet, Train { packets, bytes, bps, lead_bps: None })?;
        let trend = trend(&stream, bps / 8.0 / bytes);
        each.push(StreamResult::new(sender.begun, &stream, bytes, trend));
        fleet.add(trend);
        if let Some(verdict) = fleet.verdict() {
            return Ok(Some(verdict));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_a_stream_are_those_of_its_packets() {
        let at = |number: f64| Sent {
            sent: number * 1e-3,
            arrived: (number != 3.0).then_some(5.0 + number * 2e-3),
        };
        let stream: Vec<Sent> = (0..11).map(|number| at(f64::from(number))).collect();
        let found = StreamResult::new(1_500_000_000, &stream, 1000.0, Some(Trend::Rising));
        assert!((found.at_s - 1.5).abs() < 1e-9 && (found.duration_s - 0.01).abs() < 1e-9);
        assert!((found.sent_bps - 8e6).abs() < 1.0);
        assert!((found.arrived_bps.unwrap() - 3.6e6).abs() < 1.0);
        let found = StreamResult::new(0, &[], 1000.0, None);
        assert_eq!((found.sent_bps, found.arrived_bps), (0.0, None));
    }
}
