//! What happens next.
//!
//! Most events are near: a packet arrives within microseconds or milliseconds, and only then causes
//! the next event. They are in a calendar (Brown, 1988): a ring of [`BUCKETS`] lists, each for so
//! short a stretch of time that most hold one event or none, so that taking an event and putting
//! one in cost the same whatever waits. What is due later than the ring reaches, such as a timeout,
//! waits in a heap until it does.

mod ring;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use perhop_core::Time;

use self::ring::{BUCKETS, Ring};

/// Which event: the network numbers its own and those of its hosts.
pub(crate) type EventId = u32;

/// A queue of events by time, then by order of scheduling.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// How long a bucket is: two to this power, in picoseconds.
    shift: u32,
    /// The bucket, counted from the beginning of time, of what was taken last. The ring reaches
    /// from there to [`BUCKETS`] later.
    current: u64,
    near: Ring,
    /// What is due later than the ring reaches, with the order in which it came here.
    far: BinaryHeap<Reverse<(Time, u64, EventId)>>,
    /// The bucket of the first of it, so that nobody needs to look there; [`u64::MAX`] if there is
    /// nothing.
    first_far: u64,
    /// How many events have gone there, and how many had when buckets were last judged.
    sent_far: u64,
    judged: u64,
    /// So many events are taken before the length of buckets is judged again, out of so many.
    left: u32,
    period: u32,
}

/// Buckets are 1 µs long at first.
const FIRST_SHIFT: u32 = 20;
/// The ring then reaches over half the clock, which cannot overflow so.
const LAST_SHIFT: u32 = 63 - BUCKETS.ilog2();
/// So many events are taken at least between two judgements.
const PERIOD: u32 = 4096;

impl Agenda {
    pub fn new() -> Self {
        Self {
            shift: FIRST_SHIFT,
            current: 0,
            near: Ring::new(),
            far: BinaryHeap::new(),
            first_far: u64::MAX,
            sent_far: 0,
            judged: 0,
            left: PERIOD,
            period: PERIOD,
        }
    }

    /// When the next event is due.
    pub fn peek(&self) -> Option<Time> {
        self.near.first(self.current).or_else(|| self.far.peek().map(|Reverse((at, ..))| *at))
    }

    /// Schedules an event, not before the one that was taken last.
    #[inline(always)]
    pub fn push(&mut self, at: Time, event: EventId) {
        let bucket = self.bucket(at);
        if bucket - self.current < BUCKETS {
            self.near.insert(bucket, at, event);
        } else {
            self.push_far(at, event);
        }
    }

    /// Removes the next event that is due up to `until`: when, and which it is.
    #[inline(always)]
    pub fn take(&mut self, until: Time) -> Option<(Time, EventId)> {
        let (bucket, at, event) = match self.near.take(self.current, until) {
            Some(first) => first,
            None => self.take_far(until)?,
        };
        self.current = bucket;
        if self.first_far.wrapping_sub(bucket) < BUCKETS {
            self.bring_near();
        }
        self.left -= 1;
        if self.left == 0 {
            self.judge(at);
        }
        Some((at, event))
    }

    #[inline(always)]
    fn bucket(&self, at: Time) -> u64 {
        at.as_picos() >> self.shift
    }

    #[cold]
    fn push_far(&mut self, at: Time, event: EventId) {
        let bucket = self.bucket(at);
        // What is in the past, where the ring does not reach either, would turn back the clock.
        assert!(bucket >= self.current, "event {event} is scheduled in the past");
        self.sent_far += 1;
        self.far.push(Reverse((at, self.sent_far, event)));
        self.first_far = self.first_far.min(bucket);
    }

    /// With nothing near, what is far comes near. Removes the first of it, if it is due up to
    /// `until`.
    #[cold]
    fn take_far(&mut self, until: Time) -> Option<(u64, Time, EventId)> {
        let &Reverse((at, ..)) = self.far.peek()?;
        if at > until || !self.near.is_empty() {
            return None;
        }
        self.current = self.bucket(at);
        self.bring_near();
        self.near.take(self.current, until)
    }

    /// Moves what the ring reaches by now into it. Nothing is there yet that is due so late, so
    /// that what was scheduled first stays first.
    #[cold]
    fn bring_near(&mut self) {
        self.first_far = u64::MAX;
        while let Some(&Reverse((at, _, event))) = self.far.peek() {
            let bucket = self.bucket(at);
            if bucket - self.current >= BUCKETS {
                self.first_far = bucket;
                break;
            }
            self.far.pop();
            self.near.insert(bucket, at, event);
        }
    }

