//! Judgement of hops: where marks change, and whether silence is loss.

use perhop_core::TrafficClass;
use serde::Serialize;

use crate::statistics::fisher;

/// Probability below which a difference of losses is not chance.
const SIGNIFICANT: f64 = 1e-3;

/// Missing answers of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Silence {
    /// Every probe was answered.
    None,
    /// Probes or answers are lost: hops behind this one lose as many, or the last one when it is
    /// probed again.
    Loss,
    /// The hop limits its ICMP errors: hops behind it lose fewer probes, all of which pass it, or
    /// the last one does when it is probed again.
    Limited,
    /// The router never answers, and hops behind it do.
    Silent,
    /// Probes or answers are lost, or the hop limits its ICMP errors: nothing tells which.
    Unclear,
}

/// How a hop was probed again, so that a limit of its ICMP errors is told from loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Echo requests as fast as the probes. Linux limits errors, and not echo replies.
    Echo,
    /// The same probes with more time between them than limits have between two errors.
    Spaced,
}

/// Probes that were sent to the last hop again, and their answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Retest {
    /// How they were sent.
    pub method: Method,
    /// Answers.
    pub answered: u64,
    /// Probes.
    pub sent: u64,
}

impl Retest {
    /// Returns the answers and the probes.
    pub const fn counts(&self) -> (u64, u64) {
        (self.answered, self.sent)
    }

    /// Returns the share of probes that were not answered.
    pub fn loss(&self) -> f64 {
        (self.sent - self.answered) as f64 / self.sent as f64
    }
}

/// Chooses the retest that tells loss from a limit: echo requests, unless none is answered or
/// spaced probes lose significantly fewer (a limit of echo replies). Of spaced probes, most must
/// be answered: otherwise there may be a limit that is slower than they are.
pub fn reference(echo: Option<Retest>, spaced: Option<Retest>) -> Option<Retest> {
    let lost = |one: Retest| (one.sent - one.answered, one.sent);
    let spaced = spaced.filter(|one| 2 * one.answered > one.sent);
    let echo = echo.filter(|one| one.answered > 0);
    match (echo, spaced) {
        (Some(echo), Some(spaced)) if fisher(lost(echo), lost(spaced)) < SIGNIFICANT => {
            Some(spaced)
        }
        // Neither tells: a limit of echo replies that is slower than the spaced probes.
        (Some(echo), None) if 2 * echo.answered <= echo.sent => None,
        (echo, spaced) => echo.or(spaced),
    }
}

/// Judges the missing answers of each hop of a path. `counts` has the answers and the probes of
/// each hop, in the order of the hops.
///
/// Probes to a hop pass all hops before it. The loss up to a hop is therefore at most that of each
/// hop behind it, apart from chance, which an exact test tells apart. No hop is behind the last
/// one; `last` says how it was probed again.
pub fn judge(counts: &[(u64, u64)], last: Option<Retest>) -> Vec<Silence> {
    let end = counts.len();
    let counts: Vec<_> = counts.iter().copied().chain(last.map(|it| it.counts())).collect();
    let lost = |&(answered, sent): &(u64, u64)| (sent - answered, sent);
    let judged = counts[..end].iter().enumerate().map(|(number, count)| {
        let behind = &counts[number + 1..];
        let limited = || {
            behind
                .iter()
                .filter(|other| other.0 > 0)
                .any(|other| fisher(lost(count), lost(other)) < SIGNIFICANT)
        };
        match *count {
            (answered, sent) if answered == sent => Silence::None,
            (0, _) if number + 1 < end && behind.iter().any(|other| other.0 > 0) => Silence::Silent,
            _ if limited() => Silence::Limited,
            _ if number + 1 == end && last.is_none_or(|it| it.answered == it.sent) => {
                Silence::Unclear
            }
            _ => Silence::Loss,
        }
    });
    judged.collect()
}

/// DSCP and ECN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Mark {
    /// DSCP, from 0 to 63.
    pub dscp: u8,
    /// ECN field, from 0 to 3.
    pub ecn: u8,
}

impl From<TrafficClass> for Mark {
    fn from(class: TrafficClass) -> Self {
        Self { dscp: class.octet() >> 2, ecn: class.octet() & 3 }
    }
}

/// Change of a mark on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Rewrite {
    /// Mark that the probes were sent with.
    pub sent: Mark,
    /// The last hop that received `before`; 0 is the host that probes.
    pub after_hop: u8,
    /// The first hop that received `after`. The change is made by this hop as it receives, by
    /// `after_hop` as it sends, or by a hop between them that does not answer.
    pub by_hop: u8,
    /// The mark until then.
    pub before: Mark,
    /// The mark from then on.
    pub after: Mark,
}

