//! Choice of the next segment: lost data, new data, or a probe.

use perhop_core::{Ecn, Time};

use super::undo::Frto;
use super::{LossDetection, Recovery, Sender};
use crate::scoreboard::Span;
use crate::timestamps::micros;
use crate::{Flags, Segment, Seq};

impl Sender {
    /// Returns the next segment that may be sent at `now`, if any. Call it until it returns `None`.
    #[must_use]
    pub fn poll(&mut self, now: Time) -> Option<Segment> {
        if self.linux.is_some() {
            return self.poll_as_linux(now);
        }
        if self.probe_due {
            self.probe_due = false;
            return self.probe(now);
        }
        if self.is_held(now) {
            return None;
        }
        if let Some(span) = self.next_retransmission() {
            return Some(self.retransmit(now, span));
        }
        if let Some(length) = self.next_new() {
            return Some(self.send_new(now, length));
        }
        self.last_resort().map(|span| self.retransmit(now, span))
    }

    fn retransmit(&mut self, now: Time, mut span: Span) -> Segment {
        if span.length > self.config.mss.into() {
            span = self.scoreboard.shorten(span, self.config.mss.into());
        }
        self.scoreboard.retransmit(span.start, now);
        if span.start == self.scoreboard.acknowledged() {
            // Its acknowledgement takes a round trip from now (RFC 6675, section 6; Linux:
            // tcp_xmit_retransmit_queue).
            self.restart_timer(now);
        }
        self.retransmits += 1;
        if let Some(undo) = self.undo_mut() {
            undo.on_retransmission(now);
        }
        self.note_sent(now, span.length);
        self.segment(now, span, Flags::RETRANSMISSION)
    }

    fn send_new(&mut self, now: Time, length: u32) -> Segment {
        if self.scoreboard.is_idle()
            && let Some(model) = self.config.congestion.model()
        {
            model.on_restart(&mut self.window, now, self.scoreboard.delivered());
        }
        let span = self.scoreboard.send(length, now);
        self.note_usage(false);
        self.arm_timer(now);
        if self.rack.is_some() {
            self.schedule_probe(now);
        }
        self.note_sent(now, span.length);
        self.segment(now, span, Flags::default())
    }

    fn note_sent(&mut self, now: Time, length: u32) {
        self.pace(now, length);
        if let Some(prr) = self.prr_mut() {
            prr.on_sent(length.into());
        }
    }

    /// Returns the tail loss probe: new data regardless of the congestion window, otherwise the
    /// last segment again (RFC 8985, section 7.3).
    fn probe(&mut self, now: Time) -> Option<Segment> {
        let new = self.available().filter(|&length| self.fits_windows(length));
        let segment = match new {
            Some(length) => self.send_new(now, length),
            None => {
                let span = self.scoreboard.last_unsacked()?;
                self.retransmit(now, span)
            }
        };
        if let Some((_, tlp)) = self.rack.as_deref_mut() {
            tlp.on_probe(self.scoreboard.end(), new.is_none());
            tlp.deadline = Time::MAX;
        }
        Some(segment)
    }

    /// Returns a lost segment, if the window permits it (NextSeg rule 1).
    fn next_retransmission(&mut self) -> Option<Span> {
        if matches!(self.recovery, Recovery::Timeout { frto: Frto::Probing, .. }) {
            return None;
        }
        let span = self.scoreboard.next_lost()?;
        let urgent = match &mut self.recovery {
            Recovery::Fast { urgent, .. } => std::mem::take(urgent),
            _ => false,
        };
        // Without SACK a partial acknowledgement causes the retransmission of the next hole at
        // once, too.
        let urgent = urgent || !self.uses_sack() && matches!(self.recovery, Recovery::Fast { .. });
        let length = span.length.min(self.config.mss.into());
        (urgent || self.has_room(length)).then_some(span)
    }

