//! Acknowledgement of packets: which numbers have arrived, and when to say so (RFC 9000, section
//! 13.2; draft-ietf-quic-ack-frequency, section 6).

use perhop_core::{Duration, Ecn, Time};

use crate::sizes::varint;
use crate::{Ack, Ranges};

/// Greatest delay of an acknowledgement (RFC 9000, section 18.2: max_ack_delay).
pub const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

/// Number of ranges that are kept and sent (RFC 9000, section 13.2.3, leaves it open). Each adds at
/// least two bytes to every ACK frame.
const MOST_RANGES: usize = 64;

/// Frequency of acknowledgements: the fields of an ACK_FREQUENCY frame, which the sender of data
/// sends. The default is the behaviour without that frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckFrequency {
    /// Number of packets that elicit an acknowledgement and may arrive without one.
    pub threshold: u64,
    /// Greatest delay of an acknowledgement.
    pub max_delay: Duration,
    /// Number of packets after a missing one at which it is reported at once; zero for never.
    pub reordering: u64,
}

impl Default for AckFrequency {
    fn default() -> Self {
        Self { threshold: 1, max_delay: MAX_ACK_DELAY, reordering: 1 }
    }
}

impl AckFrequency {
    /// Returns the length of an ACK_FREQUENCY frame in bytes: a type of two bytes, a sequence
    /// number below 64, and the fields, the delay in microseconds.
    pub(crate) fn bytes(self) -> u16 {
        let delay = self.max_delay.as_picos() / 1_000_000;
        2 + 1 + varint(self.threshold) + varint(delay) + varint(self.reordering)
    }
}

/// Packets that have arrived, and the acknowledgement that is due.
#[derive(Clone, Debug)]
pub struct Acknowledger {
    frequency: AckFrequency,
    arrived: Ranges,
    /// Numbers below it are taken for duplicates (RFC 9000, section 13.2.3).
    floor: u64,
    /// Arrival of the largest number.
    largest_at: Time,
    /// Largest number that elicits an acknowledgement: Largest Unacked of the draft.
    largest_eliciting: Option<u64>,
    /// Largest number that was acknowledged: Largest Acked of the draft.
    largest_acked: Option<u64>,
    /// Packets that elicit an acknowledgement since the last one.
    unacked: u64,
    deadline: Time,
    now_due: bool,
    counts: [u64; 3],
    last_marked: bool,
}

impl Default for Acknowledger {
    fn default() -> Self {
        Self {
            frequency: AckFrequency::default(),
            arrived: Ranges::default(),
            floor: 0,
            largest_at: Time::ZERO,
            largest_eliciting: None,
            largest_acked: None,
            unacked: 0,
            deadline: Time::MAX,
            now_due: false,
            counts: [0; 3],
            last_marked: false,
        }
    }
}

impl Acknowledger {
    /// Sets the frequency, as an ACK_FREQUENCY frame asks.
    pub fn set_frequency(&mut self, frequency: AckFrequency) {
        self.frequency = frequency;
    }

    /// Takes a packet. Returns `false` for a duplicate.
    pub fn on_packet(&mut self, now: Time, number: u64, elicits: bool, ecn: Ecn) -> bool {
        if number < self.floor || self.arrived.insert(number, number + 1) == 0 {
            return false;
        }
        if let Some(floor) = self.arrived.limit(MOST_RANGES) {
            self.floor = floor;
        }
        if self.arrived.largest() == Some(number) {
            self.largest_at = now;
        }
        let marked = ecn == Ecn::Ce;
        match ecn {
            Ecn::NotEct => {}
            Ecn::Ect0 => self.counts[0] += 1,
            Ecn::Ect1 => self.counts[1] += 1,
            Ecn::Ce => self.counts[2] += 1,
        }
        let first_mark = !std::mem::replace(&mut self.last_marked, marked) && marked;
        if !elicits {
            return true; // acknowledged with others
        }
        let before = self.largest_eliciting;
        self.largest_eliciting = before.max(Some(number));
        self.unacked += 1;
        if self.unacked == 1 {
            self.deadline = now + self.frequency.max_delay;
        }
        // RFC 9000, section 13.2.1: all marked packets at once. The draft, section 6.3: with a
        // larger threshold, the first of several.
        let mark_counts = if self.frequency.threshold > 1 { first_mark } else { marked };
        self.now_due |= self.unacked > self.frequency.threshold
            || mark_counts
            || self.is_reordered(number, before);
        true
    }

