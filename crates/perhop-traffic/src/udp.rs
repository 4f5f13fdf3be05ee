//! Applications that send datagrams and probes when they are due: one thread serves them all.
//!
//! No datagram is sent early. If datagrams are due faster than they can be sent one by one, all
//! that are due are sent together: in one segmented send if their sizes are equal (`UDP_SEGMENT`).
//! A late datagram does not delay the next ones.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::Ordering;

use perhop_core::{Duration, Time};
use perhop_workload::Pattern;

use crate::allowance::Grant;
use crate::clock::{nanos, time};
use crate::payload::{self, Payload};
use crate::proof::{CONSENT_TIMEOUT, Consent, proof_buffers};
use crate::shared::{Shared, StreamId};
use crate::stream::FlowState;
use perhop_socket::{Batch, Nanos, Train, realtime};

/// Time that a stream waits if its socket is full.
const PAUSE: Nanos = 50_000;
/// Lateness from which a datagram counts as late.
const LATE: Nanos = 1_000_000;

/// Sender of a stream.
#[derive(Debug)]
pub(crate) struct Datagrams {
    id: StreamId,
    /// Instant at which the next datagram is due.
    due: Time,
    stop: Time,
    /// Bytes left to send; [`u64::MAX`] is unlimited.
    left: u64,
    pattern: Pattern,
    /// Size of the next datagram, and the time from it to the one after it.
    drawn: Option<(u16, Duration)>,
    /// The next number.
    sequence: u64,
    train: Train,
    /// Datagrams of the train that the kernel has accepted.
    taken: usize,
    /// True if the kernel segments datagrams of equal size.
    segmented: bool,
    /// True if the socket was full.
    blocked: bool,
    /// True if the send budget covers the train.
    allowed: bool,
    /// Consent of the destination, in a live job.
    consent: Option<Consent>,
}

impl Datagrams {
    pub fn new(id: StreamId, flow: &FlowState, mut pattern: Pattern) -> Self {
        Self {
            id,
            due: time(flow.starts[id.stream]) + pattern.first(),
            stop: flow.stop.map_or(Time::MAX, time),
            left: flow.volume.unwrap_or(u64::MAX),
            pattern,
            drawn: None,
            sequence: 0,
            train: Train::new(),
            taken: 0,
            segmented: true,
            blocked: false,
            allowed: false,
            consent: None,
        }
    }

    /// Takes the consent of its destination from those of all streams.
    pub fn take_consent(&mut self, consents: &mut HashMap<StreamId, Consent>) {
        self.consent = consents.remove(&self.id);
    }

    /// Returns whether the destination still consents to datagrams.
    fn has_consent(&mut self, shared: &Shared, now: Nanos, proofs: &mut Batch) -> bool {
        let (flow, stream) = shared.at(self.id);
        let (Some(consent), Some(socket)) = (&mut self.consent, stream.sender.get()) else {
            return true;
        };
        if !consent.is_due(now) {
            return true;
        }
        match consent.renew(socket, proofs, now, self.sequence) {
            Ok(false) => {
                let (name, to) = (&flow.name, consent.to);
                let seconds = CONSENT_TIMEOUT / 1_000_000_000;
                shared.warn(format!(
                    "{name}: {to} has not repeated for {seconds} s that it wants datagrams; it \
                     gets no more of them"
                ));
                false
            }
            // The port is closed.
            Err(_) => false,
            Ok(true) => true,
        }
    }

    fn deadline(&self) -> Nanos {
        match self.due < self.stop && self.left > 0 {
            true => nanos(self.due.as_picos()),
            false => Nanos::MAX,
        }
    }

    /// Loads the datagrams that are due, as many as fit the train.
    fn load(&mut self, shared: &Shared, now: Nanos) {
        let late = now.saturating_sub(self.deadline());
        shared.counters.latest.fetch_max(late, Ordering::Relaxed);
        let sent = realtime();
        let over = self.stop <= time(now);
        while self.deadline() <= now && !over {
            let pattern = &mut self.pattern;
            let (payload, gap) = *self.drawn.get_or_insert_with(|| pattern.next_datagram());
            let payload = self.left.min(payload.into());
            let size = (payload as usize).max(payload::SIZE);
            if !self.train.has_room(size) {
                break;
            }
            self.train.push(&Payload { sequence: self.sequence, sent }.write(shared.tag), size);
            if late > LATE {
                shared.counters.late.fetch_add(1, Ordering::Relaxed);
            }
            self.sequence += 1;
            if self.left != u64::MAX {
                self.left -= payload;
            }
            self.due += gap;
            self.drawn = None;
        }
        // Set before any of them can arrive.
        shared.at(self.id).1.sent.store(self.sequence, Ordering::Release);
    }

