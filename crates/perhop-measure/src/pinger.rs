//! An application that sends echo requests, or datagrams to a port on which no process listens, and
//! records the answers.

use std::ops::RangeInclusive;

use perhop_core::{Duration, NodeId, Time, TrafficClass};
use perhop_net::IcmpError;
use serde::{Deserialize, Serialize};

/// Answer to a probe.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Round-trip time.
    pub rtt: Duration,
    /// Node that answered.
    pub node: NodeId,
    /// ICMP error; `None` for the reply to an echo request.
    pub error: Option<IcmpError>,
    /// DSCP and ECN field of the probe where it was answered; `None` if the answer does not tell.
    pub arrived: Option<TrafficClass>,
    /// DSCP and ECN field of the answer; `None` if the host does not report it.
    pub echoed: Option<TrafficClass>,
}

/// Record of a probe.
#[derive(Clone, Copy, Debug)]
pub struct ProbeRecord {
    /// Time at which it was sent.
    pub sent: Time,
    /// Time to live.
    pub ttl: u8,
    /// Answer; `None` until it arrives.
    pub answer: Option<Answer>,
}

/// Sends trains of probes: one train for each time to live in a round, evenly spaced.
#[derive(Debug)]
pub struct Pinger {
    /// Time of the first train.
    pub start: Time,
    /// Time from which on no train is sent.
    pub stop: Time,
    /// Duration of a round.
    pub every: Duration,
    /// Times to live of a round.
    pub ttls: RangeInclusive<u8>,
    /// Number of probes in a train, which are sent back to back.
    pub train: u16,
    /// Probes sent so far, and their answers.
    pub records: Vec<ProbeRecord>,
    /// Number of trains that were due so far.
    pub due: u64,
    /// Time to live with which a probe reached the destination; greater ones are not sent.
    pub reach: u8,
}

impl Pinger {
    /// Creates a sender of trains of `train` probes from `start` until `stop`, one for each time to
    /// live in a round of `every`.
    pub const fn new(
        (start, stop): (Time, Time),
        every: Duration,
        ttls: RangeInclusive<u8>,
        train: u16,
    ) -> Self {
        let reach = *ttls.end();
        Self { start, stop, every, ttls, train, records: Vec::new(), due: 0, reach }
    }

    fn trains_a_round(&self) -> u64 {
        1 + u64::from(self.ttls.end() - self.ttls.start())
    }

    /// Returns when the next train is due; [`Time::MAX`] for never.
    pub fn deadline(&self) -> Time {
        let trains = self.trains_a_round();
        let (round, train) = (self.due / trains, self.due % trains);
        let due = self.start + self.every * round + self.every / trains * train;
        if due < self.stop { due } else { Time::MAX }
    }

    /// Returns the time to live and the number of probes of the train that is due; `None` if its
    /// time to live is beyond the destination.
    pub fn next_train(&mut self) -> Option<(u8, u16)> {
        let ttl = self.ttls.start() + (self.due % self.trains_a_round()) as u8;
        self.due += 1;
        (ttl <= self.reach).then_some((ttl, self.train))
    }

    /// Records a probe that is sent now; returns its number.
    pub fn record(&mut self, now: Time, ttl: u8) -> u32 {
        self.records.push(ProbeRecord { sent: now, ttl, answer: None });
        self.records.len() as u32 - 1
    }

    /// Records an answer to a probe, from its destination or from a node before it. Only the first
    /// answer counts.
    pub fn on_answer(&mut self, sequence: u32, now: Time, from_destination: bool, answer: Answer) {
        let record = &mut self.records[sequence as usize];
        if record.answer.is_some() {
            return;
        }
        record.answer = Some(Answer { rtt: now.since(record.sent), ..answer });
        if from_destination {
            self.reach = self.reach.min(record.ttl);
        } else if record.ttl >= self.reach {
            // The path has become longer.
            self.reach = *self.ttls.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinger(ttls: RangeInclusive<u8>) -> Pinger {
        Pinger {
            start: Time::from_picos(7),
            stop: Time::MAX,
            every: Duration::from_picos(100),
            reach: *ttls.end(),
            ttls,
            train: 2,
            records: Vec::new(),
            due: 0,
        }
    }

    fn next(pinger: &mut Pinger) -> (u64, Option<u8>) {
        (pinger.deadline().as_picos(), pinger.next_train().map(|(ttl, _)| ttl))
    }

    fn answer(pinger: &mut Pinger, ttl: u8, from_destination: bool) {
        let sequence = pinger.record(Time::ZERO, ttl);
        let answer = Answer {
            rtt: Duration::ZERO,
            node: NodeId(0),
            error: None,
            arrived: None,
            echoed: None,
        };
        pinger.on_answer(sequence, Time::from_picos(9), from_destination, answer);
        assert_eq!(pinger.records[sequence as usize].answer.unwrap().rtt.as_picos(), 9);
    }

    #[test]
    fn trains_are_spread_over_a_round_without_drift() {
        let mut pinger = pinger(1..=3);
        let found: Vec<_> = (0..5).map(|_| next(&mut pinger)).collect();
        let expected = [(7, 1), (40, 2), (73, 3), (107, 1), (140, 2)];
        assert_eq!(found, expected.map(|(at, ttl)| (at, Some(ttl))));
    }

    #[test]
    fn nothing_is_sent_beyond_the_destination_until_it_is_farther() {
        let mut pinger = pinger(1..=4);
        answer(&mut pinger, 1, false);
        answer(&mut pinger, 2, true);
        let round = |pinger: &mut Pinger| [(); 4].map(|()| next(pinger).1);
        assert_eq!(round(&mut pinger), [Some(1), Some(2), None, None]);
        answer(&mut pinger, 2, false);
        assert_eq!(round(&mut pinger), [Some(1), Some(2), Some(3), Some(4)]);
    }
}
