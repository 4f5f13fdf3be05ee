//! Linux's own sender (net/ipv4/tcp_input.c, tcp_output.c, tcp_recovery.c, tcp_timer.c), for
//! Reno and Linux's CUBIC: its states, its counts in segments, and its timers in ticks.
//!
//! The functions have the structure of Linux's, which their comments name, because the order of
//! its steps decides what is sent. Where RFCs leave the choice open the rest of the sender follows
//! their text.

mod alert;
mod cubic;
mod growth;
mod info;
mod timers;
mod transmit;

use perhop_core::{Duration, Time};

use super::{LossDetection, Sender, SenderConfig};
use crate::congestion::LinuxKind;
use crate::scoreboard::{Arrival, Facts, LinuxRack, millis};
use crate::timestamps::elapsed_since;
use crate::{Offset, Segment};

use cubic::Cubic;

pub use info::TcpInfo;

/// Ticks of Linux's timers in a second (CONFIG_HZ of most distributions).
const TICKS_PER_SECOND: u64 = 250;
/// Picoseconds of a tick.
const TICK: u64 = 1_000_000_000_000 / TICKS_PER_SECOND;
/// A threshold or a window without limit (TCP_INFINITE_SSTHRESH).
const INFINITE: u32 = 0x7fff_ffff;
/// Duplicates that make a loss, and the greatest number that reordering leads to
/// (tcp_reordering, tcp_max_reordering).
const REORDERING: u32 = 3;
const MAX_REORDERING: u32 = 300;

/// Least number of segments that are handed to the device at once (tcp_min_tso_segs).
const LEAST_CHUNK: u32 = 2;

/// States of a sender (tcp_ca_state).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    #[default]
    Open,
    Disorder,
    /// The window is being reduced after marks.
    Cwr,
    Recovery,
    Loss,
}

/// Retransmissions that the last acknowledgement permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Resend {
    #[default]
    No,
    Lost,
    /// New data first, to detect a spurious timeout.
    New,
}

/// Segment that is sent regardless of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Due {
    #[default]
    Nothing,
    /// The first one, after a timeout.
    First,
    Probe,
}

/// Purpose of the timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pending {
    #[default]
    Nothing,
    Retransmission,
    Probe,
    Reordering,
}

#[derive(Clone, Debug)]
enum Control {
    Reno,
    Cubic(Box<Cubic>),
}

/// State of Linux's sender beside that of every sender.
#[derive(Clone, Debug)]
pub(super) struct Linux {
    state: State,
    control: Control,
    /// Congestion window, threshold and credit towards the next segment, in segments.
    window: u32,
    threshold: u32,
    credit: u32,
    /// End of the sent data when the state began (high_seq).
    high: Offset,
    /// Duplicates counted without SACK (sacked_out).
    duplicates: u32,
    reordering: u32,
    reordering_seen: bool,
    rack: LinuxRack,
    /// Widened reordering window: its quarters, recoveries that it stays, transmission that ends
    /// the round in which it was widened, and a duplicate that has not widened it yet.
    quarters: u64,
    persist: u32,
    widened_at: Option<u32>,
    duplicate_seen: bool,
    /// Duplicates reported since the connection began (dsack_dups).
    reported: u64,
    least_rtt: Duration,
    /// Undo: end of the acknowledged data at its beginning (undo_marker), millisecond of the first
    /// retransmission (retrans_stamp), window and threshold before.
    undo_from: Option<Offset>,
    /// Retransmissions that the receiver has not reported as duplicates; negative before the first
    /// one (undo_retrans).
    unreported: i32,
    first_resent: Option<u64>,
    window_before: u32,
    threshold_before: Option<u32>,
    /// Rate reduction: segments delivered and sent.
    delivered: u32,
    sent: u32,
    /// Tail loss probe: end of the data after it, and whether it was a retransmission.
    probe: Option<(Offset, bool)>,
    frto: bool,
    /// Timeouts since the last progress (icsk_retransmits).
    timeouts: u32,
    pending: Pending,
    resend: Resend,
    due: Due,
    /// Time at which a segment was discarded, which does not cause deferred data to be sent.
    pub(super) discarded: Option<Time>,
    /// Use of the window (tcp_cwnd_validate).
    limited: bool,
    most: u32,
    usage_until: Offset,
    last_sent: u64,
    /// Time of the last transmission.
    sent_at: Time,
    /// Segments that are handed to the device at once, and the end of those that are being sent.
    chunk: u32,
    chunk_end: Offset,
    /// New segments of the burst that is being sent.
    burst: u32,
    /// Buffers with data to be sent: the size of each, the beginning of one, the end of the data in
    /// them, and whether the first one takes more that was just written.
    buffer: u64,
    buffers_from: Offset,
    written: Offset,
    refills: bool,
    /// Widest window that the peer has offered (max_window).
    widest: u64,
    /// Position of the peer's last segment, and its window.
    peer: (u32, u64),
}

