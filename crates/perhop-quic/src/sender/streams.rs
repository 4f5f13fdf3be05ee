//! Streams of a sender, and the limits of flow control (RFC 9000, sections 2 to 4).

use std::collections::VecDeque;

use crate::sizes::stream_frame;
use crate::{Ranges, StreamFrame};

/// A stream.
#[derive(Clone, Debug)]
struct Stream {
    /// End of the data that was sent, and of the data that the application has written.
    sent: u64,
    written: u64,
    /// Limit of the receiver.
    limit: u64,
    /// Data that was acknowledged.
    acked: Ranges,
    /// True if nothing more is written.
    ended: bool,
}

impl Stream {
    fn new(limit: u64) -> Self {
        Self { sent: 0, written: 0, limit, acked: Ranges::default(), ended: false }
    }

    fn is_done(&self) -> bool {
        self.ended && self.acked.first_missing(0) == self.written
    }
}

/// All streams of a connection, which send in turn: a packet each.
#[derive(Clone, Debug)]
pub struct Streams {
    /// Streams from number `first` on; all data of earlier ones was acknowledged.
    streams: VecDeque<Stream>,
    first: u64,
    /// Limit of each stream at its start.
    each: u64,
    /// Place of the stream whose turn it is.
    turn: usize,
    /// Sum of the data sent, and its limit.
    sent: u64,
    limit: u64,
}

impl Streams {
    /// Creates `count` streams with limits of each and of all.
    pub fn new(count: u32, [each, all]: [u64; 2]) -> Self {
        let streams = VecDeque::from(vec![Stream::new(each); count as usize]);
        Self { streams, first: 0, each, turn: 0, sent: 0, limit: all }
    }

    /// Writes all data of the stream with this number.
    pub fn write_to(&mut self, number: u64, bytes: u64) {
        let Some(place) = number.checked_sub(self.first).map(|place| place as usize) else {
            return;
        };
        while self.streams.len() <= place {
            self.streams.push_back(Stream::new(self.each));
        }
        (self.streams[place].written, self.streams[place].ended) = (bytes, true);
    }

    /// Returns the identifier of a client's bidirectional stream (RFC 9000, section 2.1).
    fn identifier(&self, place: usize) -> u64 {
        4 * (self.first + place as u64)
    }

    /// Returns the stream with an identifier, unless all of its data was acknowledged.
    fn get_mut(&mut self, identifier: u64) -> Option<&mut Stream> {
        let place = (identifier / 4).checked_sub(self.first)?;
        self.streams.get_mut(place as usize)
    }

    /// Writes `bytes` more, divided between the streams.
    pub fn write(&mut self, bytes: u64) {
        let count = self.streams.len() as u64;
        for (stream, place) in self.streams.iter_mut().zip(0..) {
            let share = match bytes {
                u64::MAX => u64::MAX,
                _ => bytes / count + u64::from(place < bytes % count),
            };
            stream.written = stream.written.saturating_add(share);
        }
    }

    /// Ends writing.
    pub fn stop(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.written = stream.sent);
    }

    /// Raises the limit of the connection. Limits never fall (section 4.1).
    pub fn raise(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// Raises the limit of a stream.
    pub fn raise_stream(&mut self, stream: u64, limit: u64) {
        if let Some(stream) = self.get_mut(stream) {
            stream.limit = stream.limit.max(limit);
        }
    }

    /// Returns the new data that a stream may send, in bytes.
    fn available(&self, place: usize) -> u64 {
        let stream = &self.streams[place];
        let own = stream.written.min(stream.limit) - stream.sent;
        own.min(self.limit - self.sent)
    }

    /// Returns `true` if there is new data, and the limits permit some of it.
    pub fn has_data(&self) -> bool {
        (0..self.streams.len()).any(|place| self.available(place) > 0)
    }

    /// Returns the new data that may be sent, in bytes.
    pub fn available_in_all(&self) -> u64 {
        let places = 0..self.streams.len();
        let sum = places.fold(0_u64, |sum, place| sum.saturating_add(self.available(place)));
        sum.min(self.limit - self.sent)
    }

    /// Takes new data of the stream whose turn it is, at most `room` bytes with its frame.
    pub fn next(&mut self, room: u16) -> Option<StreamFrame> {
        let count = self.streams.len();
        for place in (self.turn..count).chain(0..self.turn) {
            let available = self.available(place);
            let offset = self.streams[place].sent;
            let stream = self.identifier(place);
            let length = available.min(room.saturating_sub(stream_frame(stream, offset)).into());
            if length > 0 {
                self.streams[place].sent += length;
                self.sent += length;
                self.turn = (place + 1) % count;
                let length = length as u16;
                return Some(StreamFrame { stream, offset, length, retransmission: false });
            }
        }
        None
    }

    /// Records an acknowledgement of data.
    pub fn on_acked(&mut self, data: &StreamFrame) {
        let Some(stream) = self.get_mut(data.stream) else { return };
        stream.acked.insert(data.offset, data.offset + u64::from(data.length));
        while self.streams.front().is_some_and(Stream::is_done) {
            self.streams.pop_front();
            self.first += 1;
            self.turn = self.turn.saturating_sub(1);
        }
    }

    /// Returns the first part of data that was not acknowledged.
    pub fn unacked(&self, stream: u64, start: u64, end: u64) -> Option<(u64, u64)> {
        let place = (stream / 4).checked_sub(self.first)?;
        self.streams[place as usize].acked.first_gap(start, end)
    }
}
