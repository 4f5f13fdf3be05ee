//! Acknowledgements of single segments in Linux (net/ipv4/tcp_input.c and tcp_output.c): at once
//! for a while after a pause (`tcp_incr_quickack`), otherwise after a time that follows arrivals
//! (`tcp_event_data_recv`, `tcp_send_delayed_ack`).

use perhop_core::{Duration, Time};

/// Greatest number of immediate acknowledgements after a pause (`TCP_MAX_QUICKACKS`).
const MOST_QUICK: u32 = 16;
/// Least difference between timeout and round-trip time that makes a gap a pause (`TCP_RTO_MIN`).
const LEAST_MARGIN: Duration = Duration::from_millis(200);
/// Greatest delay of an acknowledgement (`HZ / 2`).
const LONGEST: Duration = Duration::from_millis(500);

/// Delays of one receiver.
#[derive(Clone, Debug)]
pub(super) struct Delay {
    /// Size of a full segment, in bytes.
    mss: u16,
    /// Number of acknowledgements that are still sent at once (`icsk_ack.quick`).
    quick: u8,
    /// Least delay (`TCP_ATO_MIN`).
    least: Duration,
    /// Delay derived from arrivals (`icsk_ack.ato`).
    wanted: Duration,
    /// Time at which the SYN was answered.
    answered: Time,
    /// Round-trip time of the handshake; `None` before it has ended.
    handshake: Option<Duration>,
    /// Time of the last data in order (`icsk_ack.lrcvtime`); `None` before the first.
    heard: Option<Time>,
}

impl Delay {
    pub fn new(mss: u16, least: Duration) -> Self {
        Self {
            mss,
            quick: 0,
            least,
            wanted: least,
            answered: Time::ZERO,
            handshake: None,
            heard: None,
        }
    }

    /// Records that the SYN was answered.
    pub fn on_syn(&mut self, now: Time) {
        self.answered = now;
    }

    /// Records a segment after the SYN.
    pub fn on_segment(&mut self, now: Time) {
        self.handshake.get_or_insert(now.since(self.answered));
    }

    /// Records data in order, with the window `advertised`.
    pub fn on_data(&mut self, now: Time, advertised: u32) {
        let half = self.least / 2;
        match self.heard.replace(now).map(|heard| now.since(heard)) {
            None => self.hurry(advertised),
            Some(gap) if gap <= half => self.wanted = self.wanted / 2 + half,
            Some(gap) if gap < self.wanted => {
                self.wanted = (self.wanted / 2 + gap).min(self.timeout());
            }
            // The sender has paused, probably until a timeout, and its window is small.
            Some(gap) if gap > self.timeout() => self.hurry(advertised),
            Some(_) => {}
        }
    }

    /// Requests immediate acknowledgements of the next segments: half of the window `advertised`,
    /// at most sixteen.
    pub fn hurry(&mut self, advertised: u32) {
        let segments = advertised / (2 * u32::from(self.mss.max(1)));
        self.quick = self.quick.max(segments.clamp(2, MOST_QUICK) as u8);
    }

    /// Requests an immediate acknowledgement of the next segment.
    pub fn hurry_once(&mut self) {
        self.quick |= 1;
    }

    pub fn on_acknowledged(&mut self) {
        self.quick = self.quick.saturating_sub(1);
    }

    /// Returns the round-trip time of the handshake; `None` before it has ended.
    pub fn round_trip(&self) -> Option<Duration> {
        self.handshake
    }

    /// Returns the greatest delay of a segment's acknowledgement; zero for an immediate one.
    pub fn delay(&self) -> Duration {
        if self.quick > 0 {
            return Duration::ZERO;
        }
        let round = self.handshake.unwrap_or(self.least).max(self.least);
        self.wanted.min(round).min(LONGEST)
    }

    /// Returns the retransmission timeout of this end, which has measured the handshake only.
    fn timeout(&self) -> Duration {
        let round = self.handshake.unwrap_or(Duration::ZERO);
        round + (round * 2).max(LEAST_MARGIN)
    }
}
