//! A ring of buckets of events.

use perhop_core::Time;

use super::EventId;

/// Number of buckets: as many as two levels of 64 bits can index.
pub(super) const BUCKETS: u64 = 64 * 64;

/// A list of events by time in each bucket, and a bitmap of the buckets that have any. Callers
/// number buckets without end, and never use two at once that are [`BUCKETS`] apart.
#[derive(Debug)]
pub(super) struct Ring {
    buckets: Box<[Bucket; BUCKETS as usize]>,
    /// A bit for each non-empty bucket, and one for each of these words that is not zero.
    words: [u64; 64],
    summary: u64,
    /// Events of all buckets, and free entries.
    entries: Vec<Entry>,
    /// First free entry; free entries form a list, too.
    free: u32,
    /// Number of events that others were inserted before, counted once for each insertion.
    pub passed: u64,
    /// Instant whose events are in order of their ids. All others are brought into this order when
    /// their instant has come, because few instants have several events.
    sorted: Time,
    /// Empty between calls; keeps its memory.
    places: Vec<u32>,
}

/// First and last event of a non-empty bucket.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    first: u32,
    last: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Time,
    event: EventId,
    next: u32,
}

const NONE: u32 = u32::MAX;

const fn slot(bucket: u64) -> usize {
    (bucket % BUCKETS) as usize
}

impl Ring {
    pub fn new() -> Self {
        Self {
            buckets: Box::new([Bucket::default(); BUCKETS as usize]),
            words: [0; 64],
            summary: 0,
            entries: Vec::new(),
            free: NONE,
            passed: 0,
            sorted: Time::MAX,
            places: Vec::new(),
        }
    }

    /// Returns the time of the first event.
    pub fn first(&self, current: u64) -> Option<Time> {
        let bucket = self.first_bucket(current)?;
        Some(self.entries[self.buckets[slot(bucket)].first as usize].at)
    }

    pub fn is_empty(&self) -> bool {
        self.summary == 0
    }

    /// Returns the first bucket from `current` on that is not empty.
    #[inline(always)]
    fn first_bucket(&self, current: u64) -> Option<u64> {
        let from = slot(current);
        let rest = self.words[from / 64] >> (from % 64);
        let ahead = match rest {
            0 => self.ahead(from)?,
            _ => u64::from(rest.trailing_zeros()),
        };
        Some(current + ahead)
    }

    /// Returns the distance from `from` to the next non-empty bucket outside of its word.
    #[inline]
    fn ahead(&self, from: usize) -> Option<u64> {
        if self.summary == 0 {
            return None;
        }
        // The words after its own, and then around up to its own.
        let after = (from / 64 + 1) % 64;
        let word = (after + self.summary.rotate_right(after as u32).trailing_zeros() as usize) % 64;
        let found = 64 * word + self.words[word].trailing_zeros() as usize;
        Some((found as u64).wrapping_sub(from as u64) % BUCKETS)
    }

    /// Inserts an event into a bucket, behind those of an earlier time.
    #[inline(always)]
    pub fn insert(&mut self, bucket: u64, at: Time, event: EventId) {
        let slot = slot(bucket);
        let new = self.place(at, event);
        let bucket = &mut self.buckets[slot];
        let (word, bit) = (slot / 64, 1 << (slot % 64));
        if self.words[word] & bit == 0 {
            self.words[word] |= bit;
            self.summary |= 1 << word;
            *bucket = Bucket { first: new, last: new };
        } else if self.entries[bucket.last as usize].at <= at && at != self.sorted {
            self.entries[bucket.last as usize].next = new;
            bucket.last = new;
        } else {
            self.insert_in_order(slot, new);
        }
    }

    /// Inserts an event in the middle of a bucket, or into a sorted instant.
    fn insert_in_order(&mut self, slot: usize, new: u32) {
        let Entry { at, event, .. } = self.entries[new as usize];
        let sorted = at == self.sorted;
        let (mut before, mut after) = (NONE, self.buckets[slot].first);
        while let Some(entry) = self.entries.get(after as usize)
            && (entry.at < at || entry.at == at && !(sorted && entry.event > event))
        {
            self.passed += u64::from(!sorted);
            (before, after) = (after, entry.next);
        }
        self.entries[new as usize].next = after;
        if after == NONE {
            self.buckets[slot].last = new;
        }
        match before {
            NONE => self.buckets[slot].first = new,
            _ => self.entries[before as usize].next = new,
        }
    }

    /// Brings the events of the first instant of a bucket into the order of their ids.
    #[cold]
    #[inline(never)]
    fn sort(&mut self, slot: usize, at: Time) {
        self.sorted = at;
        let mut places = std::mem::take(&mut self.places);
        let mut next = self.buckets[slot].first;
        while let Some(entry) = self.entries.get(next as usize)
            && entry.at == at
        {
            places.push(next);
            next = entry.next;
        }
        places.sort_unstable_by_key(|&place| self.entries[place as usize].event);
        self.buckets[slot].first = places[0];
        for pair in places.windows(2) {
            self.entries[pair[0] as usize].next = pair[1];
        }
        let last = places[places.len() - 1];
        self.entries[last as usize].next = next;
        if next == NONE {
            self.buckets[slot].last = last;
        }
        places.clear();
        self.places = places;
    }

    /// Has the events of the present instant brought into order again. Until then, inserting one
    /// more does not need a search among them, of which there may be thousands.
    pub fn forget_order(&mut self) {
        self.sorted = Time::MAX;
    }

    #[inline(always)]
    fn place(&mut self, at: Time, event: EventId) -> u32 {
        let place = self.free;
        if let Some(free) = self.entries.get_mut(place as usize) {
            self.free = free.next;
            // Field by field: a copy from the stack would have to wait for the previous writes.
            free.at = at;
            free.event = event;
            free.next = NONE;
            return place;
        }
        self.add(Entry { at, event, next: NONE })
    }

    #[cold]
    fn add(&mut self, entry: Entry) -> u32 {
        self.entries.push(entry);
        self.entries.len() as u32 - 1
    }

    /// Removes the first event, if it is due up to `until`; returns its bucket, its time and its
    /// id.
    #[inline(always)]
    pub fn take(&mut self, current: u64, until: Time) -> Option<(u64, Time, EventId)> {
        let bucket = self.first_bucket(current)?;
        let slot = slot(bucket);
        let mut place = self.buckets[slot].first;
        let Entry { at, mut event, mut next } = self.entries[place as usize];
        if at > until {
            return None;
        }
        if next == NONE {
            self.empty(slot);
        } else if self.entries[next as usize].at == at && self.sorted != at {
            self.sort(slot, at);
            place = self.buckets[slot].first;
            Entry { event, next, .. } = self.entries[place as usize];
        }
        self.buckets[slot].first = next;
        self.entries[place as usize].next = self.free;
        self.free = place;
        Some((bucket, at, event))
    }

    #[inline(always)]
    fn empty(&mut self, slot: usize) {
        self.words[slot / 64] ^= 1 << (slot % 64);
        if self.words[slot / 64] == 0 {
            self.summary ^= 1 << (slot / 64);
        }
    }

    /// Returns the number of events that others were inserted before since the last call.
    pub fn take_passed(&mut self) -> u64 {
        std::mem::take(&mut self.passed)
    }

    /// Returns the greatest number of events at a time so far.
    pub fn capacity(&self) -> u32 {
        self.entries.len() as u32
    }
}
