//! One end of a connection with data in both directions.
//!
//! Each direction has its own [`Sender`] and [`Receiver`]. Both share the client's handshake: the
//! SYN of the server's direction travels with the acknowledgement of the client's, and is passed to
//! the client's receiver when the client is heard again.

use std::collections::VecDeque;

use perhop_app::{Frame, Frames, Request, Responder};
use perhop_core::{Duration, Header, Time};
use perhop_measure::Samples;
use perhop_tcp::{EcnMode, Receiver, Segment, Sender};

use super::OverTcp;
use crate::hosts::SrttReadings;
use crate::hosts::socket::Socket;

/// Unsent bytes of a server below which it writes the next frame, so that frames are interleaved
/// shortly before they are sent (Linux's TCP_NOTSENT_LOWAT).
const LOW_WATER: u64 = 16_384;

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub sender: Sender,
    pub receiver: Receiver,
    pub socket: Socket,
    pub small_queues: bool,
    /// Endpoint of the client, and the connection's number there.
    pub client: u32,
    pub number: u32,
    pub side: Side,
    /// Frames that arrive here.
    pub inbound: Frames,
    /// Requests among them, in order.
    pub requests: VecDeque<Request>,
    /// Bytes that were taken from the receiver.
    pub taken: u64,
    /// True if data segments carry acknowledgements that the peer has not had.
    pub piggyback: bool,
    /// Time of the last transmission.
    pub last_sent: Time,
    pub rtt: Samples,
    pub srtt: Samples,
    pub srtt_readings: SrttReadings,
    pub delay: Samples,
    /// Data segments that the network lost.
    pub lost: u64,
}

/// Side of a connection.
#[derive(Debug)]
pub(crate) enum Side {
    Client,
    Server {
        responder: Responder,
        /// SYN of the server's direction, from the arrival of the client's until the client is
        /// heard again.
        syn: Option<Segment>,
    },
}

impl Connection {
    pub fn new(
        (sender, receiver): (Sender, Receiver),
        (client, number): (u32, u32),
        config: &OverTcp,
        side: Side,
    ) -> Self {
        Self {
            sender,
            receiver,
            socket: Socket::default(),
            small_queues: config.small_queues,
            client,
            number,
            side,
            inbound: Frames::default(),
            requests: VecDeque::new(),
            taken: 0,
            piggyback: config.sender.ecn == EcnMode::Off,
            last_sent: Time::ZERO,
            rtt: Samples::default(),
            srtt: Samples::default(),
            srtt_readings: SrttReadings::NONE,
            delay: Samples::default(),
            lost: 0,
        }
    }

    pub fn is_client(&self) -> bool {
        matches!(self.side, Side::Client)
    }

    /// Returns `true` if this is the server's end, `own` the header of its packets, and `packet`
    /// that of one of them.
    pub fn serves(&self, own: &Header, packet: &Header) -> bool {
        !self.is_client() && own.destination_port == packet.destination_port
    }

    pub fn deadline(&self) -> Time {
        let tcp = self.sender.deadline().min(self.receiver.deadline());
        match &self.side {
            Side::Server { responder, .. }
                if !self.socket.blocked && self.sender.unsent() < LOW_WATER =>
            {
                tcp.min(responder.deadline())
            }
            _ => tcp,
        }
    }

    /// Returns `true` if the limit of data in the host's own queue is reached.
    pub fn is_blocked(&mut self) -> bool {
        self.socket.blocked =
            self.small_queues && self.sender.is_over_queue_limit(self.socket.queued);
        self.socket.blocked
    }

    /// Returns `true` if nothing of this end is on its way any more.
    pub fn is_over(&self) -> bool {
        self.sender.is_finished() && self.receiver.has_ended() && self.socket.queued == 0
    }

    /// Writes data. After a pause, the window is smaller.
    pub fn write(&mut self, now: Time, bytes: u64) {
        if self.sender.unsent() == 0 && self.sender.is_open() {
            self.sender.restart_after_idle(now, now.since(self.last_sent));
        }
        self.sender.write(bytes);
    }

    /// Returns the next frame that the server writes, if there is room for it.
    pub fn next_frame(&mut self, now: Time) -> Option<Frame> {
        let Side::Server { responder, .. } = &mut self.side else { return None };
        if self.sender.unsent() >= LOW_WATER {
            return None;
        }
        let frame = responder.next_frame(now)?;
        self.write(now, frame.bytes());
        Some(frame)
    }

    /// Closes the server's direction once the client has closed its own and every response is
    /// written.
    pub fn follow_close(&mut self) {
        if let Side::Server { responder, .. } = &self.side
            && self.receiver.has_ended()
            && responder.is_idle()
        {
            self.sender.close();
        }
    }

    /// Records a round-trip time. Returns the smoothed one if a reading is due.
    pub fn measure(&mut self, now: Time, rtt: Duration) -> Option<Duration> {
        self.rtt.add(rtt);
        if !self.srtt_readings.is_due(now) {
            return None;
        }
        let smoothed = self.sender.smoothed_rtt();
        smoothed.into_iter().for_each(|smoothed| self.srtt.add(smoothed));
        smoothed
    }
}
