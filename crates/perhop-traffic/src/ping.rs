//! Pings: probes and their answers.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use perhop_core::{Duration, NodeId, TrafficClass};
use perhop_measure::{Answer, Pinger};
use perhop_net::IcmpError;
use perhop_wire::{icmpv4, icmpv6};
use perhop_workload::PingPlan;

use crate::clock::{nanos, time};
use crate::icmp::{self, Numbered, Probe};
use crate::open::probe_port;
use crate::readings::PingReading;
use crate::shared::Shared;
use crate::stream::lock;
use crate::udp::{IPV4_UDP, IPV6_UDP};
use perhop_socket::{Nanos, Socket};

/// Number of identifications: they begin with 1, because the kernel replaces 0.
const IDENTIFICATIONS: u64 = 0xffff;
const SEQUENCES: u64 = 0x1_0000;
/// Greatest distance of an arriving request from the highest number so far.
const AHEAD: usize = 0x8000;

/// Fields that number a probe and that its answer repeats, modulo 65536 or 65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbering {
    Echo { identifier: u16 },
    Datagram { source_port: u16, destination_port: u16 },
}

/// Progress of the readings of a ping.
#[derive(Debug, Default)]
pub struct PingProgress {
    /// Number of requests that readings have reported.
    sent: usize,
    /// Requests that were answered since the last reading.
    answers: Vec<u32>,
    /// Requests that arrived since the last reading, with their DSCPs and ECN fields.
    arrived: Vec<(u32, TrafficClass)>,
}

impl PingProgress {
    /// Notes the first answer to a request.
    pub fn on_answer(&mut self, sequence: u32) {
        self.answers.push(sequence);
    }

    /// Returns the reading since the last one of the ping with this number in the job, or `None` if
    /// nothing has changed.
    pub fn read(&mut self, ping: u32, pinger: &Pinger) -> Option<PingReading> {
        let records = pinger.records[self.sent..].iter();
        let answer = |sequence: u32| Some((sequence, pinger.records[sequence as usize].answer?));
        let reading = PingReading {
            ping,
            first: self.sent as u32,
            sent: records.map(|record| (record.sent, record.ttl)).collect(),
            answers: std::mem::take(&mut self.answers).into_iter().filter_map(answer).collect(),
            arrived: std::mem::take(&mut self.arrived),
        };
        self.sent = pinger.records.len();
        let nothing =
            reading.sent.is_empty() && reading.answers.is_empty() && reading.arrived.is_empty();
        (!nothing).then_some(reading)
    }
}

/// A ping.
#[derive(Debug)]
pub(crate) struct PingState {
    /// Its number in the job.
    number: u32,
    pub pinger: Mutex<Pinger>,
    /// Requests that have arrived at the node that answers.
    arrived: Mutex<HashSet<u32>>,
    /// Progress of the readings.
    reported: Mutex<PingProgress>,
    /// DSCP and ECN field of requests.
    class: TrafficClass,
    from: IpAddr,
    to: IpAddr,
    /// All addresses of the node that answers.
    others: Vec<IpAddr>,
    size: usize,
    numbering: Numbering,
    /// The socket that sends requests, if this process sends them.
    socket: Option<Socket>,
    /// True if address translators may be on the path.
    live: bool,
    /// Highest number of a request that has arrived, if requests are sent by another process.
    highest: AtomicU64,
}

/// Returns the latest probe whose number has this residue.
fn latest(records: usize, modulus: u64, residue: u64) -> Option<u32> {
    let last = (records as u64).checked_sub(1)?;
    let back = (last % modulus + modulus - residue % modulus) % modulus;
    last.checked_sub(back).map(|sequence| sequence as u32)
}

impl PingState {
    /// Returns a ping whose requests `socket` sends. `number` is its number in the run, and `tag`
    /// distinguishes the pings of the run from others.
    pub fn new(
        plan: &PingPlan,
        number: usize,
        tag: u16,
        (from, to): (IpAddr, &[IpAddr]),
        (socket, live): (Option<Socket>, bool),
    ) -> Self {
        let [first, last] = plan.ttl;
        let span = (plan.start, plan.stop);
        let pinger = Pinger::new(span, plan.every, first..=last, plan.train);
        let numbering = match plan.udp_port {
            Some(destination_port) => {
                Numbering::Datagram { source_port: probe_port(number), destination_port }
            }
            None => Numbering::Echo { identifier: tag.wrapping_add(number as u16) },
        };
        Self {
            number: number as u32,
            pinger: Mutex::new(pinger),
            arrived: Mutex::default(),
            reported: Mutex::default(),
            class: plan.traffic_class(),
            from,
            to: to[0],
            others: to.to_vec(),
            size: plan.size.into(),
            numbering,
            socket,
            live,
            highest: AtomicU64::new(0),
        }
    }

