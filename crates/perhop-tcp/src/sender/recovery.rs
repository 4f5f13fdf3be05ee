//! Loss recovery (RFC 6675, 6582, 8985), and the congestion events derived from losses.

use perhop_core::{Duration, Time};

use super::Sender;
use super::prr::{Delivery, Prr};
use super::tlp::Verdict;
use super::undo::{Frto, Undo};
use crate::congestion::{Acked, DecreaseFrom, Delivered, Marked};
use crate::scoreboard::{DUPLICATE_THRESHOLD, Progress};
use crate::{Flags, Offset, Segment};

/// State of loss recovery. A point is the end of the data sent when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recovery {
    /// No segment is known to be lost.
    Open,
    /// Fast recovery up to this point.
    Fast {
        point: Offset,
        /// True if the first retransmission does not wait for the pipe (RFC 6675, section 5, step
        /// 4.3).
        urgent: bool,
        /// True if the one rescue retransmission was sent (NextSeg rule 4).
        rescued: bool,
    },
    /// Recovery after a timeout, up to this point: slow start again, no fast recovery.
    Timeout {
        point: Offset,
        /// Detection of a spurious timeout.
        frto: Frto,
    },
}

/// A reduction of the window.
#[derive(Clone, Debug)]
pub(super) struct Reduction {
    /// Its time: the loss of a retransmission that was sent later is another congestion signal (RFC
    /// 5681, section 4.3).
    at: Time,
    /// End of the data sent before it: until it is acknowledged, marks belong to the same signal.
    pub until: Offset,
    /// True if marks were its cause.
    by_marks: bool,
    /// Rate reduction, while it is in proportion to delivered data.
    pub prr: Prr,
    /// State before it, while it may be undone.
    pub undo: Undo,
}

impl Sender {
    /// Counts duplicate acknowledgements without SACK, each of which means that a segment has left
    /// the network (RFC 5681, section 3.2, step 4); an advance subtracts those of the segments that
    /// it covers.
    pub(super) fn count_duplicates(&mut self, duplicate: bool, acked: u64) {
        if duplicate && !self.scoreboard.is_empty() {
            self.duplicates += 1;
        } else if acked > 0 {
            let segments = acked.div_ceil(self.config.mss.into());
            self.duplicates = self.duplicates.saturating_sub(segments - 1);
        }
    }

    /// Processes an acknowledgement of new data.
    pub(super) fn advance(&mut self, now: Time, ack: Offset, progress: &Progress, marked: bool) {
        self.restart_timer(now);
        let mut bytes = progress.acked;
        match self.recovery {
            Recovery::Fast { point, .. } | Recovery::Timeout { point, .. } if ack >= point => {
                // SACKed data does not count as progress again. Without SACK it is unknown: the
                // window is the threshold (RFC 6582, section 3.2, step 3).
                let fast = matches!(self.recovery, Recovery::Fast { .. });
                match (self.uses_sack(), fast) {
                    (true, _) => bytes = bytes.min(progress.delivered),
                    (false, true) => bytes = 0,
                    (false, false) => {}
                }
                if self.end_recovery() {
                    return;
                }
            }
            Recovery::Fast { .. } => {
                // A partial acknowledgement: without SACK, the next hole begins here (RFC 6582,
                // section 3.2, step 3). The window stays.
                if !self.uses_sack() {
                    self.scoreboard.lose_first();
                }
                return;
            }
            Recovery::Open if self.lost_since => return,
            Recovery::Open if self.reducing => {
                if ack <= self.reduced_until() {
                    return;
                }
                self.end_reduction();
            }
            Recovery::Open | Recovery::Timeout { .. } => {}
        }
        // The window does not grow at a congestion signal (RFC 3168, section 6.1.2).
        if marked {
            return;
        }
        let acked = Acked {
            now,
            bytes,
            smoothed_rtt: self.rtt.smoothed().unwrap_or(Duration::ZERO),
            rtt: progress.rtt,
            ack,
            end: self.scoreboard.end(),
            limited: self.usage.lets_grow(&self.window),
            stretched: self.config.decrease_from_window,
            bytewise: false,
        };
        let mss = self.mss();
        self.config.congestion.on_ack(&mut self.window, mss, acked);
    }

