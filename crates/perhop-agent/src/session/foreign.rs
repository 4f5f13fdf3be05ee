//! Flows between this agent and servers of iperf3 that belong to others.
//!
//! Each server has a thread, which runs one test after another, because iperf3's own server runs
//! one at a time. The agent's end of a flow is a client of iperf3: its counters are read at the
//! marks of the job. What only the server knows arrives in its results, after the test.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use perhop_core::Time;
use perhop_socket::{Nanos, monotonic, reduce_wakeup_latency, sleep_until};
use perhop_traffic::{Allowance, End, Job, Readings, ServerReading};

use self::end::{EndReading, Reader};
use self::test::Test;
use super::Refusal;
use crate::frames::ErrorCode;
use crate::iperf3::{Client, ClientError, Room};

mod end;
mod test;

/// Time before the start of a flow at which its streams are opened, beside some round trips.
const LEAD: Nanos = 100_000_000;
/// Time for which a busy server is asked again: from the preparation, or from the start of a flow.
const PATIENCE: Nanos = 5_000_000_000;
/// Pause between two attempts.
const PAUSE: Nanos = 100_000_000;
/// Longest sleep before a look at whether the run has ended.
const NAP: Nanos = 20_000_000;
/// Lateness of a start that is worth a warning.
const LATE: Nanos = 50_000_000;
/// Longest wait for the readings of a thread.
const SETTLING: Nanos = 300_000_000;

/// Progress of a flow.
#[derive(Debug)]
struct Progress {
    /// Readings at marks, by number.
    readings: VecDeque<(u32, EndReading)>,
    /// The readings since the last mark, when the test is over.
    rest: Option<EndReading>,
    /// The counters at the last mark that was joined.
    last: EndReading,
    /// The number of the first mark that is read.
    first: u32,
    phase: Phase,
    results: Vec<ServerReading>,
    warnings: Vec<String>,
    error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Running,
    Over,
}

/// State that the threads share with the session.
#[derive(Debug)]
struct Shared {
    job: Job,
    allowance: Allowance,
    /// Start of the scenario by the monotonic clock; 0 until it is known.
    zero: AtomicU64,
    stop: AtomicBool,
    /// Progress of each flow, by its number.
    flows: BTreeMap<usize, Mutex<Progress>>,
    /// The number of servers whose first test is agreed on, or which are not needed at first.
    ready: AtomicU64,
}

impl Shared {
    fn flow(&self, number: usize) -> MutexGuard<'_, Progress> {
        self.flows[&number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> impl Iterator<Item = MutexGuard<'_, Progress>> {
        self.flows.keys().map(|number| self.flow(*number))
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sleeps until an instant of the monotonic clock. Returns false if the run has ended.
    fn sleep(&self, until: impl Fn(&Self) -> Option<Nanos>) -> bool {
        loop {
            let now = monotonic();
            match until(self) {
                _ if self.is_stopped() => return false,
                Some(until) if now >= until => return true,
                until => sleep_until(until.unwrap_or(Nanos::MAX).min(now + NAP)),
            }
        }
    }

    /// Returns the monotonic time of an instant of the scenario, if that has a start.
    fn at(&self, time: Time) -> Option<Nanos> {
        let zero = self.zero.load(Ordering::Relaxed);
        (zero > 0).then(|| zero.saturating_add(time.as_picos().div_ceil(1_000)))
    }
}

/// The flows of a session between its agent and servers of iperf3.
#[derive(Debug)]
pub struct Foreign {
    shared: Arc<Shared>,
    /// Tests of each server, in order, until their threads start.
    waiting: Vec<(SocketAddr, Vec<Test>)>,
    servers: u64,
}

impl Foreign {
    /// Collects the flows of a job between this node and servers of iperf3.
    ///
    /// # Errors
    /// [`Refusal`] names a flow that a server of iperf3 cannot have, or two that need one server at
    /// the same time.
    pub fn new(job: &Job, node: &str, allowance: Allowance) -> Result<Self, Refusal> {
        let wrong = |text| Refusal::new(ErrorCode::Job, text);
        let end = job.marks.last().copied().unwrap_or(Time::ZERO);
        // All tests of a server, also those of other agents: by their starts.
        let mut servers: BTreeMap<SocketAddr, Vec<Test>> = BTreeMap::new();
        for (number, flow) in job.flows.iter().enumerate() {
            if let Some(server) = job.server(number) {
                let test = Test::new(number, flow, server.end, end).map_err(wrong)?;
                servers.entry(server.address).or_default().push(test);
            }
        }
        let mut flows = BTreeMap::new();
        let mut waiting = Vec::new();
        for (address, mut tests) in servers {
            tests.sort_by_key(|test| test.start);
            for pair in 1..tests.len() {
                let (before, test) = (tests[pair - 1].clone(), &mut tests[pair]);
                if before.end > test.start {
                    return Err(wrong(format!(
                        "flows {} and {} need the iperf3 server {address} at the same time, and it \
                         runs one test at a time",
                        before.name, test.name
                    )));
                }
                test.after = Some(before.end);
            }
            tests.retain(|test| {
                let flow = &job.flows[test.flow];
                node == if test.sends { &flow.from } else { &flow.to }
            });
            for test in &tests {
                let none = Reader::none(test, test.flow as u32);
                flows.insert(
                    test.flow,
                    Mutex::new(Progress {
                        readings: VecDeque::new(),
                        rest: None,
                        last: none,
                        first: 0,
                        phase: Phase::Waiting,
                        results: Vec::new(),
                        warnings: Vec::new(),
                        error: None,
                    }),
                );
            }
            if !tests.is_empty() {
                waiting.push((address, tests));
            }
        }
        let (zero, ready) = (AtomicU64::new(0), AtomicU64::new(0));
        let stop = AtomicBool::new(false);
        let shared = Shared { job: job.clone(), allowance, zero, stop, flows, ready };
        Ok(Self { shared: Arc::new(shared), servers: waiting.len() as u64, waiting })
    }

