//! The timeline: changes of the network during a run.

use std::collections::VecDeque;

use perhop_core::{Bytes, Duration, NodeId, Rate, Time};
use perhop_net::{Balance, Gilbert, Network, PortId};
use perhop_queue::{Class, Limit, Reserved};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::build::BuildError;
use crate::classes::{DisciplinePlan, MatchPlan, Shape, ShaperPlan, Site};
use crate::names::Names;
use crate::network::NetworkPlan;

/// A change, applied after all other events of its instant, which is a mark or zero.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ChangePlan {
    /// Time of the change.
    pub at: Time,
    /// Effect of the change.
    pub effect: EffectPlan,
}

/// Effect of a change on the directed link `on`, or on the state of its link.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EffectPlan {
    /// Changes the rate, delay and loss of a directed link.
    Wire(WirePlan),
    /// Sets a link up or down.
    State(StatePlan),
    /// Changes how a node shares load among next hops.
    Balance(BalanceChangePlan),
    /// Replaces the discipline before a transmitter.
    Discipline(DisciplineChangePlan),
    /// Changes a policer's committed rate and burst.
    Police(PoliceChangePlan),
    /// Sets the reserved classes of a transmitter.
    Reserved(ReservationsPlan),
}

/// New transmission medium of a directed link.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WirePlan {
    /// The directed link.
    pub on: String,
    /// Rate with layer-2 overhead.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
    /// Share of packets lost at random, in parts per billion.
    #[serde(with = "perhop_core::spelling::share")]
    #[schemars(with = "u32")]
    pub loss: u32,
    /// Correlated loss, beside `loss`.
    #[serde(default)]
    pub gilbert: Option<Gilbert>,
}

/// New state of a link.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StatePlan {
    /// Either direction of the link.
    pub on: String,
    /// True if the link is up.
    pub up: bool,
}

/// New load sharing of a node.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BalanceChangePlan {
    /// The node.
    pub node: String,
    /// Load sharing among links and paths of equal cost.
    pub balance: Balance,
}

/// New discipline before a transmitter.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DisciplineChangePlan {
    /// The directed link.
    pub on: String,
    /// Discipline.
    pub discipline: DisciplinePlan,
    /// Shaper of the transmitter.
    pub shape: Option<ShaperPlan>,
}

/// New settings of a policer.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PoliceChangePlan {
    /// The directed link.
    pub on: String,
    /// Name of the policed class in results.
    pub class: String,
    /// Committed rate.
    pub rate: Rate,
    /// Committed burst.
    pub burst: Bytes,
}

/// Reserved classes of a directed link.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReservationsPlan {
    /// The directed link.
    pub on: String,
    /// Classes in order of priority.
    pub classes: Vec<ReservedPlan>,
}

/// A reserved class. One that the link has under this name stays, with its packets.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReservedPlan {
    /// Its name.
    pub name: String,
    /// Filter of its packets.
    #[serde(rename = "match")]
    pub matches: MatchPlan,
    /// Rate and burst of its policer, which drops exceeding packets.
    pub police: Option<Shape>,
    /// Limit of its queue.
    pub limit: Limit,
}

/// Effect of a change, ready to be applied.
#[derive(Debug)]
pub enum Effect<B> {
    /// Changes the transmission medium into which a port sends.
    Wire {
        /// The port.
        port: PortId,
        /// Its rate.
        rate: Rate,
        /// Its delay.
        delay: Duration,
        /// Its loss.
        loss: u32,
        /// Its correlated loss.
        gilbert: Option<Gilbert>,
    },
    /// Sets a link up or down.
    Up {
        /// The link.
        link: u32,
        /// True for up.
        up: bool,
    },
    /// Changes how a node shares load.
    Balance {
        /// The node.
        node: NodeId,
        /// Its load sharing.
        balance: Balance,
    },
    /// Replaces the discipline of a port.
    Discipline {
        /// The port.
        port: PortId,
        /// Class before its transmitter.
        class: Class<B>,
    },
    /// Changes the settings of a policer.
    Police {
        /// Its port.
        port: PortId,
        /// Name of the policed class.
        class: String,
        /// Its committed rate.
        rate: Rate,
        /// Its committed burst.
        burst: Bytes,
    },
    /// Sets the reserved classes of a port.
    Reserved {
        /// The port.
        port: PortId,
        /// All reserved classes.
        classes: Vec<Reserved>,
    },
}

