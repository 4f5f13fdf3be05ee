//! An application that writes to a TCP connection, and one that reads from it.

use perhop_core::{Duration, Time};
use perhop_measure::Samples;
use perhop_tcp::{Receiver, Sender};

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
            StreamPhase::Running => self.sender.deadline().min(self.schedule.stop),
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
            self.sender.write(self.schedule.volume);
            if self.schedule.volume != u64::MAX {
                self.sender.close();
            }
        }
        if self.phase == StreamPhase::Running && now >= self.schedule.stop {
            self.phase = StreamPhase::Stopped;
            self.sender.stop();
        }
        self.sender.on_timer(now);
    }
}
