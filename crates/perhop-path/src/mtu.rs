//! Path MTU to each hop, by packets that may not be fragmented (RFC 1191, RFC 8201), and without
//! the help of routers where they do not send errors (RFC 8899).

use serde::Serialize;

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

/// Path MTU to a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HopMtu {
    /// The longest packet that reaches the hop, in bytes; `None` if the hop does not answer.
    pub mtu: Option<u32>,
    /// True if longer packets vanish without an error: a black hole (RFC 2923).
    pub black_hole: bool,
}

/// Probes of a size without an answer before the size counts as too long.
const TRIES: u32 = 3;
/// Probes to a hop at most, whatever is answered: a search by halves of 65535 takes 16 sizes.
const MOST_PROBES: u32 = 50;

/// Search for the path MTU to each hop in turn.
#[derive(Clone, Debug)]
pub struct MtuSearch {
    /// Hops to be searched yet, in reverse order.
    hops: Vec<u8>,
    /// The shortest packet that every link takes, and the longest that may pass.
    least: u32,
    longest: u32,
    /// Bounds of the search at this hop: the longest that passed, and the next to try.
    passed: Option<u32>,
    size: u32,
    /// The shortest that vanished.
    vanished: Option<u32>,
    tries: u32,
    /// Probes to this hop so far.
    probes: u32,
    found: Vec<(u8, HopMtu)>,
}

impl MtuSearch {
    /// Returns a search at these hops, in order. `least` is the length that every link must take
    /// (68 B for IPv4, RFC 791; 1280 B for IPv6, RFC 8200, section 5) or the shortest probe;
    /// `longest` is the MTU of this host's device.
    pub fn new(hops: &[u8], least: u32, longest: u32) -> Self {
        Self {
            hops: hops.iter().rev().copied().collect(),
            least: least.min(longest),
            longest,
            passed: None,
            size: longest,
            vanished: None,
            tries: 0,
            probes: 0,
            found: Vec::new(),
        }
    }

    /// Returns the hop and the size of the next probe; `None` at the end.
    pub fn next_probe(&self) -> Option<(u8, u32)> {
        Some((*self.hops.last()?, self.size))
    }

    /// Records the answer to the probe that [`MtuSearch::next_probe`] named.
    pub fn take(&mut self, outcome: Outcome) {
        self.probes += 1;
        if self.probes == MOST_PROBES {
            return self.end(self.passed, true);
        }
        let passed = self.passed.unwrap_or(0);
        match outcome {
            Outcome::Passed => {
                self.passed = Some(self.size);
                self.tries = 0;
            }
            Outcome::TooBig(mtu) if (self.least.max(passed + 1)..self.size).contains(&mtu) => {
                (self.size, self.longest, self.tries) = (mtu, mtu, 0);
                self.vanished = None;
                return;
            }
            // A router that reports no MTU, or an impossible one.
            Outcome::TooBig(_) => {
                self.vanished = Some(self.size);
                self.tries = 0;
            }
            Outcome::Silent => {
                self.tries += 1;
                if self.tries < TRIES {
                    return;
                }
                self.vanished = Some(self.size);
                self.tries = 0;
            }
        }
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
            self.found.push((hop, HopMtu { mtu, black_hole }));
        }
        // Nothing longer reaches a hop behind.
        self.longest = mtu.unwrap_or(self.longest);
        (self.size, self.passed, self.vanished) = (self.longest, None, None);
        (self.tries, self.probes) = (0, 0);
    }

    /// Returns the path MTU to each hop that was searched.
    pub fn found(&self) -> &[(u8, HopMtu)] {
        &self.found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Searches a path: the MTU of each link, whether the router before it sends errors, and
    /// whether the hop behind it answers.
    fn search(links: &[(u32, bool, bool)], least: u32, longest: u32) -> Vec<(u8, HopMtu)> {
        let hops: Vec<u8> = (1..=links.len() as u8).collect();
        let mut search = MtuSearch::new(&hops, least, longest);
        let mut probes = 0;
        while let Some((hop, size)) = search.next_probe() {
            probes += 1;
            assert!(probes < 60 * links.len(), "no end");
            assert!((least.min(longest)..=longest).contains(&size));
            let way = &links[..usize::from(hop)];
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
            let mut search = MtuSearch::new(&[1, 2, 3], 68, 1500); // at most 150 probes
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
}
