//! The host under test: a sender and a receiver of perhop, with the settings of a script.

use std::collections::VecDeque;

use perhop_core::{Duration, Ecn, Time};
use perhop_tcp::{EcnMode, Flags, Receiver, ReceiverConfig, SackBlocks, Segment, Sender, Seq};

use crate::linux::Connection;
use crate::script::Packet;

/// Settings of Linux that a script's commands change, and what was agreed on in its handshake.
#[derive(Clone, Debug)]
pub struct Settings {
    pub connection: Connection,
    /// True if the window shrinks after a pause (tcp_slow_start_after_idle).
    pub restarts: bool,
    /// Shift of the peer's windows.
    pub scale: u8,
    /// True without Nagle's algorithm (TCP_NODELAY).
    pub prompt: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let connection = Connection {
            mss: 536,
            cubic: true,
            sack: false,
            timestamps: false,
            ecn: false,
            divisor: 3,
            tick_phase: Duration::from_millis(2),
        };
        Self { connection, restarts: true, scale: 0, prompt: false }
    }
}

/// A segment that the host has sent, and when.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub at: Time,
    pub segment: Segment,
}

impl Sent {
    /// Returns the position of the first byte and that after the last one.
    pub fn range(&self) -> (u64, u64) {
        let start = u64::from(self.segment.seq.0);
        (start, start + u64::from(self.segment.payload))
    }
}

/// A host with its connection.
pub struct Host {
    settings: Settings,
    pub sender: Sender,
    receiver: Receiver,
    /// What it has sent and the script has not asked for yet.
    pub sent: VecDeque<Sent>,
    last_sent: Time,
    /// Bytes that the application has read.
    read: u64,
    /// End of the last segment that was not full.
    small_end: u64,
    /// Value of the first timestamp on record, in milliseconds, and the host's own one, in
    /// microseconds.
    stamp: Option<(u32, u32)>,
    /// The same of the first timestamp of the peer that the host takes.
    peers: Option<(u32, u32)>,
}

impl Host {
    /// Creates a host whose SYN was sent at `now`.
    pub fn new(settings: Settings, now: Time) -> Self {
        let connection = &settings.connection;
        let mut sender = Sender::new(connection.sender());
        let mut receiver = Receiver::new(ReceiverConfig {
            window: 1 << 20,
            autotuning: None,
            quick_acks: Some(connection.mss),
            delayed_ack: Duration::from_millis(40),
            sack: connection.sack,
            dsack: connection.sack,
            window_scaling: true,
            timestamps: connection.timestamps,
            ecn: if connection.ecn { EcnMode::Classic } else { EcnMode::Off },
        });
        // Its SYN, which the script has on record.
        let syn = sender.poll(now).map(|segment| segment.timestamps);
        let stamp = syn.flatten().map(|(value, _)| (0, value));
        let ect = if connection.ecn { Flags::ECE.with(Flags::CWR) } else { Flags::default() };
        let peers = Segment {
            flags: Flags::SYN.with(ect),
            timestamps: connection.timestamps.then_some((1, 0)),
            ..Segment::default()
        };
        let _ = receiver.on_segment(now, &peers);
        let sent = VecDeque::new();
        Self {
            settings,
            sender,
            receiver,
            sent,
            last_sent: now,
            read: 0,
            small_end: 0,
            stamp,
            peers: None,
        }
    }

    /// Takes the value that the script gives to the host's first timestamp, in milliseconds.
    pub fn name_stamp(&mut self, value: u32) {
        self.stamp = self.stamp.map(|(_, own)| (value, own));
    }

    /// Takes the peer's acknowledgement of the SYN: with its own SYN, or if the host had one
    /// before, alone, with a window that is shifted.
    pub fn open(&mut self, now: Time, window: u32, alone: bool) {
        let answer = Segment {
            flags: Flags::SYN.with(Flags::ACK).with(match self.settings.connection.ecn {
                true => Flags::ECE,
                false => Flags::default(),
            }),
            seq: Seq(u32::from(alone)),
            ack: Seq(1),
            window: window << if alone { self.settings.scale } else { 0 },
            ..Segment::default()
        };
        self.sender.on_segment(now, &answer);
        if !alone {
            let acknowledgement = self.receiver.confirm(now, &answer, Seq(1));
            self.sent.push_back(Sent { at: now, segment: acknowledgement });
        }
        self.poll(now);
    }

