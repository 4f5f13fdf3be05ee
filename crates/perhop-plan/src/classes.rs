//! Disciplines and traffic classes in a plan, and what they make.

use perhop_core::{Bytes, Dscp, NodeId, Protocol, Rate, Stream};
use perhop_queue::{
    Action, Actions, Class, ClassService, ClassSpec, Classes, Match, Policer, Queue, QueueConfig,
    Shaper, Sharing, Weight,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::build::BuildError;
use crate::cbq::CbqPlan;
use crate::names::Names;

/// What stands before a transmitter, or in a class.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DisciplinePlan {
    /// A queue without classes.
    Queue(QueueConfig),
    /// Classes that share.
    Classes(ClassesPlan),
    /// Classes that share as in ALTQ's class-based queueing.
    AltqCbq(CbqPlan),
}

/// Classes that share.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClassesPlan {
    /// How those share that are not strict.
    pub scheduler: Sharing,
    /// The classes, in match order.
    pub classes: Vec<ClassPlan>,
}

/// A class.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClassPlan {
    /// What results call it.
    pub name: String,
    /// Which packets belong to it.
    #[serde(rename = "match")]
    pub matches: MatchPlan,
    /// Its guaranteed rate, which is its weight among the others; none for a strict class.
    pub weight: Option<Weight>,
    /// Who borrows first in link sharing: the lowest number.
    #[serde(default)]
    pub priority: u8,
    /// Its policer.
    pub police: Option<PolicePlan>,
    /// Its shaper, in IP bytes.
    #[serde(default)]
    pub shape: Option<Shape>,
    /// What it holds.
    pub discipline: DisciplinePlan,
}

/// Which packets belong to a class; no list, or an empty list of anything but nodes, is no
/// condition.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct MatchPlan {
    /// Code points.
    pub dscp: Vec<Dscp>,
    /// Protocols.
    pub protocol: Vec<Protocol>,
    /// Ranges that the source or the destination port is in.
    pub port: Vec<(u16, u16)>,
    /// Ranges that the source port is in.
    pub source_port: Vec<(u16, u16)>,
    /// Ranges that the destination port is in.
    pub destination_port: Vec<(u16, u16)>,
    /// Source nodes.
    pub source: Option<Vec<String>>,
    /// Destination nodes.
    pub destination: Option<Vec<String>>,
}

/// A policer.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PolicePlan {
    /// Committed rate.
    pub rate: Rate,
    /// Committed burst.
    pub burst: Bytes,
    /// The excess burst of a single-rate three-colour marker.
    #[serde(default)]
    pub excess_burst: Option<Bytes>,
    /// The peak rate and burst of a two-rate three-colour marker.
    #[serde(default)]
    pub peak: Option<Shape>,
    /// True if a packet is never better than its mark says.
    #[serde(default)]
    pub colour_aware: bool,
    /// What becomes of packets that conform.
    #[serde(default)]
    pub conform: Action,
    /// What becomes of packets that exceed.
    pub exceed: Action,
    /// What becomes of packets that violate.
    #[serde(default)]
    pub violate: Action,
}

/// A rate and a burst.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Rate.
    pub rate: Rate,
    /// Burst; zero for a leaky bucket.
    pub burst: Bytes,
}

/// As much weight as a set of classes may have, 281 Tb/s, so that virtual time never overflows.
const MAX_WEIGHTS: u128 = 1 << 48;

/// The name in results of a queue that stands before a transmitter alone.
const WHOLE: &str = "all";

/// The node of a condition that no packet meets.
const NOBODY: NodeId = NodeId(u16::MAX);

/// What a discipline is made from beside its plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'a> {
    /// What nodes are called.
    pub names: &'a Names,
    /// What random streams are named after.
    pub stream: &'a str,
    /// Decides every random number.
    pub seed: u64,
}

impl Site<'_> {
    /// Returns the random stream of a class.
    fn random(&self, class: &str) -> Stream {
        Stream::new(self.seed, &format!("{} {}", self.stream, class.replace('/', " ")))
    }
}

