//! BBR version 1, Linux's `bbr` (draft-cardwell-iccrg-bbr-congestion-control-00; and
//! net/ipv4/tcp_bbr.c for what Linux added: aggregation, the drain test, policers).
//!
//! Sections in these files are the draft's. Amounts are bytes, rates bytes per second. The targets
//! of the window, which Linux counts in packets, are whole segments.

mod bandwidth;
mod control;
mod policed;

use perhop_core::{Duration, Stream, Time};

use super::Window;
use super::bbr::Aggregation;
use super::path_model::{Delivered, PathModel};
use crate::delivery::LostSegment;

use bandwidth::{FullPipe, MaxRate};
use policed::{Interval, Policed};

/// 2/ln 2, the least gain that doubles the rate in a round trip (section 4.1.1.1: BBRHighGain).
const HIGH_GAIN: f64 = 2.885;
/// The cycle of ProbeBW's pacing gains (section 4.3.4.1).
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Gain of the window in ProbeBW (section 4.2.3.1: cwnd_gain).
const WINDOW_GAIN: f64 = 2.0;
/// Least window, in segments (section 4.2.3.2: BBRMinPipeCwnd).
const LEAST: f64 = 4.0;
/// Time for which a minimum round-trip time is valid (section 4.1.2.2: RTpropFilterLen).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// Duration of ProbeRTT (section 4.3.5: ProbeRTTDuration).
const PROBE_RTT: Duration = Duration::from_millis(200);
/// Rounds in either half of the filter of aggregation.
const AGGREGATION_ROUNDS: u64 = 5;

/// State of the state machine (section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    /// ProbeBW, at this index of the cycle.
    ProbeBw(usize),
    /// ProbeRTT, with the least window, until an instant; `None` before the flight is down to it.
    ProbeRtt {
        until: Option<Time>,
        round_done: bool,
    },
}

/// State of loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recovery {
    Open,
    /// Began, and no acknowledgement was taken since.
    Beginning,
    /// Fast recovery; true in its first round trip, in which as much is sent as is delivered.
    Fast {
        conserving: bool,
    },
    Timeout,
}

#[derive(Clone, Debug)]
pub(crate) struct Bbr1 {
    random: Stream,
    mss: f64,
    initial_window: f64,
    mode: Mode,
    recovery: Recovery,
    pacing_rate: Option<f64>,
    /// Window before recovery or ProbeRTT reduced it.
    prior_window: f64,

    /// Number of the round trip, counted by packets (section 4.1.1.3).
    round: u64,
    round_ends: u64,
    round_start: bool,

    max_rate: MaxRate,
    policed: Policed,
    full_pipe: FullPipe,
    aggregation: Aggregation,
    /// Minimum round-trip time, and the time of its measurement.
    min_rtt: Option<(Duration, Time)>,

    /// Beginning of this phase of the cycle.
    phase_began: Time,
    /// Bytes lost since the connection began, and true if any were since the last acknowledgement.
    lost: u64,
    newly_lost: u64,
    /// Bytes delivered by the last acknowledgement, and its time.
    delivered: (u64, Time),
    /// True if the sender was idle and sends again.
    idle_restart: bool,
}

impl Bbr1 {
    /// Creates the model in its initial state; it draws the phase in which ProbeBW begins from
    /// `random`.
    pub fn new(random: Stream) -> Self {
        Self {
            random,
            mss: 0.0,
            initial_window: 0.0,
            mode: Mode::Startup,
            recovery: Recovery::Open,
            pacing_rate: None,
            prior_window: 0.0,
            round: 0,
            round_ends: 0,
            round_start: false,
            max_rate: MaxRate::default(),
            policed: Policed::default(),
            full_pipe: FullPipe::default(),
            aggregation: Aggregation::default(),
            min_rtt: None,
            phase_began: Time::ZERO,
            lost: 0,
            newly_lost: 0,
            delivered: (0, Time::ZERO),
            idle_restart: false,
        }
    }

    fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => 1.0 / HIGH_GAIN,
            Mode::ProbeBw(_) if self.policed.rate().is_some() => 1.0,
            Mode::ProbeBw(place) => CYCLE[place],
            Mode::ProbeRtt { .. } => 1.0,
        }
    }

    fn window_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeBw(_) => WINDOW_GAIN,
            Mode::ProbeRtt { .. } => 1.0,
        }
    }

    /// Returns the rate in use: a detected policer's, otherwise the maximum.
    fn rate(&self) -> f64 {
        self.policed.rate().unwrap_or(self.max_rate.get())
    }

    /// Updates round trips, the policer and the maximum rate (sections 4.1.1.3 and 4.1.1.5).
    fn update_rate(&mut self, ack: &Delivered) {
        let sample = &ack.sample;
        self.round_start = false;
        if sample.rate <= 0.0 {
            return; // not a valid sample
        }
        self.round_start = sample.prior_delivered >= self.round_ends;
        if self.round_start {
            self.round_ends = sample.total;
            self.round += 1;
            if let Recovery::Fast { conserving } = &mut self.recovery {
                *conserving = false;
            }
        }
        self.update_policed(self.round_start, self.newly_lost > 0, sample.app_limited);
        if !sample.app_limited || sample.rate >= self.max_rate.get() {
            self.max_rate.update(self.round, sample.rate);
        }
    }

    fn update_policed(&mut self, round_start: bool, lossy: bool, app_limited: bool) {
        let (delivered, at) = self.delivered;
        let interval = Interval { at, delivered, lost: self.lost, round_start, lossy, app_limited };
        let probing = matches!(self.mode, Mode::ProbeBw(_));
        if self.policed.update(interval, probing) {
            self.start_cycle(at);
        }
    }

    /// Begins ProbeBW at a random phase of its cycle other than the draining one (section 4.3.4.3).
    fn start_cycle(&mut self, now: Time) {
        let place = (CYCLE.len() as u64 - self.random.up_to(6)) % CYCLE.len() as u64;
        self.mode = Mode::ProbeBw(place as usize);
        self.phase_began = now;
    }

    /// Advances the cycle (section 4.3.4.3): a phase lasts a round trip. A probe lasts until it has
    /// raised the flight or lost a segment, the drain at most until it has lowered the flight.
    fn advance_cycle(&mut self, ack: &Delivered) {
        let Mode::ProbeBw(place) = self.mode else { return };
        let lasted = ack.now.since(self.phase_began) > self.min_rtt();
        let gain = self.pacing_gain();
        let in_flight = (ack.in_flight + ack.newly + self.newly_lost) as f64;
        let over = if gain > 1.0 {
            let raised = in_flight + self.burst() >= self.inflight(self.max_rate.get(), gain);
            lasted && (self.newly_lost > 0 || raised)
        } else if gain < 1.0 {
            lasted || in_flight <= self.inflight(self.max_rate.get(), 1.0)
        } else {
            lasted
        };
        if over {
            self.mode = Mode::ProbeBw((place + 1) % CYCLE.len());
            self.phase_began = ack.now;
        }
    }

    /// Ends Startup when the pipe is full, and Drain when the queue is empty (sections 4.3.2 and
    /// 4.3.3).
    fn check_full_and_drained(&mut self, ack: &Delivered) {
        if self.round_start && !ack.sample.app_limited {
            self.full_pipe.check(self.max_rate.get());
        }
        if self.mode == Mode::Startup && self.full_pipe.reached {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain
            && ack.in_flight as f64 <= self.inflight(self.max_rate.get(), 1.0)
        {
            self.start_cycle(ack.now);
        }
    }

    /// Updates the minimum round-trip time and ProbeRTT (section 4.3.5). Returns `true` if rate
    /// samples are to be ignored.
    fn update_min_rtt(&mut self, window: &mut Window, ack: &Delivered) -> bool {
        let expired = self.min_rtt.is_some_and(|(_, since)| ack.now > since + MIN_RTT_WINDOW);
        if let Some(rtt) = ack.sample.rtt
            && (expired || self.min_rtt.is_none_or(|(least, _)| rtt < least))
        {
            self.min_rtt = Some((rtt, ack.now));
        }
        if expired && !self.idle_restart && !matches!(self.mode, Mode::ProbeRtt { .. }) {
            self.save_window(window, self.recovery != Recovery::Open);
            self.mode = Mode::ProbeRtt { until: None, round_done: false };
        }
        self.idle_restart &= ack.sample.delivered == 0;
        let Mode::ProbeRtt { until, round_done } = self.mode else { return false };
        if until.is_some() {
            let round_done = round_done || self.round_start;
            self.mode = Mode::ProbeRtt { until, round_done };
            if round_done {
                self.check_probe_rtt_done(window, ack.now);
            }
        } else if ack.in_flight as f64 <= LEAST * self.mss {
            self.mode = Mode::ProbeRtt { until: Some(ack.now + PROBE_RTT), round_done: false };
            self.round_ends = ack.sample.total;
        }
        true
    }

    fn check_probe_rtt_done(&mut self, window: &mut Window, now: Time) {
        let Mode::ProbeRtt { until: Some(until), .. } = self.mode else { return };
        if now <= until {
            return;
        }
        if let Some((_, since)) = &mut self.min_rtt {
            *since = now; // the next ProbeRTT is due in ten seconds
        }
        window.cwnd = window.cwnd.max(self.prior_window);
        match self.full_pipe.reached {
            true => self.start_cycle(now),
            false => self.mode = Mode::Startup,
        }
    }

    /// Saves the window, unless recovery or ProbeRTT has reduced it (section 4.2.3.4).
    fn save_window(&mut self, window: &Window, cut: bool) {
        self.prior_window = match cut || matches!(self.mode, Mode::ProbeRtt { .. }) {
            true => self.prior_window.max(window.cwnd),
            false => window.cwnd,
        };
    }
}

