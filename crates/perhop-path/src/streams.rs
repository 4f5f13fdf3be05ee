//! Streams to a responder, for the available bandwidth.

use perhop_core::TrafficClass;
use serde::Serialize;

use crate::available::{Fleet, Search, Unknown, Verdict, trend};
use crate::end_to_end::narrowest;
use crate::hops::Mark;
use crate::prober::{GoOn, ProbeError};
use crate::sender::{EndToEndSettings, Sender, Train};
use crate::statistics::Estimate;

/// AvailableBandwidth bandwidth of one mark, in bit/s of IP packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AvailableBandwidth {
    /// Mark of the streams.
    pub sent: Mark,
    /// AvailableBandwidth bandwidth; `None` if it is unknown.
    pub bps: Option<Estimate>,
    /// Reason why it is unknown.
    pub unknown: Option<Unknown>,
    /// Greatest rate at which no queue filled.
    pub at_least_bps: f64,
    /// Least rate at which one did, or the rate at which a fast train arrived.
    pub at_most_bps: Option<f64>,
    /// Streams.
    pub streams: u32,
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
/// [`ProbeError`] if no responder answers, sockets cannot be used, or the time is over.
pub fn measure_available_bandwidth(
    settings: &EndToEndSettings,
    go_on: GoOn,
) -> Result<Vec<AvailableBandwidth>, ProbeError> {
    let mut sender = Sender::new(settings, go_on)?;
    settings.marks.iter().map(|&octet| measure(&mut sender, octet)).collect()
}

fn measure(sender: &mut Sender, octet: u8) -> Result<AvailableBandwidth, ProbeError> {
    let mut found = AvailableBandwidth {
        sent: TrafficClass::from_octet(octet).into(),
        bps: None,
        unknown: None,
        at_least_bps: 0.0,
        at_most_bps: None,
        streams: 0,
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
        let Some(verdict) = fleet(sender, octet, rate, &mut found.streams)? else {
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
    streams: &mut u32,
) -> Result<Option<Verdict>, ProbeError> {
    let mut fleet = Fleet::default();
    loop {
        let bytes = (bps * LONG / 8.0 / LEAST).clamp(SHORT, sender.long).floor();
        let packets = (bps * LONG / 8.0 / bytes).clamp(LEAST, MOST) as u32;
        if sender.volume < bytes * f64::from(packets) {
            return Ok(None);
        }
        let stream = sender.train(octet, Train { packets, bytes, bps, lead_bps: None })?;
        *streams += 1;
        fleet.add(trend(&stream, bps / 8.0 / bytes));
        if let Some(verdict) = fleet.verdict() {
            return Ok(Some(verdict));
        }
    }
}
