//! The sender's timers: retransmission (RFC 6298), tail loss probe and reordering (RFC 8985).

use perhop_core::Time;

use super::pacing::Pacer;
use super::tlp::Tlp;
use super::{Recovery, Sender};
use crate::scoreboard::Progress;

impl Sender {
    /// Returns when [`on_timer`](Self::on_timer) is due; [`Time::MAX`] if it is not.
    pub fn deadline(&self) -> Time {
        let paced = self.pacer.as_deref().map_or(Time::MAX, Pacer::deadline).min(self.deadline);
        match self.rack.as_deref() {
            None => paced,
            Some((rack, tlp)) => paced.min(tlp.deadline).min(rack.deadline),
        }
    }

    /// Handles the timers that are due at `now`. Call [`poll`](Self::poll) after it.
    pub fn on_timer(&mut self, now: Time) {
        if let Some(pacer) = &mut self.pacer {
            pacer.on_timer(now);
        }
        if self.linux.is_some() {
            self.on_linux_timer(now);
            return;
        }
        if self.rack.as_deref().is_some_and(|(rack, _)| now >= rack.deadline) {
            self.detect_overdue(now, &Progress::default());
        }
        if let Some((_, tlp)) = self.rack.as_deref_mut()
            && now >= tlp.deadline
        {
            // The probe replaces the timeout, and the timeout follows it.
            tlp.deadline = Time::MAX;
            self.probe_due = self.recovery == Recovery::Open && !self.scoreboard.is_empty();
            self.deadline = now + self.rtt.timeout();
        }
        if now >= self.deadline {
            self.time_out(now);
        }
        if self.config.congestion.is_modelled() {
            self.update_model(now, 0);
        }
    }

    /// Starts the timer if data is outstanding and it is not running (RFC 6298, section 5.1).
    pub(super) fn arm_timer(&mut self, now: Time) {
        if self.deadline == Time::MAX {
            self.deadline = now + self.rtt.timeout();
        }
    }

    /// Restarts the timer when new data is acknowledged (sections 5.2 and 5.3).
    pub(super) fn restart_timer(&mut self, now: Time) {
        self.deadline = match self.scoreboard.is_empty() {
            true => Time::MAX,
            false => now + self.rtt.timeout(),
        };
    }

    /// Sets when a probe is due, if one may be sent (RFC 8985, section 7.2): new data was sent or
    /// acknowledged, and no segment is SACKed or being recovered.
    pub(super) fn schedule_probe(&mut self, now: Time) {
        let Some((_, tlp)) = self.rack.as_deref_mut() else { return };
        let open = self.recovery == Recovery::Open && tlp.may_probe();
        let segments = self.scoreboard.segments();
        let quiet = segments > 0 && self.scoreboard.sacked_segments() == 0;
        tlp.deadline = match open && quiet && self.scoreboard.acknowledged() > 0 {
            true => (now + Tlp::timeout(self.rtt.smoothed(), segments)).min(self.deadline),
            false => Time::MAX,
        };
    }
}