/// Returns where marks change. `seen` has, per hop from the first, the mark that its errors quoted
/// most often, if any, of probes with the mark `sent`.
pub fn rewrites(sent: Mark, seen: &[Option<Mark>]) -> Vec<Rewrite> {
    let (mut changes, mut last) = (Vec::new(), (0, sent));
    for (number, mark) in seen.iter().enumerate() {
        let Some(mark) = *mark else { continue };
        let hop = number as u8 + 1;
        if mark != last.1 {
            let (after_hop, before) = last;
            changes.push(Rewrite { sent, after_hop, by_hop: hop, before, after: mark });
        }
        last = (hop, mark);
    }
    changes
}

#[cfg(test)]
mod tests {
    use perhop_core::Stream;

    use super::*;

    #[test]
    fn silence_is_told_from_loss() {
        use Silence::{Limited, Loss, None, Silent};
        let found = judge(&[(20, 20), (3, 20), (0, 20), (20, 20), (20, 20)], Option::None);
        assert_eq!(found, [None, Limited, Silent, None, None]);
        // Loss that goes on.
        let lossy = [(20, 20), (12, 20), (13, 20), (11, 20)];
        let again = retest(Method::Echo, 12, 20);
        assert_eq!(judge(&lossy, again), [None, Loss, Loss, Loss]);
        // One answer of 20 is missing by chance; nothing answers behind the second hop.
        assert_eq!(judge(&[(19, 20), (20, 20), (0, 20)], again), [Loss, None, Limited]);
    }

    fn retest(method: Method, answered: u64, sent: u64) -> Option<Retest> {
        Some(Retest { method, answered, sent })
    }

    #[test]
    fn limits_of_the_last_hop_are_told_from_loss() {
        use Silence::{Limited, Loss, None, Unclear};
        let judged = |counts: &[(u64, u64)], last| judge(counts, last).last().copied().unwrap();
        // Linux sends six errors, and then one a second.
        assert_eq!(judged(&[(6, 40)], retest(Method::Echo, 40, 40)), Limited);
        assert_eq!(judged(&[(6, 40)], retest(Method::Echo, 26, 40)), Limited);
        assert_eq!(judged(&[(6, 40)], retest(Method::Spaced, 10, 10)), Limited);
        assert_eq!(judged(&[(26, 40)], retest(Method::Echo, 28, 40)), Loss);
        assert_eq!(judged(&[(40, 40)], Option::None), None);
        // Nothing tells, or too few probes do.
        assert_eq!(judged(&[(6, 40)], Option::None), Unclear);
        assert_eq!(judged(&[(3, 5)], retest(Method::Echo, 5, 5)), Unclear);
        // A router before the last hop, of which the same is known.
        let both = judge(&[(7, 40), (6, 40)], retest(Method::Echo, 40, 40));
        assert_eq!(both, [Limited, Limited]);
    }

    #[test]
    fn the_retest_that_has_no_limit_is_chosen() {
        let (echo, spaced) = (retest(Method::Echo, 30, 40), retest(Method::Spaced, 8, 10));
        assert_eq!(reference(echo, spaced), echo);
        assert_eq!(reference(echo, None), echo);
        assert_eq!(reference(retest(Method::Echo, 0, 40), spaced), spaced);
        assert_eq!(reference(retest(Method::Echo, 5, 40), spaced), spaced, "limited replies");
        assert_eq!(reference(None, retest(Method::Spaced, 3, 10)), None, "a slower limit");
        assert_eq!(reference(retest(Method::Echo, 2, 40), retest(Method::Spaced, 3, 10)), None);
    }

    /// Of a path with random loss, hardly any hop is said to limit its errors; a hop that answers a
    /// tenth of what it receives is, in 99 of 100 cases. The cases are the same in every run.
    #[test]
    fn limits_are_found_beside_loss() {
        let mut wrong = 0;
        for seed in 0..500 {
            let mut random = Stream::new(seed, "loss");
            let (loss, limited) = (random.up_to(29), random.up_to(4) as usize);
            let counts: Vec<(u64, u64)> = (0..7)
                .map(|hop| {
                    let answers = (0..60).filter(|_| random.up_to(99) >= loss);
                    let answered = answers.count() as u64;
                    (if hop == limited { answered / 10 } else { answered }, 60)
                })
                .collect();
            let found = judge(&counts, None);
            let answers = counts[limited].0 > 0;
            let expected = if answers { Silence::Limited } else { Silence::Silent };
            let judged = found.iter().filter(|&&it| it == Silence::Limited).count();
            wrong += u32::from(found[limited] != expected || judged - usize::from(answers) > 1);
        }
        assert!(wrong <= 5, "{wrong} of 500");
    }

    #[test]
    fn marks_change_between_two_hops_that_answer() {
        let mark = |dscp, ecn| Mark { dscp, ecn };
        let (ef, af, bleached) = (mark(46, 2), mark(10, 2), mark(10, 0));
        let found = rewrites(ef, &[Some(ef), None, Some(af), Some(af), Some(bleached)]);
        let expected = [
            Rewrite { sent: ef, after_hop: 1, by_hop: 3, before: ef, after: af },
            Rewrite { sent: ef, after_hop: 4, by_hop: 5, before: af, after: bleached },
        ];
        assert_eq!(found, expected);
        assert_eq!(rewrites(ef, &[None, None]), []);
    }
}
