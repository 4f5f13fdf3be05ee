//! The timeline: what changes in the network while it runs.

use std::collections::VecDeque;

use perhop_core::{Bytes, Duration, Rate, Time};
use perhop_net::{Network, PortId};
use perhop_queue::Class;

use crate::build::{self, BuildError, non_zero_rate};
use crate::hosts::BodyId;
use crate::plan::{ChangePlan, EffectPlan, Plan};

/// What a change does, ready to be done.
#[derive(Debug)]
pub(crate) enum Effect {
    Wire { link: u32, rate: Rate, delay: Duration, loss_ppb: u32 },
    Up { link: u32, up: bool },
    Queue { port: PortId, class: Class<BodyId> },
    Police { port: PortId, class: usize, rate: Rate, burst: Bytes },
}

impl Effect {
    fn of(plan: &EffectPlan, links: usize, seed: u64) -> Result<Self, BuildError> {
        let link = |link: u32| match (link as usize) < links {
            true => Ok(link),
            false => Err(BuildError::NoSuchLink(link)),
        };
        let port = |port: u32| link(port / 2).map(|_| PortId(port));
        Ok(match plan {
            EffectPlan::Wire(plan) => Self::Wire {
                link: link(plan.link)?,
                rate: non_zero_rate(plan.rate, "a link's rate")?,
                delay: Duration::from_picos(plan.delay),
                loss_ppb: build::loss(plan.loss_ppb)?,
            },
            &EffectPlan::State { link: number, up } => Self::Up { link: link(number)?, up },
            EffectPlan::Queue(plan) => Self::Queue {
                port: port(plan.port)?,
                class: build::root(&plan.queue, plan.shape, seed)?,
            },
            EffectPlan::Police(plan) => Self::Police {
                port: port(plan.port)?,
                class: plan.class as usize,
                rate: non_zero_rate(plan.rate, "a policer's rate")?,
                burst: Bytes::new(plan.burst),
            },
        })
    }

    /// Does it, after everything else that happens at the instant that the network has reached.
    pub fn apply(self, network: &mut Network<BodyId>) {
        match self {
            Self::Wire { link, rate, delay, loss_ppb } => {
                let wire = *network.wire(link);
                network.set_wire(link, perhop_net::Wire { rate, delay, loss_ppb, ..wire });
            }
            Self::Up { link, up } => network.set_up(link, up),
            Self::Queue { port, class } => network.set_queue(port, class),
            Self::Police { port, class, rate, burst } => {
                let now = network.now();
                let policed = network.queue_mut(port).class_mut(class);
                let set = policed.is_some_and(|class| class.set_policer(now, rate, burst));
                debug_assert!(set, "no policer at class {class} of {port:?}");
            }
        }
    }
}

/// The changes of a plan, those that come first in front.
///
/// # Errors
/// [`BuildError`] if one cannot be made, or does not stand in order of time, at a mark.
pub(crate) fn timeline(plan: &Plan) -> Result<VecDeque<(Time, Effect)>, BuildError> {
    let at_mark = |change: &ChangePlan| change.at == 0 || plan.marks.contains(&change.at);
    if !plan.changes.is_sorted_by_key(|change| change.at) || !plan.changes.iter().all(at_mark) {
        return Err(BuildError::Marks);
    }
    let change = |change: &ChangePlan| {
        let effect = Effect::of(&change.effect, plan.links.len(), plan.seed)?;
        Ok((Time::from_picos(change.at), effect))
    };
    plan.changes.iter().map(change).collect()
}
