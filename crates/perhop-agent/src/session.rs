//! An agent's side of a control connection: the states of a session.
//!
//! A connection has one session: a greeting, then one run. A request that does not fit the state
//! ends it. Its end closes the sockets of its run and stops all sending.

mod clocks;
mod foreign;
mod reflectors;

use std::collections::VecDeque;
use std::sync::Arc;

use perhop_core::Duration;
use perhop_socket::{Nanos, monotonic, realtime, sleep_until};
use perhop_traffic::{Job, Readings, Traffic};

use self::clocks::Clocks;
use self::foreign::{Foreign, first_foreign};
use self::reflectors::Reflectors;
use crate::frames::{ErrorCode, FrameError, Reply, Request, VERSION};
use crate::limits::Limits;
use crate::serve::{Agent, SessionSlot};

/// Longest time from the preparation of a run to its start.
const PREPARATION_TIMEOUT: Nanos = 300_000_000_000;
/// Longest time from a start request to the start.
const MAX_START_DELAY: Nanos = 60_000_000_000;
/// Least time of silence that ends the session of a controller that has prepared nothing.
const IDLE: Nanos = 30_000_000_000;
/// Longest attempt to prove; the control connection is read between attempts.
const SLICE: Nanos = 100_000_000;
/// Pause between two looks at the servers of a proof.
const SHORTLY: Nanos = 5_000_000;
/// Most texts of a list that a message repeats.
const MOST_TEXTS: usize = 5;
/// Time after its last mark at which an unfinished run is stopped.
const GRACE: Nanos = 2_000_000_000;

/// Reason for the early end of a session.
#[derive(Debug)]
pub struct Refusal {
    /// The kind of error.
    pub code: ErrorCode,
    /// The error, where it is and what was expected.
    pub message: String,
}

impl Refusal {
    fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<FrameError> for Refusal {
    fn from(error: FrameError) -> Self {
        Self::new(ErrorCode::Malformed, error.to_string())
    }
}

/// State of a session.
#[derive(Debug)]
enum State {
    Greeting,
    Idle,
    /// Its sockets are open.
    Prepared(Run),
    /// Destinations are proving that they want data.
    Proving(Run, Nanos),
    /// All destinations have proved that they want data.
    Proved(Run),
    Running(Run),
    /// The run is over.
    Over,
}

impl State {
    /// Returns its name for messages, which docs/agent.md uses too.
    fn name(&self) -> &'static str {
        match self {
            Self::Greeting => "greeting",
            Self::Idle => "idle",
            Self::Prepared(_) => "prepared",
            Self::Proving(..) => "proving",
            Self::Proved(_) => "proved",
            Self::Running(_) => "running",
            Self::Over => "over",
        }
    }
}

/// A job whose sockets are open.
#[derive(Debug)]
struct Run {
    traffic: Traffic,
    job: Box<Job>,
    clocks: Clocks,
    /// Flows between this host and servers of iperf3.
    foreign: Foreign,
    /// Pings from this host to STAMP reflectors.
    reflectors: Reflectors,
    /// Readings that wait for those of `foreign` and `reflectors`.
    held: VecDeque<Readings>,
    /// Deadline of the run, by the monotonic clock.
    until: Nanos,
    /// Duration of the scenario.
    length: Nanos,
    /// Its slot among the sessions of the agent.
    _slot: SessionSlot,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    agent: Arc<Agent>,
    state: State,
}

impl Session {
    /// Creates the session of a new connection.
    pub fn new(agent: Arc<Agent>) -> Self {
        Self { agent, state: State::Greeting }
    }

    /// Returns whether the controller has sent `hello`.
    pub fn has_greeted(&self) -> bool {
        !matches!(self.state, State::Greeting)
    }

    /// Returns the longest time without messages from the controller, in nanoseconds.
    pub fn silence(&self) -> Nanos {
        match self.state {
            // The controller waits for other agents, and no sockets are open.
            State::Idle => self.agent.limits.silence.max(IDLE),
            _ => self.agent.limits.silence,
        }
    }

