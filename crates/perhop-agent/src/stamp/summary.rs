//! Summaries of sessions: measurements of a path.

use std::collections::BTreeMap;

use perhop_measure::ClockEstimate;
use perhop_wire::StampError;
use serde::Serialize;

use super::pair::{ClockPair, StatedErrors};
use super::sender::{Answer, SenderSettings};

/// A distribution of delays, in nanoseconds. One-way delays may be below zero by the error of the
/// clocks.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Delays {
    /// Shortest.
    pub min: i64,
    /// Mean.
    pub mean: i64,
    /// Median.
    pub median: i64,
    /// 99th percentile.
    pub p99: i64,
    /// Longest.
    pub max: i64,
}

impl Delays {
    fn of(mut delays: Vec<i64>) -> Option<Self> {
        delays.sort_unstable();
        let rank = |part: f64| {
            let rank = (delays.len() as f64 * part).ceil() as usize;
            delays.get(rank.max(1) - 1).copied()
        };
        let sum: i128 = delays.iter().copied().map(i128::from).sum();
        let mean = (sum / delays.len().max(1) as i128) as i64;
        Some(Self { min: rank(0.0)?, mean, median: rank(0.5)?, p99: rank(0.99)?, max: rank(1.0)? })
    }
}

/// Offset of the reflector's clock from the sender's.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Clock {
    /// Arrival of the last reply by the sender's clock, in nanoseconds since 1970.
    pub at_ns: u64,
    /// The reflector's clock minus the sender's at that instant, in nanoseconds.
    pub offset_ns: i64,
    /// Growth of the offset, in ppb.
    pub rate_ppb: f64,
    /// Largest error of the one-way delays, in nanoseconds.
    pub bound_ns: u64,
    /// Number of times that a clock was set during the session.
    pub resets: u64,
    /// Use of the errors that both hosts state for their clocks.
    pub stated: StatedErrors,
    /// True if the reflector reports that its clock is synchronised with UTC.
    pub reflector_synchronized: bool,
    /// Error of its clock against UTC as the reflector reports it, in nanoseconds.
    pub reflector_error_ns: u64,
}

/// One direction of the path.
#[derive(Clone, Debug, Serialize)]
pub struct Direction {
    /// One-way delays in nanoseconds, corrected by the clock.
    pub delay_ns: Option<Delays>,
    /// Packets lost; `None` if the reflector does not count packets.
    pub lost: Option<u32>,
    /// Packets that arrived after one that was sent later (RFC 4737, section 3).
    pub reordered: u32,
    /// DSCP that packets were sent with; `None` for replies if the reflector does not report it.
    pub dscp_sent: Option<u8>,
    /// ECN field that packets were sent with; `None` for replies.
    pub ecn_sent: Option<u8>,
    /// DSCPs that they arrived with, and the number of packets of each; empty if not reported.
    pub dscp: BTreeMap<u8, u32>,
    /// ECN fields that they arrived with, and the number of packets of each.
    pub ecn: BTreeMap<u8, u32>,
    /// True if a DSCP was rewritten on the path; `None` if unknown.
    pub rewritten: Option<bool>,
    /// TTLs or hop limits that they arrived with, and the number of packets of each.
    pub ttl: BTreeMap<u8, u32>,
}

/// Summary of a session.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Packets sent.
    pub sent: u32,
    /// Replies received.
    pub received: u32,
    /// Packets without a reply.
    pub lost: u32,
    /// Lost packets after the last reply, whose direction is unknown.
    pub lost_last: u32,
    /// Received packets that were no replies.
    pub stray: u64,
    /// Replies without the requested DSCP, which the reflector does not permit.
    pub dscp_refused: u32,
    /// Round-trip times in nanoseconds, without the reflector's own time.
    pub round_trip_ns: Option<Delays>,
    /// Offset of the clocks.
    pub clock: Option<Clock>,
    /// From the sender to the reflector.
    pub forward: Direction,
    /// From the reflector to the sender.
    pub backward: Direction,
}

/// Instants for which the clock's offset is computed.
const INSTANTS: usize = 64;

impl Summary {
    /// Summarises the replies to the packets of a session, in any order.
    pub fn new(settings: &SenderSettings, sent: u32, stray: u64, answers: &[Answer]) -> Self {
        let mut clocks = ClockPair::new(settings.trusts_clock);
        let mut ordered: Vec<&Answer> = answers.iter().collect();
        ordered.sort_by_key(|answer| answer.exchange.returned);
        ordered.iter().for_each(|answer| clocks.add(answer));
        let step = ordered.len().div_ceil(INSTANTS).max(1);
        let instants = ordered.iter().step_by(step).chain(ordered.last());
        let estimates: Vec<ClockEstimate> =
            instants.filter_map(|answer| clocks.at(answer.exchange.returned)).collect();
        let nearest = |at: u64| {
            let place = estimates.partition_point(|estimate| estimate.at < at);
            let candidates = [place.wrapping_sub(1), place].map(|place| estimates.get(place));
            candidates.into_iter().flatten().min_by_key(|estimate| estimate.at.abs_diff(at))
        };
        let (mut forward, mut backward, mut trips) = (Vec::new(), Vec::new(), Vec::new());
        let mut bound = 0;
        for Answer { exchange, .. } in answers {
            let there = difference(exchange.received, exchange.sent);
            let back = difference(exchange.returned, exchange.replied);
            trips.push(there.saturating_add(back));
            let (Some(first), Some(last)) = (nearest(exchange.sent), nearest(exchange.returned))
            else {
                continue;
            };
            forward.push(there.saturating_sub(first.offset_at(exchange.sent)));
            backward.push(back.saturating_add(last.offset_at(exchange.returned)));
            let bounds = [first.bound_at(exchange.sent), last.bound_at(exchange.returned)];
            bound = bounds.into_iter().fold(bound, u64::max);
        }
        let clock = estimates.last().zip(ordered.last()).map(|(last, answer)| {
            let StampError { synchronized, .. } = answer.error;
            Clock {
                at_ns: last.at,
                offset_ns: last.offset,
                rate_ppb: last.rate_ppb,
                bound_ns: bound,
                resets: clocks.resets(),
                stated: clocks.stated(),
                reflector_synchronized: synchronized,
                reflector_error_ns: answer.error.nanos(),
            }
        });
        let received = answers.len() as u32;
        let lost = sent.saturating_sub(received);
        let (lost_forward, lost_backward, lost_last) = losses(sent, answers);
        Self {
            sent,
            received,
            lost,
            lost_last,
            stray,
            dscp_refused: answers
                .iter()
                .filter(|answer| answer.class_forward.is_some_and(|(_, refused)| refused))
                .count() as u32,
            round_trip_ns: Delays::of(trips),
            clock,
            forward: forward_marks(settings, answers, Delays::of(forward), lost_forward),
            backward: backward_marks(settings, answers, Delays::of(backward), lost_backward),
        }
    }
}

