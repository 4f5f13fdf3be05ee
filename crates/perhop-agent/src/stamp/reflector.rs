//! The session-reflector as a service.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use perhop_core::{Dscp, TrafficClass};
use perhop_socket::{
    Batch, ClockQuality, Datagram, Epoll, Event, Interest, Nanos, Socket, clock_quality, monotonic,
    realtime, reduce_wakeup_latency,
};
use perhop_wire::{STAMP_PORT, StampFormat};

use super::key::Key;
use super::limits::Limits;
use super::packet::{Arrival, Permits, Reflection, Refusal, check, reflect};
use super::sessions::Sessions;

/// Settings of a reflector.
#[derive(Clone, Debug)]
pub struct ReflectorSettings {
    /// Key of the authenticated mode; without one, packets are not authenticated.
    pub key: Option<Key>,
    /// Format of time stamps.
    pub format: StampFormat,
    /// True if replies have their own sequence numbers, which shows the direction of losses
    /// (stateful reflector).
    pub stateful: bool,
    /// True if packets that are shorter than the base packet are answered with a base packet (RFC
    /// 8762, section 4.6), which amplifies them.
    pub short: bool,
    /// DSCPs that a sender may request for replies; all by default.
    pub permitted: Vec<Dscp>,
    /// Maximum number of packets per second that are answered per source address.
    pub source_rate: u32,
    /// Maximum number of packets per second that are answered in total.
    pub rate: u32,
    /// Maximum number of simultaneous sessions. Packets of further sessions are not answered.
    pub sessions: usize,
}

impl Default for ReflectorSettings {
    fn default() -> Self {
        Self {
            key: None,
            format: StampFormat::Ntp,
            stateful: true,
            short: false,
            permitted: Dscp::all().collect(),
            source_rate: 1_000,
            rate: 20_000,
            sessions: 4096,
        }
    }
}

impl Permits for Vec<Dscp> {
    fn permits(&self, dscp: Dscp) -> bool {
        self.contains(&dscp)
    }
}

/// Counters of received packets by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answered packets.
    pub answered: u64,
    /// Packets that are too short: an answer would be longer.
    pub short: u64,
    /// Packets with a wrong HMAC.
    pub unauthenticated: u64,
    /// Packets that exceed the limit of rates or sessions.
    pub limited: u64,
    /// Packets from a port of reflectors or of another service, which would answer the answer.
    pub looping: u64,
    /// Packets whose answer could not be sent.
    pub failed: u64,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    counts: [AtomicU64; 6],
}

#[derive(Clone, Copy)]
enum Outcome {
    Answered,
    Short,
    Unauthenticated,
    Limited,
    Looping,
    Failed,
}

/// A session-reflector. Its thread ends when the value is dropped.
#[derive(Debug)]
pub struct Reflector {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Number of datagrams that are received at once.
const BATCH: usize = 32;
/// Size of the longest datagram in bytes.
const LONGEST: usize = 65_535;
/// Interval at which the thread checks for its end, in nanoseconds.
const CHECK_INTERVAL: Nanos = 100_000_000;
/// Interval at which the state of the clock is read, in nanoseconds.
const QUALITY_EVERY: Nanos = 1_000_000_000;
/// The last of the ports of services such as echo (RFC 6335, section 6), and of reflectors.
const SYSTEM_PORTS: u16 = 1023;
const _: () = assert!(STAMP_PORT <= SYSTEM_PORTS);
/// TTL of replies (RFC 5357, section 4.2.1).
const TTL: u8 = 255;

impl Reflector {
    /// Opens the socket in the calling thread's network namespace, and starts to answer packets.
    ///
    /// # Errors
    /// If the address cannot be bound, or a thread cannot be started.
    pub fn start(address: SocketAddr, settings: ReflectorSettings) -> io::Result<Self> {
        let socket = Socket::like(address, libc::SOCK_DGRAM, 0)?;
        if address.is_ipv6() {
            socket.set((libc::IPPROTO_IPV6, libc::IPV6_V6ONLY), 1)?;
        }
        socket.report_traffic_class(address.ip())?;
        socket.report_ttl(address.ip())?;
        socket.report_destination(address.ip())?;
        socket.set_ttl(address.ip(), TTL)?;
        socket.stamp_arrivals()?;
        socket.bind(address)?;
        let address = socket.local_address()?;
        let epoll = Epoll::new()?;
        epoll.add(socket.as_fd(), 0, Interest::Readable)?;
        let shared = Arc::<Shared>::default();
        let limits = Limits::new(settings.source_rate, settings.rate);
        let sessions = Sessions::new(settings.sessions);
        let service = Service {
            own: address.port(),
            socket,
            settings,
            limits,
            sessions,
            quality: clock_quality(),
            shared: Arc::clone(&shared),
        };
        let thread = thread::Builder::new()
            .name("stamp-reflector".into())
            .spawn(move || service.run(&epoll))?;
        Ok(Self { address, shared, thread: Some(thread) })
    }

