//! Pings from this agent to STAMP or TWAMP Light reflectors that belong to others.
//!
//! Each ping is a session of its own, whose thread sends requests when they are due and receives
//! the replies. A reply echoes its request, so that it comes from a host on the path to the
//! reflector, but nobody has agreed to the requests: all of them count as probes to an address that
//! has proved nothing, and a reflector that does not answer soon gets no more of them.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration as StdDuration;

use perhop_core::{Duration, NodeId, Time};
use perhop_measure::{Answer as PingAnswer, Pinger};
use perhop_socket::{Nanos, monotonic, reduce_wakeup_latency, sleep_until};
use perhop_traffic::{Allowance, Job, PingProgress, Readings, train_cost};
use perhop_workload::PingPlan;

use super::Refusal;
use crate::frames::ErrorCode;
use crate::stamp::{Answer, Sender, SenderSettings};

/// Number of requests in a row without a reply after which no more are sent, in whole trains.
const MOST_UNANSWERED: usize = 30;
/// Time limit of replies, in nanoseconds.
const TIMEOUT: Nanos = 2_000_000_000;
/// Longest wait before a look at whether the run has ended, in nanoseconds.
const NAP: Nanos = 20_000_000;
/// Shortest payload of a request in bytes: a packet with the TLVs Class of Service and Extra
/// Padding (RFC 8972).
const SHORTEST: u16 = 56;
/// TTL of requests (RFC 5357, section 4.1.2).
const TTL: u8 = 255;
/// TTL of a ping that asks for none.
const USUAL_TTL: u8 = 64;

/// The pings of a session to reflectors.
#[derive(Debug)]
pub struct Reflectors {
    pings: Vec<Ping>,
    /// The number of the last mark.
    last: u32,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// A ping.
#[derive(Debug)]
struct Ping {
    /// Its number in the job.
    number: u32,
    progress: Arc<Mutex<Progress>>,
    /// What the thread takes when it starts.
    session: Option<Session>,
}

/// What a thread shares with the session.
#[derive(Debug)]
struct Progress {
    pinger: Pinger,
    reported: PingProgress,
    warnings: Vec<String>,
    missing: Vec<String>,
}

impl Progress {
    /// Adds a text to a list, once.
    fn note(list: &mut Vec<String>, text: String) {
        if !list.contains(&text) {
            list.push(text);
        }
    }
}

fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reflectors {
    /// Opens a session with the reflector of each ping from this node to one.
    ///
    /// # Errors
    /// [`Refusal`] names a ping that STAMP cannot measure, or that cannot be sent.
    pub fn new(job: &Job, node: &str, allowance: &Allowance) -> Result<Self, Refusal> {
        let mut pings = Vec::new();
        for (number, plan) in job.pings.iter().enumerate() {
            let Some(address) = job.reflector(number).filter(|_| plan.from == node) else {
                continue;
            };
            let wrong =
                |text: String| Refusal::new(ErrorCode::Job, format!("ping {}: {text}", plan.name));
            check(plan, address).map_err(wrong)?;
            let settings = SenderSettings {
                class: plan.traffic_class(),
                reply_dscp: plan.dscp,
                class_of_service: true,
                size: plan.size.into(),
                timeout: StdDuration::from_nanos(TIMEOUT),
                ..SenderSettings::default()
            };
            let sender = Sender::new(address, settings)
                .map_err(|error| wrong(format!("the STAMP reflector {address}: {error}")))?;
            let destination = job.nodes.iter().position(|one| one.name == plan.to);
            let span = (plan.start, plan.stop);
            let progress = Arc::new(Mutex::new(Progress {
                pinger: Pinger::new(span, plan.every, TTL..=TTL, plan.train),
                reported: PingProgress::default(),
                warnings: Vec::new(),
                missing: Vec::new(),
            }));
            let session = Session {
                name: plan.name.clone(),
                address,
                node: NodeId(destination.unwrap_or(0) as u16),
                size: plan.size.into(),
                most_unanswered: MOST_UNANSWERED - MOST_UNANSWERED % usize::from(plan.train),
                sender,
                allowance: allowance.clone(),
                zero: 0,
                latest_answered: None,
            };
            pings.push(Ping { number: number as u32, progress, session: Some(session) });
        }
        let last = (job.marks.len() as u32).saturating_sub(1);
        Ok(Self { pings, last, stop: Arc::default(), threads: Vec::new() })
    }

    /// Starts the scenario at an instant of the monotonic clock.
    ///
    /// # Errors
    /// [`Refusal`] if a thread cannot be started.
    pub fn start(&mut self, zero: Nanos) -> Result<(), Refusal> {
        for ping in &mut self.pings {
            let Some(mut session) = ping.session.take() else { continue };
            session.zero = zero;
            let (progress, stop) = (Arc::clone(&ping.progress), Arc::clone(&self.stop));
            let thread = thread::Builder::new().name("perhop-stamp".into()).spawn(move || {
                reduce_wakeup_latency(false);
                session.run(&progress, &stop);
            });
            let failed = |error: std::io::Error| Refusal::new(ErrorCode::Failed, error.to_string());
            self.threads.push(thread.map_err(failed)?);
        }
        Ok(())
    }

    /// Ends all pings now.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that has panicked has reported it.
            let _ = thread.join();
        }
    }

    /// Returns whether readings of a mark are the last ones, which wait for the end of the pings.
    pub fn is_last(&self, readings: &Readings) -> bool {
        !self.pings.is_empty() && readings.mark >= self.last
    }

    /// Adds the readings of these pings since the last call to those of a mark.
    pub fn add_to(&self, readings: &mut Readings) {
        for ping in &self.pings {
            let mut progress = lock(&ping.progress);
            let Progress { pinger, reported, warnings, missing } = &mut *progress;
            readings.pings.extend(reported.read(ping.number, pinger));
            readings.warnings.append(warnings);
            readings.missing.extend(missing.iter().cloned());
        }
    }
}