    /// Returns `true` if a packet that arrived in disorder is acknowledged at once.
    fn is_reordered(&self, number: u64, before: Option<u64>) -> bool {
        match self.frequency.reordering {
            0 => false,
            // RFC 9000, section 13.2.1: below another packet, or above a new gap.
            1 => {
                let next = before.map_or(0, |before| before + 1);
                number < next || self.arrived.first_missing(next) < number
            }
            // The draft, section 6.2.
            threshold => {
                let largest = self.largest_eliciting.unwrap_or(number);
                let unreported = match self.largest_acked {
                    Some(acked) if acked >= threshold => acked - threshold + 1,
                    _ => 0,
                };
                let missing = self.arrived.first_missing(unreported.max(self.floor));
                missing < largest && largest - missing >= threshold
            }
        }
    }

    /// Requests an acknowledgement now.
    pub fn demand(&mut self) {
        self.now_due = self.unacked > 0;
    }

    /// Returns `true` if an acknowledgement is due.
    pub fn is_due(&self, now: Time) -> bool {
        self.now_due || self.unacked > 0 && self.deadline <= now
    }

    /// Returns `true` if packets wait for an acknowledgement.
    pub fn is_waiting(&self) -> bool {
        self.unacked > 0
    }

    /// Returns when an acknowledgement is due; [`Time::MAX`] if no packet waits for one.
    pub fn deadline(&self) -> Time {
        match (self.unacked, self.now_due) {
            (0, _) => Time::MAX,
            (_, true) => Time::ZERO,
            (_, false) => self.deadline,
        }
    }

    /// Returns the frame that is sent now.
    pub fn take(&mut self, now: Time) -> Option<Ack> {
        let largest = self.arrived.largest()?;
        (self.unacked, self.now_due, self.deadline) = (0, false, Time::MAX);
        self.largest_acked = self.largest_acked.max(Some(largest));
        Some(Ack {
            ranges: self.arrived.clone(),
            delay: now.since(self.largest_at),
            ecn: (self.counts != [0; 3]).then_some(self.counts),
        })
    }

    /// Forgets the numbers up to that of an acknowledged ACK frame (RFC 9000, section 13.2.4).
    pub fn on_ack_acked(&mut self, largest: u64) {
        // The largest number stays: it is in every frame (section 13.2.3).
        let floor = (largest + 1).min(self.arrived.largest().unwrap_or(0));
        if floor > self.floor {
            self.floor = floor;
            self.arrived.remove_below(floor);
        }
    }

    /// Returns `true` if numbers are missing between those that have arrived: acknowledgements of
    /// ACK frames would shorten the next ones.
    pub fn has_gaps(&self) -> bool {
        self.arrived.as_slice().len() > 1
    }

