//! The sending side: windows, loss detection and recovery.
//!
//! Congestion control by RFC 5681 or 9438; loss recovery by RFC 6675 with selective
//! acknowledgements and by RFC 6582 (NewReno) without, or by RACK-TLP (RFC 8985); proportional
//! rate reduction by RFC 9937; limited transmit by RFC 3042; the retransmission timer by RFC 6298.

mod prr;
mod rack;
mod tlp;
mod transmit;

use perhop_core::{Duration, Time};

use crate::congestion::Acked;
use crate::scoreboard::{DUPLICATE_THRESHOLD, Progress, Scoreboard};
use crate::{Congestion, Flags, Offset, RttEstimator, Segment, Window};

use prr::{Delivery, Prr};
use rack::Rack;
use tlp::{Tlp, Verdict};

/// How a sender finds out what was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// By three duplicate acknowledgements, without selective ones (RFC 5681, 6582).
    Duplicates,
    /// By three SACKed segments above (RFC 6675).
    Sack,
    /// By time, with a reordering window and a tail loss probe (RFC 8985).
    Rack,
}

/// How a sender behaves.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// Data bytes of a full segment.
    pub mss: u16,
    /// Send buffer in bytes: no more than this is outstanding.
    pub window: u32,
    /// Initial congestion window in segments (RFC 6928).
    pub initial_window: u32,
    /// Floor of the retransmission timeout.
    pub min_rto: Duration,
    /// The congestion control, at its beginning.
    pub congestion: Congestion,
    /// How losses are found; all but [`LossDetection::Duplicates`] need selective
    /// acknowledgements.
    pub loss_detection: LossDetection,
    /// Whether recovery is clocked by what is delivered (RFC 9937); needs selective
    /// acknowledgements.
    pub prr: bool,
    /// Whether new data is sent on the first two duplicate acknowledgements (RFC 3042).
    pub limited_transmit: bool,
    /// Whether segments carry timestamps (RFC 7323). They are sent and echoed for their length;
    /// samples come from the scoreboard, which is as good where nothing is renegotiated.
    pub timestamps: bool,
}

/// The sending side of a connection.
#[derive(Clone, Debug)]
pub struct Sender {
    config: SenderConfig,
    window: Window,
    rtt: RttEstimator,
    scoreboard: Scoreboard,
    /// Where the data that the application has written ends.
    written: Offset,
    /// Whether the application will write no more, so that a FIN follows the data.
    closed: bool,
    /// What the receiver has room for beyond what it acknowledged.
    receive_window: u64,
    /// Duplicate acknowledgements since the last advance, without SACK.
    duplicates: u64,
    recovery: Recovery,
    /// Loss detection by time, if that is used.
    rack: Option<(Rack, Tlp)>,
    /// When the reordering window of some segment ends.
    reordering_deadline: Time,
    /// This fast recovery's rate reduction, if that is used.
    prr: Option<Prr>,
    /// When the window was last reduced: a retransmission that was sent later and lost, too, is a
    /// new sign of congestion (RFC 5681, section 4.3).
    reduced_at: Time,
    /// Whether the congestion window, rather than the application or the other windows, ended the
    /// last burst. A window that is not used does not grow (RFC 7661, section 1).
    congestion_limited: bool,
    /// What the receiver last said of its clock.
    echo: u32,
    deadline: Time,
    /// A tail loss probe goes out next.
    probe_due: bool,
    retransmits: u64,
    sample: Option<Duration>,
}

/// Where loss recovery stands. A point is the end of what had been sent when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recovery {
    /// Nothing is known to be lost.
    Open,
    /// Fast recovery up to this point.
    Fast {
        point: Offset,
        /// The first retransmission does not wait for the pipe (RFC 6675, section 5, step 4.3).
        urgent: bool,
        /// Whether the one rescue retransmission was sent (NextSeg rule 4).
        rescued: bool,
    },
    /// After a timeout, up to this point: slow start again, no fast recovery.
    Timeout { point: Offset },
}

impl Sender {
    /// A sender that will open a connection and then send what it is given to.
    pub fn new(config: SenderConfig) -> Self {
        Self {
            window: Window::new(f64::from(config.initial_window) * f64::from(config.mss)),
            rtt: RttEstimator::new(config.min_rto),
            scoreboard: match config.loss_detection {
                LossDetection::Rack => Scoreboard::by_time(),
                _ => Scoreboard::default(),
            },
            written: 1,
            closed: false,
            receive_window: 0,
            duplicates: 0,
            recovery: Recovery::Open,
            rack: (config.loss_detection == LossDetection::Rack).then(|| (Rack::new(), Tlp::new())),
            reordering_deadline: Time::MAX,
            prr: None,
            reduced_at: Time::ZERO,
            congestion_limited: false,
            echo: 0,
            deadline: Time::MAX,
            probe_due: false,
            retransmits: 0,
            sample: None,
            config,
        }
    }