    /// Agrees with servers on the first test of each. Returns whether all have agreed.
    ///
    /// # Errors
    /// [`Refusal`] names the flow and its server.
    pub fn prove(&mut self) -> Result<bool, Refusal> {
        for (address, tests) in std::mem::take(&mut self.waiting) {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name("perhop-iperf3".into());
            let started = thread.spawn(move || {
                reduce_wakeup_latency(false);
                run_tests(&shared, address, &tests);
            });
            started.map_err(|error| Refusal::new(ErrorCode::Failed, error.to_string()))?;
        }
        match self.error() {
            Some(error) => Err(Refusal::new(ErrorCode::Unproved, error)),
            None => Ok(self.shared.ready.load(Ordering::Relaxed) >= self.servers),
        }
    }

    /// Returns a message for each server that has not agreed on its first test.
    pub fn unproved(&self) -> Vec<String> {
        match self.shared.ready.load(Ordering::Relaxed) < self.servers {
            true => vec!["a server of iperf3 has not answered".to_owned()],
            false => Vec::new(),
        }
    }

    /// Starts the scenario at an instant of the monotonic clock.
    pub fn start(&self, zero: Nanos) {
        self.shared.zero.store(zero, Ordering::Relaxed);
    }

    /// Returns the error of the first flow that has failed.
    pub fn error(&self) -> Option<String> {
        self.shared.all().find_map(|flow| flow.error.clone())
    }

    /// Returns whether all tests are over.
    pub fn is_over(&self) -> bool {
        self.shared.all().all(|flow| flow.phase == Phase::Over)
    }

    /// Ends all tests now, and waits until their last readings are there.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let until = monotonic() + SETTLING;
        while self.shared.all().any(|flow| flow.phase == Phase::Running) && monotonic() < until {
            sleep_until(monotonic() + 1_000_000);
        }
    }