/// What an acknowledgement says (the flags of tcp_ack).
#[derive(Clone, Copy, Debug)]
struct Seen {
    arrival: Arrival,
    una: Offset,
    advanced: bool,
    /// False if it may be a duplicate.
    not_duplicate: bool,
    echo: bool,
    duplicate_reported: bool,
    duplicate_of_probe: bool,
    /// True if a retransmission was found lost.
    lost_again: bool,
    set_timer: bool,
    /// One if it is a duplicate without any news.
    duplicates: u32,
    /// Millisecond at which the segment was sent whose timestamp is echoed, if any.
    echoed: Option<u64>,
}

/// Returns the ticks that microseconds take, rounded up (usecs_to_jiffies).
fn ticks_up(micros: u64) -> u64 {
    micros.div_ceil(1_000_000 / TICKS_PER_SECOND)
}

fn whole_micros(duration: Duration) -> u64 {
    duration.as_picos() / 1_000_000
}

impl Linux {
    /// Returns the state of a connection that is to be opened, if these settings are Linux's.
    pub fn new(config: &SenderConfig, paced: bool) -> Option<Box<Self>> {
        let recovery = match config.loss_detection {
            LossDetection::Rack => config.prr,
            LossDetection::Duplicates => true,
            LossDetection::Sack => false,
        };
        if !config.decrease_from_window || !recovery {
            return None;
        }
        let control = match config.congestion.linux()? {
            LinuxKind::Reno => Control::Reno,
            LinuxKind::Cubic { reno_friendly, hystart } => {
                Control::Cubic(Box::new(Cubic::new(reno_friendly, hystart, paced)))
            }
        };
        Some(Box::new(Self {
            state: State::Open,
            control,
            window: config.initial_window,
            threshold: INFINITE,
            credit: 0,
            high: 0,
            duplicates: 0,
            reordering: REORDERING,
            reordering_seen: false,
            rack: LinuxRack::default(),
            quarters: 1,
            persist: 0,
            widened_at: None,
            duplicate_seen: false,
            reported: 0,
            least_rtt: Duration::MAX,
            undo_from: None,
            unreported: 0,
            first_resent: None,
            window_before: 0,
            threshold_before: None,
            delivered: 0,
            sent: 0,
            probe: None,
            frto: false,
            timeouts: 0,
            pending: Pending::Nothing,
            resend: Resend::No,
            due: Due::Nothing,
            discarded: None,
            limited: false,
            most: 0,
            usage_until: 0,
            last_sent: 0,
            sent_at: Time::ZERO,
            chunk: LEAST_CHUNK,
            chunk_end: 0,
            burst: 0,
            buffer: u64::MAX,
            buffers_from: 0,
            written: 0,
            refills: false,
            widest: 0,
            peer: (0, 0),
        }))
    }

    /// Returns the minimum round-trip time of the connection.
    pub fn least_rtt(&self) -> Duration {
        self.least_rtt
    }

    /// Returns `true` if more of what is handed to the device at once is to follow what was sent
    /// before `end`.
    pub fn has_begun_chunk(&self, end: Offset) -> bool {
        end < self.chunk_end
    }

    fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    fn is_reducing(&self) -> bool {
        matches!(self.state, State::Cwr | State::Recovery)
    }

    /// Returns the threshold to restore (tcp_current_ssthresh).
    fn current_threshold(&self) -> u32 {
        match self.is_reducing() {
            true => self.threshold,
            false => self.threshold.max((self.window >> 1) + (self.window >> 2)),
        }
    }
}

/// A sender with its Linux state, at a time.
struct Machine<'a> {
    sender: &'a mut Sender,
    linux: &'a mut Linux,
    now: Time,
}

impl Sender {
    /// Runs a step of Linux's sender.
    fn as_linux<T>(&mut self, now: Time, step: impl FnOnce(&mut Machine) -> T) -> Option<T> {
        let mut linux = self.linux.take()?;
        if linux.burst > 0 && now > linux.sent_at {
            // Pacing or a full queue of the host cut the burst short (tcp_write_xmit).
            let sent_at = linux.sent_at;
            Machine { sender: self, linux: &mut linux, now: sent_at }.end_burst();
        }
        let result = step(&mut Machine { sender: self, linux: &mut linux, now });
        let mss = self.mss();
        self.window.cwnd = f64::from(linux.window) * mss;
        self.window.ssthresh = match linux.threshold {
            INFINITE => f64::INFINITY,
            threshold => f64::from(threshold) * mss,
        };
        self.linux = Some(linux);
        Some(result)
    }

    /// Takes an acknowledgement as Linux does (tcp_ack).
    pub(super) fn take_as_linux(
        &mut self,
        now: Time,
        segment: &Segment,
        ack: Offset,
    ) -> Option<Duration> {
        self.as_linux(now, |machine| machine.take(segment, ack)).flatten()
    }
}

