//! Search for the earliest start at which a reservation fits. The search goes from one change of
//! the calendar to the next, with bounded effort.

use crate::PacketSet;
use crate::{Calendar, Overlaps, Refusal, Span};

/// Greatest number of steps of a search: changes of level, groups of sixteen slots, or
/// reservations.
///
/// A calendar can be full of gaps that are a second too short, for years. A search that reaches its
/// limit returns the instant up to which it has searched, so that it does not block its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort(pub u64);

impl Effort {
    /// Effort of one request, a millisecond or less on a processor of 2020.
    pub const QUESTION: Self = Self(150_000);

    /// Spends `much` of the effort. Returns `true` if as much was left.
    pub(crate) fn spend(&mut self, much: u64) -> bool {
        let enough = self.0 >= much;
        self.0 = self.0.saturating_sub(much);
        enough
    }
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Earliest start, in seconds since 1970; `None` if the search found none.
    pub start: Option<u64>,
    /// Instant before which no start fits, in seconds since 1970.
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

/// A wanted reservation.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Alternative paths, each as the numbers of its links.
    pub ways: &'a [Vec<u32>],
    /// Class in which the rate is reserved on every link.
    pub class: Option<u32>,
    /// Span in which the reservation must begin and end.
    pub within: Span,
    /// Duration, in seconds.
    pub seconds: u64,
    /// Rate, in bits per second.
    pub rate: u64,
    /// Packets of the reservation.
    pub sets: &'a [PacketSet],
    /// Number of the booking that the reservation is to replace. The search ignores this booking
    /// and its hold.
    pub mine: Option<u64>,
}

impl Wanted<'_> {
    /// Returns the earliest start at which one of the paths has room and no other reservation has
    /// any of the packets.
    ///
    /// # Errors
    /// [`Refusal`] if the links or the class are invalid.
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

    /// Returns the earliest start at which one of the paths has room.
    fn room(&self, calendar: &Calendar, within: Span, effort: &mut Effort) -> Result<Fit, Refusal> {
        let mut best: Option<u64> = None;
        let mut searched = within.end();
        for (number, way) in self.ways.iter().enumerate() {
            // Starts later than the best one so far need not be searched.
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
