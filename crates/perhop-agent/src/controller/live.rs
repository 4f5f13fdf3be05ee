//! A run between agents.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use perhop_core::Time;
use perhop_measure::Table;
use perhop_socket::{Nanos, monotonic};
use perhop_traffic::{Collector, Job};

use super::agents::{self, AgentNode};
use super::compare::compare_clocks;
use super::error::LiveError;
use super::gather::{Heartbeats, gather};
use super::peer::Peer;
use crate::channel::wait;
use crate::frames::{ClockPeer, Reply, Request};
use crate::key::Identity;

/// Time within which agents must open the sockets of a run.
const PREPARATION: Duration = Duration::from_secs(30);
/// Time within which destinations must prove that they want data.
const PROOF: Duration = Duration::from_secs(10);
/// Least time until the start, besides the delay of messages.
const LEAD: Nanos = 300_000_000;
/// Time within which agents must send their last readings.
const LAST_READINGS: Nanos = 2_000_000_000;
/// Time after the end of the scenario within which agents must have sent all their readings and
/// ended their part. An agent stops an unfinished run 2 s after the end; its readings may wait
/// behind others.
const ENDING: Duration = Duration::from_secs(30);
/// Most messages of an agent that are handled before those of others, and the limits of time.
const MOST_MESSAGES: usize = 64;
/// Period at which the user's request to stop is checked.
const CHECK_INTERVAL: Nanos = 50_000_000;
/// Most warnings that are kept until they are taken.
const MOST_WARNINGS: usize = 100;

/// Results of the messages of all agents so far.
#[derive(Debug)]
struct Progress {
    collector: Collector,
    warnings: Vec<String>,
    failure: Option<String>,
    finished: bool,
}

/// Facts about an agent for the manifest of a run.
#[derive(Clone, Debug)]
pub struct AgentFacts {
    /// Its node.
    pub node: String,
    /// Facts by name.
    pub facts: Vec<(&'static str, String)>,
    /// Largest distance of its start from the common start, in nanoseconds.
    pub start_bound: Nanos,
}

/// A run of flows and pings between agents.
#[derive(Debug)]
pub struct Live {
    progress: Arc<Mutex<Progress>>,
    /// The agents until the run starts.
    peers: Vec<Peer>,
    agents: Vec<AgentFacts>,
    flows: Vec<String>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    zero: Option<Nanos>,
    end: Time,
    /// Time after `end` within which agents must have ended.
    ending: Duration,
}

fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    /// Connects to every agent, opens the sockets of its part of the job, and waits until the
    /// destinations have proved that they want data. `agents` has the agents of the nodes, as JSON.
    ///
    /// # Errors
    /// [`LiveError`] names the first agent that cannot, and says what to do. All sockets of the
    /// agents are then closed.
    pub fn new(job: &Job, agents: &str, identity: &Identity) -> Result<Self, LiveError> {
        let agents = agents::read(agents)?;
        let collector = Collector::new(job)?;
        let mut peers = connect(&agents, identity)?;
        if let Err(error) = prepare(&mut peers, job).and_then(|()| prove(&mut peers, job)) {
            // A next attempt finds all sockets closed.
            peers.into_iter().for_each(Peer::close);
            return Err(error);
        }
        Ok(Self {
            progress: Arc::new(Mutex::new(Progress {
                collector,
                warnings: Vec::new(),
                failure: None,
                finished: false,
            })),
            agents: peers.iter().map(Peer::facts).collect(),
            peers,
            flows: job.flows.iter().map(|flow| flow.name.clone()).collect(),
            stop: Arc::default(),
            thread: None,
            zero: None,
            end: job.marks.last().copied().unwrap_or(Time::ZERO),
            ending: ENDING,
        })
    }

