//! Reactions to duplicates, losses and marks: `tcp_fastretrans_alert` and what it calls.

use perhop_core::{Duration, Time};

use super::{Machine, REORDERING, Resend, Seen, State, TICK, millis};
use crate::Offset;
use crate::scoreboard::is_after;

/// Recoveries for which a widened reordering window stays (TCP_RACK_RECOVERY_THRESH).
const PERSIST: u32 = 16;

impl Machine<'_> {
    /// Decides by the state and the acknowledgement (tcp_fastretrans_alert).
    pub(super) fn alert(&mut self, seen: &mut Seen) {
        if seen.echo {
            self.linux.threshold_before = None;
        }
        let una = self.una();
        if self.linux.state == State::Open {
            self.linux.first_resent = None;
        } else if una >= self.linux.high {
            match self.linux.state {
                State::Cwr if una != self.linux.high => {
                    self.end_reduction();
                    self.linux.state = State::Open;
                }
                State::Recovery => {
                    self.linux.duplicates = 0;
                    if self.undo_recovery(seen) {
                        return;
                    }
                    self.end_reduction();
                }
                _ => {}
            }
        }
        match self.linux.state {
            State::Recovery => {
                if !seen.advanced {
                    self.add_duplicates(seen);
                } else if self.undo_partial(seen) {
                    return;
                }
                if self.undo_by_duplicates() {
                    self.try_open(seen);
                }
                self.identify_losses(seen);
                if self.linux.state != State::Recovery {
                    if self.lost() == 0 {
                        return;
                    }
                    self.enter_recovery(seen.echo);
                }
                self.linux.resend = Resend::Lost;
                return;
            }
            State::Loss => {
                self.process_loss(seen);
                self.identify_losses(seen);
                if !(self.linux.state == State::Open || seen.lost_again) {
                    return;
                }
            }
            _ => {}
        }
        if seen.advanced {
            self.linux.duplicates = 0;
        }
        self.add_duplicates(seen);
        if self.linux.state <= State::Disorder {
            self.undo_by_duplicates();
        }
        self.identify_losses(seen);
        if self.lost() == 0 {
            self.try_open(seen);
            return;
        }
        self.enter_recovery(seen.echo);
        self.linux.resend = Resend::Lost;
    }

    /// Enters fast recovery (tcp_enter_recovery).
    pub(super) fn enter_recovery(&mut self, echo: bool) {
        self.forget_first_resent();
        self.linux.threshold_before = None;
        self.begin_undo();
        if !self.linux.is_reducing() {
            if !echo {
                self.linux.threshold_before = Some(self.linux.current_threshold());
            }
            self.begin_reduction();
        }
        self.linux.state = State::Recovery;
    }

    fn forget_first_resent(&mut self) {
        if !self.sender.scoreboard.any_sent_again() {
            self.linux.first_resent = None;
        }
    }

    /// Prepares to undo what follows (tcp_init_undo).
    pub(super) fn begin_undo(&mut self) {
        self.linux.undo_from = Some(self.una());
        let mut resent = self.sender.scoreboard.counts().resent as i32;
        if let Some((_, true)) = self.linux.probe {
            resent += 1;
        }
        // Zero would mean that everything was reported.
        self.linux.unreported = if resent == 0 { -1 } else { resent };
    }

    /// Begins to reduce the window (tcp_init_cwnd_reduction).
    pub(super) fn begin_reduction(&mut self) {
        self.linux.high = self.end();
        self.linux.probe = None;
        self.linux.credit = 0;
        self.linux.window_before = self.linux.window;
        (self.linux.delivered, self.linux.sent) = (0, 0);
        self.linux.threshold = self.threshold();
        self.sender.note_reduction(self.now, false, false);
    }

    /// Ends a reduction at its threshold, unless it was undone (tcp_end_cwnd_reduction).
    fn end_reduction(&mut self) {
        if self.linux.state == State::Cwr || self.linux.undo_from.is_some() {
            self.linux.window = self.linux.threshold.min(super::INFINITE);
        }
    }

    /// Returns `true` if the first retransmission came after what was acknowledged now was sent
    /// (tcp_packet_delayed).
    fn was_delayed(&self, seen: &Seen) -> bool {
        match (self.linux.first_resent, seen.echoed) {
            // Without SACK, the stamp is forgotten at the end of recovery (`stays`).
            (None, _) => self.sack() || self.una() < self.linux.high,
            (Some(first), Some(echo)) => echo < first,
            (Some(_), None) => false,
        }
    }

    fn may_undo(&self, seen: &Seen) -> bool {
        self.linux.undo_from.is_some() && (self.linux.unreported == 0 || self.was_delayed(seen))
    }

    /// Gives the window back (tcp_undo_cwnd_reduction).
    fn undo(&mut self, unmark: bool) {
        if unmark {
            self.sender.scoreboard.unmark_all();
        }
        if let Some(before) = self.linux.threshold_before {
            self.linux.window = self.linux.window.max(self.linux.window_before);
            self.linux.threshold = self.linux.threshold.max(before);
        }
        self.linux.undo_from = None;
        self.linux.rack.advanced = true;
    }

    /// Without SACK, what is acknowledged is not beyond the state's beginning: further duplicates
    /// are those of old data (tcp_is_non_sack_preventing_reopen).
    fn stays(&mut self) -> bool {
        let stays = !self.sack() && self.una() == self.linux.high;
        if stays {
            self.forget_first_resent();
        }
        stays
    }

    /// Ends recovery, undone or not (tcp_try_undo_recovery); returns `true` if its state stays.
    fn undo_recovery(&mut self, seen: &Seen) -> bool {
        if self.may_undo(seen) {
            self.undo(false);
        } else {
            self.linux.persist = self.linux.persist.saturating_sub(1);
        }
        if self.stays() {
            return true;
        }
        self.linux.state = State::Open;
        false
    }

    /// Undoes recovery if the hole was filled by a late segment (tcp_try_undo_partial); returns
    /// `true` if retransmissions prevent it.
    fn undo_partial(&mut self, seen: &Seen) -> bool {
        if self.linux.undo_from.is_none() || !self.was_delayed(seen) {
            return false;
        }
        self.note_reordering(seen.una);
        if self.sender.scoreboard.counts().resent > 0 {
            return true;
        }
        self.forget_first_resent();
        self.undo(true);
        self.keep_open();
        false
    }

    /// Undoes it if every retransmission was in vain (tcp_try_undo_dsack).
    fn undo_by_duplicates(&mut self) -> bool {
        if self.linux.undo_from.is_none() || self.linux.unreported != 0 {
            return false;
        }
        self.linux.persist = (self.linux.persist + 1).min(PERSIST);
        self.undo(false);
        true
    }

    /// Undoes a timeout (tcp_try_undo_loss).
    fn undo_loss(&mut self, spurious: bool, seen: &Seen) -> bool {
        if !spurious && !self.may_undo(seen) {
            return false;
        }
        self.undo(true);
        self.linux.timeouts = 0;
        if !self.stays() && (spurious || self.sack()) {
            self.linux.state = State::Open;
        }
        true
    }

    /// Goes on after a timeout (tcp_process_loss).
    fn process_loss(&mut self, seen: &mut Seen) {
        let una = self.una();
        let recovered = una >= self.linux.high;
        if seen.advanced && self.undo_loss(false, seen) {
            return;
        }
        let beyond = self.end() > self.linux.high;
        if self.linux.frto {
            if seen.arrival.original && self.undo_loss(true, seen) {
                return;
            }
            if beyond {
                if seen.arrival.sacked || seen.duplicates > 0 {
                    self.linux.frto = false;
                }
            } else if seen.advanced && !recovered {
                self.linux.high = self.end();
                if self.sender.available().is_some_and(|_| self.sender.fits_windows(1)) {
                    self.linux.resend = Resend::New;
                    return;
                }
                self.linux.frto = false;
            }
        }
        if recovered {
            self.undo_recovery(seen);
            return;
        }
        if !self.sack() {
            if self.end() > self.linux.high && seen.duplicates > 0 {
                self.add_duplicates(seen);
            } else if seen.advanced {
                self.linux.duplicates = 0;
            }
        }
        self.linux.resend = Resend::Lost;
    }

    /// Enters the state after a timeout (tcp_enter_loss).
    pub(super) fn enter_loss(&mut self) {
        let fresh = self.linux.state < State::Recovery;
        let una = self.una();
        if !self.sack() {
            self.linux.duplicates = 0;
        }
        self.sender.scoreboard.mark_all(self.now, &self.linux.rack);
        if self.linux.state <= State::Disorder
            || self.linux.high <= una
            || self.linux.state == State::Loss && self.linux.timeouts == 0
        {
            self.linux.threshold_before = Some(self.linux.current_threshold());
            self.linux.window_before = self.linux.window;
            self.linux.threshold = self.threshold();
            self.begin_undo();
        }
        self.linux.window = self.in_flight() + 1;
        self.linux.credit = 0;
        if self.linux.state <= State::Disorder && self.sacked() >= REORDERING {
            self.linux.reordering = self.linux.reordering.min(REORDERING);
        }
        self.reset_control();
        self.linux.state = State::Loss;
        self.linux.high = self.end();
        self.linux.probe = None;
        self.sender.note_reduction(self.now, false, false);
        self.linux.frto = self.sender.config.frto && (fresh || self.linux.timeouts > 0);
    }

    /// Stays open, or disordered while something is missing (tcp_try_to_open).
    fn try_open(&mut self, seen: &Seen) {
        self.forget_first_resent();
        if seen.echo {
            self.enter_cwr();
        }
        if self.linux.state != State::Cwr {
            self.keep_open();
        }
    }

    fn keep_open(&mut self) {
        let missing = self.sacked() + self.lost() > 0 || self.sender.scoreboard.any_sent_again();
        let state = if missing { State::Disorder } else { State::Open };
        if self.linux.state != state {
            self.linux.state = state;
            self.linux.high = self.end();
        }
    }

    /// Reduces the window because of marks (tcp_enter_cwr).
    fn enter_cwr(&mut self) {
        self.linux.threshold_before = None;
        if self.linux.state < State::Cwr {
            self.linux.undo_from = None;
            self.begin_reduction();
            self.linux.state = State::Cwr;
        }
    }

    /// Looks for losses (tcp_identify_packet_loss).
    fn identify_losses(&mut self, seen: &mut Seen) {
        if self.packets() == 0 {
            return;
        }
        if !self.sack() {
            let state = self.linux.state;
            if state < State::Recovery && self.linux.duplicates >= self.linux.reordering
                || state == State::Recovery && seen.advanced
            {
                self.sender.scoreboard.mark_first();
            }
            return;
        }
        let resent = self.sender.scoreboard.counts().resent;
        if std::mem::take(&mut self.linux.rack.advanced)
            && let Some(left) = self.detect_late()
        {
            self.wait_for_reordering(left);
            seen.set_timer = false;
        }
        seen.lost_again |= self.sender.scoreboard.counts().resent < resent;
    }

    /// Marks overdue segments as lost; returns the time until the last that may be late is.
    pub(super) fn detect_late(&mut self) -> Option<Duration> {
        let window = self.reordering_window();
        self.sender.scoreboard.detect_late(self.now, &self.linux.rack, window)
    }

    /// Returns the reordering window (tcp_rack_reo_wnd).
    fn reordering_window(&self) -> Duration {
        if !self.linux.reordering_seen
            && (self.linux.state >= State::Recovery || self.sacked() >= self.linux.reordering)
        {
            return Duration::ZERO;
        }
        let least = match self.linux.least_rtt {
            Duration::MAX => return self.sender.rtt.smoothed().unwrap_or(Duration::ZERO),
            least => least,
        };
        let smoothed = self.sender.rtt.smoothed().unwrap_or(Duration::MAX);
        (least / 4 * self.linux.quarters).min(smoothed)
    }

    /// Widens the reordering window by reported duplicates, once a round (tcp_rack_update_reo_wnd).
    pub(super) fn widen(&mut self, seen: &Seen) {
        let Some(newest) = seen.arrival.newest else { return };
        let linux = &mut *self.linux;
        if linux.widened_at.is_some_and(|at| !is_after(newest, at)) {
            linux.duplicate_seen = false;
        }
        if std::mem::take(&mut linux.duplicate_seen) {
            linux.quarters = (linux.quarters + 1).min(0xff);
            linux.widened_at = Some(self.sender.scoreboard.last_order());
            linux.persist = PERSIST;
        } else if linux.persist == 0 {
            linux.quarters = 1;
        }
    }

    /// Evaluates an acknowledgement after a tail loss probe (tcp_process_tlp_ack).
    pub(super) fn judge_probe(&mut self, ack: Offset, seen: &Seen) {
        let Some((end, retransmission)) = self.linux.probe else { return };
        if ack < end {
            return;
        }
        if !retransmission || seen.duplicate_of_probe && seen.duplicate_reported {
            self.linux.probe = None;
        } else if ack > end {
            self.begin_reduction();
            self.linux.state = State::Cwr;
            self.end_reduction();
            self.keep_open();
        } else if !(seen.advanced || seen.not_duplicate || seen.arrival.sacked) {
            self.linux.probe = None;
        }
    }

    /// Counts duplicates without SACK (tcp_add_reno_sack).
    fn add_duplicates(&mut self, seen: &mut Seen) {
        if self.sack() || seen.duplicates == 0 {
            return;
        }
        let before = self.linux.duplicates;
        self.linux.duplicates += seen.duplicates;
        self.limit_duplicates(0);
        seen.arrival.delivered += self.linux.duplicates.saturating_sub(before);
    }

    /// Subtracts duplicates that an advance covers (tcp_remove_reno_sacks).
    pub(super) fn remove_duplicates(&mut self, seen: &mut Seen) {
        let acked = seen.arrival.acked;
        if acked > 0 {
            // `arrival` counts all that were acknowledged as delivered.
            seen.arrival.delivered -= acked;
            seen.arrival.delivered += acked.saturating_sub(self.linux.duplicates).max(1);
            self.linux.duplicates = self.linux.duplicates.saturating_sub(acked - 1);
        }
        self.limit_duplicates(acked);
    }

    /// More duplicates than segments show reordering (tcp_check_reno_reordering).
    fn limit_duplicates(&mut self, acked: u32) {
        let packets = self.packets();
        let holes = self.lost().max(1).min(packets);
        if self.linux.duplicates + holes > packets {
            self.linux.duplicates = packets - holes;
            self.linux.reordering = (packets + acked).min(super::MAX_REORDERING);
            self.linux.reordering_seen = true;
        }
    }

    /// Returns the tick of now.
    pub(super) fn tick(&self) -> u64 {
        (self.now + self.sender.config.tick_phase).as_picos() / TICK
    }

    /// Returns the millisecond of now.
    pub(super) fn millis(&self) -> u64 {
        millis(self.now)
    }

    /// Returns the time of a tick.
    pub(super) fn at_tick(&self, tick: u64) -> Time {
        Time::from_picos(tick * TICK - self.sender.config.tick_phase.as_picos())
    }
}

#[cfg(test)]
mod tests;
