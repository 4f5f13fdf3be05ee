//! Samples of the delivery rate (draft-ietf-ccwg-bbr-06, section 4.1): the rate of deliveries
//! between a packet's transmission and its acknowledgement.

use perhop_core::{Duration, Time};

use crate::scoreboard::is_after;

/// State of the connection when a packet was sent (section 4.1.2.1.2).
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// Bytes delivered and lost before.
    delivered: u64,
    lost: u64,
    /// Bytes in flight, including the packet.
    in_flight: u64,
    /// Time of the last delivery before.
    delivered_at: Time,
    /// Transmission time of the packet that was delivered last before.
    flight_began: Time,
    app_limited: bool,
}

/// A delivered packet.
#[derive(Clone, Copy, Debug)]
pub struct DeliveredPacket {
    /// Time at which it was sent.
    pub at: Time,
    /// Its length, in bytes.
    pub length: u32,
    /// Order number of its transmission, modulo 2²⁸.
    pub order: u32,
    /// True if it is data: the handshake has no rate.
    pub data: bool,
    /// True if it was sent more than once, so that the copy that was delivered is uncertain.
    pub ambiguous: bool,
}

/// Sample of an acknowledgement (section 4.1.2.1.3). It refers to the segment that was sent last
/// among those that the acknowledgement is the first to cover.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateSample {
    /// Delivery rate, in bytes per second; zero if unknown.
    pub rate: f64,
    /// Bytes delivered since the segment was sent.
    pub delivered: u64,
    /// Bytes delivered before the segment was sent.
    pub prior_delivered: u64,
    /// Bytes in flight when the segment was sent.
    pub in_flight: u64,
    /// Bytes lost since the segment was sent.
    pub lost: u64,
    /// True if the application, and not congestion control, limited the sender at that time.
    pub app_limited: bool,
    /// Bytes delivered since the connection began.
    pub total: u64,
    /// Time since the transmission of the segment, if it was sent once.
    pub rtt: Option<Duration>,
}

/// A segment that was marked as lost.
#[derive(Clone, Copy, Debug)]
pub struct LostSegment {
    /// Its length, in bytes.
    pub length: u64,
    /// Bytes in flight when it was sent, including the segment.
    pub in_flight: u64,
    /// Bytes lost since it was sent, including the segment.
    pub lost: u64,
    /// True if the application limited the sender at that time.
    pub app_limited: bool,
}

/// Deliveries and losses of a connection.
#[derive(Clone, Debug, Default)]
pub struct Deliveries {
    delivered: u64,
    delivered_at: Time,
    flight_began: Time,
    lost: u64,
    /// Number of delivered bytes up to which deliveries are limited by the application; zero if
    /// they are not.
    app_limited: u64,
    /// The last sent of the newly covered segments, and its snapshot.
    newest: Option<(DeliveredPacket, Snapshot)>,
    losses: Vec<LostSegment>,
}

impl Deliveries {
    /// Returns the state for a packet that is sent now; `pipe` includes its `length`.
    pub fn snapshot(&mut self, pipe: u64, length: u32, now: Time) -> Snapshot {
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

    /// Records the delivery of a packet.
    pub fn deliver(&mut self, packet: DeliveredPacket, snapshot: Snapshot, now: Time) {
        self.delivered += u64::from(packet.length);
        self.delivered_at = now;
        if self.newest.is_none_or(|(newest, _)| is_after(packet.order, newest.order)) {
            self.newest = Some((packet, snapshot));
        }
    }

    /// Records the delivery of a part of the first packet.
    pub fn deliver_part(&mut self, bytes: u64, now: Time) {
        self.delivered += bytes;
        self.delivered_at = now;
    }

    /// Records the loss of a packet.
    pub fn lose(&mut self, length: u32, snapshot: &Snapshot) {
        self.lost += u64::from(length);
        self.losses.push(LostSegment {
            length: length.into(),
            in_flight: snapshot.in_flight,
            lost: self.lost - snapshot.lost,
            app_limited: snapshot.app_limited,
        });
    }

    /// Records that the application has no data although the window has room: deliveries up to the
    /// end of the data in flight are limited by the application (section 4.1.2.4).
    pub fn limit(&mut self, pipe: u64) {
        self.app_limited = (self.delivered + pipe).max(1);
    }

    /// Returns `true` if the application limits the deliveries.
    pub fn is_limited(&self) -> bool {
        self.app_limited > 0
    }

    /// Returns the number of bytes delivered since the connection began.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the segments that were marked as lost since the last call.
    pub fn take_losses(&mut self) -> std::vec::Drain<'_, LostSegment> {
        self.losses.drain(..)
    }