    /// Sends the datagrams that are due. Returns the instant of the next call.
    fn run(&mut self, shared: &Shared, now: Nanos, proofs: &mut Batch) -> Nanos {
        if self.train.is_empty() {
            if !self.has_consent(shared, now, proofs) {
                self.left = 0;
                return Nanos::MAX;
            }
            self.load(shared, now);
        }
        let Some(socket) = shared.at(self.id).1.sender.get() else { return Nanos::MAX };
        if self.blocked && !socket.is_writable() {
            // A process that sleeps in sendto(2) is not woken earlier either.
            return now + PAUSE;
        }
        self.blocked = false;
        if !self.allowed && !self.train.is_empty() {
            let header = if to_v4(shared, self.id) { IPV4_UDP } else { IPV6_UDP };
            let bytes = self.train.bytes() as u64 + header * self.train.len() as u64;
            match shared.budget.take(&shared.clock, now, bytes, bytes) {
                Grant::Bytes(_) => self.allowed = true,
                Grant::Wait(until) => return until,
                Grant::Over => {
                    let flow = &shared.at(self.id).0.name;
                    shared
                        .warn(format!("{flow}: the sender has reached its limit of bytes or time"));
                    self.left = 0;
                    return Nanos::MAX;
                }
            }
        }
        while self.taken < self.train.len() {
            match self.train.send(socket, self.taken, self.segmented) {
                Ok(count) => self.taken += count,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::ENOBUFS) => {
                        self.blocked = true;
                        return now + PAUSE;
                    }
                    // The train exceeds one packet, or the device does not support segmentation.
                    Some(libc::EINVAL | libc::EMSGSIZE | libc::EIO) if self.segmented => {
                        self.segmented = false;
                    }
                    // The port has been closed: whoever proved that it wants data does no longer.
                    Some(libc::ECONNREFUSED) if shared.proof.is_some() => {
                        self.train.clear();
                        self.left = 0;
                        return Nanos::MAX;
                    }
                    // An ICMP error about an earlier datagram, not about this one.
                    Some(libc::ECONNREFUSED) => {}
                    // No route: it is lost, as on any other link.
                    _ => self.taken += 1,
                },
            }
        }
        self.train.clear();
        self.taken = 0;
        self.allowed = false;
        match self.stop <= time(now) {
            // Datagrams that were delayed beyond the end are not sent after it.
            true => Nanos::MAX,
            false => self.deadline(),
        }
    }
}

/// Bytes of the headers of IP and UDP, and of IP and an ICMP echo request.
pub(crate) const IPV4_UDP: u64 = 28;
pub(crate) const IPV6_UDP: u64 = 48;

fn to_v4(shared: &Shared, id: StreamId) -> bool {
    shared.at(id).1.to.is_ipv4()
}

/// Sends the datagrams of all streams and the probes of all pings when they are due, until the end
/// of the run.
pub(crate) fn send(shared: &Shared, mut senders: Vec<Datagrams>) {
    let pings = shared.pings.iter().map(|ping| ping.deadline());
    let mut due: BinaryHeap<Reverse<(Nanos, usize)>> = BinaryHeap::new();
    due.extend(senders.iter().enumerate().map(|(number, each)| Reverse((each.deadline(), number))));
    let first = senders.len();
    let mut proofs = proof_buffers();
    due.extend(pings.enumerate().map(|(number, at)| Reverse((at, first + number))));
    shared.clock.await_zero();
    while !shared.clock.is_over() {
        let next = due.peek().map_or(Nanos::MAX, |Reverse((at, _))| *at);
        let now = shared.clock.now();
        if next > now {
            shared.clock.sleep_until(next);
            continue;
        }
        let Some(Reverse((_, number))) = due.pop() else { continue };
        let again = match senders.get_mut(number) {
            Some(sender) => sender.run(shared, now, &mut proofs),
            None => shared.pings[number - first].run(shared),
        };
        due.push(Reverse((again, number)));
    }
}
