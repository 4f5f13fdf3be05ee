//! Applications that send datagrams and probes when they are due: one thread serves them all.
//!
//! Nothing is sent early. A stream whose datagrams are due faster than they can be sent one by one
//! sends those that have come due meanwhile together, as one to the kernel where they are alike
//! (`UDP_SEGMENT`); the slower it is, the more that are. What is sent late does not move what comes
//! after it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;

use perhop_core::{Duration, Time};
use perhop_workload::Pattern;

use crate::budget::Grant;
use crate::clock::{nanos, time};
use crate::payload::{self, Payload};
use crate::shared::{Shared, StreamId};
use crate::stream::FlowState;
use perhop_socket::{Nanos, Train, realtime};

/// How long a stream waits whose socket is full.
const PAUSE: Nanos = 50_000;
/// What is sent more than this after it was due is late.
const LATE: Nanos = 1_000_000;

/// A stream's sender.
#[derive(Debug)]
pub(crate) struct Datagrams {
    id: StreamId,
    /// When the next one is due.
    due: Time,
    stop: Time,
    /// Bytes that are left to send; [`u64::MAX`] has no end.
    left: u64,
    pattern: Pattern,
    /// What is due next, and how long before the one behind it.
    drawn: Option<(u16, Duration)>,
    /// The next number.
    sequence: u64,
    train: Train,
    /// How many of the train the kernel has taken.
    taken: usize,
    /// Whether the kernel segments what is alike.
    segmented: bool,
    /// Whether the socket was full.
    blocked: bool,
    /// Whether the limits allow the train to be sent.
    allowed: bool,
}

impl Datagrams {
    pub fn new(id: StreamId, flow: &FlowState, mut pattern: Pattern) -> Self {
        Self {
            id,
            due: time(flow.start) + pattern.first(),
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
        }
    }

    fn deadline(&self) -> Nanos {
        match self.due < self.stop && self.left > 0 {
            true => nanos(self.due.as_picos()),
            false => Nanos::MAX,
        }
    }

    /// Loads what is due by now, as far as there is room.
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
        // Before any of them can arrive.
        shared.at(self.id).1.sent.store(self.sequence, Ordering::Release);
    }

    /// Sends what is due; says when to come again.
    fn run(&mut self, shared: &Shared, now: Nanos) -> Nanos {
        if self.train.is_empty() {
            self.load(shared, now);
        }
        let Some(socket) = shared.at(self.id).1.sender.get() else { return Nanos::MAX };
        if self.blocked && !socket.is_writable() {
            // A process that sleeps in sendto(2) is not woken before either.
            return now + PAUSE;
        }
        self.blocked = false;
        if !self.allowed && !self.train.is_empty() {
            let header = if to_v4(shared, self.id) { IPV4_UDP } else { IPV6_UDP };
            let bytes = self.train.bytes() as u64 + header * self.train.len() as u64;
            match shared.budget.take(now, bytes, bytes) {
                Grant::Bytes(_) => self.allowed = true,
                Grant::Wait(until) => return until,
                Grant::Over => {
                    let flow = &shared.at(self.id).0.name;
                    shared.warn(format!("{flow}: nothing more may be sent from here"));
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
                    // What they are too large for is one packet, or a device that cannot.
                    Some(libc::EINVAL | libc::EMSGSIZE | libc::EIO) if self.segmented => {
                        self.segmented = false;
                    }
                    // An ICMP error about one that was sent before; it says nothing of this one.
                    Some(libc::ECONNREFUSED) => {}
                    // Nobody carries it: it is lost, as on any other link.
                    _ => self.taken += 1,
                },
            }
        }
        self.train.clear();
        self.taken = 0;
        self.allowed = false;
        match self.stop <= time(now) {
            // What was held up beyond the end is not sent after it.
            true => Nanos::MAX,
            false => self.deadline(),
        }
    }
}

/// Bytes of the headers of IP and UDP.
const IPV4_UDP: u64 = 28;
const IPV6_UDP: u64 = 48;

fn to_v4(shared: &Shared, id: StreamId) -> bool {
    shared.at(id).1.to.is_ipv4()
}

/// Sends every stream's datagrams and every ping's probes when they are due, until all is over.
pub(crate) fn send(shared: &Shared, mut senders: Vec<Datagrams>) {
    let pings = shared.pings.iter().map(|ping| ping.deadline());
    let mut due: BinaryHeap<Reverse<(Nanos, usize)>> = BinaryHeap::new();
    due.extend(senders.iter().enumerate().map(|(number, each)| Reverse((each.deadline(), number))));
    let first = senders.len();
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
            Some(sender) => sender.run(shared, now),
            None => shared.pings[number - first].run(shared),
        };
        due.push(Reverse((again, number)));
    }
}
