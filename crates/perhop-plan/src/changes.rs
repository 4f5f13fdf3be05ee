//! The timeline: what changes in the network while it runs.

use std::collections::VecDeque;

use perhop_core::{Bytes, Duration, Rate, Time};
use perhop_net::{Network, PortId};
use perhop_queue::{Class, Limit, Reserved};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::build::BuildError;
use crate::classes::{DisciplinePlan, MatchPlan, Shape, Site};
use crate::names::Names;
use crate::network::NetworkPlan;

/// A change, after everything else that happens at its instant, which is a mark or zero.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ChangePlan {
    /// When.
    pub at: Time,
    /// What.
    pub effect: EffectPlan,
}

/// What changes, of the directed link `on`, or of its link both ways.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EffectPlan {
    /// A link's rate, delay and loss.
    Wire(WirePlan),
    /// Whether a link transmits.
    State(StatePlan),
    /// What stands before a transmitter.
    Discipline(DisciplineChangePlan),
    /// A policer's committed rate and burst.
    Police(PoliceChangePlan),
    /// Which classes go before everything else at a transmitter.
    Reserved(ReservationsPlan),
}

/// A link's new wire.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WirePlan {
    /// Either direction of the link.
    pub on: String,
    /// Rate with layer-2 overhead.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
    /// Share of packets lost at random.
    #[serde(with = "perhop_core::spelling::share")]
    #[schemars(with = "u32")]
    pub loss: u32,
}

/// Whether a link transmits.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StatePlan {
    /// Either direction of the link.
    pub on: String,
    /// True if it does.
    pub up: bool,
}

/// What stands before a transmitter from now on.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DisciplineChangePlan {
    /// The directed link.
    pub on: String,
    /// What stands there.
    pub discipline: DisciplinePlan,
    /// What the transmitter may send.
    pub shape: Option<Shape>,
}

/// A policer's new settings.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PoliceChangePlan {
    /// The directed link.
    pub on: String,
    /// The class that it polices, as results call it.
    pub class: String,
    /// Committed rate.
    pub rate: Rate,
    /// Committed burst.
    pub burst: Bytes,
}

/// A directed link's reserved classes from now on.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReservationsPlan {
    /// The directed link.
    pub on: String,
    /// The classes, the first of them going first.
    pub classes: Vec<ReservedPlan>,
}

/// A reserved class. One that the link has by this name stays, with what waits in it.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReservedPlan {
    /// Its name.
    pub name: String,
    /// Which packets belong to it.
    #[serde(rename = "match")]
    pub matches: MatchPlan,
    /// Its rate and burst, what exceeds being dropped.
    pub police: Option<Shape>,
    /// How much may wait.
    pub limit: Limit,
}

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
        loss: u32,
    },
    /// A link goes up or down.
    Up {
        /// The link.
        link: u32,
        /// Which of the two.
        up: bool,
    },
    /// A port has another discipline.
    Discipline {
        /// The port.
        port: PortId,
        /// What stands before its transmitter.
        class: Class<B>,
    },
    /// A policer has other settings.
    Police {
        /// Its port.
        port: PortId,
        /// The class that it polices.
        class: String,
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
    /// What a plan of a change at `at` does in a network whose nodes and links are called so.
    ///
    /// # Errors
    /// [`BuildError`] if it names an unknown link or node, or cannot be built.
    pub fn of(plan: &EffectPlan, at: Time, names: &Names, seed: u64) -> Result<Self, BuildError> {
        let link = |on: &str| names.port(on).map(|port| port.0 / 2);
        Ok(match plan {
            EffectPlan::Wire(WirePlan { on, rate, delay, loss }) => {
                Self::Wire { link: link(on)?, rate: *rate, delay: *delay, loss: *loss }
            }
            EffectPlan::State(StatePlan { on, up }) => Self::Up { link: link(on)?, up: *up },
            EffectPlan::Discipline(DisciplineChangePlan { on, discipline, shape }) => {
                // Streams of its own, so that the random numbers of the old one do not come again.
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

    /// Returns the port whose classes are others afterwards, if one's are.
    pub fn other_classes(&self) -> Option<PortId> {
        match self {
            Self::Discipline { port, .. } => Some(*port),
            _ => None,
        }
    }

    /// Does it, after everything else that happens at the instant that the network has reached.
    pub fn apply(self, network: &mut Network<B>) {
        match self {
            Self::Wire { link, rate, delay, loss } => {
                let wire = *network.wire(link);
                network.set_wire(link, perhop_net::Wire { rate, delay, loss, ..wire });
            }
            Self::Up { link, up } => network.set_up(link, up),
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
    /// Returns the changes, those that come first in front.
    ///
    /// # Errors
    /// [`BuildError`] if one cannot be made, or does not stand in order of time, at a mark.
    pub fn timeline<B: Clone>(&self, names: &Names) -> Result<Timeline<B>, BuildError> {
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
