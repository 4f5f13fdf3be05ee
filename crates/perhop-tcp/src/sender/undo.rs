//! Undoing the response to a spurious loss (Linux: tcp_try_undo_recovery and related functions in
//! net/ipv4/tcp_input.c): by timestamps (Eifel, RFC 3522), by duplicates that the receiver reports
//! (D-SACK, RFC 3708), and after a timeout by the next acknowledgements (F-RTO, RFC 5682).

use perhop_core::Time;

use super::{Recovery, Sender};
use crate::scoreboard::Progress;
use crate::timestamps::micros;
use crate::{Congestion, Offset, Window};

/// State of the detection of a spurious timeout (RFC 5682, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frto {
    /// Off: the timeout was not spurious, or F-RTO is not used.
    Off,
    /// The first segment was retransmitted.
    Resent,
    /// It was acknowledged. New data is sent before the other segments.
    Probing,
}

/// State that is needed to undo the response to a loss.
#[derive(Clone, Debug)]
pub(super) struct Undo {
    /// Window before it, and the threshold, at least three quarters of the window
    /// (tcp_current_ssthresh).
    window: Window,
    /// State of congestion control before it, if that is to be restored.
    congestion: Option<Congestion>,
    /// End of the data acknowledged at that time (undo_marker).
    marker: Offset,
    /// Timestamp of the first retransmission (retrans_stamp).
    first: Option<u32>,
    /// Retransmissions that the receiver has not reported as duplicates (undo_retrans).
    unreported: u32,
}

impl Undo {
    pub fn new(window: Window, congestion: &Congestion, marker: Offset) -> Self {
        let ssthresh = window.ssthresh.max(0.75 * window.cwnd);
        Self {
            window: Window { ssthresh, ..window },
            congestion: congestion.before_loss(),
            marker,
            first: None,
            unreported: 0,
        }
    }

    pub fn on_retransmission(&mut self, now: Time) {
        self.first.get_or_insert(micros(now));
        self.unreported += 1;
    }

    /// Records that a segment with this end has arrived twice.
    pub fn on_duplicate(&mut self, end: Offset) {
        if end > self.marker {
            self.unreported = self.unreported.saturating_sub(1);
        }
    }

    /// Returns `true` if the acknowledged data had been sent before the first retransmission.
    fn was_delayed(&self, echo: Option<u32>) -> bool {
        let (Some(first), Some(echo)) = (self.first, echo) else { return false };
        echo > 0 && (echo.wrapping_sub(first) as i32) < 0
    }

    /// Returns `true` if every retransmission has arrived in addition to its original.
    fn was_in_vain(&self) -> bool {
        self.first.is_some() && self.unreported == 0
    }
}

impl Sender {
    /// Undoes the response to the last loss if this acknowledgement shows that it was spurious.
    /// `echo` is its timestamp.
    pub(super) fn judge_loss(&mut self, ack: Offset, echo: Option<u32>, progress: &Progress) {
        let advanced = progress.acked > 0;
        let frto = match self.recovery {
            Recovery::Timeout { point, frto } => self.judge_timeout(ack, point, frto, progress),
            _ => false,
        };
        let Some(undo) = self.undo_mut() else { return };
        let (delayed, in_vain) = (undo.was_delayed(echo), undo.was_in_vain());
        match self.recovery {
            Recovery::Fast { point, .. } if advanced && ack >= point && (delayed || in_vain) => {
                self.undo(false);
            }
            Recovery::Fast { .. } if advanced && delayed => {
                self.scoreboard.note_reordering(self.config.mss.into(), ack - progress.acked);
                if let Some((rack, _)) = self.rack.as_deref_mut() {
                    rack.on_ack(None, None, true);
                }
                if !self.scoreboard.has_retransmissions() {
                    self.undo(true);
                }
            }
            Recovery::Fast { .. } | Recovery::Open if in_vain => self.undo(false),
            Recovery::Timeout { .. } if frto || advanced && (delayed || in_vain) => self.undo(true),
            _ => {}
        }
    }

