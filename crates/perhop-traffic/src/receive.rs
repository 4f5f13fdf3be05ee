//! The receiving thread: it accepts connections, reads from them, and receives datagrams and
//! answers to probes.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use perhop_core::{Ecn, TrafficClass};

use crate::icmp::{self, Message};
use crate::open::clamp_window;
use crate::payload::Payload;
use crate::ping::Answered;
use crate::proof::{Frame, Renewals};
use crate::shared::{Shared, StreamId};
use crate::stream::{FlowReceived, lock};
use crate::tap;
use perhop_socket::{Batch, Control, Datagram, Epoll, Event, Interest, Socket, realtime};

/// Bytes of a stream that are read at once.
const CHUNK: usize = 4 << 20;
/// Batches of datagrams that are read from a socket before the next socket.
const MAX_BATCHES: usize = 4;

/// Batches of packets of proofs at most.
const MAX_PROOF: usize = 64;

/// Number of windows of data after which a connection is no longer new.
pub(crate) const NEW_CONNECTION_WINDOWS: u64 = 16;

/// A source of epoll events.
#[derive(Debug)]
pub(crate) enum EventSource {
    Listener(SocketAddr, Socket),
    Datagrams(SocketAddr, Socket),
    /// ICMP (false) or ICMPv6 (true) of a node with these addresses.
    Icmp {
        v6: bool,
        at: Vec<IpAddr>,
        socket: Socket,
    },
    Tap(Socket),
    Connection(StreamId),
}

struct Receiver<'a> {
    shared: &'a Shared,
    epoll: Epoll,
    sources: Vec<EventSource>,
    /// Buffers for merged datagrams, and for headers.
    large: Batch,
    small: Batch,
    /// Buffer for discarded stream data, which is never written.
    room: Box<[MaybeUninit<u8>]>,
    /// Addresses and stream of the last datagram.
    last: Option<((SocketAddr, SocketAddr), StreamId)>,
}

/// Receives until the end of the run.
pub(crate) fn receive(
    shared: &Shared,
    sources: Vec<EventSource>,
    mut renewals: Renewals,
) -> io::Result<()> {
    let epoll = Epoll::new()?;
    for (number, source) in sources.iter().enumerate() {
        let socket = match source {
            EventSource::Listener(_, socket)
            | EventSource::Datagrams(_, socket)
            | EventSource::Icmp { socket, .. }
            | EventSource::Tap(socket) => socket,
            EventSource::Connection(id) => match shared.at(*id).1.receiver.get() {
                Some(socket) => socket,
                None => continue,
            },
        };
        epoll.add(socket.as_fd(), number as u64, Interest::Readable)?;
    }
    let (large, mut small) = (Batch::new(16, 1 << 16), Batch::new(256, tap::SNAP));
    if shared.proof.is_some() {
        // Discard the packets of the proofs: they are not packets of the flows.
        for source in &sources {
            let EventSource::Tap(socket) = source else { continue };
            let _ = (0..MAX_PROOF).take_while(|_| small.receive(socket).is_ok()).count();
        }
    }
    let room = Box::new_uninit_slice(CHUNK);
    let mut receiver = Receiver { shared, epoll, sources, large, small, room, last: None };
    let mut ready = vec![Event { events: 0, u64: 0 }; 256];
    while !shared.clock.is_over() {
        let next = renewals.deadline();
        let count = receiver.epoll.wait(&mut ready, shared.clock.wake(next))?;
        for event in &ready[..count] {
            receiver.serve(event.u64 as usize)?;
        }
        renewals.run(shared, &receiver.sources);
    }
    Ok(())
}

