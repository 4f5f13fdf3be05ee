//! Delivery rate samples (draft-ietf-ccwg-bbr-06, section 4.1): how fast the network has delivered
//! between a segment's transmission and its acknowledgement.

use std::collections::VecDeque;

use perhop_core::{Duration, Time};

use super::progress::is_after;
use super::sent::Sent;

/// What was known when a segment was sent (section 4.1.2.1.2).
#[derive(Clone, Copy, Debug)]
struct Snapshot {
    /// Bytes delivered and lost by then.
    delivered: u64,
    lost: u64,
    /// Bytes in flight, its own included.
    in_flight: u64,
    /// When the last of those delivered were.
    delivered_at: Time,
    /// When the segment was sent that was delivered last by then.
    flight_began: Time,
    app_limited: bool,
}

/// What an acknowledgement tells of the path (section 4.1.2.1.3). The segment that it speaks of is
/// the one that was sent last of those that it is the first to cover.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateSample {
    /// Bytes a second; zero if there is no telling.
    pub rate: f64,
    /// Bytes delivered since that segment was sent.
    pub delivered: u64,
    /// Bytes that had been delivered when it was sent.
    pub prior_delivered: u64,
    /// Bytes that were in flight when it was sent.
    pub in_flight: u64,
    /// Bytes lost since it was sent.
    pub lost: u64,
    /// True if the application, and not congestion control, held the sender up then.
    pub app_limited: bool,
    /// Bytes delivered since the connection began.
    pub total: u64,
    /// How long ago it was sent, if it was sent once.
    pub rtt: Option<Duration>,
}

/// A segment that was marked as lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LostSegment {
    /// Its bytes.
    pub length: u64,
    /// Bytes that were in flight when it was sent, its own included.
    pub in_flight: u64,
    /// Bytes lost since it was sent, its own included.
    pub lost: u64,
    /// True if the application held the sender up then.
    pub app_limited: bool,
}

/// The rate sampler: a snapshot for each outstanding segment.
#[derive(Clone, Debug, Default)]
pub(super) struct Sampler {
    snapshots: VecDeque<Snapshot>,
    delivered: u64,
    delivered_at: Time,
    flight_began: Time,
    lost: u64,
    /// While this much is not delivered, what is was held up by the application; zero if it is not.
    app_limited: u64,
    /// The segment that was sent last of those that are newly covered, and its order.
    newest: Option<(Sent, Snapshot)>,
    losses: Vec<LostSegment>,
}

impl Sampler {
    fn snapshot(&mut self, pipe: u64, length: u32, now: Time) -> Snapshot {
        if pipe == u64::from(length) {
            (self.flight_began, self.delivered_at) = (now, now);
        }
        Snapshot {
            delivered: self.delivered,
            lost: self.lost,
            in_flight: pipe,
            delivered_at: self.delivered_at,
            flight_began: self.flight_began,
            app_limited: self.app_limited > 0,
        }
    }

    /// A segment was sent; `pipe` has it.
    pub fn send(&mut self, pipe: u64, length: u32, now: Time) {
        let snapshot = self.snapshot(pipe, length, now);
        self.snapshots.push_back(snapshot);
    }

    /// The segment at this place was sent again.
    pub fn resend(&mut self, index: usize, pipe: u64, length: u32, now: Time) {
        self.snapshots[index] = self.snapshot(pipe, length, now);
    }

    /// A segment was delivered.
    pub fn deliver(&mut self, index: usize, sent: &Sent, now: Time) {
        self.delivered += u64::from(sent.length);
        self.delivered_at = now;
        if self.newest.is_none_or(|(newest, _)| is_after(sent.order, newest.order)) {
            self.newest = Some((*sent, self.snapshots[index]));
        }
    }

    /// Part of the first segment was delivered.
    pub fn deliver_part(&mut self, bytes: u64, now: Time) {
        self.delivered += bytes;
        self.delivered_at = now;
    }

    pub fn pop(&mut self) {
        self.snapshots.pop_front();
    }

    pub fn lose(&mut self, index: usize, length: u32) {
        self.lost += u64::from(length);
        let snapshot = &self.snapshots[index];
        self.losses.push(LostSegment {
            length: length.into(),
            in_flight: snapshot.in_flight,
            lost: self.lost - snapshot.lost,
            app_limited: snapshot.app_limited,
        });
    }

    /// The application has nothing to send, though the window would let it: what is delivered up
    /// to the end of what is in flight is slow for that reason (section 4.1.2.4).
    pub fn limit(&mut self, pipe: u64) {
        self.app_limited = (self.delivered + pipe).max(1);
    }

    pub fn is_limited(&self) -> bool {
        self.app_limited > 0
    }

    /// Bytes delivered since the connection began.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// What was marked as lost since it was last asked, one by one.
    pub fn take_losses(&mut self) -> std::vec::Drain<'_, LostSegment> {
        self.losses.drain(..)
    }

    /// Returns the sample of the acknowledgement that was just taken, if it has delivered anything.
    pub fn take(&mut self, min_rtt: Duration, now: Time) -> Option<RateSample> {
        if self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let (sent, snapshot) = self.newest.take()?;
        self.flight_began = sent.at;
        let elapsed = self.delivered_at.since(snapshot.delivered_at);
        let interval = elapsed.max(sent.at.since(snapshot.flight_began));
        let delivered = self.delivered - snapshot.delivered;
        // Shorter than the least round-trip time it is of a first transmission that was taken for
        // the second. And a SYN is no data: its one byte a round trip would pass for the path's
        // rate until a better sample comes, which may take long where much is lost.
        let reliable = interval > Duration::ZERO && interval >= min_rtt && sent.start > 0;
        Some(RateSample {
            rate: if reliable { delivered as f64 / interval.as_secs_f64() } else { 0.0 },
            delivered,
            prior_delivered: snapshot.delivered,
            in_flight: snapshot.in_flight,
            lost: self.lost - snapshot.lost,
            app_limited: snapshot.app_limited,
            total: self.delivered,
            rtt: (!sent.ambiguous).then(|| now.since(sent.at)),
        })
    }
}