    /// Starts the run on all agents at one instant; a second call has no effect.
    ///
    /// # Errors
    /// [`LiveError`] if an agent is lost, or cannot start.
    pub fn start(&mut self) -> Result<(), LiveError> {
        if self.zero.is_some() {
            return Ok(());
        }
        let mut peers = std::mem::take(&mut self.peers);
        compare_clocks(&mut peers)?;
        let bound = peers.iter().map(|peer| peer.offset().1).max().unwrap_or(0);
        let zero = monotonic() + LEAD + 8 * bound;
        for peer in &mut peers {
            let (ahead, _) = peer.offset();
            peer.send(&Request::Start { zero: zero.saturating_add_signed(ahead) });
        }
        gather(&mut peers, PREPARATION, "started", |peer, reply| match reply {
            Reply::Started {} => Ok(()),
            other => Err(peer.unexpected(&other)),
        })?;
        self.agents = peers.iter().map(Peer::facts).collect();
        self.zero = Some(zero);
        let length = self.end.as_picos().div_ceil(1_000);
        let run = RunThread {
            complete: vec![false; peers.len()],
            peers: peers.into_iter().map(Some).collect(),
            end: self.end,
            ending: self.ending,
            limit: zero.saturating_add(length).saturating_add(self.ending.as_nanos() as Nanos),
            progress: Arc::clone(&self.progress),
            stop: Arc::clone(&self.stop),
        };
        let thread = thread::Builder::new().name("perhop-live".into());
        self.thread = Some(thread.spawn(move || run.run()).map_err(LiveError::Thread)?);
        Ok(())
    }

    /// Ends the run on all agents, and records what was measured so far.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.peers.clear();
        if let Some(thread) = self.thread.take() {
            // The thread has recorded its error, or panicked.
            let _ = thread.join();
        }
        lock(&self.progress).finished = true;
    }

    /// Returns the current time of the scenario; its end after that.
    pub fn now(&self) -> Time {
        let since = self.zero.map_or(0, |zero| monotonic().saturating_sub(zero));
        Time::from_picos(since.saturating_mul(1_000)).min(self.end)
    }

    /// Returns the end of the tables.
    pub fn recorded(&self) -> Time {
        lock(&self.progress).collector.recorded()
    }

    /// Returns whether the run is over and recorded.
    pub fn is_finished(&self) -> bool {
        lock(&self.progress).finished
    }

    /// Returns the reason for the early end of the run, if there was one.
    pub fn failure(&self) -> Option<String> {
        lock(&self.progress).failure.clone()
    }

    /// Returns the names of the flows, in the order of the job.
    pub fn flows(&self) -> &[String] {
        &self.flows
    }

    /// Returns the bytes that each flow has delivered so far.
    pub fn delivered(&self) -> Vec<u64> {
        lock(&self.progress).collector.delivered()
    }

    /// Returns the largest window that each flow's destination has offered, in bytes.
    pub fn windows(&self) -> Vec<u32> {
        lock(&self.progress).collector.windows()
    }

    /// Returns the counters of the agents' traffic, with the largest difference between the starts
    /// of two agents in microseconds (`start_bound_us`).
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = lock(&self.progress).collector.counters();
        let bound = self.agents.iter().map(|agent| agent.start_bound).max().unwrap_or(0);
        counters.push(("start_bound_us", bound.div_ceil(1_000)));
        counters
    }

    /// Returns the total duration of the stalls of each agent, in microseconds.
    pub fn stalled_us(&self) -> Vec<(String, u64)> {
        let progress = lock(&self.progress);
        let stalled = progress.collector.stalled_us();
        stalled.into_iter().map(|(node, stalled)| (node.to_owned(), stalled)).collect()
    }

    /// Returns the warnings since the last call.
    pub fn take_warnings(&self) -> Vec<String> {
        let mut progress = lock(&self.progress);
        let mut warnings = std::mem::take(&mut progress.warnings);
        warnings.extend(progress.collector.take_warnings());
        warnings
    }

    /// Returns what could not be measured, and the rights that it needs.
    pub fn missing(&self) -> Vec<String> {
        lock(&self.progress).collector.missing().to_vec()
    }

    /// Returns the largest error bound of the clock offsets that corrected each flow's one-way
    /// delays, in nanoseconds.
    pub fn offset_bounds(&self) -> Vec<Option<Nanos>> {
        lock(&self.progress).collector.offset_bounds()
    }

    /// Returns facts about each agent.
    pub fn agents(&self) -> &[AgentFacts] {
        &self.agents
    }

    /// Returns the tables by name, as all engines have them.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        lock(&self.progress).collector.tables()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Connects to all agents at once.
