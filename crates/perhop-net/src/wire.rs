//! The transmission medium between two nodes, and its impairments.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use perhop_core::{Bytes, Duration, Overhead, Rate, Stream, Time};

use crate::gilbert::Gilbert;
use crate::hosts::Loss;
use crate::variation::Variation;

/// The transmission medium from a node to another.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// Bit rate, layer-2 overhead included.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
    /// Greatest additional delay; uniformly distributed, and packets stay in order.
    pub jitter: Duration,
    /// Variation of the delay, with which packets overtake each other.
    pub variation: Option<Variation>,
    /// Packets that the delay holds at the same time; it drops others. No limit if absent.
    pub delay_limit: Option<u32>,
    /// Share of packets lost at random, in parts per billion.
    pub loss: u32,
    /// Share of packets that are followed by a copy, in parts per billion.
    pub duplicate: u32,
    /// Reordering of packets.
    pub reorder: Option<Reorder>,
    /// Correlated loss, beside `loss`.
    pub gilbert: Option<Gilbert>,
    /// Layer-2 overhead of a packet.
    pub overhead: Overhead,
}

impl Wire {
    /// That behind a device without a rate: a packet takes a picosecond.
    pub(crate) const NONE: Self = Self {
        rate: Rate::new(u64::MAX).unwrap(),
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        variation: None,
        delay_limit: None,
        loss: 0,
        duplicate: 0,
        reorder: None,
        gilbert: None,
        overhead: Overhead::NONE,
    };

    /// Returns `true` if the arrival of a packet is known before it is sent.
    pub(crate) fn is_certain(&self) -> bool {
        self.jitter == Duration::ZERO
            && self.loss == 0
            && self.gilbert.is_none()
            && self.delay_limit.is_none()
            && self.is_plain()
    }

    /// Returns `true` if packets arrive at most once, in order, and not before the delay.
    pub(crate) fn is_plain(&self) -> bool {
        self.duplicate == 0
            && self.variation.is_none()
            && self.reorder.is_none_or(|reorder| reorder.share == 0)
    }
}

/// Packets with additional delay, so that others overtake them; or with `gap`, packets without the
/// delay, which overtake others (netem's `reorder` and `gap`).
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Reorder {
    /// Share of packets, in parts per billion.
    #[cfg_attr(feature = "serde", serde(with = "perhop_core::spelling::share"))]
    #[cfg_attr(feature = "serde", schemars(with = "u32"))]
    pub share: u32,
    /// Additional delay.
    pub by: Duration,
    /// If it is not zero: packets from one without the delay to the next that may be.
    #[cfg_attr(feature = "serde", serde(default))]
    pub gap: u32,
}

/// Counters of a link in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets transmitted, including lost ones.
    pub packets: u64,
    /// Length of the transmitted packets, layer-2 overhead included.
    pub bytes: Bytes,
    /// Packets lost after transmission, those that found the delay full included.
    pub lost: u64,
    /// Packets that arrived followed by a copy.
    pub duplicated: u64,
    /// Packets with additional delay, which others could overtake, and those that overtook others.
    pub reordered: u64,
}

/// Random loss, delay, reordering and duplication in one direction of a link.
#[derive(Debug)]
pub struct Impairments {
    random: Stream,
    /// Arrival of the last packet that keeps the order.
    in_order: Time,
    /// True in the bad state of correlated loss; `None` before its first packet.
    bad: Option<bool>,
    /// Delayed packets since the last one without the delay.
    delayed: u32,
    /// Arrivals of the packets in the delay, if their number is limited.
    line: BinaryHeap<Reverse<Time>>,
}

impl Impairments {
    /// Creates impairments that draw from `random`.
    pub const fn new(random: Stream) -> Self {
        Self { random, in_order: Time::ZERO, bad: None, delayed: 0, line: BinaryHeap::new() }
    }

    /// Returns the arrival of a packet that would arrive at `at` over a perfect wire, or why it is
    /// lost. Packets that are not to be reordered are not overtaken. Counts the impairments.
    ///
    /// # Errors
    /// [`Loss::Link`] if it is lost at random, and [`Loss::DelayLine`] if the delay holds as many
    /// packets as it may.
    #[inline]
    pub fn delay(
        &mut self,
        wire: &Wire,
        at: Time,
        counters: &mut LinkCounters,
    ) -> Result<Time, Loss> {
        if self.loses(wire) {
            counters.lost += 1;
            return Err(Loss::Link);
        }
        let Some(limit) = wire.delay_limit else { return Ok(self.arrival(wire, at, counters)) };
        let begin = begin_of_delay(wire, at);
        while self.line.peek().is_some_and(|Reverse(first)| *first <= begin) {
            self.line.pop();
        }
        if self.line.len() >= limit as usize {
            counters.lost += 1;
            return Err(Loss::DelayLine);
        }
        let arrival = self.arrival(wire, at, counters);
        self.line.push(Reverse(arrival));
        Ok(arrival)
    }