    /// Ends a recovery; returns `true` if another begins, since data that was sent during this one
    /// is lost (RFC 6675, section 5: any acknowledgement after the recovery point is examined
    /// anew; Linux: tcp_time_to_recover). Its loss is another congestion signal.
    fn end_recovery(&mut self) -> bool {
        self.lost_since = self.scoreboard.has_losses();
        if self.lost_since
            && self.config.congestion.is_modelled()
            && let Recovery::Fast { point, .. } = &mut self.recovery
        {
            // A model sees one recovery (Linux: bbr_set_cwnd_to_recover_or_restore compares the
            // states before and after an acknowledgement).
            *point = self.scoreboard.end();
            self.lost_since = false;
            return true;
        }
        self.recovery = Recovery::Open;
        self.duplicates = 0;
        let window = self.window.cwnd.max(self.window.ssthresh) / self.mss();
        self.scoreboard.fit(window as usize);
        self.end_reduction();
        if let Some(model) = self.config.congestion.model() {
            model.on_recovered(&mut self.window);
        }
        if let Some((rack, _)) = self.rack.as_deref_mut() {
            rack.on_recovered();
        }
        self.lost_since
    }

    /// Ends a proportional reduction at its target.
    fn end_reduction(&mut self) {
        if std::mem::take(&mut self.reducing) {
            self.window.cwnd = self.window.ssthresh;
        }
    }

    /// Detects losses; returns `true` if there are new ones.
    pub(super) fn detect_losses(&mut self, now: Time, progress: &Progress) -> bool {
        if self.rack.is_some() {
            return self.detect_overdue(now, progress);
        }
        let lost = if self.uses_sack() {
            self.scoreboard.detect_losses()
        } else {
            self.recovery == Recovery::Open
                && self.duplicates >= DUPLICATE_THRESHOLD as u64
                && self.scoreboard.lose_first()
        };
        let lost_since = std::mem::take(&mut self.lost_since);
        if (lost || lost_since) && self.recovery == Recovery::Open {
            self.begin_recovery(now, progress);
        }
        lost
    }

    /// Detects losses by time, and sets the timer for segments that are not overdue yet (RFC 8985,
    /// section 6.2, step 5).
    pub(super) fn detect_overdue(&mut self, now: Time, progress: &Progress) -> bool {
        let (Some((rack, _)), Some(smoothed)) = (self.rack.as_deref_mut(), self.rtt.smoothed())
        else {
            return false;
        };
        rack.deadline = Time::MAX;
        let in_recovery = self.recovery != Recovery::Open;
        let window = rack.window(in_recovery, self.scoreboard.sacked_segments(), smoothed);
        let Some((newest, limit)) = rack.overdue(now, window) else { return false };
        let found = self.scoreboard.detect_overdue(newest, limit);
        if let Some(since) = found.waiting_since {
            rack.deadline = since + (newest.rtt + window);
        }
        let reduced_at = self.reduction.as_ref().map_or(Time::ZERO, |reduction| reduction.at);
        let lost_again = found.retransmission.is_some_and(|at| at >= reduced_at);
        let lost_since = std::mem::take(&mut self.lost_since);
        match self.recovery {
            Recovery::Open if found.lost || lost_since => self.begin_recovery(now, progress),
            // The loss of a retransmission is a second congestion signal (RFC 5681, section 4.3),
            // but not in Linux (tcp_fastretrans_alert).
            Recovery::Fast { .. } if lost_again && !self.config.decrease_from_window => {
                self.window.cwnd = self.window.cwnd.min(self.window.ssthresh);
                self.begin_recovery(now, progress);
            }
            Recovery::Timeout { .. } if lost_again => self.begin_recovery(now, progress),
            _ => {}
        }
        found.lost
    }

    pub(super) fn begin_recovery(&mut self, now: Time, progress: &Progress) {
        let point = self.scoreboard.end();
        let reduced = self.recovery == Recovery::Open && self.has_answered_marks();
        if reduced {
            self.undoable = false;
        } else {
            self.reduce(now);
        }
        // The first retransmission may have been sent by the recovery before.
        let urgent = self.scoreboard.next_lost().is_some();
        self.recovery = Recovery::Fast { point, urgent, rescued: false };
        if !reduced && self.config.prr && self.uses_sack() && !self.config.congestion.is_modelled()
        {
            let sacked_before = self.scoreboard.sacked_bytes().saturating_sub(progress.delivered);
            let flight = self.scoreboard.flight() + progress.acked - sacked_before;
            self.begin_reduction(flight);
        }
        if let Some((_, tlp)) = self.rack.as_deref_mut() {
            tlp.forget();
        }
    }

    /// Passes a loss to congestion control.
    pub(super) fn reduce(&mut self, now: Time) {
        let recovering = self.recovery != Recovery::Open;
        // The loss of a retransmission proves congestion.
        self.note_reduction(now, self.config.undo && !recovering, false);
        if let Some(model) = self.config.congestion.model() {
            model.on_recovery(&self.window, recovering);
            return;
        }
        let (mss, from) = (self.mss(), self.decrease_from(0));
        self.config.congestion.on_loss(&mut self.window, mss, from);
    }

