//! From when on something fits: a search that jumps from one change of the calendar to the next,
//! and looks at so much and no more.

use crate::{Calendar, Overlaps, Refusal, Span};

/// How much a search may look at: steps of levels, sixteen slots, or reservations.
///
/// A calendar can be full of gaps that are all a second too short, one after the other for years. A
/// search that has looked at so much says how far it came, instead of keeping everybody waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort(pub u64);

impl Effort {
    /// What one question may take, a millisecond or less on a processor of 2020.
    pub const QUESTION: Self = Self(150_000);

    /// Takes so much of it. Whether there was as much.
    pub(crate) fn spend(&mut self, much: u64) -> bool {
        let enough = self.0 >= much;
        self.0 = self.0.saturating_sub(much);
        enough
    }
}

/// The answer of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// From when on it fits; none if it was not found.
    pub start: Option<u64>,
    /// It does not begin to fit before this instant.
    pub searched: u64,
}

impl Fit {
    pub(crate) fn at(start: u64) -> Self {
        Self { start: Some(start), searched: start }
    }

    pub(crate) fn none_before(searched: u64) -> Self {
        Self { start: None, searched }
    }
}

/// What is looked for.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// The links of each way that it may take.
    pub ways: &'a [Vec<u32>],
    /// The class in which it takes part of them.
    pub class: Option<u32>,
    /// Between when it begins and ends.
    pub within: Span,
    /// How long it lasts.
    pub seconds: u64,
    /// How much, in bits per second.
    pub rate: u64,
    /// Which packets, by the ends between which they go.
    pub lanes: &'a [(u32, u32)],
    /// The booking that it is to replace, if any: neither what that takes nor what is held for it
    /// is in the way.
    pub mine: Option<u64>,
}

impl Wanted<'_> {
    /// From when on one of the ways has room, while nobody else has the packets.
    ///
    /// # Errors
    /// [`Refusal`] if there are no such links.
    pub fn find(
        &self,
        calendar: &mut Calendar,
        overlaps: &Overlaps,
        effort: &mut Effort,
    ) -> Result<Fit, Refusal> {
        calendar.without(self.mine, |calendar| self.search(calendar, overlaps, effort))
    }

    fn search(
        &self,
        calendar: &Calendar,
        overlaps: &Overlaps,
        effort: &mut Effort,
    ) -> Result<Fit, Refusal> {
        let mut within = self.within;
        loop {
            let room = self.room(calendar, within, effort)?;
            let Some(start) = room.start else { return Ok(room) };
            let free = overlaps.unclaimed(self, start, effort);
            if free.start == Some(start) || free.start.is_none() {
                return Ok(free);
            }
            match Span::new(free.searched, self.within.end()) {
                Some(later) => within = later,
                None => return Ok(Fit::none_before(self.within.end())),
            }
        }
    }

    /// From when on one of the ways has room.
    fn room(&self, calendar: &Calendar, within: Span, effort: &mut Effort) -> Result<Fit, Refusal> {
        let mut best: Option<u64> = None;
        let mut searched = within.end();
        for (number, way) in self.ways.iter().enumerate() {
            // Later than what was found is of no use.
            let until = best.map_or(within.end(), |start| start - 1 + self.seconds);
            let Some(within) = Span::new(within.start(), until) else { break };
            let share = effort.0 / (self.ways.len() - number) as u64;
            let mut own = Effort(share);
            let fit =
                calendar.earliest(way, self.class, within, self.seconds, self.rate, &mut own)?;
            effort.0 -= share - own.0;
            match fit.start {
                Some(start) => best = Some(start),
                None => searched = searched.min(fit.searched),
            }
        }
        Ok(best.map_or(Fit::none_before(searched), Fit::at))
    }
}
