//! Packets of a socket in its host's own queue, and the limits that block its sender.
//!
//! As in Linux, a packet is charged to its sender's socket until its transmission begins. The queue
//! before a host's link is that of the link: drop-tail with `txqueuelen` packets, unless the
//! scenario sets another.

use perhop_core::Time;
use perhop_net::{Departures, Waits};
use perhop_workload::WhenFull;

use super::bodies::{Bodies, BodyId, Message, Stored};
use super::{DATAGRAM_HEADER, Endpoint, ModelledHosts, Net, Role, UDP_HEADER};

/// Send buffer of a UDP socket, in bytes of memory.
pub(crate) const SEND_BUFFER: u64 = perhop_workload::SEND_BUFFER as u64;

/// A socket's packets in its host's own queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Socket {
    /// Waiting bytes: of IP for TCP, of memory for UDP.
    pub queued: u64,
    /// True if its sender waits for room.
    pub blocked: bool,
}

/// Returns the memory of a datagram of `size` IP bytes: Linux's `SKB_TRUESIZE` with the structures
/// of 64-bit systems. Payload and `skb_shared_info` are in a block of `kmalloc`, whose sizes are
/// powers of two here.
fn truesize(size: u32) -> u64 {
    const SK_BUFF: u64 = 256;
    const SHARED_INFO: u64 = 320;
    /// Room for the Ethernet header, aligned, and 15 bytes more (`__ip_append_data`).
    const HEADROOM: u64 = 16 + 15;
    SK_BUFF + (u64::from(size) + HEADROOM + SHARED_INFO).next_power_of_two()
}

impl Socket {
    /// Returns `true` if the buffer of a UDP socket is full and its sender waits for room.
    pub fn is_full(&mut self, waits: bool) -> bool {
        self.blocked |= waits && self.queued >= SEND_BUFFER;
        self.blocked
    }

    /// Removes a datagram of `size` IP bytes; returns `true` if its sender may go on: Linux's
    /// `sock_writeable`.
    fn remove(&mut self, size: u32) -> bool {
        self.queued -= truesize(size);
        let writeable = 2 * self.queued < SEND_BUFFER;
        std::mem::take(&mut self.blocked) && {
            self.blocked = !writeable;
            writeable
        }
    }
}

impl ModelledHosts {
    /// Sends the datagrams that are due.
    pub(super) fn send_datagrams(&mut self, network: &mut Net, id: u32) {
        let now = network.now();
        loop {
            let endpoint = &mut self.endpoints[id as usize];
            let Role::UdpSender(udp) = &mut endpoint.role else { return };
            if !udp.may_send(now) {
                return;
            }
            let payload = udp.next_payload();
            let size = DATAGRAM_HEADER + payload;
            if size + endpoint.line.header.size > udp.mtu {
                self.send_fragments(network, id, UDP_HEADER + payload as u16);
                continue;
            }
            let message = Message::Datagram { sequence: udp.sent - 1 };
            let (packet, sent) = endpoint.line.send(network, &mut self.bodies, size, message);
            match udp.when_full {
                WhenFull::Drop => {}
                WhenFull::Wait => {
                    if let Some(waits) = sent.waits {
                        self.wait(network, id, packet, waits);
                    }
                }
                WhenFull::Retry(after) => {
                    // Another packet may have been dropped.
                    udp.unconfirmed = sent.dropped.then_some((packet.0, payload));
                    if sent.dropped {
                        udp.not_before = now + after;
                    }
                }
            }
        }
    }

    /// Handles a packet that waits in its host's own queue. It is charged to its endpoint once that
    /// may block the sender.
    #[inline(never)]
    pub(super) fn wait(
        &mut self,
        network: &mut Net,
        id: u32,
        (body, size): (BodyId, u32),
        waits: Waits,
    ) {
        let (endpoints, bodies) = (&mut self.endpoints, &mut self.bodies);
        match waits.departures {
            Departures::Reported => charge(endpoints, bodies, (body, size)),
            Departures::Unknown => {
                network.report_departures(waits.port, |_, _| {});
                charge(endpoints, bodies, (body, size));
            }
            Departures::Scheduled => {
                let bytes = waits.bytes.get();
                let is_over_limit = match &endpoints[id as usize].role {
                    Role::TcpSender(tcp) => tcp.sender.is_over_queue_limit(bytes),
                    Role::Connection(end) => end.sender.is_over_queue_limit(bytes),
                    // The least memory for that many bytes.
                    _ => bytes > SEND_BUFFER / 4,
                };
                if is_over_limit {
                    network.report_departures(waits.port, |&body, size| {
                        charge(endpoints, bodies, (body, size));
                    });
                }
            }
        }
    }

    /// Handles a packet that has left a queue. If it was sent before this instant, its host's own
    /// queue has accepted it, and it is not sent again.
    pub(super) fn confirm_accepted(&mut self, now: Time, body: BodyId) {
        let slot = self.bodies.slot(body);
        let peer = self.endpoints[body.endpoint as usize].line.peer;
        if slot.sent < now
            && let Role::UdpSender(udp) = &mut self.endpoints[peer as usize].role
            && udp.unconfirmed.is_some_and(|(last, _)| last == body)
        {
            udp.unconfirmed = None;
        }
    }

    /// Removes the charge of a packet that has left the queue; its sender continues if there is
    /// room again.
    pub(super) fn release(&mut self, body: BodyId, size: u32) -> Option<u32> {
        if !self.bodies.discharge(body) {
            return None;
        }
        let id = self.endpoints[body.endpoint as usize].line.peer;
        match &mut self.endpoints[id as usize].role {
            Role::TcpSender(tcp) => {
                tcp.socket.queued -= u64::from(size);
                (tcp.socket.blocked && !tcp.is_blocked()).then_some(id)
            }
            Role::Connection(end) => {
                end.socket.queued -= u64::from(size);
                if end.is_over() {
                    self.end_if_closed(id);
                    return None;
                }
                (end.socket.blocked && !end.is_blocked()).then_some(id)
            }
            Role::UdpSender(udp) => udp.socket.remove(size).then_some(id),
            Role::QuicSender(quic) => quic.socket.remove(size).then_some(id),
            Role::QuicEnd(end) => {
                let goes_on = end.socket.remove(size);
                self.end_if_closed(id);
                goes_on.then_some(id)
            }
            _ => None,
        }
    }
}

/// Charges a packet of `size` bytes that waits in its host's own queue to its sender.
fn charge(endpoints: &mut [Endpoint], bodies: &mut Bodies, (body, size): (BodyId, u32)) {
    if let Stored::Error(_) = bodies.slot(body).message {
        return;
    }
    let sender = endpoints[body.endpoint as usize].line.peer;
    match &mut endpoints[sender as usize].role {
        Role::TcpSender(tcp) if tcp.small_queues => tcp.socket.queued += u64::from(size),
        Role::Connection(end) if end.small_queues => end.socket.queued += u64::from(size),
        Role::UdpSender(udp) if udp.when_full == WhenFull::Wait => {
            udp.socket.queued += truesize(size);
        }
        Role::QuicSender(quic) if quic.waits => quic.socket.queued += truesize(size),
        Role::QuicEnd(end) if end.waits => end.socket.queued += truesize(size),
        _ => return,
    }
    bodies.charge(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_datagram_takes_what_linux_says() {
        // /proc/net/udp's tx_queue after one of 1472 bytes on Ethernet.
        assert_eq!(truesize(1500), 2304);
        assert_eq!(SEND_BUFFER.div_ceil(truesize(1500)), 93);
    }
}