    #[inline]
    fn arrival(&mut self, wire: &Wire, at: Time, counters: &mut LinkCounters) -> Time {
        if let Some(Reorder { share, gap, .. }) = wire.reorder
            && gap > 0
        {
            if self.delayed + 1 >= gap && self.random.chance_ppb(share) {
                self.delayed = 0;
                counters.reordered += 1;
                return begin_of_delay(wire, at);
            }
            self.delayed = self.delayed.saturating_add(1);
        }
        let mut arrival = at;
        if wire.jitter > Duration::ZERO {
            arrival += Duration::from_picos(self.random.up_to(wire.jitter.as_picos()));
        }
        if let Some(variation) = &wire.variation {
            arrival = variation.around(at, begin_of_delay(wire, at), &mut self.random);
            if !variation.in_order {
                counters.reordered += u64::from(arrival < self.in_order);
                self.in_order = self.in_order.max(arrival);
                return self.reorder(wire, arrival, counters);
            }
        }
        // A packet with less jitter, or a shorter one, waits for those before it.
        arrival = arrival.max(self.in_order);
        self.in_order = arrival;
        self.reorder(wire, arrival, counters)
    }

    /// Returns the arrival of a packet with the additional delay of reordering, if it has any.
    #[inline]
    fn reorder(&mut self, wire: &Wire, arrival: Time, counters: &mut LinkCounters) -> Time {
        match wire.reorder {
            Some(Reorder { share, by, gap: 0 }) if share > 0 && self.random.chance_ppb(share) => {
                counters.reordered += 1;
                arrival + by
            }
            _ => arrival,
        }
    }

    /// Returns `true` if a packet is lost.
    #[inline]
    pub fn loses(&mut self, wire: &Wire) -> bool {
        if wire.loss > 0 && self.random.chance_ppb(wire.loss) {
            return true;
        }
        wire.gilbert.is_some_and(|gilbert| gilbert.loses(&mut self.bad, &mut self.random))
    }

    /// Returns `true` if a packet is followed by a copy.
    pub fn duplicates(&mut self, wire: &Wire) -> bool {
        wire.duplicate > 0 && self.random.chance_ppb(wire.duplicate)
    }
}

