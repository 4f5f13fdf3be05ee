//! The outstanding segments, in compact form.

use std::collections::VecDeque;

use perhop_core::{Time, prefetch};

use super::sent::Sent;
use crate::Offset;

/// A segment in compact form. It ends where the next one begins.
#[derive(Clone, Copy, Debug)]
struct Kept {
    at: Time,
    /// Low 32 bits of its beginning: much less than 4 GiB is outstanding.
    start: u32,
    /// Order number of its transmission, above four bits for its marks.
    order_and_marks: u32,
}

/// Ten thousand connections have a hundred thousand segments.
const _: () = assert!(size_of::<Kept>() == 16);

/// Number of segments in a line of a cache.
const IN_A_LINE: usize = 4;

const SACKED: u32 = 1;
const LOST: u32 = 2;
const RETRANSMITTED: u32 = 4;
const AMBIGUOUS: u32 = 8;
const MARKS: u32 = 4;

/// Number of segments that always have room.
const FEW: usize = 4;

/// Segments in order, without gaps.
#[derive(Clone, Debug, Default)]
pub(super) struct Segments {
    kept: VecDeque<Kept>,
    /// Beginning of the first segment, and end of the last.
    start: Offset,
    end: Offset,
}

impl Segments {
    /// Prefetches the first segments and the last one.
    #[inline(always)]
    pub fn prefetch(&self) {
        let (first, _) = self.kept.as_slices();
        first.iter().step_by(IN_A_LINE).take(4).chain(self.kept.back()).for_each(prefetch);
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns the beginning of the first segment.
    #[inline]
    pub fn start(&self) -> Offset {
        self.start
    }

    /// Returns the end of the last segment.
    #[inline]
    pub fn end(&self) -> Offset {
        self.end
    }

    /// Returns the segment at `index`.
    ///
    /// # Panics
    /// If there are fewer segments.
    #[inline]
    pub fn get(&self, index: usize) -> Sent {
        let kept = self.kept[index];
        let start = self.offset(kept.start);
        let end = self.kept.get(index + 1).map_or(self.end, |next| self.offset(next.start));
        let has = |mark| kept.order_and_marks & mark > 0;
        Sent {
            start,
            at: kept.at,
            length: (end - start) as u32,
            order: kept.order_and_marks >> MARKS,
            sacked: has(SACKED),
            lost: has(LOST),
            retransmitted: has(RETRANSMITTED),
            ambiguous: has(AMBIGUOUS),
        }
    }

    /// Replaces the state of a segment. Its length stays, but the first one may begin later.
    #[inline]
    pub fn set(&mut self, index: usize, sent: Sent) {
        self.kept[index] = Self::kept(sent);
        if index == 0 {
            self.start = sent.start;
        }
    }

    /// Adds a segment at the end.
    #[inline]
    pub fn push(&mut self, sent: Sent) {
        debug_assert_eq!(sent.start, self.end);
        self.end = sent.end();
        if self.kept.len() == self.kept.capacity() {
            self.grow();
        }
        self.kept.push_back(Self::kept(sent));
    }

    /// Makes room for half as many again: twice as many would be a waste with thousands of
    /// connections.
    #[cold]
    fn grow(&mut self) {
        self.kept.reserve_exact((self.kept.len() / 2).max(FEW));
    }

    /// Divides the segment before `index`: `end` is its end.
    pub fn insert(&mut self, index: usize, end: Sent) {
        self.kept.insert(index, Self::kept(end));
    }

    /// Removes the first segment.
    #[inline]
    pub fn pop(&mut self) {
        self.kept.pop_front();
        self.start = self.kept.front().map_or(self.end, |first| self.offset(first.start));
    }

    /// Frees most of the memory of many more segments than this.
    pub fn fit(&mut self, segments: usize) {
        let segments = segments.max(FEW);
        if self.kept.capacity() / 4 > segments {
            self.kept.shrink_to(2 * segments);
        }
    }

    /// Returns the number of segments that begin before `start`; it may be `guess`.
    #[inline]
    pub fn before(&self, start: Offset, guess: u32) -> usize {
        let guess = guess as usize;
        match self.kept.get(guess) {
            Some(kept) if self.offset(kept.start) == start => guess,
            _ => self.kept.partition_point(|kept| self.offset(kept.start) < start),
        }
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Sent> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }

    #[inline]
    fn offset(&self, start: u32) -> Offset {
        self.start + Offset::from(start.wrapping_sub(self.start as u32))
    }

    #[inline]
    fn kept(sent: Sent) -> Kept {
        let mark = |is: bool, mark| if is { mark } else { 0 };
        let marks = mark(sent.sacked, SACKED)
            | mark(sent.lost, LOST)
            | mark(sent.retransmitted, RETRANSMITTED)
            | mark(sent.ambiguous, AMBIGUOUS);
        let order_and_marks = sent.order << MARKS | marks;
        Kept { at: sent.at, start: sent.start as u32, order_and_marks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_core::Stream;
    use std::collections::VecDeque;

    /// Compared with a plain list of segments, over 100 GB: offsets exceed 32 bits, and order
    /// numbers exceed 28.
    #[test]
    fn segments_are_what_they_were() {
        let mut random = Stream::new(1, "segments");
        let (mut segments, mut expected) = (Segments::default(), VecDeque::<Sent>::new());
        for step in 0..50_000_u64 {
            let mut chance = || random.up_to(1) == 1;
            let (sacked, lost) = (chance(), chance());
            let (retransmitted, ambiguous) = (chance(), chance());
            let order = (step * 7919 % (1 << 28)) as u32;
            let at = Time::from_picos(step << 44);
            let place = random.up_to(expected.len() as u64) as usize;
            match random.up_to(8) {
                0..=3 if segments.end() - segments.start() < 4_000_000_000 => {
                    let (start, length) = (segments.end(), random.up_to(20_000_000) as u32 + 1);
                    let sent =
                        Sent { start, at, length, order, sacked, lost, retransmitted, ambiguous };
                    segments.push(sent);
                    expected.push_back(sent);
                }
                4..=6 => {
                    segments.pop();
                    expected.pop_front();
                }
                7 if expected.front().is_some_and(|first| first.length > 1) => {
                    let first = &mut expected[0];
                    (first.start, first.length) = (first.start + 1, first.length - 1);
                    segments.set(0, *first);
                }
                _ => {
                    if let Some(sent) = expected.get_mut(place) {
                        let (start, length) = (sent.start, sent.length);
                        *sent = Sent {
                            start,
                            at,
                            length,
                            order,
                            sacked,
                            lost,
                            retransmitted,
                            ambiguous,
                        };
                        segments.set(place, *sent);
                    }
                }
            }
            assert_eq!(
                segments.start(),
                expected.front().map_or(segments.end(), |sent| sent.start)
            );
            assert_eq!(segments.end(), expected.back().map_or(segments.start(), Sent::end));
            if let Some(sent) = expected.get(place) {
                for guess in [0, place as u32, u32::MAX] {
                    assert_eq!(segments.before(sent.start, guess), place);
                    assert_eq!(segments.before(sent.start + 1, guess), place + 1);
                }
            }
            if step % 100 == 0 {
                let (found, expected) =
                    (segments.iter().collect::<Vec<_>>(), Vec::from(expected.clone()));
                assert_eq!(format!("{found:?}"), format!("{expected:?}"));
            }
        }
        assert!(segments.end() > 100_000_000_000, "{}", segments.end());
    }
}