    /// The application writes `bytes` more; [`u64::MAX`] writes without end.
    pub fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
    }

    /// The application stops: nothing is sent that was not sent before, what is lost is sent
    /// again, then the connection ends.
    pub fn stop(&mut self) {
        // Not beyond a FIN that was sent: it keeps its place.
        self.written = self.written.min(self.scoreboard.end().max(1));
        self.closed = true;
    }

    /// The application has written all; the connection ends when it is delivered.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Congestion window in bytes.
    pub fn cwnd(&self) -> u64 {
        self.window.cwnd as u64
    }

    /// Bytes outstanding.
    pub fn flight(&self) -> u64 {
        self.scoreboard.flight()
    }

    /// Segments sent again since the connection began.
    pub fn retransmits(&self) -> u64 {
        self.retransmits
    }

    /// Whether everything was delivered and acknowledged, the FIN too.
    pub fn is_finished(&self) -> bool {
        self.closed && self.scoreboard.acknowledged() > self.written
    }

    /// The round-trip time that the last acknowledgement measured, if it did; once.
    pub fn take_rtt_sample(&mut self) -> Option<Duration> {
        self.sample.take()
    }

    /// When [`on_timer`](Self::on_timer) is due; [`Time::MAX`] if it is not.
    pub fn deadline(&self) -> Time {
        match &self.rack {
            None => self.deadline,
            Some((_, tlp)) => self.deadline.min(tlp.deadline).min(self.reordering_deadline),
        }
    }

    fn uses_sack(&self) -> bool {
        self.config.loss_detection != LossDetection::Duplicates
    }

    fn mss(&self) -> f64 {
        self.config.mss.into()
    }

    /// Takes an acknowledgement. Call [`poll`](Self::poll) after it.
    pub fn on_segment(&mut self, now: Time, segment: &Segment) {
        let una = self.scoreboard.acknowledged();
        let Some(ack) = segment.ack.to_offset(una) else { return };
        if !segment.flags.has(Flags::ACK) || ack > self.scoreboard.end() {
            return;
        }
        if let Some((value, _)) = segment.timestamps {
            self.echo = value;
        }
        if ack >= una {
            self.receive_window = segment.window.into();
        }

        let mut progress = Progress::default();
        if let Some((rack, _)) = &self.rack {
            progress.min_rtt = rack.min_rtt;
            progress.echo = segment.timestamps.map(|(_, echo)| echo);
        }
        if ack > una {
            self.scoreboard.acknowledge(ack, now, &mut progress);
        }
        let mut duplicate = None;
        if self.uses_sack() {
            duplicate = self.take_sack(now, ack, segment, &mut progress);
        } else {
            self.count_duplicates(ack == una && segment.payload == 0, progress.acked);
        }
        if let Some(rtt) = progress.rtt {
            self.rtt.sample(rtt);
            self.sample = Some(rtt);
        }
        if let Some((rack, _)) = &mut self.rack {
            rack.on_ack(progress.rtt, progress.newest, progress.reordered);
            if duplicate.is_some() {
                rack.on_duplicate(ack, self.scoreboard.end());
            }
        }
        if progress.acked > 0 {
            self.advance(now, ack, &progress);
        }
        let lost = self.detect_losses(now, &progress);
        self.reduce_proportionally(&progress, lost);
        if self.rack.is_some() {
            let plain = progress.acked == 0 && segment.sack.as_slice().is_empty();
            self.judge_probe(now, ack, duplicate, plain);
            if progress.acked > 0 {
                self.schedule_probe(now);
            }
        }
    }

    /// Takes the selective acknowledgements. Returns where the segment ends that has arrived
    /// twice, if the first block says so (RFC 2883, section 4).
    fn take_sack(
        &mut self,
        now: Time,
        ack: Offset,
        segment: &Segment,
        progress: &mut Progress,
    ) -> Option<Offset> {
        let end = self.scoreboard.end();
        let mut duplicate = None;
        let mut first: Option<(Offset, Offset)> = None;
        for (place, &(start, stop)) in segment.sack.as_slice().iter().enumerate() {
            let (Some(start), Some(stop)) = (start.to_offset(ack), stop.to_offset(ack)) else {
                continue;
            };
            if start >= stop || stop > end {
                continue;
            }
            if place == 0 {
                first = Some((start, stop));
                if stop <= ack {
                    duplicate = Some(stop);
                }
            } else if let Some(first) = first
                && place == 1
                && start <= first.0
                && first.1 <= stop
            {
                duplicate = Some(first.1);
            }
            if ack < start {
                self.scoreboard.sack(start, stop, now, progress);
            }
        }
        duplicate
    }

    /// Without SACK a duplicate acknowledgement says that some segment has left the network
    /// (RFC 5681, section 3.2, step 4); an advance takes back those of the segments it covers.
    fn count_duplicates(&mut self, duplicate: bool, acked: u64) {
        if duplicate && !self.scoreboard.is_empty() {
            self.duplicates += 1;
        } else if acked > 0 {
            let segments = acked.div_ceil(self.config.mss.into());
            self.duplicates = self.duplicates.saturating_sub(segments - 1);
        }
    }

    /// New data was acknowledged.
    fn advance(&mut self, now: Time, ack: Offset, progress: &Progress) {
        self.restart_timer(now);
        match self.recovery {
            Recovery::Fast { point, .. } | Recovery::Timeout { point } if ack >= point => {
                self.end_recovery();
            }
            Recovery::Fast { .. } => {
                // A partial acknowledgement: without SACK, the next hole begins here (RFC 6582,
                // section 3.2, step 3). The window stays.
                if !self.uses_sack() {
                    self.scoreboard.lose_first();
                }
                return;
            }
            Recovery::Open | Recovery::Timeout { .. } => {}
        }
        let acked = Acked {
            now,
            bytes: progress.acked,
            smoothed_rtt: self.rtt.smoothed().unwrap_or(Duration::ZERO),
            rtt: progress.rtt,
            ack,
            end: self.scoreboard.end(),
            limited: self.congestion_limited,
        };
        let mss = self.mss();
        self.config.congestion.on_ack(&mut self.window, mss, acked);
    }

    fn end_recovery(&mut self) {
        self.recovery = Recovery::Open;
        self.duplicates = 0;
        if self.prr.take().is_some() {
            self.window.cwnd = self.window.ssthresh;
        }
        if let Some((rack, _)) = &mut self.rack {
            rack.on_recovered();
        }
    }

    /// Looks for losses; returns whether there were new ones.
    fn detect_losses(&mut self, now: Time, progress: &Progress) -> bool {
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
        if lost && self.recovery == Recovery::Open {
            self.begin_recovery(now, progress);
        }
        lost
    }

    /// Loss detection by time; sets the timer for what is not overdue yet (RFC 8985, section 6.2,
    /// step 5).
    fn detect_overdue(&mut self, now: Time, progress: &Progress) -> bool {
        self.reordering_deadline = Time::MAX;
        let (Some((rack, _)), Some(smoothed)) = (&self.rack, self.rtt.smoothed()) else {
            return false;
        };
        let in_recovery = self.recovery != Recovery::Open;
        let window = rack.window(in_recovery, self.scoreboard.sacked_segments(), smoothed);
        let Some((newest, limit)) = rack.overdue(now, window) else { return false };
        let found = self.scoreboard.detect_overdue(newest, limit);
        if let Some(since) = found.waiting_since {
            self.reordering_deadline = since + (newest.rtt + window);
        }
        match self.recovery {
            Recovery::Open if found.lost => self.begin_recovery(now, progress),
            Recovery::Fast { .. }
                if found.retransmission.is_some_and(|at| at >= self.reduced_at) =>
            {
                self.window.cwnd = self.window.ssthresh;
                self.begin_recovery(now, progress);
            }
            _ => {}
        }
        found.lost
    }

    fn begin_recovery(&mut self, now: Time, progress: &Progress) {
        let point = self.scoreboard.end();
        self.recovery = Recovery::Fast { point, urgent: true, rescued: false };
        self.reduce(now);
        if self.config.prr && self.uses_sack() {
            let sacked_before = self.scoreboard.sacked_bytes().saturating_sub(progress.delivered);
            let flight = self.scoreboard.flight() + progress.acked - sacked_before;
            self.prr = Some(Prr::new(flight, self.window.ssthresh as u64));
        }
        if let Some((_, tlp)) = &mut self.rack {
            tlp.forget();
        }
    }

    /// Congestion control answers to a loss.
    fn reduce(&mut self, now: Time) {
        self.reduced_at = now;
        let (mss, flight) = (self.mss(), self.used_window());
        self.config.congestion.on_loss(&mut self.window, mss, flight);
    }

    /// In fast recovery with rate reduction, what was delivered decides what may be sent.
    fn reduce_proportionally(&mut self, progress: &Progress, lost: bool) {
        if let (Some(prr), Recovery::Fast { .. }) = (&mut self.prr, self.recovery) {
            let safe = progress.acked > 0 && !lost;
            let pipe = self.scoreboard.pipe();
            let delivery = Delivery { delivered: progress.delivered, safe, pipe };
            if let Some(window) = prr.on_ack(self.config.mss.into(), delivery) {
                self.window.cwnd = window as f64;
            }
        }
    }

    /// What an acknowledgement says of a tail loss probe: one that repaired a loss hid it from
    /// congestion control.
    fn judge_probe(&mut self, now: Time, ack: Offset, duplicate: Option<Offset>, plain: bool) {
        if let Some((_, tlp)) = &mut self.rack
            && tlp.on_ack(ack, duplicate, plain) == Verdict::Repaired
            && self.recovery == Recovery::Open
        {
            self.reduce(now);
        }
    }

    /// How much of the congestion window was in use. While a retransmission is missing, SACKed
    /// data makes room for more and the flight outgrows the window; taking it for the window, as
    /// RFC 5681 does before SACK, would raise the threshold on a loss.
    fn used_window(&self) -> f64 {
        (self.scoreboard.flight() as f64).min(self.window.cwnd)
    }

    /// A timer may be due. Call [`poll`](Self::poll) after it.
    pub fn on_timer(&mut self, now: Time) {
        if now >= self.reordering_deadline {
            self.detect_overdue(now, &Progress::default());
        }
        if let Some((_, tlp)) = &mut self.rack
            && now >= tlp.deadline
        {
            // The probe comes in the timeout's place, and the timeout after it.
            tlp.deadline = Time::MAX;
            self.probe_due = self.recovery == Recovery::Open && !self.scoreboard.is_empty();
            self.deadline = now + self.rtt.timeout();
        }
        if now >= self.deadline {
            self.time_out(now);
        }
    }

    fn time_out(&mut self, now: Time) {
        self.rtt.expired();
        let established = self.scoreboard.acknowledged() > 0;
        // A segment that times out again is not a new sign of congestion (RFC 5681, section 3.1);
        // one that was lost in fast recovery is (section 4.3).
        if established && !matches!(self.recovery, Recovery::Timeout { .. }) {
            self.reduce(now);
        }
        self.window.cwnd = self.mss();
        self.scoreboard.lose_all();
        self.duplicates = 0;
        self.prr = None;
        self.probe_due = false;
        self.reordering_deadline = Time::MAX;
        if let Some((_, tlp)) = &mut self.rack {
            tlp.forget();
        }
        self.recovery = Recovery::Timeout { point: self.scoreboard.end() };
        self.deadline = now + self.rtt.timeout();
    }

    /// RFC 6298, section 5.1: the timer runs while something is outstanding.
    fn arm_timer(&mut self, now: Time) {
        if self.deadline == Time::MAX {
            self.deadline = now + self.rtt.timeout();
        }
    }

    /// Sections 5.2 and 5.3: it starts anew when new data is acknowledged.
    fn restart_timer(&mut self, now: Time) {
        self.deadline = match self.scoreboard.is_empty() {
            true => Time::MAX,
            false => now + self.rtt.timeout(),
        };
    }

    /// Sets when a probe is due, if one may be sent (RFC 8985, section 7.2): new data was sent or
    /// acknowledged, nothing is SACKed or being recovered.
    fn schedule_probe(&mut self, now: Time) {
        let Some((_, tlp)) = &mut self.rack else { return };
        let open = self.recovery == Recovery::Open && tlp.is_idle();
        let segments = self.scoreboard.segments();
        let quiet = segments > 0 && self.scoreboard.sacked_segments() == 0;
        tlp.deadline = match open && quiet && self.scoreboard.acknowledged() > 0 {
            true => (now + Tlp::timeout(self.rtt.smoothed(), segments)).min(self.deadline),
            false => Time::MAX,
        };
    }
}

#[cfg(test)]
mod tests;
