//! An emulation, as it is made and asked.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
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

use crate::clock::Clock;
use crate::hosts::{LinuxHosts, PacketCounters};
use crate::icmp::Addresses;
use crate::netns::{Namespace, NamespaceError};
use crate::running::{Request, Running, quantile, run, take_real_time_priority};
use crate::shaper::HostQueue;
use crate::tun::{LEAST_MTU_V6, Tun, TunError};

/// The network of the hosts' IPv6 addresses: a unique local prefix (RFC 4193).
const PREFIX_V6: [u16; 6] = [0xfd70, 0x6572, 0x686f, 0x7000, 0, 0];
/// What every host must take (RFC 791, section 3.1), and the longest packet.
const MTUS: RangeInclusive<u32> = 576..=65_535;

/// A network of Linux hosts.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EmulationPlan {
    /// The network, and when it is measured.
    pub network: NetworkPlan,
    /// The hosts, each of which is a node of the network.
    pub hosts: BTreeMap<String, HostPlan>,
    /// The congestion control of TCP connections that ask for none; by default this machine's.
    #[serde(default)]
    pub congestion_control: Option<String>,
    /// The flows whose losses are told apart.
    #[serde(default)]
    pub flows: Vec<FlowKeyPlan>,
    /// How late the network may be before it counts as a stall; never if not given.
    #[serde(default)]
    pub bearable: Option<Duration>,
}

/// A host.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostPlan {
    /// The longest packet that it sends.
    pub mtu: u32,
    /// True if it leaves checksums and the division into packets to us, as hosts do to a real
    /// device.
    #[serde(default = "yes")]
    pub offload: bool,
    /// True if its own queue holds up its senders.
    #[serde(default)]
    pub backpressure: bool,
}

fn yes() -> bool {
    true
}

/// How packets of a flow are told from others.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FlowKeyPlan {
    /// The flow's name.
    pub name: String,
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// What they carry.
    pub protocol: Protocol,
    /// The port that they are for.
    pub port: u16,
}

