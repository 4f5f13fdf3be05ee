//! Arguments and results of the calendar, as values for Python.

use perhop_calendar as calendar;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A link in one direction, with its reservable rates.
#[pyclass(module = "perhop._core", frozen, get_all, new = "from_fields")]
pub struct CalendarLink {
    source: u32,
    target: u32,
    delay_ns: u64,
    reservable: u64,
    classes: Vec<u64>,
}

impl CalendarLink {
    pub fn spec(&self) -> calendar::LinkSpec {
        calendar::LinkSpec {
            ends: [self.source, self.target],
            delay_ns: self.delay_ns,
            reservable: self.reservable,
            classes: self.classes.clone(),
        }
    }
}

/// A rate on some links, in a class or in none, from start to end.
#[pyclass(module = "perhop._core", frozen)]
pub struct Booking(pub calendar::Booking);

#[pymethods]
impl Booking {
    #[new]
    fn new(
        links: Vec<u32>,
        class_: Option<u32>,
        start: u64,
        end: u64,
        rate: u64,
    ) -> PyResult<Self> {
        Ok(Self(calendar::Booking { links, class: class_, span: span(start, end)?, rate }))
    }
}

/// A resource with too little free bandwidth: the free rate, and the span of the shortage.
#[pyclass(module = "perhop._core", frozen, get_all, new = "from_fields")]
pub struct Shortage {
    link: u32,
    class_: Option<u32>,
    free: u64,
    start: u64,
    end: u64,
}

impl From<calendar::Shortage> for Shortage {
    fn from(shortage: calendar::Shortage) -> Self {
        let calendar::Shortage { link, class, free, crowded } = shortage;
        Self { link, class_: class, free, start: crowded.start(), end: crowded.end() }
    }
}

/// A span with a constant free rate.
#[pyclass(module = "perhop._core", frozen, get_all, eq, new = "from_fields")]
#[derive(Debug, PartialEq)]
pub struct Stretch {
    pub start: u64,
    pub end: u64,
    pub free: u64,
}

#[pymethods]
impl Stretch {
    fn __repr__(&self) -> String {
        format!("Stretch(start={}, end={}, free={})", self.start, self.end, self.free)
    }
}

/// Earliest start of a booking, or None, and the instant up to which the search went.
#[pyclass(module = "perhop._core", frozen, get_all, new = "from_fields")]
pub struct Fit {
    pub start: Option<u64>,
    pub searched: u64,
}

/// Constraints of a path: nodes and links to avoid, nodes to touch, greatest number of links, and
/// greatest delay in nanoseconds.
#[pyclass(module = "perhop._core", frozen)]
pub struct PathConstraints(pub calendar::Constraints);

#[pymethods]
impl PathConstraints {
    #[new]
    #[pyo3(signature = (
        avoid_nodes,
        avoid_links=vec![],
        via=vec![],
        max_hops=None,
        max_delay_ns=None,
    ))]
    fn new(
        avoid_nodes: Vec<u32>,
        avoid_links: Vec<u32>,
        via: Vec<u32>,
        max_hops: Option<u32>,
        max_delay_ns: Option<u64>,
    ) -> Self {
        Self(calendar::Constraints { avoid_nodes, avoid_links, via, max_hops, max_delay_ns })
    }
}

/// A path: its links, its delay in nanoseconds, and the rate that is free on it throughout, if
/// requested.
#[pyclass(module = "perhop._core", frozen, get_all, new = "from_fields")]
pub struct CalendarPath {
    links: Vec<u32>,
    delay_ns: u64,
    free: Option<u64>,
}

impl CalendarPath {
    pub fn new(path: calendar::Path, free: Option<u64>) -> Self {
        Self { links: path.links, delay_ns: path.delay_ns, free }
    }
}

/// The packets of a selector between two ends, both by their numbers.
#[pyclass(module = "perhop._core", frozen)]
pub struct PacketSet(pub calendar::PacketSet);

#[pymethods]
impl PacketSet {
    #[new]
    fn new(ends: u32, selector: u32) -> Self {
        Self(calendar::PacketSet { ends, selector })
    }
}

/// A direction of a stored path: the number of its ends, and True if the selector is reversed.
#[pyclass(module = "perhop._core", frozen)]
pub struct StoredDirection(calendar::StoredDirection);

#[pymethods]
impl StoredDirection {
    #[new]
    fn new(ends: u32, reverse: bool) -> Self {
        Self(calendar::StoredDirection { ends, reverse })
    }
}

/// A stored selector: its number, and that of the reversed one.
#[pyclass(module = "perhop._core", frozen)]
pub struct StoredSelector(pub calendar::StoredSelector);

#[pymethods]
impl StoredSelector {
    #[new]
    fn new(forward: u32, reverse: u32) -> Self {
        Self(calendar::StoredSelector { forward, reverse })
    }
}

/// A stored path: its links and class, if the network has them, and its directions.
#[pyclass(module = "perhop._core", frozen)]
pub struct StoredPath(pub calendar::StoredPath);

#[pymethods]
impl StoredPath {
    #[new]
    fn new(
        taken: Option<(Vec<u32>, Option<u32>)>,
        directions: Vec<PyRef<'_, StoredDirection>>,
    ) -> Self {
        let directions = directions.iter().map(|direction| direction.0).collect();
        Self(calendar::StoredPath { taken, directions })
    }
}

/// A booking that has packets of a set, given by its index: the number of the booking, that of its
/// selector, and its end.
#[pyclass(module = "perhop._core", frozen, get_all, new = "from_fields")]
pub struct Claim {
    pub packets: usize,
    pub number: u64,
    pub selector: u32,
    pub end: u64,
}

/// Two hosts whose shortest path leads over a link.
#[pyclass(module = "perhop._core", frozen, get_all, eq, new = "from_fields")]
#[derive(Debug, PartialEq)]
pub struct HostPair {
    pub source: u32,
    pub destination: u32,
}

#[pymethods]
impl HostPair {
    fn __repr__(&self) -> String {
        format!("HostPair(source={}, destination={})", self.source, self.destination)
    }
}

/// Returns a span, in seconds since 1970.
///
/// # Errors
/// `ValueError` if it is empty.
pub fn span(start: u64, end: u64) -> PyResult<calendar::Span> {
    calendar::Span::new(start, end)
        .ok_or_else(|| PyValueError::new_err(format!("nothing lies between {start} and {end}")))
}
