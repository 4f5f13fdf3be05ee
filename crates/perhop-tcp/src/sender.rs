//! The sending side: windows, loss detection and recovery.
//!
//! Congestion control follows RFC 5681 or 9438; loss recovery RFC 6675 with selective
//! acknowledgements and RFC 6582 (NewReno) without, or RACK-TLP (RFC 8985); proportional rate
//! reduction RFC 9937; limited transmit RFC 3042; the retransmission timer RFC 6298; undoing of
//! spurious recoveries RFC 3522, 3708 and 5682; explicit congestion notification RFC 3168, 8257 or
//! 9768; path MTU discovery RFC 1191.

mod config;
mod linux;
mod pacing;
mod path_mtu;
mod prr;
mod rack;
mod recovery;
mod small_queues;
mod timers;
mod tlp;
mod transmit;
mod undo;
mod usage;

use perhop_core::{Duration, Time, prefetch};

use crate::ecn::Marks;
use crate::scoreboard::{Progress, Scoreboard};
use crate::timestamps::{elapsed_since, is_outdated, millis_before};
use crate::{Flags, Offset, RttEstimator, Segment, Seq, Window};

pub use config::{LossDetection, SenderConfig};
pub use linux::TcpInfo;

use linux::Linux;
use pacing::Pacer;
use rack::Rack;
use recovery::{Recovery, Reduction};
use tlp::Tlp;
use usage::Usage;

/// The sending side of a connection.
///
/// Thousands of them do not fit into a cache: what only some need, or only at times, is boxed.
#[derive(Clone, Debug)]
pub struct Sender {
    /// Settings; `mss` is that of the path, as far as it is known.
    config: SenderConfig,
    /// Data of a full segment that both ends have agreed on, in bytes.
    agreed_mss: u16,
    window: Window,
    rtt: RttEstimator,
    scoreboard: Scoreboard,
    /// End of the data that the application has written.
    written: Offset,
    /// True if the application will write no more, so that a FIN follows the data.
    closed: bool,
    /// Room of the receiver beyond the acknowledged data, in bytes.
    receive_window: u64,
    /// Duplicate acknowledgements since the last advance, without SACK.
    duplicates: u64,
    recovery: Recovery,
    /// Loss detection by time, if it is used.
    rack: Option<Box<(Rack, Tlp)>>,
    /// Last reduction of the window; present from the first one on.
    reduction: Option<Box<Reduction>>,
    /// True while it is in proportion to delivered data.
    reducing: bool,
    /// True if it may still be undone.
    undoable: bool,
    /// True if data sent during a recovery that ends now is lost, so that another begins.
    lost_since: bool,
    usage: Usage,
    /// Last timestamp of the receiver.
    echo: u32,
    deadline: Time,
    /// True if a tail loss probe is sent next.
    probe_due: bool,
    retransmits: u64,
    marks: Marks,
    /// Pacer of segments, if they are paced.
    pacer: Option<Box<Pacer>>,
    /// State of Linux's sender, in place of that of RFCs.
    linux: Option<Box<Linux>>,
}

impl Sender {
    /// Prefetches what an acknowledgement reads beside the sender itself.
    #[inline(always)]
    pub fn prefetch(&self) {
        self.scoreboard.prefetch();
        if self.recovery != Recovery::Open
            && let Some(reduction) = &self.reduction
        {
            prefetch(&**reduction);
        }
    }