/// Why there is no emulation.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EmulationError {
    /// The plan has something wrong.
    #[error(transparent)]
    Plan(#[from] BuildError),
    /// A host cannot be made.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// A host cannot have a device.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// A host has no MTU, or one that cannot be.
    #[error("every host must have an MTU, of 576 to 65535 bytes")]
    Mtu,
    /// Something else went wrong.
    #[error("an emulation cannot be made: {0}")]
    Other(#[from] io::Error),
}

/// What an emulation has counted of itself.
#[derive(Clone, Debug, Default)]
pub struct EmulationCounters {
    /// Links crossed by packets.
    pub packet_hops: u64,
    /// Packets that came and went.
    pub packets: PacketCounters,
    /// Packets that hosts have dropped before their devices, because we were late to read them.
    pub overruns: u64,
    /// Hosts whose own queues hold up their senders, and those whose do not although they were to:
    /// the kernel has no token bucket, the host has several links, a link as fast as the network,
    /// or at its end of the link something else than a plain queue.
    pub backpressure: [u64; 2],
    /// True if the thread has real-time priority (`SCHED_FIFO`), which needs privileges.
    pub real_time: bool,
    /// How late the thread was, in nanoseconds, when it slept until something was due: at the
    /// median, in 99 of 100 cases at most, and at most.
    pub lateness_ns: Option<[u64; 3]>,
    /// How often and long it was later than the plan says can be borne.
    pub stalls: Stalls,
}

/// A network of Linux hosts in real time. It ends when it is dropped.
#[derive(Debug)]
pub struct Emulation {
    namespaces: Vec<Option<Namespace>>,
    pub(crate) names: Names,
    labels: Labels,
    /// What is to run, until it does.
    waiting: Option<Box<Running>>,
    requests: Option<mpsc::Sender<Request>>,
    bell: Arc<EventFd>,
    reached: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
    end: Time,
    /// What captures have taken, and the files do not have yet.
    captures: Vec<Capture>,
}

/// A capture's file, and what waits for it.
struct Capture {
    /// What the thread that carries packets calls it.
    number: usize,
    backlog: Backlog,
    file: Box<dyn Sink>,
}

impl Capture {
    /// Has the file take what waits.
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

/// Bytes that wait for their file, as the thread that carries packets waits for none.
#[derive(Clone, Debug, Default)]
struct Backlog(Arc<Mutex<Vec<u8>>>);

impl Sink for Backlog {
    fn take(&mut self, blocks: &[u8]) -> io::Result<()> {
        self.0.lock().expect("nobody panics with it").extend_from_slice(blocks);
        Ok(())
    }
}

/// Returns the addresses of a node: the one that it has, and one of IPv6 that ends with it.
pub(crate) fn addresses(v4: Ipv4Addr) -> Addresses {
    let [a, b, c, d] = v4.octets();
    let [p, q, r, s, t, u] = PREFIX_V6;
    let last = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
    Addresses { v4, v6: Ipv6Addr::new(p, q, r, s, t, u, last[0], last[1]) }
}

impl Emulation {
    /// Makes the hosts and their devices, and the network between them, in which time stands still.
    ///
    /// # Errors
    /// [`EmulationError`] says what the plan has wrong, or this machine lacks.
    pub fn new(plan: &EmulationPlan) -> Result<Self, EmulationError> {
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(io::Error::from)?;
        let nodes = plan.network.nodes.len();
        if !plan.hosts.values().all(|host| MTUS.contains(&host.mtu)) {
            return Err(EmulationError::Mtu);
        }
        let marks = Marks::new(&plan.network.marks, &[]).ok_or(BuildError::Marks)?;
        let kinds = plan.network.kinds();
        // Whoever has none of the addresses, and no link.
        let nowhere = NodePlan {
            name: String::new(),
            kind: NodeKind::Host,
            address: Ipv4Addr::UNSPECIFIED,
            balance: Balance::default(),
            icmp_errors: IcmpErrors::None,
        };
        let mut network_plan = plan.network.clone();
        network_plan.nodes.push(nowhere);
        let names = network_plan.names()?;
        let network = network_plan.network(&names)?;
        let control = plan.congestion_control.as_deref();
        // Every link must carry 1280 bytes of IPv6 (RFC 8200, section 5): where one does not, what
        // is longer would be lost there, as no host sends less.
        let mut mtus = plan.network.links.iter().filter_map(|link| link.mtu);
        let v6 = mtus.all(|mtu| mtu >= LEAST_MTU_V6);
        let mut namespaces = Vec::with_capacity(nodes);
        let mut made = Vec::with_capacity(nodes);
        let mut queues = Vec::new();
        for (kind, node) in kinds.into_iter().zip(&plan.network.nodes) {
            let own = addresses(node.address);
            let (namespace, tun) = match kind {
                NodeKind::Router => (None, None),
                NodeKind::Host => {
                    let host = plan.hosts.get(&node.name).ok_or(EmulationError::Mtu)?;
                    let namespace = Namespace::new()?;
                    answer_all(&namespace)?;
                    let tun = Tun::open(&namespace, own, host.mtu, v6, host.offload, control)?;
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
            Ok((names.node(&flow.from)?, names.node(&flow.to)?, flow.protocol, flow.port))
        };
        let flows = plan.flows.iter().map(key).collect::<Result<Vec<_>, BuildError>>()?;
        let labels = Labels {
            nodes: Arc::clone(names.nodes()),
            links: Arc::clone(names.links()),
            flows: plan.flows.iter().map(|flow| flow.name.clone()).collect(),
            ..Labels::default()
        };
        let mut running = Running {
            meter: NetworkMeter::new(&network),
            changes: plan.network.timeline(&names)?,
            hosts: LinuxHosts::new(made, NodeId(nodes as u16), longest, flows),
            network,
            queues,
            marks,
            lateness: Histogram::default(),
            stalls: Stalls::longer_than(plan.bearable.unwrap_or(Duration::MAX)),
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

    /// Lets time begin at an instant of the monotonic clock, in nanoseconds.
    ///
    /// # Errors
    /// If no thread can be made.
    ///
    /// # Panics
    /// If it has begun already.
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

    /// When the last counters are read.
    pub fn end(&self) -> Time {
        self.end
    }

    /// Has the loop do something, and waits for what it says.
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

    /// From now on what passes some interfaces goes to `sink`, as a file of packets, whenever
    /// [`Emulation::write_captures`] is called.
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

    /// Ends the capture of this number, which may be another's then; its sink has everything.
    ///
    /// # Errors
    /// Why a file cannot be written.
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

    /// Writes what was captured so far.
    ///
    /// # Errors
    /// Why a file cannot be written. Its capture ends with it.
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

    /// Why the emulation cannot go on, once, if it cannot.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.ask(|running| running.failure.take())
    }

    /// Ends the measurement where it is: the tables then go up to here.
    pub fn stop(&mut self) {
        self.ask(|running| {
            if let Some(now) = running.marks.stop(running.network.now()) {
                running.record(now);
            }
        });
    }

    /// Returns the tables, by name: `queues`, `links` and `losses`.
    pub fn tables(&mut self) -> [(&'static str, Table); 3] {
        let labels = self.labels.clone();
        self.ask(move |running| {
            let [queues, links] = running.meter.tables(&labels);
            [queues, links, running.hosts.losses.table(&labels)]
        })
    }

    /// What was counted so far.
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

/// Has a host send an ICMP error about every packet that earns one, and answer every ping, as
/// routers do that limit nothing. Settings that its kernel does not have for a namespace are left
/// out.
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

/// Returns the packets that a host's kernel has dropped before its device: `/proc/net/dev`, where
/// the twelfth number is that (proc_net(5)).
fn overruns(host: &Namespace) -> u64 {
    let text = host.within(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
    let text = text.and_then(|text| text).unwrap_or_default();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("perhop0:"));
    let field = line.and_then(|line| line.split_whitespace().nth(11));
    field.and_then(|number| number.parse().ok()).unwrap_or(0)
}
