//! Intervals of time.

/// A half-open interval of seconds since 1970, never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    start: u64,
    end: u64,
}

impl Span {
    /// Returns the interval from `start` up to, but not including, `end`; `None` if that is empty.
    pub const fn new(start: u64, end: u64) -> Option<Self> {
        if start < end { Some(Self { start, end }) } else { None }
    }

    /// Returns its first second.
    pub const fn start(self) -> u64 {
        self.start
    }

    /// Returns the second after its last.
    pub const fn end(self) -> u64 {
        self.end
    }

    /// Returns the intersection of both; `None` if that is empty.
    pub(crate) fn common(self, other: Self) -> Option<Self> {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// Returns its length in seconds.
    pub const fn seconds(self) -> u64 {
        self.end - self.start
    }
}
