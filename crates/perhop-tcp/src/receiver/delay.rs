//! When Linux acknowledges a single segment (net/ipv4/tcp_input.c and tcp_output.c): at once for a
//! while after a pause (`tcp_incr_quickack`), else after a time that follows what arrives
//! (`tcp_event_data_recv`, `tcp_send_delayed_ack`).

use perhop_core::{Duration, Time};

/// The most acknowledgements that a pause has sent at once (`TCP_MAX_QUICKACKS`).
const MOST_QUICK: u32 = 16;
/// What a timeout adds to the round-trip time at least, by which a pause is judged (`TCP_RTO_MIN`).
const LEAST_MARGIN: Duration = Duration::from_millis(200);
/// No acknowledgement waits longer (`HZ / 2`).
const LONGEST: Duration = Duration::from_millis(500);

/// The delays of one receiver.
#[derive(Clone, Debug)]
pub(super) struct Delay {
    /// The size of a full segment.
    mss: u16,
    /// Acknowledgements that are still sent at once (`icsk_ack.quick`).
    quick: u8,
    /// The least delay (`TCP_ATO_MIN`).
    least: Duration,
    /// The delay as arrivals suggest it (`icsk_ack.ato`).
    wanted: Duration,
    /// When the SYN was answered.
    answered: Time,
    /// The round trip of the handshake; none before it is over.
    handshake: Option<Duration>,
    /// When data last came in order (`icsk_ack.lrcvtime`); none before it has.
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

    /// The SYN was answered.
    pub fn on_syn(&mut self, now: Time) {
        self.answered = now;
    }

    /// A segment after the SYN has arrived.
    pub fn on_segment(&mut self, now: Time) {
        self.handshake.get_or_insert(now.since(self.answered));
    }

    /// Data came in order, with so much `advertised`.
    pub fn on_data(&mut self, now: Time, advertised: u32) {
        let half = self.least / 2;
        match self.heard.replace(now).map(|heard| now.since(heard)) {
            None => self.hurry(advertised),
            Some(gap) if gap <= half => self.wanted = self.wanted / 2 + half,
            Some(gap) if gap < self.wanted => {
                self.wanted = (self.wanted / 2 + gap).min(self.timeout());
            }
            // The sender has paused, probably for a timeout, and its window is small.
            Some(gap) if gap > self.timeout() => self.hurry(advertised),
            Some(_) => {}
        }
    }

    /// Has the next segments acknowledged one by one: half of what is `advertised`, at most
    /// sixteen.
    pub fn hurry(&mut self, advertised: u32) {
        let segments = advertised / (2 * u32::from(self.mss.max(1)));
        self.quick = self.quick.max(segments.clamp(2, MOST_QUICK) as u8);
    }

    /// Has the next segment acknowledged at once.
    pub fn hurry_once(&mut self) {
        self.quick |= 1;
    }

    pub fn on_acknowledged(&mut self) {
        self.quick = self.quick.saturating_sub(1);
    }

    /// Returns the round trip of the handshake, once it is over.
    pub fn round_trip(&self) -> Option<Duration> {
        self.handshake
    }

    /// How long the acknowledgement of a segment may wait; zero sends it at once.
    pub fn delay(&self) -> Duration {
        if self.quick > 0 {
            return Duration::ZERO;
        }
        let round = self.handshake.unwrap_or(self.least).max(self.least);
        self.wanted.min(round).min(LONGEST)
    }

    /// Returns the retransmission timeout that this end would have: it has timed the handshake
    /// alone.
    fn timeout(&self) -> Duration {
        let round = self.handshake.unwrap_or(Duration::ZERO);
        round + (round * 2).max(LEAST_MARGIN)
    }
}
