//! The calendar of reservations, for Python.

use std::collections::BTreeMap;

use perhop_calendar::{Effort, Overlaps, Packets, Refusal, Wanted};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::bookings::{
    Booking, CalendarLink, CalendarPath, Claim, Fit, PathConstraints, Shortage, StoredPath,
    Stretch, span,
};

/// Reservations as they are on file.
#[pyclass(module = "perhop._core")]
#[derive(Default)]
pub struct StoredReservations(perhop_calendar::StoredReservations);

#[pymethods]
impl StoredReservations {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Reads lines.
    fn read(&mut self, py: Python<'_>, lines: &str) -> PyResult<()> {
        py.detach(|| self.0.read(lines)).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// What has to be understood: path, class and between what, with tabs between them.
    #[getter]
    fn paths(&self) -> Vec<&str> {
        self.0.paths()
    }

    /// What else has to be: the rests of arrays.
    #[getter]
    fn selectors(&self) -> Vec<&str> {
        self.0.selectors()
    }

    /// How many each owner has.
    #[getter]
    fn owners(&self) -> BTreeMap<u64, u64> {
        self.0.owners().clone()
    }
}

/// What is booked on each link when.
#[pyclass(module = "perhop._core")]
pub struct Calendar {
    calendar: perhop_calendar::Calendar,
    overlaps: Overlaps,
}

#[pymethods]
impl Calendar {
    /// Creates an empty calendar from `origin` on.
    #[new]
    fn new(origin: u64, links: Vec<PyRef<'_, CalendarLink>>) -> Self {
        let links: Vec<_> = links.iter().map(|link| link.spec()).collect();
        let calendar = perhop_calendar::Calendar::new(origin, &links);
        Self { calendar, overlaps: Overlaps::default() }
    }

    #[getter]
    fn bookings(&self) -> usize {
        self.calendar.len()
    }

    /// Books by number, whether or not there is room.
    fn restore(
        &mut self,
        py: Python<'_>,
        bookings: BTreeMap<u64, PyRef<'_, Booking>>,
    ) -> PyResult<()> {
        let bookings = bookings.iter().map(|(&id, booking)| (id, booking.0.clone())).collect();
        py.detach(|| self.calendar.restore(bookings)).map_err(refused)
    }

    /// Takes in what is on file, whether or not there is room: `restore` of
    /// `perhop_calendar::StoredReservations`.
    fn load(
        &mut self,
        py: Python<'_>,
        stored: &StoredReservations,
        stored_paths: Vec<PyRef<'_, StoredPath>>,
        selectors: Vec<[u32; 2]>,
        times: (u64, u64),
    ) -> PyResult<Vec<u64>> {
        let stored_paths: Vec<_> = stored_paths.iter().map(|path| path.0.clone()).collect();
        let Self { calendar, overlaps } = self;
        py.detach(|| stored.0.restore(&stored_paths, &selectors, times, calendar, overlaps))
            .map_err(refused)
    }

    /// Books; if there is too little room anywhere, says where and changes nothing.
    fn book(&mut self, number: u64, booking: &Booking) -> PyResult<Option<Shortage>> {
        shortage(self.calendar.book(number, booking.0.clone()))
    }

    /// Puts another booking in the place of one; if there is too little room, changes nothing.
    fn change(&mut self, number: u64, booking: &Booking) -> PyResult<Option<Shortage>> {
        shortage(self.calendar.change(number, booking.0.clone()))
    }

    /// Whether there is room without the booking `mine`, if there is one; if not, where there is
    /// too little.
    #[pyo3(signature = (booking, mine=None))]
    fn check(&mut self, booking: &Booking, mine: Option<u64>) -> PyResult<Option<Shortage>> {
        shortage(self.calendar.without(mine, |calendar| calendar.check(&booking.0)))
    }

    /// Holds a rate for a booking over another span, whether or not there is room.
    fn keep(&mut self, number: u64, start: u64, end: u64, rate: u64) -> PyResult<()> {
        self.calendar.keep(number, span(start, end)?, rate).map_err(refused)
    }

    /// Lets go of what is held for a booking.
    fn let_go(&mut self, number: u64) -> PyResult<()> {
        self.calendar.let_go(number).map_err(refused)
    }

    /// Takes a booking out, with what is held for it.
    fn release(&mut self, number: u64) -> PyResult<()> {
        self.calendar.release(number).map(|_| ()).map_err(refused)
    }

    /// What is free on all of some links together. Where there are more than `most` stretches, so
    /// many parts with the least that is free in each.
    fn free(
        &self,
        py: Python<'_>,
        links: Vec<u32>,
        class_: Option<u32>,
        start: u64,
        end: u64,
        most: usize,
    ) -> PyResult<Vec<Stretch>> {
        let (span, calendar) = (span(start, end)?, &self.calendar);
        let free = py.detach(|| match calendar.changes(&links, class_, span)? < most {
            true => calendar.free(&links, class_, span),
            false => calendar.free_in_parts(&links, class_, span, most as u64),
        });
        let free = free.map_err(refused)?;
        let stretch = |start, end, free| Stretch { start, end, free };
        Ok(free.iter().map(|one| stretch(one.span.start(), one.span.end(), one.level)).collect())
    }