    /// Creates a sender that opens a connection and then sends the data written to it.
    pub fn new(mut config: SenderConfig) -> Self {
        let paced = config.pacing || config.congestion.needs_pacing();
        if paced {
            config.congestion.pace();
        }
        let window = Window::new(f64::from(config.initial_window) * f64::from(config.mss));
        let mut scoreboard = match config.loss_detection {
            LossDetection::Rack => Scoreboard::by_time(),
            _ => Scoreboard::by_count(config.adaptive_reordering),
        };
        if let Some(model) = config.congestion.model() {
            model.begin(&window, config.mss.into());
            scoreboard = scoreboard.sampling();
        }
        Self {
            linux: Linux::new(&config, paced),
            window,
            rtt: RttEstimator::new(config.rto_rule, config.min_rto),
            scoreboard,
            written: 1,
            closed: false,
            receive_window: 0,
            duplicates: 0,
            recovery: Recovery::Open,
            rack: (config.loss_detection == LossDetection::Rack)
                .then(|| Box::new((Rack::new(), Tlp::new()))),
            reduction: None,
            reducing: false,
            undoable: false,
            lost_since: false,
            usage: Usage::default(),
            echo: 0,
            deadline: Time::MAX,
            probe_due: false,
            retransmits: 0,
            marks: Marks::new(config.ecn, config.congestion.ect()),
            pacer: paced.then(|| Box::new(Pacer::new())),
            agreed_mss: config.mss,
            config,
        }
    }

