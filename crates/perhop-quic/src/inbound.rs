//! Streams whose data arrives, and the limits of flow control that their reader announces (RFC
//! 9000, sections 2 to 4).

use std::collections::VecDeque;

use perhop_core::{Ecn, Time};

use crate::flow_control::Credit;
use crate::{Frames, Packet, Ranges, StreamFrame};

/// Counters of the data that has arrived.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    /// Bytes delivered to the application: those of each stream in order.
    pub delivered: u64,
    /// Packets with data.
    pub packets: u64,
    /// Of these, those that arrived after a later one.
    pub reordered: u64,
    /// Of these, those with CE.
    pub marked: u64,
    /// Packets sent with an acknowledgement.
    pub acks: u64,
    /// Time of the last delivery.
    pub last: Time,
}

/// Data that has become readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Number of its stream: 0 for the first one.
    pub stream: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A stream: its data that has arrived, and its limit.
#[derive(Clone, Debug)]
struct Stream {
    arrived: Ranges,
    /// End of the data that was delivered.
    delivered: u64,
    /// Its length; [`u64::MAX`] if it has no end.
    length: u64,
    credit: Credit,
    /// True if its limit is to be sent.
    due: bool,
}

/// Limits that a packet has announced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Announced {
    max_data: bool,
    /// Number of the stream whose limit it has.
    stream: Option<u64>,
}

impl Announced {
    /// Adds the limits of another packet, of one stream.
    pub fn add(&mut self, other: Self) {
        self.max_data |= other.max_data;
        self.stream = self.stream.or(other.stream);
    }
}

/// All streams of a connection whose data arrives at one end.
#[derive(Clone, Debug)]
pub struct Inbound {
    /// Streams from number `first` on; earlier ones have ended.
    streams: VecDeque<Stream>,
    first: u64,
    /// Window of each stream.
    window: u64,
    credit: Credit,
    due: bool,
    /// Number of streams whose limit is due.
    streams_due: usize,
    largest: Option<u64>,
    pub received: Received,
}

impl Inbound {
    /// Creates `count` streams without end, with windows of each and of all.
    pub fn new(count: u32, [each, all]: [u64; 2]) -> Self {
        let mut inbound = Self {
            streams: VecDeque::new(),
            first: 0,
            window: each,
            credit: Credit::new(all),
            due: false,
            streams_due: 0,
            largest: None,
            received: Received::default(),
        };
        (0..count.into()).for_each(|number| inbound.expect(number, u64::MAX));
        inbound
    }

    /// Expects a stream with `length` bytes. Numbers rise.
    ///
    /// The bit that ends a stream takes no room in its last frame (RFC 9000, section 19.8), so that
    /// frames do not have it here: the driver knows both ends.
    pub fn expect(&mut self, number: u64, length: u64) {
        debug_assert_eq!(number, self.first + self.streams.len() as u64);
        let (arrived, credit) = (Ranges::default(), Credit::new(self.window));
        self.streams.push_back(Stream { arrived, delivered: 0, length, credit, due: false });
    }

    /// Returns `true` if it has, or has had, streams.
    pub fn is_used(&self) -> bool {
        self.first > 0 || !self.streams.is_empty()
    }

    /// Takes a packet with data, and decides on new limits. Returns what has become readable.
    pub fn on_data(&mut self, now: Time, packet: &Packet, data: &StreamFrame) -> Delivered {
        let (number, received) = (packet.number, &mut self.received);
        received.packets += 1;
        received.reordered += u64::from(self.largest.is_some_and(|seen| number < seen));
        received.marked += u64::from(packet.ecn == Ecn::Ce);
        self.largest = self.largest.max(Some(number));
        let mut delivered = Delivered { stream: data.stream / 4, bytes: 0 };
        let Some(stream) =
            place(delivered.stream, self.first).and_then(|place| self.streams.get_mut(place))
        else {
            return delivered;
        };
        stream.arrived.insert(data.offset, data.offset + u64::from(data.length));
        let end = stream.arrived.first_missing(stream.delivered);
        delivered.bytes = end - stream.delivered;
        if delivered.bytes == 0 {
            return delivered;
        }
        received.delivered += delivered.bytes;
        received.last = now;
        stream.delivered = end;
        // The end of a stream that is known needs no limit (section 19.10).
        if stream.credit.announce(end).is_some() && end < stream.length && !stream.due {
            stream.due = true;
            self.streams_due += 1;
        }
        self.due |= self.credit.announce(received.delivered).is_some();
        while self.streams.front().is_some_and(|stream| stream.delivered == stream.length)
            && let Some(ended) = self.streams.pop_front()
        {
            self.streams_due -= usize::from(ended.due);
            self.first += 1;
        }
        delivered
    }

    /// Returns `true` if limits are to be sent.
    pub fn is_due(&self) -> bool {
        self.due || self.streams_due > 0
    }

    /// Adds the limits that are due to the frames of a packet, of at most one stream.
    pub fn take(&mut self, frames: &mut Frames) -> Announced {
        let due = || self.streams.iter().filter(|stream| stream.due);
        debug_assert_eq!(self.streams_due, due().count());
        let max_data = std::mem::take(&mut self.due);
        let mut stream = None;
        if self.streams_due > 0 {
            stream = self.streams.iter().position(|stream| stream.due);
        }
        if let Some(place) = stream {
            self.streams[place].due = false;
            self.streams_due -= 1;
        }
        let announced = Announced { max_data, stream: stream.map(|n| self.first + n as u64) };
        self.write(announced, frames);
        announced
    }

    /// Adds limits with their present values to the frames of a packet.
    pub fn write(&self, announced: Announced, frames: &mut Frames) {
        frames.max_data = announced.max_data.then(|| self.credit.announced());
        let place = announced.stream.and_then(|number| place(number, self.first));
        if let (Some(number), Some(place)) = (announced.stream, place) {
            let limit = self.streams[place].credit.announced();
            frames.max_stream_data.push((4 * number, limit));
        }
    }

    /// Sends lost limits again: the present ones, not the old ones (RFC 9000, section 13.3).
    pub fn repeat(&mut self, lost: Announced) {
        self.due |= lost.max_data;
        let place = lost.stream.and_then(|number| place(number, self.first));
        if let Some(stream) = place.and_then(|place| self.streams.get_mut(place)) {
            let due = stream.delivered < stream.length;
            self.streams_due += usize::from(due);
            self.streams_due -= usize::from(std::mem::replace(&mut stream.due, due));
        }
    }
}

/// Returns the place of a stream after `first`; none if it has ended.
fn place(number: u64, first: u64) -> Option<usize> {
    number.checked_sub(first).map(|place| place as usize)
}