    /// Takes a segment of the peer.
    pub fn take(&mut self, now: Time, packet: &Packet) {
        let segment = self.segment(now, packet);
        let data = segment.payload > 0 || segment.flags.has(Flags::FIN);
        let answer = if data { self.receiver.on_segment(now, &segment) } else { None };
        if !data || self.sender.is_advanced_by(&segment) {
            self.sender.on_segment(now, &segment);
        }
        // What is sent now acknowledges, too.
        if !self.poll(now) {
            answer.into_iter().for_each(|answer| self.acknowledge(now, answer));
        }
    }

    fn segment(&mut self, now: Time, packet: &Packet) -> Segment {
        let letters = [('F', Flags::FIN), ('E', Flags::ECE), ('W', Flags::CWR), ('.', Flags::ACK)];
        let flags = letters.into_iter().filter(|(letter, _)| packet.has(*letter));
        let mut sack = SackBlocks::default();
        packet.options.sack.iter().for_each(|&(start, end)| sack.push(start, end));
        let micros = (now.as_picos() / 1_000_000) as u32;
        let (value, _) = packet.options.timestamps.unwrap_or_default();
        let peers = *self.peers.get_or_insert((value, micros));
        let own = self.stamp.unwrap_or_default();
        let stamp = |(first, own): (u32, u32), value: u32| {
            own.wrapping_add(value.wrapping_sub(first).wrapping_mul(1_000))
        };
        Segment {
            seq: Seq::from_offset(packet.start),
            ack: Seq::from_offset(packet.ack.unwrap_or(0)),
            window: packet.window.unwrap_or(0) << self.settings.scale,
            payload: (packet.end - packet.start) as u16,
            flags: flags.fold(Flags::default(), |all, (_, flag)| all.with(flag)),
            ecn: if packet.marked { Ecn::Ce } else { Ecn::NotEct },
            timestamps: match packet.options.timestamps {
                Some((value, echoed)) if self.settings.connection.timestamps => {
                    Some((stamp(peers, value), stamp(own, echoed)))
                }
                _ => None,
            },
            sack,
        }
    }

    /// Returns `true` if Linux, which has Nagle's algorithm, may hold back the end of `bytes` more:
    /// it is no full segment, and another such one is not acknowledged (tcp_nagle_check).
    pub fn holds_back(&self, bytes: u64) -> bool {
        let una = u64::from(self.sender.next_seq().0) - self.sender.flight();
        let mss = u64::from(self.settings.connection.mss);
        let whole = (self.sender.unsent() + bytes).is_multiple_of(mss);
        !self.settings.prompt && !whole && self.small_end > una
    }

    /// Writes data as the application.
    pub fn write(&mut self, now: Time, bytes: u64) {
        if self.settings.restarts && self.sender.unsent() == 0 && self.sender.flight() == 0 {
            self.sender.restart_after_idle(now, now.since(self.last_sent));
        }
        self.sender.write(bytes);
        self.poll(now);
    }

    pub fn read(&mut self, bytes: u64) {
        self.read += bytes;
    }

    /// Returns `true` if data of the peer was not read, for which Linux ends a connection with RST.
    pub fn has_unread(&self) -> bool {
        self.receiver.received().delivered > self.read
    }

    pub fn close(&mut self, now: Time) {
        self.sender.close();
        self.poll(now);
    }

    /// Returns when a timer is due; [`Time::MAX`] if none is.
    pub fn deadline(&self) -> Time {
        self.sender.deadline().min(self.receiver.deadline())
    }

    /// Lets the timers expire that are due.
    pub fn expire(&mut self, now: Time) {
        if self.receiver.deadline() <= now
            && let Some(answer) = self.receiver.on_timer(now)
        {
            self.acknowledge(now, answer);
        }
        if self.sender.deadline() <= now {
            self.sender.on_timer(now);
        }
        self.poll(now);
    }

    fn acknowledge(&mut self, now: Time, answer: Segment) {
        let segment = Segment { seq: self.sender.next_seq(), ..answer };
        self.sent.push_back(Sent { at: now, segment });
    }

    /// Sends what may be sent; returns `true` if anything was.
    fn poll(&mut self, now: Time) -> bool {
        let before = self.sent.len();
        while let Some(mut segment) = self.sender.poll(now) {
            self.last_sent = now;
            self.receiver.piggyback(now, &mut segment);
            let sent = Sent { at: now, segment };
            if (1..self.settings.connection.mss).contains(&segment.payload) {
                self.small_end = sent.range().1;
            }
            self.sent.push_back(sent);
        }
        self.sent.len() > before
    }
}