fn connect(agents: &[AgentNode], identity: &Identity) -> Result<Vec<Peer>, LiveError> {
    thread::scope(|scope| {
        let connect = |AgentNode { node, address, key }: &AgentNode| {
            let (node, address, key) = (node.clone(), *address, *key);
            thread::Builder::new()
                .spawn_scoped(scope, move || Peer::connect(&node, address, key, identity))
                .map_err(LiveError::Thread)
        };
        let threads: Vec<_> = agents.iter().map(connect).collect::<Result<_, _>>()?;
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// Opens the sockets of every agent's part.
fn prepare(peers: &mut [Peer], job: &Job) -> Result<(), LiveError> {
    for peer in &mut *peers {
        let mut job = Box::new(job.clone());
        for node in &mut job.nodes {
            node.namespace = (node.name == peer.node).then_some(0);
        }
        peer.send(&Request::Prepare { node: peer.node.clone(), job });
    }
    gather(peers, PREPARATION, "opened its sockets", |peer, reply| match reply {
        Reply::Prepared { clock_port } => {
            peer.clock_port = clock_port;
            Ok(())
        }
        other => Err(peer.unexpected(&other)),
    })
}

/// Waits until destinations have proved that they want data, and starts the exchanges of time
/// between agents.
fn prove(peers: &mut [Peer], job: &Job) -> Result<(), LiveError> {
    let ports: Vec<_> = peers.iter().map(|peer| (peer.node.clone(), peer.clock_port)).collect();
    for peer in &mut *peers {
        peer.senders = senders(job, &peer.node);
        let clock = |node: &String| {
            let (_, port) = ports.iter().find(|(name, _)| name == node)?;
            Some(ClockPeer { node: node.clone(), port: (*port)? })
        };
        let clocks = peer.senders.iter().filter_map(clock).collect();
        peer.send(&Request::Prove { within: PROOF.as_nanos() as u64, clocks });
    }
    gather(peers, PROOF + Duration::from_secs(2), "proved its receivers", |peer, reply| match reply
    {
        Reply::Proved {} => Ok(()),
        other => Err(peer.unexpected(&other)),
    })
}

/// Returns the nodes whose flows come to this one.
fn senders(job: &Job, node: &str) -> Vec<String> {
    let mut senders: Vec<String> = Vec::new();
    for flow in job.flows.iter().filter(|flow| flow.to == node) {
        if !senders.contains(&flow.from) {
            senders.push(flow.from.clone());
        }
    }
    senders
}

/// Thread that serves the agents of a run that has started.
struct RunThread {
    /// The agents whose last message has not arrived.
    peers: Vec<Option<Peer>>,
    /// Whether the readings of the last mark have arrived from each.
    complete: Vec<bool>,
    /// End of the scenario.
    end: Time,
    /// Time after `end` within which agents must have ended, and its end by the monotonic clock.
    ending: Duration,
    limit: Nanos,
    progress: Arc<Mutex<Progress>>,
    stop: Arc<AtomicBool>,
}

impl RunThread {
    fn run(mut self) {
        let mut heartbeats = Heartbeats::new();
        let mut until = None;
        let mut ready = vec![true; self.peers.len()];
        loop {
            let mut more = false;
            for (number, _) in ready.iter().enumerate().filter(|(_, ready)| **ready) {
                more |= self.listen(number);
            }
            if self.peers.iter().all(Option::is_none) {
                break;
            }
            let stop = self.is_stopping() || monotonic() > self.limit;
            if stop && until.is_none() {
                until = Some(monotonic() + LAST_READINGS);
                self.peers.iter_mut().flatten().for_each(|peer| peer.send(&Request::Stop {}));
            }
            if until.is_some_and(|until| monotonic() > until) {
                self.give_up();
                break;
            }
            if heartbeats.send_if_due(self.peers.iter_mut().flatten()) {
                self.send_clock_offsets();
            }
            for number in 0..self.peers.len() {
                let Some(peer) = &mut self.peers[number] else { continue };
                if let Err(error) = peer.flush().and_then(|()| peer.check_silence()) {
                    self.lose(number, &error);
                }
            }
            ready = if more {
                vec![true; self.peers.len()]
            } else {
                self.wait(heartbeats.next().min(monotonic() + CHECK_INTERVAL))
            };
        }
        for peer in self.peers.into_iter().flatten() {
            peer.close();
        }
        lock(&self.progress).finished = true;
    }

    /// Returns whether the run ends early: the user asked for it, or an agent was lost.
    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || lock(&self.progress).failure.is_some()
    }

    /// Waits for messages, and returns which agents have some.
    fn wait(&self, until: Nanos) -> Vec<bool> {
        let there: Vec<_> = self.peers.iter().flatten().map(Peer::channel).collect();
        let mut found = wait(&there, until).into_iter();
        self.peers.iter().map(|peer| peer.is_some() && found.next() == Some(true)).collect()
    }

    /// Handles messages of an agent, and returns whether there may be more.
    fn listen(&mut self, number: usize) -> bool {
        for _ in 0..MOST_MESSAGES {
            let may_end = self.complete[number] || self.is_stopping();
            let Some(peer) = &mut self.peers[number] else { return false };
            match peer.poll() {
                Ok(None) => return false,
                Ok(Some(Reply::Readings(readings))) => {
                    let last = readings.at >= self.end;
                    let added = lock(&self.progress).collector.add(&peer.node, *readings);
                    if let Err(error) = added {
                        let error = peer.unusable(&error.to_string());
                        self.lose(number, &error);
                    } else {
                        self.complete[number] |= last;
                    }
                }
                Ok(Some(Reply::Done {})) if may_end => {
                    if let Some(peer) = self.peers[number].take() {
                        peer.leave();
                    }
                }
                Ok(Some(Reply::Done {})) => {
                    let error = peer.unusable("the run is over before its end");
                    self.lose(number, &error);
                }
                Ok(Some(other)) => {
                    let error = peer.unexpected(&other);
                    self.lose(number, &error);
                }
                Err(error) => self.lose(number, &error),
            }
        }
        true
    }

    /// Ends the run on all other agents after an agent was lost.
    fn lose(&mut self, number: usize, error: &LiveError) {
        self.peers[number] = None;
        let mut progress = lock(&self.progress);
        match progress.failure {
            None => progress.failure = Some(error.to_string()),
            Some(_) if progress.warnings.len() < MOST_WARNINGS => {
                progress.warnings.push(error.to_string());
            }
            Some(_) => {}
        }
    }

    /// Ends the run after agents have not sent their last readings in time.
    fn give_up(&mut self) {
        if !self.is_stopping() {
            for number in 0..self.peers.len() {
                if let Some(peer) = &self.peers[number]
                    && !self.complete[number]
                {
                    let error = peer.late("sent its last readings", self.ending);
                    self.lose(number, &error);
                }
            }
        }
        let late: Vec<_> = self.peers.iter().flatten().map(|peer| &peer.node[..]).collect();
        if !late.is_empty() {
            let text = format!("{} did not end the run in time", late.join(", "));
            lock(&self.progress).warnings.push(text);
        }
    }

    /// Sends each agent the offsets of its clock from those of hosts that send to it.
    fn send_clock_offsets(&mut self) {
        let now = monotonic();
        for number in 0..self.peers.len() {
            let Some(peer) = &self.peers[number] else { continue };
            let others = self.peers.iter().flatten();
            let senders = others.filter(|other| peer.senders.contains(&other.node));
            let clocks: Vec<_> = senders
                .filter_map(|other| peer.clock.offset(&other.node, &other.clock, now))
                .collect();
            if let Some(peer) = &mut self.peers[number]
                && !clocks.is_empty()
            {
                peer.send(&Request::Clocks { clocks });
            }
        }
    }
}

#[cfg(test)]
mod tests;