    /// Returns the length of new data that may be sent, if any: a full segment, or the rest of the
    /// written data (sender's silly window avoidance, RFC 9293, section 3.8.6.2.1; Nagle's
    /// algorithm off).
    fn next_new(&mut self) -> Option<u32> {
        let end = self.scoreboard.end();
        if end == 0 {
            return Some(1); // the SYN
        }
        if self.scoreboard.acknowledged() == 0 {
            return None;
        }
        let available = self.available();
        let Some(length) = available.filter(|&length| self.fits_windows(length)) else {
            // The receiver's limit counts as the path's (draft-ietf-ccwg-bbr-06, section
            // 4.1.1.3.1).
            if available.is_none() && (self.scoreboard.pipe() as f64) < self.window.cwnd {
                self.scoreboard.limit_samples();
            }
            return None;
        };
        if self.has_room(length) {
            return Some(length);
        }
        self.note_usage(true);
        if let Some(model) = self.config.congestion.model() {
            model.on_window_full();
        }
        None
    }

    /// Returns the length of the next new segment, if any data is left to send.
    pub(super) fn available(&self) -> Option<u32> {
        match self.written.checked_sub(self.scoreboard.end()) {
            Some(left) if left > 0 => Some(left.min(self.config.mss.into()) as u32),
            Some(_) if self.closed => Some(1), // the FIN
            _ => None,
        }
    }

    /// Returns `true` if the receiver and the send buffer have room for `length` more bytes.
    pub(super) fn fits_windows(&self, length: u32) -> bool {
        let windows = self.receive_window.min(self.config.window.into());
        self.scoreboard.flight() + u64::from(length) <= windows
    }

    /// Returns a segment to send in fast recovery when the window has room and there is nothing
    /// else: one that may be lost, or once the last one, whose acknowledgement keeps recovery going
    /// (NextSeg rules 3 and 4).
    fn last_resort(&mut self) -> Option<Span> {
        let Recovery::Fast { rescued, .. } = self.recovery else { return None };
        if self.config.loss_detection != LossDetection::Sack
            || !self.has_room(self.config.mss.into())
        {
            return None;
        }
        if let Some(span) = self.scoreboard.next_unsure() {
            return Some(span);
        }
        if rescued {
            return None;
        }
        if let Recovery::Fast { rescued, .. } = &mut self.recovery {
            *rescued = true;
        }
        self.scoreboard.last_unsacked()
    }

    /// Returns `true` if the congestion window has room for `length` more bytes.
    fn has_room(&self, length: u32) -> bool {
        let in_network = match (self.uses_sack(), self.recovery) {
            // Without limited transmit, SACKed segments make no room before a loss is certain.
            (true, Recovery::Open) if !self.config.limited_transmit => self.scoreboard.flight(),
            (true, _) => self.scoreboard.pipe(),
            (false, Recovery::Open) if !self.config.limited_transmit => self.scoreboard.pipe(),
            (false, _) => {
                let left = self.duplicates * u64::from(self.config.mss);
                self.scoreboard.pipe().saturating_sub(left)
            }
        };
        (in_network + u64::from(length)) as f64 <= self.window.cwnd
    }

    pub(super) fn segment(&mut self, now: Time, span: Span, flags: Flags) -> Segment {
        let syn = span.start == 0;
        let fin = self.closed && span.start == self.written;
        let (payload, flags) = match (syn, fin) {
            (true, _) => (0, flags.with(Flags::SYN).with(self.config.ecn.syn())),
            (_, true) => (0, flags.with(Flags::FIN).with(Flags::ACK)),
            _ => (span.length as u16, flags.with(Flags::ACK)),
        };
        let (echo, ecn) = match payload {
            0 => (Flags::default(), Ecn::NotEct),
            _ => self.marks.on_data(span.start == 1, flags.has(Flags::RETRANSMISSION)),
        };
        Segment {
            seq: Seq::from_offset(span.start),
            ack: Seq(u32::from(!syn)),
            window: 65_535,
            payload,
            flags: flags.with(echo),
            ecn,
            timestamps: self.config.timestamps.then(|| (micros(now), self.echo)),
            sack: Default::default(),
        }
    }
}