impl Machine<'_> {
    fn sack(&self) -> bool {
        self.sender.uses_sack()
    }

    /// Returns the segments in the network (tcp_packets_in_flight).
    fn in_flight(&self) -> u32 {
        self.sender.scoreboard.in_flight().saturating_sub(self.linux.duplicates)
    }

    fn packets(&self) -> u32 {
        self.sender.scoreboard.segments() as u32
    }

    fn sacked(&self) -> u32 {
        match self.sack() {
            true => self.sender.scoreboard.sacked_segments() as u32,
            false => self.linux.duplicates,
        }
    }

    fn lost(&self) -> u32 {
        self.sender.scoreboard.counts().lost
    }

    fn una(&self) -> Offset {
        self.sender.scoreboard.acknowledged()
    }

    fn end(&self) -> Offset {
        self.sender.scoreboard.end()
    }

    fn take(&mut self, segment: &Segment, ack: Offset) -> Option<Duration> {
        let una = self.una();
        let end = self.end();
        let echo = segment.timestamps.and_then(|(_, echo)| elapsed_since(echo, self.now));
        let facts = Facts {
            now: self.now,
            high: self.linux.high,
            min_rtt: match self.linux.least_rtt {
                Duration::MAX => Duration::ZERO,
                least => least,
            },
            echo: echo.map(|elapsed| {
                millis(Time::from_picos(self.now.as_picos().saturating_sub(elapsed.as_picos())))
            }),
        };
        let packets = self.packets();
        let highest = self.sender.scoreboard.highest_sacked();
        let mut seen = Seen {
            arrival: Arrival::new(end),
            una,
            advanced: ack > una,
            not_duplicate: segment.payload > 0,
            echo: false,
            duplicate_reported: false,
            duplicate_of_probe: false,
            lost_again: false,
            set_timer: false,
            duplicates: 0,
            echoed: facts.echo,
        };
        if seen.advanced {
            self.linux.timeouts = 0;
        }
        if ack >= una {
            let (known, window) = self.linux.peer;
            let moved = segment.seq.0.wrapping_sub(known) as i32 > 0;
            let more = u64::from(segment.window) > window || segment.window == 0;
            if seen.advanced || moved || more {
                seen.not_duplicate = true;
                self.linux.peer = (segment.seq.0, segment.window.into());
                self.sender.receive_window = segment.window.into();
                self.linux.widest = self.linux.widest.max(segment.window.into());
            }
        }
        let lost = self.sender.scoreboard.counts().ever;
        if self.sack() {
            self.tag(segment, ack, &facts, &mut seen);
        }
        self.linux.resend = Resend::No;
        if ack < una {
            // Old: only what it SACKs counts.
            if !segment.sack.as_slice().is_empty() {
                self.alert(&mut seen);
            }
            return None;
        }
        if packets == 0 {
            if seen.duplicate_reported {
                self.alert(&mut seen);
            }
            self.judge_probe(ack, &seen);
            return None;
        }
        let opens = una == 0 && ack > 0;
        let rtt = self.clean(ack, highest, &facts, echo, &mut seen);
        seen.echo = self.sender.take_echo(segment, seen.arrival.bytes);
        if opens {
            self.open();
            return rtt;
        }
        self.widen(&seen);
        self.judge_probe(ack, &seen);
        let dubious = !seen.not_duplicate
            || seen.arrival.sacked
            || seen.echo
            || seen.duplicate_reported
            || self.linux.state != State::Open;
        if dubious {
            if !(seen.advanced || seen.not_duplicate || seen.duplicate_reported) {
                seen.duplicates = 1;
            }
            self.alert(&mut seen);
        }
        if seen.set_timer {
            self.set_timer();
        }
        let newly_lost = self.sender.scoreboard.counts().ever > lost;
        self.control_congestion(&seen, newly_lost);
        self.size_chunks();
        rtt
    }

    /// Takes the selective acknowledgements (tcp_sacktag_write_queue).
    fn tag(&mut self, segment: &Segment, ack: Offset, facts: &Facts, seen: &mut Seen) {
        let blocks = segment.sack.as_slice();
        if blocks.is_empty() {
            return;
        }
        let (una, end) = (ack.max(seen.una), self.end());
        let mut ranges = [(0, 0); 3];
        for (range, (start, stop)) in ranges.iter_mut().zip(blocks) {
            if let (Some(start), Some(stop)) = (start.to_offset(ack), stop.to_offset(ack))
                && start < stop
                && stop <= end
            {
                *range = (start, stop);
            }
        }
        let [first, second, _] = ranges;
        let repeats = first.1 > 0 && (first.0 < ack || second.0 <= first.0 && first.1 <= second.1);
        let duplicate = (repeats && self.count_duplicate(first, seen)).then_some(first);
        if seen.una < self.end() {
            // The lowest first: several blocks of one acknowledgement were not reordered.
            ranges.sort_unstable();
            for range in ranges.into_iter().filter(|range| range.0 > una) {
                let board = &mut self.sender.scoreboard;
                board.tag(range, facts, &mut self.linux.rack, &mut seen.arrival);
            }
            if let Some(duplicate) = duplicate.filter(|range| range.1 > seen.una) {
                let from = self.linux.undo_from.unwrap_or(Offset::MAX);
                let board = &mut self.sender.scoreboard;
                let reported = board.tag_duplicate(duplicate, from, &mut seen.arrival);
                self.report(reported);
            }
        }
        if self.linux.state != State::Loss || self.linux.undo_from.is_some() {
            self.note_reordering(seen.arrival.overtaken);
        }
    }

    /// Counts a report that a range has arrived twice (tcp_check_dsack, tcp_dsack_seen); returns
    /// `false` if more was reported than was ever sent again.
    fn count_duplicate(&mut self, (start, stop): (Offset, Offset), seen: &mut Seen) -> bool {
        let segments = (stop - start).div_ceil(self.sender.config.mss.into()).max(1) as u32;
        if segments == 1 && self.linux.probe.is_some_and(|(end, _)| end == stop) {
            seen.duplicate_of_probe = true;
        }
        self.linux.reported += u64::from(segments);
        if self.linux.reported > self.sender.retransmits {
            return false;
        }
        if self.linux.reordering_seen && !seen.duplicate_of_probe {
            self.linux.duplicate_seen = true;
        }
        seen.duplicate_reported = true;
        seen.arrival.delivered += segments;
        if stop <= seen.una && self.linux.undo_from.is_some_and(|from| stop > from) {
            self.report(segments);
        }
        true
    }

    /// Subtracts retransmissions that were in vain.
    fn report(&mut self, segments: u32) {
        if self.linux.unreported > 0 {
            self.linux.unreported = (self.linux.unreported - segments as i32).max(0);
        }
    }

    /// Records that the segment at `start` was overtaken (tcp_check_sack_reordering).
    fn note_reordering(&mut self, start: Offset) {
        let highest = self.sender.scoreboard.highest_sacked();
        if start >= highest {
            return;
        }
        let displaced = (highest - start).div_ceil(self.sender.config.mss.into()) as u32;
        if displaced > self.linux.reordering {
            self.linux.reordering = displaced.min(MAX_REORDERING);
        }
        self.linux.reordering_seen = true;
    }

    /// Takes the cumulative acknowledgement (tcp_clean_rtx_queue); returns the round-trip time that
    /// it measures. Before it, `highest` was the end of the SACKed data.
    fn clean(
        &mut self,
        ack: Offset,
        highest: Offset,
        facts: &Facts,
        echo: Option<Duration>,
        seen: &mut Seen,
    ) -> Option<Duration> {
        let (sack, now) = (self.sack(), self.now);
        let sacks_overtook = std::mem::replace(&mut seen.arrival.overtaken, self.end());
        let bytes = ack - seen.una;
        let board = &mut self.sender.scoreboard;
        board.clean(ack, facts, sack, &mut self.linux.rack, &mut seen.arrival);
        let arrival = seen.arrival;
        let mut measured = None;
        let mut last = None;
        if let Some((first, latest)) = arrival.acked_at
            && !arrival.again
        {
            measured = Some(now.since(first));
            last = Some(now.since(latest));
        }
        if let Some((first, latest)) = arrival.sacked_at {
            measured = measured.or(Some(now.since(first)));
            last = Some(now.since(latest));
        }
        if measured.is_none() && arrival.acked > 0 {
            // The clock of timestamps counts milliseconds.
            let elapsed =
                echo.map(|_| millis(now) - facts.echo.unwrap_or(millis(now)).min(millis(now)));
            measured = elapsed.map(|elapsed| Duration::from_millis(elapsed.max(1)));
            last = measured;
        }
        let delayed = arrival.acked == 1
            && arrival.delivered == 1
            && self.sacked() == 0
            && bytes < self.sender.config.mss.into()
            && seen.una > 0;
        if let (Some(measured), Some(last)) = (measured, last) {
            if !delayed {
                self.linux.least_rtt = self.linux.least_rtt.min(last.max(Duration::from_micros(1)));
            }
            let end = self.end();
            self.sender.rtt.sample(measured, ack, end);
        }
        if arrival.acked > 0 {
            seen.set_timer = true;
            seen.not_duplicate = true;
            if !sack {
                self.remove_duplicates(seen);
                if arrival.again {
                    seen.arrival.original = false;
                }
            } else if arrival.overtaken < highest {
                self.note_reordering_below(arrival.overtaken, highest);
            }
        } else if let Some(at) = self.sender.scoreboard.first_sent()
            && measured.is_some()
            && arrival.sacked_at.is_some_and(|(first, _)| first < at)
        {
            // Data sent before the first segment was last sent says nothing about that.
            seen.set_timer = true;
        }
        seen.arrival.overtaken = sacks_overtook;
        if seen.una > 0 && (arrival.acked > 0 || arrival.sacked) {
            self.pass_rtt(last, ack);
        }
        measured
    }

    fn note_reordering_below(&mut self, start: Offset, highest: Offset) {
        let highest = highest.max(self.sender.scoreboard.highest_sacked());
        let displaced = (highest - start).div_ceil(self.sender.config.mss.into()) as u32;
        if displaced > self.linux.reordering {
            self.linux.reordering = displaced.min(MAX_REORDERING);
        }
        self.linux.reordering_seen = true;
    }
}

#[cfg(test)]
mod tests;