impl DisciplinePlan {
    /// What stands before a transmitter.
    pub(crate) fn root<B>(
        &self,
        shape: Option<Shape>,
        site: Site<'_>,
    ) -> Result<Class<B>, BuildError> {
        // What a divided link counts its classes say.
        let name = if matches!(self, Self::Queue(_)) { WHOLE } else { "" };
        let class = Class::new(self.queue(WHOLE, site)?).named(name);
        Ok(match shape {
            Some(shape) => class.shaped(shape.shaper()),
            None => class,
        })
    }

    /// What a class of this name holds.
    pub(crate) fn queue<B>(&self, class: &str, site: Site<'_>) -> Result<Queue<B>, BuildError> {
        match self {
            Self::Queue(config) => Ok(config.queue(|| site.random(class))),
            Self::Classes(plan) => plan.queue(site),
            Self::AltqCbq(plan) => plan.queue(site),
        }
    }
}

impl ClassesPlan {
    fn queue<B>(&self, site: Site<'_>) -> Result<Queue<B>, BuildError> {
        checked_number(self.classes.len())?;
        let weights = self.classes.iter().filter_map(|class| class.weight);
        if weights.map(|weight| u128::from(weight.get())).sum::<u128>() > MAX_WEIGHTS {
            return Err(BuildError::TooLarge("the weights of a policy's classes"));
        }
        let specs = self.classes.iter().map(|plan| plan.spec(site)).collect::<Result<_, _>>()?;
        Ok(Queue::Classes(Box::new(Classes::sharing(specs, self.scheduler))))
    }
}

/// See that there are classes, and not more than are numbered.
pub(crate) fn checked_number(classes: usize) -> Result<(), BuildError> {
    match classes {
        0 => Err(BuildError::NoClass),
        1..=0xffff => Ok(()),
        _ => Err(BuildError::TooLarge("a policy has more than 65535 classes")),
    }
}

impl ClassPlan {
    fn spec<B>(&self, site: Site<'_>) -> Result<ClassSpec<B>, BuildError> {
        let mut class = Class::new(self.discipline.queue(&self.name, site)?).named(&self.name);
        if let Some(police) = self.police {
            class = class.policed(police.policer(), police.actions());
        }
        if let Some(shape) = self.shape {
            class = class.shaped(shape.shaper());
        }
        let service = match self.weight {
            None => ClassService::Strict,
            Some(weight) => ClassService::Share(weight, self.priority),
        };
        Ok(ClassSpec { matches: self.matches.resolve(site.names)?, service, class })
    }
}

impl MatchPlan {
    /// Returns the same of numbered nodes.
    ///
    /// # Errors
    /// [`BuildError::UnknownNode`] if it names one.
    pub(crate) fn resolve(&self, names: &Names) -> Result<Match, BuildError> {
        let ranges = |ports: &[(u16, u16)]| ports.iter().map(|&(low, high)| low..=high).collect();
        let nodes = |nodes: &Option<Vec<String>>| match nodes {
            None => Ok(Vec::new()),
            Some(none) if none.is_empty() => Ok(vec![NOBODY]),
            Some(some) => some.iter().map(|node| names.node(node)).collect(),
        };
        Ok(Match {
            dscps: self.dscp.clone(),
            protocols: self.protocol.clone(),
            ports: ranges(&self.port),
            source_ports: ranges(&self.source_port),
            destination_ports: ranges(&self.destination_port),
            sources: nodes(&self.source)?,
            destinations: nodes(&self.destination)?,
        })
    }
}

impl PolicePlan {
    pub(crate) fn policer(&self) -> Policer {
        let Self { rate, burst, .. } = *self;
        let policer = match (self.peak, self.excess_burst) {
            (Some(peak), _) => Policer::two_rate(rate, burst, peak.rate, peak.burst),
            (None, Some(excess)) => Policer::single_rate(rate, burst, excess),
            (None, None) => Policer::new(rate, burst),
        };
        if self.colour_aware { policer.colour_aware() } else { policer }
    }

    pub(crate) fn actions(&self) -> Actions {
        Actions { conform: self.conform, exceed: self.exceed, violate: self.violate }
    }
}

impl Shape {
    fn shaper<B>(self) -> Shaper<B> {
        Shaper::new(self.rate, self.burst)
    }
}
