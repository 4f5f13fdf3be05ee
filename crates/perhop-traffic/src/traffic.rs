//! A running job.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use perhop_core::{Duration, Time};
use perhop_measure::{Marks, Table};
use perhop_workload::{FlowPlan, TransportPlan};

use crate::app::Applications;
use crate::clock::{duration, time};
use crate::collector::Collector;
use crate::error::TrafficError;
use crate::job::Job;
use crate::live::Limits;
use crate::offset::ClockOffset;
use crate::open;
use crate::proof::{Renewals, nonce};
use crate::prove::Proof;
use crate::quic::QuicSockets;
use crate::reader::{self, Reader};
use crate::readings::Readings;
use crate::receive::{EventSource, receive};
use crate::share::{patterns, share, sources};
use crate::shared::Shared;
use crate::stream::{Ends, FlowState, lock};
use crate::udp::Datagrams;
use crate::{tcp, udp};
use perhop_socket::{Socket, monotonic, reduce_wakeup_latency, unlimit_files};

/// Greatest number of open files of a process besides the sockets of the job.
const OTHER_FILES: u64 = 256;

/// State that moves to the threads when they start.
#[derive(Debug)]
struct Waiting {
    senders: Vec<Datagrams>,
    sources: Vec<EventSource>,
    applications: Option<Applications>,
    quic: Option<QuicSockets>,
}

/// Flows and pings between hosts. Their sockets are opened first; then traffic starts, and is
/// measured until the last mark or until [`stop`](Self::stop).
#[derive(Debug)]
pub struct Traffic {
    shared: Arc<Shared>,
    recorder: Arc<Mutex<Recorder>>,
    flows: Vec<String>,
    /// `None` once the threads have started.
    waiting: Option<Waiting>,
    /// Proofs of a live job, until they are complete.
    proof: Option<Proof>,
    nodes: Vec<String>,
    threads: Vec<JoinHandle<()>>,
    end: Time,
    real_time: bool,
}

impl Traffic {
    /// Opens all sockets. `enter` puts the calling thread into the network namespace of a number;
    /// it is called in a separate thread for each host with flows or pings.
    ///
    /// # Errors
    /// [`TrafficError`] names the fault of the job, or the feature that this machine lacks.
    pub fn new(
        job: &Job,
        enter: &(dyn Fn(usize) -> io::Result<()> + Sync),
    ) -> Result<Self, TrafficError> {
        Self::with_limits(job, enter, Limits::default())
    }

