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

    /// Returns the new data that its own limit permits, in bytes.
    fn available(&self) -> u64 {
        self.written.min(self.limit) - self.sent
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
    /// Sum of the new data that the streams' own limits permit.
    available: u128,
}

impl Streams {
    /// Creates `count` streams with limits of each and of all.
    pub fn new(count: u32, [each, all]: [u64; 2]) -> Self {
        let streams = VecDeque::from(vec![Stream::new(each); count as usize]);
        Self { streams, first: 0, each, turn: 0, sent: 0, limit: all, available: 0 }
    }

    /// Writes all data of the stream with this number.
    pub fn write_to(&mut self, number: u64, bytes: u64) {
        let Some(place) = number.checked_sub(self.first).map(|place| place as usize) else {
            return;
        };
        while self.streams.len() <= place {
            self.streams.push_back(Stream::new(self.each));
        }
        self.change(place, |stream| (stream.written, stream.ended) = (bytes, true));
    }

    /// Changes a stream.
    fn change(&mut self, place: usize, change: impl FnOnce(&mut Stream)) {
        let stream = &mut self.streams[place];
        self.available -= u128::from(stream.available());
        change(stream);
        self.available += u128::from(stream.available());
    }

    /// Returns the identifier of a client's bidirectional stream (RFC 9000, section 2.1).
    fn identifier(&self, place: usize) -> u64 {
        4 * (self.first + place as u64)
    }

    /// Returns the place of the stream with an identifier, unless all of its data was acknowledged.
    fn place(&self, identifier: u64) -> Option<usize> {
        let place = (identifier / 4).checked_sub(self.first)? as usize;
        (place < self.streams.len()).then_some(place)
    }

    /// Writes `bytes` more, divided between the streams.
    pub fn write(&mut self, bytes: u64) {
        let count = self.streams.len() as u64;
        for place in 0..self.streams.len() {
            let share = match bytes {
                u64::MAX => u64::MAX,
                _ => bytes / count + u64::from((place as u64) < bytes % count),
            };
            self.change(place, |stream| stream.written = stream.written.saturating_add(share));
        }
    }

    /// Ends writing.
    pub fn stop(&mut self) {
        for place in 0..self.streams.len() {
            self.change(place, |stream| stream.written = stream.sent);
        }
    }

    /// Raises the limit of the connection. Limits never fall (section 4.1).
    pub fn raise(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// Raises the limit of a stream.
    pub fn raise_stream(&mut self, stream: u64, limit: u64) {
        if let Some(place) = self.place(stream) {
            self.change(place, |stream| stream.limit = stream.limit.max(limit));
        }
    }

    /// Returns `true` if there is new data, and the limits permit some of it.
    pub fn has_data(&self) -> bool {
        self.available_in_all() > 0
    }

    /// Returns the new data that may be sent, in bytes.
    pub fn available_in_all(&self) -> u64 {
        let rest = self.limit - self.sent;
        u64::try_from(self.available).map_or(rest, |available| available.min(rest))
    }

    /// Takes new data of the stream whose turn it is, at most `room` bytes with its frame.
    pub fn next(&mut self, room: u16) -> Option<StreamFrame> {
        if !self.has_data() {
            return None;
        }
        let (count, rest) = (self.streams.len(), self.limit - self.sent);
        for place in (self.turn..count).chain(0..self.turn) {
            let available = self.streams[place].available().min(rest);
            let offset = self.streams[place].sent;
            let stream = self.identifier(place);
            let length = available.min(room.saturating_sub(stream_frame(stream, offset)).into());
            if length > 0 {
                self.change(place, |stream| stream.sent += length);
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
        let Some(place) = self.place(data.stream) else { return };
        let acked = &mut self.streams[place].acked;
        acked.insert(data.offset, data.offset + u64::from(data.length));
        while self.streams.front().is_some_and(Stream::is_done) {
            self.streams.pop_front(); // it has no new data
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A look at every stream, which each packet would pay for, finds no other sum.
        #[test]
        fn the_sum_is_that_of_all_streams(
            count in 0_u32..4,
            steps in prop::collection::vec((0_u8..6, 0_u64..6, 0_u64..5000), 1..60),
        ) {
            let mut streams = Streams::new(count, [2000, 6000]);
            let mut sent = VecDeque::new();
            for (step, number, bytes) in steps {
                match step {
                    0 => {
                        let next = streams.first + streams.streams.len() as u64;
                        streams.write_to(next + number, bytes);
                    }
                    1 if count > 0 => streams.write(bytes),
                    2 => streams.raise(bytes * 4),
                    3 => streams.raise_stream(4 * number, bytes),
                    4 => sent.extend(streams.next(bytes as u16)),
                    _ => {
                        if let Some(data) = sent.pop_front() {
                            streams.on_acked(&data);
                        }
                    }
                }
                let rest = streams.limit - streams.sent;
                let each = streams.streams.iter().map(|stream| stream.available().min(rest));
                prop_assert_eq!(streams.available_in_all(), each.sum::<u64>().min(rest));
            }
        }
    }
}