impl Drop for Reflectors {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Checks a ping to a reflector.
fn check(plan: &PingPlan, address: SocketAddr) -> Result<(), String> {
    let one_host = match address.ip() {
        IpAddr::V4(ip) => !ip.is_multicast() && !ip.is_broadcast() && !ip.is_unspecified(),
        IpAddr::V6(ip) => !ip.is_multicast() && !ip.is_unspecified(),
    };
    if !one_host {
        return Err(format!("{address} is not a host; expected the address of a STAMP reflector"));
    }
    if plan.ttl != [USUAL_TTL; 2] || plan.udp_port.is_some() {
        return Err(format!("requests to a STAMP reflector have TTL {TTL} and its port"));
    }
    if plan.size < SHORTEST {
        return Err(format!("a payload of {} B; expected {SHORTEST} B at least", plan.size));
    }
    let train = usize::from(plan.train);
    if !(1..=MOST_UNANSWERED).contains(&train) {
        return Err(format!("trains of {train}; expected 1 to {MOST_UNANSWERED} requests"));
    }
    Ok(())
}

/// A session with a reflector.
struct Session {
    /// The ping's name.
    name: String,
    address: SocketAddr,
    /// The number of the reflector's node.
    node: NodeId,
    /// Payload of requests in bytes.
    size: usize,
    /// Number of requests in a row without a reply after which no more are sent.
    most_unanswered: usize,
    sender: Sender,
    allowance: Allowance,
    /// Start of the scenario by the monotonic clock.
    zero: Nanos,
    /// The highest number of a request with a reply.
    latest_answered: Option<u32>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Session {
    /// Sends requests and receives replies until the run ends.
    fn run(&mut self, progress: &Mutex<Progress>, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let now = monotonic();
            if self.has_given_up(&lock(progress).pinger, now) {
                let text = format!(
                    "ping {}: the STAMP reflector {} has not answered {} requests in a row; no \
                     more are sent",
                    self.name, self.address, self.most_unanswered
                );
                lock(progress).warnings.push(text);
                return;
            }
            let due = self.due(&lock(progress).pinger);
            if now >= due {
                self.send(&mut lock(progress), now);
                continue;
            }
            let until = due.min(now + NAP);
            if self.receive(progress, until).is_err() {
                return;
            }
            // Returns early without outstanding requests.
            sleep_until(until);
        }
    }

