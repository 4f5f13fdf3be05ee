//! Which reservations meet in time, of those that are for the same packets.

use std::collections::{BTreeMap, HashMap};

use crate::{Effort, Fit, Span, Wanted};

/// First and last port; none for all.
pub type Ports = Option<(u16, u16)>;

/// Which packets between two ends; what is none matches every packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Packets {
    /// The transport protocol, by a number of the caller's.
    pub protocol: Option<u8>,
    /// First and last port at the source, and at the destination.
    pub ports: [Ports; 2],
    /// The code point (RFC 2474).
    pub dscp: Option<u8>,
}

impl Packets {
    /// Whether some packet could be of both.
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

/// Reservations by what they are between, such as two hosts, by how long they last, and by when.
///
/// Of those that last from 2^k up to 2^(k+1) seconds, what meets a span begins less than 2^(k+1)
/// before its start, and before its end. That is a range of an ordered map, of which at least
/// about half meet the span, so that what is over or far ahead costs nothing.
#[derive(Clone, Debug, Default)]
pub struct Overlaps {
    between: HashMap<u32, BTreeMap<u32, Lane>>,
    kinds: Vec<Packets>,
    numbers: HashMap<Packets, u32>,
}

/// The end, and what it is about, by start, number, and whether it is held.
type Lane = BTreeMap<(u64, u64, bool), (u64, u32)>;

/// A reservation: number, what it is about, and when it ends.
type Entry = (u64, u32, u64);

fn kind_of(span: Span) -> u32 {
    span.seconds().ilog2()
}

impl Overlaps {
    /// The number by which something to be about is known.
    pub fn about(&mut self, packets: Packets) -> u32 {
        let next = self.kinds.len() as u32;
        let number = *self.numbers.entry(packets).or_insert(next);
        if number == next {
            self.kinds.push(packets);
        }
        number
    }

    /// Keeps reservation `id`, between some ends, about something, for a time. One reservation may
    /// be kept once between each, and once more for other terms that are `held` for it.
    pub fn add(&mut self, ends: u32, id: u64, held: bool, about: u32, span: Span) {
        let lane = self.between.entry(ends).or_default().entry(kind_of(span)).or_default();
        lane.insert((span.start(), id, held), (span.end(), about));
    }

    /// Keeps many, none of them held, each as [`add`](Self::add) does: ends, number, about what,
    /// when.
    pub fn add_all(&mut self, all: impl Iterator<Item = (u32, u64, u32, Span)>) {
        let mut new: HashMap<(u32, u32), Vec<_>> = HashMap::new();
        for (ends, id, about, span) in all {
            let lane = new.entry((ends, kind_of(span))).or_default();
            lane.push(((span.start(), id, false), (span.end(), about)));
        }
        for ((ends, kind), new) in new {
            // A map that is made of all its entries is made in the time that it takes to sort them.
            let mut new = BTreeMap::from_iter(new);
            self.between.entry(ends).or_default().entry(kind).or_default().append(&mut new);
        }
    }

    /// Takes out what [`add`](Self::add) kept with the same arguments. Whether it was there.
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

    /// The numbers of those between some ends that meet a span, by start, with what each is about
    /// and when it ends.
    pub fn meeting(&self, ends: u32, span: Span) -> Vec<Entry> {
        let mut all: Vec<(u64, Entry)> = self.entries(ends, span).flatten().collect();
        all.sort_unstable();
        all.into_iter().map(|(_, entry)| entry).collect()
    }

    /// The first in a span that is about some of the same packets as one of `lanes`, each a pair of
    /// ends and of what it is about: the number of the lane, and the reservation. Those of the
    /// number `mine` do not count, held or not.
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

    /// From when on nobody has any of the packets that are wanted, for as long.
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
                        // Whatever begins before its end meets it, as this does.
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

    /// Those between some ends that meet a span, those of about the same length together: when each
    /// starts, and the reservation.
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