    /// Returns how much of the delivered data was marked.
    pub(super) fn take_marks(
        &mut self,
        now: Time,
        ack: Offset,
        segment: &Segment,
        progress: &Progress,
    ) -> Option<Marked> {
        if !self.marks.are_on() {
            return None;
        }
        if segment.flags.has(Flags::SYN) {
            self.marks.on_syn_ack(segment.flags);
            return None;
        }
        let marked = Marked {
            now,
            ack,
            end: self.scoreboard.end(),
            delivered: progress.delivered,
            marked: self.marks.take(segment.flags, progress.delivered, self.config.mss.into()),
            smoothed_rtt: self.rtt.smoothed().unwrap_or(Duration::ZERO),
        };
        self.config.congestion.on_delivered(marked);
        (marked.marked > 0).then_some(marked)
    }

    /// Returns `true` if an acknowledgement echoes marks that is the first to cover `delivered`
    /// bytes.
    pub(super) fn take_echo(&mut self, segment: &Segment, delivered: u64) -> bool {
        if !self.marks.are_on() {
            return false;
        }
        if segment.flags.has(Flags::SYN) {
            self.marks.on_syn_ack(segment.flags);
            return false;
        }
        self.marks.take(segment.flags, delivered, self.config.mss.into()) > 0
    }

    /// Passes marks to congestion control once a round trip, unless it has responded to a loss (RFC
    /// 3168, section 6.1.2; RFC 8257, section 3.3).
    ///
    /// With proportional rate reduction, a response as to a loss takes a round trip, too, in which
    /// the window does not grow: Linux's CA_CWR (`tcp_enter_cwr`, `tcp_cwnd_reduction`). With an
    /// immediate reduction, no segment would be sent for half a round trip. The bytes that the
    /// acknowledgement has just `acked` were in flight when it arrived: without them, delayed
    /// acknowledgements would take two segments off the window before it is halved.
    pub(super) fn answer_marks(&mut self, marked: Marked, acked: u64) {
        if marked.ack <= self.reduced_until() || matches!(self.recovery, Recovery::Fast { .. }) {
            return;
        }
        let (mss, from) = (self.mss(), self.decrease_from(acked));
        if self.config.congestion.on_mark(&mut self.window, mss, from, marked) {
            self.note_reduction(marked.now, false, true);
            let answers_as_to_loss = !self.config.congestion.is_scalable();
            if self.config.prr && self.uses_sack() && answers_as_to_loss {
                let flight = self.scoreboard.pipe() + marked.delivered;
                self.begin_reduction(flight);
            }
        }
    }

    /// Passes losses and `delivered` bytes to the model of the path.
    pub(super) fn update_model(&mut self, now: Time, delivered: u64) {
        let in_flight = self.scoreboard.pipe();
        let total = self.scoreboard.delivered();
        let Some(model) = self.config.congestion.model() else { return };
        for lost in self.scoreboard.take_losses() {
            model.on_lost(&self.window, now, lost, total);
        }
        let Some(sample) = self.scoreboard.take_sample(model.min_rtt(), now) else { return };
        let ack = Delivered {
            now,
            sample,
            newly: delivered,
            in_flight,
            recovering: self.recovery != Recovery::Open,
            smoothed_rtt: self.rtt.smoothed().unwrap_or(Duration::ZERO),
        };
        if model.on_ack(&mut self.window, ack) {
            self.scoreboard.limit_samples();
        }
    }

    /// Returns `true` if the window was reduced because of marks in the window of data that is
    /// acknowledged or lost now: marks and losses of one window are one congestion signal (RFC
    /// 3168, section 6.1.2; Linux: tcp_enter_recovery in CA_CWR). The response of scalable
    /// controls to marks is less than that to a loss, which they add (RFC 8257, section 3.5).
    fn has_answered_marks(&self) -> bool {
        let una = self.scoreboard.acknowledged();
        let answered = self.reduction.as_ref().is_some_and(|reduction| reduction.by_marks);
        answered && una < self.reduced_until() && !self.config.congestion.is_scalable()
    }

    /// Records a reduction of the window, and the state before it if it may be undone.
    pub(super) fn note_reduction(&mut self, at: Time, undoable: bool, by_marks: bool) {
        let until = self.scoreboard.end();
        let una = self.scoreboard.acknowledged();
        let before = || Undo::new(self.window, &self.config.congestion, una);
        match &mut self.reduction {
            Some(reduction) => {
                (reduction.at, reduction.until, reduction.by_marks) = (at, until, by_marks);
                if undoable {
                    reduction.undo = before();
                }
            }
            None => {
                let (prr, undo) = (Prr::default(), before());
                self.reduction = Some(Box::new(Reduction { at, until, by_marks, prr, undo }));
            }
        }
        self.undoable = undoable;
        self.marks.on_reduced();
    }