    /// Returns when to call [`tick`](Self::tick) next, by the monotonic clock.
    pub fn due(&self) -> Nanos {
        let often = match self.state {
            State::Greeting | State::Idle | State::Over => 1_000_000_000,
            State::Prepared(_) | State::Proved(_) => 500_000_000,
            State::Proving(..) => 0,
            State::Running(_) => 100_000_000,
        };
        monotonic() + often.min(self.agent.limits.silence / 4)
    }

    /// Answers a request that was received at `received` of the monotonic clock.
    ///
    /// # Errors
    /// [`Refusal`], after which the session is over.
    pub fn answer(&mut self, request: Request, received: Nanos) -> Result<Vec<Reply>, Refusal> {
        let state = std::mem::replace(&mut self.state, State::Over);
        let (state, replies) = match (state, request) {
            (State::Greeting, Request::Hello { version, program }) => {
                if version != VERSION {
                    return Err(Refusal::new(
                        ErrorCode::Version,
                        format!(
                            "{program} speaks version {version} of the protocol, and this agent \
                             ({}) version {VERSION}; install the same perhop on both",
                            program_name()
                        ),
                    ));
                }
                (State::Idle, vec![self.hello()])
            }
            (State::Greeting, _) => {
                return Err(Refusal::new(ErrorCode::State, "expected hello before anything else"));
            }
            (state, Request::Time { sent }) => (state, vec![time(sent, received)]),
            (state, Request::Status {}) => (state, vec![Reply::Status(self.agent.status())]),
            (State::Idle, Request::Prepare { node, job }) => {
                let run = self.prepare(&node, job)?;
                let clock_port = run.clocks.port();
                (State::Prepared(run), vec![Reply::Prepared { clock_port }])
            }
            (State::Prepared(mut run), Request::Prove { within, clocks }) => {
                run.clocks.set_peers(&run.job, clocks);
                (State::Proving(run, monotonic().saturating_add(within)), Vec::new())
            }
            (State::Running(run), Request::Clocks { clocks }) => {
                clocks
                    .iter()
                    .for_each(|estimate| run.clocks.apply_estimate(&run.traffic, estimate));
                (State::Running(run), Vec::new())
            }
            (state, Request::Clocks { .. }) if !matches!(state, State::Greeting) => {
                (state, Vec::new())
            }
            (State::Proved(mut run), Request::Start { zero }) => {
                start(&mut run, zero)?;
                (State::Running(run), vec![Reply::Started {}])
            }
            (State::Running(run), Request::Stop {}) => (State::Over, end_run(run)),
            (
                State::Idle | State::Prepared(_) | State::Proving(..) | State::Proved(_),
                Request::Stop {},
            ) => (State::Over, vec![Reply::Done {}]),
            // The run may have ended before the request arrived.
            (State::Over, Request::Stop {}) => (State::Over, Vec::new()),
            (state, request) => {
                let message =
                    format!("{} does not fit a session that is {}", kind(&request), state.name());
                return Err(Refusal::new(ErrorCode::State, message));
            }
        };
        self.state = state;
        Ok(replies)
    }

    /// Does the periodic work of the state, and returns messages for the controller.
    ///
    /// # Errors
    /// [`Refusal`], after which the session is over.
    pub fn tick(&mut self) -> Result<Vec<Reply>, Refusal> {
        let now = monotonic();
        let state = std::mem::replace(&mut self.state, State::Over);
        let (state, replies) = match state {
            State::Prepared(run) | State::Proving(run, _) | State::Proved(run)
                if now > run.until =>
            {
                return Err(Refusal::new(
                    ErrorCode::Failed,
                    format!("not started within {} s", PREPARATION_TIMEOUT / 1_000_000_000),
                ));
            }
            State::Proving(mut run, until) => match prove(&mut run, now + SLICE)? {
                true => {
                    if !self.agent.limits.third_party {
                        check_pings(&run)?;
                    }
                    run.clocks.compare(&run.traffic);
                    (State::Proved(run), vec![Reply::Proved {}])
                }
                false if now <= until => (State::Proving(run, until), Vec::new()),
                false => {
                    let mut missing = run.traffic.unproved();
                    missing.extend(run.foreign.unproved());
                    return Err(Refusal::new(ErrorCode::Unproved, first_texts(&missing)));
                }
            },
            State::Running(run) if is_over(&run) || now > run.until => (State::Over, end_run(run)),
            State::Running(mut run) => {
                run.clocks.update();
                match run.foreign.error() {
                    Some(message) => {
                        let mut replies = last_readings(run);
                        replies.push(Reply::Error { code: ErrorCode::Failed, message });
                        (State::Over, replies)
                    }
                    None => {
                        let replies = readings(&mut run, false);
                        (State::Running(run), replies)
                    }
                }
            }
            state => (state, Vec::new()),
        };
        self.state = state;
        Ok(replies)
    }

