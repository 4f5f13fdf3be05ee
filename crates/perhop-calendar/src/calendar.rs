//! The calendar: the bookings of a network, and admission.

use std::collections::HashMap;

use thiserror::Error;

use crate::paths::{Constraints, Graph, Path};
use crate::timeline::{SLOT, Timeline};
use crate::{Effort, Fit, Span, Stretch};

/// Greatest time between the origin and the end of a booking: twenty years, in seconds. The memory
/// of a timeline grows with it.
const HORIZON: u64 = 20 * 366 * 86_400;

/// A link in one direction, and its reservable rates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Sending and receiving node.
    pub ends: [u32; 2],
    /// Propagation delay in nanoseconds.
    pub delay_ns: u64,
    /// Rate that can be reserved in all, in bits per second.
    pub reservable: u64,
    /// Rate that can be reserved in each class, in bits per second; their sum may exceed that of
    /// the link.
    pub classes: Vec<u64>,
}

/// A booking: a rate on some links for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    /// Numbers of the links on which the rate is booked.
    pub links: Vec<u32>,
    /// Class in which the rate is booked on every link; `None` books from the link as a whole only.
    pub class: Option<u32>,
    /// Time of the booking.
    pub span: Span,
    /// Booked rate, in bits per second.
    pub rate: u64,
}

/// A booking, and a hold: another span and rate on the same links and class.
///
/// At each instant the entry takes the greater rate of the two, so that the booking can change from
/// one to the other at any time.
#[derive(Clone, Debug)]
struct Entry {
    booking: Booking,
    held: Option<(Span, u64)>,
}

impl Entry {
    /// Returns the spans of the entry and the rate in each, in bits per second.
    fn parts(&self) -> impl Iterator<Item = (Span, u64)> {
        let &Booking { span, rate, .. } = &self.booking;
        let more = self.held.into_iter().flat_map(move |(held, held_rate)| {
            let beside = [
                (Span::new(held.start(), held.end().min(span.start())), held_rate),
                (held.common(span), held_rate.saturating_sub(rate)),
                (Span::new(held.start().max(span.end()), held.end()), held_rate),
            ];
            beside.into_iter().filter_map(|(span, rate)| Some((span?, rate)))
        });
        std::iter::once((span, rate)).chain(more).filter(|&(_, rate)| rate > 0)
    }

    /// Returns the end of booking and hold, in seconds since 1970.
    fn end(&self) -> u64 {
        self.booking.span.end().max(self.held.map_or(0, |(held, _)| held.end()))
    }
}

/// A resource with too little free bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Number of the link.
    pub link: u32,
    /// Class that lacks bandwidth; `None` for the link as a whole.
    pub class: Option<u32>,
    /// Least free rate on the resource during the requested span, in bits per second.
    pub free: u64,
    /// First span in which too little is free.
    pub crowded: Span,
}

/// Reason why a booking was refused. The calendar is unchanged then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Too little bandwidth is free.
    #[error("link {} has {} bit/s free from {}", .0.link, .0.free, .0.crowded.start())]
    Shortage(Shortage),
    /// A booking with this number exists.
    #[error("booking {0} exists")]
    Exists(u64),
    /// No booking has this number.
    #[error("there is no booking {0}")]
    Unknown(u64),
    /// The list of links is empty, contains an unknown link, or contains a link twice.
    #[error("the links of a booking are {0:?}, of {1} that there are, each once")]
    Links(Vec<u32>, usize),
    /// The link lacks this class.
    #[error("link {0} has no class {1}")]
    Class(u32, u32),
    /// The rate is zero, or 2^62 bit/s or more.
    #[error("a rate must be more than zero, and less than 2^62 bit/s")]
    Rate,
    /// The booking ends too far from the origin.
    #[error("bookings end within twenty years of {0}")]
    Horizon(u64),
}

/// Ends and delay of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub ends: [u32; 2],
    pub delay_ns: u64,
}

/// A link or class, with its reservable rate and its booked rate over time.
#[derive(Debug)]
struct Resource {
    reservable: u64,
    booked: Timeline,
}

impl Resource {
    fn new(reservable: u64) -> Self {
        Self { reservable, booked: Timeline::default() }
    }