    /// Opens all sockets as [`new`](Self::new) does. Traffic stays within the limits, independent
    /// of the job.
    ///
    /// # Errors
    /// As `new`.
    pub fn with_limits(
        job: &Job,
        enter: &(dyn Fn(usize) -> io::Result<()> + Sync),
        limits: Limits,
    ) -> Result<Self, TrafficError> {
        if let Some(live) = &job.live
            && (live.flows.len() != job.flows.len() || live.flows.len() > usize::from(u16::MAX))
        {
            let (expected, found) = (job.flows.len(), live.flows.len());
            return Err(TrafficError::LiveFlows { expected, found });
        }
        let applications = job.flows.iter().find(|flow| flow.application.is_some());
        if let (Some(_), Some(flow)) = (&job.live, applications) {
            return Err(TrafficError::LiveApplication { flow: flow.name.clone() });
        }
        let quic = |flow: &&FlowPlan| matches!(flow.transport, TransportPlan::Quic(_));
        if let (Some(_), Some(flow)) = (&job.live, job.flows.iter().find(quic)) {
            return Err(TrafficError::LiveQuic { flow: flow.name.clone() });
        }
        if job.nodes.len() > usize::from(u16::MAX) {
            return Err(TrafficError::TooManyNodes(job.nodes.len()));
        }
        let marks = Marks::new(&job.marks, &job.cuts).ok_or(TrafficError::Marks)?;
        let end = marks.end().ok_or(TrafficError::Marks)?;
        for ping in &job.pings {
            ping.check()?;
            let (from, to) =
                (open::host(job, &ping.from, ping.ipv6)?, open::node(job, &ping.to, ping.ipv6)?);
            open::same_family(from, to)?;
        }
        let lines = open::lines(job)?;
        let needed = 2 * lines.len() as u64 + 4 * job.nodes.len() as u64 + OTHER_FILES;
        let limit = unlimit_files().unwrap_or(u64::MAX);
        if needed > limit {
            return Err(TrafficError::TooManyFiles { needed, limit });
        }
        let patterns = patterns(job)?;
        let mut opened = open::open_hosts(job, &lines, enter)?;
        let proof = match &job.live {
            Some(live) => Some(Proof::new(job, live.token, &lines, &mut opened)?),
            None => None,
        };
        let over = |quic| {
            let over = |plan: &FlowPlan| matches!(plan.transport, TransportPlan::Quic(_)) == quic;
            job.flows.iter().any(|flow| flow.application.is_some() && over(flow))
        };
        let [over_tcp, over_quic] = [over(false), over(true)];
        // Clients over TCP and over QUIC share the files that are left.
        let most = (limit - needed) / (1 + u64::from(over_tcp && over_quic));
        let quic = QuicSockets::new(job, &lines, &mut opened, most)?;
        let shared = Arc::new(share(job, &lines, &mut opened, limits)?);
        let senders = patterns
            .into_iter()
            .map(|(id, pattern)| Datagrams::new(id, shared.at(id).0, pattern))
            .collect();
        let applications = over_tcp.then(|| Applications::new(job, &mut opened, most));
        let sources = opened.into_iter().flat_map(|(node, opened)| sources(job, node, opened));
        let stall_threshold = job.stall_threshold.unwrap_or(Duration::MAX);
        let recorder = Recorder {
            reader: Reader::new(&shared, marks, stall_threshold),
            collector: match job.live {
                None => Some(Collector::new(job)?),
                Some(_) => None,
            },
            queue: Vec::new(),
            recorded: Time::ZERO,
        };
        Ok(Self {
            waiting: Some(Waiting { senders, sources: sources.collect(), applications, quic }),
            proof,
            nodes: job.nodes.iter().map(|node| node.name.clone()).collect(),
            recorder: Arc::new(Mutex::new(recorder)),
            shared,
            threads: Vec::new(),
            end,
            flows: job.flows.iter().map(|flow| flow.name.clone()).collect(),
            real_time: job.real_time,
        })
    }

    /// Returns the instant of the monotonic clock (`CLOCK_MONOTONIC`) `nanos` nanoseconds from now,
    /// at which several engines can [start](Self::start) together.
    pub fn instant_in(nanos: u64) -> u64 {
        monotonic() + nanos
    }

    /// Proves the streams of a live job. Each connection is opened, and the receivers of all
    /// streams from this process prove that they want the data. Both ends of a stream must call
    /// this at the same time. Returns true as soon as all streams are proved, and false when the
    /// monotonic clock reaches `deadline` (nanoseconds); another call continues. Jobs that are not
    /// live need no proof.
    ///
    /// # Errors
    /// [`TrafficError::NoNonce`] if the system has no random numbers.
    pub fn prove(&mut self, deadline: u64) -> Result<bool, TrafficError> {
        let Some(proof) = &mut self.proof else { return Ok(true) };
        nonce().map_err(TrafficError::NoNonce)?;
        Ok(proof.run(&self.shared.budget, deadline))
    }

    /// Returns a message for each stream that is not proved yet.
    pub fn unproved(&self) -> Vec<String> {
        self.proof.as_ref().map_or_else(Vec::new, Proof::unproved)
    }

    /// Returns whether a packet of this run has arrived from an address, before the start of a live
    /// job. Nothing but the proofs may be sent to others.
    pub fn knows(&self, address: IpAddr) -> bool {
        self.proof.as_ref().is_some_and(|proof| proof.knows(address))
    }

    /// Returns the number and the destination of each ping from here to an address that has proved
    /// nothing, before the start of a live job.
    pub fn unproved_pings(&self) -> Vec<(usize, IpAddr)> {
        let targets = self.shared.pings.iter().filter_map(|ping| ping.target());
        targets.filter(|(_, to)| !self.knows(*to)).collect()
    }