    /// Returns the local address and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counters of the packets so far.
    pub fn counts(&self) -> Counts {
        let [answered, short, unauthenticated, limited, looping, failed] = [0, 1, 2, 3, 4, 5]
            .map(|place: usize| self.shared.counts[place].load(Ordering::Relaxed));
        Counts { answered, short, unauthenticated, limited, looping, failed }
    }
}

impl Drop for Reflector {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Service {
    own: u16,
    socket: Socket,
    settings: ReflectorSettings,
    limits: Limits,
    sessions: Sessions,
    quality: ClockQuality,
    shared: Arc<Shared>,
}

impl Service {
    fn run(mut self, epoll: &Epoll) {
        // No real-time priority: a flood would take a processor from all others.
        reduce_wakeup_latency(false);
        let mut batch = Batch::new(BATCH, LONGEST);
        let mut events = [Event { events: 0, u64: 0 }; 1];
        let mut asked = monotonic();
        while !self.shared.stop.load(Ordering::Relaxed) {
            if epoll.wait(&mut events, monotonic() + CHECK_INTERVAL).is_err() {
                return;
            }
            if monotonic() - asked > QUALITY_EVERY {
                (self.quality, asked) = (clock_quality(), monotonic());
            }
            // An error is an ICMP error about an earlier reply; the next call continues.
            let count = batch.receive(&self.socket).unwrap_or(0);
            for number in 0..count {
                let outcome = self.answer(&batch.get(number));
                self.shared.counts[outcome as usize].fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn answer(&mut self, datagram: &Datagram<'_>) -> Outcome {
        let Some(from) = datagram.from else { return Outcome::Failed };
        if from.port() <= SYSTEM_PORTS || from.port() == self.own {
            return Outcome::Looping;
        }
        let now = monotonic();
        if !self.limits.allow(from.ip(), now) {
            return Outcome::Limited;
        }
        let (bytes, control) = (datagram.bytes, datagram.control);
        let key = self.settings.key.as_ref();
        let request = match check(bytes, key, self.settings.short) {
            Ok(request) => request,
            Err(Refusal::Short) => return Outcome::Short,
            Err(Refusal::Unauthenticated) => return Outcome::Unauthenticated,
        };
        let counters = if self.settings.stateful {
            let Some(counters) = self.sessions.count((from, control.to, request.ssid), now) else {
                return Outcome::Limited;
            };
            Some(counters)
        } else {
            None
        };
        let arrival = Arrival {
            at: control.stamp.unwrap_or_else(realtime),
            ttl: control.ttl.unwrap_or(0),
            class: TrafficClass::from_octet(control.traffic_class.unwrap_or(0)),
        };
        let with = Reflection {
            key,
            format: self.settings.format,
            quality: self.quality,
            permitted: &self.settings.permitted,
            counters,
            short: self.settings.short,
        };
        let (reply, class) = reflect(bytes, &request, arrival, &with, realtime);
        let own = control.to.filter(|own| !is_multicast(own));
        match self.socket.send_from(&reply, own, from, class.octet()) {
            Ok(_) => Outcome::Answered,
            Err(_) => Outcome::Failed,
        }
    }
}

/// Returns whether an address is a multicast or broadcast address, which cannot be a source.
fn is_multicast(address: &IpAddr) -> bool {
    address.is_multicast() || *address == IpAddr::from([255, 255, 255, 255])
}
