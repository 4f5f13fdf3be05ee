//! Class-based queueing in a plan, and the tree that it makes.

use perhop_core::{Bytes, Duration};
use perhop_queue::{Cbq, CbqConfig, CbqPart, CbqSpec, Class, Queue};
use serde::Deserialize;

use crate::build::{BuildError, actions, matches, non_zero_rate, policer, queue};
use crate::network::{MatchPlan, PolicePlan, QueuePlan};

/// The least time between two ticks.
const LEAST_TICK: Duration = Duration::from_micros(100);

/// How many packets a burst has at most; more are as good as no limit.
const MOST_BURST: u32 = 1000;

/// ALTQ's class-based queueing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CbqPlan {
    /// The root's rate.
    pub rate: u64,
    /// The time between two ticks of the clock.
    pub tick: u64,
    /// The longest packet.
    pub packet: u32,
    /// The packets of a burst after a long idle time, unless they follow from the rate.
    pub maxburst: Option<u32>,
    /// The packets of a burst in the long run.
    pub minburst: u32,
    /// Whether a token bucket stands before the driver.
    pub token_bucket: bool,
    /// Whether the link is never idle while a class that may borrow has packets.
    pub efficient: bool,
    /// Whether the driver asks for more when it has transmitted a packet.
    pub kick: bool,
    /// The classes below the root.
    pub classes: Vec<CbqClassPlan>,
}

/// A class of the tree.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CbqClassPlan {
    /// Which packets belong to it.
    pub matches: MatchPlan,
    /// Its rate.
    pub rate: u64,
    /// Whether it borrows from its parent.
    pub borrow: bool,
    /// What it holds.
    pub part: CbqPartPlan,
}

/// What a class of the tree holds.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CbqPartPlan {
    /// A queue.
    Leaf(CbqLeafPlan),
    /// Classes.
    Inner(Vec<CbqClassPlan>),
}

/// A queue of the tree.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CbqLeafPlan {
    /// From 0, first, to 7.
    pub priority: u8,
    /// Its policer.
    pub police: Option<PolicePlan>,
    /// What waits in it.
    pub queue: QueuePlan,
}

impl CbqPlan {
    pub(crate) fn queue<B>(&self, seed: u64) -> Result<Queue<B>, BuildError> {
        let tick = Duration::from_picos(self.tick);
        if tick < LEAST_TICK {
            return Err(BuildError::TooLarge("a clock ticks more than 10,000 times a second"));
        }
        if self.packet == 0 {
            return Err(BuildError::Zero("a packet's length"));
        }
        if self.minburst.max(self.maxburst.unwrap_or(0)) > MOST_BURST {
            return Err(BuildError::TooLarge("a burst has more than 1000 packets"));
        }
        let config = CbqConfig {
            rate: non_zero_rate(self.rate, "a root's rate")?,
            tick,
            packet: Bytes::new(self.packet.into()),
            maxburst: self.maxburst,
            minburst: self.minburst,
            token_bucket: self.token_bucket,
            efficient: self.efficient,
            kick: self.kick,
        };
        Ok(Queue::Cbq(Box::new(Cbq::new(config, specs(&self.classes, seed)?))))
    }
}

fn specs<B>(plans: &[CbqClassPlan], seed: u64) -> Result<Vec<CbqSpec<B>>, BuildError> {
    if plans.is_empty() {
        return Err(BuildError::NoClass);
    }
    if plans.len() > usize::from(u16::MAX) {
        return Err(BuildError::TooLarge("a policy has more than 65535 classes"));
    }
    let spec = |plan: &CbqClassPlan| {
        Ok(CbqSpec {
            matches: matches(&plan.matches)?,
            rate: non_zero_rate(plan.rate, "a class's rate")?,
            borrow: plan.borrow,
            part: match &plan.part {
                CbqPartPlan::Leaf(leaf) => CbqPart::Leaf(leaf.class(seed)?, leaf.priority),
                CbqPartPlan::Inner(plans) => CbqPart::Inner(specs(plans, seed)?),
            },
        })
    };
    plans.iter().map(spec).collect()
}

impl CbqLeafPlan {
    fn class<B>(&self, seed: u64) -> Result<Class<B>, BuildError> {
        if self.priority > 7 {
            return Err(BuildError::TooLarge("a priority is above 7"));
        }
        let class = match queue(&self.queue, seed)? {
            Queue::Classes(_) | Queue::Cbq(_) => return Err(BuildError::NestedClasses),
            plain => Class::new(plain),
        };
        Ok(match self.police {
            Some(police) => class.policed(policer(police)?, actions(police)?),
            None => class,
        })
    }
}
