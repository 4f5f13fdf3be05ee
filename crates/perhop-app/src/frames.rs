//! Frames on their way: which bytes of a connection belong to which exchange.

use std::collections::VecDeque;

/// A part of a request or of a response, as it is written to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Number of the exchange.
    pub exchange: u32,
    /// Length of the frame's header, in bytes; zero on a connection that is not multiplexed.
    pub header: u32,
    /// Length of its payload, in bytes.
    pub payload: u64,
    /// True if it is the exchange's last.
    pub last: bool,
}

impl Frame {
    /// Returns the length with the header, in bytes.
    pub const fn bytes(self) -> u64 {
        self.header as u64 + self.payload
    }
}

/// Frames that were written to a connection and have not arrived as a whole, in order.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    queue: VecDeque<Frame>,
    /// Bytes of the first frame that have arrived.
    arrived: u64,
}

impl Frames {
    /// Adds a frame that is written.
    pub fn push(&mut self, frame: Frame) {
        self.queue.push_back(frame);
    }

    /// Returns `true` if nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes up to `bytes` bytes that have arrived, of one frame. Returns this frame, the number of
    /// payload bytes among them, and `true` if the frame is complete; and subtracts them from
    /// `bytes`. Returns `None` if no bytes or no frames are left.
    pub fn take(&mut self, bytes: &mut u64) -> Option<(Frame, u64, bool)> {
        let frame = *self.queue.front()?;
        if *bytes == 0 {
            return None;
        }
        let taken = (*bytes).min(frame.bytes() - self.arrived);
        let header = u64::from(frame.header).saturating_sub(self.arrived).min(taken);
        *bytes -= taken;
        self.arrived += taken;
        let complete = self.arrived == frame.bytes();
        if complete {
            self.arrived = 0;
            self.queue.pop_front();
        }
        Some((frame, taken - header, complete))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_no_payload() {
        let mut frames = Frames::default();
        frames.push(Frame { exchange: 1, header: 9, payload: 100, last: false });
        frames.push(Frame { exchange: 2, header: 9, payload: 1, last: true });
        let mut take = |mut bytes: u64| {
            let mut taken = Vec::new();
            while let Some((frame, payload, complete)) = frames.take(&mut bytes) {
                taken.push((frame.exchange, payload, complete));
            }
            (taken, bytes)
        };
        assert_eq!(take(4), (vec![(1, 0, false)], 0));
        assert_eq!(take(6), (vec![(1, 1, false)], 0));
        assert_eq!(take(104), (vec![(1, 99, true), (2, 0, false)], 0));
        assert_eq!(take(7), (vec![(2, 1, true)], 2));
    }
}