    /// From when on `rate` is free for `seconds` between `start` and `end` on one of some ways, and
    /// nobody has the packets of some lanes; and up to when that was looked for. The booking `mine`
    /// is not in the way.
    #[expect(clippy::too_many_arguments, reason = "they come from Python by name")]
    fn fit(
        &mut self,
        py: Python<'_>,
        ways: Vec<Vec<u32>>,
        class_: Option<u32>,
        start: u64,
        end: u64,
        seconds: u64,
        rate: u64,
        lanes: Vec<(u32, u32)>,
        mine: Option<u64>,
    ) -> PyResult<Fit> {
        let (ways, lanes) = (&ways, &lanes);
        let within = span(start, end)?;
        let wanted = Wanted { ways, class: class_, within, seconds, rate, lanes, mine };
        let Self { calendar, overlaps } = self;
        let fit = py.detach(|| wanted.find(calendar, overlaps, &mut Effort::QUESTION.clone()));
        fit.map(|fit| Fit { start: fit.start, searched: fit.searched }).map_err(refused)
    }

    /// Up to `count` paths on which `rate` is free.
    #[expect(clippy::too_many_arguments, reason = "they come from Python by name")]
    fn paths(
        &self,
        py: Python<'_>,
        ends: (u32, u32),
        class_: Option<u32>,
        start: u64,
        end: u64,
        rate: u64,
        limits: &PathConstraints,
        count: usize,
    ) -> PyResult<Vec<CalendarPath>> {
        let when = (span(start, end)?, rate);
        let (calendar, limits) = (&self.calendar, &limits.0);
        let found = py.detach(|| calendar.paths(ends, class_, when, limits, count));
        Ok(found.into_iter().map(|path| CalendarPath::new(path, None)).collect())
    }

    /// Returns the path on which most is free throughout.
    fn widest(
        &self,
        py: Python<'_>,
        ends: (u32, u32),
        class_: Option<u32>,
        start: u64,
        end: u64,
        limits: &PathConstraints,
    ) -> PyResult<Option<CalendarPath>> {
        let (calendar, limits, span) = (&self.calendar, &limits.0, span(start, end)?);
        let widest = py.detach(|| calendar.widest(ends, class_, span, limits));
        Ok(widest.map(|(path, rate)| CalendarPath::new(path, Some(rate))))
    }

    /// For each link the first two hosts whose shortest path leads over it.
    fn users(&self, py: Python<'_>, hosts: Vec<u32>) -> Vec<Option<(u32, u32)>> {
        py.detach(|| self.calendar.users(&hosts))
    }

    /// Forgets what was booked before `instant`.
    fn forget_before(&mut self, instant: u64) {
        self.calendar.forget_before(instant);
    }

    /// Keeps what a booking is for, or what is held for it: between which ends, about what, when.
    fn occupy(
        &mut self,
        ends: u32,
        number: u64,
        held: bool,
        about: u32,
        start: u64,
        end: u64,
    ) -> PyResult<()> {
        self.overlaps.add(ends, number, held, about, span(start, end)?);
        Ok(())
    }

    /// Takes back what `occupy` kept.
    fn vacate(
        &mut self,
        ends: u32,
        number: u64,
        held: bool,
        start: u64,
        end: u64,
    ) -> PyResult<bool> {
        Ok(self.overlaps.remove(ends, number, held, span(start, end)?))
    }

    /// Returns the number by which packets are known: protocol, ports at both ends, code point.
    fn about(
        &mut self,
        protocol: Option<u8>,
        sources: Option<(u16, u16)>,
        destinations: Option<(u16, u16)>,
        dscp: Option<u8>,
    ) -> u32 {
        self.overlaps.about(Packets { protocol, ports: [sources, destinations], dscp })
    }

    /// Returns the first booking in a span that is for some packets of some lanes, each between
    /// some ends and about something.
    fn claim(
        &self,
        py: Python<'_>,
        lanes: Vec<(u32, u32)>,
        mine: Option<u64>,
        start: u64,
        end: u64,
    ) -> PyResult<Option<Claim>> {
        let (span, overlaps) = (span(start, end)?, &self.overlaps);
        let claim = py.detach(|| overlaps.claim(&lanes, mine, span));
        Ok(claim.map(|(lane, (number, about, end))| Claim { lane, number, about, end }))
    }
}

fn refused(refusal: Refusal) -> PyErr {
    PyValueError::new_err(refusal.to_string())
}

fn shortage(answer: Result<(), Refusal>) -> PyResult<Option<Shortage>> {
    match answer {
        Ok(()) => Ok(None),
        Err(Refusal::Shortage(shortage)) => Ok(Some(shortage.into())),
        Err(refusal) => Err(refused(refusal)),
    }
}
