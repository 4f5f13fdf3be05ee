//! Stored reservations, read as text and added to a calendar at once.

use std::collections::{BTreeMap, HashMap};

use thiserror::Error;

use crate::{Booking, Calendar, Overlaps, Refusal, Span};

/// Number of elements of the last column that identify source, destination and direction; the rest
/// are the selector.
const BETWEEN: usize = 3;

/// Stored reservations, before the names in them are resolved.
///
/// A reservation is a line of eight columns with tabs between them: its number, start, end, rate
/// and owner, the number of its path, its class or nothing, and a JSON array, of which the first
/// three elements are source, destination and direction, and the others the selector of its
/// packets. A million lines have few distinct values of both, so that only these need to be
/// resolved: the *stored paths* (path, class and the array's beginning) and the *selectors* (the
/// rest of the array).
#[derive(Clone, Debug, Default)]
pub struct StoredReservations {
    entries: Vec<Entry>,
    paths: Texts,
    selectors: Texts,
    owners: BTreeMap<u64, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: u64,
    span: Span,
    rate: u64,
    path: u32,
    selector: u32,
}

/// A stored path, resolved.
#[derive(Clone, Debug, Default)]
pub struct StoredPath {
    /// Links of the path, and the class; `None` if the network no longer has them.
    pub taken: Option<(Vec<u32>, Option<u32>)>,
    /// Its directions.
    pub directions: Vec<StoredDirection>,
}

/// A direction of a stored path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredDirection {
    /// Number of the ends in [`PacketSet`](crate::PacketSet).
    pub ends: u32,
    /// True if the selector is reversed.
    pub reverse: bool,
}

/// Numbers of a stored selector in [`Overlaps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredSelector {
    /// The selector as it is.
    pub forward: u32,
    /// The selector with source and destination exchanged.
    pub reverse: u32,
}

/// Error: a line is not a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a stored reservation")]
pub struct Unreadable(pub String);

impl StoredReservations {
    /// Reads reservations from lines of text.
    ///
    /// # Errors
    /// [`Unreadable`] with the first line that is not a reservation; those before it were read.
    pub fn read(&mut self, lines: &str) -> Result<(), Unreadable> {
        lines
            .lines()
            .try_for_each(|line| self.read_line(line).ok_or_else(|| Unreadable(line.to_owned())))
    }

    fn read_line(&mut self, line: &str) -> Option<()> {
        let mut columns = line.splitn(6, '\t');
        let mut number = || columns.next()?.parse::<u64>().ok();
        let (id, start, end, rate, owner) = (number()?, number()?, number()?, number()?, number()?);
        let said = columns.next()?;
        let array = said.match_indices('\t').nth(1)?.0 + 1;
        let (path, selector) = said.split_at(array + beginning(&said[array..])?);
        let entry = Entry {
            id,
            span: Span::new(start, end)?,
            rate,
            path: self.paths.number(path),
            selector: self.selectors.number(selector),
        };
        self.entries.push(entry);
        *self.owners.entry(owner).or_default() += 1;
        Some(())
    }

    /// Returns the stored paths, by index: a path's number, a class or nothing, and the beginning
    /// of the array, separated by tabs.
    pub fn paths(&self) -> Vec<&str> {
        self.paths.all()
    }

    /// Returns the selectors, by number: the rests of arrays, which begin with a comma.
    pub fn selectors(&self) -> Vec<&str> {
        self.selectors.all()
    }

    /// Returns the number of reservations of each owner.
    pub fn owners(&self) -> &BTreeMap<u64, u64> {
        &self.owners
    }

    /// Adds all reservations to a calendar and an index of overlaps, without admission.
    /// Reservations that ended by `now` take no bandwidth; those that began before `origin` take it
    /// from `origin` on.
    ///
    /// # Arguments
    /// * `paths`: each stored path, resolved, by its index.
    /// * `selectors`: each selector, resolved, by its index.
    ///
    /// Returns the ids of reservations with unknown links or classes.
    ///
    /// # Errors
    /// [`Refusal`] if a booking is invalid, or its number exists; the calendar is unchanged then.
    ///
    /// # Panics
    /// If `paths` or `selectors` are too few.
    pub fn restore(
        &self,
        paths: &[StoredPath],
        selectors: &[StoredSelector],
        (origin, now): (u64, u64),
        calendar: &mut Calendar,
        overlaps: &mut Overlaps,
    ) -> Result<Vec<u64>, Refusal> {
        let mut lost = Vec::new();
        let mut bookings = Vec::with_capacity(self.entries.len());
        for &Entry { id, span, rate, path, .. } in &self.entries {
            if span.end() <= now {
                continue;
            }
            let span = Span::new(span.start().max(origin), span.end());
            match (&paths[path as usize].taken, span) {
                (Some((links, class)), Some(span)) => {
                    bookings
                        .push((id, Booking { links: links.clone(), class: *class, span, rate }));
                }
                (None, _) => lost.push(id),
                (_, None) => {}
            }
        }
        calendar.restore(bookings)?;
        overlaps.add_all(self.entries.iter().flat_map(|entry| {
            let StoredSelector { forward, reverse } = selectors[entry.selector as usize];
            let directions = &paths[entry.path as usize].directions;
            directions.iter().map(move |&StoredDirection { ends, reverse: turned }| {
                (ends, entry.id, if turned { reverse } else { forward }, entry.span)
            })
        }));
        Ok(lost)
    }
}

/// Returns the length of the beginning of a JSON array: up to the comma behind its third element.
fn beginning(array: &str) -> Option<usize> {
    let (mut quoted, mut escaped, mut depth, mut commas) = (false, false, 0, 0);
    for (index, byte) in array.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            b',' if depth == 1 => {
                commas += 1;
                if commas == BETWEEN {
                    return Some(index);
                }
            }
            _ => {}
        }
    }
    None
}

/// Distinct texts, numbered in order of their first appearance.
#[derive(Clone, Debug, Default)]
struct Texts(HashMap<String, u32>);

impl Texts {
    fn number(&mut self, word: &str) -> u32 {
        if let Some(&number) = self.0.get(word) {
            return number;
        }
        let number = self.0.len() as u32;
        self.0.insert(word.to_owned(), number);
        number
    }

    fn all(&self) -> Vec<&str> {
        let mut words: Vec<(u32, &str)> = self.0.iter().map(|(word, &n)| (n, &**word)).collect();
        words.sort_unstable();
        words.into_iter().map(|(_, word)| word).collect()
    }
}
