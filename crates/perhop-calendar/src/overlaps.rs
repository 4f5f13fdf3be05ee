//! An index of reservations by time and by the packets that they apply to.

use std::collections::{BTreeMap, HashMap};

use crate::{Effort, Fit, Span, Wanted};

/// First and last port; `None` for all ports.
pub type Ports = Option<(u16, u16)>;

/// A selector of packets; a field of `None` matches all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    /// Transport protocol, by a number that the caller defines.
    pub protocol: Option<u8>,
    /// Ports at the source, and at the destination.
    pub ports: [Ports; 2],
    /// DSCP (RFC 2474).
    pub dscp: Option<u8>,
}

impl Selector {
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

/// The packets of a selector between two ends, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketSet {
    /// Number of the ends, which the caller assigns.
    pub ends: u32,
    /// Number of the selector in [`Overlaps`].
    pub selector: u32,
}

/// Reservations by their ends (such as two hosts), by duration and by start.
///
/// A reservation that lasts from 2^k to 2^(k+1) seconds and overlaps with a span begins less than
/// 2^(k+1) seconds before the span's start, and before its end. That is a range of an ordered map.
/// About half of the range or more does overlap, so that past and future reservations cost nothing.
#[derive(Clone, Debug, Default)]
pub struct Overlaps {
    between: HashMap<u32, BTreeMap<u32, ByStart>>,
    selectors: Vec<Selector>,
    numbers: HashMap<Selector, u32>,
}

/// End and number of the selector, by start, number of the reservation, and whether it is a hold.
type ByStart = BTreeMap<(u64, u64, bool), (u64, u32)>;

/// A reservation: its number, the number of its selector, and its end.
type Entry = (u64, u32, u64);

fn kind_of(span: Span) -> u32 {
    span.seconds().ilog2()
}

impl Overlaps {
    /// Returns the number of a selector, which is assigned at the first call.
    pub fn number(&mut self, selector: Selector) -> u32 {
        let next = self.selectors.len() as u32;
        let number = *self.numbers.entry(selector).or_insert(next);
        if number == next {
            self.selectors.push(selector);
        }
        number
    }

    /// Adds reservation `id` for the packets of a selector between `ends`. A reservation may be
    /// added once for each `ends`, and once more with `held` for its hold.
    pub fn add(&mut self, ends: u32, id: u64, held: bool, selector: u32, span: Span) {
        let group = self.between.entry(ends).or_default().entry(kind_of(span)).or_default();
        group.insert((span.start(), id, held), (span.end(), selector));
    }

    /// Adds reservations that are not holds: ends, number, number of the selector, span.
    pub fn add_all(&mut self, all: impl Iterator<Item = (u32, u64, u32, Span)>) {
        let mut new: HashMap<(u32, u32), Vec<_>> = HashMap::new();
        for (ends, id, selector, span) in all {
            let group = new.entry((ends, kind_of(span))).or_default();
            group.push(((span.start(), id, false), (span.end(), selector)));
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
        let Some(groups) = self.between.get_mut(&ends) else { return false };
        let Some(group) = groups.get_mut(&kind_of(span)) else { return false };
        let found = group.remove(&(span.start(), id, held)).is_some();
        if group.is_empty() {
            groups.remove(&kind_of(span));
        }
        if groups.is_empty() {
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

    /// Returns the first reservation in a span that shares packets with one of `sets`: the index of
    /// the set, and the reservation. Ignores reservation `mine` and its hold.
    pub fn claim(
        &self,
        sets: &[PacketSet],
        mine: Option<u64>,
        span: Span,
    ) -> Option<(usize, Entry)> {
        let firsts = sets.iter().enumerate().flat_map(|(number, &PacketSet { ends, selector })| {
            self.entries(ends, span).filter_map(move |mut group| {
                let (start, entry) =
                    group.find(|(_, entry)| self.is_in_way(entry, selector, mine))?;
                Some(((start, entry.0), (number, entry)))
            })
        });
        firsts.min_by_key(|&(first, _)| first).map(|(_, found)| found)
    }

    /// Returns the earliest start at which no other reservation has any of the wanted packets for
    /// the wanted duration.
    pub(crate) fn unclaimed(&self, wanted: &Wanted<'_>, start: u64, effort: &mut Effort) -> Fit {
        let &Wanted { sets, mine, seconds, within, .. } = wanted;
        let mut start = start;
        while let Some(span) =
            Span::new(start, start + seconds).filter(|span| span.end() <= within.end())
        {
            let (mut next, mut looked) = (start, 1);
            for &PacketSet { ends, selector } in sets {
                for (_, entry) in self.entries(ends, span).flatten() {
                    looked += 1;
                    if entry.2 > next && self.is_in_way(&entry, selector, mine) {
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

    fn is_in_way(&self, &(id, theirs, _): &Entry, selector: u32, mine: Option<u64>) -> bool {
        let selectors = &self.selectors;
        mine != Some(id) && selectors[theirs as usize].overlap(&selectors[selector as usize])
    }

    /// Returns the reservations between `ends` that overlap with a span, grouped by duration: the
    /// start of each, and the reservation.
    fn entries(
        &self,
        ends: u32,
        span: Span,
    ) -> impl Iterator<Item = impl Iterator<Item = (u64, Entry)>> {
        self.between.get(&ends).into_iter().flatten().map(move |(&kind, group)| {
            let earliest = span.start().saturating_sub(2 << kind);
            group
                .range((earliest, 0, false)..(span.end(), 0, false))
                .filter(move |&(_, &(end, _))| end > span.start())
                .map(|(&(start, id, _), &(end, selector))| (start, (id, selector, end)))
        })
    }
}
