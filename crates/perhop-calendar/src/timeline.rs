//! The booked rate over time: a step function, exact to the second.
//!
//! Time is divided into slots of an hour. A slot has the level at its beginning, the steps inside
//! it, its peak and its lowest level. A booking changes the steps of the two slots in which it
//! begins and ends. For the slots between, it adds to runs of numbers, and a peak is the maximum of
//! a run. Slots make most of a query cheap; steps make its ends exact. (Burchard, "Analysis of data
//! structures for admission control of advance reservation requests", TKDE 17:3, 2005, compares
//! arrays of slots with trees.)

use crate::Span;

/// Length of a slot in seconds; an offset into a slot fits into 16 bits.
pub(crate) const SLOT: u64 = 3600;

/// A span with a constant level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Its time.
    pub span: Span,
    /// Level, in bits per second.
    pub level: u64,
}

/// A change of level inside a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    /// Seconds after the slot's beginning; not zero.
    at: u16,
    by: i64,
}

/// A level over time, zero where nothing was added.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    /// Number of the first slot in memory.
    first: u64,
    /// Level at the beginning of each slot.
    levels: Vec<u64>,
    /// The highest level in each slot.
    peaks: Vec<u64>,
    /// The lowest level in each slot.
    lows: Vec<u64>,
    /// Steps inside each slot, in order of time.
    steps: Vec<Vec<Step>>,
}

/// Part of a slot.
#[derive(Clone, Copy, Debug)]
struct Part {
    slot: u64,
    from: u16,
    to: u16,
}

impl Part {
    const fn is_whole(self) -> bool {
        self.from == 0 && self.to as u64 == SLOT
    }
}

/// Divides an interval into slots: the partial slots at either end, and the numbers of the first
/// whole slot and of the one behind the last.
fn cut(span: Span) -> (Option<Part>, (u64, u64), Option<Part>) {
    let (start, end) = (span.start(), span.end());
    let (first, last) = (start / SLOT, (end - 1) / SLOT);
    let from = (start % SLOT) as u16;
    let to = ((end - 1) % SLOT + 1) as u16;
    if first == last {
        let part = Part { slot: first, from, to };
        return match part.is_whole() {
            true => (None, (first, first + 1), None),
            false => (Some(part), (first, first), None),
        };
    }
    let head = (from > 0).then_some(Part { slot: first, from, to: SLOT as u16 });
    let tail = (u64::from(to) < SLOT).then_some(Part { slot: last, from: 0, to });
    (head, (first + u64::from(head.is_some()), last + u64::from(tail.is_none())), tail)
}

impl Timeline {
    /// Raises the level by `rate` throughout `span`.
    pub fn add(&mut self, span: Span, rate: u64) {
        self.reach(span);
        self.shift(span, rate as i64);
    }

    /// Adds many bookings at once, in a time that does not grow with the length of their spans.
    pub fn add_all(&mut self, bookings: &[(Span, u64)]) {
        let Some(start) = bookings.iter().map(|(span, _)| span.start()).min() else { return };
        let end = bookings.iter().map(|(span, _)| span.end()).max().unwrap_or(start);
        Span::new(start, end).into_iter().for_each(|span| self.reach(span));
        // Difference of the levels at the beginning of each slot and of the one before.
        let mut rises = vec![0_i64; self.levels.len() + 2];
        for &(span, rate) in bookings {
            for (at, by) in [(span.start(), rate as i64), (span.end(), -(rate as i64))] {
                let index = (at / SLOT - self.first) as usize;
                match (at % SLOT) as u16 {
                    0 => rises[index] += by,
                    at => {
                        self.steps[index].push(Step { at, by });
                        rises[index + 1] += by;
                    }
                }
            }
        }
        let mut rise = 0;
        for (index, steps) in self.steps.iter_mut().enumerate() {
            rise += rises[index];
            steps.sort_unstable_by_key(|step| step.at);
            steps.dedup_by(|later, kept| {
                let same = later.at == kept.at;
                if same {
                    kept.by += later.by;
                }
                same
            });
            steps.retain(|step| step.by != 0);
            self.levels[index] = self.levels[index].wrapping_add_signed(rise);
            (self.lows[index], self.peaks[index]) = bounds(self.levels[index], steps);
        }
    }

