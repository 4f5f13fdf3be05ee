//! A job under way.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use perhop_core::{Duration, Time};
use perhop_measure::{Marks, Table};

use crate::clock::{duration, time};
use crate::collector::Collector;
use crate::error::TrafficError;
use crate::job::Job;
use crate::live::Limits;
use crate::offset::ClockOffset;
use crate::open;
use crate::proof::nonce;
use crate::prove::Proof;
use crate::reader::{self, Reader};
use crate::readings::Readings;
use crate::receive::{EventSource, receive};
use crate::share::{patterns, share, sources};
use crate::shared::Shared;
use crate::stream::{Ends, FlowState, lock};
use crate::udp::Datagrams;
use crate::{tcp, udp};
use perhop_socket::{Socket, be_prompt, monotonic, unlimit_files};

/// Files that a process has open beside our sockets, at most.
const OTHER_FILES: u64 = 256;

/// Flows and pings between hosts: everything is opened, then it is started, then it is measured
/// until the last mark or until somebody stops it.
#[derive(Debug)]
pub struct Traffic {
    shared: Arc<Shared>,
    recorder: Arc<Mutex<Recorder>>,
    flows: Vec<String>,
    /// What the threads take with them when they start.
    waiting: Option<(Vec<Datagrams>, Vec<EventSource>)>,
    /// What is to be proved before, in a live job.
    proof: Option<Proof>,
    nodes: Vec<String>,
    threads: Vec<JoinHandle<()>>,
    end: Time,
    real_time: bool,
}

impl Traffic {
    /// Opens everything. `enter` puts the calling thread into the network namespace of a number; it
    /// is called in a thread of its own for each host that has something to do.
    ///
    /// # Errors
    /// [`TrafficError`] says what the job has wrong, or what this machine lacks.
    pub fn new(
        job: &Job,
        enter: &(dyn Fn(usize) -> io::Result<()> + Sync),
    ) -> Result<Self, TrafficError> {
        Self::with_limits(job, enter, Limits::default())
    }

