//! Timers in ticks of Linux's wheel (kernel/time/timer.c): whole ticks up to 63, then eighths of
//! them, and so on.

use perhop_core::{Duration, Time};

use super::{Due, Machine, Pending, Resend, State, TICK, ticks_up, whole_micros};
use crate::sender::Sender;

/// Least time of the timers of probes and reordering, in µs (TCP_TIMEOUT_MIN_US).
const LEAST: u64 = 2_000;
/// Delay of an acknowledgement that a probe of a single segment allows for, in µs (tcp_rto_min).
const ACK_DELAY: u64 = 200_000;
/// Timeout before there is a round-trip time, in ticks.
const INITIAL: u64 = 250;
/// SYNs that are sent again without backoff (tcp_syn_linear_timeouts).
const LINEAR: u32 = 4;
/// Ticks of the wheel's first level, and of each level the bits by which the next is coarser.
const LEVEL: u64 = 63;
const COARSER: u32 = 3;

/// Returns the tick at which a timer expires that is set at tick `now` for `ticks` (calc_index).
pub(super) fn expiry(now: u64, ticks: u64) -> u64 {
    let mut shift = 0;
    while ticks >= LEVEL << shift && shift < 8 * COARSER {
        shift += COARSER;
    }
    (((now + ticks) >> shift) + 1) << shift
}

impl Machine<'_> {
    /// Returns the retransmission timeout in ticks (icsk_rto).
    pub(super) fn timeout_ticks(&self) -> u64 {
        ticks_up(whole_micros(self.sender.rtt.timeout()))
    }

    fn start(&mut self, pending: Pending, ticks: u64) {
        self.linux.pending = pending;
        self.sender.deadline = self.at_tick(expiry(self.tick(), ticks.max(1)));
    }

    /// Returns the time until the timeout of the first segment, in µs; zero if that has passed
    /// (tcp_rto_delta_us).
    fn until_timeout(&self) -> u64 {
        let first = self.sender.scoreboard.first_sent().unwrap_or(self.now);
        let due = first + Duration::from_picos(self.timeout_ticks() * TICK);
        if due > self.now { whole_micros(due.since(self.now)) } else { 0 }
    }

    /// Starts the retransmission timer (tcp_rearm_rto).
    pub(super) fn rearm(&mut self) {
        if self.packets() == 0 {
            self.linux.pending = Pending::Nothing;
            self.sender.deadline = Time::MAX;
            return;
        }
        let ticks = match self.linux.pending {
            Pending::Reordering | Pending::Probe => ticks_up(self.until_timeout().max(1)),
            _ => self.timeout_ticks(),
        };
        self.start(Pending::Retransmission, ticks);
    }

    /// Starts the timer of a probe or of retransmissions (tcp_set_xmit_timer).
    pub(super) fn set_timer(&mut self) {
        if !self.schedule_probe(true) {
            self.rearm();
        }
    }

    /// Starts the timer of a probe, if one may be sent (tcp_schedule_loss_probe).
    pub(super) fn schedule_probe(&mut self, advances: bool) -> bool {
        let packets = self.packets();
        if packets == 0
            || !self.sack()
            || !matches!(self.linux.state, State::Open | State::Cwr)
            || self.una() == 0
        {
            return false;
        }
        let mut ticks = match self.sender.rtt.smoothed() {
            Some(smoothed) => {
                let more = if packets == 1 { ACK_DELAY } else { LEAST };
                ticks_up(2 * whole_micros(smoothed) + more)
            }
            None => INITIAL,
        };
        let timeout = match advances {
            true => self.timeout_ticks(),
            false => ticks_up(self.until_timeout()),
        };
        if timeout > 0 {
            ticks = ticks.min(timeout);
        }
        self.start(Pending::Probe, ticks);
        true
    }

    /// Waits for segments that may be late.
    pub(super) fn wait_for_reordering(&mut self, left: Duration) {
        let ticks = ticks_up(left.as_picos().div_ceil(1_000_000) + LEAST);
        self.start(Pending::Reordering, ticks.min(self.timeout_ticks()));
    }

    fn on_timer(&mut self) {
        let pending = std::mem::take(&mut self.linux.pending);
        self.sender.deadline = Time::MAX;
        match pending {
            Pending::Nothing => {}
            Pending::Retransmission => self.time_out(),
            Pending::Probe => self.send_probe(),
            Pending::Reordering => self.end_reordering(),
        }
    }

    /// Handles a timeout (tcp_retransmit_timer).
    fn time_out(&mut self) {
        if self.packets() == 0 {
            return;
        }
        let opening = self.una() == 0;
        self.enter_loss();
        self.linux.timeouts += 1;
        self.linux.due = Due::First;
        if !opening || self.linux.timeouts > LINEAR {
            self.sender.rtt.expired();
        }
        let ticks = self.timeout_ticks();
        self.start(Pending::Retransmission, ticks);
    }

    /// Sends a tail loss probe, unless one is not answered (tcp_send_loss_probe).
    fn send_probe(&mut self) {
        if self.linux.probe.is_none() && self.packets() > 0 {
            self.linux.due = Due::Probe;
        }
        // `pending` is cleared, so that the timeout starts from now after a probe.
        if self.linux.due != Due::Probe {
            self.linux.pending = Pending::Probe;
        }
        self.rearm();
    }

    /// Marks what was late for too long as lost (tcp_rack_reo_timeout).
    fn end_reordering(&mut self) {
        let in_flight = self.in_flight();
        self.detect_late();
        self.linux.pending = Pending::Reordering;
        if self.in_flight() != in_flight {
            if self.linux.state != State::Recovery {
                self.enter_recovery(false);
                self.reduce(1, false);
            }
            self.linux.resend = Resend::Lost;
        }
        self.rearm();
    }
}

impl Sender {
    /// Handles a timer of Linux's sender that is due.
    pub(in crate::sender) fn on_linux_timer(&mut self, now: Time) {
        if now >= self.deadline {
            self.as_linux(now, |machine| machine.on_timer());
        }
    }
}

#[cfg(test)]
mod tests;
