//! Raw sockets that send probes at a bounded rate and match the answers.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use perhop_socket::{
    Batch, Epoll, Event, Interest, Nanos, Socket, monotonic, realtime, sleep_until,
};
use perhop_wire::{icmpv4, icmpv6};
use thiserror::Error;

use crate::answer::Answer;
use crate::probe::{Probe, ProbeProtocol, Target};

/// Reason for an early end of probing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// A socket cannot be opened or used.
    #[error("{what}: {source}{}", remedy(.source))]
    Socket {
        /// Attempted operation.
        what: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The caller wants to end.
    #[error("interrupted")]
    Interrupted,
    /// No responder answers at the address.
    #[error("no responder answers at {0}; start one there with `perhop path --respond`")]
    NoResponder(SocketAddr),
    /// The time that probing may take is over.
    #[error("the time limit of {0} s is over")]
    Time(u64),
}

/// Reaction to an error of a socket.
fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "; raw sockets need root or CAP_NET_RAW: run perhop with sudo"
        }
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EADDRNOTAVAIL) => {
            "; check the routes and addresses of this host with `ip route get`"
        }
        _ => "",
    }
}

/// Adds to an error what was tried.
pub(crate) fn tried(what: &'static str) -> impl FnOnce(io::Error) -> ProbeError {
    move |source| ProbeError::Socket { what, source }
}

/// A probe that was sent, and its answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observation {
    /// Time of sending, by the real-time clock. Zero if this host refuses packets of this length.
    pub sent: Nanos,
    /// Time of arrival of the answer, by the real-time clock, and the answer.
    pub answer: Option<(Nanos, Answer)>,
}

impl Observation {
    /// Returns the round-trip time in nanoseconds.
    pub fn round_trip(&self) -> Option<Nanos> {
        self.answer.map(|(at, _)| at.saturating_sub(self.sent))
    }
}

/// Messages that are received in one system call, and their longest length.
const MESSAGES: usize = 64;
const LONGEST: usize = 2048;
/// Receive buffer: bursts of answers to a train wait here.
const BUFFER: u32 = 4 << 20;
/// Interval at which the caller's `go_on` is called, in nanoseconds.
const CHECK_INTERVAL: Nanos = 100_000_000;

/// Asks the caller whether to go on; false ends probing.
pub type GoOn = Box<dyn FnMut() -> bool + Send>;

/// Sends probes to a destination.
pub struct Prober {
    target: Target,
    sender: Socket,
    receiver: Socket,
    /// Holds the source port, so that no other program uses it.
    _port: Option<UdpSocket>,
    epoll: Epoll,
    batch: Batch,
    /// Identity of the next probe.
    next: u16,
    go_on: GoOn,
    asked: Nanos,
    /// Deadline of the probing by the monotonic clock, and the limit in seconds.
    end: Nanos,
    limit_s: u64,
    /// Observations of probes whose answers were waited for when the time was over.
    cut_off: Vec<Observation>,
    /// Probes and bytes sent.
    pub sent: (u64, u64),
}

/// Addresses and ports that the caller sets, or leaves open.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Source address; `None` for the one that the routing table gives.
    pub source: Option<IpAddr>,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol of the probes.
    pub protocol: ProbeProtocol,
    /// Source port of flow 0; `None` for a free one.
    pub source_port: Option<u16>,
    /// Destination port.
    pub destination_port: u16,
    /// Flow label of flow 0; `None` for a random one.
    pub flow_label: Option<u32>,
}