    /// Undoes an [`add`](Self::add) with the same arguments.
    pub fn remove(&mut self, span: Span, rate: u64) {
        self.shift(span, -(rate as i64));
    }

    /// Returns the highest level in `span`.
    pub fn peak(&self, span: Span) -> u64 {
        let (head, (from, to), tail) = cut(span);
        let whole = self.indices(from, to);
        let ends = head.into_iter().chain(tail).map(|part| self.peak_within(part));
        ends.chain(self.peaks[whole].iter().copied()).max().unwrap_or(0)
    }

    /// Returns a bound before which no span can begin that is as long as `span` and has no level
    /// above `limit`: the end of the last crowded stretch in `span`, followed beyond `span` up to
    /// `until`. Returns the start of `span` if no level in it is above `limit`. Adds the effort to
    /// `looked`.
    pub fn crowded_until(&self, span: Span, limit: u64, until: u64, looked: &mut u64) -> u64 {
        let (first, last) = (span.start() / SLOT, (span.end() - 1) / SLOT);
        let slots = self.indices(first, last + 1);
        let above = |stretch: &Stretch| stretch.level > limit;
        let mut crowded = slots.clone().rev().filter(|&index| self.peaks[index] > limit);
        let found = crowded.find_map(|index| {
            *looked += self.steps[index].len() as u64;
            // The crowded stretch of the slot may be outside of `span`.
            Some((index, self.stretches_of(index, span).filter(above).last()?.span.end()))
        });
        let back = found.map_or(slots.start, |(index, _)| index);
        *looked += (slots.end - back) as u64 / 16;
        match found {
            None => span.start(),
            Some((_, end)) if end == span.end() => self.first_below(end, limit, until, looked),
            Some((_, end)) => end,
        }
    }

    /// Returns the first instant from `start` on with a level of `limit` or less, at most `until`.
    fn first_below(&self, start: u64, limit: u64, until: u64, looked: &mut u64) -> u64 {
        let Some(span) = Span::new(start, until) else { return start };
        let slots = self.indices(start / SLOT, (until - 1) / SLOT + 1);
        let mut low = slots.clone().filter(|&index| self.lows[index] <= limit);
        let found = low.find_map(|index| {
            *looked += self.steps[index].len() as u64;
            let below = self.stretches_of(index, span).find(|stretch| stretch.level <= limit);
            Some((index, below?.span.start()))
        });
        *looked += (found.map_or(slots.end, |(index, _)| index) - slots.start) as u64 / 16;
        // Levels of slots that are not in memory are zero.
        let behind = (self.first + slots.end as u64) * SLOT;
        found.map_or(behind.clamp(start, until), |(_, start)| start)
    }

    /// Returns the first stretch in `span` with a level above `limit`, within `span`.
    pub fn first_crowded(&self, span: Span, limit: u64) -> Option<Span> {
        let (first, last) = (span.start() / SLOT, (span.end() - 1) / SLOT);
        let mut crowded = self.indices(first, last + 1).filter(|&index| self.peaks[index] > limit);
        let start = crowded.find_map(|index| {
            self.stretches_of(index, span).find(|s| s.level > limit).map(|s| s.span.start())
        })?;
        Span::new(start, self.first_below(start, limit, span.end(), &mut 0))
    }

    /// Returns an upper bound of the number of changes of the level in a span.
    pub fn changes(&self, span: Span) -> usize {
        let slots = self.indices(span.start() / SLOT, (span.end() - 1) / SLOT + 1);
        self.steps[slots].iter().map(|steps| steps.len() + 1).sum::<usize>() + 2
    }

