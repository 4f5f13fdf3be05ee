//! Path MTU discovery (RFC 1191, section 6.4): shorter segments after a router's error.

use perhop_core::Time;

use super::undo::Frto;
use super::{Recovery, Sender};
use crate::{Seq, TCP_HEADER_BYTES, TIMESTAMP_BYTES};

/// Share of the congestion window below which the threshold does not fall: Linux's
/// `tcp_current_ssthresh` (include/net/tcp.h).
const KEPT: f64 = 0.75;

impl Sender {
    /// Limits the next segments to `room` bytes of TCP header and data, that of the path; `None`
    /// removes the limit. Segments in flight count as they were sent.
    ///
    /// As in Linux, which counts segments, the congestion window keeps their number.
    pub fn limit_segments(&mut self, room: Option<u32>) {
        let options = if self.config.timestamps { TIMESTAMP_BYTES } else { 0 };
        let limit = room.map(|room| room.saturating_sub(TCP_HEADER_BYTES + options).max(1));
        let agreed = u32::from(self.agreed_mss);
        let mss = limit.map_or(agreed, |limit| limit.min(agreed)) as u16;
        if mss == self.config.mss {
            return;
        }
        let factor = f64::from(mss) / self.mss();
        self.config.mss = mss;
        self.window.cwnd *= factor;
        self.window.ssthresh *= factor;
        if let Some(model) = self.config.congestion.model() {
            model.resize(mss.into());
        }
    }

    /// Takes the error that the segment which begins at `seq` exceeds the MTU of a link, whose
    /// packets have `room` bytes for TCP header and data. Call [`poll`](Self::poll) after it.
    ///
    /// All segments that are too long are lost, and this is no congestion signal (Linux:
    /// `tcp_simple_retransmit` in net/ipv4/tcp_input.c). An error about data that is not
    /// outstanding has no effect (RFC 5927, section 4.1).
    pub fn on_too_big(&mut self, now: Time, seq: Seq, room: u32) {
        let una = self.scoreboard.acknowledged();
        if !seq.to_offset(una).is_some_and(|start| (una..self.scoreboard.end()).contains(&start)) {
            return;
        }
        self.limit_segments(Some(room));
        if !self.scoreboard.lose_longer(self.config.mss.into()) {
            return;
        }
        if self.recovery == Recovery::Open {
            let kept = KEPT * self.window.cwnd;
            self.window.ssthresh = self.window.ssthresh.max(kept);
        }
        self.undoable = false;
        self.duplicates = 0;
        self.reducing = false;
        self.probe_due = false;
        if let Some((rack, tlp)) = self.rack.as_deref_mut() {
            rack.deadline = Time::MAX;
            tlp.forget();
        }
        self.recovery = Recovery::Timeout { point: self.scoreboard.end(), frto: Frto::Off };
        self.restart_timer(now);
    }
}
