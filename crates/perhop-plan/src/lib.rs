//! The network of a scenario, for every engine that forwards packets itself.
//!
//! A [`NetworkPlan`] has every unit resolved, and names for nodes, directed links and classes.
//! [`NetworkPlan::names`] returns the numbers that the network gives them. [`NetworkPlan::network`]
//! builds the network, for packets with any body, and [`NetworkPlan::timeline`] its changes.

mod build;
mod cbq;
mod changes;
mod classes;
mod hfsc;
mod htb;
mod names;
mod network;
mod tunnels;

pub use build::BuildError;
pub use cbq::{CbqClassKindPlan, CbqClassPlan, CbqLeafPlan, CbqPlan};
pub use changes::{
    ChangePlan, DisciplineChangePlan, Effect, EffectPlan, PoliceChangePlan, ReservationsPlan,
    ReservedPlan, StatePlan, Timeline, WirePlan,
};
pub use classes::{
    ClassPlan, ClassesPlan, DisciplinePlan, MatchPlan, MatchRulePlan, PolicePlan, Shape, ShaperPlan,
};
pub use hfsc::{HfscClassKindPlan, HfscClassPlan, HfscLeafPlan, HfscPlan};
pub use htb::{HtbClassPlan, HtbInteriorPlan, HtbLeafPlan, HtbPlan};
pub use names::Names;
pub use network::{
    EndPlan, LinkPlan, MediumPlan, NetworkPlan, NodePlan, RatesPlan, RemarkPlan, TracePlan,
};
pub use tunnels::{DevicePlan, TunnelPlan};
