//! The timeline: what changes in the network while it runs.

use std::collections::VecDeque;

use perhop_core::{Bytes, Duration, Rate, Time};
use perhop_net::{Network, PortId};
use perhop_queue::{Class, Reserved};

use crate::build::{self, BuildError, non_zero_rate};
use crate::network::{ChangePlan, EffectPlan, NetworkPlan, ReservedPlan};

/// What a change does, ready to be done.
#[derive(Debug)]
pub enum Effect<B> {
    /// A link has another wire.
    Wire {
        /// The link.
        link: u32,
        /// Its rate.
        rate: Rate,
        /// Its delay.
        delay: Duration,
        /// Its loss.
        loss_ppb: u32,
    },
    /// A link goes up or down.
    Up {
        /// The link.
        link: u32,
        /// Which of the two.
        up: bool,
    },
    /// A port has another queue.
    Queue {
        /// The port.
        port: PortId,
        /// What stands before its transmitter.
        class: Class<B>,
    },
    /// A policer has other settings.
    Police {
        /// Its port.
        port: PortId,
        /// The class that it polices, counted depth first, the root being 0.
        class: usize,
        /// Its committed rate.
        rate: Rate,
        /// Its committed burst.
        burst: Bytes,
    },
    /// A port has other reserved classes.
    Reserved {
        /// The port.
        port: PortId,
        /// All of them.
        classes: Vec<Reserved>,
    },
}

/// Effects and when they are due, those that come first in front.
pub type Timeline<B> = VecDeque<(Time, Effect<B>)>;

impl<B: Clone> Effect<B> {
    /// What a plan of a change does in a network of so many links.
    ///
    /// # Errors
    /// [`BuildError`] if it is of a link that there is not, or cannot be built.
    pub fn of(plan: &EffectPlan, links: usize, seed: u64) -> Result<Self, BuildError> {
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
            EffectPlan::Reserved(plan) => Self::Reserved {
                port: port(plan.port)?,
                classes: plan.classes.iter().map(reserved).collect::<Result<_, _>>()?,
            },
        })
    }

    /// The port whose classes are others afterwards, if one's are.
    pub fn other_classes(&self) -> Option<PortId> {
        match self {
            Self::Queue { port, .. } | Self::Reserved { port, .. } => Some(*port),
            _ => None,
        }
    }

    /// Does it, after everything else that happens at the instant that the network has reached.
    pub fn apply(self, network: &mut Network<B>) {
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
            Self::Reserved { port, classes } => network.set_reserved(port, &classes),
        }
    }
}

fn reserved(plan: &ReservedPlan) -> Result<Reserved, BuildError> {
    let police = plan.police.map(|police| {
        let rate = non_zero_rate(police.rate, "a policer's rate")?;
        Ok::<_, BuildError>((rate, Bytes::new(police.burst)))
    });
    Ok(Reserved {
        matches: build::matches(&plan.matches)?,
        police: police.transpose()?,
        limit: plan.limit.limit(),
        stays: plan.stays,
    })
}

impl NetworkPlan {
    /// The changes, those that come first in front.
    ///
    /// # Errors
    /// [`BuildError`] if one cannot be made, or does not stand in order of time, at a mark.
    pub fn timeline<B: Clone>(&self) -> Result<Timeline<B>, BuildError> {
        let at_mark = |change: &ChangePlan| change.at == 0 || self.marks.contains(&change.at);
        let in_order = self.changes.is_sorted_by_key(|change| change.at);
        if !in_order || !self.changes.iter().all(at_mark) {
            return Err(BuildError::Marks);
        }
        let change = |change: &ChangePlan| {
            let effect = Effect::of(&change.effect, self.links.len(), self.seed)?;
            Ok((Time::from_picos(change.at), effect))
        };
        self.changes.iter().map(change).collect()
    }
}
