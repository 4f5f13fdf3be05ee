//! Class-based queueing in a plan, and the tree that it makes.

use perhop_core::{Duration, Rate};
use perhop_queue::{Cbq, CbqConfig, CbqPart, CbqSpec, Class, Queue, QueueConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::build::BuildError;
use crate::classes::{DisciplinePlan, MatchPlan, PolicePlan, Site, checked_number};

/// The least time between two ticks.
const LEAST_TICK: Duration = Duration::from_micros(100);

/// How many packets a burst has at most; more are as good as no limit.
const MOST_BURST: u32 = 1000;

/// ALTQ's class-based queueing.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CbqPlan {
    /// What holds for the whole tree.
    pub config: CbqConfig,
    /// The classes below the root.
    pub classes: Vec<CbqClassPlan>,
}

/// A class of the tree.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CbqClassPlan {
    /// What results call it.
    pub name: String,
    /// Which packets belong to it.
    #[serde(rename = "match")]
    pub matches: MatchPlan,
    /// Its rate.
    pub rate: Rate,
    /// True if it borrows from its parent.
    pub borrow: bool,
    /// What it holds.
    pub part: CbqPartPlan,
}

/// What a class of the tree holds.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CbqPartPlan {
    /// A queue.
    Leaf(CbqLeafPlan),
    /// Classes.
    Inner(Vec<CbqClassPlan>),
}

/// A queue of the tree.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CbqLeafPlan {
    /// From 0, first, to 7.
    pub priority: u8,
    /// Its policer.
    pub police: Option<PolicePlan>,
    /// What waits in it.
    pub queue: QueueConfig,
}

impl CbqPlan {
    pub(crate) fn queue<B>(&self, site: Site<'_>) -> Result<Queue<B>, BuildError> {
        let config = self.config;
        if config.tick < LEAST_TICK {
            return Err(BuildError::TooLarge("a clock ticks more than 10,000 times a second"));
        }
        if config.minburst.max(config.maxburst.unwrap_or(0)) > MOST_BURST {
            return Err(BuildError::TooLarge("a burst has more than 1000 packets"));
        }
        Ok(Queue::Cbq(Box::new(Cbq::new(config, specs(&self.classes, site)?))))
    }
}

fn specs<B>(plans: &[CbqClassPlan], site: Site<'_>) -> Result<Vec<CbqSpec<B>>, BuildError> {
    checked_number(plans.len())?;
    let spec = |plan: &CbqClassPlan| {
        Ok(CbqSpec {
            matches: plan.matches.resolve(site.names)?,
            rate: plan.rate,
            borrow: plan.borrow,
            part: match &plan.part {
                CbqPartPlan::Leaf(leaf) => {
                    CbqPart::Leaf(leaf.class(&plan.name, site)?, leaf.priority)
                }
                CbqPartPlan::Inner(plans) => {
                    CbqPart::Inner(plan.name.as_str().into(), specs(plans, site)?)
                }
            },
        })
    };
    plans.iter().map(spec).collect()
}

impl CbqLeafPlan {
    fn class<B>(&self, name: &str, site: Site<'_>) -> Result<Class<B>, BuildError> {
        if self.priority > 7 {
            return Err(BuildError::TooLarge("a priority is above 7"));
        }
        let queue = DisciplinePlan::Queue(self.queue.clone()).queue(name, site)?;
        let class = Class::new(queue).named(name);
        Ok(match self.police {
            Some(police) => class.policed(police.policer(), police.actions()),
            None => class,
        })
    }
}
