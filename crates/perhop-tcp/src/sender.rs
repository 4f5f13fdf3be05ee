//! The sending side: windows, loss detection and recovery.
//!
//! Congestion control by RFC 5681 or 9438; loss recovery by RFC 6675 with selective
//! acknowledgements and by RFC 6582 (NewReno) without; limited transmit by RFC 3042; the
//! retransmission timer by RFC 6298.

use perhop_core::{Duration, Time};

use crate::congestion::Acked;
use crate::receiver::micros;
use crate::scoreboard::{DUPLICATE_THRESHOLD, Progress, Scoreboard, Span};
use crate::{Congestion, Flags, Offset, RttEstimator, Segment, Seq, Window};

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
    /// Whether the receiver's selective acknowledgements are used.
    pub sack: bool,
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
    /// Whether the congestion window, rather than the application or the other windows, ended the
    /// last burst. A window that is not used does not grow (RFC 7661, section 1).
    congestion_limited: bool,
    /// What the receiver last said of its clock.
    echo: u32,
    deadline: Time,
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
            scoreboard: Scoreboard::default(),
            written: 1,
            closed: false,
            receive_window: 0,
            duplicates: 0,
            recovery: Recovery::Open,
            congestion_limited: false,
            echo: 0,
            deadline: Time::MAX,
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
        self.deadline
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
        if ack > una {
            self.scoreboard.acknowledge(ack, now, &mut progress);
        }
        if self.config.sack {
            let end = self.scoreboard.end();
            for &(start, stop) in segment.sack.as_slice() {
                if let (Some(start), Some(stop)) = (start.to_offset(ack), stop.to_offset(ack))
                    && ack < start
                    && start < stop
                    && stop <= end
                {
                    self.scoreboard.sack(start, stop, now, &mut progress);
                }
            }
        } else {
            self.count_duplicates(ack == una && segment.payload == 0, progress.acked);
        }
        if let Some(rtt) = progress.rtt {
            self.rtt.sample(rtt);
            self.sample = Some(rtt);
        }
        if progress.acked > 0 {
            self.advance(now, ack, progress.acked);
        }
        self.detect_losses();
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
    fn advance(&mut self, now: Time, ack: Offset, acked: u64) {
        self.restart_timer(now);
        match self.recovery {
            Recovery::Fast { point, .. } | Recovery::Timeout { point } if ack >= point => {
                self.recovery = Recovery::Open;
                self.duplicates = 0;
            }
            Recovery::Fast { .. } => {
                // A partial acknowledgement: without SACK, the next hole begins here (RFC 6582,
                // section 3.2, step 3). The window stays.
                if !self.config.sack {
                    self.scoreboard.lose_first();
                }
                return;
            }
            Recovery::Open | Recovery::Timeout { .. } => {}
        }
        if self.congestion_limited {
            let smoothed_rtt = self.rtt.smoothed().unwrap_or(Duration::ZERO);
            let acked = Acked { now, bytes: acked, smoothed_rtt };
            self.config.congestion.on_ack(&mut self.window, self.config.mss.into(), acked);
        }
    }

    fn detect_losses(&mut self) {
        let lost = if self.config.sack {
            self.scoreboard.detect_losses()
        } else {
            self.recovery == Recovery::Open
                && self.duplicates >= DUPLICATE_THRESHOLD as u64
                && self.scoreboard.lose_first()
        };
        if lost && self.recovery == Recovery::Open {
            let point = self.scoreboard.end();
            self.recovery = Recovery::Fast { point, urgent: true, rescued: false };
            let flight = self.used_window();
            self.config.congestion.on_loss(&mut self.window, self.config.mss.into(), flight);
        }
    }

    /// How much of the congestion window was in use. While a retransmission is missing, SACKed
    /// data makes room for more and the flight outgrows the window; taking it for the window, as
    /// RFC 5681 does before SACK, would raise the threshold on a loss.
    fn used_window(&self) -> f64 {
        (self.scoreboard.flight() as f64).min(self.window.cwnd)
    }

    /// The retransmission timer may be due. Call [`poll`](Self::poll) after it.
    pub fn on_timer(&mut self, now: Time) {
        if now < self.deadline {
            return;
        }
        self.rtt.expired();
        let established = self.scoreboard.acknowledged() > 0;
        // A segment that times out again is not a new sign of congestion (RFC 5681, section 3.1);
        // one that was lost in fast recovery is (section 4.3).
        if established && !matches!(self.recovery, Recovery::Timeout { .. }) {
            let flight = self.used_window();
            self.config.congestion.on_loss(&mut self.window, self.config.mss.into(), flight);
        }
        self.window.cwnd = self.config.mss.into();
        self.scoreboard.lose_all();
        self.duplicates = 0;
        self.recovery = Recovery::Timeout { point: self.scoreboard.end() };
        self.deadline = now + self.rtt.timeout();
    }

    /// The next segment that may be sent now, if any. Call until it answers `None`.
    #[must_use]
    pub fn poll(&mut self, now: Time) -> Option<Segment> {
        if let Some(span) = self.next_retransmission() {
            self.scoreboard.retransmit(span.start);
            self.retransmits += 1;
            return Some(self.segment(now, span, Flags::RETRANSMISSION));
        }
        if let Some(length) = self.next_new() {
            let span = self.scoreboard.send(length, now);
            self.arm_timer(now);
            return Some(self.segment(now, span, Flags::default()));
        }
        if let Some(span) = self.last_resort() {
            self.scoreboard.retransmit(span.start);
            self.retransmits += 1;
            return Some(self.segment(now, span, Flags::RETRANSMISSION));
        }
        None
    }

    /// A lost segment, if the window lets it go (NextSeg rule 1).
    fn next_retransmission(&mut self) -> Option<Span> {
        let span = self.scoreboard.next_lost()?;
        let urgent = match &mut self.recovery {
            Recovery::Fast { urgent, .. } => std::mem::take(urgent),
            _ => false,
        };
        // Without SACK a partial acknowledgement sends the next hole at once, too.
        let urgent = urgent || !self.config.sack && matches!(self.recovery, Recovery::Fast { .. });
        (urgent || self.has_room(span.length)).then_some(span)
    }

    /// How much new data may be sent, if any: a full segment, or the last of what was written
    /// (sender's silly window avoidance, RFC 9293, section 3.8.6.2.1; Nagle's algorithm off).
    fn next_new(&mut self) -> Option<u32> {
        let end = self.scoreboard.end();
        if end == 0 {
            return Some(1); // the SYN
        }
        if self.scoreboard.acknowledged() == 0 {
            return None;
        }
        let full = u64::from(self.config.mss);
        let length = match self.written.checked_sub(end) {
            Some(left) if left > 0 => left.min(full),
            Some(_) if self.closed => 1, // the FIN
            _ => {
                self.congestion_limited = false;
                return None;
            }
        };
        let windows = self.receive_window.min(self.config.window.into());
        if self.scoreboard.flight() + length > windows {
            self.congestion_limited = false;
            return None;
        }
        self.congestion_limited = !self.has_room(length as u32);
        (!self.congestion_limited).then_some(length as u32)
    }

    /// In fast recovery with room in the window and nothing else to send: a segment that may be
    /// lost, or the last one once, so that its acknowledgement keeps recovery going (NextSeg rules
    /// 3 and 4).
    fn last_resort(&mut self) -> Option<Span> {
        let Recovery::Fast { rescued, .. } = self.recovery else { return None };
        if !self.config.sack || !self.has_room(self.config.mss.into()) {
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

    /// Whether the congestion window has room for `length` more.
    fn has_room(&self, length: u32) -> bool {
        let in_network = match (self.config.sack, self.recovery) {
            // Limited transmit is what the pipe gives before a loss is certain: SACKed segments
            // make room.
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

    fn segment(&self, now: Time, span: Span, flags: Flags) -> Segment {
        let syn = span.start == 0;
        let fin = self.closed && span.start == self.written;
        let (payload, flags) = match (syn, fin) {
            (true, _) => (0, flags.with(Flags::SYN)),
            (_, true) => (0, flags.with(Flags::FIN).with(Flags::ACK)),
            _ => (span.length as u16, flags.with(Flags::ACK)),
        };
        Segment {
            seq: Seq::from_offset(span.start),
            ack: Seq(u32::from(!syn)),
            window: 65_535,
            payload,
            flags,
            timestamps: self.config.timestamps.then(|| (micros(now), self.echo)),
            sack: Default::default(),
        }
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
}

#[cfg(test)]
mod tests;