    /// Returns the level over `span`, as stretches; neighbours have different levels.
    pub fn stretches(&self, span: Span) -> Vec<Stretch> {
        let mut all: Vec<Stretch> = Vec::new();
        let mut append = |stretch: Stretch| match all.last_mut() {
            Some(last) if last.level == stretch.level => {
                last.span = join(last.span, stretch.span);
            }
            _ => all.push(stretch),
        };
        let (first, last) = (span.start() / SLOT, (span.end() - 1) / SLOT);
        let slots = self.indices(first, last + 1);
        let kept = (self.first + slots.start as u64) * SLOT;
        if let Some(span) = Span::new(span.start(), kept.min(span.end())) {
            append(Stretch { span, level: 0 });
        }
        let behind = (self.first + slots.end as u64) * SLOT;
        slots.for_each(|index| self.stretches_of(index, span).for_each(&mut append));
        if let Some(span) = Span::new(behind.max(span.start()), span.end()) {
            append(Stretch { span, level: 0 });
        }
        all
    }

    /// Removes the slots before that of `instant`.
    pub fn forget_before(&mut self, instant: u64) {
        let past = self.indices(0, instant / SLOT);
        self.first += past.len() as u64;
        self.levels.drain(past.clone());
        self.peaks.drain(past.clone());
        self.lows.drain(past.clone());
        self.steps.drain(past);
    }

    /// Returns the indices of slots `from` to `to`, as far as they are in memory.
    fn indices(&self, from: u64, to: u64) -> std::ops::Range<usize> {
        let place = |slot: u64| (slot.saturating_sub(self.first) as usize).min(self.levels.len());
        place(from)..place(to).max(place(from))
    }

    /// Extends the slots in memory so that they cover `span`.
    fn reach(&mut self, span: Span) {
        let (first, last) = (span.start() / SLOT, (span.end() - 1) / SLOT);
        if self.levels.is_empty() {
            self.first = first;
        }
        if first < self.first {
            let more = (self.first - first) as usize;
            self.levels.splice(0..0, std::iter::repeat_n(0, more));
            self.peaks.splice(0..0, std::iter::repeat_n(0, more));
            self.lows.splice(0..0, std::iter::repeat_n(0, more));
            self.steps.splice(0..0, std::iter::repeat_with(Vec::new).take(more));
            self.first = first;
        }
        let length = self.levels.len().max((last - self.first + 1) as usize);
        self.levels.resize(length, 0);
        self.peaks.resize(length, 0);
        self.lows.resize(length, 0);
        self.steps.resize_with(length, Vec::new);
    }

    fn shift(&mut self, span: Span, by: i64) {
        let (head, (from, to), tail) = cut(span);
        let whole = self.indices(from, to);
        for level in &mut self.levels[whole.clone()] {
            *level = level.wrapping_add_signed(by);
        }
        for peak in &mut self.peaks[whole.clone()] {
            *peak = peak.wrapping_add_signed(by);
        }
        for low in &mut self.lows[whole] {
            *low = low.wrapping_add_signed(by);
        }
        for part in head.into_iter().chain(tail) {
            self.shift_part(part, by);
        }
    }

    fn shift_part(&mut self, part: Part, by: i64) {
        // Slots that were removed are ignored.
        let Some(index) = part.slot.checked_sub(self.first).map(|index| index as usize) else {
            return;
        };
        let steps = &mut self.steps[index];
        if part.from == 0 {
            self.levels[index] = self.levels[index].wrapping_add_signed(by);
        } else {
            step(steps, part.from, by);
        }
        if u64::from(part.to) < SLOT {
            step(steps, part.to, -by);
        }
        (self.lows[index], self.peaks[index]) = bounds(self.levels[index], steps);
    }

    fn peak_within(&self, part: Part) -> u64 {
        let index = match part.slot.checked_sub(self.first) {
            Some(index) if (index as usize) < self.levels.len() => index as usize,
            _ => return 0,
        };
        let (mut level, mut since, mut peak) = (self.levels[index], 0, 0);
        let end = Step { at: SLOT as u16, by: 0 };
        for &Step { at, by } in self.steps[index].iter().chain([&end]) {
            if since < part.to && part.from < at {
                peak = level.max(peak);
            }
            level = level.wrapping_add_signed(by);
            since = at;
        }
        peak
    }

