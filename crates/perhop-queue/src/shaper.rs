//! A shaper: a token bucket that delays packets.

use perhop_core::{Bytes, Packet, Rate, Time, TokenBucket};

use crate::{Dequeue, Discipline, Framing, Ledger, Pass};

/// Limits a queue to `burst + rate · t` bytes in any time t, exactly, and sends each packet as soon
/// as that allows. Bytes are those of IP packets, or of [frames](Self::framed).
///
/// A packet that is longer than the burst is sent when the bucket is full, and overdraws it. With a
/// burst of zero this is a leaky bucket: packets are spaced as on a link of `rate`. (RFC 2475,
/// section 2.3.3.3; the curve is `max(burst, longest packet) + rate · t`.)
#[derive(Debug)]
pub struct Shaper<B> {
    bucket: TokenBucket,
    framing: Framing,
    /// A packet that left its queue and must wait, because the queue had announced a shorter one.
    staged: Option<Packet<B>>,
}

impl<B> Shaper<B> {
    /// Creates a shaper whose bucket is full.
    pub fn new(rate: Rate, burst: Bytes) -> Self {
        let bucket = TokenBucket::new(rate, burst);
        Self { bucket, framing: Framing::default(), staged: None }
    }

    /// Returns the same shaper, which counts the bytes of frames.
    #[must_use]
    pub fn framed(self, framing: Framing) -> Self {
        Self { framing, ..self }
    }

    /// Returns the packet that has left its queue and waits here, if any.
    pub fn staged(&self) -> Option<&Packet<B>> {
        self.staged.as_ref()
    }

    /// Returns the packet that waits here, for the successor of the shaper.
    pub fn into_staged(self) -> Option<Packet<B>> {
        self.staged
    }

    /// Returns the packet of `queue` to send at `now`, or when there will be one.
    #[inline]
    pub fn dequeue(
        &mut self,
        now: Time,
        queue: &mut impl Discipline<B>,
        ledger: &mut Ledger<B>,
    ) -> Dequeue<B> {
        let _ = self.bucket.fill(now);
        if self.staged.is_none() {
            if let Some(at) = queue.head(now).and_then(|head| self.not_before(head)) {
                return Dequeue::NotBefore(at);
            }
            match queue.dequeue(now, ledger) {
                Dequeue::Packet(packet) => self.staged = Some(packet),
                other => return other,
            }
        }
        let packet = self.staged.take().expect("a packet is staged");
        match self.not_before(packet.size()) {
            None => {
                self.bucket.take(self.framing.charge(packet.size()));
                Dequeue::Packet(packet)
            }
            Some(at) => {
                self.staged = Some(packet);
                Dequeue::NotBefore(at)
            }
        }
    }

    /// Returns when a packet of `size` may be sent, if not now.
    #[inline]
    fn not_before(&self, size: Bytes) -> Option<Time> {
        self.bucket.not_before(self.framing.charge(size))
    }

    /// Returns `true` if a packet of `size` need not wait at `now`.
    #[inline]
    pub fn admits(&mut self, now: Time, size: Bytes) -> bool {
        let _ = self.bucket.fill(now);
        self.not_before(size).is_none()
    }