    fn hello(&self) -> Reply {
        Reply::Hello {
            version: VERSION,
            limits: self.agent.limits.clone(),
            host: self.agent.host.clone(),
        }
    }

    fn prepare(&self, node: &str, mut job: Box<Job>) -> Result<Run, Refusal> {
        job.real_time &= self.agent.real_time;
        only_present(node, &job).map_err(|text| Refusal::new(ErrorCode::Job, text))?;
        if job.live.is_none() {
            return Err(Refusal::new(ErrorCode::Job, "expected a job with `live`"));
        }
        self.agent.limits.check(&job).map_err(|text| Refusal::new(ErrorCode::Limit, text))?;
        if !self.agent.limits.third_party
            && let Some(what) = first_foreign(&job, node)
        {
            let text = format!(
                "{what} belongs to somebody else; the agent's owner can allow it by --third-party"
            );
            return Err(Refusal::new(ErrorCode::Limit, text));
        }
        let slot = self.agent.session_slot().ok_or_else(|| {
            let most = self.agent.limits.sessions;
            let text = format!("the agent has {most} sessions already (--max-sessions)");
            Refusal::new(ErrorCode::Busy, text)
        })?;
        let Limits { duration, volume, .. } = self.agent.limits;
        if let (Some(volume), true) = (volume, self.agent.allowance.is_spent(monotonic())) {
            let text = format!("the agent has sent {volume} B within 24 h (--max-volume)");
            return Err(Refusal::new(ErrorCode::Limit, text));
        }
        let limits = perhop_traffic::Limits {
            duration: duration.map(|nanos| Duration::from_picos(nanos.saturating_mul(1_000))),
            allowance: self.agent.allowance.clone(),
        };
        let traffic = Traffic::with_limits(&job, &|_| Ok(()), limits)
            .map_err(|error| Refusal::new(ErrorCode::Job, error.to_string()))?;
        let length = job.marks.last().map_or(0, |end| end.as_picos().div_ceil(1_000));
        let until = monotonic() + PREPARATION_TIMEOUT;
        let clocks = Clocks::new(&job, node);
        let foreign = Foreign::new(&job, node, self.agent.allowance.clone())?;
        let reflectors = Reflectors::new(&job, node, &self.agent.allowance)?;
        let held = VecDeque::new();
        Ok(Run { traffic, job, clocks, foreign, reflectors, held, until, length, _slot: slot })
    }
}

/// Checks that only this node is present, and that the job changes no settings of its host.
fn only_present(node: &str, job: &Job) -> Result<(), String> {
    for one in &job.nodes {
        if one.namespace.is_some() != (one.name == node) {
            return Err(format!("node {}: expected a namespace of {node} and no other", one.name));
        }
        if one.namespace.is_some() && !one.settings.is_empty() {
            return Err(format!("node {node}: an agent changes no settings of its host"));
        }
    }
    match job.nodes.iter().filter(|one| one.name == node).count() {
        1 => Ok(()),
        count => Err(format!("the job has {count} nodes named {node}; expected 1")),
    }
}