    /// Returns the handle that sets the offset of another node's clock; `None` if no flow comes
    /// from that node. One-way delays are absent until the offset is set.
    pub fn clock_offset(&self, node: &str) -> Option<ClockOffset> {
        let number = self.nodes.iter().position(|name| name == node)?;
        let flows = self.shared.flows.iter().enumerate();
        let from_there = flows.filter(|(_, flow)| {
            flow.here == Ends { source: false, destination: true } && flow.from == number
        });
        let flows: Vec<_> = from_there.map(|(flow, _)| flow).collect();
        (!flows.is_empty()).then(|| ClockOffset::new(Arc::clone(&self.shared), flows))
    }

    /// Returns the readings of a live job since the last call.
    pub fn take_readings(&mut self) -> Vec<Readings> {
        std::mem::take(&mut lock(&self.recorder).queue)
    }

    /// Starts the threads; the scenario begins when the monotonic clock shows `zero`, in
    /// nanoseconds. A second call does nothing.
    ///
    /// # Errors
    /// [`TrafficError::Thread`] if a thread cannot be started; [`TrafficError::Unproved`] if a
    /// stream is not proved.
    pub fn start(&mut self, zero: u64) -> Result<(), TrafficError> {
        let unproved = self.unproved();
        if !unproved.is_empty() {
            return Err(TrafficError::Unproved(unproved));
        }
        let Some(waiting) = self.waiting.take() else { return Ok(()) };
        let Waiting { mut senders, mut sources, applications, quic } = waiting;
        let mut renewals = Renewals::default();
        if let Some(proof) = self.proof.take() {
            let mut proved = proof.finish(&self.shared);
            sources.extend(proved.sources);
            senders.iter_mut().for_each(|sender| sender.take_consent(&mut proved.consents));
            renewals = proved.renewals;
        }
        self.shared.clock.start(zero);
        let shared = Arc::clone(&self.shared);
        self.spawn("receive", move || receive(&shared, sources, renewals))?;
        if self.shared.udp.contains(&false) {
            let shared = Arc::clone(&self.shared);
            self.spawn("tcp", move || tcp::send(&shared))?;
        }
        if let Some(applications) = applications {
            let shared = Arc::clone(&self.shared);
            self.spawn("app", move || applications.run(&shared))?;
        }
        if let Some(quic) = quic {
            let shared = Arc::clone(&self.shared);
            self.spawn("quic", move || quic.run(&shared))?;
        }
        if !senders.is_empty() || !self.shared.pings.is_empty() {
            let shared = Arc::clone(&self.shared);
            self.spawn("udp", move || {
                udp::send(&shared, senders);
                Ok(())
            })?;
        }
        let (shared, recorder) = (Arc::clone(&self.shared), Arc::clone(&self.recorder));
        self.spawn("record", move || {
            while !shared.clock.is_over() {
                let deadline = lock(&recorder).reader.deadline(&shared);
                if deadline > shared.clock.now() {
                    shared.clock.sleep_until(deadline);
                    let late = shared.clock.now().saturating_sub(deadline);
                    lock(&recorder).reader.stalls.add(duration(late));
                    continue;
                }
                let mut recorder = lock(&recorder);
                recorder.run(&shared);
                if shared.budget.is_over(shared.clock.now()) {
                    shared.warn("the run has reached this host's limit of the duration".to_owned());
                    recorder.stop(&shared);
                    shared.clock.end();
                } else if recorder.reader.is_done() {
                    shared.clock.end();
                }
            }
            Ok(())
        })
    }

    fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<(), TrafficError> {
        let (shared, real_time) = (Arc::clone(&self.shared), self.real_time);
        let named = format!("perhop-{name}");
        let thread = thread::Builder::new().name(named.clone()).spawn(move || {
            shared
                .counters
                .real_time
                .fetch_and(reduce_wakeup_latency(real_time), Ordering::Relaxed);
            if let Err(error) = work() {
                shared.warn(format!("{named} ended: {error}"));
            }
        });
        self.threads.push(thread.map_err(TrafficError::Thread)?);
        Ok(())
    }