fn forward_marks(
    settings: &SenderSettings,
    answers: &[Answer],
    delay_ns: Option<Delays>,
    lost: Option<u32>,
) -> Direction {
    let sent = settings.class;
    let seen = answers.iter().filter_map(|answer| answer.class_forward).map(|(class, _)| class);
    let classes: Vec<_> = seen.collect();
    let rewritten =
        (!classes.is_empty()).then(|| classes.iter().any(|class| class.dscp() != sent.dscp()));
    Direction {
        delay_ns,
        lost,
        reordered: reordered(answers, |answer| {
            (answer.exchange.received, u64::from(answer.sequence))
        }),
        dscp_sent: Some(sent.dscp().get()),
        ecn_sent: Some(sent.octet() & 3),
        dscp: tally(classes.iter().map(|class| class.dscp().get())),
        ecn: tally(classes.iter().map(|class| class.octet() & 3)),
        rewritten,
        ttl: tally(answers.iter().map(|answer| answer.ttl_forward)),
    }
}

fn backward_marks(
    settings: &SenderSettings,
    answers: &[Answer],
    delay_ns: Option<Delays>,
    lost: Option<u32>,
) -> Direction {
    let seen = answers.iter().filter_map(|answer| answer.class_backward);
    // DSCP that the reflector reports for its replies, and that of their arrival (RFC 8972, section
    // 4.4).
    let pairs = answers.iter().filter_map(|answer| {
        let (received, refused) = answer.class_forward?;
        let sent = if refused { received.dscp() } else { settings.reply_dscp };
        Some((sent, answer.class_backward?.dscp()))
    });
    let rewritten: Option<bool> =
        pairs.clone().map(|(sent, arrived)| sent != arrived).reduce(|a, b| a || b);
    let mut sent: Vec<u8> = pairs.map(|(sent, _)| sent.get()).collect();
    sent.dedup();
    Direction {
        delay_ns,
        lost,
        reordered: reordered(answers, |answer| (answer.exchange.returned, answer.exchange.replied)),
        dscp_sent: if let [sent] = sent[..] { Some(sent) } else { None },
        ecn_sent: None,
        dscp: tally(seen.clone().map(|class| class.dscp().get())),
        ecn: tally(seen.map(|class| class.octet() & 3)),
        rewritten,
        ttl: tally(answers.iter().filter_map(|answer| answer.ttl_backward)),
    }
}

/// Returns the losses forward, backward, and after the last reply. The first two are known if the
/// reflector counts packets, which its counters show, or sequence numbers other than the sender's.
fn losses(sent: u32, answers: &[Answer]) -> (Option<u32>, Option<u32>, u32) {
    let received = answers.len() as u32;
    let Some(last) = answers.iter().map(|answer| answer.sequence).max() else {
        return (None, None, sent);
    };
    let (reached, after) = (last + 1, sent.saturating_sub(last + 1));
    let counted = answers.iter().filter_map(|answer| Some(answer.counters?.received)).max();
    let numbered = answers.iter().any(|answer| answer.reply_sequence != answer.sequence);
    let highest = answers.iter().map(|answer| answer.reply_sequence.saturating_add(1)).max();
    let arrived =
        counted.or(highest.filter(|_| numbered)).or((received == reached).then_some(reached));
    let forward = arrived.map(|arrived| reached.saturating_sub(arrived));
    let backward = arrived.map(|arrived| arrived.saturating_sub(received));
    (forward, backward, after)
}

/// Returns the number of packets that arrived after one that was sent later; `order` returns
/// arrival and sending.
fn reordered(answers: &[Answer], order: impl Fn(&Answer) -> (u64, u64)) -> u32 {
    let mut pairs: Vec<(u64, u64)> = answers.iter().map(order).collect();
    pairs.sort_unstable();
    let (mut latest, mut count) = (0, 0);
    for (_, sent) in pairs {
        count += u32::from(sent < latest);
        latest = latest.max(sent);
    }
    count
}

fn tally(values: impl Iterator<Item = u8>) -> BTreeMap<u8, u32> {
    let mut counts = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts
}

fn difference(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b).cast_signed()
}
