//! Loss detection (RFC 9002, section 6): packets that were sent, those that are lost, and the probe
//! timeout.

use std::collections::VecDeque;

use perhop_core::{Duration, Time};

use crate::{Ack, MAX_ACK_DELAY, RttEstimator};

/// Number of later packets whose acknowledgement makes a packet lost (section 6.1.1:
/// kPacketThreshold).
const PACKET_THRESHOLD: u64 = 3;

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub struct SentPacket<T> {
    /// Its number.
    pub number: u64,
    /// Time at which it was sent.
    pub at: Time,
    /// Its length: the UDP payload, in bytes.
    pub bytes: u16,
    /// Contents to send again if it is lost.
    pub content: T,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    Acked,
    /// Declared lost, or never in flight: it has only an acknowledgement.
    Gone,
}

/// Packets of a packet number space that were sent.
#[derive(Clone, Debug)]
pub struct Recovery<T> {
    rtt: RttEstimator,
    /// Greatest delay of the peer's acknowledgements.
    pub max_ack_delay: Duration,
    /// Packets from the first one on that is in flight; each number once.
    packets: VecDeque<(State, SentPacket<T>)>,
    /// Number of the next packet.
    next: u64,
    largest_acked: Option<u64>,
    /// Time at which the first packet below an acknowledged one is lost.
    loss_at: Time,
    /// Time of the last packet that elicits an acknowledgement.
    last_sent: Time,
    in_flight: (u64, u64),
    timeouts: u32,
    /// Time of the first sample of the round-trip time: packets sent before do not show persistent
    /// congestion (section 7.6.2).
    first_sample: Time,
    /// Packets that were declared lost recently, in case they arrive after all.
    lost_before: VecDeque<SentPacket<T>>,
    /// Packets that the last event acknowledged.
    pub acked: Vec<SentPacket<T>>,
    /// Packets that the last event found lost.
    pub lost: Vec<SentPacket<T>>,
    /// Packets that the last event acknowledged although they were declared lost before.
    pub spurious: Vec<SentPacket<T>>,
    /// Round-trip time that the last acknowledgement measured.
    pub sample: Option<Duration>,
}

impl<T: Copy + Default> Default for Recovery<T> {
    fn default() -> Self {
        Self {
            rtt: RttEstimator::default(),
            max_ack_delay: MAX_ACK_DELAY,
            packets: VecDeque::new(),
            next: 0,
            largest_acked: None,
            loss_at: Time::MAX,
            last_sent: Time::ZERO,
            in_flight: (0, 0),
            timeouts: 0,
            first_sample: Time::MAX,
            lost_before: VecDeque::new(),
            acked: Vec::new(),
            lost: Vec::new(),
            spurious: Vec::new(),
            sample: None,
        }
    }
}

impl<T: Copy + Default> Recovery<T> {
    /// Returns the number of the next packet.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Returns the largest acknowledged number.
    pub fn largest_acked(&self) -> Option<u64> {
        self.largest_acked
    }

    /// Returns the bytes in flight.
    pub fn bytes_in_flight(&self) -> u64 {
        self.in_flight.0
    }

    /// Returns the number of packets in flight.
    pub fn packets_in_flight(&self) -> u64 {
        self.in_flight.1
    }

    /// Returns the number of probe timeouts since the last acknowledgement.
    pub fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// Returns the estimate of the round-trip time.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Takes a sample of the round-trip time from the handshake.
    pub fn on_handshake_sample(&mut self, now: Time, rtt: Duration) {
        self.first_sample = self.first_sample.min(now);
        self.rtt.sample(rtt, Duration::ZERO);
        self.sample = Some(rtt);
    }

    /// Forgets the minimum round-trip time, after persistent congestion.
    pub fn forget_minimum_rtt(&mut self) {
        self.rtt.forget_minimum();
    }

    /// Records a packet that elicits an acknowledgement.
    pub fn on_sent(&mut self, now: Time, bytes: u16, content: T) {
        self.packets.push_back((
            State::InFlight,
            SentPacket { number: self.next, at: now, bytes, content },
        ));
        self.next += 1;
        self.in_flight.0 += u64::from(bytes);
        self.in_flight.1 += 1;
        self.last_sent = now;
    }

    /// Records a packet that elicits none, and is not in flight.
    pub fn on_sent_ack(&mut self, now: Time, bytes: u16) {
        let content = T::default();
        if !self.packets.is_empty() {
            let packet = SentPacket { number: self.next, at: now, bytes, content };
            self.packets.push_back((State::Gone, packet));
        }
        self.next += 1;
    }

    /// Takes an acknowledgement. Afterwards [`acked`](Self::acked), [`lost`](Self::lost) and
    /// [`spurious`](Self::spurious) have its packets. `confirmed` if the handshake is. Returns
    /// `true` if it was the first to acknowledge a packet in flight.
    pub fn on_ack(&mut self, now: Time, ack: &Ack, confirmed: bool) -> bool {
        (self.sample, _) = (None, self.clear());
        let largest = ack.largest();
        if largest >= self.next {
            return false; // it acknowledges what was not sent (RFC 9000, section 13.1)
        }
        let newest = self.largest_acked.is_none_or(|before| largest > before);
        self.largest_acked = self.largest_acked.max(Some(largest));
        self.take_acked(ack);
        self.take_spurious(ack);
        if self.acked.is_empty() {
            self.detect_losses(now);
            return false;
        }
        // A sample only from the largest number, when it is new (section 5.1).
        if newest && let Some(last) = self.acked.last().filter(|last| last.number == largest) {
            let rtt = now.since(last.at);
            let limit = if confirmed { self.max_ack_delay } else { Duration::MAX };
            self.rtt.sample(rtt, ack.delay.min(limit));
            self.sample = Some(rtt);
            self.first_sample = self.first_sample.min(now);
        }
        self.timeouts = 0;
        self.detect_losses(now);
        true
    }

