//! The calendar of reservations, for Python.

use std::collections::BTreeMap;

use perhop_calendar::{
    Booking, Constraints, Effort, LinkSpec, Overlaps, Packets, Path, Refusal, Shortage, Span,
    StoredPath, Wanted,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A shortage: link, class, what is free, and from when until when there is too little.
type Short = (u32, Option<u32>, u64, u64, u64);

/// A booking: number, which of the paths, class, start, end, rate.
type Row = (u64, usize, Option<u32>, u64, u64, u64);

/// What a path must keep to: nodes and links to avoid, nodes to touch, links and nanoseconds at
/// most.
type Limits = (Vec<u32>, Vec<u32>, Vec<u32>, Option<u32>, Option<u64>);

/// A stored path's links and class, if the network has them, and its lanes.
type Meaning = (Option<(Vec<u32>, Option<u32>)>, Vec<(u32, bool)>);

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
    /// An empty calendar from `origin` on. A link is its two nodes, its delay in nanoseconds, what
    /// can be reserved in all, and what in each class.
    #[new]
    fn new(origin: u64, links: Vec<(u32, u32, u64, u64, Vec<u64>)>) -> Self {
        let spec = |(from, to, delay_ns, reservable, classes)| LinkSpec {
            ends: [from, to],
            delay_ns,
            reservable,
            classes,
        };
        let links: Vec<LinkSpec> = links.into_iter().map(spec).collect();
        let calendar = perhop_calendar::Calendar::new(origin, &links);
        Self { calendar, overlaps: Overlaps::default() }
    }

    #[getter]
    fn bookings(&self) -> usize {
        self.calendar.len()
    }

    /// Books bookings whether or not there is room; each names one of `paths` by its place.
    fn restore(&mut self, py: Python<'_>, paths: Vec<Vec<u32>>, rows: Vec<Row>) -> PyResult<()> {
        py.detach(|| {
            let whole = |(id, path, class, start, end, rate): Row| {
                let links = paths.get(path).ok_or_else(|| format!("there is no path {path}"))?;
                Ok((id, booking(links.clone(), class, (start, end), rate)?))
            };
            let bookings = rows.into_iter().map(whole).collect::<Result<_, String>>()?;
            self.calendar.restore(bookings).map_err(|refusal| refusal.to_string())
        })
        .map_err(PyValueError::new_err)
    }

    /// Takes in what is on file, whether or not there is room: `restore` of
    /// `perhop_calendar::StoredReservations`.
    fn load(
        &mut self,
        py: Python<'_>,
        stored: &StoredReservations,
        stored_paths: Vec<Meaning>,
        selectors: Vec<[u32; 2]>,
        times: (u64, u64),
    ) -> PyResult<Vec<u64>> {
        let stored_paths: Vec<StoredPath> =
            stored_paths.into_iter().map(|(taken, lanes)| StoredPath { taken, lanes }).collect();
        let Self { calendar, overlaps } = self;
        py.detach(|| stored.0.restore(&stored_paths, &selectors, times, calendar, overlaps))
            .map_err(refused)
    }

    /// Books; if there is too little room anywhere, says where and changes nothing.
    fn book(
        &mut self,
        number: u64,
        links: Vec<u32>,
        class_: Option<u32>,
        start: u64,
        end: u64,
        rate: u64,
    ) -> PyResult<Option<Short>> {
        let booking = booking(links, class_, (start, end), rate).map_err(PyValueError::new_err)?;
        shortage(self.calendar.book(number, booking))
    }

    /// Puts another booking in the place of one; if there is too little room, changes nothing.
    fn change(
        &mut self,
        number: u64,
        links: Vec<u32>,
        class_: Option<u32>,
        start: u64,
        end: u64,
        rate: u64,
    ) -> PyResult<Option<Short>> {
        let booking = booking(links, class_, (start, end), rate).map_err(PyValueError::new_err)?;
        shortage(self.calendar.change(number, booking))
    }

    /// Whether there is room without the booking `mine`, if there is one; if not, where there is
    /// too little.
    #[pyo3(signature = (links, class_, start, end, rate, mine=None))]
    fn check(
        &mut self,
        links: Vec<u32>,
        class_: Option<u32>,
        start: u64,
        end: u64,
        rate: u64,
        mine: Option<u64>,
    ) -> PyResult<Option<Short>> {
        let booking = booking(links, class_, (start, end), rate).map_err(PyValueError::new_err)?;
        shortage(self.calendar.without(mine, |calendar| calendar.check(&booking)))
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

    /// What is free on all of some links together: start, end and rate, stretch by stretch. Where
    /// there are more than `most`, in so many parts the least that is.
    fn free(
        &self,
        py: Python<'_>,
        links: Vec<u32>,
        class_: Option<u32>,
        start: u64,
        end: u64,
        most: usize,
    ) -> PyResult<Vec<(u64, u64, u64)>> {
        let (span, calendar) = (span(start, end)?, &self.calendar);
        let free = py.detach(|| match calendar.changes(&links, class_, span)? < most {
            true => calendar.free(&links, class_, span),
            false => calendar.free_in_parts(&links, class_, span, most as u64),
        });
        let free = free.map_err(refused)?;
        Ok(free.iter().map(|each| (each.span.start(), each.span.end(), each.level)).collect())
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
    ) -> PyResult<(Option<u64>, u64)> {
        let (ways, lanes) = (&ways, &lanes);
        let within = span(start, end)?;
        let wanted = Wanted { ways, class: class_, within, seconds, rate, lanes, mine };
        let Self { calendar, overlaps } = self;
        let fit = py.detach(|| wanted.find(calendar, overlaps, &mut Effort::QUESTION.clone()));
        fit.map(|fit| (fit.start, fit.searched)).map_err(refused)
    }

    /// Up to `count` paths on which `rate` is free: their links and delays in nanoseconds.
    #[expect(clippy::too_many_arguments, reason = "they come from Python by name")]
    fn paths(
        &self,
        py: Python<'_>,
        ends: (u32, u32),
        class_: Option<u32>,
        start: u64,
        end: u64,
        rate: u64,
        limits: Limits,
        count: usize,
    ) -> PyResult<Vec<(Vec<u32>, u64)>> {
        let when = (span(start, end)?, rate);
        let (calendar, limits) = (&self.calendar, constraints(limits));
        let found = py.detach(|| calendar.paths(ends, class_, when, &limits, count));
        Ok(found.into_iter().map(|Path { links, delay_ns }| (links, delay_ns)).collect())
    }

    /// The path on which most is free throughout: its links, its delay, and how much.
    fn widest(
        &self,
        py: Python<'_>,
        ends: (u32, u32),
        class_: Option<u32>,
        start: u64,
        end: u64,
        limits: Limits,
    ) -> PyResult<Option<(Vec<u32>, u64, u64)>> {
        let (calendar, limits, span) = (&self.calendar, constraints(limits), span(start, end)?);
        let widest = py.detach(|| calendar.widest(ends, class_, span, &limits));
        Ok(widest.map(|(Path { links, delay_ns }, rate)| (links, delay_ns, rate)))
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

    /// The number by which packets are known: protocol, ports at both ends, code point.
    fn about(
        &mut self,
        protocol: Option<u8>,
        sources: Option<(u16, u16)>,
        destinations: Option<(u16, u16)>,
        dscp: Option<u8>,
    ) -> u32 {
        self.overlaps.about(Packets { protocol, ports: [sources, destinations], dscp })
    }

    /// The first booking in a span that is for some packets of some lanes, each between some ends
    /// and about something: the lane's place, the number, what it is about, and when it ends.
    fn claim(
        &self,
        py: Python<'_>,
        lanes: Vec<(u32, u32)>,
        mine: Option<u64>,
        start: u64,
        end: u64,
    ) -> PyResult<Option<(usize, u64, u32, u64)>> {
        let (span, overlaps) = (span(start, end)?, &self.overlaps);
        let claim = py.detach(|| overlaps.claim(&lanes, mine, span));
        Ok(claim.map(|(lane, (number, about, end))| (lane, number, about, end)))
    }
}

fn span(start: u64, end: u64) -> PyResult<Span> {
    whole(start, end).map_err(PyValueError::new_err)
}

fn whole(start: u64, end: u64) -> Result<Span, String> {
    Span::new(start, end).ok_or_else(|| format!("nothing lies between {start} and {end}"))
}

fn booking(
    links: Vec<u32>,
    class: Option<u32>,
    (start, end): (u64, u64),
    rate: u64,
) -> Result<Booking, String> {
    Ok(Booking { links, class, span: whole(start, end)?, rate })
}

fn constraints((avoid_nodes, avoid_links, via, max_hops, max_delay_ns): Limits) -> Constraints {
    Constraints { avoid_nodes, avoid_links, via, max_hops, max_delay_ns }
}

fn refused(refusal: Refusal) -> PyErr {
    PyValueError::new_err(refusal.to_string())
}

fn shortage(answer: Result<(), Refusal>) -> PyResult<Option<Short>> {
    match answer {
        Ok(()) => Ok(None),
        Err(Refusal::Shortage(Shortage { link, class, free, crowded })) => {
            Ok(Some((link, class, free, crowded.start(), crowded.end())))
        }
        Err(refusal) => Err(refused(refusal)),
    }
}