impl PathModel for Bbr1 {
    fn begin(&mut self, window: &Window, mss: f64) {
        (self.mss, self.initial_window) = (mss, window.cwnd);
    }

    fn resize(&mut self, mss: f64) {
        self.mss = mss;
    }

    fn pacing_rate(&self) -> Option<f64> {
        self.pacing_rate
    }

    fn min_rtt(&self) -> Duration {
        self.min_rtt.map_or(Duration::ZERO, |(least, _)| least)
    }

    fn on_ack(&mut self, window: &mut Window, ack: Delivered) -> bool {
        if self.pacing_rate.is_none() {
            self.init_pacing_rate(ack.smoothed_rtt);
            self.aggregation.restart(ack.now);
        }
        self.delivered = (ack.sample.total, ack.now);
        self.update_rate(&ack);
        let rate = self.rate();
        self.aggregation.update(&ack, rate, window.cwnd, self.round, AGGREGATION_ROUNDS);
        self.advance_cycle(&ack);
        self.check_full_and_drained(&ack);
        let limits = self.update_min_rtt(window, &ack);
        self.set_pacing_rate(self.pacing_gain());
        self.set_window(window, &ack);
        self.newly_lost = 0;
        limits
    }

    fn on_lost(&mut self, _: &Window, _: Time, lost: LostSegment, _: u64) {
        self.lost += lost.length;
        self.newly_lost += lost.length;
    }

    fn on_recovery(&mut self, window: &Window, recovering: bool) {
        self.save_window(window, recovering);
        if !recovering {
            self.recovery = Recovery::Beginning;
        }
    }

    fn on_timeout(&mut self) {
        self.recovery = Recovery::Timeout;
        self.full_pipe.forget();
        self.update_policed(true, true, false);
    }

    fn on_recovered(&mut self, window: &mut Window) {
        window.cwnd = window.cwnd.max(self.prior_window);
        self.recovery = Recovery::Open;
    }

    /// Linux: bbr_undo_cwnd.
    fn on_spurious_loss(&mut self, _: &mut Window, _: u64) {
        self.full_pipe.forget();
        self.policed = Policed::default();
    }

    fn on_restart(&mut self, window: &mut Window, now: Time, _: u64) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        match self.mode {
            // Pacing at the estimate suffices, and a faster burst could overflow a queue.
            Mode::ProbeBw(_) => self.set_pacing_rate(1.0),
            Mode::ProbeRtt { .. } => self.check_probe_rtt_done(window, now),
            Mode::Startup | Mode::Drain => {}
        }
    }
}

#[cfg(test)]
mod tests;
