//! CUBIC as Linux has it (net/ipv4/tcp_cubic.c), where it differs from RFC 9438: windows are
//! compared in whole segments, the cubic looks ahead by the least round-trip time, the Reno-friendly
//! estimate never grows faster than at first, and a window whose maximum is not known grows by a
//! twentieth a round trip at least. Windows are in segments here, times in seconds.

use perhop_core::{Duration, Time};

use super::cubic::cube_root;
use super::{Acked, Window};

/// Multiplicative decrease.
const BETA: f64 = 717.0 / 1024.0;
/// Aggressiveness in segments / s³.
const C: f64 = 410.0 / 1024.0;
/// Acknowledged windows for which Reno's estimate grows by a segment: the inverse of
/// 3 (1 - BETA) / (1 + BETA), in eighths rounded down.
const RENO_WINDOWS: f64 = 15.0 / 8.0;
/// The growth is computed again when the window has changed, or after 1/32 s.
const STALE: Duration = Duration::from_picos(31_250_000_000);

#[derive(Clone, Debug)]
pub(super) struct LinuxCubic {
    /// Whether the window grows at least as Reno's estimate does (tcp_friendliness).
    reno_friendly: bool,
    /// Window before the last loss, or less by fast convergence; zero if none is known.
    maximum: f64,
    least_rtt: Duration,
    /// This congestion avoidance phase; none until its first acknowledgement.
    epoch: Option<Epoch>,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// When it began, later by the time for which the window was not what held the sender up.
    began: Time,
    /// The last acknowledgement.
    heard: Time,
    /// The plateau, and seconds until the cubic is there.
    plateau: f64,
    plateau_after: f64,
    /// What Reno's window would be, and the segments acknowledged towards the next one.
    reno: f64,
    acknowledged: f64,
    /// Segments to acknowledge for the window to grow by one; for which window and when that was
    /// computed.
    count: f64,
    computed: Option<(f64, Time)>,
}

impl LinuxCubic {
    pub fn new(reno_friendly: bool) -> Self {
        Self { reno_friendly, maximum: 0.0, least_rtt: Duration::MAX, epoch: None }
    }

    /// Takes a measured round-trip time.
    pub fn on_rtt(&mut self, rtt: Duration) {
        self.least_rtt = self.least_rtt.min(rtt);
    }

    pub fn on_ack(&mut self, window: &mut Window, mss: f64, acked: Acked) {
        let cwnd = (window.cwnd / mss).floor().max(1.0);
        let bytes = acked.bytes as f64;
        window.cwnd += bytes / self.count(cwnd, bytes / mss, acked.now);
    }

    /// Segments to acknowledge for the window to grow by one, after so many more.
    fn count(&mut self, cwnd: f64, segments: f64, now: Time) -> f64 {
        let maximum = self.maximum;
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            began: now,
            heard: now,
            plateau: maximum.max(cwnd),
            plateau_after: cube_root((maximum - cwnd) / C),
            reno: cwnd,
            acknowledged: 0.0,
            count: 0.0,
            computed: None,
        });
        epoch.heard = now;
        epoch.acknowledged += segments;
        if epoch.computed.is_some_and(|(for_cwnd, at)| for_cwnd == cwnd && now <= at + STALE) {
            return epoch.count;
        }
        epoch.computed = Some((cwnd, now));
        let ahead = match self.least_rtt {
            Duration::MAX => Duration::ZERO,
            least => least,
        };
        let elapsed = (now.since(epoch.began) + ahead).as_secs_f64();
        let from_plateau = elapsed - epoch.plateau_after;
        let target = (epoch.plateau + C * from_plateau * from_plateau * from_plateau).floor();
        let mut count = if target > cwnd { (cwnd / (target - cwnd)).floor() } else { 100.0 * cwnd };
        if maximum == 0.0 {
            count = count.min(20.0);
        }
        if self.reno_friendly {
            let each = cwnd * RENO_WINDOWS;
            let grown = (epoch.acknowledged / each).floor();
            epoch.acknowledged -= grown * each;
            epoch.reno += grown;
            if epoch.reno > cwnd {
                count = count.min((cwnd / (epoch.reno - cwnd)).floor());
            }
        }
        epoch.count = count.max(2.0);
        epoch.count
    }

    /// Notes an acknowledgement while something else than the window held the sender up: the
    /// cubic's time stands still.
    pub fn on_unused(&mut self, now: Time) {
        if let Some(epoch) = &mut self.epoch {
            epoch.began += now.since(epoch.heard);
            epoch.heard = now;
        }
    }

    /// Forgets everything at a retransmission timeout.
    pub fn on_timeout(&mut self) {
        *self = Self::new(self.reno_friendly);
    }

    /// Notes a loss at a window of `cwnd` segments; returns by what it is to shrink.
    pub fn on_loss(&mut self, cwnd: f64) -> f64 {
        let cwnd = cwnd.floor();
        let converging = cwnd < self.maximum;
        self.maximum = if converging { (cwnd * (1.0 + BETA) / 2.0).floor() } else { cwnd };
        self.epoch = None;
        BETA
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// Without a known maximum a segment for twenty, where the cubic alone would have 100 windows.
    #[test]
    fn it_grows_by_a_twentieth_until_a_maximum_is_known() {
        let mut cubic = LinuxCubic::new(true);
        assert_eq!(cubic.count(100.0, 1.0, at(0)), 20.0);
        let _ = cubic.on_loss(100.0);
        // K is (1 / 0.4004)^(1/3) = 1.36 s: one segment below the plateau the target is the window.
        assert_eq!(cubic.count(99.0, 1.0, at(0)), 9900.0);
        // 4.2 s later it is 100 + 0.4 · 2.84³ = 109 (108.99 and the plateau's segment): 99 / 10.
        cubic.on_rtt(Duration::from_millis(200));
        assert_eq!(cubic.count(99.0, 1.0, at(4_000)), 9.0);
        cubic.on_timeout();
        assert_eq!(cubic.count(100.0, 1.0, at(5_000)), 20.0);
    }

    /// Fast convergence, in whole segments: ⌊80 · 1741 / 2048⌋.
    #[test]
    fn it_releases_bandwidth_to_newcomers() {
        let mut cubic = LinuxCubic::new(true);
        let _ = cubic.on_loss(100.7);
        assert_eq!(cubic.maximum, 100.0);
        let _ = cubic.on_loss(80.2);
        assert_eq!(cubic.maximum, 68.0);
    }

    /// On its plateau the cubic stands still, so that Reno's estimate leads: a segment for 15/8 of a
    /// window, also beyond the window before the loss, where RFC 9438 has a segment for a window.
    #[test]
    fn renos_estimate_never_grows_faster_than_at_first() {
        let mut cubic = LinuxCubic::new(true);
        let _ = cubic.on_loss(100.0);
        let mut window = Window { cwnd: 70_000.0, ssthresh: 70_000.0 };
        for round in 0..200 {
            // A round trip of 1 ms, a window acknowledged by segments.
            for _ in 0..(window.cwnd / 1000.0) as u64 {
                let acked = Acked {
                    now: at(round),
                    bytes: 1000,
                    smoothed_rtt: Duration::from_millis(1),
                    rtt: None,
                    ack: 0,
                    end: 0,
                    limited: true,
                };
                cubic.on_ack(&mut window, 1000.0, acked);
            }
        }
        // 70 and 200 · 8/15, less what the estimate grows by while the count is not computed again:
        // 31 round trips. RFC 9438 would have 243.
        let segments = window.cwnd / 1000.0;
        assert!((160.1..=176.7).contains(&segments), "{segments}");
    }
}