    /// Adds the readings of these flows at a mark to others of the same mark. Returns false if some
    /// are not there yet; with `now`, the last ones are added then.
    pub fn join(&self, readings: &mut Readings, now: bool) -> bool {
        let mark = readings.mark;
        let last = mark as usize + 1 >= self.shared.job.marks.len();
        let known = |flow: &Progress| match flow.phase {
            Phase::Waiting => !last,
            Phase::Running => {
                let read = flow.readings.back().is_some_and(|(at, _)| *at >= mark);
                !last && (read || mark < flow.first)
            }
            Phase::Over => true,
        };
        if !now && !self.shared.all().all(|flow| known(&flow)) {
            return false;
        }
        for mut flow in self.shared.all() {
            while flow.readings.front().is_some_and(|(at, _)| *at < mark) {
                flow.readings.pop_front();
            }
            let reading = match flow.readings.front() {
                Some((at, _)) if *at == mark => flow.readings.pop_front().map(|(_, read)| read),
                Some(_) => None,
                None => flow.rest.take(),
            };
            if let Some(reading) = &reading {
                flow.last = reading.emptied();
            }
            match reading.unwrap_or_else(|| flow.last.clone()) {
                EndReading::Source(source) => readings.sources.push(source),
                EndReading::Destination(destination) => readings.destinations.push(destination),
            }
            readings.results.append(&mut flow.results);
            readings.warnings.append(&mut flow.warnings);
        }
        true
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

/// Runs the tests of a server, one after another.
fn run_tests(shared: &Shared, address: SocketAddr, tests: &[Test]) {
    for (place, test) in tests.iter().enumerate() {
        let outcome = run_test(shared, address, test, place == 0);
        let mut flow = shared.flow(test.flow);
        flow.phase = Phase::Over;
        match outcome {
            Ok(()) => {}
            Err(ClientError::Ended) => return,
            Err(error) => {
                flow.error =
                    Some(format!("flow {}: the iperf3 server {address}: {error}", test.name));
                return;
            }
        }
    }
}

fn run_test(
    shared: &Shared,
    address: SocketAddr,
    test: &Test,
    first: bool,
) -> Result<(), ClientError> {
    let ended = |goes_on| if goes_on { Ok(()) } else { Err(ClientError::Ended) };
    let ready = || shared.ready.fetch_add(u64::from(first), Ordering::Relaxed);
    let until = match test.after {
        None => monotonic() + PATIENCE,
        Some(after) => {
            ready();
            // Another test has the server until then.
            ended(shared.sleep(|shared| shared.at(after)))?;
            shared.at(test.start).unwrap_or(0) + PATIENCE
        }
    };
    let mut client = loop {
        // It has not proved yet that it wants packets.
        while !shared.allowance.may_begin(monotonic()) {
            let again = monotonic() + PAUSE;
            ended(shared.sleep(|_| Some(again)))?;
        }
        match Client::connect(address, &test.parameters, &shared.stop) {
            Ok(client) => break client,
            // It may not have closed the test before, or not listen again yet.
            Err(error) if error.may_pass() && monotonic() < until => {
                let again = monotonic() + PAUSE;
                ended(shared.sleep(|_| Some(again)))?;
            }
            Err(error) => return Err(error),
        }
    };
    if test.after.is_none() {
        ready();
    }
    let early = LEAD + 4 * client.round_trip;
    ended(shared.sleep(|shared| shared.at(test.start).map(|start| start.saturating_sub(early))))?;
    let [zero, start, end] = [Time::ZERO, test.start, test.end].map(|time| shared.at(time));
    let (zero, start, end) = (zero.unwrap_or(0), start.unwrap_or(0), end.unwrap_or(0));
    // A server that sends begins half a round trip after the request for the last stream.
    let last = if test.sends { 0 } else { start.saturating_sub(client.round_trip / 2) };
    let mut streams = client.open(last)?;
    let begun = client.begin()?;
    if test.sends {
        client.sleep(start)?;
    }
    if let Some(volume) = test.volume {
        streams.iter_mut().for_each(|stream| stream.volume = volume);
    }
    let mut reader = Reader::new(shared, test, zero, &streams);
    if begun > start.saturating_add(LATE) {
        let late = (begun - start) as f64 / 1e9;
        let text = format!("flow {} started {late:.3} s late: its server was not ready", test.name);
        shared.flow(test.flow).warnings.push(text);
    }
    reader.begin();
    let mut room = Room::new(&shared.allowance);
    let begin = start.max(if test.sends { begun } else { 0 });
    let outcome =
        client.run(&mut streams, &mut room, (begin, end), &mut reader).and_then(|ended| {
            let results = client.finish(&mut streams, &mut room, (begin, ended))?;
            Ok((ended, results))
        });
    reader.close(&mut streams, begin, outcome.as_ref().ok());
    // Nothing that is buffered is sent after the end.
    if !client.plan.udp {
        streams.iter().for_each(|stream| stream.socket.abort());
    }
    outcome.map(|_| ())
}

/// Returns a description of the first flow or ping between this node and a server of iperf3 or a
/// STAMP reflector.
pub fn first_foreign(job: &Job, node: &str) -> Option<String> {
    let mut flows = job.flows.iter().enumerate().filter_map(|(number, flow)| {
        let server = job.server(number)?;
        let agent = if server.end == End::Source { &flow.to } else { &flow.from };
        (agent == node).then(|| format!("flow {}: the iperf3 server {}", flow.name, server.address))
    });
    let mut pings = job.pings.iter().enumerate().filter_map(|(number, ping)| {
        let address = job.reflector(number).filter(|_| ping.from == node)?;
        Some(format!("ping {}: the STAMP reflector {address}", ping.name))
    });
    flows.next().or_else(|| pings.next())
}
