//! Service curves in a plan, and the tree built from them.

use perhop_queue::{
    Framing, Hfsc, HfscClassKind, HfscCurves, HfscSpec, Queue, QueueConfig, ServiceCurve,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::build::BuildError;
use crate::classes::{
    LeafPlan, MAX_WEIGHTS, MarkPlan, MatchRulePlan, PolicePlan, Site, checked_number,
    checked_rules, resolve,
};

/// Classes with service curves.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HfscPlan {
    /// Bytes that curves count for a packet.
    #[serde(default)]
    pub framing: Framing,
    /// Classes below the root.
    pub classes: Vec<HfscClassPlan>,
}

/// A class of the tree.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HfscClassPlan {
    /// Name in results.
    pub name: String,
    /// Filter of its packets.
    #[serde(rename = "match")]
    pub matches: Vec<MatchRulePlan>,
    /// Curves.
    pub curves: HfscCurves,
    /// Queue of a leaf class, or the classes in an interior class.
    pub kind: HfscClassKindPlan,
}

/// Kind of a class of the tree.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HfscClassKindPlan {
    /// Leaf class: a queue.
    Leaf(HfscLeafPlan),
    /// Interior class: classes that share its bandwidth.
    Interior(Vec<HfscClassPlan>),
}

/// A leaf of the tree.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HfscLeafPlan {
    /// Marks that its packets get after they are classified.
    #[serde(default)]
    pub mark: Option<MarkPlan>,
    /// Policer.
    pub police: Option<PolicePlan>,
    /// Queue.
    pub queue: QueueConfig,
}

impl HfscPlan {
    pub(crate) fn queue<B>(&self, site: Site<'_>) -> Result<Queue<B>, BuildError> {
        let hfsc = Hfsc::new(specs(&self.classes, site)?).framed(self.framing);
        Ok(Queue::Hfsc(Box::new(hfsc)))
    }
}

fn specs<B>(plans: &[HfscClassPlan], site: Site<'_>) -> Result<Vec<HfscSpec<B>>, BuildError> {
    checked_number(plans.len())?;
    checked_rules(plans.iter().map(|plan| &plan.matches[..]))?;
    let spec = |plan: &HfscClassPlan| {
        let HfscCurves { realtime, linkshare, upperlimit } = plan.curves;
        for ServiceCurve { m1, m2, .. } in [realtime, linkshare, upperlimit].into_iter().flatten() {
            if u128::from(m1.max(m2)) > MAX_WEIGHTS {
                return Err(BuildError::TooLarge("a slope of a service curve"));
            }
        }
        let kind = match &plan.kind {
            HfscClassKindPlan::Leaf(HfscLeafPlan { mark, police, queue }) => {
                let leaf = LeafPlan { mark: *mark, police: *police, queue };
                HfscClassKind::Leaf(leaf.class(&plan.name, site)?)
            }
            HfscClassKindPlan::Interior(plans) => {
                HfscClassKind::Interior(plan.name.as_str().into(), specs(plans, site)?)
            }
        };
        Ok(HfscSpec { matches: resolve(&plan.matches, site.names)?, curves: plan.curves, kind })
    };
    plans.iter().map(spec).collect()
}