    /// Makes buckets shorter where events are put before many others, and longer where that does
    /// not happen and many are out of reach.
    #[cold]
    fn judge(&mut self, now: Time) {
        let passed = self.near.take_passed();
        let sent_far = self.sent_far - self.judged;
        let few = u64::from(self.period / 8);
        if passed > 2 * few && self.shift > 0 {
            self.set_shift(now, self.shift - 1);
        } else if passed < few / 2 && sent_far > few && self.shift < LAST_SHIFT {
            self.set_shift(now, self.shift + 1);
        }
        self.judged = self.sent_far;
        // Sorting anew takes time for all that there is.
        self.period = PERIOD.max(self.near.capacity());
        self.left = self.period;
    }

    /// Sorts everything into buckets of another length.
    fn set_shift(&mut self, now: Time, shift: u32) {
        let mut near = Vec::new();
        while let Some((bucket, at, event)) = self.near.take(self.current, Time::MAX) {
            near.push((at, event));
            self.current = bucket;
        }
        self.shift = shift;
        self.current = self.bucket(now);
        // In this order, as what is far is later than all of what was near.
        for (at, event) in near {
            self.push(at, event);
        }
        self.bring_near();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Against a sorted set, over a long mixture of operations, with `ahead` as what lies between
    /// an event and what it causes.
    fn check(seed: u64, steps: u64, ahead: impl Fn(&mut perhop_core::Stream) -> u64) -> Agenda {
        let mut random = perhop_core::Stream::new(seed, "agenda");
        let mut agenda = Agenda::new();
        let mut expected: BTreeSet<(Time, u64, EventId)> = BTreeSet::new();
        let mut now = Time::ZERO;
        for order in 0..steps {
            let event = random.up_to(u32::MAX.into()) as EventId;
            let first = expected.first().copied();
            if random.up_to(1) == 0 {
                assert_eq!(agenda.peek(), first.map(|(at, ..)| at));
            }
            // Three events in flight for one taken, and then as many again.
            if random.up_to(9) < if expected.len() < 1000 { 4 } else { 6 } {
                let until = Time::from_picos(now.as_picos() + ahead(&mut random));
                let due = first.filter(|(at, ..)| *at <= until);
                assert_eq!(agenda.take(until), due.map(|(at, _, event)| (at, event)));
                due.map(|first| expected.remove(&first));
                now = due.map_or(until, |(at, ..)| at);
            } else {
                let at = Time::from_picos(now.as_picos() + ahead(&mut random));
                expected.insert((at, order, event));
                agenda.push(at, event);
            }
        }
        while let Some((at, _, event)) = expected.pop_first() {
            assert_eq!(agenda.take(Time::MAX), Some((at, event)));
        }
        assert_eq!(agenda.take(Time::MAX), None);
        assert_eq!(agenda.peek(), None);
        agenda
    }

    #[test]
    fn events_come_by_time_and_then_in_order_of_scheduling() {
        for seed in 0..20 {
            // A few instants near each other, all at one instant, and spans from a picosecond to a
            // minute.
            check(seed, 10_000, |random| random.up_to(50));
            check(seed, 10_000, |_| 0);
            check(seed, 10_000, |random| 1 << random.up_to(46) | random.up_to(3));
        }
    }

    #[test]
    fn buckets_become_shorter_where_many_events_are_near() {
        let agenda = check(1, 200_000, |random| random.up_to(100_000));
        assert!(agenda.shift < FIRST_SHIFT, "{}", agenda.shift);
    }

    #[test]
    fn buckets_become_longer_where_most_events_are_far() {
        let agenda = check(1, 200_000, |random| random.up_to(1 << 44));
        assert!(agenda.shift > FIRST_SHIFT, "{}", agenda.shift);
    }

    #[test]
    fn the_end_of_time_is_an_instant_like_others() {
        let mut agenda = Agenda::new();
        agenda.push(Time::MAX, 1);
        agenda.push(Time::ZERO, 2);
        agenda.push(Time::MAX, 3);
        assert_eq!(agenda.take(Time::MAX), Some((Time::ZERO, 2)));
        assert_eq!(agenda.take(Time::MAX), Some((Time::MAX, 1)));
        assert_eq!(agenda.take(Time::MAX), Some((Time::MAX, 3)));
        assert_eq!(agenda.take(Time::MAX), None);
    }
}
