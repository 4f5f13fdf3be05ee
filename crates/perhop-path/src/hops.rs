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
    /// Probes or answers are lost: hops behind this one lose as many, or it is the last one.
    Loss,
    /// The router limits its ICMP errors: hops behind it lose fewer probes, all of which pass it.
    Limited,
    /// The router never answers, and hops behind it do.
    Silent,
}

/// Judges the missing answers of each hop of a path. `counts` has the answers and the probes of
/// each hop, in the order of the hops.
///
/// Probes to a hop pass all hops before it. The loss up to a hop is therefore at most that of each
/// hop behind it, apart from chance, which an exact test tells apart.
pub fn judge(counts: &[(u64, u64)]) -> Vec<Silence> {
    let lost = |&(answered, sent): &(u64, u64)| (sent - answered, sent);
    let judged = counts.iter().enumerate().map(|(number, count)| {
        let behind = &counts[number + 1..];
        let limited = || {
            behind
                .iter()
                .filter(|other| other.0 > 0)
                .any(|other| fisher(lost(count), lost(other)) < SIGNIFICANT)
        };
        match *count {
            (answered, sent) if answered == sent => Silence::None,
            (0, _) if behind.iter().any(|other| other.0 > 0) => Silence::Silent,
            _ if limited() => Silence::Limited,
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
        let found = judge(&[(20, 20), (3, 20), (0, 20), (20, 20), (20, 20)]);
        assert_eq!(found, [None, Limited, Silent, None, None]);
        // Loss that goes on.
        assert_eq!(judge(&[(20, 20), (12, 20), (13, 20), (11, 20)]), [None, Loss, Loss, Loss]);
        // One answer of 20 is missing by chance; nothing answers behind the second hop.
        assert_eq!(judge(&[(19, 20), (20, 20), (0, 20)]), [Loss, None, Loss]);
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
            let found = judge(&counts);
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
