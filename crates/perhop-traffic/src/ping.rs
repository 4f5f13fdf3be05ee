//! Pings: their probes, and what comes back.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use perhop_core::{Dscp, Duration, NodeId, TrafficClass};
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
use perhop_socket::{Nanos, Socket};

/// The identifications of packets go from 1, as the kernel chooses one itself where it is 0.
const IDENTIFICATIONS: u64 = 0xffff;
const SEQUENCES: u64 = 0x1_0000;
/// How far ahead of the highest number so far a request may be that arrives.
const AHEAD: usize = 0x8000;

/// What numbers probes in what their answers quote, modulo something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbering {
    Echo { identifier: u16 },
    Datagram { source_port: u16, destination_port: u16 },
}

/// What readings have told of a ping, and have still to tell.
#[derive(Debug, Default)]
struct Told {
    /// The number of requests that they have told of.
    sent: usize,
    /// Requests that were answered since.
    answers: Vec<u32>,
    /// Requests that arrived since, with their DSCPs.
    arrived: Vec<(u32, Dscp)>,
}

/// A ping.
#[derive(Debug)]
pub(crate) struct PingState {
    /// Its number in the job.
    number: u32,
    pub pinger: Mutex<Pinger>,
    /// The requests that arrived where they are answered.
    arrived: Mutex<HashSet<u32>>,
    /// What readings have told.
    told: Mutex<Told>,
    pub dscp: Dscp,
    from: IpAddr,
    to: IpAddr,
    /// All addresses of the node that is asked.
    others: Vec<IpAddr>,
    size: usize,
    numbering: Numbering,
    /// The socket that requests go out by, if they are sent here.
    socket: Option<Socket>,
    /// Whether address translators may be on the way.
    live: bool,
    /// The highest number of a request that arrived, where only those are known.
    highest: AtomicU64,
}

/// The probe that is numbered so, the latest if there were several.
fn latest(records: usize, modulus: u64, residue: u64) -> Option<u32> {
    let last = (records as u64).checked_sub(1)?;
    let back = (last % modulus + modulus - residue % modulus) % modulus;
    last.checked_sub(back).map(|sequence| sequence as u32)
}

impl PingState {
    /// A ping that goes out by `socket`. `number` is its own among all of the run, whose pings are
    /// told by `tag` from those of others.
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
            told: Mutex::default(),
            dscp: plan.dscp,
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

    /// What is new since the last reading, if anything is.
    pub fn read(&self) -> Option<PingReading> {
        let mut told = lock(&self.told);
        let pinger = lock(&self.pinger);
        let sent: Vec<_> =
            pinger.records[told.sent..].iter().map(|record| (record.sent, record.ttl)).collect();
        let answer = |sequence: u32| Some((sequence, pinger.records[sequence as usize].answer?));
        let reading = PingReading {
            ping: self.number,
            first: told.sent as u32,
            answers: std::mem::take(&mut told.answers).into_iter().filter_map(answer).collect(),
            arrived: std::mem::take(&mut told.arrived),
            sent,
        };
        told.sent = pinger.records.len();
        let nothing =
            reading.sent.is_empty() && reading.answers.is_empty() && reading.arrived.is_empty();
        (!nothing).then_some(reading)
    }

    /// When the next train is due.
    pub fn deadline(&self) -> Nanos {
        match self.socket {
            Some(_) => nanos(lock(&self.pinger).deadline().as_picos()),
            None => Nanos::MAX,
        }
    }

    /// Sends the train that is due; says when the next one is.
    pub fn run(&self, shared: &Shared) -> Nanos {
        let Some(socket) = &self.socket else { return Nanos::MAX };
        let mut pinger = lock(&self.pinger);
        if let Some((ttl, train)) = pinger.next_train() {
            let known = shared.proved.get().is_some_and(|proved| proved.contains(&self.to));
            let now = shared.clock.now();
            let free = known && !shared.budget.is_over(now);
            if !free && !shared.budget.may_ping(now, train.into()) {
                shared.warn(format!("pings to {} are limited; some are not sent", self.to));
                return nanos(pinger.deadline().as_picos());
            }
            self.set_ttl(socket, ttl);
            let mut bytes = Vec::new();
            for _ in 0..train {
                let sequence = pinger.records.len() as u64;
                self.write(&mut bytes, ttl, sequence);
                let port = match self.numbering {
                    // A raw socket takes none.
                    Numbering::Datagram { destination_port, .. } if self.to.is_ipv6() => {
                        destination_port
                    }
                    _ => 0,
                };
                pinger.record(time(shared.clock.now()), ttl);
                // What cannot be sent is not answered.
                let _ = socket.send_to(&bytes, SocketAddr::new(self.to, port));
            }
        }
        nanos(pinger.deadline().as_picos())
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
                let datagram = Numbered {
                    from: (from, source_port),
                    to: (to, destination_port),
                    traffic_class: TrafficClass::new(self.dscp),
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

    /// The number of a probe of this ping's.
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

    /// A request has arrived at an address with this mark. Says whether it is one of ours.
    pub fn on_request(&self, (from, at): (IpAddr, &[IpAddr]), probe: Probe, dscp: Dscp) -> bool {
        if !at.contains(&self.to) || (from != self.from && !self.live) {
            return false;
        }
        let records = match self.socket {
            Some(_) => lock(&self.pinger).records.len(),
            // Numbers come modulo something: that is meant which is nearest to the highest so far.
            None => self.highest.load(Ordering::Relaxed) as usize + AHEAD,
        };
        let sequence = self.sequence(records, probe);
        self.highest.fetch_max(sequence.unwrap_or(0).into(), Ordering::Relaxed);
        if let Some(sequence) = sequence
            && lock(&self.arrived).insert(sequence)
        {
            lock(&self.told).arrived.push((sequence, dscp));
        }
        sequence.is_some()
    }

    /// An answer has come from a node to an address. Says whether it is one to us.
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
            dscp_arrived: answered.quoted.unwrap_or(answered.dscp),
            dscp_echoed: answered.dscp,
        };
        // By the kernel's stamp, which may be a little before the instant that was noted when the
        // request went out.
        let sent = pinger.records[sequence as usize].sent;
        let now = shared.clock.at_stamp(stamp).max(sent);
        let first = pinger.records[sequence as usize].answer.is_none();
        pinger.on_answer(sequence, now, from_destination, answer);
        drop(pinger);
        if first {
            lock(&self.told).answers.push(sequence);
        }
        true
    }
}

/// What an answer says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    /// Its mark.
    pub dscp: Dscp,
    pub error: Option<IcmpError>,
    /// The mark of the request that an error quotes.
    pub quoted: Option<Dscp>,
    /// Where that was to go.
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
