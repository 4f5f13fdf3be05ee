//! Class-based queueing in a plan, and the tree built from it.

use perhop_core::{Duration, Rate};
use perhop_queue::{Cbq, CbqClassKind, CbqConfig, CbqSpec, Class, Queue, QueueConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::build::BuildError;
use crate::classes::{
    LeafPlan, MarkPlan, MatchRulePlan, PolicePlan, Site, checked_number, checked_rules, resolve,
};

/// Least time between two ticks.
const LEAST_TICK: Duration = Duration::from_micros(100);

/// Greatest number of packets in a burst; more have the effect of no limit.
const MOST_BURST: u32 = 1000;

/// Class-based queueing of ALTQ.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CbqPlan {
    /// Settings of the whole tree.
    pub config: CbqConfig,
    /// Classes below the root.
    pub classes: Vec<CbqClassPlan>,
}

/// A class of the tree.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CbqClassPlan {
    /// Name in results.
    pub name: String,
    /// Filter of its packets.
    #[serde(rename = "match")]
    pub matches: Vec<MatchRulePlan>,
    /// Rate.
    pub rate: Rate,
    /// True if the class borrows from its parent.
    pub borrow: bool,
    /// Queue of a leaf class, or the classes in an interior class.
    pub kind: CbqClassKindPlan,
}

/// Kind of a class of the tree (Floyd and Jacobson, 1995).
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CbqClassKindPlan {
    /// Leaf class: a queue.
    Leaf(CbqLeafPlan),
    /// Interior class: classes that share its bandwidth.
    Interior(Vec<CbqClassPlan>),
}

/// A leaf of the tree.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CbqLeafPlan {
    /// Priority, from 0 (highest) to 7.
    pub priority: u8,
    /// Marks that its packets get after they are classified.
    #[serde(default)]
    pub mark: Option<MarkPlan>,
    /// Policer.
    pub police: Option<PolicePlan>,
    /// Queue.
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
    checked_rules(plans.iter().map(|plan| &plan.matches[..]))?;
    let spec = |plan: &CbqClassPlan| {
        Ok(CbqSpec {
            matches: resolve(&plan.matches, site.names)?,
            rate: plan.rate,
            borrow: plan.borrow,
            kind: match &plan.kind {
                CbqClassKindPlan::Leaf(leaf) => {
                    CbqClassKind::Leaf(leaf.class(&plan.name, site)?, leaf.priority)
                }
                CbqClassKindPlan::Interior(plans) => {
                    CbqClassKind::Interior(plan.name.as_str().into(), specs(plans, site)?)
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
        LeafPlan { mark: self.mark, police: self.police, queue: &self.queue }.class(name, site)
    }
}
