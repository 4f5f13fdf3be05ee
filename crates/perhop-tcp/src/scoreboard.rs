//! Segments that were sent and are not yet acknowledged (RFC 6675, section 3).

mod linux;
mod loss;
mod path_mtu;
mod progress;
mod rate;
mod segments;
mod sent;
mod transmissions;

use perhop_core::{Duration, Time};

use crate::Offset;
use crate::delivery::{LostSegment, RateSample};

pub(crate) use linux::{Arrival, Counts, Facts, LinuxRack, millis};
pub(crate) use loss::DUPLICATE_THRESHOLD;
pub(crate) use progress::is_after;
use progress::next_order;
pub(crate) use progress::{Newest, Progress};
pub(crate) use sent::Span;

use rate::Sampler;
use segments::Segments;
use sent::Sent;
use transmissions::Transmissions;

/// The outstanding segments in order. Indices count from the front.
///
/// Thousands of connections do not fit into a cache: what only some need is boxed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    segments: Segments,
    pipe: u64,
    /// Blocks that were SACKed last; every whole segment in them is marked.
    recent_blocks: [(Offset, Offset); 4],
    /// One above the highest SACKed segment; zero if there is none.
    sacked_end: u32,
    /// End of the segments that were examined for loss.
    lost_end: u32,
    /// Index below which no lost segment waits for its retransmission.
    next_lost: u32,
    /// Number of outstanding SACKed segments.
    sacked: u32,
    /// Bytes of these.
    sacked_bytes: u64,
    /// End of the highest segment that arrived (RFC 8985: RACK.fack).
    fack: Offset,
    /// All transmissions, for [`detect_overdue`](Self::detect_overdue) only.
    transmissions: Option<Box<Transmissions>>,
    /// Number of transmissions, modulo 2²⁸.
    sent: u32,
    /// Counts of segments, kept by Linux's recovery only.
    counts: Counts,
    /// Number of SACKed segments above a lost one, if it adapts to reordering; otherwise
    /// [`DUPLICATE_THRESHOLD`].
    threshold: Option<u32>,
    /// Samples of the delivery rate, if needed.
    sampler: Option<Box<Sampler>>,
}

impl Scoreboard {
    /// Prefetches the first segments and the last one.
    #[inline(always)]
    pub fn prefetch(&self) {
        self.segments.prefetch();
    }

    /// Creates a scoreboard that detects losses by time.
    pub fn by_time() -> Self {
        Self { transmissions: Some(Box::default()), ..Self::default() }
    }

    /// Creates a scoreboard that detects losses by counting; `adaptive` if the threshold adapts to
    /// reordering.
    pub fn by_count(adaptive: bool) -> Self {
        Self { threshold: adaptive.then_some(DUPLICATE_THRESHOLD as u32), ..Self::default() }
    }

    /// Enables samples of the delivery rate.
    pub fn sampling(self) -> Self {
        Self { sampler: Some(Box::default()), ..self }
    }

    /// Returns the sample of the last acknowledgement, if sampling is enabled and it has delivered
    /// data; `min_rtt` is the connection's.
    pub fn take_sample(&mut self, min_rtt: Duration, now: Time) -> Option<RateSample> {
        self.sampler.as_mut()?.take(min_rtt, now)
    }

    /// Returns the segments that were marked as lost since the last call, if sampling is enabled.
    pub fn take_losses(&mut self) -> impl Iterator<Item = LostSegment> {
        self.sampler.iter_mut().flat_map(|sampler| sampler.take_losses())
    }

    /// Records that the application has no data although the windows have room.
    pub fn limit_samples(&mut self) {
        let pipe = self.pipe;
        if let Some(sampler) = &mut self.sampler {
            sampler.limit(pipe);
        }
    }

    /// Returns `true` if nothing is in flight because the application had no data.
    pub fn is_idle(&self) -> bool {
        self.pipe == 0 && self.sampler.as_ref().is_some_and(|sampler| sampler.is_limited())
    }

    /// Returns the number of bytes delivered since the connection began; zero without sampling.
    pub fn delivered(&self) -> u64 {
        self.sampler.as_ref().map_or(0, |sampler| sampler.delivered())
    }

    /// Returns the end of the acknowledged data: SND.UNA.
    pub fn acknowledged(&self) -> Offset {
        self.segments.start()
    }

    /// Returns the end of the sent data: SND.NXT.
    pub fn end(&self) -> Offset {
        self.segments.end()
    }

    /// Returns the number of bytes between the two: FlightSize (RFC 5681, section 2).
    pub fn flight(&self) -> u64 {
        self.end() - self.acknowledged()
    }

    /// Returns the estimate of the bytes in the network: pipe (RFC 6675, section 3).
    pub fn pipe(&self) -> u64 {
        self.pipe
    }

    /// Returns the number of outstanding SACKed segments.
    pub fn sacked_segments(&self) -> usize {
        self.sacked as usize
    }

    /// Returns the number of outstanding SACKed bytes.
    pub fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    /// Returns the number of outstanding segments.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Returns the last transmission time of the first outstanding segment.
    pub fn first_sent(&self) -> Option<Time> {
        (!self.segments.is_empty()).then(|| self.segments.get(0).at)
    }

