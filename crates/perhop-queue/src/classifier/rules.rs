//! Filters of several rules, of which the first that applies to a packet decides.

use perhop_core::{Dscp, Header};

use super::Match;

/// One rule of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchRule {
    /// True if packets that meet the conditions match the filter, false if they do not.
    pub permit: bool,
    /// Conditions under which the rule applies.
    pub conditions: Match,
}

/// Filter of a class: the first rule that applies to a packet decides whether it matches. A packet
/// to which no rule applies does not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchRules(pub Vec<MatchRule>);

impl MatchRules {
    /// Returns `true` if a packet with this header matches.
    pub fn matches(&self, header: &Header) -> bool {
        let mut rules = self.0.iter();
        rules.find(|rule| rule.conditions.matches(header)).is_some_and(|rule| rule.permit)
    }
}

impl From<Match> for MatchRules {
    fn from(conditions: Match) -> Self {
        Self(vec![MatchRule { permit: true, conditions }])
    }
}

impl Default for MatchRules {
    /// Matches every packet.
    fn default() -> Self {
        Match::default().into()
    }
}

/// What a rule decides about the packets to which it applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// They belong to this class.
    Class(u16),
    /// They do not match the class of the rule; rules from this one on, of later classes, decide.
    Skip(u16),
}

/// Returns the rules of all classes, in order: conditions and outcomes.
pub(super) fn flat(filters: Vec<MatchRules>) -> (Vec<Match>, Vec<Outcome>) {
    let (mut matches, mut outcomes) = (Vec::new(), Vec::new());
    for (class, MatchRules(rules)) in filters.into_iter().enumerate() {
        let behind = matches.len() + rules.len();
        for MatchRule { permit, conditions } in rules {
            matches.push(conditions);
            outcomes.push(match permit {
                true => Outcome::Class(class as u16),
                false => Outcome::Skip(behind as u16),
            });
        }
    }
    (matches, outcomes)
}

/// Returns the rules that can decide about a packet with this DSCP, in order. The last of them
/// applies to all these packets, and decides for a class.
pub(super) fn candidates(matches: &[Match], outcomes: &[Outcome], dscp: Dscp) -> Vec<u16> {
    let mut found = Vec::new();
    let mut rule = 0;
    // First rule behind the last class of which a rule may exclude packets.
    let mut behind = 0;
    while let Some(conditions) = matches.get(rule) {
        if !conditions.dscps.is_empty() && !conditions.dscps.contains(&dscp) {
            rule += 1;
            continue;
        }
        match (conditions.is_dscp_only(), outcomes[rule]) {
            // No later rule of the class decides, nor of any class, if all packets come so far.
            (true, Outcome::Class(_)) => {
                found.push(rule as u16);
                if behind <= rule {
                    break;
                }
                rule = behind;
            }
            (true, Outcome::Skip(to)) => rule = usize::from(to),
            (false, outcome) => {
                if let Outcome::Skip(to) = outcome {
                    behind = usize::from(to);
                }
                found.push(rule as u16);
                rule += 1;
            }
        }
    }
    found
}