    /// Writes `bytes` more as the application; [`u64::MAX`] writes without end.
    pub fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
    }

    /// Returns the bytes that the application has written and that were not sent.
    pub fn unsent(&self) -> u64 {
        self.written - self.scoreboard.end().clamp(1, self.written)
    }

    /// Returns the position after the last byte that was sent.
    pub fn next_seq(&self) -> Seq {
        Seq::from_offset(self.scoreboard.end())
    }

    /// Returns `true` if a segment acknowledges something that was not acknowledged before.
    pub fn is_advanced_by(&self, segment: &Segment) -> bool {
        let una = self.scoreboard.acknowledged();
        segment.ack.to_offset(una).is_some_and(|ack| ack > una)
    }

    /// Returns `true` once the connection is open.
    pub fn is_open(&self) -> bool {
        self.scoreboard.acknowledged() > 0
    }

    /// Stops the application: no new data is sent, losses are repaired, and then the connection
    /// ends.
    pub fn stop(&mut self) {
        // Not beyond a FIN that was sent, which keeps its position.
        self.written = self.written.min(self.scoreboard.end().max(1));
        self.closed = true;
    }

    /// Ends writing; the connection ends when all data is delivered.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Returns the congestion window, in bytes.
    pub fn cwnd(&self) -> u64 {
        self.window.cwnd as u64
    }

    /// Returns the number of outstanding bytes.
    pub fn flight(&self) -> u64 {
        self.scoreboard.flight()
    }

    /// Returns the number of retransmissions since the connection began.
    pub fn retransmits(&self) -> u64 {
        self.retransmits
    }

    /// Returns the number of congestion signals that the receiver has echoed since the connection
    /// began: marked packets with AccECN, acknowledgements otherwise.
    pub fn marks_echoed(&self) -> u64 {
        self.marks.echoed()
    }

    /// Returns `true` if all data was delivered and acknowledged, including the FIN.
    pub fn is_finished(&self) -> bool {
        self.closed && self.scoreboard.acknowledged() > self.written
    }

    /// Returns the smoothed round-trip time (RFC 6298: SRTT); none before the first sample.
    pub fn smoothed_rtt(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }

    fn uses_sack(&self) -> bool {
        self.config.loss_detection != LossDetection::Duplicates
    }

    fn mss(&self) -> f64 {
        self.config.mss.into()
    }

    /// Takes an acknowledgement; returns the round-trip time that it measures, if any. Call
    /// [`poll`](Self::poll) after it.
    pub fn on_segment(&mut self, now: Time, segment: &Segment) -> Option<Duration> {
        let una = self.scoreboard.acknowledged();
        let ack = segment.ack.to_offset(una)?;
        if !segment.flags.has(Flags::ACK) || ack > self.scoreboard.end() {
            return None;
        }
        if let Some((value, _)) = segment.timestamps {
            let late = millis_before(value, self.echo, now);
            if late == 0 {
                self.echo = value;
            }
            let discarded = is_outdated(late) && !self.takes_late(segment, ack, late);
            if let Some(linux) = &mut self.linux {
                linux.discarded = discarded.then_some(now);
            }
            if discarded {
                return None;
            }
        }
        if self.linux.is_some() {
            return self.take_as_linux(now, segment, ack);
        }
        if ack >= una {
            self.receive_window = segment.window.into();
        }

        let mut progress = Progress::default();
        if let Recovery::Timeout { point, .. } = self.recovery {
            progress.point = point;
        }
        if let Some((rack, _)) = self.rack.as_deref() {
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
        if progress.rtt.is_none() && progress.acked > 0 {
            // Linux: tcp_ack_update_rtt.
            progress.rtt = segment.timestamps.and_then(|(_, echo)| elapsed_since(echo, now));
        }
        if let Some(rtt) = progress.rtt {
            self.rtt.sample(rtt, ack.max(una), self.scoreboard.end());
        }
        if una == 0 && ack > 0 {
            self.rtt.opened(self.retransmits > 0);
        }
        if let Some((rack, tlp)) = self.rack.as_deref_mut() {
            rack.on_ack(progress.rtt, progress.newest, progress.reordered);
            if progress.rtt.is_some() {
                tlp.on_measurement();
            }
            if duplicate.is_some() {
                rack.on_duplicate(ack, self.scoreboard.end());
            }
        }
        if progress.acked == 0
            && let Some(rtt) = progress.rtt
            && self.scoreboard.first_sent().is_some_and(|at| at + rtt > now)
        {
            // SACKed data was sent before the first hole was last filled: the acknowledgement of
            // that cannot have arrived yet (Linux: tcp_clean_rtx_queue).
            self.restart_timer(now);
        }
        let marked = self.take_marks(now, ack, segment, &progress);
        if let Some(end) = duplicate
            && let Some(undo) = self.undo_mut()
        {
            undo.on_duplicate(end);
        }
        if let Some(start) = progress.overtaken {
            self.scoreboard.note_reordering(self.config.mss.into(), start);
        }
        // Without recovery, only a duplicate can show that the last one was in vain.
        if self.recovery != Recovery::Open || duplicate.is_some() {
            self.judge_loss(ack, segment.timestamps.map(|(_, echo)| echo), &progress);
        }
        if progress.acked > 0 {
            self.advance(now, ack, &progress, marked.is_some());
        }
        if let Some(marked) = marked {
            self.answer_marks(marked, progress.acked);
        }
        let lost = self.detect_losses(now, &progress);
        if self.config.congestion.is_modelled() {
            self.update_model(now, progress.delivered);
        }
        self.reduce_proportionally(&progress, lost);
        if self.rack.is_some() {
            let plain = progress.acked == 0 && segment.sack.as_slice().is_empty();
            self.judge_probe(now, ack, duplicate, plain);
            if progress.acked > 0 {
                self.schedule_probe(now);
            }
        }
        progress.rtt
    }

    /// Returns `true` if Linux takes an acknowledgement with an outdated timestamp
    /// (`tcp_disordered_ack_check`): one that came out of order, says nothing new but what it
    /// SACKs, and is late by no more than a timeout.
    fn takes_late(&self, segment: &Segment, ack: Offset, late: u64) -> bool {
        let bare = segment.payload == 0 && !segment.flags.has(Flags::FIN);
        let opens = segment.window == 0 || u64::from(segment.window) > self.receive_window;
        let longest = self.rtt.timeout() * 6 / 5;
        bare && ack == self.scoreboard.acknowledged()
            && !opens
            && Duration::from_millis(late) <= longest
    }

    /// Takes the selective acknowledgements. Returns the end of the segment that has arrived twice,
    /// if the first block reports one (RFC 2883, section 4).
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
        let mut blocks = [(0, 0); 3];
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
                blocks[place] = (start, stop);
            }
        }
        // The lowest first: several blocks of one acknowledgement were not reordered.
        blocks.sort_unstable();
        for (start, stop) in blocks {
            if start < stop {
                self.scoreboard.sack(start, stop, now, progress);
            }
        }
        duplicate
    }
}

#[cfg(test)]
mod tests;
