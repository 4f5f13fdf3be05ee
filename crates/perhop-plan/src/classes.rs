//! Disciplines and traffic classes in a plan, and the classes built from them.

use perhop_core::{
    Bytes, Dscp, Encapsulation, IpVersion, LinkClass, NodeId, Protocol, Rate, Stream,
};
use perhop_queue::{
    Action, Actions, Class, ClassService, ClassSpec, Classes, Framing, Mark, Match, MatchRule,
    MatchRules, Policed, Policer, PolicerSpec, Queue, QueueConfig, Shaper, Sharing, Weight,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::build::BuildError;
use crate::cbq::CbqPlan;
use crate::hfsc::HfscPlan;
use crate::htb::HtbPlan;
use crate::names::Names;

/// Discipline before a transmitter, or in a class.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DisciplinePlan {
    /// A queue without classes.
    Queue(QueueConfig),
    /// Classes that share a link.
    Classes(ClassesPlan),
    /// Classes of ALTQ's class-based queueing.
    AltqCbq(CbqPlan),
    /// Classes with service curves.
    Hfsc(HfscPlan),
    /// Classes with hierarchical token buckets.
    Htb(Box<HtbPlan>),
    /// Policers before another discipline.
    Policed(Box<PolicedPlan>),
}

/// Policers, each with one bucket for packets of any class, before a discipline.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PolicedPlan {
    /// Policers, in the order in which they measure packets.
    pub policers: Vec<PolicerPlan>,
    /// Discipline behind them.
    pub discipline: DisciplinePlan,
}

/// A policer before classes.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PolicerPlan {
    /// Name in results.
    pub name: String,
    /// Filter of its packets.
    #[serde(rename = "match")]
    pub matches: Vec<MatchRulePlan>,
    /// Buckets and actions.
    pub police: PolicePlan,
}

/// Classes that share a link.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClassesPlan {
    /// Scheduler of the classes that are not strict.
    pub scheduler: Sharing,
    /// Bytes that the scheduler counts for a packet.
    #[serde(default)]
    pub framing: Framing,
    /// Classes, in match order.
    pub classes: Vec<ClassPlan>,
}

/// A traffic class.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClassPlan {
    /// Name in results.
    pub name: String,
    /// Filter of its packets.
    #[serde(rename = "match")]
    pub matches: Vec<MatchRulePlan>,
    /// Marks that its packets get after they are classified.
    #[serde(default)]
    pub mark: Option<MarkPlan>,
    /// Guaranteed rate, which is its weight among the others, or quantum; `None` for a strict
    /// class.
    pub weight: Option<Weight>,
    /// Priority in link sharing: the lowest number borrows first.
    #[serde(default)]
    pub priority: u8,
    /// Weight by which link sharing divides what exceeds the guarantees; that of the guarantee by
    /// default.
    #[serde(default)]
    pub excess: Option<Weight>,
    /// True if it takes turns with strict classes while it is within its guarantee, in link
    /// sharing.
    #[serde(default)]
    pub beside_strict: bool,
    /// Policer.
    pub police: Option<PolicePlan>,
    /// Shaper.
    #[serde(default)]
    pub shape: Option<ShaperPlan>,
    /// Content of the class.
    pub discipline: DisciplinePlan,
}

/// New marks of packets.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MarkPlan {
    /// DSCP.
    pub dscp: Option<Dscp>,
    /// PCP or MPLS traffic class, 0 to 7, on the next link.
    pub link: Option<u8>,
}

impl MarkPlan {
    fn mark(self) -> Result<Mark, BuildError> {
        let link = self.link.map(checked_class).transpose()?;
        Ok(Mark { dscp: self.dscp, link: link.map(LinkClass::marked) })
    }
}

/// Checks that a PCP or an MPLS traffic class has three bits.
fn checked_class(value: u8) -> Result<u8, BuildError> {
    match value < LinkClass::VALUES {
        true => Ok(value),
        false => Err(BuildError::TooLarge("a PCP or an MPLS traffic class is above 7")),
    }
}

/// Rule of a filter: the first that applies to a packet decides whether the packet matches. A
/// packet to which no rule applies does not match.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MatchRulePlan {
    /// True if packets that meet the conditions match, false if they do not.
    pub permit: bool,
    /// Conditions under which the rule applies.
    pub conditions: MatchPlan,
}

/// Conditions on a packet, which must all hold. A missing list is no condition, nor is an empty
/// list of anything but nodes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct MatchPlan {
    /// DSCPs.
    pub dscp: Vec<Dscp>,
    /// True for IPv6 only, false for IPv4 only.
    pub ipv6: Option<bool>,
    /// Protocols.
    pub protocol: Vec<Protocol>,
    /// Ranges of the source or the destination port.
    pub port: Vec<(u16, u16)>,
    /// Ranges of the source port.
    pub source_port: Vec<(u16, u16)>,
    /// Ranges of the destination port.
    pub destination_port: Vec<(u16, u16)>,
    /// Source nodes.
    pub source: Option<Vec<String>>,
    /// Destination nodes.
    pub destination: Option<Vec<String>>,
    /// PCPs with which packets arrive.
    pub pcp: Vec<u8>,
    /// MPLS traffic classes with which packets arrive.
    pub mpls_tc: Vec<u8>,
}

