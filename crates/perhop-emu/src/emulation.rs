//! Construction and control of an emulation.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::{fmt, io};

use nix::sys::eventfd::{EfdFlags, EventFd};
use perhop_core::{Duration, NodeId, Protocol, Time};
use perhop_measure::{CapturePlan, Histogram, Labels, Marks, NetworkMeter, Sink, Stalls, Table};
use perhop_net::{Balance, IcmpErrors, NodeKind};
use perhop_plan::{BuildError, Names, NetworkPlan, NodePlan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::behind::Behind;
use crate::clock::Clock;
use crate::hosts::{LinuxHosts, PacketCounters};
use crate::icmp::Addresses;
use crate::netns::{Namespace, NamespaceError};
use crate::running::{Request, Running, quantile, run, take_real_time_priority};
use crate::shaper::HostQueue;
use crate::tun::{LEAST_MTU_V6, Tun, TunError, TunSettings};

/// MTUs of hosts: from the least permitted one (RFC 791, section 3.1) to the longest packet.
const MTUS: RangeInclusive<u32> = 576..=65_535;

/// Plan of an emulation: a network of Linux hosts.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EmulationPlan {
    /// The network, and the times of measurement.
    pub network: NetworkPlan,
    /// Hosts, each of which is a node of the network.
    pub hosts: BTreeMap<String, HostPlan>,
    /// Congestion control of TCP connections that select none; by default that of this machine.
    #[serde(default)]
    pub congestion_control: Option<String>,
    /// Flows with separate counters of losses.
    #[serde(default)]
    pub flows: Vec<FlowKeyPlan>,
    /// Lateness of the network's thread above which it counts as a stall; none does by default.
    #[serde(default)]
    pub stall_threshold: Option<Duration>,
}

/// A host.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostPlan {
    /// MTU of its device, in bytes.
    pub mtu: u32,
    /// True if it leaves checksums and segmentation to the device (offloads).
    #[serde(default = "yes")]
    pub offload: bool,
    /// True if its own queue blocks its senders.
    #[serde(default)]
    pub backpressure: bool,
    /// Path of an existing network namespace, which becomes the host's; by default the host has its
    /// own.
    #[serde(default)]
    pub namespace: Option<PathBuf>,
    /// Prefixes of addresses behind the host: packets to them go to the host, which may send
    /// packets from them.
    #[serde(default)]
    pub behind: Vec<(IpAddr, u8)>,
    /// Destinations that have routes by its device, beside the default route. In a namespace with
    /// another default route these are all.
    #[serde(default)]
    pub routes: Vec<(IpAddr, u8)>,
}

fn yes() -> bool {
    true
}

/// Identification of a flow's packets.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FlowKeyPlan {
    /// Name of the flow.
    pub name: String,
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Destination port.
    pub port: u16,
    /// First and last source port, if they are given.
    #[serde(default)]
    pub source_ports: Option<(u16, u16)>,
}

/// Reason why an emulation cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EmulationError {
    /// The plan is invalid.
    #[error(transparent)]
    Plan(#[from] BuildError),
    /// The namespace of a host cannot be made.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The device of a host cannot be made.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// An existing namespace cannot be used.
    #[error("the namespace of host `{0}` cannot be opened: {1}")]
    Attach(String, io::Error),
    /// The device cannot be made in an existing namespace.
    #[error(
        "host `{0}` cannot be attached: {1}; it takes the rights of root in the namespace, which \
         has no device perhop0 yet"
    )]
    AttachedDevice(String, TunError),
    /// A host has no MTU, or an invalid one.
    #[error("every host must have an MTU, of 576 to 65535 bytes")]
    Mtu,
    /// Another error of the system.
    #[error("an emulation cannot be made: {0}")]
    Other(#[from] io::Error),
}

/// Counters of an emulation itself.
#[derive(Clone, Debug, Default)]
pub struct EmulationCounters {
    /// Links crossed by packets.
    pub packet_hops: u64,
    /// Packets exchanged with hosts.
    pub packets: PacketCounters,
    /// Packets that hosts dropped before their devices, because the loop was late to read them.
    pub overruns: u64,
    /// Number of hosts whose own queues block their senders, and number of those whose queues
    /// should but do not: the kernel lacks the token bucket, or the host has several links, a very
    /// fast link, or a discipline other than a plain queue at its end of the link.
    pub backpressure: [u64; 2],
    /// True if the thread has real-time priority (`SCHED_FIFO`), which needs privileges.
    pub real_time: bool,
    /// Lateness of the thread's wake-ups, in nanoseconds: median, 99th percentile and maximum.
    pub lateness_ns: Option<[u64; 3]>,
    /// Number and duration of delays beyond the plan's limit.
    pub stalls: Stalls,
}