/// Effects and their times, in order of time.
pub type Timeline<B> = VecDeque<(Time, Effect<B>)>;

impl<B: Copy> Effect<B> {
    /// Builds the effect of a change at `at` in a network with these names.
    ///
    /// # Errors
    /// [`BuildError`] if the plan names an unknown link or node, or is invalid.
    pub fn of(plan: &EffectPlan, at: Time, names: &Names, seed: u64) -> Result<Self, BuildError> {
        let link = |on: &str| names.port(on).map(|port| port.0 / 2);
        Ok(match plan {
            EffectPlan::Wire(WirePlan { on, rate, delay, loss, gilbert }) => Self::Wire {
                port: names.port(on)?,
                rate: *rate,
                delay: *delay,
                loss: *loss,
                gilbert: *gilbert,
            },
            EffectPlan::State(StatePlan { on, up }) => Self::Up { link: link(on)?, up: *up },
            EffectPlan::Balance(BalanceChangePlan { node, balance }) => {
                Self::Balance { node: names.node(node)?, balance: *balance }
            }
            EffectPlan::Discipline(DisciplineChangePlan { on, discipline, shape }) => {
                // With its own random streams, so that the random numbers of the old discipline are
                // not repeated.
                let stream = format!("{on} {}", at.as_picos());
                let site = Site { names, stream: &stream, seed };
                Self::Discipline { port: names.port(on)?, class: discipline.root(*shape, site)? }
            }
            EffectPlan::Police(PoliceChangePlan { on, class, rate, burst }) => Self::Police {
                port: names.port(on)?,
                class: class.clone(),
                rate: *rate,
                burst: *burst,
            },
            EffectPlan::Reserved(plan) => Self::Reserved {
                port: names.port(&plan.on)?,
                classes: plan
                    .classes
                    .iter()
                    .map(|class| class.resolve(names))
                    .collect::<Result<_, _>>()?,
            },
        })
    }

    /// Returns the port whose classes the effect replaces, if any.
    pub fn other_classes(&self) -> Option<PortId> {
        match self {
            Self::Discipline { port, .. } => Some(*port),
            _ => None,
        }
    }

    /// Applies the effect, after all other events of the instant that the network has reached.
    pub fn apply(self, network: &mut Network<B>) {
        match self {
            Self::Wire { port, rate, delay, loss, gilbert } => {
                let wire = *network.wire(port);
                network.set_wire(port, perhop_net::Wire { rate, delay, loss, gilbert, ..wire });
            }
            Self::Up { link, up } => network.set_up(link, up),
            Self::Balance { node, balance } => network.set_balance(node, balance),
            Self::Discipline { port, class } => network.set_queue(port, class),
            Self::Police { port, class, rate, burst } => {
                let now = network.now();
                let policed = network.queue_mut(port).class_mut(&class);
                let set = policed.is_some_and(|class| class.set_policer(now, rate, burst));
                debug_assert!(set, "no policer of a class {class} of {port:?}");
            }
            Self::Reserved { port, classes } => network.set_reserved(port, &classes),
        }
    }
}

impl ReservedPlan {
    fn resolve(&self, names: &Names) -> Result<Reserved, BuildError> {
        Ok(Reserved {
            name: self.name.clone(),
            matches: self.matches.resolve(names)?,
            police: self.police.map(|police| (police.rate, police.burst)),
            limit: self.limit,
        })
    }
}

impl NetworkPlan {
    /// Returns the changes, in order of time.
    ///
    /// # Errors
    /// [`BuildError`] if a change is invalid, out of order, or not at a mark.
    pub fn timeline<B: Copy>(&self, names: &Names) -> Result<Timeline<B>, BuildError> {
        let at_mark =
            |change: &ChangePlan| change.at == Time::ZERO || self.marks.contains(&change.at);
        let in_order = self.changes.is_sorted_by_key(|change| change.at);
        if !in_order || !self.changes.iter().all(at_mark) {
            return Err(BuildError::Marks);
        }
        let change = |change: &ChangePlan| {
            Ok((change.at, Effect::of(&change.effect, change.at, names, self.seed)?))
        };
        self.changes.iter().map(change).collect()
    }
}
