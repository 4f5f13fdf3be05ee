//! The agenda: future events in order of time.
//!
//! Most events are near: a packet arrives within microseconds or milliseconds, and only then causes
//! the next event. They are in a calendar queue (Brown, 1988): a ring of [`BUCKETS`] lists, each
//! for a span so short that most lists hold one event or none. The cost of inserting and removing
//! an event is then independent of their number. Events beyond the end of the ring, such as
//! timeouts, are in lists for longer spans until the ring reaches them.
//!
//! Events of the same instant come in order of their ids, whenever they were scheduled. Parts of a
//! network, each with its own agenda, then process their events in the order of the whole.

mod far;
mod ring;

use perhop_core::Time;

use self::far::Far;
use self::ring::{BUCKETS, Ring};

/// Identifies an event: the network numbers its own and those of its hosts.
pub(crate) type EventId = u32;

/// A queue of events, ordered by time, then by id.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Length of a bucket: binary logarithm, in picoseconds.
    shift: u32,
    /// Bucket of the last removed event, counted from time zero.
    current: u64,
    /// Events of the span of that bucket, and of the next one.
    near: Ring,
    /// First bucket of the next span, and first bucket after it.
    next: u64,
    end: u64,
    /// Events of all later spans.
    far: Far,
    /// Number of events inserted there, and this number when the bucket length was last checked.
    sent_far: u64,
    judged: u64,
    /// Number of events to remove before the bucket length is checked again, and the length of this
    /// period.
    left: u32,
    period: u32,
}

/// Length of a span in buckets, as binary logarithm: the ring has room for two.
const SPAN: u32 = BUCKETS.ilog2() - 1;
/// Initial length of buckets, 1 µs.
const FIRST_SHIFT: u32 = 20;
/// Greatest length of buckets: the ring extends over half the clock, so that sums do not overflow.
const LAST_SHIFT: u32 = 63 - BUCKETS.ilog2();
/// Least number of events between two checks of the bucket length.
const PERIOD: u32 = 4096;

impl Agenda {
    pub fn new() -> Self {
        Self {
            shift: FIRST_SHIFT,
            current: 0,
            near: Ring::new(),
            next: 1 << SPAN,
            end: BUCKETS,
            far: Far::default(),
            sent_far: 0,
            judged: 0,
            left: PERIOD,
            period: PERIOD,
        }
    }

    /// Returns the time of the next event.
    pub fn peek(&self) -> Option<Time> {
        self.near.first(self.current).or_else(|| self.far.first())
    }

    /// Schedules an event, which must not be before the last removed one.
    #[inline(always)]
    pub fn push(&mut self, at: Time, event: EventId) {
        let bucket = self.bucket(at);
        if bucket.wrapping_sub(self.current) < self.end - self.current {
            self.near.insert(bucket, at, event);
        } else {
            self.push_far(at, event);
        }
    }

    /// Removes the next event that is due up to `until`; returns its time and its id.
    #[inline(always)]
    pub fn take(&mut self, until: Time) -> Option<(Time, EventId)> {
        let (bucket, at, event) = match self.near.take(self.current, until) {
            Some(first) => first,
            None => self.take_far(until)?,
        };
        self.current = bucket;
        if bucket >= self.next {
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
        // An event in the past is outside the ring, too, and would set the clock back.
        assert!(bucket >= self.current, "event {event} is scheduled in the past");
        self.sent_far += 1;
        self.far.insert(bucket >> SPAN, at, event);
    }

    /// Removes the first far event if the ring is empty and the event is due up to `until`.
    #[cold]
    fn take_far(&mut self, until: Time) -> Option<(u64, Time, EventId)> {
        let at = self.far.first().filter(|at| *at <= until && self.near.is_empty())?;
        self.current = self.bucket(at);
        self.bring_near();
        self.near.take(self.current, until)
    }

    /// Turns the ring to the present span; returns the number of the next one.
    fn turn(&mut self) -> u64 {
        let next = (self.current >> SPAN) + 1;
        self.next = next.saturating_mul(1 << SPAN);
        self.end = (next + 1).saturating_mul(1 << SPAN);
        next
    }

    /// Moves the events of the present span and the next one into the ring.
    #[cold]
    fn bring_near(&mut self) {
        let next = self.turn();
        while let Some(mut events) = self.far.take(next) {
            for (at, event) in events.drain(..) {
                self.near.insert(self.bucket(at), at, event);
            }
            self.far.reuse(events);
        }
    }

    /// Shortens buckets if events are inserted before many others, and lengthens them if that does
    /// not happen and many events are beyond the ring.
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
        // The cost of sorting again is proportional to the number of events.
        self.period = PERIOD.max(self.near.capacity()).max(self.far.len() as u32);
        self.left = self.period;
    }

