//! CUBIC and HyStart in Linux's integers (net/ipv4/tcp_cubic.c): windows in segments, times in
//! ticks and microseconds.

use crate::Offset;
use crate::sender::linux::{INFINITE, TICKS_PER_SECOND, ticks_up};

/// Denominator of the decrease, and its factor.
const SCALE: u32 = 1024;
const BETA: u32 = 717;
/// Aggressiveness: 410 / 1024 segments / s³, with times in 1/1024 s.
const C: u64 = 410;
/// Segments for one of Reno's estimate, in eighths of the window: 8 (1024 + 717) / 3 / 307.
const RENO: u32 = 15;
/// Bits of a unit of time, 1/1024 s.
const UNIT: u32 = 10;

/// Window below which HyStart does not end slow start.
const LEAST: u32 = 16;
/// Greatest distance of acknowledgements of a train, in µs.
const SPACING: u64 = 2_000;
const SAMPLES: u32 = 8;

#[derive(Clone, Debug)]
pub(super) struct Cubic {
    reno_friendly: bool,
    hystart: bool,
    paced: bool,
    count: u32,
    last_max: u32,
    last_window: u32,
    last_time: u64,
    origin: u32,
    k: u64,
    /// Minimum round-trip time in µs; zero if unknown.
    least: u64,
    epoch: Option<u64>,
    acked: u32,
    reno: u32,
    round_began: u64,
    round_end: Offset,
    train: u64,
    current: u64,
    samples: u32,
    found: bool,
}

/// State of the connection at an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub ticks: u64,
    pub micros: u64,
    pub acked: Offset,
    pub end: Offset,
    pub window: u32,
    pub slow_start: bool,
    /// Allowance for acknowledgements that large segments delay, in µs.
    pub held_back: u64,
}

impl Cubic {
    pub fn new(reno_friendly: bool, hystart: bool, paced: bool) -> Self {
        Self {
            reno_friendly,
            hystart,
            paced,
            count: 0,
            last_max: 0,
            last_window: 0,
            last_time: 0,
            origin: 0,
            k: 0,
            least: 0,
            epoch: None,
            acked: 0,
            reno: 0,
            round_began: 0,
            round_end: 0,
            train: 0,
            current: u64::MAX,
            samples: 0,
            found: false,
        }
    }

    /// Begins anew after a timeout, in a round that begins now.
    pub fn on_timeout(&mut self, micros: u64, end: Offset) {
        *self = Self::new(self.reno_friendly, self.hystart, self.paced);
        self.begin_round(micros, end);
    }

    pub fn begin_round(&mut self, micros: u64, end: Offset) {
        (self.round_began, self.train, self.round_end) = (micros, micros, end);
        (self.current, self.samples) = (u64::MAX, 0);
    }

    /// Returns the threshold after a loss at `window` segments.
    pub fn threshold(&mut self, window: u32) -> u32 {
        self.epoch = None;
        let converging = window < self.last_max;
        self.last_max = if converging { window * (SCALE + BETA) / (2 * SCALE) } else { window };
        (window * BETA / SCALE).max(2)
    }

    /// Moves the cubic function by the ticks in which nothing was in flight.
    pub fn on_restart(&mut self, idle: u64, now: u64) {
        if let Some(epoch) = &mut self.epoch {
            *epoch = (*epoch + idle).min(now);
        }
    }

    /// Takes a round-trip time in µs; returns `true` if slow start ends.
    pub fn on_rtt(&mut self, rtt: u64, at: Moment) -> bool {
        // Round-trip times right after a recovery are those of its queue.
        if self.epoch.is_some_and(|epoch| at.ticks.saturating_sub(epoch) < TICKS_PER_SECOND) {
            return false;
        }
        let rtt = rtt.max(1);
        if self.least == 0 || self.least > rtt {
            self.least = rtt;
        }
        if self.found || !self.hystart || !at.slow_start {
            return false;
        }
        if at.acked > self.round_end {
            self.begin_round(at.micros, at.end);
        }
        if at.window < LEAST {
            return false;
        }
        if at.micros - self.train <= SPACING {
            self.train = at.micros;
            let path = self.least + at.held_back;
            let train = if self.paced { path } else { path / 2 };
            self.found |= at.micros - self.round_began > train;
        }
        self.current = self.current.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
        } else {
            self.found |= self.current > self.least + (self.least / 8).clamp(4_000, 16_000);
        }
        self.found
    }

    /// Returns the number of segments to acknowledge for the window to grow by one.
    pub fn count(&mut self, window: u32, acked: u32, now: u64) -> u32 {
        self.acked += acked;
        if self.last_window == window && now.wrapping_sub(self.last_time) <= TICKS_PER_SECOND / 32 {
            return self.count;
        }
        if self.epoch.is_none() || self.last_time != now {
            (self.last_window, self.last_time) = (window, now);
            self.count = self.cubic(window, acked, now);
        }
        if self.reno_friendly {
            let each = (window * RENO) >> 3;
            while self.acked > each {
                self.acked -= each;
                self.reno += 1;
            }
            if self.reno > window {
                self.count = self.count.min(window / (self.reno - window));
            }
        }
        self.count = self.count.max(2);
        self.count
    }

    fn cubic(&mut self, window: u32, acked: u32, now: u64) -> u32 {
        let epoch = *self.epoch.get_or_insert_with(|| {
            (self.acked, self.reno) = (acked, window);
            self.origin = self.last_max.max(window);
            let cube = (1 << 40) / C * u64::from(self.origin - window);
            self.k = cube_root(cube);
            now
        });
        let elapsed = (now.saturating_sub(epoch) + ticks_up(self.least)) << UNIT;
        let elapsed = elapsed / TICKS_PER_SECOND;
        let from_plateau = elapsed.abs_diff(self.k);
        let change = (C * from_plateau * from_plateau * from_plateau) >> (10 + 3 * UNIT);
        let change = change.min(u64::from(INFINITE / 2)) as u32;
        let target = match elapsed < self.k {
            true => self.origin.saturating_sub(change),
            false => self.origin + change,
        };
        let count = if target > window { window / (target - window) } else { 100 * window };
        if self.last_max == 0 { count.min(20) } else { count }
    }
}

/// Returns the cube root, rounded down.
fn cube_root(value: u64) -> u64 {
    let (mut low, mut high) = (0_u64, 1 << 21);
    while low + 1 < high {
        let middle = (low + high) / 2;
        if middle * middle * middle <= value {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}
