//! Streams of a test: socket, sending, receiving and counters.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use perhop_socket::{Batch, Nanos, Socket, TcpInfo, Train, monotonic};
use perhop_traffic::{Allowance, Grant};

use super::datagram::Header;
use super::meter::{Clocks, Delays, Meter};
use super::pace::Pace;
use super::record::{Counts, Interval};

/// Number of bytes that are written at once on TCP.
const WRITTEN: usize = 1 << 17;
/// Number of bytes that are read at once on TCP.
const TAKEN: usize = 1 << 22;
/// Buffers for merged datagrams: their number and size in bytes.
const BATCH: (usize, usize) = (32, 1 << 16);
/// Time that a stream waits if its socket is full.
const PAUSE: Nanos = 50_000;
/// Time between two looks at a stream that has sent its volume.
const IDLE: Nanos = 10_000_000;

/// Buffers that the streams of a thread share.
pub(crate) struct Room {
    /// Zeros that are written. They are copied: pages that are not copied (sendfile(2)) make the
    /// socket buffers fragments of 4 KiB, and the client is slower to read these than all that
    /// the copy costs here. They are never written, so that they take one page of memory.
    zeros: Box<[u8]>,
    /// Buffer for discarded stream data, which is never written.
    discarded: Box<[MaybeUninit<u8>]>,
    batch: Option<Batch>,
    /// Limits of the streams together with all other traffic of the process.
    allowance: Allowance,
    /// True once the volume of that is exhausted.
    spent: bool,
}

impl Room {
    pub fn new(allowance: &Allowance) -> Self {
        Self {
            zeros: vec![0; WRITTEN].into_boxed_slice(),
            discarded: Box::new_uninit_slice(TAKEN),
            batch: None,
            allowance: allowance.clone(),
            spent: false,
        }
    }

    /// Returns whether no more may be sent.
    pub fn is_spent(&self) -> bool {
        self.spent
    }

    /// Takes at least `least` and at most `most` bytes from the allowance, or returns the instant
    /// of the next attempt.
    fn take(&mut self, now: Nanos, least: usize, most: usize) -> Result<usize, Nanos> {
        match self.allowance.take(now, least as u64, most as u64) {
            Grant::Bytes(bytes) => Ok(bytes as usize),
            Grant::Wait(until) => Err(until),
            Grant::Over => {
                self.spent = true;
                Err(Nanos::MAX)
            }
        }
    }
}

/// A stream.
pub(crate) struct Stream {
    pub id: u32,
    pub sends: bool,
    pub socket: Socket,
    pub peer: SocketAddr,
    /// True while it carries data.
    pub open: bool,
    /// Pacer of the stream.
    pub pace: Pace,
    /// Instant before which the allowance lets it send nothing.
    allowed_at: Nanos,
    /// True if it waits for its next due time, and its socket is not in the epoll set.
    pub held: bool,
    /// Greatest number of bytes that it sends.
    pub volume: u64,
    /// Bytes of a block or datagram.
    length: usize,
    /// State of sent UDP.
    out: Option<Outgoing>,
    /// Meter of received UDP.
    pub meter: Option<Box<Meter>>,
    /// For TCP or sent UDP: bytes since the start.
    bytes: u64,
    /// Time of the last arrival.
    pub last: Nanos,
    marked: Counts,
    intervals: Vec<(Interval, Delays)>,
    /// Counters at the end of the stream.
    ended: Option<Counts>,
}

/// Datagrams of a sender that the kernel has not accepted yet.
struct Outgoing {
    wide: bool,
    sequence: u64,
    train: Train,
    taken: usize,
    segmented: bool,
    /// True if the allowance covers the train.
    allowed: bool,
}

/// The rate at which a stream may carry data, and the length of its blocks.
pub(crate) type Shape = (Option<u64>, usize);

impl Stream {
    /// Returns a stream of TCP, or one of UDP (`wide`: with sequence numbers of 64 bits).
    pub fn new(
        id: u32,
        sends: bool,
        (socket, peer): (Socket, SocketAddr),
        udp: Option<bool>,
    ) -> Self {
        let out = udp.filter(|_| sends).map(|wide| Outgoing {
            wide,
            sequence: 0,
            train: Train::new(),
            taken: 0,
            segmented: true,
            allowed: false,
        });
        Self {
            id,
            sends,
            socket,
            peer,
            open: true,
            pace: Pace::new(None, 0),
            allowed_at: 0,
            held: false,
            volume: u64::MAX,
            length: 0,
            out,
            meter: udp.filter(|_| !sends).map(|wide| Box::new(Meter::new(wide))),
            bytes: 0,
            last: 0,
            marked: Counts::default(),
            intervals: Vec::new(),
            ended: None,
        }
    }

