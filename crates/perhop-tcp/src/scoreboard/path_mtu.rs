//! Segments that exceed the MTU of their path.

use super::sent::Sent;
use super::{Scoreboard, Span};
use crate::Offset;

impl Scoreboard {
    /// Marks as lost every segment of more than `longest` bytes that is not SACKed,
    /// retransmissions included; returns `true` if one was in flight.
    pub fn lose_longer(&mut self, longest: u32) -> bool {
        let before = self.pipe;
        for index in 0..self.segments.len() {
            let mut sent = self.segments.get(index);
            if sent.sacked || sent.length <= longest {
                continue;
            }
            self.pipe -= sent.in_pipe();
            (sent.lost, sent.retransmitted) = (true, false);
            self.segments.set(index, sent);
            self.lost_end = self.lost_end.max(index as u32 + 1);
        }
        self.next_lost = 0;
        self.pipe < before
    }

    /// Shortens the segment `span` to `longest` bytes before its retransmission, and returns what
    /// is left. The other bytes go to the next segment if that is retransmitted, too, so that the
    /// data of several segments is divided anew; otherwise they become a segment.
    pub fn shorten(&mut self, span: Span, longest: u32) -> Span {
        let index = self.segments.before(span.start, self.next_lost);
        let sent = self.segments.get(index);
        let start = sent.start + Offset::from(longest);
        let waits = |sent: &Sent| sent.lost && !sent.retransmitted && !sent.sacked;
        let next = (index + 1 < self.segments.len()).then(|| self.segments.get(index + 1));
        match next {
            // The FIN is one byte, and stays alone.
            Some(next) if waits(&sent) && waits(&next) && next.length > 1 => {
                self.segments.set(index + 1, Sent { start, ..next });
            }
            _ => self.insert(index, Sent { start, ..sent }),
        }
        Span { start: span.start, length: longest }
    }

    /// Adds a segment behind that at `index`, of which it was the end.
    fn insert(&mut self, index: usize, end: Sent) {
        self.segments.insert(index + 1, end);
        for edge in [&mut self.sacked_end, &mut self.lost_end, &mut self.next_lost] {
            *edge += u32::from(*edge as usize > index);
        }
        if let Some(sampler) = &mut self.sampler {
            sampler.divide(index);
        }
        self.requeue_transmissions();
    }
}