    fn free(&self, span: Span) -> u64 {
        self.reservable.saturating_sub(self.booked.peak(span))
    }

    /// Returns the highest booked rate, in bits per second, at which `rate` can be added; `None` if
    /// `rate` exceeds the reservable rate.
    fn most(&self, rate: u64) -> Option<u64> {
        self.reservable.checked_sub(rate)
    }
}

/// All bookings of a network.
#[derive(Debug)]
pub struct Calendar {
    /// Start of the horizon, in seconds since 1970.
    origin: u64,
    edges: Vec<Edge>,
    leaving: Vec<Vec<u32>>,
    /// Each link as a whole, followed by its classes.
    resources: Vec<Resource>,
    /// Index of each link's first resource, and the number of all resources.
    first: Vec<u32>,
    bookings: HashMap<u64, Entry>,
}

impl Calendar {
    /// Creates an empty calendar whose horizon starts at `origin`, in seconds since 1970.
    pub fn new(origin: u64, links: &[LinkSpec]) -> Self {
        let nodes =
            links.iter().flat_map(|link| link.ends).max().map_or(0, |node| node as usize + 1);
        let mut leaving = vec![Vec::new(); nodes];
        let mut resources = Vec::new();
        let mut first = vec![0];
        for (number, link) in links.iter().enumerate() {
            leaving[link.ends[0] as usize].push(number as u32);
            resources.push(Resource::new(link.reservable));
            resources.extend(link.classes.iter().map(|&reservable| Resource::new(reservable)));
            first.push(resources.len() as u32);
        }
        let edge = |link: &LinkSpec| Edge { ends: link.ends, delay_ns: link.delay_ns };
        let edges = links.iter().map(edge).collect();
        Self { origin, edges, leaving, resources, first, bookings: HashMap::new() }
    }

    /// Returns the number of bookings.
    pub fn len(&self) -> usize {
        self.bookings.len()
    }

    /// Returns `true` if the calendar has no bookings.
    pub fn is_empty(&self) -> bool {
        self.bookings.is_empty()
    }

    /// Returns the booking with number `id`.
    pub fn booking(&self, id: u64) -> Option<&Booking> {
        self.bookings.get(&id).map(|entry| &entry.booking)
    }

    /// Adds a booking if every link has enough free bandwidth throughout.
    ///
    /// # Errors
    /// [`Refusal`] if the booking is refused.
    pub fn book(&mut self, id: u64, booking: Booking) -> Result<(), Refusal> {
        if self.bookings.contains_key(&id) {
            return Err(Refusal::Exists(id));
        }
        self.check(&booking)?;
        self.insert(id, Entry { booking, held: None });
        Ok(())
    }

