//! A network with every name and unit resolved.
//!
//! Nodes and links are numbered in the order in which they stand. Rates are bits per second, times
//! picoseconds, sizes bytes, probabilities parts per billion.

use std::net::Ipv4Addr;

use perhop_core::Bytes;
use perhop_queue::Limit;
use serde::Deserialize;

use crate::aqm::{CodelPlan, DualPi2Plan, FqCodelPlan, PiePlan, RedPlan};
use crate::cbq::CbqPlan;

/// A network, what changes in it, and when it is measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkPlan {
    /// Decides every random number.
    pub seed: u64,
    /// The instants at which every counter is read, rising, the end of the run last.
    pub marks: Vec<u64>,
    /// The nodes.
    pub nodes: Vec<NodePlan>,
    /// The links.
    pub links: Vec<LinkPlan>,
    /// What changes on the way, in order of time.
    #[serde(default)]
    pub changes: Vec<ChangePlan>,
}

/// A change, after everything else that happens at its instant, which is a mark or zero.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangePlan {
    /// When.
    pub at: u64,
    /// What.
    pub effect: EffectPlan,
}

/// What changes.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EffectPlan {
    /// A link's rate, delay or loss.
    Wire(WirePlan),
    /// Whether a link transmits.
    State {
        /// The link.
        link: u32,
        /// Whether it does.
        up: bool,
    },
    /// What stands before a transmitter.
    Queue(QueueChangePlan),
    /// A policer's committed rate and burst.
    Police(PoliceChangePlan),
    /// Which classes go before everything else at a transmitter.
    Reserved(ReservedChangePlan),
}

/// A link's new wire.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WirePlan {
    /// The link.
    pub link: u32,
    /// Rate with layer-2 overhead.
    pub rate: u64,
    /// Propagation delay.
    pub delay: u64,
    /// Random loss.
    pub loss_ppb: u32,
}

/// A port's new queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueChangePlan {
    /// The port: `2 · link`, or back, `2 · link + 1`.
    pub port: u32,
    /// The queue.
    pub queue: QueuePlan,
    /// What the port may send.
    pub shape: Option<ShapePlan>,
}

/// A policer's new settings.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoliceChangePlan {
    /// The port.
    pub port: u32,
    /// The class that it polices, counted depth first, the root being 0.
    pub class: u32,
    /// Committed rate.
    pub rate: u64,
    /// Committed burst.
    pub burst: u64,
}

/// A port's reserved classes from now on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReservedChangePlan {
    /// The port.
    pub port: u32,
    /// The classes, the first of them going first.
    pub classes: Vec<ReservedPlan>,
}

/// A reserved class.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReservedPlan {
    /// Which packets belong to it.
    pub matches: MatchPlan,
    /// Its rate and burst, what exceeds being dropped.
    pub police: Option<ShapePlan>,
    /// How much may wait.
    pub limit: LimitPlan,
    /// Which of the port's reserved classes so far it is; none for a new one.
    pub stays: Option<usize>,
}

/// A node.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodePlan {
    /// What it does with packets for others.
    pub kind: KindPlan,
    /// Its address, as captures have it.
    #[serde(default = "nowhere")]
    pub address: Ipv4Addr,
    /// How it shares load.
    #[serde(default)]
    pub balance: BalancePlan,
    /// What it says of packets that it cannot deliver.
    #[serde(default)]
    pub icmp_errors: IcmpErrorsPlan,
}

/// How many ICMP errors a node sends.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum IcmpErrorsPlan {
    /// All that are due.
    #[default]
    All,
    /// None.
    None,
    /// One for each token of a bucket.
    Limited {
        /// Time between tokens.
        every: u64,
        /// How many the bucket holds.
        burst: u32,
    },
}

/// A node's kind.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KindPlan {
    /// Sends and receives.
    Host,
    /// Forwards.
    Router,
}

/// How a node chooses among links and paths that cost the same.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BalancePlan {
    /// By a hash of the flow.
    #[default]
    PerFlow,
    /// By a hash of the destination.
    PerDestination,
    /// In turn.
    PerPacket,
}

/// A link.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkPlan {
    /// Seeds its random streams.
    pub name: String,
    /// The nodes it joins.
    pub ends: [u16; 2],
    /// Rate with layer-2 overhead.
    pub rate: u64,
    /// Propagation delay.
    pub delay: u64,
    /// The most by which a packet is late beyond it.
    pub jitter: u64,
    /// Random loss.
    pub loss_ppb: u32,
    /// Random duplication.
    #[serde(default)]
    pub duplicate_ppb: u32,
    /// How many packets take longer, in parts per billion, and by how much.
    #[serde(default)]
    pub detour: (u32, u64),
    /// Layer-2 overhead.
    pub overhead: OverheadPlan,
    /// The longest packet that it takes, if there is a limit.
    #[serde(default)]
    pub mtu: Option<u32>,
    /// The queue at each end.
    pub queues: [QueuePlan; 2],
    /// What each end may send, of IP bytes, if that is not what the rate allows.
    #[serde(default)]
    pub shapes: [Option<ShapePlan>; 2],
    /// How each end marks what arrives there.
    #[serde(default)]
    pub remarks: [Vec<RemarkPlan>; 2],
}