    /// Sorts all events into buckets of another length.
    fn set_shift(&mut self, now: Time, shift: u32) {
        let mut events = Vec::new();
        while let Some((bucket, at, event)) = self.near.take(self.current, Time::MAX) {
            events.push((at, event));
            self.current = bucket;
        }
        let far = std::mem::take(&mut self.far);
        self.shift = shift;
        self.current = self.bucket(now);
        self.turn();
        self.near.forget_order();
        events.into_iter().chain(far.into_events()).for_each(|(at, event)| self.push(at, event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Compares the agenda with a sorted set over a long mixture of operations; `ahead` draws the
    /// time between an event and one that it causes.
    fn check(seed: u64, steps: u64, ahead: impl Fn(&mut perhop_core::Stream) -> u64) -> Agenda {
        let mut random = perhop_core::Stream::new(seed, "agenda");
        let mut agenda = Agenda::new();
        let mut expected: BTreeSet<(Time, EventId, u64)> = BTreeSet::new();
        let mut now = Time::ZERO;
        for order in 0..steps {
            // Some twice: a timer may be set again for the same instant.
            let event = random.up_to(99) as EventId;
            let first = expected.first().copied();
            if random.up_to(1) == 0 {
                assert_eq!(agenda.peek(), first.map(|(at, ..)| at));
            }
            // Three events in flight for one taken, and then as many again.
            if random.up_to(9) < if expected.len() < 1000 { 4 } else { 6 } {
                let until = Time::from_picos(now.as_picos() + ahead(&mut random));
                let due = first.filter(|(at, ..)| *at <= until);
                assert_eq!(agenda.take(until), due.map(|(at, event, _)| (at, event)));
                due.map(|first| expected.remove(&first));
                now = due.map_or(until, |(at, ..)| at);
            } else {
                let at = Time::from_picos(now.as_picos() + ahead(&mut random));
                expected.insert((at, event, order));
                agenda.push(at, event);
            }
        }
        while let Some((at, event, _)) = expected.pop_first() {
            assert_eq!(agenda.take(Time::MAX), Some((at, event)));
        }
        assert_eq!(agenda.take(Time::MAX), None);
        assert_eq!(agenda.peek(), None);
        agenda
    }

    #[test]
    fn events_come_by_time_and_then_by_id() {
        for seed in 0..20 {
            // A few instants near each other, a single instant, and spans from a picosecond to a
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

    /// A bucket is at first 2²⁰ ps long, and never so long that the ring exceeds half the clock. A
    /// span is half of the ring.
    #[test]
    fn the_ring_begins_with_buckets_of_a_microsecond() {
        let agenda = Agenda::new();
        assert_eq!((agenda.shift, agenda.next, agenda.end), (20, 2_048, 4_096));
        assert_eq!((agenda.left, agenda.period, agenda.near.passed), (4_096, 4_096, 0));
        assert_eq!(BUCKETS << LAST_SHIFT, 1 << 63);
    }

    /// The ring keeps as many entries as there were events at a time.
    #[test]
    fn entries_of_the_ring_are_used_again() {
        let mut agenda = Agenda::new();
        for round in 0..20 {
            let at = |event: u64| Time::from_picos(round * 1_000 + event);
            [2, 0, 1].into_iter().for_each(|event| agenda.push(at(event), event as EventId));
            for event in 0..3 {
                assert_eq!(agenda.take(Time::MAX), Some((at(event), event as EventId)));
            }
        }
        assert_eq!(agenda.near.capacity(), 3);
    }

    /// The ring has the present span, whose buckets are removed, and the next one.
    #[test]
    fn the_ring_turns_by_a_span() {
        let mut agenda = Agenda::new();
        for (bucket, next, end) in [
            (7, 2_048, 4_096),
            (2_047, 2_048, 4_096),
            (2_048, 4_096, 6_144),
            (4_095, 4_096, 6_144),
            (10_000, 10_240, 12_288),
        ] {
            agenda.push(Time::from_picos(bucket << FIRST_SHIFT), 0);
            agenda.take(Time::MAX);
            assert_eq!((agenda.current, agenda.next, agenda.end), (bucket, next, end));
        }
    }

    /// The length of buckets is halved if more than a quarter as many events as were removed were
    /// passed by later ones, and doubled if less than a sixteenth were and more than an eighth as
    /// many went beyond the ring.
    #[test]
    fn buckets_change_if_many_events_pass_others_or_go_far() {
        for (shift, passed, far, expected) in [
            (20, 1_024, 0, 20),
            (20, 1_025, 0, 19),
            (20, 1_025, 600, 19),
            (1, 1_025, 0, 0),
            (0, 1_025, 0, 0),
            (20, 255, 512, 20),
            (20, 255, 513, 21),
            (20, 256, 513, 20),
            (LAST_SHIFT - 1, 0, 513, LAST_SHIFT),
            (LAST_SHIFT, 0, 513, LAST_SHIFT),
        ] {
            let mut agenda = Agenda::new();
            // Beyond a ring of the initial length.
            (0..far).for_each(|event| agenda.push(Time::MAX, event));
            agenda.shift = shift;
            agenda.near.passed = passed;
            agenda.judge(Time::ZERO);
            assert_eq!(agenda.shift, expected, "{shift} {passed} {far}");
            // What was counted does not count again.
            agenda.shift = 20;
            agenda.near.passed = 0;
            agenda.judge(Time::ZERO);
            assert_eq!(agenda.shift, 20, "{shift} {passed} {far}");
        }
    }

    /// Near and far events: the period is as long as the longer list.
    #[test]
    fn checks_become_rarer_with_the_number_of_events() {
        for (near, far, expected) in
            [(0, 0, 4_096), (4_096, 9, 4_096), (5_000, 9, 5_000), (9, 6_000, 6_000)]
        {
            let mut agenda = Agenda::new();
            (0..near).for_each(|event| agenda.push(Time::ZERO, event));
            (0..far).for_each(|event| agenda.push(Time::MAX, event));
            agenda.near.passed = 512; // no change
            agenda.judge(Time::ZERO);
            assert_eq!((agenda.period, agenda.left), (expected, expected), "{near} {far}");
        }
    }

    /// Each would otherwise pass all others of the instant, which takes minutes.
    #[test]
    fn events_of_the_present_instant_move_to_other_buckets_at_once() {
        const EVENTS: EventId = 300_000;
        let mut agenda = Agenda::new();
        (0..EVENTS).rev().for_each(|event| agenda.push(Time::ZERO, event));
        for event in 0..EVENTS {
            assert_eq!(agenda.take(Time::MAX), Some((Time::ZERO, event)));
            if event == 9 {
                agenda.set_shift(Time::ZERO, FIRST_SHIFT + 1);
            }
        }
    }

    #[test]
    fn the_end_of_time_is_an_instant_like_others() {
        let mut agenda = Agenda::new();
        agenda.push(Time::MAX, 3);
        agenda.push(Time::ZERO, 2);
        agenda.push(Time::MAX, 1);
        assert_eq!(agenda.take(Time::MAX), Some((Time::ZERO, 2)));
        assert_eq!(agenda.take(Time::MAX), Some((Time::MAX, 1)));
        assert_eq!(agenda.take(Time::MAX), Some((Time::MAX, 3)));
        assert_eq!(agenda.take(Time::MAX), None);
    }
}