    /// Performs F-RTO's steps 2 and 3; returns whether the timeout was spurious, which progress
    /// without a retransmission shows.
    fn judge_timeout(
        &mut self,
        ack: Offset,
        point: Offset,
        frto: Frto,
        progress: &Progress,
    ) -> bool {
        if frto == Frto::Off {
            return false;
        }
        if progress.brought_original(self.uses_sack()) {
            self.recovery = Recovery::Timeout { point, frto: Frto::Off };
            return true;
        }
        let goes_on = frto == Frto::Resent
            && progress.acked > 0
            && ack < point
            && self.available().is_some_and(|length| self.fits_windows(length));
        let silent = progress.acked == 0 && progress.delivered == 0 && self.duplicates == 0;
        let frto = match frto {
            Frto::Resent if goes_on => Frto::Probing,
            _ if silent => frto,
            _ => Frto::Off,
        };
        // Later transmissions are not originals.
        let point = if goes_on { self.scoreboard.end() } else { point };
        self.recovery = Recovery::Timeout { point, frto };
        false
    }

    /// Returns the state before the last reduction, if that may be undone.
    pub(super) fn undo_mut(&mut self) -> Option<&mut Undo> {
        self.reduction.as_mut().filter(|_| self.undoable).map(|reduction| &mut reduction.undo)
    }

    /// Undoes the response; `unmark` removes the marks of lost segments.
    fn undo(&mut self, unmark: bool) {
        let Some(undo) = self.undo_mut() else { return };
        let (window, congestion) = (undo.window, undo.congestion.take());
        self.undoable = false;
        self.forget_reduction();
        if unmark {
            self.scoreboard.unmark_lost();
            self.scoreboard.requeue_transmissions();
        } else {
            // What is lost still may have been sent during the recovery (Linux:
            // tcp_fastretrans_alert after tcp_try_undo_dsack).
            self.lost_since = self.scoreboard.has_losses();
        }
        self.reducing = false;
        self.recovery = Recovery::Open;
        self.duplicates = 0;
        if let Some(model) = self.config.congestion.model() {
            model.on_recovered(&mut self.window);
            model.on_spurious_loss(&mut self.window, self.scoreboard.delivered());
            return;
        }
        self.window.cwnd = self.window.cwnd.max(window.cwnd);
        self.window.ssthresh = self.window.ssthresh.max(window.ssthresh);
        if let Some(before) = congestion {
            self.config.congestion = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_core::Duration;

    fn at(micros: u64) -> Time {
        Time::ZERO + Duration::from_micros(micros)
    }

    fn undo(cwnd: f64, ssthresh: f64) -> Undo {
        Undo::new(Window { cwnd, ssthresh }, &Congestion::Reno, 5_000)
    }

    /// tcp_current_ssthresh: three quarters of the window at least.
    #[test]
    fn the_threshold_to_restore() {
        for (cwnd, ssthresh, kept) in [
            (20_000.0, 10_000.0, 15_000.0),
            (20_000.0, 16_000.0, 16_000.0),
            (20_000.0, f64::INFINITY, f64::INFINITY),
        ] {
            assert_eq!(undo(cwnd, ssthresh).window, Window { cwnd, ssthresh: kept });
        }
    }

    /// RFC 3522, section 3.2: an echo from before the first retransmission; timestamps wrap after
    /// 71 minutes. Zero is no echo.
    #[test]
    fn an_echo_of_the_original_is_older_than_the_first_retransmission() {
        let wrap = 1 << 32;
        for (first, second, echo, delayed) in [
            (10_000, 20_000, Some(9_999), true),
            (10_000, 20_000, Some(10_000), false),
            (10_000, 20_000, Some(15_000), false),
            (10_000, 20_000, Some(0), false),
            (10_000, 20_000, None, false),
            (wrap + 5, wrap + 9, Some(u32::MAX), true),
            (wrap + 5, wrap + 9, Some(6), false),
        ] {
            let mut undo = undo(20_000.0, 10_000.0);
            assert!(!undo.was_delayed(echo), "nothing was sent again");
            undo.on_retransmission(at(first));
            undo.on_retransmission(at(second));
            assert_eq!(undo.was_delayed(echo), delayed, "{first} {echo:?}");
        }
    }

    /// RFC 3708: as many reports as retransmissions, of data beyond what was acknowledged before.
    #[test]
    fn reports_of_all_retransmissions_show_that_they_were_in_vain() {
        for (reports, in_vain) in [
            (vec![], false),
            (vec![6_000], false),
            (vec![6_000, 5_000], false),
            (vec![6_000, 5_001], true),
            (vec![6_000, 7_000, 8_000], true),
        ] {
            let mut undo = undo(20_000.0, 10_000.0);
            assert!(!undo.was_in_vain(), "nothing was sent again");
            undo.on_retransmission(at(1));
            undo.on_retransmission(at(2));
            reports.iter().for_each(|&end| undo.on_duplicate(end));
            assert_eq!(undo.was_in_vain(), in_vain, "{reports:?}");
        }
    }
}