    /// Returns its number in the job and the address of its requests if this process sends them.
    pub fn target(&self) -> Option<(usize, IpAddr)> {
        self.socket.as_ref().map(|_| (self.number as usize, self.to))
    }

    /// Returns the reading since the last one, or `None` if nothing has changed.
    pub fn read(&self) -> Option<PingReading> {
        lock(&self.reported).read(self.number, &lock(&self.pinger))
    }

    /// Returns the instant at which the next train is due.
    pub fn deadline(&self) -> Nanos {
        match self.socket {
            Some(_) => nanos(lock(&self.pinger).deadline().as_picos()),
            None => Nanos::MAX,
        }
    }

    /// Sends the train that is due. Returns the instant at which the next one is due.
    pub fn run(&self, shared: &Shared) -> Nanos {
        let Some(socket) = &self.socket else { return Nanos::MAX };
        let mut pinger = lock(&self.pinger);
        if let Some((ttl, train)) = pinger.next_train() {
            if !self.may_send(shared, train) {
                shared.warn(format!("pings to {} are limited; some are not sent", self.to));
                return nanos(pinger.deadline().as_picos());
            }
            self.set_ttl(socket, ttl);
            let mut bytes = Vec::new();
            for _ in 0..train {
                let sequence = pinger.records.len() as u64;
                self.write(&mut bytes, ttl, sequence);
                let port = match self.numbering {
                    // Raw sockets have no ports.
                    Numbering::Datagram { destination_port, .. } if self.to.is_ipv6() => {
                        destination_port
                    }
                    _ => 0,
                };
                pinger.record(time(shared.clock.now()), ttl);
                // A request that cannot be sent counts as unanswered.
                let _ = socket.send_to(&bytes, SocketAddr::new(self.to, port));
            }
        }
        nanos(pinger.deadline().as_picos())
    }

    /// Takes a train of requests from the budget. Returns whether it may be sent now.
    fn may_send(&self, shared: &Shared, train: u16) -> bool {
        let now = shared.clock.now();
        let known = shared.proved.get().is_some_and(|proved| proved.contains(&self.to));
        let (packets, bytes) = train_cost(self.to, self.size, train);
        shared.budget.may_probe(&shared.clock, now, if known { 0 } else { packets }, bytes)
    }

    fn set_ttl(&self, socket: &Socket, ttl: u8) {
        let option = match self.to.is_ipv4() {
            true => (libc::IPPROTO_IP, libc::IP_TTL),
            false => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
        };
        let set = socket.set(option, libc::c_int::from(ttl));
        debug_assert!(set.is_ok(), "{set:?}");
    }

    fn write(&self, bytes: &mut Vec<u8>, ttl: u8, sequence: u64) {
        match (self.numbering, self.from, self.to) {
            (Numbering::Echo { identifier }, _, to) => {
                let kind = if to.is_ipv4() { icmpv4::ECHO_REQUEST } else { icmpv6::ECHO_REQUEST };
                let sequence = (sequence % SEQUENCES) as u16;
                icmp::write_echo(bytes, kind, identifier, sequence, self.size);
            }
            (
                Numbering::Datagram { source_port, destination_port },
                IpAddr::V4(from),
                IpAddr::V4(to),
            ) => {
                // A live job does not determine the source address: it could be that of any host.
                let from = if self.live { Ipv4Addr::UNSPECIFIED } else { from };
                let datagram = Numbered {
                    from: (from, source_port),
                    to: (to, destination_port),
                    traffic_class: self.class,
                    ttl,
                    number: 1 + (sequence % IDENTIFICATIONS) as u16,
                    size: self.size,
                };
                datagram.write(bytes);
            }
            (Numbering::Datagram { .. }, ..) => {
                bytes.clear();
                bytes.extend(((sequence % SEQUENCES) as u16).to_be_bytes());
                bytes.resize(self.size.max(2), 0);
            }
        }
    }