/// A network of Linux hosts in real time. It ends when it is dropped.
#[derive(Debug)]
pub struct Emulation {
    namespaces: Vec<Option<Namespace>>,
    pub(crate) names: Names,
    labels: Labels,
    /// State of the loop until it starts.
    waiting: Option<Box<Running>>,
    requests: Option<mpsc::Sender<Request>>,
    bell: Arc<EventFd>,
    reached: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
    end: Time,
    /// Captures whose bytes may not be in their files yet.
    captures: Vec<Capture>,
}

/// A capture's file, and the bytes that wait for it.
struct Capture {
    /// Number of the capture in the thread that forwards packets.
    number: usize,
    backlog: Backlog,
    file: Box<dyn Sink>,
}

impl Capture {
    /// Writes the waiting bytes to the file.
    fn write(&mut self) -> io::Result<()> {
        let blocks = std::mem::take(&mut *self.backlog.0.lock().expect("nobody panics with it"));
        if blocks.is_empty() { Ok(()) } else { self.file.take(&blocks) }
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("backlog", &self.backlog).finish_non_exhaustive()
    }
}

/// Bytes that wait for their file, because the thread that forwards packets must not wait.
#[derive(Clone, Debug, Default)]
struct Backlog(Arc<Mutex<Vec<u8>>>);

impl Sink for Backlog {
    fn take(&mut self, blocks: &[u8]) -> io::Result<()> {
        self.0.lock().expect("nobody panics with it").extend_from_slice(blocks);
        Ok(())
    }
}

impl Emulation {
    /// Makes the hosts with their devices, and the network between them, without starting its
    /// clock.
    ///
    /// # Errors
    /// [`EmulationError`] if the plan is invalid, or this machine lacks a feature.
    pub fn new(plan: &EmulationPlan) -> Result<Self, EmulationError> {
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(io::Error::from)?;
        let nodes = plan.network.nodes.len();
        if !plan.hosts.values().all(|host| MTUS.contains(&host.mtu)) {
            return Err(EmulationError::Mtu);
        }
        let marks = Marks::new(&plan.network.marks, &[]).ok_or(BuildError::Marks)?;
        let kinds = plan.network.kinds();
        // A node without a link, for all other addresses.
        let nowhere = NodePlan {
            name: String::new(),
            kind: NodeKind::Host,
            address: Ipv4Addr::UNSPECIFIED,
            address_v6: Ipv6Addr::UNSPECIFIED,
            balance: Balance::default(),
            icmp_errors: IcmpErrors::None,
        };
        let mut network_plan = plan.network.clone();
        network_plan.nodes.push(nowhere);
        let names = network_plan.names()?;
        let network = network_plan.network(&names)?;
        let control = plan.congestion_control.as_deref();
        // Every link and tunnel must carry packets of 1280 bytes for IPv6 (RFC 8200, section 5): on
        // others, longer packets would be lost, because no host sends shorter ones.
        let links = plan.network.links.iter().filter_map(|link| link.mtu);
        let mut mtus = links.chain(plan.network.tunnels.iter().map(|tunnel| tunnel.mtu));
        let v6 = mtus.all(|mtu| mtu >= LEAST_MTU_V6);
        let mut namespaces = Vec::with_capacity(nodes);
        let mut made = Vec::with_capacity(nodes);
        let mut queues = Vec::new();
        let mut behind = Vec::new();
        for (kind, node) in kinds.into_iter().zip(&plan.network.nodes) {
            let own = Addresses { v4: node.address, v6: node.address_v6 };
            let (namespace, tun) = match kind {
                NodeKind::Router => (None, None),
                NodeKind::Host => {
                    let host = plan.hosts.get(&node.name).ok_or(EmulationError::Mtu)?;
                    let namespace = match &host.namespace {
                        Some(path) => Namespace::open(path)
                            .map_err(|error| EmulationError::Attach(node.name.clone(), error))?,
                        None => Namespace::new()?,
                    };
                    let attached = host.namespace.is_some();
                    if !attached {
                        answer_all(&namespace)?;
                    }
                    let settings = TunSettings {
                        addresses: own,
                        mtu: host.mtu,
                        v6,
                        offload: host.offload,
                        control,
                        routes: &host.routes,
                        attached,
                    };
                    let tun = Tun::open(&namespace, &settings).map_err(|error| match attached {
                        true => EmulationError::AttachedDevice(node.name.clone(), error),
                        false => error.into(),
                    })?;
                    let here = NodeId(made.len() as u16);
                    behind.extend(host.behind.iter().map(|&prefix| (prefix, here)));
                    if host.backpressure {
                        let node = names.node(&node.name)?;
                        queues.push(HostQueue::new(node, &namespace, host.mtu)?);
                    }
                    (Some(namespace), Some(tun))
                }
            };
            namespaces.push(namespace);
            made.push((kind, own, tun));
        }
        let longest = plan.hosts.values().map(|host| host.mtu).max().unwrap_or(*MTUS.start());
        let key = |flow: &FlowKeyPlan| {
            let ends = (names.node(&flow.from)?, names.node(&flow.to)?);
            Ok(((ends.0, ends.1, flow.protocol, flow.port), flow.source_ports))
        };
        let flows = plan.flows.iter().map(key).collect::<Result<Vec<_>, BuildError>>()?;
        let labels = Labels {
            nodes: Arc::clone(names.nodes()),
            links: Arc::clone(names.links()),
            channels: Arc::clone(names.channels()),
            tunnels: Arc::clone(names.tunnels()),
            flows: plan.flows.iter().map(|flow| flow.name.clone()).collect(),
            ..Labels::default()
        };
        let mut running = Running {
            meter: NetworkMeter::new(&network),
            changes: plan.network.timeline(&names)?,
            hosts: LinuxHosts::new(made, NodeId(nodes as u16), longest, flows, Behind::new(behind)),
            network,
            queues,
            marks,
            lateness: Histogram::default(),
            stalls: Stalls::longer_than(plan.stall_threshold.unwrap_or(Duration::MAX)),
            real_time: false,
            failure: None,
        };
        running.change();
        running.follow();
        Ok(Self {
            namespaces,
            names,
            labels,
            end: running.marks.end().unwrap_or(Time::MAX),
            waiting: Some(Box::new(running)),
            requests: None,
            bell: Arc::new(bell),
            reached: Arc::new(AtomicU64::new(0)),
            thread: None,
            captures: Vec::new(),
        })
    }