    /// Returns the current instant of the scenario; its end once that is reached.
    pub fn now(&self) -> Time {
        match self.waiting {
            Some(_) => Time::ZERO,
            None => time(self.shared.clock.now()).min(self.end),
        }
    }

    /// Returns the instant up to which the tables extend.
    pub fn recorded(&self) -> Time {
        lock(&self.recorder).recorded
    }

    /// Returns whether the run is over and recorded.
    pub fn is_finished(&self) -> bool {
        self.waiting.is_none() && self.shared.clock.is_over()
    }

    /// Returns the names of the flows, in the order of the job.
    pub fn flows(&self) -> &[String] {
        &self.flows
    }

    /// Returns the bytes that each flow has delivered so far.
    pub fn delivered(&self) -> Vec<u64> {
        let of_flow = |(index, flow): (usize, &FlowState)| -> u64 {
            if self.shared.is_udp(index) {
                lock(&flow.received).datagrams.iter().map(|stream| stream.meter.delivered).sum()
            } else {
                flow.streams.iter().map(|stream| stream.delivered.load(Ordering::Relaxed)).sum()
            }
        };
        self.shared.flows.iter().enumerate().map(of_flow).collect()
    }

    /// Returns the warnings since the last call, such as a refused connection; the first twenty.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.shared.warnings))
    }

    /// Returns the counters of the traffic by name; see
    /// [`ProcessReading::by_name`](crate::ProcessReading::by_name).
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        reader::process(&self.shared, &lock(&self.recorder).reader.stalls).by_name()
    }

    /// Returns the greatest window that each flow's receivers have offered, in bytes, for
    /// comparison with the requested one. Zero for a flow of datagrams.
    pub fn windows(&self) -> Vec<u32> {
        let recorder = lock(&self.recorder);
        recorder.collector.as_ref().map_or_else(Vec::new, Collector::windows)
    }

    /// Ends the run now, and records the measurements since the last mark.
    pub fn stop(&mut self) {
        if self.waiting.is_none() && !self.shared.clock.is_over() {
            lock(&self.recorder).stop(&self.shared);
        }
        self.join();
    }

    fn join(&mut self) {
        self.shared.clock.end();
        for thread in self.threads.drain(..) {
            // The thread has reported its error, or has panicked.
            let _ = thread.join();
        }
        if self.shared.proof.is_some() {
            // A live host sends no buffered data after the end.
            let streams = self.shared.flows.iter().flat_map(|flow| &flow.streams);
            streams.filter_map(|stream| stream.sender.get()).for_each(Socket::abort);
        }
    }

    /// Returns the tables by name: `intervals`, `pings`, `codepoints`, `rtts`, `srtts`, `delays`,
    /// `displacements`.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        let recorder = lock(&self.recorder);
        recorder.collector.as_ref().map_or_else(Vec::new, Collector::tables)
    }
}

/// Reader of the counters, with its readings.
#[derive(Debug)]
struct Recorder {
    reader: Reader,
    /// Collector of the readings, unless the controller of a live job has it.
    collector: Option<Collector>,
    /// Readings that were not taken yet.
    queue: Vec<Readings>,
    /// The instant of the last reading.
    recorded: Time,
}

impl Recorder {
    fn run(&mut self, shared: &Shared) {
        let readings = self.reader.run(shared);
        readings.into_iter().for_each(|each| self.keep(each, shared));
    }

    fn stop(&mut self, shared: &Shared) {
        if let Some(readings) = self.reader.stop(shared) {
            self.keep(readings, shared);
        }
    }

    fn keep(&mut self, mut readings: Readings, shared: &Shared) {
        self.recorded = readings.at;
        match &mut self.collector {
            Some(collector) => collector.join(0, readings),
            None => {
                readings.warnings = std::mem::take(&mut lock(&shared.warnings));
                self.queue.push(readings);
            }
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.join();
    }
}
