//! Errors of traffic before it runs, and of readings.

use std::io;
use std::net::IpAddr;

use perhop_workload::WorkloadError;
use thiserror::Error;

/// Reason to refuse readings.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadingsError {
    /// The readings are those of a node that the job does not have.
    #[error("unknown node {0}")]
    UnknownNode(String),
    /// The readings contradict the job.
    #[error("node {node}: readings of mark {mark} are refused: {what}")]
    Refused {
        /// The node that sent them.
        node: String,
        /// The number of their mark.
        mark: u32,
        /// The contradiction.
        what: String,
    },
}

/// Reason why a job cannot run on this host.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrafficError {
    /// A flow or a ping cannot be sent at all.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The instants at which counters are read do not rise.
    #[error("marks and cuts must rise, and there must be a mark")]
    Marks,
    /// The nodes cannot be numbered.
    #[error("the job has {0} nodes; expected at most {max}", max = u16::MAX)]
    TooManyNodes(usize),
    /// A flow or a ping names a node that the job does not have.
    #[error("unknown node {0}")]
    UnknownNode(String),
    /// A flow or a ping names a node that has no address, or in which no socket can be opened.
    #[error("node {0} is not a host")]
    NotAHost(String),
    /// The ends of a flow or a ping have addresses of different families.
    #[error("the addresses of {0} and {1} are of different families (IPv4 and IPv6)")]
    Families(IpAddr, IpAddr),
    /// Datagrams are too short for their sequence number and time stamp.
    #[error("flow {flow}: datagrams of {size} B; expected at least {least} B, to number them")]
    SmallDatagrams {
        /// The flow.
        flow: String,
        /// Payload of its datagrams in bytes.
        size: usize,
        /// Minimum payload in bytes.
        least: usize,
    },
    /// Two streams of a host cannot be told apart by their ports.
    #[error("flow {flow}: another stream of {node} has the source port {port}")]
    SourcePortTaken {
        /// The flow.
        flow: String,
        /// Its sending host.
        node: String,
        /// The source port.
        port: u16,
    },
    /// A flow whose destination opens its connections has a source port. Its data comes from the
    /// port at which its source listens: the port of the flow.
    #[error("flow {flow}: its destination opens the connection; expected no source port")]
    SourcePortOfListener {
        /// The flow.
        flow: String,
    },
    /// The kernel lacks a congestion control.
    #[error("flow {flow}: this kernel has no congestion control {name}; it has {available}")]
    NoCongestionControl {
        /// The flow.
        flow: String,
        /// Requested congestion control.
        name: &'static str,
        /// Congestion controls of the kernel.
        available: String,
    },
    /// This user may not choose a congestion control.
    #[error(
        "flow {flow}: this user may not choose the congestion control {name}; without \
         CAP_NET_ADMIN the host allows {allowed} (sysctl net.ipv4.tcp_allowed_congestion_control)"
    )]
    ForbiddenCongestionControl {
        /// The flow.
        flow: String,
        /// Requested congestion control.
        name: &'static str,
        /// Congestion controls that all users may choose.
        allowed: String,
    },
    /// The kernel refuses a setting.
    #[error("flow {flow}: this kernel cannot set {what}: {error}")]
    Refused {
        /// The flow.
        flow: String,
        /// The setting.
        what: &'static str,
        /// Error of the kernel.
        error: io::Error,
    },
    /// A live job has settings for the network stack of a host, which only the owner of the host
    /// may change.
    #[error("node {node}: a live job cannot change settings of the host")]
    SettingsOfLiveHost {
        /// The node.
        node: String,
    },
    /// A live job does not have one entry per flow on how its ends find each other.
    #[error("a live job has {found} entries for its {expected} flows")]
    LiveFlows {
        /// Number of flows.
        expected: usize,
        /// Number of entries.
        found: usize,
    },
    /// A flow over QUIC with its ends in two processes.
    #[error("flow {flow}: QUIC cannot run in a live job; expected tcp or udp")]
    LiveQuic {
        /// The flow.
        flow: String,
    },
    /// Clients and servers in two processes.
    #[error("flow {flow}: its application cannot run in a live job")]
    LiveApplication {
        /// The flow.
        flow: String,
    },
    /// The system provides no random numbers.
    #[error("cannot get random numbers for a nonce: {0}")]
    NoNonce(io::Error),
    /// A flow over QUIC has a setting that quinn lacks, or the keys of its hosts cannot be made.
    #[error("flow {flow}: {what}")]
    Quic {
        /// The flow.
        flow: String,
        /// The reason.
        what: String,
    },
    /// The other end of a flow has not proved that it wants data.
    #[error("not proved: {}", .0.join("; "))]
    Unproved(Vec<String>),
    /// A setting of a node's network stack cannot be made.
    #[error("node {node}: {name} cannot be set to {value}: {error}")]
    Setting {
        /// The node.
        node: String,
        /// The setting.
        name: String,
        /// Requested value.
        value: String,
        /// Error of the kernel.
        error: io::Error,
    },
    /// A socket cannot be opened.
    #[error("node {node}: {what}: {error}")]
    Socket {
        /// The node.
        node: String,
        /// Attempted operation.
        what: String,
        /// Error of the kernel.
        error: io::Error,
    },
    /// The job needs too many sockets.
    #[error("{needed} sockets are needed, and a process may have {limit} files; raise `ulimit -n`")]
    TooManyFiles {
        /// Number of sockets needed.
        needed: u64,
        /// Limit of open files of the process.
        limit: u64,
    },
    /// No thread can be started.
    #[error("no thread can be started: {0}")]
    Thread(io::Error),
}
