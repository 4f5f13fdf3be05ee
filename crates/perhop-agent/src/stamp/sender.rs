//! The session-sender.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use perhop_core::{Dscp, TrafficClass};
use perhop_measure::Exchange;
use perhop_socket::{
    Batch, ClockQuality, Datagram, Epoll, Event, Interest, Nanos, Socket, clock_quality, monotonic,
    realtime,
};
use perhop_wire::{
    ClassOfService, DirectMeasurement, STAMP_HMAC, STAMP_TLV_HEADER, StampError, StampFormat,
    StampReply, StampRequest, push_stamp_tlv, stamp_tlv,
};
use ring::rand::{SecureRandom, SystemRandom};

use super::key::Key;
use super::packet::{authenticate, is_authentic, mode, stamp_error, usable};

/// Settings of a session-sender.
#[derive(Clone, Debug)]
pub struct SenderSettings {
    /// Key of the authenticated mode.
    pub key: Option<Key>,
    /// Format of time stamps.
    pub format: StampFormat,
    /// DSCP and ECN field of packets.
    pub class: TrafficClass,
    /// Requested DSCP of replies.
    pub reply_dscp: Dscp,
    /// True if replies without the session's identifier are ignored. A reflector that does not know
    /// RFC 8972 returns zeros for it (section 3).
    pub needs_ssid: bool,
    /// True if padding has zeros instead of random bytes (RFC 8972, section 4.1).
    pub zero_padding: bool,
    /// True if the reflector is trusted to state the error of its clock.
    pub trusts_clock: bool,
    /// True if packets have a Class of Service TLV. Without TLVs they are packets of RFC 8762.
    pub class_of_service: bool,
    /// True if packets have a Direct Measurement TLV.
    pub direct_measurement: bool,
    /// Length of packets in bytes, without UDP and IP; packets with longer contents exceed it.
    pub size: usize,
    /// Time limit of replies, in nanoseconds.
    pub timeout: Duration,
}

impl Default for SenderSettings {
    fn default() -> Self {
        Self {
            key: None,
            format: StampFormat::Ntp,
            class: TrafficClass::from_octet(0),
            reply_dscp: Dscp::DEFAULT,
            needs_ssid: false,
            zero_padding: false,
            trusts_clock: false,
            class_of_service: false,
            direct_measurement: false,
            size: 0,
            timeout: Duration::from_secs(2),
        }
    }
}

/// A reply and its contents.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Sequence number of the packet.
    pub sequence: u32,
    /// Sequence number of the reply.
    pub reply_sequence: u32,
    /// Time stamps of both packets.
    pub exchange: Exchange,
    /// Error estimate of the reflector's clock.
    pub error: StampError,
    /// Sum of the errors against UTC that both hosts state, in nanoseconds; `None` if one is not
    /// synchronised, or states none.
    pub stated_error: Option<u64>,
    /// TTL or hop limit that the packet arrived with.
    pub ttl_forward: u8,
    /// TTL or hop limit that the reply arrived with.
    pub ttl_backward: Option<u8>,
    /// DSCP and ECN field that the packet arrived with, and true if the reflector refused the
    /// requested DSCP. `None` if the reflector does not support the Class of Service TLV.
    pub class_forward: Option<(TrafficClass, bool)>,
    /// DSCP and ECN field that the reply arrived with.
    pub class_backward: Option<TrafficClass>,
    /// Counters of the session, if the reflector keeps them.
    pub counters: Option<DirectMeasurement>,
}

impl Answer {
    /// Returns the round-trip time without the time between the reflector's time stamps, in
    /// nanoseconds; `None` if these are farther apart than this host's own.
    pub fn round_trip(&self) -> Option<Nanos> {
        let Exchange { sent, received, replied, returned } = self.exchange;
        returned.checked_sub(sent)?.checked_sub(replied.checked_sub(received)?)
    }
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    sequence: u32,
    timestamp: u64,
    sent: Nanos,
    until: Nanos,
    /// Error of this host's clock, if one is stated.
    error: Option<Nanos>,
}