    /// Begins the test on this stream.
    pub fn begin(&mut self, (rate, length): Shape, zero: Nanos) {
        // Received UDP cannot be slowed down.
        let rate = rate.filter(|_| self.sends || self.meter.is_none());
        self.pace = Pace::new(rate, zero);
        self.length = length;
        self.last = zero;
    }

    /// Carries data without blocking. Returns the bytes, and the instant of the next call if
    /// readiness of the socket does not determine it.
    pub fn run(&mut self, room: &mut Room, now: Nanos) -> (u64, Option<Nanos>) {
        let due = self.pace.due().max(self.allowed_at);
        if due > now {
            return (0, Some(due));
        }
        let before = self.bytes;
        let again = match (self.sends, self.out.is_some()) {
            (true, true) => self.send_datagrams(room, now),
            (true, false) => self.settle(|stream| stream.write(room, now)),
            (false, _) if self.meter.is_some() => {
                self.take_datagrams(room, now);
                None
            }
            (false, _) => self.settle(|stream| stream.read(room, now)),
        };
        let carried = self.bytes - before;
        self.pace.add(carried);
        let due = self.pace.due().max(self.allowed_at);
        let again = again.or_else(|| Some(due).filter(|&due| due > now));
        (carried, again)
    }

    fn settle(&mut self, carry: impl FnOnce(&mut Self) -> io::Result<()>) -> Option<Nanos> {
        match carry(self) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => self.open = false,
            _ => {}
        }
        None
    }

    fn write(&mut self, room: &mut Room, now: Nanos) -> io::Result<()> {
        let most = if self.pace.due() == 0 { WRITTEN } else { self.length.min(WRITTEN) };
        let left = self.volume.saturating_sub(self.bytes);
        let most = most.min(usize::try_from(left).unwrap_or(most));
        if most == 0 {
            self.allowed_at = now + IDLE;
            return Ok(());
        }
        match room.take(now, 1, most) {
            Ok(most) => {
                let written = self.socket.send(&room.zeros[..most]);
                let bytes = *written.as_ref().unwrap_or(&0);
                room.allowance.give_back((most - bytes) as u64);
                self.bytes += bytes as u64;
                written.map(|_| ())
            }
            Err(until) => {
                self.allowed_at = until;
                Ok(())
            }
        }
    }

    fn read(&mut self, room: &mut Room, now: Nanos) -> io::Result<()> {
        let most = if self.pace.due() == 0 { room.discarded.len() } else { self.length };
        let bytes = self.socket.discard(&mut room.discarded[..most])?;
        if bytes == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.bytes += bytes as u64;
        self.last = now;
        Ok(())
    }

    fn take_datagrams(&mut self, room: &mut Room, now: Nanos) {
        let Some(meter) = &mut self.meter else { return };
        let batch = room.batch.get_or_insert_with(|| Batch::new(BATCH.0, BATCH.1));
        // The error is an ICMP error about an earlier datagram; reading it has cleared it.
        let Ok(count) = batch.receive(&self.socket) else { return };
        let clocks = Clocks::read();
        for number in 0..count {
            let datagram = batch.get(number);
            self.bytes += datagram.bytes.len() as u64;
            // Before it was connected, the socket received datagrams of any sender.
            if datagram.from == Some(self.peer) {
                meter.add(datagram.bytes, &datagram.control, clocks);
                self.last = now;
            }
        }
    }

    fn send_datagrams(&mut self, room: &mut Room, now: Nanos) -> Option<Nanos> {
        let Some(out) = &mut self.out else { return None };
        if out.train.is_empty() {
            let mut pace = self.pace;
            let sent = monotonic() / 1_000;
            let mut left = self.volume.saturating_sub(self.bytes).div_ceil(self.length as u64);
            if left == 0 {
                return Some(now + IDLE);
            }
            while pace.due() <= now && left > 0 && out.train.has_room(self.length) {
                left -= 1;
                out.sequence += 1;
                let (head, length) = Header { sent, sequence: out.sequence }.write(out.wide);
                out.train.push(&head[..length], self.length);
                pace.add(self.length as u64);
            }
        }
        if !out.allowed && !out.train.is_empty() {
            let headers = out.train.len() * if self.peer.is_ipv4() { 28 } else { 48 };
            let bytes = out.train.bytes() + headers;
            if let Err(until) = room.take(now, bytes, bytes) {
                self.allowed_at = until;
                return Some(until);
            }
            out.allowed = true;
        }
        while out.taken < out.train.len() {
            match out.train.send(&self.socket, out.taken, out.segmented) {
                Ok(count) => {
                    out.taken += count;
                    self.bytes += (count * self.length) as u64;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::ENOBUFS) => return Some(now + PAUSE),
                    Some(libc::EINVAL | libc::EMSGSIZE | libc::EIO) if out.segmented => {
                        out.segmented = false;
                    }
                    // The client's port is closed: it has ended the stream.
                    Some(libc::ECONNREFUSED) => {
                        self.open = false;
                        return None;
                    }
                    _ => out.taken += 1,
                },
            }
        }
        out.train.clear();
        out.taken = 0;
        out.allowed = false;
        Some(self.pace.due().max(now))
    }

    /// Keeps the counters of TCP as they are: the kernel counts what arrives later, which no
    /// interval contains.
    pub fn keep_counts(&mut self) {
        if self.meter.is_none() {
            self.ended = Some(self.counts(None));
        }
    }

    /// Stops sending. TCP shuts down the sending direction, because an iperf3 client may wait for
    /// the rest of a block and send nothing meanwhile.
    pub fn end(&mut self) {
        self.keep_counts();
        self.open = false;
        if self.out.is_none() {
            self.socket.end();
        }
    }

    /// Returns the bytes that the stream has carried, malformed datagrams included.
    pub fn carried(&self) -> u64 {
        self.bytes
    }

    /// Returns the counters so far. `sent` is the number of datagrams that the other end sent.
    pub fn counts(&self, sent: Option<u64>) -> Counts {
        if let Some(ended) = self.ended {
            return ended;
        }
        if let Some(meter) = &self.meter {
            return meter.counts(sent);
        }
        if let Some(out) = &self.out {
            let packets = out.sequence - (out.train.len() - out.taken) as u64;
            return Counts { bytes: self.bytes, packets, ..Counts::default() };
        }
        let info = TcpInfo::of(&self.socket).unwrap_or_default();
        let packets = if self.sends { info.data_segs_out } else { info.data_segs_in };
        Counts {
            bytes: self.bytes,
            packets: packets.into(),
            retransmits: self.sends.then(|| info.total_retrans.into()),
            ..Counts::default()
        }
    }

    /// Ends an interval; `sent` as in [`Self::counts`].
    pub fn mark(&mut self, (start, end): (Nanos, Nanos), sent: Option<u64>) {
        let (now, before) = (self.counts(sent), self.marked);
        let info = (self.sends && self.out.is_none()).then(|| TcpInfo::of(&self.socket).ok());
        let info = info.flatten().filter(|info| info.snd_mss > 0);
        let counts = Counts {
            bytes: now.bytes - before.bytes,
            packets: now.packets.saturating_sub(before.packets),
            lost: since(now.lost, before.lost),
            reordered: since(now.reordered, before.reordered),
            duplicates: since(now.duplicates, before.duplicates),
            marked: since(now.marked, before.marked),
            retransmits: since(now.retransmits, before.retransmits),
        };
        // A late datagram is not lost: it is subtracted from the losses of later intervals.
        self.marked = Counts { lost: now.lost.max(before.lost), ..now };
        let delays = self.meter.as_mut().map(|meter| meter.pass_mark()).unwrap_or_default();
        let interval = Interval {
            start_s: start as f64 / 1e9,
            end_s: end as f64 / 1e9,
            counts,
            srtt_s: info.map(|info| f64::from(info.rtt) / 1e6),
            cwnd: info.map(|info| u64::from(info.snd_cwnd) * u64::from(info.snd_mss)),
            jitter_s: self.meter.as_ref().and_then(|meter| meter.jitter()),
            variation_s: None,
            samples: delays.count,
        };
        self.intervals.push((interval, delays));
    }

    /// Returns the intervals, after the least delay and all losses are known.
    pub fn intervals(&mut self, lost: Option<u64>) -> Vec<Interval> {
        let floor = self.meter.as_ref().and_then(|meter| meter.least());
        let mut intervals: Vec<Interval> = std::mem::take(&mut self.intervals)
            .into_iter()
            .map(|(interval, delays)| {
                let variation_s = floor.and_then(|floor| delays.above(floor));
                Interval { variation_s, ..interval }
            })
            .collect();
        let counted: u64 = intervals.iter().filter_map(|each| each.counts.lost).sum();
        let mut late = counted.saturating_sub(lost.unwrap_or(counted));
        for each in intervals.iter_mut().rev() {
            if let Some(lost) = &mut each.counts.lost {
                let taken = late.min(*lost);
                *lost -= taken;
                late -= taken;
            }
        }
        intervals
    }
}

fn since(now: Option<u64>, before: Option<u64>) -> Option<u64> {
    now.map(|now| now.saturating_sub(before.unwrap_or(0)))
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
