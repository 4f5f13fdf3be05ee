//! Path MTU to each hop, by packets that may not be fragmented (RFC 1191, RFC 8201), and without
//! the help of routers where they do not send errors (RFC 8899).

use serde::Serialize;

use crate::statistics::fisher;

/// Answer to a probe of some size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The hop answered: the packet reached it.
    Passed,
    /// A link on the path takes packets of at most this length, in bytes. Zero is unknown.
    TooBig(u32),
    /// No answer.
    Silent,
}

/// Hop whose path MTU is to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuHop {
    /// Time to live with which probes end there.
    pub ttl: u8,
    /// True if it has answered every probe so far. Otherwise packets count as too long only if
    /// short ones that are sent in turn with them are answered significantly more often.
    pub reliable: bool,
}

/// Path MTU to a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HopMtu {
    /// The longest packet that reaches the hop, in bytes; `None` if the hop answers too rarely to
    /// tell.
    pub mtu: Option<u32>,
    /// True if longer packets vanish without an error: a black hole (RFC 2923).
    pub black_hole: bool,
}

/// Probes of a size without an answer before the size counts as too long.
const TRIES: u32 = 3;
/// Probes to a hop at most, whatever is answered: a search by halves of 65535 takes 16 sizes.
const MOST_PROBES: u32 = 50;
/// The same to a hop that does not answer every probe.
const MOST_PAIRS: u32 = 200;
/// Pairs of a long and a short probe after which a hop answers too rarely, and after which it does
/// if no short one was answered.
const PAIRS: u64 = 12;
const SILENT_PAIRS: u64 = 4;
/// Probability below which it is not chance that no long probe of the pairs was answered.
const SIGNIFICANT: f64 = 0.01;

/// Search for the path MTU to each hop in turn.
#[derive(Clone, Debug)]
pub struct MtuSearch {
    /// Hops to be searched yet, in reverse order.
    hops: Vec<MtuHop>,
    /// The shortest packet that every link takes, and the longest that may pass.
    least: u32,
    longest: u32,
    /// Bounds of the search at this hop: the longest that passed, and the next to try.
    passed: Option<u32>,
    size: u32,
    /// The shortest that vanished.
    vanished: Option<u32>,
    tries: u32,
    /// True if the next probe is a short one, to tell whether the hop answers now, and the
    /// short probes of this size that were lost, and all of them.
    short: bool,
    shorts: (u64, u64),
    /// Probes to this hop so far.
    probes: u32,
    found: Vec<(u8, HopMtu)>,
}

impl MtuSearch {
    /// Returns a search at these hops, in order. `least` is the length that every link must take
    /// (68 B for IPv4, RFC 791; 1280 B for IPv6, RFC 8200, section 5) or the shortest probe;
    /// `longest` is the MTU of this host's device.
    pub fn new(hops: &[MtuHop], least: u32, longest: u32) -> Self {
        Self {
            hops: hops.iter().rev().copied().collect(),
            least: least.min(longest),
            longest,
            passed: None,
            size: longest,
            vanished: None,
            tries: 0,
            short: false,
            shorts: (0, 0),
            probes: 0,
            found: Vec::new(),
        }
    }

    /// Returns the hop and the size of the next probe; `None` at the end.
    pub fn next_probe(&self) -> Option<(MtuHop, u32)> {
        let size = if self.short { self.passed.unwrap_or(self.least) } else { self.size };
        Some((*self.hops.last()?, size))
    }

    /// Records the answer to the probe that [`MtuSearch::next_probe`] named.
    pub fn take(&mut self, outcome: Outcome) {
        self.probes += 1;
        let reliable = self.hops.last().is_none_or(|hop| hop.reliable);
        if reliable && self.probes == MOST_PROBES {
            return self.end(self.passed, true);
        }
        if self.probes == MOST_PAIRS {
            return self.end(None, false);
        }
        if self.short {
            return self.take_short(outcome);
        }
        let passed = self.passed.unwrap_or(0);
        match outcome {
            Outcome::Passed => {
                self.passed = Some(self.size);
            }
            Outcome::TooBig(mtu) if (self.least.max(passed + 1)..self.size).contains(&mtu) => {
                (self.size, self.longest) = (mtu, mtu);
                self.next_size();
                self.vanished = None;
                return;
            }
            // A router that reports no MTU, or an impossible one.
            Outcome::TooBig(_) => self.vanished = Some(self.size),
            Outcome::Silent => {
                self.tries += 1;
                self.short = !reliable;
                if self.short || self.tries < TRIES {
                    return;
                }
                self.vanished = Some(self.size);
            }
        }
        self.narrow();
    }

    /// Records the answer to a short probe after a long one that was not answered.
    fn take_short(&mut self, outcome: Outcome) {
        self.short = false;
        let (lost, sent) = &mut self.shorts;
        *sent += 1;
        *lost += u64::from(outcome != Outcome::Passed);
        if fisher((*sent, *sent), self.shorts) < SIGNIFICANT {
            self.vanished = Some(self.size);
            return self.narrow();
        }
        let (lost, sent) = self.shorts;
        if sent >= PAIRS || (sent >= SILENT_PAIRS && lost == sent) {
            self.end(None, false);
        }
    }

    fn next_size(&mut self) {
        (self.tries, self.short, self.shorts) = (0, false, (0, 0));
    }

