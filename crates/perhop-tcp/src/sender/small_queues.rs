//! The limit of a connection's data in its host's own queue: Linux's TCP small queues
//! (`tcp_small_queue_check` and `tcp_tso_autosize` in net/ipv4/tcp_output.c).

use perhop_core::Duration;

use super::Sender;
use super::pacing::{AVOIDANCE, SLOW_START};

/// Two of the packets that are handed to the device may wait, or the data that the pacing rate
/// sends in 2⁻¹⁰ s (`sk_pacing_shift`).
const SHARE_OF_A_SECOND: f64 = 1024.0;
/// `tcp_limit_output_bytes`, 1 MiB until Linux 6.15.
const MOST: f64 = 1_048_576.0;
/// Largest packet that is handed to the device, in bytes (`GSO_LEGACY_MAX_SIZE`).
const GSO_MAX: f64 = 65_536.0;
/// Memory of a buffer beside its data: `struct sk_buff`, the room for headers, and
/// `struct skb_shared_info`.
const BUFFER: f64 = 256.0 + 384.0 + 320.0;
/// Headers of IPv4 and TCP with timestamps.
const HEADERS: f64 = 52.0;
/// Smallest such packet, in segments: `tcp_min_tso_segs`.
const MIN_TSO_SEGMENTS: f64 = 2.0;
/// Round-trip time up to which packets for the device are as large as possible; each doubling
/// halves them (`tcp_tso_rtt_log`, 9: in µs).
const SHORT_PATH: Duration = Duration::from_micros(512);

/// Returns the bytes that are handed to the device at once at a pacing rate in bytes per second:
/// what it sends in 2⁻¹⁰ s, and more on short paths.
pub(super) fn chunk_bytes(rate: f64, least_rtt: Duration) -> f64 {
    let doublings = least_rtt.as_picos() / SHORT_PATH.as_picos();
    let on_short_paths = if doublings < 16 { GSO_MAX / f64::from(1 << doublings) } else { 0.0 };
    (rate / SHARE_OF_A_SECOND + on_short_paths).min(GSO_MAX)
}

impl Sender {
    /// Returns `true` if the sender waits while as many of its bytes are in the host's own queue.
    /// Linux's sender does not wait between the segments that go to the device as one.
    #[inline]
    pub fn is_over_queue_limit(&self, bytes: u64) -> bool {
        // What is handed to the device at once is not divided.
        if self.linux.as_deref().is_some_and(|linux| linux.has_begun_chunk(self.scoreboard.end())) {
            return false;
        }
        // The least limit: that of most senders, without divisions.
        bytes as f64 > 2.0 * MIN_TSO_SEGMENTS * self.mss() && bytes > self.queue_limit()
    }

    /// Returns the number of bytes in the host's own queue beyond which the sender waits.
    fn queue_limit(&self) -> u64 {
        let per_share = self.rate() / SHARE_OF_A_SECOND;
        let least_rtt = match (&self.linux, self.rack.as_deref()) {
            (Some(linux), _) => linux.least_rtt(),
            (None, Some((rack, _))) => rack.min_rtt,
            (None, None) => Duration::MAX,
        };
        let at_once = chunk_bytes(self.rate(), least_rtt).max(MIN_TSO_SEGMENTS * self.mss());
        if self.linux.is_none() {
            return (2.0 * at_once).max(per_share.min(MOST)) as u64;
        }
        // Linux compares memory: that of two buffers of several segments with that of the segments,
        // each in a buffer of its own once the device has divided them (tcp_gso_segment).
        let memory = 2.0 * ((at_once / self.mss()).floor() * self.mss() + BUFFER);
        let segments = memory.max(per_share.min(MOST)) / (self.mss() + BUFFER);
        (segments * (self.mss() + HEADERS)) as u64
    }

    /// Returns `sk_pacing_rate`, in bytes per second, which Linux computes for connections without
    /// pacing, too; zero before the first sample of the round-trip time.
    fn rate(&self) -> f64 {
        if let Some(rate) = self.pacing_rate() {
            return rate;
        }
        let Some(round) = self.rtt.smoothed() else { return 0.0 };
        let slow_start = self.window.cwnd < self.window.ssthresh / 2.0;
        let factor = if slow_start { SLOW_START } else { AVOIDANCE };
        factor * self.window.cwnd / round.as_secs_f64().max(1e-9)
    }
}