    /// Returns the number of a probe of this ping.
    fn sequence(&self, records: usize, probe: Probe) -> Option<u32> {
        match (probe, self.numbering) {
            (Probe::Echo { identifier, sequence }, Numbering::Echo { identifier: own })
                if identifier == own =>
            {
                latest(records, SEQUENCES, sequence.into())
            }
            (
                Probe::Datagram { source_port, destination_port, number },
                Numbering::Datagram { source_port: from, destination_port: to },
            ) if (source_port, destination_port) == (from, to) => match self.to.is_ipv4() {
                true => latest(records, IDENTIFICATIONS, u64::from(number.checked_sub(1)?)),
                false => latest(records, SEQUENCES, number.into()),
            },
            _ => None,
        }
    }

    /// Counts a request that has arrived at an address with a DSCP and ECN field. Returns whether
    /// it is a request of this ping.
    pub fn on_request(
        &self,
        (from, at): (IpAddr, &[IpAddr]),
        probe: Probe,
        class: TrafficClass,
    ) -> bool {
        if !at.contains(&self.to) || (from != self.from && !self.live) {
            return false;
        }
        let records = match self.socket {
            Some(_) => lock(&self.pinger).records.len(),
            // Numbers are repeated modulo a constant: take the one nearest to the highest so far.
            None => self.highest.load(Ordering::Relaxed) as usize + AHEAD,
        };
        let sequence = self.sequence(records, probe);
        self.highest.fetch_max(sequence.unwrap_or(0).into(), Ordering::Relaxed);
        if let Some(sequence) = sequence
            && lock(&self.arrived).insert(sequence)
        {
            lock(&self.reported).arrived.push((sequence, class));
        }
        sequence.is_some()
    }

    /// Counts an answer from a node to an address. Returns whether it answers this ping.
    pub fn on_answer(
        &self,
        shared: &Shared,
        (from, at): (IpAddr, &[IpAddr]),
        stamp: Nanos,
        probe: Probe,
        answered: Answered,
    ) -> bool {
        if self.socket.is_none() || !at.contains(&self.from) {
            return false;
        }
        if answered.destination.is_some_and(|destination| destination != self.to) {
            return false;
        }
        let mut pinger = lock(&self.pinger);
        let Some(sequence) = self.sequence(pinger.records.len(), probe) else { return false };
        let from_destination = self.others.contains(&from);
        let Some(&node) = shared.nodes.get(&from) else { return false };
        let answer = Answer {
            rtt: Duration::ZERO,
            node: NodeId(node),
            error: answered.error,
            arrived: Some(answered.quoted.unwrap_or(answered.class)),
            echoed: Some(answered.class),
        };
        // By the kernel's time stamp, which may be slightly earlier than the recorded time of
        // sending.
        let sent = pinger.records[sequence as usize].sent;
        let now = shared.clock.at_stamp(stamp).max(sent);
        let first = pinger.records[sequence as usize].answer.is_none();
        pinger.on_answer(sequence, now, from_destination, answer);
        drop(pinger);
        if first {
            lock(&self.reported).on_answer(sequence);
        }
        true
    }
}

/// Size of a packet that no link fragments, in bytes (RFC 8200, section 5). A longer request counts
/// as several packets.
const PACKET: u64 = 1280;

/// Returns the packets and the bytes of a train of requests with a payload of `size` bytes, as
/// [`Allowance::may_probe`](crate::Allowance::may_probe) counts them.
pub fn train_cost(to: IpAddr, size: usize, train: u16) -> (u64, u64) {
    let header = if to.is_ipv4() { IPV4_UDP } else { IPV6_UDP };
    let bytes = size as u64 + header;
    (u64::from(train) * bytes.div_ceil(PACKET), u64::from(train) * bytes)
}

/// Contents of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    /// Its DSCP and ECN field.
    pub class: TrafficClass,
    pub error: Option<IcmpError>,
    /// DSCP and ECN field of the request that an error quotes.
    pub quoted: Option<TrafficClass>,
    /// Destination of that request.
    pub destination: Option<IpAddr>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_that_of_the_latest_probe() {
        assert_eq!(latest(0, 65_536, 0), None);
        for (records, modulus, residue, expected) in [
            (1, 65_536, 0, Some(0)),
            (1, 65_536, 1, None),
            (10, 65_536, 9, Some(9)),
            (65_540, 65_536, 3, Some(65_539)),
            (65_540, 65_536, 4, Some(4)),
            (65_536, 65_535, 0, Some(65_535)),
            (65_536, 65_535, 1, Some(1)),
        ] {
            assert_eq!(latest(records, modulus, residue), expected, "{records} {residue}");
        }
    }
}
