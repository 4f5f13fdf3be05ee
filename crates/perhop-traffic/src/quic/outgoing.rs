//! Data that waits for room in its streams.

use bytes::Bytes;
use quinn_proto::{Connection, StreamId, VarInt};

/// A stream with data to write.
#[derive(Debug)]
struct Stream {
    id: StreamId,
    /// Bytes before the others.
    head: Bytes,
    /// Number of the others; [`u64::MAX`] if they have no end.
    left: u64,
}

/// Streams with data to write, which take turns.
#[derive(Debug)]
pub(super) struct Outgoing {
    streams: Vec<Stream>,
    next: usize,
    /// Bytes that are written again and again.
    data: Bytes,
    /// Bytes that one of several streams writes before the next one.
    turn: usize,
}

impl Outgoing {
    pub fn new(data: Bytes, turn: usize) -> Self {
        Self { streams: Vec::new(), next: 0, data, turn }
    }

    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Adds a stream that ends after `head` and `left` other bytes.
    pub fn add(&mut self, id: StreamId, head: Bytes, left: u64) {
        self.streams.push(Stream { id, head, left });
    }

    /// Ends all streams: what was not acknowledged is not sent again.
    pub fn reset(&mut self, connection: &mut Connection) {
        for Stream { id, .. } in self.streams.drain(..) {
            // One that has finished needs no end.
            let _ = connection.send_stream(id).reset(VarInt::from_u32(0));
        }
    }

    /// Writes to the streams in turn until no one has room.
    pub fn write(&mut self, connection: &mut Connection) {
        let turn = if self.streams.len() == 1 { self.data.len() } else { self.turn };
        let mut blocked = 0;
        while blocked < self.streams.len() {
            self.next = (self.next + 1) % self.streams.len();
            let Stream { id, head, left } = &mut self.streams[self.next];
            let body = self.data.slice(..turn.min((*left).try_into().unwrap_or(usize::MAX)));
            let mut stream = connection.send_stream(*id);
            match stream.write_chunks(&mut [head.clone(), body]) {
                Ok(written) => {
                    blocked = 0;
                    let of_head = written.bytes.min(head.len());
                    drop(head.split_to(of_head));
                    if *left != u64::MAX {
                        *left -= (written.bytes - of_head) as u64;
                    }
                    if *left == 0 && head.is_empty() {
                        let _ = stream.finish();
                        self.streams.swap_remove(self.next);
                    }
                }
                Err(_) => blocked += 1,
            }
        }
    }
}
