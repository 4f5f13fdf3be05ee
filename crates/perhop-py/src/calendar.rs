//! The calendar of reservations, for Python.

use std::collections::BTreeMap;

use perhop_calendar::{Effort, Overlaps, Refusal, Selector, Wanted};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::bookings::{
    Booking, CalendarLink, CalendarPath, Claim, Fit, HostPair, PacketSet, PathConstraints,
    Shortage, StoredPath, StoredSelector, Stretch, span,
};

/// Stored reservations, before the names in them are resolved.
#[pyclass(module = "perhop._core")]
#[derive(Default)]
pub struct StoredReservations(perhop_calendar::StoredReservations);

#[pymethods]
impl StoredReservations {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Reads reservations from lines of text.
    fn read(&mut self, py: Python<'_>, lines: &str) -> PyResult<()> {
        py.detach(|| self.0.read(lines)).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Returns the stored paths: path, class, and the beginning of the array, separated by tabs.
    #[getter]
    fn paths(&self) -> Vec<&str> {
        self.0.paths()
    }

    /// Returns the selectors: the rests of arrays.
    #[getter]
    fn selectors(&self) -> Vec<&str> {
        self.0.selectors()
    }

    /// Returns the number of reservations of each owner.
    #[getter]
    fn owners(&self) -> BTreeMap<u64, u64> {
        self.0.owners().clone()
    }
}

/// The bookings of a network.
#[pyclass(module = "perhop._core")]
pub struct Calendar {
    calendar: perhop_calendar::Calendar,
    overlaps: Overlaps,
}

#[pymethods]
impl Calendar {
    /// Creates an empty calendar whose horizon starts at `origin`.
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

    /// Adds bookings, by number, without admission.
    fn restore(
        &mut self,
        py: Python<'_>,
        bookings: BTreeMap<u64, PyRef<'_, Booking>>,
    ) -> PyResult<()> {
        let bookings = bookings.iter().map(|(&id, booking)| (id, booking.0.clone())).collect();
        py.detach(|| self.calendar.restore(bookings)).map_err(refused)
    }

    /// Adds stored reservations, without admission: `restore` of
    /// `perhop_calendar::StoredReservations`.
    fn load(
        &mut self,
        py: Python<'_>,
        stored: &StoredReservations,
        stored_paths: Vec<PyRef<'_, StoredPath>>,
        selectors: Vec<PyRef<'_, StoredSelector>>,
        times: (u64, u64),
    ) -> PyResult<Vec<u64>> {
        let stored_paths: Vec<_> = stored_paths.iter().map(|path| path.0.clone()).collect();
        let selectors: Vec<_> = selectors.iter().map(|selector| selector.0).collect();
        let Self { calendar, overlaps } = self;
        py.detach(|| stored.0.restore(&stored_paths, &selectors, times, calendar, overlaps))
            .map_err(refused)
    }

    /// Adds a booking; if there is too little room, returns the shortage and changes nothing.
    fn book(&mut self, number: u64, booking: &Booking) -> PyResult<Option<Shortage>> {
        shortage(self.calendar.book(number, booking.0.clone()))
    }

    /// Replaces a booking; if there is too little room, returns the shortage and changes nothing.
    fn change(&mut self, number: u64, booking: &Booking) -> PyResult<Option<Shortage>> {
        shortage(self.calendar.change(number, booking.0.clone()))
    }

    /// Returns the shortage for a booking, without the booking `mine` if given; None if there is
    /// room.
    #[pyo3(signature = (booking, mine=None))]
    fn check(&mut self, booking: &Booking, mine: Option<u64>) -> PyResult<Option<Shortage>> {
        shortage(self.calendar.without(mine, |calendar| calendar.check(&booking.0)))
    }

    /// Holds a rate and span for a booking, without admission.
    fn hold(&mut self, number: u64, start: u64, end: u64, rate: u64) -> PyResult<()> {
        self.calendar.hold(number, span(start, end)?, rate).map_err(refused)
    }

    /// Releases the hold of a booking.
    fn release_hold(&mut self, number: u64) -> PyResult<()> {
        self.calendar.release_hold(number).map_err(refused)
    }

    /// Removes a booking and its hold.
    fn release(&mut self, number: u64) -> PyResult<()> {
        self.calendar.release(number).map(|_| ()).map_err(refused)
    }

    /// Returns the rate that is free on all of some links, as stretches; if there are more than
    /// `most`, as this many parts with the least free rate in each.
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

    /// Returns the earliest start between `start` and `end` at which `rate` is free for `seconds`
    /// on one of some paths and no other booking has packets of these sets, and the instant up
    /// to which the search went. The booking `mine` is ignored.
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
        packets: Vec<PyRef<'_, PacketSet>>,
        mine: Option<u64>,
    ) -> PyResult<Fit> {
        let sets: Vec<_> = packets.iter().map(|set| set.0).collect();
        let (ways, sets) = (&ways, &sets);
        let within = span(start, end)?;
        let wanted = Wanted { ways, class: class_, within, seconds, rate, sets, mine };
        let Self { calendar, overlaps } = self;
        let fit = py.detach(|| wanted.find(calendar, overlaps, &mut Effort::QUESTION.clone()));
        fit.map(|fit| Fit { start: fit.start, searched: fit.searched }).map_err(refused)
    }

    /// Returns up to `count` paths on which `rate` is free.
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

    /// Returns the path with the greatest rate that is free throughout.
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

    /// Returns, for each link, the first two hosts whose shortest path leads over it.
    fn host_pairs(&self, py: Python<'_>, hosts: Vec<u32>) -> Vec<Option<HostPair>> {
        let pairs = py.detach(|| self.calendar.host_pairs(&hosts));
        let pair = |(source, destination)| HostPair { source, destination };
        pairs.into_iter().map(|found| found.map(pair)).collect()
    }

    /// Removes the bookings that ended by `instant`, and the booked rates before it.
    fn forget_before(&mut self, instant: u64) {
        self.calendar.forget_before(instant);
    }

    /// Adds the packets of a booking or of its hold to the index: ends, selector, span.
    fn occupy(
        &mut self,
        ends: u32,
        number: u64,
        held: bool,
        selector: u32,
        start: u64,
        end: u64,
    ) -> PyResult<()> {
        self.overlaps.add(ends, number, held, selector, span(start, end)?);
        Ok(())
    }

    /// Removes an entry that `occupy` made.
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

    /// Returns the number of a selector of packets: protocol, ports at both ends, DSCP.
    fn selector(
        &mut self,
        protocol: Option<u8>,
        sources: Option<(u16, u16)>,
        destinations: Option<(u16, u16)>,
        dscp: Option<u8>,
    ) -> u32 {
        self.overlaps.number(Selector { protocol, ports: [sources, destinations], dscp })
    }

    /// Returns the first booking in a span that shares packets with one of these sets.
    fn claim(
        &self,
        py: Python<'_>,
        packets: Vec<PyRef<'_, PacketSet>>,
        mine: Option<u64>,
        start: u64,
        end: u64,
    ) -> PyResult<Option<Claim>> {
        let (span, overlaps) = (span(start, end)?, &self.overlaps);
        let sets: Vec<_> = packets.iter().map(|set| set.0).collect();
        let claim = py.detach(|| overlaps.claim(&sets, mine, span));
        let value = |(packets, (number, selector, end))| Claim { packets, number, selector, end };
        Ok(claim.map(value))
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