    /// Chooses the next size, or ends the search at this hop.
    fn narrow(&mut self) {
        self.next_size();
        match (self.passed, self.vanished) {
            (Some(passed), None) => self.end(Some(passed), false),
            (Some(passed), Some(vanished)) if vanished <= passed + 1 => {
                self.end(Some(passed), true);
            }
            (Some(passed), Some(vanished)) => self.size = passed + (vanished - passed) / 2,
            // Does the hop answer at all?
            (None, Some(vanished)) if vanished > self.least => self.size = self.least,
            (None, _) => self.end(None, false),
        }
    }

    fn end(&mut self, mtu: Option<u32>, black_hole: bool) {
        if let Some(hop) = self.hops.pop() {
            self.found.push((hop.ttl, HopMtu { mtu, black_hole }));
        }
        // Nothing longer reaches a hop behind.
        self.longest = mtu.unwrap_or(self.longest);
        (self.size, self.passed, self.vanished) = (self.longest, None, None);
        self.probes = 0;
        self.next_size();
    }

    /// Returns the path MTU to each hop that was searched.
    pub fn found(&self) -> &[(u8, HopMtu)] {
        &self.found
    }
}

#[cfg(test)]
mod tests {
    use perhop_core::Stream;
    use proptest::prelude::*;

    use super::*;

    /// Searches a path: the MTU of each link, whether the router before it sends errors, and
    /// whether the hop behind it answers.
    fn search(links: &[(u32, bool, bool)], least: u32, longest: u32) -> Vec<(u8, HopMtu)> {
        let hops: Vec<MtuHop> =
            (1..=links.len() as u8).map(|ttl| MtuHop { ttl, reliable: true }).collect();
        let mut search = MtuSearch::new(&hops, least, longest);
        let mut probes = 0;
        while let Some((hop, size)) = search.next_probe() {
            probes += 1;
            assert!(probes < 60 * links.len(), "no end");
            assert!((least.min(longest)..=longest).contains(&size));
            let way = &links[..usize::from(hop.ttl)];
            search.take(match way.iter().find(|link| link.0 < size) {
                Some(&(mtu, true, _)) => Outcome::TooBig(mtu),
                Some(_) => Outcome::Silent,
                None if way[way.len() - 1].2 => Outcome::Passed,
                None => Outcome::Silent,
            });
        }
        search.found().to_vec()
    }

    proptest! {
        #[test]
        fn every_hop_gets_the_least_mtu_of_its_way(
            links in prop::collection::vec(
                (576_u32..2000, any::<bool>(), prop::bool::weighted(0.8)),
                1..8,
            ),
            longest in 576_u32..9000,
        ) {
            let found = search(&links, 68, longest);
            prop_assert_eq!(found.len(), links.len());
            for (hop, found) in found {
                let way = &links[..usize::from(hop)];
                let mtu = way.iter().map(|link| link.0).min().unwrap().min(longest);
                prop_assert_eq!(found.mtu, way[way.len() - 1].2.then_some(mtu));
                let silent = way.iter().any(|link| link.0 < longest && !link.1);
                prop_assert!(silent || !found.black_hole);
            }
        }

        /// For any answers, the search ends, and never tries a size above the maximum.
        #[test]
        fn lies_do_not_mislead(lies in prop::collection::vec(any::<(u8, u32)>(), 400)) {
            let hops = [1, 2].map(|ttl| MtuHop { ttl, reliable: ttl == 1 });
            let mut search = MtuSearch::new(&hops, 68, 1500); // at most 250 probes
            for (kind, mtu) in lies {
                let Some((_, size)) = search.next_probe() else { break };
                prop_assert!((68..=1500).contains(&size));
                search.take(match kind % 3 {
                    0 => Outcome::Passed,
                    1 => Outcome::TooBig(mtu),
                    _ => Outcome::Silent,
                });
            }
            prop_assert!(search.next_probe().is_none());
        }
    }

    /// Searches a hop behind a link that loses a share of all packets, or that sends an error only
    /// after every few probes.
    fn search_unreliable(mtu: u32, loss: u64, every: u64, seed: u64) -> HopMtu {
        let mut random = Stream::new(seed, "loss");
        let mut search = MtuSearch::new(&[MtuHop { ttl: 1, reliable: false }], 68, 1500);
        let mut turn = 0;
        while let Some((_, size)) = search.next_probe() {
            turn += 1;
            let answers = size <= mtu && random.up_to(99) >= loss && turn % every == 0;
            search.take(if answers { Outcome::Passed } else { Outcome::Silent });
        }
        search.found()[0].1
    }

    #[test]
    fn neither_loss_nor_a_limit_is_a_black_hole() {
        let (mut wrong, mut known) = (0, 0);
        for seed in 0..200 {
            for (mtu, loss) in [(1500, 0), (1500, 36), (1400, 0), (1400, 36)] {
                let found = search_unreliable(mtu, loss, 1, seed);
                known += u32::from(found.mtu.is_some());
                let right = (Some(mtu), mtu < 1500) == (found.mtu, found.black_hole);
                wrong += u32::from(found.mtu.is_some() && !right);
            }
        }
        assert!(wrong <= 16 && known > 600, "{wrong} wrong, {known} known of 800");
        // An error for every fifth probe, and so on.
        for every in 2..9 {
            let found = search_unreliable(1500, 0, every, 1);
            assert!(!found.black_hole, "{every}: {found:?}");
        }
        let found = search_unreliable(1500, 100, 1, 1);
        assert_eq!(found, HopMtu { mtu: None, black_hole: false });
    }
}