    /// Returns the stretches of the slot at `index`, limited to `within`.
    fn stretches_of(&self, index: usize, within: Span) -> impl Iterator<Item = Stretch> {
        let slot = (self.first + index as u64) * SLOT;
        let (mut level, mut since) = (self.levels[index], slot);
        let end = Step { at: SLOT as u16, by: 0 };
        self.steps[index].iter().copied().chain([end]).filter_map(move |step| {
            let at = slot + u64::from(step.at);
            let span = Span::new(since.max(within.start()), at.min(within.end()));
            let stretch = span.map(|span| Stretch { span, level });
            level = level.wrapping_add_signed(step.by);
            since = at;
            stretch
        })
    }
}

/// Returns the lowest and the highest level of a slot.
fn bounds(mut level: u64, steps: &[Step]) -> (u64, u64) {
    let (mut low, mut peak) = (level, level);
    for step in steps {
        level = level.wrapping_add_signed(step.by);
        (low, peak) = (low.min(level), peak.max(level));
    }
    (low, peak)
}

fn join(first: Span, second: Span) -> Span {
    Span::new(first.start(), second.end()).unwrap_or(first)
}

/// Changes the level by `by` from `at` on. Bookings that begin at the same second share a step.
fn step(steps: &mut Vec<Step>, at: u16, by: i64) {
    match steps.binary_search_by_key(&at, |step| step.at) {
        Ok(place) => {
            steps[place].by += by;
            if steps[place].by == 0 {
                steps.remove(place);
            }
        }
        Err(place) => steps.insert(place, Step { at, by }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the level at a second, computed from all bookings.
    fn level(bookings: &[(Span, u64)], second: u64) -> u64 {
        let covering = bookings.iter().filter(|(s, _)| s.start() <= second && second < s.end());
        covering.map(|(_, rate)| rate).sum()
    }

    proptest! {
        /// Adding bookings at once has the same effect as adding them one after the other.
        #[test]
        fn many_at_once_are_the_same(
            before in prop::collection::vec((0_u64..30_000, 1_u64..20_000, 1_u64..9), 0..8),
            many in prop::collection::vec((0_u64..30_000, 1_u64..20_000, 1_u64..9), 0..20),
        ) {
            let whole = |(start, length, rate): (u64, u64, u64)| {
                // Every second booking begins and ends at multiples of half a slot.
                let round = if rate % 2 == 0 { SLOT / 2 } else { 1 };
                let start = (start / round + 7) * round;
                (Span::new(start, start + (length / round + 1) * round).expect("not empty"), rate)
            };
            let (mut one, mut other) = (Timeline::default(), Timeline::default());
            for (span, rate) in before.into_iter().map(whole) {
                one.add(span, rate);
                other.add(span, rate);
            }
            let many: Vec<(Span, u64)> = many.into_iter().map(whole).collect();
            one.add_all(&many);
            many.iter().for_each(|&(span, rate)| other.add(span, rate));
            let all = Span::new(0, 100_000).expect("not empty");
            prop_assert_eq!(one.stretches(all), other.stretches(all));
            prop_assert_eq!(one.peaks.iter().max(), other.peaks.iter().max());
            for (span, _) in &many {
                prop_assert_eq!(one.peak(*span), other.peak(*span));
            }
            many.iter().for_each(|&(span, rate)| one.remove(span, rate));
            many.iter().for_each(|&(span, rate)| other.remove(span, rate));
            prop_assert_eq!(one.stretches(all), other.stretches(all));
        }
    }

    /// Returns all seconds at which the level can change, and the start of `span`.
    fn edges(bookings: &[(Span, u64)], span: Span) -> Vec<u64> {
        let mut edges: Vec<u64> = bookings.iter().flat_map(|(s, _)| [s.start(), s.end()]).collect();
        edges.push(span.start());
        edges.retain(|&edge| span.start() <= edge && edge < span.end());
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    /// Seconds, near the edges of slots more often than elsewhere.
    fn second() -> impl Strategy<Value = u64> {
        let near = (0_u64..6, 0_u64..5).prop_map(|(slot, off)| 10 * SLOT + slot * SLOT + off - 2);
        prop_oneof![near, 10 * SLOT - 50..16 * SLOT]
    }

    fn span() -> impl Strategy<Value = Span> {
        (second(), second())
            .prop_filter_map("an empty span", |(a, b)| Span::new(a.min(b), a.max(b)))
    }

    proptest! {
        /// Peaks, stretches and crowded spans agree with the sum of the bookings, while bookings
        /// are added and removed.
        #[test]
        fn a_timeline_is_the_sum_of_its_bookings(
            changes in prop::collection::vec(
                (span(), 1_u64..5, any::<prop::sample::Index>(), 0..3),
                1..40,
            ),
            queries in prop::collection::vec((span(), 0_u64..12, 1_u64..20_000), 1..20),
        ) {
            let mut timeline = Timeline::default();
            let mut bookings: Vec<(Span, u64)> = Vec::new();
            for (span, rate, which, kind) in changes {
                if kind == 0 && !bookings.is_empty() {
                    let (span, rate) = bookings.swap_remove(which.index(bookings.len()));
                    timeline.remove(span, rate);
                } else {
                    timeline.add(span, rate);
                    bookings.push((span, rate));
                }
            }
            for (span, limit, more) in queries {
                let edges = edges(&bookings, span);
                let peak = edges.iter().map(|&edge| level(&bookings, edge)).max().unwrap();
                prop_assert_eq!(timeline.peak(span), peak);
                let mut expected: Vec<Stretch> = Vec::new();
                for (place, &edge) in edges.iter().enumerate() {
                    let until = edges.get(place + 1).copied().unwrap_or(span.end());
                    let now = level(&bookings, edge);
                    match expected.last_mut() {
                        Some(last) if last.level == now => {
                            last.span = Span::new(last.span.start(), until).unwrap();
                        }
                        _ => {
                            let span = Span::new(edge, until).unwrap();
                            expected.push(Stretch { span, level: now });
                        }
                    }
                }
                prop_assert_eq!(&timeline.stretches(span), &expected);
                let crowded = |s: &&Stretch| s.level > limit;
                let last = expected.iter().rev().find(crowded).map(|s| s.span.end());
                let until = span.end() + more;
                let wanted = match last {
                    None => span.start(),
                    Some(last) if last < span.end() => last,
                    Some(last) => self::edges(&bookings, Span::new(last, until).unwrap())
                        .into_iter()
                        .find(|&edge| level(&bookings, edge) <= limit)
                        .unwrap_or(until),
                };
                prop_assert_eq!(timeline.crowded_until(span, limit, until, &mut 0), wanted);
                let first = expected.iter().position(|s| s.level > limit).map(|from| {
                    let run = expected[from..].iter().take_while(crowded);
                    Span::new(expected[from].span.start(), run.last().unwrap().span.end()).unwrap()
                });
                prop_assert_eq!(timeline.first_crowded(span, limit), first);
            }
        }

        /// Removing the past leaves the rest unchanged.
        #[test]
        fn the_past_is_forgotten(
            bookings in prop::collection::vec((span(), 1_u64..5), 1..20),
            instant in second(),
            later in span(),
        ) {
            let mut timeline = Timeline::default();
            for &(span, rate) in &bookings {
                timeline.add(span, rate);
            }
            let before = timeline.clone();
            timeline.forget_before(instant);
            let kept = instant / SLOT * SLOT;
            if let Some(later) = Span::new(later.start().max(kept), later.end()) {
                prop_assert_eq!(timeline.stretches(later), before.stretches(later));
                prop_assert_eq!(timeline.peak(later), before.peak(later));
            }
            for &(span, rate) in &bookings {
                timeline.remove(span, rate);
            }
            prop_assert_eq!(timeline.peak(Span::new(kept, 20 * SLOT).unwrap()), 0);
        }
    }

    #[test]
    fn equal_bookings_count_twice_and_neighbours_do_not_meet() {
        let span = |a, b| Span::new(a, b).unwrap();
        let mut timeline = Timeline::default();
        timeline.add(span(100, 200), 4);
        timeline.add(span(100, 200), 4);
        assert_eq!(timeline.peak(span(0, 1_000)), 8);
        timeline.add(span(200, 300), 4);
        assert_eq!(timeline.peak(span(150, 300)), 8);
        assert_eq!(timeline.peak(span(200, 300)), 4);
        assert_eq!(timeline.peak(span(300, 1_000_000_000_000)), 0);
    }
}