impl Ends {
    /// Returns the source address that the kernel uses for the destination.
    fn source(&self) -> io::Result<IpAddr> {
        if let Some(source) = self.source {
            return Ok(source);
        }
        let any: SocketAddr = match self.destination {
            IpAddr::V4(_) => ([0; 4], 0).into(),
            IpAddr::V6(_) => ([0_u16; 8], 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect((self.destination, self.destination_port.max(1)))?;
        Ok(socket.local_addr()?.ip())
    }
}

/// Returns a number that others cannot know beforehand.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(monotonic())
}

impl Prober {
    /// Opens the sockets. Probing ends after `limit_s` seconds, or when `go_on` says so.
    ///
    /// # Errors
    /// [`ProbeError::Socket`] if there is no route, or the user may not open raw sockets.
    pub fn new(ends: &Ends, limit_s: u64, go_on: GoOn) -> Result<Self, ProbeError> {
        let source = ends.source().map_err(tried("cannot find a route to the destination"))?;
        let v6 = source.is_ipv6();
        let port = match ends.protocol {
            ProbeProtocol::Udp => Some(
                UdpSocket::bind((source, ends.source_port.unwrap_or(0)))
                    .map_err(tried("cannot take the source port"))?,
            ),
            ProbeProtocol::Icmp => None,
        };
        let source_port = match &port {
            Some(socket) => socket.local_addr().map_err(tried("cannot take the port"))?.port(),
            None => ends.source_port.unwrap_or(random() as u16),
        };
        let (family, protocol) = match v6 {
            false => (libc::AF_INET, libc::IPPROTO_ICMP),
            true => (libc::AF_INET6, libc::IPPROTO_ICMPV6),
        };
        let raw = |protocol| {
            Socket::new(family, libc::SOCK_RAW, protocol).map_err(tried("cannot open a raw socket"))
        };
        // Linux takes whole packets from a raw socket of this protocol (raw(7)).
        let (sender, receiver) = (raw(libc::IPPROTO_RAW)?, raw(protocol)?);
        let kinds: &[u8] = match v6 {
            false => &[icmpv4::ECHO_REPLY, icmpv4::UNREACHABLE, icmpv4::TIME_EXCEEDED],
            true => &[
                icmpv6::ECHO_REPLY,
                icmpv6::UNREACHABLE,
                icmpv6::PACKET_TOO_BIG,
                icmpv6::TIME_EXCEEDED,
            ],
        };
        let set_up = || {
            receiver.filter_icmp(v6, kinds)?;
            receiver.stamp_arrivals()?;
            receiver.set_receive_buffer(BUFFER)?;
            sender.set_send_buffer(BUFFER)?;
            // No cached path MTU: probes are as long as the device takes.
            match v6 {
                false => sender
                    .set((libc::IPPROTO_IP, libc::IP_MTU_DISCOVER), libc::IP_PMTUDISC_PROBE)?,
                true => sender.set(
                    (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
                    libc::IPV6_PMTUDISC_PROBE,
                )?,
            }
            let epoll = Epoll::new()?;
            epoll.add(receiver.as_fd(), 0, Interest::Readable)?;
            Ok(epoll)
        };
        let epoll = set_up().map_err(tried("cannot set up a raw socket"))?;
        let target = Target {
            source,
            destination: ends.destination,
            protocol: ends.protocol,
            source_port,
            destination_port: ends.destination_port,
            flow_label: ends.flow_label.unwrap_or(random() as u32 & 0xf_ffff),
        };
        Ok(Self {
            target,
            sender,
            receiver,
            _port: port,
            epoll,
            batch: Batch::new(MESSAGES, LONGEST),
            next: random() as u16,
            go_on,
            asked: 0,
            end: monotonic().saturating_add(limit_s.saturating_mul(1_000_000_000)),
            limit_s,
            cut_off: Vec::new(),
            sent: (0, 0),
        })
    }

    /// Returns the fields that all probes share.
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// Sets the protocol of the next probes; their flows keep their ports or identifiers.
    pub const fn set_protocol(&mut self, protocol: ProbeProtocol) {
        self.target.protocol = protocol;
    }

    /// Waits until a time of the monotonic clock.
    ///
    /// # Errors
    /// [`ProbeError`] if the time is over, or the caller wants to end.
    pub fn wait(&mut self, until: Nanos) -> Result<(), ProbeError> {
        loop {
            let now = monotonic();
            self.check(now)?;
            if now >= until {
                return Ok(());
            }
            sleep_until(until.min(now + CHECK_INTERVAL));
        }
    }

    /// Returns the next identity, from 1 to 65534.
    fn identity(&mut self) -> u16 {
        self.next = self.next % 0xfffe + 1;
        self.next
    }

    /// Sends probes, one every `gap` nanoseconds, and wait for their answers until `timeout`
    /// nanoseconds after the last. Returns an observation per probe, in their order.
    ///
    /// # Errors
    /// As [`ProbeError`] says.
    pub fn probe(
        &mut self,
        probes: &[Probe],
        gap: Nanos,
        timeout: Nanos,
    ) -> Result<Vec<Observation>, ProbeError> {
        let mut seen = vec![Observation::default(); probes.len()];
        let mut waiting: HashMap<u16, usize> = HashMap::with_capacity(probes.len());
        let mut bytes = Vec::new();
        let (mut next, mut due) = (0, monotonic());
        let mut until = due + timeout;
        let mut events: [Event; 1] = [Event { events: 0, u64: 0 }];
        loop {
            let now = monotonic();
            if let Err(error) = self.check(now) {
                self.cut_off = seen;
                return Err(error);
            }
            if next < probes.len() && now >= due {
                let identity = self.identity();
                self.target.write(&probes[next], identity, &mut bytes);
                if self.send(&bytes, &mut seen[next])? {
                    waiting.insert(identity, next);
                }
                next += 1;
                (due, until) = (due.max(now.saturating_sub(gap)) + gap, now + timeout);
                if gap == 0 {
                    continue;
                }
            }
            self.receive(&mut waiting, probes, &mut seen)?;
            if next == probes.len() && (waiting.is_empty() || now >= until) {
                return Ok(seen);
            }
            let wake = if next < probes.len() { due } else { until }.min(now + CHECK_INTERVAL);
            self.epoll.wait(&mut events, wake).map_err(tried("cannot wait for answers"))?;
        }
    }

    /// Takes the observations of the probes that were cut off: those that were answered, or would
    /// have been within `timeout`. Others, and those that were not sent, are `None`.
    pub fn take_judged(&mut self, timeout: Nanos) -> Vec<Option<Observation>> {
        let due = realtime().saturating_sub(timeout);
        let judged = |one: &Observation| one.answer.is_some() || (one.sent > 0 && one.sent < due);
        self.cut_off.drain(..).map(|one| Some(one).filter(judged)).collect()
    }

    /// Ends probing if the time is over, or the caller says so.
    fn check(&mut self, now: Nanos) -> Result<(), ProbeError> {
        if now >= self.end {
            return Err(ProbeError::Time(self.limit_s));
        }
        if now.saturating_sub(self.asked) >= CHECK_INTERVAL {
            self.asked = now;
            if !(self.go_on)() {
                return Err(ProbeError::Interrupted);
            }
        }
        Ok(())
    }

    /// Sends a packet; say whether it left. A packet that is longer than the device takes does not.
    fn send(&mut self, bytes: &[u8], seen: &mut Observation) -> Result<bool, ProbeError> {
        let to = SocketAddr::new(self.target.destination, 0);
        let given_up = monotonic() + 10 * CHECK_INTERVAL;
        loop {
            seen.sent = realtime();
            match self.sender.send_to(bytes, to) {
                Ok(_) => {
                    self.sent.0 += 1;
                    self.sent.1 += bytes.len() as u64;
                    return Ok(true);
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EMSGSIZE) => {
                        seen.sent = 0;
                        return Ok(false);
                    }
                    // The device's queue is full; it drains.
                    Some(libc::EAGAIN | libc::ENOBUFS) if monotonic() < given_up => {
                        std::thread::yield_now();
                    }
                    _ => return Err(tried("cannot send a probe")(error)),
                },
            }
        }
    }

    /// Takes the answers that have arrived.
    fn receive(
        &mut self,
        waiting: &mut HashMap<u16, usize>,
        probes: &[Probe],
        seen: &mut [Observation],
    ) -> Result<(), ProbeError> {
        loop {
            let count = match self.batch.receive(&self.receiver) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(tried("cannot receive answers")(error)),
            };
            for number in 0..count {
                let datagram = self.batch.get(number);
                let Some(from) = datagram.from else { continue };
                let Some(answer) = self.target.answer(datagram.bytes, from.ip()) else { continue };
                // The flow must be the probe's, too.
                let Some(&index) = waiting.get(&answer.identity) else { continue };
                if probes[index].flow != answer.flow {
                    continue;
                }
                waiting.remove(&answer.identity);
                let at = datagram.control.stamp.unwrap_or_else(realtime);
                seen[index].answer = Some((at, answer));
            }
            if count < MESSAGES {
                return Ok(());
            }
        }
    }
}