fn start(run: &mut Run, zero: Nanos) -> Result<(), Refusal> {
    let now = monotonic();
    if zero < now {
        let late = (now - zero) as f64 / 1e6;
        return Err(Refusal::new(ErrorCode::Late, format!("the start was {late:.3} ms ago")));
    }
    if zero - now > MAX_START_DELAY {
        let text = format!("the start is more than {} s ahead", MAX_START_DELAY / 1_000_000_000);
        return Err(Refusal::new(ErrorCode::Limit, text));
    }
    run.clocks.update();
    run.until = zero.saturating_add(run.length).saturating_add(GRACE);
    run.foreign.start(zero);
    run.reflectors.start(zero)?;
    run.traffic.start(zero).map_err(|error| Refusal::new(ErrorCode::Failed, error.to_string()))
}

/// Proves that hosts want data. Returns whether all have.
fn prove(run: &mut Run, deadline: Nanos) -> Result<bool, Refusal> {
    let unproved = |error: String| Refusal::new(ErrorCode::Unproved, error);
    let servers = run.foreign.prove()?;
    let all = run.traffic.prove(deadline).map_err(|error| unproved(error.to_string()))?;
    if all && !servers {
        // The threads of the servers are still connecting.
        sleep_until(monotonic() + SHORTLY);
    }
    Ok(all && servers)
}

/// Checks that all pings from here go to hosts that have proved that they want packets of this run.
fn check_pings(run: &Run) -> Result<(), Refusal> {
    match run.traffic.unproved_pings().first() {
        None => Ok(()),
        Some((number, to)) => {
            let text = format!(
                "ping {}: {to} has not proved that it wants packets, as the other end of a flow \
                 does; the agent's owner can allow pings to others by --third-party",
                run.job.pings[*number].name
            );
            Err(Refusal::new(ErrorCode::Limit, text))
        }
    }
}

/// Returns whether the run has ended, and all results are there.
fn is_over(run: &Run) -> bool {
    run.traffic.is_finished() && run.foreign.is_over()
}

/// Takes the readings since the last call, one mark in each frame. With `now`, those that are not
/// complete are taken, too.
fn readings(run: &mut Run, now: bool) -> Vec<Reply> {
    run.held.extend(run.traffic.take_readings());
    let mut replies = Vec::new();
    while let Some(mut readings) = run.held.pop_front() {
        let waits = run.reflectors.is_last(&readings) && !now;
        if waits || !run.foreign.join(&mut readings, now) {
            run.held.push_front(readings);
            break;
        }
        run.reflectors.add_to(&mut readings);
        replies.push(Reply::Readings(Box::new(readings)));
    }
    replies
}

/// Ends a run, and returns its last readings. The sockets are then closed and the session's slot
/// is free.
fn last_readings(mut run: Run) -> Vec<Reply> {
    run.reflectors.stop();
    run.foreign.stop();
    run.traffic.stop();
    readings(&mut run, true)
}

/// Ends a run, and returns its last messages.
fn end_run(run: Run) -> Vec<Reply> {
    let mut replies = last_readings(run);
    replies.push(Reply::Done {});
    replies
}

/// Returns the first texts of a list, and the number of the others.
fn first_texts(texts: &[String]) -> String {
    let some = texts.iter().take(MOST_TEXTS).cloned().collect::<Vec<_>>().join("; ");
    match texts.len().saturating_sub(MOST_TEXTS) {
        0 => some,
        more => format!("{some}; and {more} more"),
    }
}

fn time(sent: u64, received: Nanos) -> Reply {
    // Both clocks, read as nearly at once as possible.
    let (before, real, answered) = (monotonic(), realtime(), monotonic());
    let middle = before + (answered - before) / 2;
    let realtime_ahead = real.wrapping_sub(middle) as i64;
    Reply::Time { sent, received, answered, realtime_ahead }
}

/// Returns the program's name and version.
pub fn program_name() -> String {
    format!("perhop-agent {}", env!("CARGO_PKG_VERSION"))
}

/// Returns the name of a request for messages.
fn kind(request: &Request) -> &'static str {
    match request {
        Request::Hello { .. } => "hello",
        Request::Time { .. } => "time",
        Request::Status {} => "status",
        Request::Prepare { .. } => "prepare",
        Request::Prove { .. } => "prove",
        Request::Clocks { .. } => "clocks",
        Request::Start { .. } => "start",
        Request::Stop {} => "stop",
    }
}
