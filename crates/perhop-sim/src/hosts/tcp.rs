//! An application that writes to a TCP connection, and one that reads from it.

use perhop_core::{Duration, Time};
use perhop_measure::Samples;
use perhop_tcp::{Receiver, Sender};
use perhop_workload::WritesPlan;

use super::socket::Socket;
use super::srtt::SrttReadings;

/// Start, stop and volume of an application.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub start: Time,
    /// Stop; [`Time::MAX`] if there is none.
    pub stop: Time,
    /// Volume in bytes; [`u64::MAX`] if it is unlimited.
    pub volume: u64,
}

/// Application that writes at a rate.
#[derive(Debug)]
pub(crate) struct PacedWriter {
    plan: WritesPlan,
    start: Time,
    /// Bytes of the writes so far.
    written: u64,
    /// Bytes that all writes together have.
    volume: u64,
    /// Time of the last segment that was sent.
    pub last_sent: Time,
}

impl PacedWriter {
    pub fn new(plan: WritesPlan, schedule: Schedule) -> Self {
        let Schedule { start, volume, .. } = schedule;
        Self { plan, start, written: 0, volume, last_sent: Time::ZERO }
    }

    /// Returns the time of the next write; [`Time::MAX`] after the last one.
    fn due(&self) -> Time {
        match self.written < self.volume {
            true => self.start + self.plan.due(self.written),
            false => Time::MAX,
        }
    }

    /// Writes all that is due to a connection. After a pause, the window is smaller.
    fn write(&mut self, now: Time, sender: &mut Sender) {
        if now < self.due() {
            return;
        }
        if sender.unsent() == 0 && sender.is_open() {
            sender.restart_after_idle(now, now.since(self.last_sent));
        }
        let until = self.plan.bytes_due(now.since(self.start)).min(self.volume);
        sender.write(until - self.written);
        self.written = until;
        if until == self.volume {
            sender.close();
        }
    }
}

#[derive(Debug)]
pub(crate) struct TcpSender {
    pub sender: Sender,
    pub schedule: Schedule,
    pub phase: StreamPhase,
    pub rtt: Samples,
    pub srtt: Samples,
    pub srtt_readings: SrttReadings,
    /// Data segments that the network lost.
    pub lost: u64,
    /// True if data in the host's own queue blocks the sender.
    pub small_queues: bool,
    pub socket: Socket,
    /// Application, if it writes at a rate; otherwise all data is written at the start.
    pub writer: Option<Box<PacedWriter>>,
}

#[derive(Debug)]
pub(crate) struct TcpReceiver {
    pub receiver: Receiver,
    /// One-way delays of data segments.
    pub delay: Samples,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamPhase {
    Waiting,
    Running,
    Stopped,
}

impl TcpSender {
    /// Returns `true` if the limit of data in the host's own queue is reached.
    #[inline]
    pub fn is_blocked(&mut self) -> bool {
        self.socket.blocked =
            self.small_queues && self.sender.is_over_queue_limit(self.socket.queued);
        self.socket.blocked
    }

    pub fn deadline(&self) -> Time {
        match self.phase {
            StreamPhase::Waiting => self.schedule.start,
            StreamPhase::Running => {
                let write = self.writer.as_ref().map_or(Time::MAX, |writer| writer.due());
                self.sender.deadline().min(self.schedule.stop).min(write)
            }
            StreamPhase::Stopped => self.sender.deadline(),
        }
    }

    /// Returns the smoothed round-trip time if a reading is due.
    #[inline]
    pub fn read_srtt(&mut self, now: Time) -> Option<Duration> {
        if self.srtt_readings.is_due(now) { self.sender.smoothed_rtt() } else { None }
    }

    pub fn on_timer(&mut self, now: Time) {
        if self.phase == StreamPhase::Waiting && now >= self.schedule.start {
            self.phase = StreamPhase::Running;
            if self.writer.is_none() {
                self.sender.write(self.schedule.volume);
                if self.schedule.volume != u64::MAX {
                    self.sender.close();
                }
            }
        }
        if self.phase == StreamPhase::Running && now >= self.schedule.stop {
            self.phase = StreamPhase::Stopped;
            self.sender.stop();
        }
        if self.phase == StreamPhase::Running
            && let Some(writer) = &mut self.writer
        {
            writer.write(now, &mut self.sender);
        }
        self.sender.on_timer(now);
    }
}
