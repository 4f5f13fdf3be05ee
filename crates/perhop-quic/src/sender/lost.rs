//! Data that was lost, in the order in which it is sent again.

use std::collections::VecDeque;

use crate::StreamFrame;

/// A queue of data that knows its bytes.
#[derive(Clone, Debug, Default)]
pub struct Lost {
    queue: VecDeque<StreamFrame>,
    bytes: u64,
}

impl Lost {
    pub fn push_back(&mut self, data: StreamFrame) {
        self.bytes += u64::from(data.length);
        self.queue.push_back(data);
    }

    pub fn push_front(&mut self, data: StreamFrame) {
        self.bytes += u64::from(data.length);
        self.queue.push_front(data);
    }

    pub fn pop_front(&mut self) -> Option<StreamFrame> {
        let data = self.queue.pop_front()?;
        self.bytes -= u64::from(data.length);
        Some(data)
    }

    pub fn front(&self) -> Option<StreamFrame> {
        self.queue.front().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the bytes of all data.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