/// Maximum number of outstanding packets.
const WAITING: usize = 1 << 16;
/// Size of the longest packet in bytes.
const LONGEST: usize = 65_507;
const BATCH: usize = 32;

/// A session with a reflector.
pub struct Sender {
    socket: Socket,
    epoll: Epoll,
    batch: Batch,
    settings: SenderSettings,
    ssid: u16,
    next: u32,
    waiting: VecDeque<Waiting>,
    stray: u64,
}

impl Sender {
    /// Opens a session with a reflector, in the calling thread's network namespace.
    ///
    /// # Errors
    /// If a socket cannot be created, there is no route, or the size exceeds that of a datagram.
    pub fn new(to: SocketAddr, settings: SenderSettings) -> io::Result<Self> {
        if settings.size > LONGEST {
            let what = format!("a packet of {} B: expected at most {LONGEST} B", settings.size);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let socket = Socket::like(to, libc::SOCK_DGRAM, 0)?;
        socket.report_traffic_class(to.ip())?;
        socket.report_ttl(to.ip())?;
        // RFC 5357, section 4.1.2.
        socket.set_ttl(to.ip(), 255)?;
        socket.set_traffic_class(to.ip(), settings.class.octet())?;
        socket.stamp_arrivals()?;
        socket.connect(to)?;
        let epoll = Epoll::new()?;
        epoll.add(socket.as_fd(), 0, Interest::Readable)?;
        let mut random = [0; 2];
        let _ = SystemRandom::new().fill(&mut random);
        let ssid = u16::from_be_bytes(random).max(1);
        let batch = Batch::new(BATCH, LONGEST);
        let (next, waiting, stray) = (0, VecDeque::new(), 0);
        Ok(Self { socket, epoll, batch, settings, ssid, next, waiting, stray })
    }

    /// Returns the number of sent packets.
    pub fn sent(&self) -> u32 {
        self.next
    }

    /// Returns the number of received packets that are no reply to an outstanding one.
    pub fn stray(&self) -> u64 {
        self.stray
    }

    /// Returns the source address of packets.
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub fn address(&self) -> io::Result<IpAddr> {
        Ok(self.socket.local_address()?.ip())
    }

    /// Sends the next packet.
    ///
    /// # Errors
    /// If the kernel refuses to send it; the packet counts as sent.
    pub fn send(&mut self) -> io::Result<()> {
        let sequence = self.next;
        self.next = self.next.wrapping_add(1);
        let (quality, format) = (clock_quality(), self.settings.format);
        let error = stamp_error(quality, format);
        let mut request = StampRequest { sequence, timestamp: 0, error, ssid: self.ssid };
        let key = self.settings.key.as_ref();
        let tlvs = self.tlvs(sequence);
        let until = monotonic() + self.settings.timeout.as_nanos() as u64;
        let sent = realtime();
        request.timestamp = format.bits(sent);
        let mut packet = request.emit(mode(key));
        authenticate(&mut packet, key);
        packet.extend(tlvs);
        if self.waiting.len() == WAITING {
            self.waiting.pop_front();
        }
        let timestamp = request.timestamp;
        self.waiting.push_back(Waiting { sequence, timestamp, sent, until, error: quality.error });
        self.socket.send(&packet).map(|_| ())
    }

    fn tlvs(&self, sequence: u32) -> Vec<u8> {
        let (mut tlvs, key) = (Vec::new(), self.settings.key.as_ref());
        if self.settings.class_of_service {
            let received = TrafficClass::from_octet(0);
            let class = ClassOfService { wanted: self.settings.reply_dscp, received, reverse: 0 };
            push_stamp_tlv(&mut tlvs, stamp_tlv::CLASS_OF_SERVICE, &class.emit());
        }
        if self.settings.direct_measurement {
            let sent = sequence.wrapping_add(1);
            let counters = DirectMeasurement { sent, ..DirectMeasurement::default() };
            push_stamp_tlv(&mut tlvs, stamp_tlv::DIRECT_MEASUREMENT, &counters.emit());
        }
        if let Some(key) = key.filter(|_| !tlvs.is_empty()) {
            let tag: [u8; STAMP_HMAC] = key.tag(&[&sequence.to_be_bytes(), &tlvs]);
            push_stamp_tlv(&mut tlvs, stamp_tlv::HMAC, &tag);
        }
        let length = mode(key).length() + tlvs.len();
        if let Some(missing) = self.settings.size.checked_sub(length + STAMP_TLV_HEADER) {
            let mut padding = vec![0; missing];
            if !self.settings.zero_padding {
                // Without random bytes it stays zero, which is allowed, too.
                let _ = SystemRandom::new().fill(&mut padding);
            }
            push_stamp_tlv(&mut tlvs, stamp_tlv::EXTRA_PADDING, &padding);
        }
        tlvs
    }

    /// Passes replies to `take` until the monotonic clock reaches `until`, or no replies are
    /// outstanding.
    ///
    /// # Errors
    /// If waiting fails.
    pub fn receive(&mut self, until: Nanos, mut take: impl FnMut(Answer)) -> io::Result<()> {
        loop {
            let now = monotonic();
            while self.waiting.front().is_some_and(|first| first.until <= now) {
                self.waiting.pop_front();
            }
            if now >= until || self.waiting.is_empty() {
                return Ok(());
            }
            let first = self.waiting.front().map_or(until, |first| first.until.min(until));
            let mut events = [Event { events: 0, u64: 0 }; 1];
            self.epoll.wait(&mut events, first)?;
            // An error is an ICMP error about an earlier packet, which is lost.
            let count = self.batch.receive(&self.socket).unwrap_or(0);
            for number in 0..count {
                match answer(&self.batch.get(number), &self.settings, self.ssid, &mut self.waiting)
                {
                    Some(answer) => take(answer),
                    None => self.stray += 1,
                }
            }
        }
    }

    /// Returns whether replies are outstanding.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

/// Parses the reply to an outstanding packet, which is then no longer outstanding.
fn answer(
    datagram: &Datagram<'_>,
    settings: &SenderSettings,
    ssid: u16,
    waiting: &mut VecDeque<Waiting>,
) -> Option<Answer> {
    let (bytes, control, key) = (datagram.bytes, datagram.control, settings.key.as_ref());
    let returned = control.stamp.unwrap_or_else(realtime);
    let reply = StampReply::parse(mode(key), bytes).filter(|_| is_authentic(bytes, key))?;
    let known = reply.ssid == ssid || (reply.ssid == 0 && !settings.needs_ssid);
    let place = waiting.iter().position(|sent| {
        known && sent.sequence == reply.sender_sequence && sent.timestamp == reply.sender_timestamp
    })?;
    let sent = waiting.remove(place)?;
    let (mut class_forward, mut counters) = (None, None);
    for (kind, value) in usable(bytes, key) {
        match kind {
            stamp_tlv::CLASS_OF_SERVICE => {
                let class = ClassOfService::parse(value);
                class_forward = class.map(|class| (class.received, class.reverse != 0));
            }
            stamp_tlv::DIRECT_MEASUREMENT => counters = DirectMeasurement::parse(value),
            _ => {}
        }
    }
    let theirs = Some(reply.error.nanos())
        .filter(|&error| reply.error.synchronized && error < ClockQuality::UNKNOWN_ERROR);
    let stated_error = sent.error.zip(theirs).map(|(own, theirs)| own.saturating_add(theirs));
    let instant = |bits| reply.error.format.nanos(bits, sent.sent);
    Some(Answer {
        sequence: reply.sender_sequence,
        reply_sequence: reply.sequence,
        exchange: Exchange {
            sent: sent.sent,
            received: instant(reply.received),
            replied: instant(reply.timestamp),
            returned,
        },
        error: reply.error,
        stated_error,
        ttl_forward: reply.ttl,
        ttl_backward: control.ttl,
        class_forward,
        class_backward: control.traffic_class.map(TrafficClass::from_octet),
        counters,
    })
}