/// A policer.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PolicePlan {
    /// Committed rate.
    pub rate: Rate,
    /// Committed burst.
    pub burst: Bytes,
    /// Excess burst of a single-rate three-colour marker.
    #[serde(default)]
    pub excess_burst: Option<Bytes>,
    /// Peak rate and burst of a two-rate three-colour marker.
    #[serde(default)]
    pub peak: Option<Shape>,
    /// True if a verdict is never better than the packet's mark.
    #[serde(default)]
    pub colour_aware: bool,
    /// Bytes that buckets count for a packet.
    #[serde(default)]
    pub framing: Framing,
    /// Action on conforming packets.
    #[serde(default)]
    pub conform: Action,
    /// Action on exceeding packets.
    pub exceed: Action,
    /// Action on violating packets.
    #[serde(default)]
    pub violate: Action,
}

/// A shaper.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ShaperPlan {
    /// Rate.
    pub rate: Rate,
    /// Burst; zero for a leaky bucket.
    pub burst: Bytes,
    /// Bytes that the bucket counts for a packet.
    #[serde(default)]
    pub framing: Framing,
}

/// A rate and a burst.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Rate.
    pub rate: Rate,
    /// Burst.
    pub burst: Bytes,
}

/// Greatest sum of weights of a set of classes, 281 Tb/s, with which virtual time never overflows.
pub(crate) const MAX_WEIGHTS: u128 = 1 << 48;

/// Name in results of a queue without classes.
const WHOLE: &str = "all";

/// Node of a condition that no packet meets.
const NOBODY: NodeId = NodeId(u16::MAX);

/// Context in which a discipline is built from its plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'a> {
    /// Names of nodes.
    pub names: &'a Names,
    /// Name of random streams.
    pub stream: &'a str,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Site<'_> {
    /// Returns the random stream of a class.
    fn random(&self, class: &str) -> Stream {
        Stream::new(self.seed, &format!("{} {}", self.stream, class.replace('/', " ")))
    }
}

impl DisciplinePlan {
    /// Builds the class before a transmitter.
    pub(crate) fn root<B>(
        &self,
        shape: Option<ShaperPlan>,
        site: Site<'_>,
    ) -> Result<Class<B>, BuildError> {
        // The inner classes have the counters of a divided link.
        let name = if matches!(self, Self::Queue(_)) { WHOLE } else { "" };
        let class = Class::new(self.queue(WHOLE, site)?).named(name);
        Ok(match shape {
            Some(shape) => class.shaped(shape.shaper()),
            None => class,
        })
    }

    /// Builds the content of a class of this name.
    pub(crate) fn queue<B>(&self, class: &str, site: Site<'_>) -> Result<Queue<B>, BuildError> {
        match self {
            Self::Queue(config) => Ok(config.queue(|| site.random(class))),
            Self::Classes(plan) => plan.queue(site),
            Self::AltqCbq(plan) => plan.queue(site),
            Self::Hfsc(plan) => plan.queue(site),
            Self::Htb(plan) => plan.queue(site),
            Self::Policed(plan) => plan.queue(class, site),
        }
    }
}

impl PolicedPlan {
    fn queue<B>(&self, class: &str, site: Site<'_>) -> Result<Queue<B>, BuildError> {
        checked_rules(self.policers.iter().map(|policer| &policer.matches[..]))?;
        let spec = |plan: &PolicerPlan| {
            Ok(PolicerSpec {
                name: plan.name.as_str().into(),
                matches: resolve(&plan.matches, site.names)?,
                policer: plan.police.policer(),
                actions: plan.police.actions(),
            })
        };
        let policers = self.policers.iter().map(spec).collect::<Result<_, BuildError>>()?;
        let queue = self.discipline.queue(class, site)?;
        Ok(Queue::Policed(Box::new(Policed::new(policers, queue))))
    }
}

impl ClassesPlan {
    fn queue<B>(&self, site: Site<'_>) -> Result<Queue<B>, BuildError> {
        checked_number(self.classes.len())?;
        checked_rules(self.classes.iter().map(|class| &class.matches[..]))?;
        let weights = self.classes.iter().filter_map(|class| class.weight);
        if weights.map(|weight| u128::from(weight.get())).sum::<u128>() > MAX_WEIGHTS {
            return Err(BuildError::TooLarge("the weights of a policy's classes"));
        }
        let specs = self.classes.iter().map(|plan| plan.spec(site)).collect::<Result<_, _>>()?;
        Ok(Queue::Classes(Box::new(Classes::sharing(specs, self.scheduler).framed(self.framing))))
    }
}

/// Settings of a leaf of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafPlan<'a> {
    /// Marks that its packets get after they are classified.
    pub mark: Option<MarkPlan>,
    /// Policer.
    pub police: Option<PolicePlan>,
    /// Queue.
    pub queue: &'a QueueConfig,
}