    /// Returns `true` if everything is acknowledged.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Frees the memory of a window that was much larger than this number of segments. A slow
    /// start, for example, leaves room for many times the share of a busy link.
    pub fn fit(&mut self, window: usize) {
        self.segments.fit(window);
    }

    /// Adds a segment of new data.
    pub fn send(&mut self, length: u32, now: Time) -> Span {
        let start = self.end();
        let sent = Sent {
            start,
            at: now,
            length,
            order: self.sent,
            sacked: false,
            lost: false,
            retransmitted: false,
            ambiguous: false,
        };
        if let Some(transmissions) = &mut self.transmissions {
            transmissions.add(self.sent, self.segments.len());
        }
        self.sent = next_order(self.sent);
        self.segments.push(sent);
        self.pipe += u64::from(length);
        if let Some(sampler) = &mut self.sampler {
            sampler.send(self.pipe, length, now);
        }
        Span { start, length }
    }

    /// Takes the cumulative acknowledgement of all data before `ack`, which must not be beyond the
    /// end.
    pub fn acknowledge(&mut self, ack: Offset, now: Time, progress: &mut Progress) {
        let mut removed = 0_u32;
        while !self.segments.is_empty() {
            let front = self.segments.get(0);
            if front.start >= ack {
                break;
            }
            progress.acked += front.end().min(ack) - front.start;
            if front.end() > ack {
                // Part of a segment is acknowledged; the rest stays outstanding.
                let acked = (ack - front.start) as u32;
                let rest = Sent { start: ack, length: front.length - acked, ..front };
                self.pipe -= front.in_pipe() - rest.in_pipe();
                self.segments.set(0, rest);
                if front.sacked {
                    self.sacked_bytes -= u64::from(acked);
                } else {
                    progress.delivered += u64::from(acked);
                    if let Some(sampler) = &mut self.sampler {
                        sampler.deliver_part(acked.into(), now);
                    }
                }
                break;
            }
            self.pipe -= front.in_pipe();
            if front.sacked {
                self.sacked -= 1;
                self.sacked_bytes -= u64::from(front.length);
            } else {
                progress.cover(&front, now, &mut self.fack);
                if let Some(sampler) = &mut self.sampler {
                    sampler.deliver(0, &front, now);
                }
            }
            if let Some(sampler) = &mut self.sampler {
                sampler.pop();
            }
            self.segments.pop();
            removed += 1;
        }
        for edge in [&mut self.sacked_end, &mut self.lost_end, &mut self.next_lost] {
            *edge = edge.saturating_sub(removed);
        }
        if let Some(transmissions) = &mut self.transmissions {
            transmissions.remove(removed);
        }
    }

    /// Marks the segments that are wholly in `start..end` as SACKed.
    ///
    /// While a hole is open every acknowledgement repeats the blocks above it, longer by a segment.
    /// The range of the last blocks is skipped; otherwise the cost of a hole would be quadratic in
    /// the window.
    pub fn sack(&mut self, start: Offset, end: Offset, now: Time, progress: &mut Progress) {
        let known = self.recent_blocks.iter().find(|block| start <= block.0 && block.1 <= end);
        let (low, high) = known.copied().unwrap_or((start, start));
        self.mark_sacked(start, low, now, progress);
        self.mark_sacked(high, end, now, progress);
        self.recent_blocks.rotate_right(1);
        self.recent_blocks[0] = (start, end);
    }

    fn mark_sacked(&mut self, start: Offset, end: Offset, now: Time, progress: &mut Progress) {
        if start >= end {
            return;
        }
        // Most data that arrives follows what is SACKed.
        let first = self.segments.before(start, self.sacked_end);
        for index in first..self.segments.len() {
            let mut sent = self.segments.get(index);
            if sent.end() > end {
                break;
            }
            if sent.sacked {
                continue;
            }
            self.pipe -= sent.in_pipe();
            sent.sacked = true;
            self.segments.set(index, sent);
            self.sacked += 1;
            self.sacked_bytes += u64::from(sent.length);
            self.sacked_end = self.sacked_end.max(index as u32 + 1);
            progress.cover(&sent, now, &mut self.fack);
            if let Some(sampler) = &mut self.sampler {
                sampler.deliver(index, &sent, now);
            }
        }
    }

    /// Records a retransmission of the segment at `start`.
    pub fn retransmit(&mut self, start: Offset, now: Time) {
        let index = self.segments.before(start, self.next_lost);
        let mut sent = self.segments.get(index);
        debug_assert_eq!(sent.start, start);
        let before = sent.in_pipe();
        sent.retransmitted = true;
        sent.ambiguous = true;
        sent.at = now;
        sent.order = self.sent;
        self.segments.set(index, sent);
        self.pipe += sent.in_pipe() - before;
        if let Some(sampler) = &mut self.sampler {
            sampler.resend(index, self.pipe, sent.length, now);
        }
        if let Some(transmissions) = &mut self.transmissions {
            transmissions.add(self.sent, index);
        }
        self.sent = next_order(self.sent);
    }
}

#[cfg(test)]
mod tests;