    fn clear(&mut self) {
        self.acked.clear();
        self.lost.clear();
        self.spurious.clear();
    }

    fn take_acked(&mut self, ack: &Ack) {
        let Some(base) = self.packets.front().map(|(_, packet)| packet.number) else { return };
        for &(start, end) in ack.ranges.as_slice() {
            for number in start.max(base)..end.min(self.next) {
                let (state, packet) = &mut self.packets[(number - base) as usize];
                if *state == State::InFlight {
                    *state = State::Acked;
                    self.in_flight.0 -= u64::from(packet.bytes);
                    self.in_flight.1 -= 1;
                    self.acked.push(*packet);
                }
            }
        }
    }

    /// Finds packets that were not lost after all.
    fn take_spurious(&mut self, ack: &Ack) {
        let spurious = &mut self.spurious;
        self.lost_before.retain(|packet| {
            let arrived = ack.ranges.contains(packet.number);
            if arrived {
                spurious.push(*packet);
            }
            !arrived
        });
    }

    /// Declares packets lost (section 6.1), and sets the time at which the next one is.
    fn detect_losses(&mut self, now: Time) {
        self.loss_at = Time::MAX;
        let delay = self.rtt.loss_delay();
        let largest = self.largest_acked.unwrap_or(0);
        for (state, packet) in &mut self.packets {
            if packet.number >= largest {
                break;
            }
            if *state != State::InFlight {
                continue;
            }
            if packet.number + PACKET_THRESHOLD <= largest || packet.at + delay <= now {
                *state = State::Gone;
                self.in_flight.0 -= u64::from(packet.bytes);
                self.in_flight.1 -= 1;
                self.lost.push(*packet);
            } else {
                self.loss_at = self.loss_at.min(packet.at + delay);
            }
        }
    }

    /// Returns `true` if the last losses show persistent congestion (section 7.6.2).
    pub fn is_persistent(&self) -> bool {
        let span = self.rtt.persistent_duration(self.max_ack_delay);
        let Some(base) = self.packets.front().map(|(_, packet)| packet.number) else {
            return false;
        };
        // The losses without an acknowledged packet between them.
        let mut first: Option<&SentPacket<T>> = None;
        let mut last: Option<u64> = None;
        for packet in self.lost.iter().filter(|packet| packet.at > self.first_sample) {
            let between = last.map_or(packet.number, |last| last + 1);
            let apart = (between..packet.number).any(|number| {
                number < base || self.packets[(number - base) as usize].0 == State::Acked
            });
            let begin = if apart { packet } else { first.unwrap_or(packet) };
            if packet.at.since(begin.at) > span {
                return true;
            }
            (first, last) = (Some(begin), Some(packet.number));
        }
        false
    }

    /// Forgets packets that need no state any more. Call it after the last event was processed.
    pub fn forget(&mut self, now: Time) {
        for packet in &self.lost {
            self.lost_before.push_back(*packet);
        }
        let kept = self.rtt.probe_timeout(self.max_ack_delay) * 2;
        while self.lost_before.front().is_some_and(|packet| packet.at + kept < now) {
            self.lost_before.pop_front();
        }
        while self.packets.front().is_some_and(|(state, _)| *state != State::InFlight) {
            self.packets.pop_front();
        }
        self.clear();
    }

    /// Returns the probe timeout with its backoff (section 6.2.1).
    pub fn probe_timeout(&self) -> Duration {
        self.rtt.probe_timeout(self.max_ack_delay) * (1 << self.timeouts.min(16))
    }

    /// Returns when [`on_timer`](Self::on_timer) is due; [`Time::MAX`] if no packet is in flight.
    /// Before the handshake is confirmed there is no probe timeout (section 6.2.1).
    pub fn deadline(&self, confirmed: bool) -> Time {
        if self.loss_at < Time::MAX {
            return self.loss_at;
        }
        if self.in_flight.1 == 0 || !confirmed {
            return Time::MAX;
        }
        self.last_sent + self.probe_timeout()
    }

    /// Handles an expiry of the timer: finds lost packets, or returns `true` if probes are due. A
    /// probe timeout is no loss (section 6.2).
    pub fn on_timer(&mut self, now: Time) -> bool {
        self.clear();
        if self.loss_at < Time::MAX {
            self.detect_losses(now);
            return false;
        }
        self.timeouts += 1;
        true
    }

    /// Returns the contents of the packets in flight, the oldest first.
    pub fn contents(&self) -> impl Iterator<Item = &T> {
        let in_flight = self.packets.iter().filter(|(state, _)| *state == State::InFlight);
        in_flight.map(|(_, packet)| &packet.content)
    }
}

#[cfg(test)]
mod tests;
