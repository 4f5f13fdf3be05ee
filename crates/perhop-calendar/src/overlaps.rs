//! An index of reservations by time and by the packets that they apply to.

use std::collections::{BTreeMap, HashMap};

use crate::{Effort, Fit, Span, Wanted};

/// First and last port; `None` for all ports.
pub type Ports = Option<(u16, u16)>;

/// A selector of packets between two ends; a field of `None` matches all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Packets {
    /// Transport protocol, by a number that the caller defines.
    pub protocol: Option<u8>,
    /// Ports at the source, and at the destination.
    pub ports: [Ports; 2],
    /// DSCP (RFC 2474).
    pub dscp: Option<u8>,
}

impl Packets {
    /// Returns `true` if a packet can match both selectors.
    pub fn overlap(&self, other: &Self) -> bool {
        let same = |one: Option<u8>, other: Option<u8>| match (one, other) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        let meet = |(one, other): (&Ports, &Ports)| match (one, other) {
            (Some(one), Some(other)) => one.0 <= other.1 && other.0 <= one.1,
            _ => true,
        };
        same(self.protocol, other.protocol)
            && same(self.dscp, other.dscp)
            && self.ports.iter().zip(&other.ports).all(meet)
    }
}

/// Reservations by their ends (such as two hosts), by duration and by start.
///
/// A reservation that lasts from 2^k to 2^(k+1) seconds and overlaps with a span begins less than
/// 2^(k+1) seconds before the span's start, and before its end. That is a range of an ordered map.
/// About half of the range or more does overlap, so that past and future reservations cost nothing.
#[derive(Clone, Debug, Default)]
pub struct Overlaps {
    between: HashMap<u32, BTreeMap<u32, Lane>>,
    kinds: Vec<Packets>,
    numbers: HashMap<Packets, u32>,
}

/// End and number of the packets, by start, number of the reservation, and whether it is a hold.
type Lane = BTreeMap<(u64, u64, bool), (u64, u32)>;

/// A reservation: its number, the number of its packets, and its end.
type Entry = (u64, u32, u64);

fn kind_of(span: Span) -> u32 {
    span.seconds().ilog2()
}

impl Overlaps {
    /// Returns the number of a selector of packets, which is assigned at the first call.
    pub fn about(&mut self, packets: Packets) -> u32 {
        let next = self.kinds.len() as u32;
        let number = *self.numbers.entry(packets).or_insert(next);
        if number == next {
            self.kinds.push(packets);
        }
        number
    }

    /// Adds reservation `id` for packets `about` between `ends`. A reservation may be added once
    /// for each `ends`, and once more with `held` for its hold.
    pub fn add(&mut self, ends: u32, id: u64, held: bool, about: u32, span: Span) {
        let lane = self.between.entry(ends).or_default().entry(kind_of(span)).or_default();
        lane.insert((span.start(), id, held), (span.end(), about));
    }

    /// Adds reservations that are not holds: ends, number, number of the packets, span.
    pub fn add_all(&mut self, all: impl Iterator<Item = (u32, u64, u32, Span)>) {
        let mut new: HashMap<(u32, u32), Vec<_>> = HashMap::new();
        for (ends, id, about, span) in all {
            let lane = new.entry((ends, kind_of(span))).or_default();
            lane.push(((span.start(), id, false), (span.end(), about)));
        }
        for ((ends, kind), new) in new {
            // To build a map from all its entries takes no longer than to sort them.
            let mut new = BTreeMap::from_iter(new);
            self.between.entry(ends).or_default().entry(kind).or_default().append(&mut new);
        }
    }

    /// Removes an entry that [`add`](Self::add) made with the same arguments. Returns `true` if it
    /// was there.
    pub fn remove(&mut self, ends: u32, id: u64, held: bool, span: Span) -> bool {
        let Some(lanes) = self.between.get_mut(&ends) else { return false };
        let Some(lane) = lanes.get_mut(&kind_of(span)) else { return false };
        let found = lane.remove(&(span.start(), id, held)).is_some();
        if lane.is_empty() {
            lanes.remove(&kind_of(span));
        }
        if lanes.is_empty() {
            self.between.remove(&ends);
        }
        found
    }

    /// Returns the reservations between `ends` that overlap with a span, ordered by start.
    pub fn meeting(&self, ends: u32, span: Span) -> Vec<Entry> {
        let mut all: Vec<(u64, Entry)> = self.entries(ends, span).flatten().collect();
        all.sort_unstable();
        all.into_iter().map(|(_, entry)| entry).collect()
    }

    /// Returns the first reservation in a span that shares packets with one of `lanes`, pairs of
    /// ends and number of packets: the index of the lane, and the reservation. Ignores reservation
    /// `mine` and its hold.
    pub fn claim(
        &self,
        lanes: &[(u32, u32)],
        mine: Option<u64>,
        span: Span,
    ) -> Option<(usize, Entry)> {
        let firsts = lanes.iter().enumerate().flat_map(|(number, &(ends, about))| {
            self.entries(ends, span).filter_map(move |mut lane| {
                let (start, entry) = lane.find(|(_, entry)| self.is_in_way(entry, about, mine))?;
                Some(((start, entry.0), (number, entry)))
            })
        });
        firsts.min_by_key(|&(first, _)| first).map(|(_, found)| found)
    }

    /// Returns the earliest start at which no other reservation has any of the wanted packets for
    /// the wanted duration.
    pub(crate) fn unclaimed(&self, wanted: &Wanted<'_>, start: u64, effort: &mut Effort) -> Fit {
        let &Wanted { lanes, mine, seconds, within, .. } = wanted;
        let mut start = start;
        while let Some(span) =
            Span::new(start, start + seconds).filter(|span| span.end() <= within.end())
        {
            let (mut next, mut looked) = (start, 1);
            for &(ends, about) in lanes {
                for (_, entry) in self.entries(ends, span).flatten() {
                    looked += 1;
                    if entry.2 > next && self.is_in_way(&entry, about, mine) {
                        // A start before the end of this entry would overlap with it.
                        next = entry.2;
                    }
                }
            }
            if next == start {
                return Fit::at(start);
            }
            start = next;
            if !effort.spend(looked) {
                return Fit::none_before(start);
            }
        }
        Fit::none_before(within.end())
    }

    fn is_in_way(&self, &(id, theirs, _): &Entry, about: u32, mine: Option<u64>) -> bool {
        let kinds = &self.kinds;
        mine != Some(id) && kinds[theirs as usize].overlap(&kinds[about as usize])
    }

    /// Returns the reservations between `ends` that overlap with a span, grouped by duration: the
    /// start of each, and the reservation.
    fn entries(
        &self,
        ends: u32,
        span: Span,
    ) -> impl Iterator<Item = impl Iterator<Item = (u64, Entry)>> {
        self.between.get(&ends).into_iter().flatten().map(move |(&kind, lane)| {
            let earliest = span.start().saturating_sub(2 << kind);
            lane.range((earliest, 0, false)..(span.end(), 0, false))
                .filter(move |&(_, &(end, _))| end > span.start())
                .map(|(&(start, id, _), &(end, about))| (start, (id, about, end)))
        })
    }
}
