//! What can go wrong before traffic runs.

use std::io;
use std::net::IpAddr;

use perhop_workload::WorkloadError;
use thiserror::Error;

/// Why readings are refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadingsError {
    /// They come from a node that the job does not have.
    #[error("unknown node {0}")]
    UnknownNode(String),
    /// They contradict the job.
    #[error("node {node}: readings of mark {mark} are refused: {what}")]
    Refused {
        /// The node that sent them.
        node: String,
        /// The number of their mark.
        mark: u32,
        /// What contradicts the job.
        what: String,
    },
}

/// Why a job cannot be done here.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrafficError {
    /// A flow or a ping cannot be sent by anybody.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The instants at which counters are read do not rise.
    #[error("marks and cuts must rise, and there must be a mark")]
    Marks,
    /// A flow or a ping names a node that the job does not have.
    #[error("unknown node {0}")]
    UnknownNode(String),
    /// A flow or a ping names a node that has no address, or in which no socket can be opened.
    #[error("node {0} is not a host")]
    NotAHost(String),
    /// The ends of a flow or a ping have addresses of two families.
    #[error("{0} and {1} are not of one family of addresses")]
    Families(IpAddr, IpAddr),
    /// Datagrams have no room for their number and the time.
    #[error("flow {flow}: datagrams of {size} B; expected at least {least} B, to number them")]
    SmallDatagrams {
        /// The flow.
        flow: String,
        /// Their payload.
        size: usize,
        /// The least that there must be.
        least: usize,
    },
    /// The kernel does not have a congestion control.
    #[error("flow {flow}: this kernel has no congestion control {name}; it has {available}")]
    NoCongestionControl {
        /// The flow.
        flow: String,
        /// What it asks for.
        name: &'static str,
        /// What there is.
        available: String,
    },
    /// The kernel refuses a setting.
    #[error("flow {flow}: this kernel cannot set {what}: {error}")]
    Refused {
        /// The flow.
        flow: String,
        /// The setting.
        what: &'static str,
        /// What it says.
        error: io::Error,
    },
    /// A live job sets a host's network stack, which is its owner's.
    #[error("node {node}: a live job cannot change settings of the host")]
    SettingsOfLiveHost {
        /// The node.
        node: String,
    },
    /// A live job does not say how the ends of each flow find each other.
    #[error("a live job has {found} entries for its {expected} flows")]
    LiveFlows {
        /// The flows that there are.
        expected: usize,
        /// The entries.
        found: usize,
    },
    /// The system has no random numbers.
    #[error("no nonce can be had: {0}")]
    NoNonce(io::Error),
    /// The other end of some flow has not proved that it wants data.
    #[error("not proved: {}", .0.join("; "))]
    Unproved(Vec<String>),
    /// A node's network stack has no such setting.
    #[error("node {node}: {name} cannot be set to {value}: {error}")]
    Setting {
        /// The node.
        node: String,
        /// The setting.
        name: String,
        /// What it was to be.
        value: String,
        /// What the kernel says.
        error: io::Error,
    },
    /// A socket cannot be opened.
    #[error("node {node}: {what}: {error}")]
    Socket {
        /// Where.
        node: String,
        /// What was to be done.
        what: String,
        /// What the kernel says.
        error: io::Error,
    },
    /// There would be too many sockets.
    #[error("{needed} sockets are needed, and a process may have {limit} files; raise `ulimit -n`")]
    TooManyFiles {
        /// How many there would be.
        needed: u64,
        /// How many there may be.
        limit: u64,
    },
    /// No thread can be started.
    #[error("no thread can be started: {0}")]
    Thread(io::Error),
}