    /// Adds bookings without admission, so that those made before a link's capacity was reduced are
    /// kept.
    ///
    /// # Errors
    /// [`Refusal`] if a booking is invalid, or its number exists; the calendar is unchanged then.
    pub fn restore(&mut self, bookings: Vec<(u64, Booking)>) -> Result<(), Refusal> {
        for (id, booking) in &bookings {
            if self.bookings.contains_key(id) {
                return Err(Refusal::Exists(*id));
            }
            self.check_valid(booking)?;
        }
        let mut new: Vec<u64> = bookings.iter().map(|&(id, _)| id).collect();
        new.sort_unstable();
        if let Some(twice) = new.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Refusal::Exists(twice[0]));
        }
        let mut added = vec![Vec::new(); self.resources.len()];
        for (_, booking) in &bookings {
            for (_, resource) in self.taken(&booking.links, booking.class) {
                added[resource].push((booking.span, booking.rate));
            }
        }
        for (resource, added) in self.resources.iter_mut().zip(added) {
            resource.booked.add_all(&added);
        }
        let entries = bookings.into_iter().map(|(id, booking)| (id, Entry { booking, held: None }));
        self.bookings.extend(entries);
        Ok(())
    }

    /// Replaces a booking and its hold, if there is room for the new booking without them.
    ///
    /// # Errors
    /// [`Refusal`] if the new booking is refused, or no booking has this number; the calendar is
    /// unchanged then.
    pub fn change(&mut self, id: u64, booking: Booking) -> Result<(), Refusal> {
        let old = self.remove(id)?;
        let checked = self.check(&booking);
        let now = if checked.is_ok() { Entry { booking, held: None } } else { old };
        self.insert(id, now);
        checked
    }

    /// Holds a rate and span for a booking, on its links and in its class, without admission: until
    /// [`release_hold`](Self::release_hold) the booking takes the greater of both rates at each
    /// instant. A previous hold is released.
    ///
    /// # Errors
    /// [`Refusal`] if no booking has this number, or the hold is invalid; the calendar is unchanged
    /// then.
    pub fn hold(&mut self, id: u64, span: Span, rate: u64) -> Result<(), Refusal> {
        let Entry { booking, .. } = self.bookings.get(&id).ok_or(Refusal::Unknown(id))?;
        self.check_valid(&Booking { span, rate, ..booking.clone() })?;
        let entry = self.remove(id)?;
        self.insert(id, Entry { held: Some((span, rate)), ..entry });
        Ok(())
    }

    /// Releases the hold of a booking, if it has one.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] if no booking has this number.
    pub fn release_hold(&mut self, id: u64) -> Result<(), Refusal> {
        let entry = self.remove(id)?;
        self.insert(id, Entry { held: None, ..entry });
        Ok(())
    }

    /// Removes a booking and its hold.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] if no booking has this number.
    pub fn release(&mut self, id: u64) -> Result<Booking, Refusal> {
        self.remove(id).map(|entry| entry.booking)
    }

    /// Returns `ask`'s answer about the calendar without a booking and its hold, if one has this
    /// number. Both are in the calendar again afterwards.
    pub fn without<T>(&mut self, id: Option<u64>, ask: impl FnOnce(&Self) -> T) -> T {
        let own = id.and_then(|id| Some((id, self.remove(id).ok()?)));
        let answer = ask(self);
        if let Some((id, entry)) = own {
            self.insert(id, entry);
        }
        answer
    }

    /// Checks that there is room for a booking.
    ///
    /// # Errors
    /// [`Refusal`] if the booking would be refused; of several shortages, the one with the least
    /// free rate.
    pub fn check(&self, booking: &Booking) -> Result<(), Refusal> {
        let &Booking { ref links, class, span, rate } = booking;
        self.check_valid(booking)?;
        let short =
            |&(_, resource): &(LinkClass, usize)| self.resources[resource].free(span) < rate;
        let worst = self
            .taken(links, class)
            .filter(short)
            .min_by_key(|&(_, resource)| self.resources[resource].free(span));
        let Some(((link, class), resource)) = worst else { return Ok(()) };
        let resource = &self.resources[resource];
        // A rate that exceeds the capacity of the empty resource does not fit at any time of the
        // span.
        let crowded =
            resource.most(rate).and_then(|most| resource.booked.first_crowded(span, most));
        let shortage =
            Shortage { link, class, free: resource.free(span), crowded: crowded.unwrap_or(span) };
        Err(Refusal::Shortage(shortage))
    }

    /// Returns the rate that is free on all of these links over a span, as stretches of constant
    /// rate.
    ///
    /// # Errors
    /// [`Refusal`] if the links or the class are invalid.
    pub fn free(
        &self,
        links: &[u32],
        class: Option<u32>,
        span: Span,
    ) -> Result<Vec<Stretch>, Refusal> {
        self.check_links(links, class)?;
        let mut edges = Vec::new();
        let mut all = Vec::new();
        for (_, resource) in self.taken(links, class) {
            let Resource { reservable, booked } = &self.resources[resource];
            let stretches = booked.stretches(span);
            edges.extend(stretches.iter().map(|stretch| stretch.span.start()));
            all.push((*reservable, stretches));
        }
        edges.sort_unstable();
        edges.dedup();
        let mut places = vec![0; all.len()];
        let mut free: Vec<Stretch> = Vec::new();
        for (number, &start) in edges.iter().enumerate() {
            let end = edges.get(number + 1).copied().unwrap_or(span.end());
            let mut level = u64::MAX;
            for ((reservable, stretches), place) in all.iter().zip(&mut places) {
                while stretches[*place].span.end() <= start {
                    *place += 1;
                }
                level = level.min(reservable.saturating_sub(stretches[*place].level));
            }
            Span::new(start, end).into_iter().for_each(|span| append(&mut free, span, level));
        }
        Ok(free)
    }

    /// Returns the earliest instant from which `rate` is free on all of these links for `seconds`,
    /// within `within`.
    ///
    /// # Errors
    /// [`Refusal`] if the links or the class are invalid.
    pub fn earliest(
        &self,
        links: &[u32],
        class: Option<u32>,
        within: Span,
        seconds: u64,
        rate: u64,
        effort: &mut Effort,
    ) -> Result<Fit, Refusal> {
        self.check_links(links, class)?;
        let mut limits = Vec::new();
        for (_, resource) in self.taken(links, class) {
            let resource = &self.resources[resource];
            let Some(most) = resource.most(rate) else {
                return Ok(Fit::none_before(within.end()));
            };
            limits.push((&resource.booked, most));
        }
        let mut start = within.start().max(self.origin);
        while let Some(span) =
            Span::new(start, start.saturating_add(seconds)).filter(|s| s.end() <= within.end())
        {
            let (mut next, mut looked) = (start, 1);
            for &(booked, most) in &limits {
                // A start before the end of the crowded stretch would overlap with it.
                next = next.max(booked.crowded_until(span, most, within.end(), &mut looked));
            }
            if next == start {
                return Ok(Fit::at(start));
            }
            start = next;
            if !effort.spend(looked) {
                return Ok(Fit::none_before(start));
            }
        }
        Ok(Fit::none_before(within.end()))
    }

    /// Returns the rate that is free on all of these links in about `parts` equal parts of a span:
    /// in each part, the least. Parts longer than an hour are whole hours.
    ///
    /// # Errors
    /// [`Refusal`] if the links or the class are invalid.
    pub fn free_in_parts(
        &self,
        links: &[u32],
        class: Option<u32>,
        span: Span,
        parts: u64,
    ) -> Result<Vec<Stretch>, Refusal> {
        self.check_links(links, class)?;
        let mut length = span.seconds().div_ceil(parts.max(1));
        if length > SLOT {
            length = length.next_multiple_of(SLOT);
        }
        let mut free: Vec<Stretch> = Vec::new();
        let mut start = span.start();
        while let Some(part) =
            Span::new(start, (start / length + 1).saturating_mul(length).min(span.end()))
        {
            let least = |(_, resource): (LinkClass, usize)| self.resources[resource].free(part);
            append(&mut free, part, self.taken(links, class).map(least).min().unwrap_or(0));
            start = part.end();
        }
        Ok(free)
    }

    /// Returns an upper bound of the number of changes of the free rate in a span on these links.
    ///
    /// # Errors
    /// [`Refusal`] if the links or the class are invalid.
    pub fn changes(&self, links: &[u32], class: Option<u32>, span: Span) -> Result<usize, Refusal> {
        self.check_links(links, class)?;
        Ok(self.taken(links, class).map(|(_, n)| self.resources[n].booked.changes(span)).sum())
    }

    /// Returns up to `count` paths on which `rate` is free throughout, ordered by number of links,
    /// then delay; none if a node is unknown.
    pub fn paths(
        &self,
        ends: (u32, u32),
        class: Option<u32>,
        (span, rate): (Span, u64),
        constraints: &Constraints,
        count: usize,
    ) -> Vec<Path> {
        match self.has(ends) {
            true => self
                .graph()
                .paths(ends, constraints, count, |link| self.free_on(link, class, span) >= rate),
            false => Vec::new(),
        }
    }

    /// Returns the path with the greatest rate that is free throughout, and that rate, which may be
    /// zero.
    pub fn widest(
        &self,
        ends: (u32, u32),
        class: Option<u32>,
        span: Span,
        constraints: &Constraints,
    ) -> Option<(Path, u64)> {
        let free = |link| self.free_on(link, class, span);
        self.has(ends).then(|| self.graph().widest(ends, constraints, free)).flatten()
    }

    /// Returns for each link the first two of `hosts`, in their order, whose shortest path leads
    /// over it, whatever is booked; `None` if it is on no such path. Hosts forward nothing.
    pub fn host_pairs(&self, hosts: &[u32]) -> Vec<Option<(u32, u32)>> {
        self.graph().host_pairs(hosts)
    }

    /// Removes the bookings that ended by `instant`, and the booked rates before it. Spans must
    /// begin at `instant` or later from then on.
    pub fn forget_before(&mut self, instant: u64) {
        self.origin = self.origin.max(instant);
        self.bookings.retain(|_, entry| entry.end() > instant);
        for resource in &mut self.resources {
            resource.booked.forget_before(instant);
        }
    }

    fn graph(&self) -> Graph<'_> {
        Graph { edges: &self.edges, leaving: &self.leaving }
    }

    fn has(&self, (from, to): (u32, u32)) -> bool {
        (from.max(to) as usize) < self.leaving.len()
    }

    /// Returns the rate that is free on a link, in bits per second; zero if it lacks the class.
    fn free_on(&self, link: u32, class: Option<u32>, span: Span) -> u64 {
        match self.check_links(&[link], class) {
            Ok(()) => self
                .taken(&[link], class)
                .map(|(_, resource)| self.resources[resource].free(span))
                .min()
                .unwrap_or(0),
            Err(_) => 0,
        }
    }

    /// Checks everything about a booking but the room for it.
    fn check_valid(&self, booking: &Booking) -> Result<(), Refusal> {
        let &Booking { ref links, class, span, rate } = booking;
        self.check_links(links, class)?;
        if rate == 0 || rate >= 1 << 62 {
            return Err(Refusal::Rate);
        }
        match span.start() < self.origin || span.end() - self.origin > HORIZON {
            true => Err(Refusal::Horizon(self.origin)),
            false => Ok(()),
        }
    }

    fn check_links(&self, links: &[u32], class: Option<u32>) -> Result<(), Refusal> {
        let known = |link: &u32| (*link as usize) < self.edges.len();
        let repeated = |(place, link): (usize, &u32)| links[..place].contains(link);
        if links.is_empty() || !links.iter().all(known) || links.iter().enumerate().any(repeated) {
            return Err(Refusal::Links(links.to_vec(), self.edges.len()));
        }
        let Some(class) = class else { return Ok(()) };
        let lacks = |link: &&u32| {
            let link = **link as usize;
            class >= self.first[link + 1] - self.first[link] - 1
        };
        links.iter().find(lacks).map_or(Ok(()), |&link| Err(Refusal::Class(link, class)))
    }

    /// Returns the resources of a booking: each link, and the class on it.
    fn taken<'a>(
        &'a self,
        links: &'a [u32],
        class: Option<u32>,
    ) -> impl Iterator<Item = (LinkClass, usize)> + 'a {
        links.iter().flat_map(move |&link| {
            let first = self.first[link as usize] as usize;
            let whole = ((link, None), first);
            let part = class.map(|class| ((link, Some(class)), first + 1 + class as usize));
            std::iter::once(whole).chain(part)
        })
    }

    fn insert(&mut self, id: u64, entry: Entry) {
        self.for_each_part(&entry, Timeline::add);
        self.bookings.insert(id, entry);
    }

    fn remove(&mut self, id: u64) -> Result<Entry, Refusal> {
        let entry = self.bookings.remove(&id).ok_or(Refusal::Unknown(id))?;
        self.for_each_part(&entry, Timeline::remove);
        Ok(entry)
    }

    fn for_each_part(&mut self, entry: &Entry, change: impl Fn(&mut Timeline, Span, u64)) {
        for &link in &entry.booking.links {
            let first = self.first[link as usize] as usize;
            let class = entry.booking.class.map(|class| first + 1 + class as usize);
            for resource in std::iter::once(first).chain(class) {
                let booked = &mut self.resources[resource].booked;
                entry.parts().for_each(|(span, rate)| change(booked, span, rate));
            }
        }
    }
}

/// Appends a stretch, or extends the last one if its level is the same.
fn append(all: &mut Vec<Stretch>, span: Span, level: u64) {
    match all.last_mut() {
        Some(last) if last.level == level => {
            last.span = Span::new(last.span.start(), span.end()).unwrap_or(last.span);
        }
        _ => all.push(Stretch { span, level }),
    }
}

/// Number of a link, and a class of it; `None` for the link as a whole.
type LinkClass = (u32, Option<u32>);