/// Returns the end of the transmission of a packet that would arrive at `at`.
fn begin_of_delay(wire: &Wire, at: Time) -> Time {
    Time::from_picos(at.as_picos().saturating_sub(wire.delay.as_picos()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variation::VariationDistribution;

    const PERFECT: Wire = Wire { rate: Rate::new(1_000_000_000).unwrap(), ..Wire::NONE };

    fn arrivals(wire: &Wire, due: &[u64]) -> (Vec<Option<u64>>, LinkCounters) {
        let mut impairments = Impairments::new(Stream::new(1, "wire"));
        let mut counters = LinkCounters::default();
        let mut delay = |&at| impairments.delay(wire, Time::from_picos(at), &mut counters);
        let arrivals = due.iter().map(|at| delay(at).ok().map(Time::as_picos)).collect();
        (arrivals, counters)
    }

    /// If no packet waits for the transmitter, a short packet is due before a long one sent
    /// earlier.
    #[test]
    fn nothing_overtakes_what_is_not_reordered() {
        let (at, counters) = arrivals(&PERFECT, &[50, 20, 60]);
        assert_eq!((at, counters), (vec![Some(50), Some(50), Some(60)], LinkCounters::default()));
        let jitter = Wire { jitter: Duration::from_picos(1_000), ..PERFECT };
        let due: Vec<u64> = (0..1_000).map(|n| 10 * n).collect();
        let (at, _) = arrivals(&jitter, &due);
        assert!(at.is_sorted());
        let late = |(at, due): (&Option<u64>, &u64)| at.unwrap() - due <= 1_000;
        assert!(at.iter().zip(&due).all(late));
    }

    #[test]
    fn a_reordered_packet_holds_up_nobody() {
        let reorder = Reorder { share: 500_000_000, by: Duration::from_picos(1_000_000), gap: 0 };
        let wire = Wire { reorder: Some(reorder), ..PERFECT };
        let due: Vec<u64> = (0..1_000).collect();
        let (at, counters) = arrivals(&wire, &due);
        let late = at.iter().zip(&due).filter(|(at, due)| at.unwrap() == *due + 1_000_000).count();
        let in_time = at.iter().zip(&due).filter(|(at, due)| at.unwrap() == **due).count();
        assert_eq!((late as u64, late + in_time), (counters.reordered, 1_000));
        assert!((400..600).contains(&late), "{late}");
    }

    /// 1000 packets at 100 ms and one every 10 us: 10,000 per second and no more.
    #[test]
    fn a_full_delay_drops_what_comes() {
        let delay = Duration::from_millis(100);
        let wire = Wire { delay, delay_limit: Some(1_000), ..PERFECT };
        let due: Vec<u64> = (0..100_000).map(|n| delay.as_picos() + n * 10_000_000).collect();
        let (at, counters) = arrivals(&wire, &due);
        assert_eq!(at.iter().flatten().count(), 10_000);
        assert_eq!(counters.lost, 90_000);
        // A burst, then nothing until the line is empty again.
        assert!(at[..1_000].iter().all(Option::is_some));
        assert!(at[1_000..10_000].iter().all(Option::is_none));
        assert_eq!(at[10_000], Some(due[10_000]));
    }

    /// Packets are counted that arrive before an earlier one: one every millisecond, uniform within
    /// 5 ms around 20 ms.
    #[test]
    fn packets_overtake_each_other_with_a_variation() {
        let by = Duration::from_millis(5);
        let distribution = VariationDistribution::Uniform;
        let variation = Variation { by, distribution, in_order: false };
        let delay = Duration::from_millis(20);
        let wire = Wire { delay, variation: Some(variation), ..PERFECT };
        let due: Vec<u64> = (0..20_000).map(|n| delay.as_picos() + n * 1_000_000_000).collect();
        let overtaken = |wire: &Wire, due: &[u64]| {
            let (at, counters) = arrivals(wire, due);
            let at: Vec<u64> = at.into_iter().flatten().collect();
            let overtaken =
                (1..at.len()).filter(|n| at[..*n].iter().rev().take(20).any(|b| *b > at[*n]));
            assert_eq!(counters.reordered, overtaken.count() as u64);
            counters.reordered
        };
        let reordered = overtaken(&wire, &due);
        assert!(reordered > 10_000, "{reordered}");
        // Together, and within 200 ms: two of five come without any delay, at the same instant.
        let by = Duration::from_millis(100);
        let wide = Wire { variation: Some(Variation { by, ..variation }), ..wire };
        assert!(overtaken(&wide, &[delay.as_picos(); 20]) > 10);
        let kept = Some(Variation { in_order: true, ..variation });
        let (at, counters) = arrivals(&Wire { variation: kept, ..wire }, &due);
        assert!(at.is_sorted() && counters.reordered == 0);
    }

    /// With a gap of n, a packet skips the delay after n − 1 others, or never without a share.
    #[test]
    fn every_nth_packet_skips_the_delay() {
        let delay = Duration::from_millis(20);
        for (share, gap, skips) in
            [(1_000_000_000, 5, 4), (1_000_000_000, 2, 10), (1_000_000_000, 1, 20), (0, 1, 0)]
        {
            let reorder = Some(Reorder { share, by: Duration::ZERO, gap });
            let wire = Wire { delay, reorder, ..PERFECT };
            let due: Vec<u64> = (0..20).map(|n| delay.as_picos() + n).collect();
            let (at, counters) = arrivals(&wire, &due);
            let early = |n| {
                let skips = share > 0 && n as u32 % gap == gap - 1;
                due[n] - if skips { delay.as_picos() } else { 0 }
            };
            assert_eq!(at, (0..20).map(|n| Some(early(n))).collect::<Vec<_>>(), "{gap}");
            assert_eq!(counters.reordered, skips);
        }
    }

    /// A device has no rate, and a packet passes it at once, with certainty.
    #[test]
    fn nothing_happens_behind_a_device() {
        assert!(Wire::NONE.is_certain() && Wire::NONE.is_plain());
        assert_eq!(Bytes::new(65_535) / Wire::NONE.rate, Duration::from_picos(1));
    }

    /// A draw for each question with a share, however small, and none without.
    #[test]
    fn copies_are_drawn_if_there_may_be_any() {
        for duplicate in [0, 1, 500_000_000] {
            let wire = Wire { duplicate, loss: 500_000_000, ..PERFECT };
            let mut impairments = Impairments::new(Stream::new(1, "wire"));
            let mut random = Stream::new(1, "wire");
            for number in 0..40 {
                let copied = duplicate > 0 && random.chance_ppb(duplicate);
                assert_eq!(impairments.duplicates(&wire), copied, "{duplicate} {number}");
                assert_eq!(impairments.loses(&wire), random.chance_ppb(500_000_000));
            }
        }
    }

    #[test]
    fn what_is_lost_is_counted_and_holds_up_nobody() {
        let (at, counters) = arrivals(&Wire { loss: 1_000_000_000, ..PERFECT }, &[5, 6]);
        assert_eq!((at, counters.lost), (vec![None, None], 2));
    }
}