    /// Returns when the next train is due by the monotonic clock.
    fn due(&self, pinger: &Pinger) -> Nanos {
        match pinger.deadline() {
            Time::MAX => Nanos::MAX,
            due => self.zero.saturating_add(due.as_picos().div_ceil(1_000)),
        }
    }

    /// Returns whether too many requests in a row have no reply, and none can arrive.
    fn has_given_up(&self, pinger: &Pinger, now: Nanos) -> bool {
        let first = self.latest_answered.map_or(0, |sequence| sequence as usize + 1);
        let Some(last) = pinger.records.get(first + self.most_unanswered - 1) else { return false };
        let sent = self.zero.saturating_add(last.sent.as_picos() / 1_000);
        now > sent.saturating_add(TIMEOUT)
    }

    /// Sends the train that is due, if it may be sent.
    fn send(&mut self, progress: &mut Progress, now: Nanos) {
        let Progress { pinger, warnings, .. } = progress;
        let Some((ttl, train)) = pinger.next_train() else { return };
        // Until the first reply arrives, nobody has shown to be a reflector.
        let silent = self.latest_answered.is_none()
            && pinger.records.len() + usize::from(train) > self.most_unanswered;
        let (packets, bytes) = train_cost(self.address.ip(), self.size, train);
        let may = !silent
            && (self.latest_answered.is_some()
                || (0..train).all(|_| self.allowance.may_begin(now)))
            && self.allowance.may_probe(now, packets, bytes);
        if !may {
            if !silent {
                let text = format!("pings to {} are limited; some are not sent", self.address);
                Progress::note(warnings, text);
            }
            return;
        }
        for _ in 0..train {
            let sent = monotonic().saturating_sub(self.zero);
            pinger.record(Time::from_picos(sent.saturating_mul(1_000)), ttl);
            // A request that cannot be sent counts as unanswered.
            let _ = self.sender.send();
        }
    }

    /// Receives replies until an instant, or until no requests are outstanding.
    fn receive(&mut self, progress: &Mutex<Progress>, until: Nanos) -> std::io::Result<()> {
        let Self { sender, latest_answered, node, name, .. } = self;
        sender.receive(until, |answer| {
            *latest_answered = (*latest_answered).max(Some(answer.sequence));
            add(&mut lock(progress), name, *node, &answer);
        })
    }
}

/// Adds a reply.
fn add(progress: &mut Progress, name: &str, node: NodeId, answer: &Answer) {
    let Progress { pinger, reported, warnings, missing } = progress;
    let Some(record) = pinger.records.get(answer.sequence as usize) else { return };
    let nanos = answer.round_trip().unwrap_or_else(|| {
        let text = format!(
            "ping {name}: the reflector's time stamps are farther apart than a round trip; some \
             round-trip times have its own time in them"
        );
        Progress::note(warnings, text);
        answer.exchange.returned.saturating_sub(answer.exchange.sent)
    });
    match answer.class_forward {
        None => Progress::note(
            missing,
            format!(
                "DSCPs and ECN fields with which ping {name} arrives: the reflector does not \
                 support Class of Service (RFC 8972)"
            ),
        ),
        Some((_, true)) => Progress::note(
            missing,
            format!(
                "DSCPs of replies to ping {name} where they are sent: the reflector refuses the \
                 requested one"
            ),
        ),
        Some((_, false)) => {}
    }
    let found = PingAnswer {
        rtt: Duration::ZERO,
        node,
        error: None,
        arrived: answer.class_forward.map(|(class, _)| class),
        echoed: answer.class_backward,
    };
    let arrived = record.sent + Duration::from_picos(nanos.saturating_mul(1_000));
    if record.answer.is_none() {
        reported.on_answer(answer.sequence);
    }
    pinger.on_answer(answer.sequence, arrived, true, found);
}