    /// Begins a reduction in proportion to delivered data, from this flight to the threshold.
    fn begin_reduction(&mut self, flight: u64) {
        if let Some(reduction) = &mut self.reduction {
            reduction.prr = Prr::new(flight, self.window.ssthresh as u64);
            self.reducing = true;
        }
    }

    fn reduced_until(&self) -> Offset {
        self.reduction.as_ref().map_or(0, |reduction| reduction.until)
    }

    /// Records that the last reduction was undone: other congestion signals of its window count.
    pub(super) fn forget_reduction(&mut self) {
        if let Some(reduction) = &mut self.reduction {
            reduction.until = 0;
        }
    }

    /// Returns the rate reduction, if the window is reduced in proportion to delivered data.
    pub(super) fn prr_mut(&mut self) -> Option<&mut Prr> {
        self.reduction.as_mut().filter(|_| self.reducing).map(|reduction| &mut reduction.prr)
    }

    /// Sets the window by the delivered data in a proportional reduction.
    pub(super) fn reduce_proportionally(&mut self, progress: &Progress, lost: bool) {
        let (mss, pipe) = (self.config.mss.into(), self.scoreboard.pipe());
        if let Some(prr) = self.prr_mut() {
            let safe = progress.acked > 0 && !lost;
            let delivery = Delivery { delivered: progress.delivered, safe, pipe };
            if let Some(window) = prr.on_ack(mss, delivery) {
                self.window.cwnd = window as f64;
            }
        }
    }

    /// Evaluates an acknowledgement of a tail loss probe: a probe that repaired a loss has hidden
    /// it from congestion control. A model of the path counts losses itself, and no recovery
    /// follows whose end it could wait for (Linux: tcp_process_tlp_ack leaves it alone).
    pub(super) fn judge_probe(
        &mut self,
        now: Time,
        ack: Offset,
        duplicate: Option<Offset>,
        plain: bool,
    ) {
        if let Some((_, tlp)) = self.rack.as_deref_mut()
            && tlp.on_ack(ack, duplicate, plain) == Verdict::Repaired
            && self.recovery == Recovery::Open
            && !self.config.congestion.is_modelled()
        {
            self.reduce(now);
            self.undoable = false;
        }
    }

    /// Returns the amount that a loss or a mark multiplies: the part of the congestion window that
    /// was in use before `acked` bytes were acknowledged, or the window. While a retransmission is
    /// missing, SACKed data makes room for more and the flight outgrows the window; with the flight
    /// in place of the window, as in RFC 5681 before SACK, the threshold would rise at a loss.
    pub(super) fn decrease_from(&self, acked: u64) -> DecreaseFrom {
        match self.config.decrease_from_window {
            true => DecreaseFrom::Window,
            false => {
                let flight = self.scoreboard.flight() + acked;
                DecreaseFrom::Flight((flight as f64).min(self.window.cwnd))
            }
        }
    }

    /// Returns the transmission time after which segments are not lost at a timeout, if losses are
    /// detected by time; otherwise [`Time::MAX`].
    fn overdue_at_timeout(&self, now: Time) -> Time {
        let overdue = self.rack.as_deref().zip(self.rtt.smoothed()).and_then(|((rack, _), rtt)| {
            rack.overdue(now, rack.window(false, self.scoreboard.sacked_segments(), rtt))
        });
        overdue.map_or(Time::MAX, |(_, limit)| limit)
    }

    pub(super) fn time_out(&mut self, now: Time) {
        self.rtt.expired();
        self.scoreboard.forget_reordering();
        // A timeout in fast recovery is not spurious (RFC 5682, section 3.1, step 1).
        let frto = match self.recovery {
            Recovery::Open | Recovery::Timeout { .. } if self.config.frto => Frto::Resent,
            _ => Frto::Off,
        };
        let established = self.scoreboard.acknowledged() > 0;
        // A second timeout of a segment is not a new congestion signal (RFC 5681, section 3.1); the
        // loss of a retransmission in fast recovery is (section 4.3).
        match self.recovery {
            _ if !established => {}
            Recovery::Timeout { .. } => {}
            Recovery::Open if self.has_answered_marks() => self.undoable = false,
            _ => self.reduce(now),
        }
        self.config.congestion.on_timeout();
        self.scoreboard.lose_all(self.overdue_at_timeout(now));
        // The loss window, in addition to data that is probably still in flight.
        self.window.cwnd = self.scoreboard.pipe() as f64 + self.mss();
        self.duplicates = 0;
        self.reducing = false;
        self.probe_due = false;
        if let Some((rack, tlp)) = self.rack.as_deref_mut() {
            rack.deadline = Time::MAX;
            tlp.forget();
        }
        self.recovery = Recovery::Timeout { point: self.scoreboard.end(), frto };
        self.deadline = now + self.rtt.timeout();
    }
}
