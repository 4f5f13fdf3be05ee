//! Which reservations meet in time, of those that could be for the same packets.

use std::collections::{BTreeMap, HashMap};

use crate::Span;

/// Reservations by what they are between, such as two hosts, and by when.
///
/// What is looked up begins after the span's start less the longest that is kept between the same
/// ends, and before the span's end. That is a range of an ordered map, so that those which are over
/// or far ahead cost nothing.
#[derive(Clone, Debug, Default)]
pub struct Overlaps {
    between: HashMap<u32, Lane>,
}

#[derive(Clone, Debug, Default)]
struct Lane {
    /// The end, and what it is about, by start and number.
    entries: BTreeMap<(u64, u64), (u64, u32)>,
    /// At least the length of the longest.
    longest: u64,
}

impl Overlaps {
    /// Keeps reservation `id`, between some ends, about something, for a time. One reservation may
    /// be kept once between each.
    pub fn add(&mut self, ends: u32, id: u64, about: u32, span: Span) {
        let lane = self.between.entry(ends).or_default();
        lane.longest = lane.longest.max(span.seconds());
        lane.entries.insert((span.start(), id), (span.end(), about));
    }

    /// Keeps many, each as [`add`](Self::add) does: ends, number, about what, when.
    pub fn add_all(&mut self, all: impl Iterator<Item = (u32, u64, u32, Span)>) {
        let mut between: HashMap<u32, Vec<_>> = HashMap::new();
        for (ends, id, about, span) in all {
            between.entry(ends).or_default().push(((span.start(), id), (span.end(), about)));
        }
        for (ends, new) in between {
            let lane = self.between.entry(ends).or_default();
            let longest = new.iter().map(|&((start, _), (end, _))| end - start).max();
            lane.longest = lane.longest.max(longest.unwrap_or(0));
            // A map that is made of all its entries is made in the time that it takes to sort them.
            let mut new = BTreeMap::from_iter(new);
            lane.entries.append(&mut new);
        }
    }

    /// Takes out what [`add`](Self::add) kept with the same arguments. Whether it was there.
    pub fn remove(&mut self, ends: u32, id: u64, span: Span) -> bool {
        let Some(lane) = self.between.get_mut(&ends) else { return false };
        let found = lane.entries.remove(&(span.start(), id)).is_some();
        if lane.entries.is_empty() {
            self.between.remove(&ends);
        }
        found
    }

    /// The numbers of those between some ends that meet a span, by start, with what each is about
    /// and when it ends.
    pub fn meeting(&self, ends: u32, span: Span) -> Vec<(u64, u32, u64)> {
        let Some(lane) = self.between.get(&ends) else { return Vec::new() };
        let earliest = span.start().saturating_sub(lane.longest);
        lane.entries
            .range((earliest, 0)..(span.end(), 0))
            .filter(|&(_, &(end, _))| end > span.start())
            .map(|(&(_, id), &(end, about))| (id, about, end))
            .collect()
    }
}