impl LeafPlan<'_> {
    pub(crate) fn class<B>(self, name: &str, site: Site<'_>) -> Result<Class<B>, BuildError> {
        let queue = DisciplinePlan::Queue(self.queue.clone()).queue(name, site)?;
        let mut class = Class::new(queue).named(name);
        if let Some(mark) = self.mark {
            class = class.marked(mark.mark()?);
        }
        if let Some(police) = self.police {
            class = class.policed(police.policer(), police.actions());
        }
        Ok(class)
    }
}

/// Checks that there are classes, and no more than can be numbered.
pub(crate) fn checked_number(classes: usize) -> Result<(), BuildError> {
    match classes {
        0 => Err(BuildError::NoClass),
        1..=0xffff => Ok(()),
        _ => Err(BuildError::TooLarge("a policy has more than 65535 classes")),
    }
}

/// Checks that filters have no more rules in sum than can be numbered.
pub(crate) fn checked_rules<'a>(
    mut filters: impl Iterator<Item = &'a [MatchRulePlan]>,
) -> Result<(), BuildError> {
    let count = |sum: usize, rules: &[_]| sum.checked_add(rules.len()).filter(|&sum| sum <= 0xffff);
    match filters.try_fold(0, count) {
        Some(_) => Ok(()),
        None => Err(BuildError::TooLarge("filters at one place have more than 65535 rules")),
    }
}

/// Returns a filter with nodes by number.
///
/// # Errors
/// [`BuildError::UnknownNode`] if it names an unknown node.
pub(crate) fn resolve(rules: &[MatchRulePlan], names: &Names) -> Result<MatchRules, BuildError> {
    let rule = |rule: &MatchRulePlan| {
        Ok(MatchRule { permit: rule.permit, conditions: rule.conditions.resolve(names)? })
    };
    rules.iter().map(rule).collect::<Result<_, _>>().map(MatchRules)
}

impl ClassPlan {
    /// Builds the class, without its filter and its service.
    pub(crate) fn class<B>(&self, site: Site<'_>) -> Result<Class<B>, BuildError> {
        let mut class = Class::new(self.discipline.queue(&self.name, site)?).named(&self.name);
        if let Some(mark) = self.mark {
            class = class.marked(mark.mark()?);
        }
        if let Some(police) = self.police {
            class = class.policed(police.policer(), police.actions());
        }
        if let Some(shape) = self.shape {
            class = class.shaped(shape.shaper());
        }
        Ok(class)
    }

    fn spec<B>(&self, site: Site<'_>) -> Result<ClassSpec<B>, BuildError> {
        let class = self.class(site)?;
        let service = match self.weight {
            None => ClassService::Strict,
            Some(weight) if self.beside_strict => {
                ClassService::Turns(weight, self.priority, self.excess.unwrap_or(weight))
            }
            Some(weight) => match self.excess {
                None => ClassService::Share(weight, self.priority),
                Some(excess) => ClassService::Lent(weight, self.priority, excess),
            },
        };
        Ok(ClassSpec { matches: resolve(&self.matches, site.names)?, service, class })
    }
}

impl MatchPlan {
    /// Returns the protocols of the versions; none if all match.
    fn protocols(&self) -> Vec<Protocol> {
        let versions = match self.ipv6 {
            Some(v6) => vec![IpVersion::of(v6)],
            None if self.protocol.is_empty() => Vec::new(),
            None => IpVersion::ALL.to_vec(),
        };
        let named = match self.protocol.is_empty() {
            true => &Protocol::ALL[..],
            false => &self.protocol,
        };
        let over = |version| named.iter().map(move |protocol| protocol.over(version));
        versions.into_iter().flat_map(over).collect()
    }

    /// Returns the conditions with nodes by number.
    ///
    /// # Errors
    /// [`BuildError::UnknownNode`] if it names an unknown node.
    pub(crate) fn resolve(&self, names: &Names) -> Result<Match, BuildError> {
        let ranges = |ports: &[(u16, u16)]| ports.iter().map(|&(low, high)| low..=high).collect();
        let nodes = |nodes: &Option<Vec<String>>| match nodes {
            None => Ok(Vec::new()),
            Some(none) if none.is_empty() => Ok(vec![NOBODY]),
            Some(some) => some.iter().map(|node| names.node(node)).collect(),
        };
        let classes = |values: &[u8], encapsulation| {
            let class = |&value| Ok(LinkClass::arrived(encapsulation, checked_class(value)?));
            values.iter().map(class).collect::<Result<Vec<_>, BuildError>>()
        };
        let mut link_classes = classes(&self.pcp, Encapsulation::Dot1q)?;
        link_classes.extend(classes(&self.mpls_tc, Encapsulation::Mpls)?);
        Ok(Match {
            link_classes,
            dscps: self.dscp.clone(),
            protocols: self.protocols(),
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
        let policer = policer.framed(self.framing);
        if self.colour_aware { policer.colour_aware() } else { policer }
    }

    pub(crate) fn actions(&self) -> Actions {
        Actions { conform: self.conform, exceed: self.exceed, violate: self.violate }
    }
}

impl ShaperPlan {
    fn shaper<B>(self) -> Shaper<B> {
        Shaper::new(self.rate, self.burst).framed(self.framing)
    }
}