    /// Returns the namespaces of the nodes; routers have none.
    pub fn namespaces(&self) -> &[Option<Namespace>] {
        &self.namespaces
    }

    /// Starts the clock at an instant of the monotonic clock, in nanoseconds.
    ///
    /// # Errors
    /// If no thread can be started.
    ///
    /// # Panics
    /// If it has started already.
    pub fn start(&mut self, zero: u64) -> io::Result<()> {
        let mut running = *self.waiting.take().expect("an emulation starts once");
        let (requests, asked) = mpsc::channel();
        let (bell, reached) = (Arc::clone(&self.bell), Arc::clone(&self.reached));
        let work = move || {
            running.real_time = take_real_time_priority();
            run(running, Clock { zero }, &asked, &bell, &reached);
        };
        self.thread = Some(thread::Builder::new().name("perhop-emu".into()).spawn(work)?);
        self.requests = Some(requests);
        Ok(())
    }

    /// Returns the instant that the network has reached.
    pub fn now(&self) -> Time {
        Time::from_picos(self.reached.load(Ordering::Relaxed))
    }

    /// Returns the end of the emulation: the last reading of the counters.
    pub fn end(&self) -> Time {
        self.end
    }

    /// Runs a request in the loop, and waits for its result.
    pub(crate) fn ask<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Running) -> T + Send + 'static,
    ) -> T {
        let Some(requests) = &self.requests else {
            let running = self.waiting.as_mut().expect("it waits until it has started");
            return work(running);
        };
        let (answer, answered) = mpsc::channel();
        let request = Box::new(move |running: &mut Running| {
            let _ = answer.send(work(running));
        });
        requests.send(request).expect("the loop goes on as long as this does");
        let _ = self.bell.write(1);
        answered.recv().expect("the loop goes on as long as this does")
    }

    /// Captures packets that pass some interfaces, from now on; [`Emulation::write_captures`]
    /// writes them to `sink`.
    ///
    /// # Errors
    /// [`BuildError::UnknownLink`] if an interface does not exist.
    pub fn capture(
        &mut self,
        plan: &CapturePlan,
        sink: Box<dyn Sink>,
    ) -> Result<usize, BuildError> {
        let plan = plan.clone();
        let backlog = Backlog::default();
        let waits = backlog.clone();
        let ports = plan.interfaces.iter().map(|interface| self.names.port(&interface.name));
        let ports = ports.collect::<Result<Vec<_>, _>>()?;
        let number = self.ask(move |running| {
            ports.iter().for_each(|port| running.network.watch(*port));
            running.hosts.captures.add(&plan, &ports, Box::new(waits))
        });
        self.captures.push(Capture { number, backlog, file: sink });
        Ok(number)
    }

    /// Ends the capture with this number, which becomes free for another, and writes the rest of
    /// it.
    ///
    /// # Errors
    /// Those of the file.
    pub fn end_capture(&mut self, number: usize) -> io::Result<()> {
        let Some(place) = self.captures.iter().position(|capture| capture.number == number) else {
            return Ok(());
        };
        let mut capture = self.captures.swap_remove(place);
        self.ask(move |running| {
            for port in running.hosts.captures.end(number) {
                running.network.unwatch(port);
            }
        });
        capture.write()
    }

    /// Writes all packets captured so far.
    ///
    /// # Errors
    /// Those of a file. Its capture ends with the error.
    pub fn write_captures(&mut self) -> io::Result<()> {
        if self.captures.is_empty() {
            return Ok(());
        }
        self.ask(|running| running.hosts.captures.flush());
        let mut failure = Ok(());
        let mut failed = Vec::new();
        for capture in &mut self.captures {
            if let Err(error) = capture.write() {
                failed.push(capture.number);
                failure = failure.and(Err(error));
            }
        }
        for number in failed {
            let _ = self.end_capture(number);
        }
        failure
    }

    /// Returns the error that has ended the emulation, once, if there is one.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.ask(|running| running.failure.take())
    }

    /// Ends the measurement now; the tables end here.
    pub fn stop(&mut self) {
        self.ask(|running| {
            if let Some(now) = running.marks.stop(running.network.now()) {
                running.record(now);
            }
        });
    }

    /// Returns the tables, by name: `queues`, `links`, `stations`, `tunnels` and `losses`.
    pub fn tables(&mut self) -> [(&'static str, Table); 5] {
        let labels = self.labels.clone();
        self.ask(move |running| {
            let [queues, links, stations, tunnels] = running.meter.tables(&labels);
            [queues, links, stations, tunnels, running.hosts.losses.table(&labels)]
        })
    }

    /// Returns the counters so far.
    pub fn counters(&mut self) -> EmulationCounters {
        let overruns = self.namespaces.iter().flatten().map(overruns).sum();
        self.ask(move |running| EmulationCounters {
            packet_hops: running.network.packet_hops(),
            packets: running.hosts.counters,
            overruns,
            backpressure: [true, false].map(|stands| {
                running.queues.iter().filter(|queue| queue.stands() == stands).count() as u64
            }),
            real_time: running.real_time,
            lateness_ns: lateness(&running.lateness),
            stalls: running.stalls,
        })
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        self.requests = None;
        let _ = self.bell.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Makes a host send an ICMP error about every packet for which one is permitted, and reply to
/// every ping, as routers without limits do. Settings that its kernel lacks in namespaces are
/// skipped.
fn answer_all(host: &Namespace) -> io::Result<()> {
    const NEVER_LIMITED: [(&str, &str); 4] = [
        ("net/ipv4/icmp_ratelimit", "0"),
        ("net/ipv4/icmp_msgs_per_sec", "1000000"),
        ("net/ipv4/icmp_msgs_burst", "1000000"),
        ("net/ipv6/icmp/ratelimit", "0"),
    ];
    host.within(|| {
        for (name, value) in NEVER_LIMITED {
            let _ = std::fs::write(format!("/proc/sys/{name}"), value);
        }
    })
}

fn lateness(histogram: &Histogram) -> Option<[u64; 3]> {
    let shares = [0.5, 0.99, 1.0].map(|share| quantile(histogram, share));
    let [Some(median), Some(most), Some(worst)] = shares else { return None };
    Some([median, most, worst].map(|time| time.as_picos() / 1_000))
}

/// Returns the number of packets that a host's kernel has dropped before its device: the twelfth
/// number in `/proc/net/dev` (proc_net(5)).
fn overruns(host: &Namespace) -> u64 {
    let text = host.within(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
    let text = text.and_then(|text| text).unwrap_or_default();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("perhop0:"));
    let field = line.and_then(|line| line.split_whitespace().nth(11));
    field.and_then(|number| number.parse().ok()).unwrap_or(0)
}