    /// Charges for a packet of `size` that need not wait, if its queue passes it.
    #[inline]
    pub fn passed(&mut self, size: Bytes, pass: Pass) -> Pass {
        if pass == Pass::Send {
            self.bucket.take(self.framing.charge(size));
        }
        pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::packet;
    use crate::{Class, ClassService, ClassSpec, Classes, Fifo, Limit, Match, Queue, Weight};
    use perhop_core::{Dscp, Duration};
    use proptest::prelude::*;

    const BYTE: u128 = 8_000_000_000_000;

    fn rate(bps: u64) -> Rate {
        Rate::new(bps).unwrap()
    }

    /// Returns a strict class before a shared one, so that an arrival may change what goes next.
    fn two_classes() -> Queue<()> {
        let spec = |dscp: u8, service| ClassSpec {
            matches: Match { dscps: vec![Dscp::new(dscp).unwrap()], ..Match::default() }.into(),
            service,
            class: Class::new(Queue::Fifo(Fifo::new(Limit::packets(u64::MAX)))),
        };
        let shared = ClassService::Share(Weight::new(1).unwrap(), 0);
        Queue::Classes(Box::new(Classes::new(vec![spec(1, ClassService::Strict), spec(0, shared)])))
    }

    #[test]
    fn a_leaky_bucket_spaces_packets_as_a_link_does() {
        let queue = Queue::Fifo(Fifo::new(Limit::packets(10)));
        let mut class = Class::new(queue).shaped(Shaper::new(rate(8_000_000), Bytes::ZERO));
        let mut ledger = Ledger::new();
        for size in [1000, 500, 100, 40] {
            class.enqueue(Time::ZERO, packet(size, 0), &mut ledger);
        }
        let mut sent = Vec::new();
        let mut now = Time::ZERO;
        loop {
            match class.dequeue(now, &mut ledger) {
                Dequeue::Packet(_) => sent.push(now.as_picos() / 1_000_000),
                Dequeue::NotBefore(at) => now = at,
                Dequeue::Idle => break,
            }
        }
        assert_eq!(sent, [0, 1000, 1500, 1600]); // microseconds, a byte each
    }

    /// 8 Mb/s are a byte in a microsecond; the bucket holds 1000 bytes. A packet that finds the
    /// link idle passes if the bucket holds it, and costs its length unless the queue drops it. One
    /// of more than the burst needs a full bucket, and overdraws it.
    #[test]
    fn an_idle_shaper_passes_what_the_bucket_holds() {
        let limit = Limit::bytes(Bytes::new(1500));
        let mut class = Class::new(Queue::Fifo(Fifo::<()>::new(limit)))
            .shaped(Shaper::new(rate(8_000_000), Bytes::new(1000)));
        for (micros, size, expected) in [
            (0, 1501, Pass::Drop(crate::Cause::Limit)),
            (0, 600, Pass::Send), // 400 are left
            (0, 401, Pass::Enqueue),
            (0, 400, Pass::Send),
            (0, 1, Pass::Enqueue),
            (99, 100, Pass::Enqueue),
            (100, 100, Pass::Send),
            (1_099, 1500, Pass::Enqueue),
            (1_100, 1500, Pass::Send), // 500 are owed
            (1_600, 1, Pass::Enqueue),
            (1_601, 1, Pass::Send),
        ] {
            let now = Time::ZERO + Duration::from_micros(micros);
            assert_eq!(class.pass(now, &packet(size, 0).header), expected, "{micros} {size}");
        }
        let (sent, drops) = (class.counters().sent, class.counters().dropped_total());
        assert_eq!((sent.packets, sent.bytes.get(), drops), (5, 2601, 1));
    }

    proptest! {
        /// The output stays below the arrival curve to the byte, and a packet that waits could not
        /// have been sent a picosecond earlier. An eager link polls at every arrival, and at each
        /// instant that it was given.
        #[test]
        fn output_follows_the_arrival_curve(
            bps in 10_000_u64..1_000_000_000, burst in prop_oneof![Just(0), 1_u64..10_000],
            arrivals in prop::collection::vec((0_u64..3_000_000_000, 40_u32..1501, 0_u8..2), 1..80),
        ) {
            let mut class =
                Class::new(two_classes()).shaped(Shaper::new(rate(bps), Bytes::new(burst)));
            let mut ledger = Ledger::new();
            let (bps, depth) = (u128::from(bps), u128::from(burst) * BYTE);
            // The bucket as a debt: bytes sent less bytes earned, never below zero.
            let (mut debt, mut last) = (0_u128, Time::ZERO);
            let mut arrivals = arrivals.into_iter().peekable();
            let (mut now, mut next, mut due) = (Time::ZERO, Time::ZERO, Time::MAX);
            let mut waiting = 0;
            if let Some((gap, ..)) = arrivals.peek() {
                next = Time::ZERO + Duration::from_picos(*gap);
            }
            while arrivals.peek().is_some() || waiting > 0 {
                if arrivals.peek().is_some() && next <= due {
                    now = now.max(next);
                    let (_, size, dscp) = arrivals.next().unwrap();
                    class.enqueue(now, packet(size, dscp), &mut ledger);
                    waiting += 1;
                    if let Some((gap, ..)) = arrivals.peek() {
                        next = now + Duration::from_picos(*gap);
                    }
                } else {
                    now = due;
                }
                due = Time::MAX;
                while due == Time::MAX && waiting > 0 {
                    let head = class.head(now).unwrap();
                    let earned = u128::from(now.since(last).as_picos()) * bps;
                    let owed = debt.saturating_sub(earned);
                    match class.dequeue(now, &mut ledger) {
                        Dequeue::Packet(packet) => {
                            waiting -= 1;
                            let cost = u128::from(packet.size().get()) * BYTE;
                            prop_assert!(owed + cost <= depth.max(cost), "above the curve");
                            (debt, last) = (owed + cost, now);
                        }
                        Dequeue::NotBefore(at) => {
                            prop_assert!(at > now);
                            let cost = u128::from(head.get()) * BYTE;
                            let before = u128::from(at.since(last).as_picos() - 1) * bps;
                            prop_assert!(debt.saturating_sub(before) + cost > depth.max(cost));
                            due = at;
                        }
                        Dequeue::Idle => prop_assert!(false, "idle with a backlog"),
                    }
                }
            }
        }
    }
}