impl Receiver<'_> {
    fn serve(&mut self, number: usize) -> io::Result<()> {
        match &self.sources[number] {
            EventSource::Listener(..) => self.accept(number),
            &EventSource::Connection(id) => self.read(id),
            EventSource::Datagrams(at, socket) => {
                for _ in 0..MAX_BATCHES {
                    let Ok(count) = self.large.receive(socket) else { break };
                    let mut received = None;
                    for number in 0..count {
                        let datagram = self.large.get(number);
                        take(self.shared, *at, &datagram, &mut self.last, &mut received);
                    }
                    if count < 16 {
                        break;
                    }
                }
                Ok(())
            }
            EventSource::Icmp { v6, at, socket } => {
                while let Ok(count) = self.small.receive(socket) {
                    for number in 0..count {
                        handle_icmp(self.shared, (*v6, at), &self.small.get(number));
                    }
                    if count < 256 {
                        break;
                    }
                }
                Ok(())
            }
            EventSource::Tap(socket) => {
                for _ in 0..MAX_BATCHES {
                    let Ok(count) = self.small.receive(socket) else { break };
                    for number in 0..count {
                        count_tcp(self.shared, &self.small.get(number));
                    }
                    if count < 256 {
                        break;
                    }
                }
                let dropped = socket.take_packets_dropped();
                self.shared.counters.unseen.fetch_add(dropped, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    fn accept(&mut self, number: usize) -> io::Result<()> {
        let EventSource::Listener(at, listener) = &self.sources[number] else { return Ok(()) };
        let at = *at;
        let mut accepted = Vec::new();
        while let Ok((socket, from)) = listener.accept() {
            match from.and_then(|from| self.shared.find(false, from, at)) {
                Some(id) => accepted.push((id, socket)),
                None => self.shared.unknown_sender(),
            }
        }
        for (id, socket) in accepted {
            let (flow, stream) = self.shared.at(id);
            // Several flows may share the listener.
            let _ = socket.set_traffic_class(at.ip(), TrafficClass::new(flow.dscp).octet());
            clamp_window(&socket, flow.window);
            if stream.receiver.set(socket).is_err() {
                self.shared.unknown_sender();
                continue;
            }
            let socket = stream.receiver.get().expect("it was just set");
            self.epoll.add(socket.as_fd(), self.sources.len() as u64, Interest::Readable)?;
            self.sources.push(EventSource::Connection(id));
        }
        Ok(())
    }

    fn read(&mut self, id: StreamId) -> io::Result<()> {
        let (flow, stream) = self.shared.at(id);
        let Some(socket) = stream.receiver.get() else { return Ok(()) };
        match socket.discard(&mut self.room) {
            Ok(0) => {
                socket.end();
                self.epoll.remove(socket.as_fd())
            }
            Ok(bytes) => {
                if stream.delivered.load(Ordering::Relaxed)
                    < NEW_CONNECTION_WINDOWS * u64::from(flow.window)
                {
                    clamp_window(socket, flow.window);
                }
                let since_start = self.shared.clock.now().saturating_sub(flow.starts[id.stream]);
                stream.deliver(bytes as u64, flow.volume, since_start);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(_) => self.epoll.remove(socket.as_fd()),
        }
    }
}

/// Counts a datagram, or several that the kernel has merged.
fn take<'a>(
    shared: &'a Shared,
    at: SocketAddr,
    datagram: &Datagram<'_>,
    last: &mut Option<((SocketAddr, SocketAddr), StreamId)>,
    received: &mut Option<(usize, std::sync::MutexGuard<'a, FlowReceived>)>,
) {
    let Some(from) = datagram.from else { return shared.unknown_sender() };
    let id = match last {
        Some((ends, id)) if *ends == (from, at) => Some(*id),
        _ => shared.find(true, from, at),
    };
    let Some(id) = id else { return shared.unknown_sender() };
    *last = Some(((from, at), id));
    if received.as_ref().is_none_or(|(flow, _)| *flow != id.flow) {
        // Unlock it before another one is locked.
        *received = None;
        *received = Some((id.flow, lock(&shared.flows[id.flow].received)));
    }
    let Some((_, flow)) = received else { return };
    let size = datagram.control.segment.unwrap_or(datagram.bytes.len()).max(1);
    for bytes in datagram.bytes.chunks(size) {
        match Payload::read(bytes, shared.tag) {
            Some(payload) if shared.was_sent(id, payload.sequence) => {
                count(flow, id.stream, payload, bytes.len(), &datagram.control);
            }
            // Frames of the proof may arrive twice.
            _ if shared.proof.is_some_and(|token| Frame::read(bytes, token).is_some()) => {}
            _ => shared.unknown_sender(),
        }
    }
}

/// Counts a datagram.
fn count(
    flow: &mut FlowReceived,
    stream: usize,
    payload: Payload,
    bytes: usize,
    control: &Control,
) {
    let class = control.traffic_class.unwrap_or(0);
    flow.count(0, class, 1);
    let arrived = control.stamp.unwrap_or_else(realtime);
    let (transit, delay) = flow.delay(arrived, payload.sent);
    let received = &mut flow.datagrams[stream];
    received.next = received.next.max(payload.sequence + 1);
    received.longest = received.longest.max(delay.unwrap_or_default());
    let marked = class & 3 == Ecn::Ce as u8;
    let first =
        received.meter.add_stamped(payload.sequence, bytes as u64, (transit, delay), marked);
    if let (true, Some(delay)) = (first, delay) {
        if let Some(playout) = &mut received.playout {
            playout.arrive(payload.sequence, delay);
        }
        flow.delays.add(delay);
    }
}

/// Handles an ICMP message.
fn handle_icmp(shared: &Shared, (v6, at): (bool, &[IpAddr]), datagram: &Datagram<'_>) {
    let (class, message) = if v6 {
        let class = datagram.control.traffic_class.map(TrafficClass::from_octet);
        (class, icmp::message_6(datagram.bytes))
    } else {
        match icmp::ipv4(datagram.bytes) {
            Some((class, behind)) => (Some(class), icmp::message(behind)),
            None => (None, None),
        }
    };
    let (Some(from), Some(class), Some(message)) = (datagram.from, class, message) else { return };
    let ends = (from.ip(), at);
    let stamp = datagram.control.stamp.unwrap_or_else(realtime);
    let answer = |probe, answered: Answered| {
        shared.pings.iter().any(|ping| ping.on_answer(shared, ends, stamp, probe, answered))
    };
    let ours = match message {
        Message::Request(probe) => {
            shared.pings.iter().any(|ping| ping.on_request(ends, probe, class))
        }
        Message::Reply(probe) => {
            answer(probe, Answered { class, error: None, quoted: None, destination: None })
        }
        Message::Error { error, probe, class: quoted, destination } => answer(
            probe,
            Answered {
                class,
                error: Some(error),
                quoted: Some(quoted),
                destination: Some(destination),
            },
        ),
    };
    if !ours {
        shared.unknown_sender();
    }
}

/// Counts a TCP packet that arrived with another DSCP or ECN field than most are sent with.
fn count_tcp(shared: &Shared, datagram: &Datagram<'_>) {
    let Some(packet) = tap::parse(datagram.bytes) else { return };
    let data = shared.find(false, packet.from, packet.to).map(|id| (id, 0));
    let answer = || shared.find(false, packet.to, packet.from).map(|id| (id, 1));
    let Some((id, end)) = data.or_else(answer) else { return shared.unknown_sender() };
    let flow = &shared.flows[id.flow];
    // Merged segments (GRO) count one by one; the kernel only merges segments with the same mark.
    let segments = (packet.payload as u64).div_ceil(flow.segment.max(1)).max(1);
    if packet.class.ecn() == Ecn::Ce && end == 0 && packet.payload > 0 {
        flow.streams[id.stream].marked.fetch_add(segments, Ordering::Relaxed);
    }
    if packet.class == flow.classes[end] {
        return; // of another flow with the same port
    }
    lock(&flow.received).count(end, packet.class.octet(), segments);
}