    /// As [`new`](Self::new); whatever the job says, no more is sent than the limits allow.
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
        let marks = Marks::new(&job.marks, &job.cuts).ok_or(TrafficError::Marks)?;
        let end = marks.end().ok_or(TrafficError::Marks)?;
        for ping in &job.pings {
            ping.check()?;
            open::same_family(open::host(job, &ping.from)?, open::node(job, &ping.to)?)?;
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
        let shared = Arc::new(share(job, &lines, &mut opened, limits)?);
        let senders = patterns
            .into_iter()
            .map(|(id, pattern)| Datagrams::new(id, shared.at(id).0, pattern))
            .collect();
        let sources = opened.into_iter().flat_map(|(node, opened)| sources(job, node, opened));
        let bearable = job.bearable.unwrap_or(Duration::MAX);
        let recorder = Recorder {
            reader: Reader::new(&shared, marks, bearable),
            collector: match job.live {
                None => Some(Collector::new(job)?),
                Some(_) => None,
            },
            queue: Vec::new(),
            recorded: Time::ZERO,
        };
        Ok(Self {
            waiting: Some((senders, sources.collect())),
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

    /// An instant of the monotonic clock (`CLOCK_MONOTONIC`) that is `nanos` ahead of now: one that
    /// several engines can agree to [start](Self::start) at.
    pub fn soon(nanos: u64) -> u64 {
        monotonic() + nanos
    }

    /// Proves the streams of a live job: each connection is opened, and of all streams whose data
    /// comes from here, the other end proves that it wants it. Both ends of a stream have to do so
    /// at the same time. Returns whether all are proved, which other jobs always are. If not, the
    /// monotonic clock shows `deadline` (nanoseconds); another call goes on.
    ///
    /// # Errors
    /// [`TrafficError::NoNonce`] if the system has no random numbers.
    pub fn prove(&mut self, deadline: u64) -> Result<bool, TrafficError> {
        let Some(proof) = &mut self.proof else { return Ok(true) };
        nonce().map_err(TrafficError::NoNonce)?;
        Ok(proof.run(deadline))
    }

    /// What is not proved yet, in words.
    pub fn unproved(&self) -> Vec<String> {
        self.proof.as_ref().map_or_else(Vec::new, Proof::unproved)
    }

    /// The handle by which the clock of another node is made known; `None` if no flow comes from
    /// there. Without it, nothing is known of that clock, and one-way delays are absent.
    pub fn clock_offset(&self, node: &str) -> Option<ClockOffset> {
        let number = self.nodes.iter().position(|name| name == node)?;
        let flows = self.shared.flows.iter().enumerate();
        let from_there = flows.filter(|(_, flow)| {
            flow.here == Ends { source: false, destination: true } && flow.from == number
        });
        let flows: Vec<_> = from_there.map(|(flow, _)| flow).collect();
        (!flows.is_empty()).then(|| ClockOffset::new(Arc::clone(&self.shared), flows))
    }

    /// What was read at marks since this was last called, of a live job.
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
        let Some((senders, mut sources)) = self.waiting.take() else { return Ok(()) };
        if let Some(proof) = self.proof.take() {
            sources.extend(proof.finish(&self.shared));
        }
        self.shared.clock.start(zero);
        let shared = Arc::clone(&self.shared);
        self.spawn("receive", move || receive(&shared, sources))?;
        if self.shared.udp.contains(&false) {
            let shared = Arc::clone(&self.shared);
            self.spawn("tcp", move || tcp::send(&shared))?;
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
                    shared.warn("the run was ended: it lasts longer than it may here".to_owned());
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
            shared.counters.real_time.fetch_and(be_prompt(real_time), Ordering::Relaxed);
            if let Err(error) = work() {
                shared.warn(format!("{named} ended: {error}"));
            }
        });
        self.threads.push(thread.map_err(TrafficError::Thread)?);
        Ok(())
    }

    /// The instant of the scenario that is now; its end once that was reached.
    pub fn now(&self) -> Time {
        match self.waiting {
            Some(_) => Time::ZERO,
            None => time(self.shared.clock.now()).min(self.end),
        }
    }

    /// Up to where the tables go.
    pub fn recorded(&self) -> Time {
        lock(&self.recorder).recorded
    }

    /// Whether everything is over and recorded.
    pub fn is_finished(&self) -> bool {
        self.waiting.is_none() && self.shared.clock.is_over()
    }

    /// What the flows are called, in the order in which the job has them.
    pub fn flows(&self) -> &[String] {
        &self.flows
    }

    /// Bytes that each flow has delivered so far.
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

    /// What went wrong on the way, such as a connection that was refused; the first twenty.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.shared.warnings))
    }

    /// The counters of the traffic, by name; see
    /// [`ProcessReading::by_name`](crate::ProcessReading::by_name).
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        reader::process(&self.shared, &lock(&self.recorder).reader.stalls).by_name()
    }

    /// The greatest window that each flow's receivers have offered, in bytes: what was got of what
    /// was asked for. Zero for a flow of datagrams.
    pub fn windows(&self) -> Vec<u32> {
        let recorder = lock(&self.recorder);
        recorder.collector.as_ref().map_or_else(Vec::new, Collector::windows)
    }

    /// Ends the run where it is, and records what was measured since the last mark.
    pub fn stop(&mut self) {
        if self.waiting.is_none() && !self.shared.clock.is_over() {
            lock(&self.recorder).stop(&self.shared);
        }
        self.join();
    }

    fn join(&mut self) {
        self.shared.clock.end();
        for thread in self.threads.drain(..) {
            // It has said what went wrong, or panicked on its own.
            let _ = thread.join();
        }
        if self.shared.proof.is_some() {
            // Nothing that waits in a live host's connections is sent after the end.
            let streams = self.shared.flows.iter().flat_map(|flow| &flow.streams);
            streams.filter_map(|stream| stream.sender.get()).for_each(Socket::abort);
        }
    }

    /// The tables, by name: `intervals`, `pings`, `codepoints`, `rtts`, `srtts`, `delays`,
    /// `displacements`.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        let recorder = lock(&self.recorder);
        recorder.collector.as_ref().map_or_else(Vec::new, Collector::tables)
    }
}

/// Reads at every mark, and keeps what was read.
#[derive(Debug)]
struct Recorder {
    reader: Reader,
    /// Joins what is read, unless somebody else does.
    collector: Option<Collector>,
    /// What nobody has taken yet.
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
