//! What is sent: after timeouts, retransmissions, and new data.

use perhop_core::{Duration, Time};

use super::{Due, Machine, Pending, Resend, State};
use crate::scoreboard::Span;
use crate::sender::Sender;
use crate::{Flags, Offset, Segment};

/// Time after a transmission in which more may be deferred.
const RECENT: Duration = Duration::from_millis(1);
/// Time in which an acknowledgement must be due for more to be deferred; it was half a round trip
/// before Linux 6.18.
const SOON: Duration = Duration::from_millis(1);

/// Largest buffer of data to be sent, in bytes: 64 KiB less the headers (sk_setup_caps).
const BUFFER: u64 = 65_215;

impl Machine<'_> {
    fn poll(&mut self) -> Option<Segment> {
        if self.linux.discarded == Some(self.now) {
            return None;
        }
        self.note_writes();
        match std::mem::take(&mut self.linux.due) {
            Due::First => {
                let span = self.sender.scoreboard.first()?;
                return Some(self.send_again(span));
            }
            Due::Probe => {
                if let Some(segment) = self.probe() {
                    return Some(segment);
                }
            }
            Due::Nothing => {}
        }
        if self.sender.is_held(self.now) {
            return None;
        }
        if self.linux.resend == Resend::New {
            if let Some(segment) = self.send_new() {
                return Some(segment);
            }
            self.linux.resend = Resend::No;
            if self.end() <= self.linux.high {
                self.linux.frto = false;
                self.linux.resend = Resend::Lost;
            }
        }
        if self.linux.resend == Resend::Lost {
            if let Some(span) = self.next_lost() {
                let first = span.start == self.una();
                let reordering = self.linux.pending == Pending::Reordering;
                let segment = self.send_again(span);
                if self.linux.is_reducing() {
                    self.linux.sent += 1;
                }
                if first && !reordering {
                    self.linux.pending = Pending::Retransmission;
                    self.rearm();
                }
                return Some(segment);
            }
            self.linux.resend = Resend::No;
        }
        if let Some(segment) = self.send_new() {
            return Some(segment);
        }
        self.end_burst();
        None
    }

    /// Returns the next lost segment that the window permits (tcp_xmit_retransmit_queue).
    fn next_lost(&mut self) -> Option<Span> {
        let counts = self.sender.scoreboard.counts();
        if self.in_flight() >= self.linux.window || counts.resent >= counts.lost {
            return None;
        }
        self.sender.scoreboard.next_lost()
    }

    fn send_again(&mut self, span: Span) -> Segment {
        let segment = self.resend(span, false);
        let now = self.millis();
        self.linux.first_resent.get_or_insert(now);
        self.linux.unreported = self.linux.unreported.max(0) + 1;
        segment
    }

    fn resend(&mut self, mut span: Span, probe: bool) -> Segment {
        let (now, mss) = (self.now, u32::from(self.sender.config.mss));
        if span.length > mss {
            span = self.sender.scoreboard.shorten(span, mss);
            self.sender.scoreboard.recount();
        }
        if self.in_flight() == 0 {
            self.note_start();
        }
        self.linux.last_sent = self.tick();
        self.linux.sent_at = now;
        self.sender.scoreboard.send_again(span.start, now, probe);
        self.sender.retransmits += 1;
        self.sender.pace(now, span.length);
        self.sender.segment(now, span, Flags::RETRANSMISSION)
    }

    /// Returns the next new segment, if the windows permit it (tcp_write_xmit).
    fn send_new(&mut self) -> Option<Segment> {
        if self.end() > 0 && self.una() == 0 || self.in_flight() >= self.linux.window {
            return None;
        }
        self.transmit()
    }

    fn transmit(&mut self) -> Option<Segment> {
        let opening = self.end() == 0;
        let length = match opening {
            true => 1, // the SYN
            false => self.sender.available().filter(|&length| self.sender.fits_windows(length))?,
        };
        if !opening && self.defers().is_some() {
            return None;
        }
        let (now, packets) = (self.now, self.packets());
        if self.in_flight() == 0 {
            self.note_start();
        }
        self.linux.last_sent = self.tick();
        let span = self.sender.scoreboard.send(length, now);
        if span.start >= self.linux.chunk_end {
            let room = (self.linux.window + 1).saturating_sub(self.in_flight()).max(1);
            let chunk =
                Offset::from(room.min(self.linux.chunk) * u32::from(self.sender.config.mss));
            self.linux.chunk_end = span.start + chunk;
        }
        if packets == 0 || self.linux.pending == Pending::Probe {
            self.rearm();
        }
        self.linux.burst += u32::from(!opening);
        self.linux.sent_at = now;
        if self.linux.is_reducing() {
            self.linux.sent += 1;
        }
        self.sender.pace(now, length);
        Some(self.sender.segment(now, span, Flags::default()))
    }

    /// Records that the application has written: the last buffer with data to be sent takes more,
    /// up to the size that all have (tcp_sendmsg_locked).
    fn note_writes(&mut self) {
        let written = self.sender.written;
        if written == self.linux.written {
            return;
        }
        let mss = u64::from(self.sender.config.mss);
        let size = ((self.linux.widest / 2).min(BUFFER) / mss).max(1) * mss;
        self.linux.buffer = size;
        self.linux.refills |= self.linux.written.saturating_sub(self.end()) < size;
        self.linux.written = written;
    }

    /// Returns the end of the first buffer with data to be sent.
    fn buffer_end(&self) -> Offset {
        let (linux, written) = (&self.linux, self.sender.written);
        if linux.refills {
            return written;
        }
        let sent = self.end().saturating_sub(linux.buffers_from);
        let buffers = sent / linux.buffer + 1;
        linux.buffers_from.saturating_add(buffers.saturating_mul(linux.buffer)).min(written)
    }

    /// Returns `Some` if it is better to wait for more room (tcp_tso_should_defer): the window has
    /// room for a small share of it and not for a whole buffer, a segment was just sent, and an
    /// acknowledgement is soon due. `Some(true)` if the congestion window is the limit.
    fn defers(&self) -> Option<bool> {
        let divisor = self.sender.config.tso_divisor;
        let (linux, mss) = (&self.linux, u64::from(self.sender.config.mss));
        let end = self.end();
        if divisor == 0
            || linux.state >= State::Recovery
            || end < linux.chunk_end
            || self.now.since(linux.sent_at) > RECENT
            || self.in_flight() >= linux.window
        {
            return None;
        }
        let buffer = self.buffer_end();
        let length = buffer - end;
        let room = u64::from(linux.window - self.in_flight()) * mss;
        let windows = (self.una() + self.sender.receive_window).saturating_sub(end);
        let limit = room.min(windows);
        let window = (u64::from(linux.window) * mss).min(self.sender.receive_window);
        if length <= mss
            || limit >= u64::from(linux.chunk) * mss
            || limit >= window / u64::from(divisor)
            || buffer < self.sender.written && limit >= length
            // The FIN is part of the last buffer, which takes no more.
            || buffer == self.sender.written && self.sender.closed
        {
            return None;
        }
        let round = self.sender.rtt.smoothed().unwrap_or(Duration::ZERO);
        let first = self.sender.scoreboard.first_sent()?;
        (self.now + SOON.min(round / 2) >= first + round)
            .then_some(room < windows && room <= length)
    }

    /// Returns a tail loss probe: new data, or else the last segment.
    fn probe(&mut self) -> Option<Segment> {
        let segment = match self.transmit() {
            Some(segment) => {
                let limited = self.in_flight() >= self.linux.window;
                self.linux.burst = 0;
                self.validate(limited);
                self.linux.probe = Some((self.end(), false));
                segment
            }
            None => {
                let span = self.sender.scoreboard.last()?;
                let segment = self.resend(span, true);
                self.linux.probe = Some((self.end(), true));
                segment
            }
        };
        self.linux.pending = Pending::Nothing;
        self.rearm();
        Some(segment)
    }

    /// Ends a burst of new data.
    pub(super) fn end_burst(&mut self) {
        let sent = std::mem::take(&mut self.linux.burst) > 0;
        if self.una() == 0 || !sent && self.sender.available().is_none() {
            return;
        }
        self.linux.chunk_end = self.end();
        if std::mem::take(&mut self.linux.refills) {
            self.linux.buffers_from = self.end();
        }
        let defers = self.sender.available().and_then(|_| self.defers());
        let limited = self.in_flight() >= self.linux.window || defers == Some(true);
        if sent || limited {
            self.validate(limited);
        }
        if sent {
            self.schedule_probe(false);
        }
    }
}

impl Sender {
    pub(in crate::sender) fn poll_as_linux(&mut self, now: Time) -> Option<Segment> {
        self.as_linux(now, |machine| machine.poll()).flatten()
    }
}

#[cfg(test)]
mod tests;