    /// Returns the sample of the last acknowledgement, if it has delivered data.
    pub fn take(&mut self, min_rtt: Duration, now: Time) -> Option<RateSample> {
        if self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let (packet, snapshot) = self.newest.take()?;
        self.flight_began = packet.at;
        let elapsed = self.delivered_at.since(snapshot.delivered_at);
        let interval = elapsed.max(packet.at.since(snapshot.flight_began));
        let delivered = self.delivered - snapshot.delivered;
        // A sample shorter than the minimum round-trip time covers a first transmission that was
        // taken for the second. A SYN is not data: its one byte per round trip would pass for the
        // path's rate until there is a better sample, which may take long with much loss.
        let reliable = interval > Duration::ZERO && interval >= min_rtt && packet.data;
        Some(RateSample {
            rate: if reliable { delivered as f64 / interval.as_secs_f64() } else { 0.0 },
            delivered,
            prior_delivered: snapshot.delivered,
            in_flight: snapshot.in_flight,
            lost: self.lost - snapshot.lost,
            app_limited: snapshot.app_limited,
            total: self.delivered,
            rtt: (!packet.ambiguous).then(|| now.since(packet.at)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn at(ms: u64) -> Time {
        Time::ZERO + MS(ms)
    }

    fn packet(ms: u64, order: u32) -> DeliveredPacket {
        DeliveredPacket { at: at(ms), length: 1_000, order, data: true, ambiguous: false }
    }

    /// Rate, delivered, delivered before, in flight, lost, limited, in all, round trip in ms.
    type Row = (f64, u64, u64, u64, u64, bool, u64, Option<u64>);

    #[track_caller]
    fn check(sample: Option<RateSample>, expected: Row) {
        let sample = sample.expect("something was delivered");
        let rtt = sample.rtt.map(|rtt| rtt.as_picos() / 1_000_000_000);
        let RateSample { rate, delivered, prior_delivered, in_flight, lost, .. } = sample;
        let (limited, total) = (sample.app_limited, sample.total);
        let rate = rate.round();
        assert_eq!(
            (rate, delivered, prior_delivered, in_flight, lost, limited, total, rtt),
            expected
        );
    }

    /// Section 4.1.1.2: the longer of the times in which data was sent and in which it was
    /// acknowledged. The first packet after a pause begins both.
    #[test]
    fn rates_are_of_the_longer_interval() {
        let mut deliveries = Deliveries::default();
        let first = deliveries.snapshot(1_000, 1_000, at(10));
        let second = deliveries.snapshot(2_000, 1_000, at(12));
        deliveries.deliver(packet(10, 0), first, at(30));
        // 1000 bytes in 20 ms.
        check(
            deliveries.take(Duration::ZERO, at(30)),
            (50_000.0, 1_000, 0, 1_000, 0, false, 1_000, Some(20)),
        );
        assert!(deliveries.take(Duration::ZERO, at(30)).is_none());
        deliveries.deliver(packet(12, 1), second, at(32));
        // 2000 bytes since the first was sent 22 ms ago.
        check(
            deliveries.take(MS(22), at(32)),
            (90_909.0, 2_000, 0, 2_000, 0, false, 2_000, Some(20)),
        );
        // Sent 108 ms after the second, acknowledged 89 ms after it.
        let third = deliveries.snapshot(1_500, 1_000, at(120));
        let fourth = deliveries.snapshot(2_500, 1_000, at(121));
        deliveries.lose(700, &second);
        deliveries.deliver(packet(120, 2), third, at(121));
        check(
            deliveries.take(MS(108), at(121)),
            (9_259.0, 1_000, 2_000, 1_500, 700, false, 3_000, Some(1)),
        );
        // Too short for the path, so that there is no rate.
        deliveries.deliver_part(300, at(122));
        deliveries.deliver(packet(121, 3), fourth, at(123));
        check(
            deliveries.take(MS(110), at(123)),
            (0.0, 2_300, 2_000, 2_500, 700, false, 4_300, Some(2)),
        );
        let lost: Vec<_> = deliveries.take_losses().collect();
        assert_eq!(lost.len(), 1);
        let LostSegment { length, in_flight, lost, app_limited } = lost[0];
        assert_eq!((length, in_flight, lost, app_limited), (700, 2_000, 700, false));
        assert_eq!((deliveries.take_losses().count(), deliveries.delivered()), (0, 4_300));
    }

    /// The sample is that of the packet that was sent last. A SYN has no rate, and a packet that
    /// was sent twice no round-trip time.
    #[test]
    fn samples_refer_to_the_newest_packet() {
        let mut deliveries = Deliveries::default();
        let [early, late] =
            [(1_000, 10), (2_000, 20)].map(|(pipe, ms)| deliveries.snapshot(pipe, 1_000, at(ms)));
        deliveries.deliver(packet(20, 6), late, at(50));
        deliveries.deliver(packet(10, 5), early, at(50));
        check(
            deliveries.take(Duration::ZERO, at(50)),
            (50_000.0, 2_000, 0, 2_000, 0, false, 2_000, Some(30)),
        );
        for (data, ambiguous, rate, rtt) in
            [(false, false, 0.0, Some(30)), (true, true, 33_333.0, None)]
        {
            let mut deliveries = Deliveries::default();
            let sent = deliveries.snapshot(1_000, 1_000, at(10));
            let packet = DeliveredPacket { data, ambiguous, ..packet(10, 0) };
            deliveries.deliver(packet, sent, at(40));
            check(
                deliveries.take(Duration::ZERO, at(40)),
                (rate, 1_000, 0, 1_000, 0, false, 1_000, rtt),
            );
        }
    }

    /// Section 4.1.2.4: until more is delivered than was in flight when the application had no
    /// data.
    #[test]
    fn limits_of_the_application_last_a_flight() {
        let mut deliveries = Deliveries::default();
        assert!(!deliveries.is_limited());
        deliveries.limit(0);
        assert!(deliveries.is_limited(), "with nothing in flight");
        deliveries.limit(1_000);
        let limited = deliveries.snapshot(1_000, 1_000, at(10));
        deliveries.deliver(packet(10, 0), limited, at(30));
        check(
            deliveries.take(Duration::ZERO, at(30)),
            (50_000.0, 1_000, 0, 1_000, 0, true, 1_000, Some(20)),
        );
        assert!(deliveries.is_limited(), "not beyond the flight");
        let more = deliveries.snapshot(2_000, 1_000, at(31));
        deliveries.deliver(packet(31, 1), more, at(51));
        assert!(deliveries.take(Duration::ZERO, at(51)).unwrap().app_limited);
        assert!(!deliveries.is_limited());
        assert!(!deliveries.snapshot(2_000, 1_000, at(60)).app_limited);
    }
}
