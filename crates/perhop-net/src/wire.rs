//! The transmission medium between two nodes, and its impairments.

use perhop_core::{Bytes, Duration, Overhead, Rate, Stream, Time};

use crate::gilbert::Gilbert;

/// The transmission medium from a node to another.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// Bit rate, layer-2 overhead included.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
    /// Greatest additional delay; uniformly distributed, and packets stay in order.
    pub jitter: Duration,
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
    /// Returns `true` if the arrival of a packet is known before it is sent.
    pub(crate) fn is_certain(&self) -> bool {
        self.jitter == Duration::ZERO && self.loss == 0 && self.gilbert.is_none() && self.is_plain()
    }

    /// Returns `true` if packets arrive at most once, and in order.
    pub(crate) fn is_plain(&self) -> bool {
        self.duplicate == 0 && self.reorder.is_none_or(|reorder| reorder.share == 0)
    }
}

/// Packets with additional delay, so that others overtake them.
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
}

/// Counters of a link in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets transmitted, including lost ones.
    pub packets: u64,
    /// Length of the transmitted packets, layer-2 overhead included.
    pub bytes: Bytes,
    /// Packets lost after transmission.
    pub lost: u64,
    /// Packets that arrived followed by a copy.
    pub duplicated: u64,
    /// Packets with additional delay, which others could overtake.
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
}

impl Impairments {
    /// Creates impairments that draw from `random`.
    pub const fn new(random: Stream) -> Self {
        Self { random, in_order: Time::ZERO, bad: None }
    }

    /// Returns the arrival of a packet that would arrive at `at` over a perfect wire; `None` if it
    /// is lost. Packets that are not to be reordered are not overtaken. Counts the impairments.
    #[inline]
    pub fn delay(&mut self, wire: &Wire, at: Time, counters: &mut LinkCounters) -> Option<Time> {
        if self.loses(wire) {
            counters.lost += 1;
            return None;
        }
        let mut arrival = at;
        if wire.jitter > Duration::ZERO {
            arrival += Duration::from_picos(self.random.up_to(wire.jitter.as_picos()));
        }
        // A packet with less jitter, or a shorter one, waits for those before it.
        arrival = arrival.max(self.in_order);
        self.in_order = arrival;
        if let Some(Reorder { share, by }) = wire.reorder
            && share > 0
            && self.random.chance_ppb(share)
        {
            counters.reordered += 1;
            arrival += by;
        }
        Some(arrival)
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

#[cfg(test)]
mod tests {
    use super::*;

    const PERFECT: Wire = Wire {
        rate: Rate::new(1_000_000_000).unwrap(),
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        loss: 0,
        duplicate: 0,
        reorder: None,
        gilbert: None,
        overhead: Overhead::NONE,
    };

    fn arrivals(wire: &Wire, due: &[u64]) -> (Vec<Option<u64>>, LinkCounters) {
        let mut impairments = Impairments::new(Stream::new(1, "wire"));
        let mut counters = LinkCounters::default();
        let mut delay = |&at| impairments.delay(wire, Time::from_picos(at), &mut counters);
        let arrivals = due.iter().map(|at| delay(at).map(Time::as_picos)).collect();
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
        let reorder = Reorder { share: 500_000_000, by: Duration::from_picos(1_000_000) };
        let wire = Wire { reorder: Some(reorder), ..PERFECT };
        let due: Vec<u64> = (0..1_000).collect();
        let (at, counters) = arrivals(&wire, &due);
        let late = at.iter().zip(&due).filter(|(at, due)| at.unwrap() == *due + 1_000_000).count();
        let in_time = at.iter().zip(&due).filter(|(at, due)| at.unwrap() == **due).count();
        assert_eq!((late as u64, late + in_time), (counters.reordered, 1_000));
        assert!((400..600).contains(&late), "{late}");
    }

    #[test]
    fn what_is_lost_is_counted_and_holds_up_nobody() {
        let (at, counters) = arrivals(&Wire { loss: 1_000_000_000, ..PERFECT }, &[5, 6]);
        assert_eq!((at, counters.lost), (vec![None, None], 2));
    }
}