/// A rule by which packets are marked; the first that matches decides.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemarkPlan {
    /// Which packets.
    pub matches: MatchPlan,
    /// Their new code point.
    pub dscp: u8,
}

/// What layer 2 adds to a packet.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverheadPlan {
    /// So many bytes.
    Fixed(u32),
    /// ATM cells.
    Atm,
}

/// A queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum QueuePlan {
    /// First in, first out, with this limit.
    Fifo(LimitPlan),
    /// The same, dropping at its head.
    #[serde(rename = "head-drop")]
    HeadDrop(LimitPlan),
    /// RED and WRED.
    Red(RedPlan),
    /// CoDel.
    Codel(CodelPlan),
    /// FQ-CoDel.
    #[serde(rename = "fq-codel")]
    FqCodel(FqCodelPlan),
    /// PIE.
    Pie(PiePlan),
    /// DualPI2.
    DualPi2(DualPi2Plan),
    /// Classes in match order that share by WF2Q+.
    Classes(Vec<ClassPlan>),
    /// The same by deficit round robin.
    Drr(Vec<ClassPlan>),
    /// The same by guarantees, and then by priority.
    #[serde(rename = "link-sharing")]
    LinkSharing(Vec<ClassPlan>),
    /// The same as ALTQ has it.
    #[serde(rename = "altq-cbq")]
    Cbq(CbqPlan),
}

/// How much a queue holds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitPlan {
    /// So many packets.
    Packets(u64),
    /// So many bytes.
    Bytes(u64),
}

impl LimitPlan {
    pub(crate) const fn limit(self) -> Limit {
        match self {
            Self::Packets(packets) => Limit::packets(packets),
            Self::Bytes(bytes) => Limit::bytes(Bytes::new(bytes)),
        }
    }
}

/// A class.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassPlan {
    /// Which packets belong to it.
    pub matches: MatchPlan,
    /// Its guaranteed rate, which is its weight among the others; none for a strict class.
    pub weight: Option<u64>,
    /// Who borrows first in link sharing: the lowest number.
    #[serde(default)]
    pub priority: u8,
    /// Its policer.
    pub police: Option<PolicePlan>,
    /// Its shaper, in IP bytes.
    #[serde(default)]
    pub shape: Option<ShapePlan>,
    /// Its queue.
    pub queue: QueuePlan,
}

/// Which packets belong to a class; empty lists are no condition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MatchPlan {
    /// Code points.
    pub dscps: Vec<u8>,
    /// Protocols.
    pub protocols: Vec<ProtocolPlan>,
    /// Ranges that the source or the destination port is in.
    pub ports: Vec<(u16, u16)>,
    /// Ranges that the source port is in.
    pub source_ports: Vec<(u16, u16)>,
    /// Ranges that the destination port is in.
    pub destination_ports: Vec<(u16, u16)>,
    /// Source nodes.
    pub sources: Vec<u16>,
    /// Destination nodes.
    pub destinations: Vec<u16>,
}

/// A protocol.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolPlan {
    /// ICMP.
    Icmp,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// A policer.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicePlan {
    /// Committed rate.
    pub rate: u64,
    /// Committed burst.
    pub burst: u64,
    /// The excess burst of a single-rate three-colour marker.
    #[serde(default)]
    pub excess_burst: Option<u64>,
    /// The peak rate and burst of a two-rate three-colour marker.
    #[serde(default)]
    pub peak: Option<ShapePlan>,
    /// Whether a packet is never better than its mark says.
    #[serde(default)]
    pub colour_aware: bool,
    /// What becomes of packets that conform.
    #[serde(default)]
    pub conform: ActionPlan,
    /// What becomes of packets that exceed.
    pub exceed: ActionPlan,
    /// What becomes of packets that violate.
    #[serde(default)]
    pub violate: ActionPlan,
}

/// What a policer does with a packet.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActionPlan {
    /// Lets it pass.
    #[default]
    Send,
    /// Drops it.
    Drop,
    /// Gives it another DSCP.
    Remark(u8),
}

/// A rate and a burst.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShapePlan {
    /// Rate.
    pub rate: u64,
    /// Burst; zero for a leaky bucket.
    pub burst: u64,
}

fn nowhere() -> Ipv4Addr {
    Ipv4Addr::UNSPECIFIED
}
