//! Hierarchical token buckets in a plan, and the tree built from them.

use perhop_queue::{Framing, Htb, HtbClassKind, HtbRates, HtbSpec, Queue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::build::BuildError;
use crate::classes::{ClassPlan, MatchRulePlan, Site, checked_number, checked_rules, resolve};

/// Deepest classes of a tree.
const DEEPEST: usize = 7;

/// Classes with hierarchical token buckets.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HtbPlan {
    /// Rates of the class above all.
    pub root: HtbRates,
    /// Bytes that buckets count for a packet.
    pub framing: Framing,
    /// Classes below the root.
    pub classes: Vec<HtbClassPlan>,
}

/// A class of the tree.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HtbClassPlan {
    /// Leaf class.
    Leaf(Box<HtbLeafPlan>),
    /// Interior class: classes that share its bandwidth.
    Interior(HtbInteriorPlan),
}

/// A leaf of the tree.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HtbLeafPlan {
    /// Rates; `None` for a class before all others.
    pub rates: Option<HtbRates>,
    /// Name, filter and content. Its weight and its priority have no meaning.
    pub content: ClassPlan,
}

/// An interior class of the tree.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HtbInteriorPlan {
    /// Rates.
    pub rates: HtbRates,
    /// Name in results.
    pub name: String,
    /// Filter of its packets.
    #[serde(rename = "match")]
    pub matches: Vec<MatchRulePlan>,
    /// Classes in match order.
    pub classes: Vec<HtbClassPlan>,
}

impl HtbClassPlan {
    fn matches(&self) -> &[MatchRulePlan] {
        match self {
            Self::Leaf(leaf) => &leaf.content.matches,
            Self::Interior(interior) => &interior.matches,
        }
    }
}

impl HtbPlan {
    pub(crate) fn queue<B>(&self, site: Site<'_>) -> Result<Queue<B>, BuildError> {
        let classes = specs(&self.classes, site, DEEPEST)?;
        Ok(Queue::Htb(Box::new(Htb::new(self.root, self.framing, classes))))
    }
}

fn specs<B>(
    plans: &[HtbClassPlan],
    site: Site<'_>,
    deepest: usize,
) -> Result<Vec<HtbSpec<B>>, BuildError> {
    checked_number(plans.len())?;
    checked_rules(plans.iter().map(HtbClassPlan::matches))?;
    let Some(below) = deepest.checked_sub(1) else {
        return Err(BuildError::TooLarge("the depth of classes with token buckets"));
    };
    let spec = |plan: &HtbClassPlan| {
        let matches = resolve(plan.matches(), site.names)?;
        Ok(match plan {
            HtbClassPlan::Leaf(leaf) => {
                let kind = HtbClassKind::Leaf(leaf.content.class(site)?);
                HtbSpec { matches, rates: leaf.rates, kind }
            }
            HtbClassPlan::Interior(interior) => {
                let classes = specs(&interior.classes, site, below)?;
                let kind = HtbClassKind::Interior(interior.name.as_str().into(), classes);
                HtbSpec { matches, rates: Some(interior.rates), kind }
            }
        })
    };
    plans.iter().map(spec).collect()
}