    /// Returns the number of packets with CE.
    pub fn marked(&self) -> u64 {
        self.counts[2]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn at(millis: u64) -> Time {
        Time::ZERO + MS(millis)
    }

    fn acknowledger(threshold: u64, reordering: u64) -> Acknowledger {
        let mut acks = Acknowledger::default();
        acks.set_frequency(AckFrequency { threshold, max_delay: MS(1000), reordering });
        acks
    }

    /// Returns the packets of `arrivals` at which an acknowledgement was sent at once.
    fn acked_at(acks: &mut Acknowledger, arrivals: &[u64]) -> Vec<u64> {
        let mut found = Vec::new();
        for &number in arrivals {
            assert!(acks.on_packet(at(0), number, true, Ecn::NotEct));
            if acks.is_due(at(0)) {
                acks.take(at(0)).unwrap();
                found.push(number);
            }
        }
        found
    }

    /// Tables of draft-ietf-quic-ack-frequency, section 6.2.1.
    #[test]
    fn reordering_thresholds_are_those_of_the_tables() {
        let mut three = acknowledger(1000, 3);
        assert_eq!(acked_at(&mut three, &[0, 1, 3, 4, 5, 8, 9, 10]), [5, 9, 10]);
        let mut five = acknowledger(1000, 5);
        assert_eq!(acked_at(&mut five, &[0, 1, 3, 5, 6, 7, 8, 9]), [7, 9]);
        let mut never = acknowledger(1000, 0);
        assert!(acked_at(&mut never, &[0, 1, 3, 4, 5, 8, 9, 10, 2]).is_empty());
    }

    /// RFC 9000, sections 13.2.1 and 13.2.2: every second packet, and packets out of order.
    #[test]
    fn without_a_frequency_every_second_packet_and_disorder_are_acknowledged() {
        let mut acks = Acknowledger::default();
        assert_eq!(acked_at(&mut acks, &[0, 1, 2, 3, 4, 6, 5, 7, 8]), [1, 3, 6, 5, 8]);
        // A gap that was reported is not reported again.
        let mut acks = Acknowledger::default();
        assert_eq!(acked_at(&mut acks, &[0, 2, 3, 4, 5]), [2, 4]);
    }

    #[test]
    fn a_packet_waits_for_no_longer_than_the_greatest_delay() {
        let mut acks = Acknowledger::default();
        acks.on_packet(at(10), 0, true, Ecn::NotEct);
        assert_eq!(acks.deadline(), at(10) + MAX_ACK_DELAY);
        assert!(!acks.is_due(at(34)) && acks.is_due(at(35)));
        let ack = acks.take(at(35)).unwrap();
        assert_eq!((ack.delay, ack.largest(), acks.deadline()), (MS(25), 0, Time::MAX));
        // Packets with acknowledgements only elicit none (section 13.2.1).
        acks.on_packet(at(40), 1, false, Ecn::NotEct);
        acks.on_packet(at(41), 3, false, Ecn::NotEct);
        assert!(!acks.is_due(at(1000)) && !acks.is_waiting());
    }

    /// RFC 9000, section 13.2.1, and the draft, section 6.3.
    #[test]
    fn marks_are_reported_at_once() {
        let marked = |threshold| {
            let mut acks = acknowledger(threshold, 1);
            let mut due = |number: u64, ecn| {
                acks.on_packet(at(0), number, true, ecn);
                acks.is_due(at(0)).then(|| acks.take(at(0)).unwrap().ecn.unwrap()[2])
            };
            [due(0, Ecn::Ce), due(1, Ecn::Ce), due(2, Ecn::Ect0), due(3, Ecn::Ce)]
        };
        assert_eq!(marked(1), [Some(1), Some(2), None, Some(3)]);
        assert_eq!(marked(10), [Some(1), None, None, Some(3)]);
    }

    proptest! {
        /// A frame acknowledges packets that arrived and no other, the latest ones first; numbers
        /// that were forgotten are duplicates.
        #[test]
        fn frames_acknowledge_only_what_arrived(
            arrivals in proptest::collection::vec(0_u64..400, 1..300),
            forget in proptest::collection::vec(any::<bool>(), 300),
        ) {
            let mut acks = Acknowledger::default();
            let mut seen = std::collections::BTreeSet::new();
            for (&number, forget) in arrivals.iter().zip(forget) {
                let new = acks.on_packet(at(0), number, true, Ecn::NotEct);
                prop_assert!(!new || seen.insert(number));
                let ack = acks.take(at(0)).unwrap();
                prop_assert_eq!(ack.largest(), *seen.last().unwrap());
                let ranges = ack.ranges.as_slice();
                prop_assert!(ranges.len() <= MOST_RANGES);
                prop_assert!(ranges.iter().all(|&(s, e)| (s..e).all(|n| seen.contains(&n))));
                prop_assert!(new || number < acks.floor || ack.ranges.contains(number));
                if forget {
                    acks.on_ack_acked(ack.largest());
                }
            }
        }
    }
}
