//! Marks: the instants at which counters are read.

use perhop_core::Time;

use crate::tables::Stretch;

/// The marks of a run: the instants at which all counters are read. Some of them are cuts, at which
/// distributions are reset.
///
/// A run without marks has no end. Its counters are read once, when it is stopped.
#[derive(Clone, Debug)]
pub struct Marks {
    marks: Vec<Time>,
    /// Index of the first mark that was not reached.
    next: usize,
    /// Last mark, or the time at which the run was stopped.
    end: Option<Time>,
    /// Time of the last reading.
    recorded: Time,
    cuts: Vec<Time>,
    /// Last cut that was reached.
    cut: Time,
}

impl Marks {
    /// Creates marks and cuts; `None` unless both rise, the marks begin above zero, and all are
    /// before [`Time::MAX`].
    pub fn new(marks: &[Time], cuts: &[Time]) -> Option<Self> {
        let rises = |times: &[Time]| times.is_sorted_by(|a, b| a < b);
        let ends = marks.last() != Some(&Time::MAX);
        let sound = rises(marks) && rises(cuts) && marks.first() != Some(&Time::ZERO) && ends;
        sound.then(|| Self {
            end: marks.last().copied(),
            marks: marks.to_vec(),
            next: 0,
            recorded: Time::ZERO,
            cuts: cuts.to_vec(),
            cut: Time::ZERO,
        })
    }

    /// Returns the next mark; `None` after the last one.
    pub fn next(&self) -> Option<Time> {
        self.marks.get(self.next).copied()
    }

    /// Returns the next mark if it is at `now` or before.
    pub fn due(&self, now: Time) -> Option<Time> {
        self.next().filter(|&mark| mark <= now)
    }

    /// Returns the last mark, or the time at which the run was stopped; `None` for a run without an
    /// end.
    pub fn end(&self) -> Option<Time> {
        self.end
    }

    /// Returns the time of the last reading.
    pub fn recorded(&self) -> Time {
        self.recorded
    }

    /// Records a reading of the counters for `mark`; returns the interval since the last one.
    pub fn read(&mut self, mark: Time) -> Stretch {
        self.next += self.marks[self.next..].partition_point(|&each| each <= mark);
        (std::mem::replace(&mut self.recorded, mark), mark)
    }

    /// Returns the interval since the last cut if the last reading was at a cut, and begins the
    /// next interval.
    pub fn cut(&mut self) -> Option<Stretch> {
        let reached = self.cuts.partition_point(|&cut| cut <= self.recorded);
        let due = reached > 0;
        self.cuts.drain(..reached);
        due.then(|| (std::mem::replace(&mut self.cut, self.recorded), self.recorded))
    }

    /// Returns the interval from the last cut to `now`; `None` if it is empty.
    pub fn since_cut(&self, now: Time) -> Option<Stretch> {
        (now > self.cut).then_some((self.cut, now))
    }

    /// Ends the run at `now`, or at its end if that is earlier. Returns the instant for which
    /// counters must be read once more, if any.
    pub fn stop(&mut self, now: Time) -> Option<Time> {
        let now = self.end.map_or(now, |end| now.min(end));
        self.marks.truncate(self.next);
        self.end = Some(now);
        (now > self.recorded).then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(picos: u64) -> Time {
        Time::from_picos(picos)
    }

    fn marks_at(marks: &[u64], cuts: &[u64]) -> Option<Marks> {
        let times = |picos: &[u64]| picos.iter().copied().map(at).collect::<Vec<_>>();
        Marks::new(&times(marks), &times(cuts))
    }

    #[test]
    fn each_mark_is_read_once_and_rows_join() {
        let mut marks = marks_at(&[10, 20, 40], &[20]).unwrap();
        assert_eq!((marks.due(at(9)), marks.due(at(25))), (None, Some(at(10))));
        assert_eq!(marks.read(at(10)), (at(0), at(10)));
        assert_eq!((marks.cut(), marks.since_cut(at(15))), (None, Some((at(0), at(15)))));
        assert_eq!(marks.read(at(20)), (at(10), at(20)));
        assert_eq!((marks.cut(), marks.cut()), (Some((at(0), at(20))), None));
        assert_eq!(
            (marks.since_cut(at(20)), marks.since_cut(at(21))),
            (None, Some((at(20), at(21))))
        );
        assert_eq!(
            (marks.read(at(40)), marks.next(), marks.recorded()),
            ((at(20), at(40)), None, at(40))
        );
    }

    #[test]
    fn a_run_that_is_stopped_is_read_once_more_and_never_again() {
        let mut marks = marks_at(&[10, 20], &[]).unwrap();
        marks.read(at(10));
        assert_eq!(marks.stop(at(15)), Some(at(15)));
        assert_eq!(marks.read(at(15)), (at(10), at(15)));
        assert_eq!((marks.next(), marks.end(), marks.stop(at(18))), (None, Some(at(15)), None));
    }

    #[test]
    fn nothing_is_read_beyond_the_end() {
        let mut marks = marks_at(&[10], &[]).unwrap();
        marks.read(at(10));
        assert_eq!((marks.stop(at(15)), marks.end()), (None, Some(at(10))));
        // A run that is late to read its last mark reads that one.
        let mut late = marks_at(&[10], &[]).unwrap();
        assert_eq!(late.stop(at(15)), Some(at(10)));
    }

    #[test]
    fn a_run_without_marks_is_read_where_it_stops() {
        let mut marks = marks_at(&[], &[]).unwrap();
        assert_eq!((marks.next(), marks.end(), marks.stop(at(7))), (None, None, Some(at(7))));
        assert_eq!(marks.read(at(7)), (at(0), at(7)));
    }

    #[test]
    fn marks_rise_from_above_zero_and_end() {
        let never = Time::MAX.as_picos();
        for (marks, cuts) in
            [(&[0, 1][..], &[][..]), (&[2, 2], &[]), (&[3], &[2, 1]), (&[never], &[])]
        {
            assert!(marks_at(marks, cuts).is_none(), "{marks:?} {cuts:?}");
        }
    }
}
