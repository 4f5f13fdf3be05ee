//! CUBIC in Linux (net/ipv4/tcp_cubic.c), where it differs from RFC 9438: windows are compared in
//! whole segments, the cubic function looks ahead by the minimum round-trip time, the Reno-friendly
//! estimate never grows faster than at first, and a window without a known maximum grows by at
//! least a twentieth per round trip. Windows are in segments here, times in seconds.

use perhop_core::{Duration, Time};

use super::cubic::cube_root;
use super::{Acked, Window};

/// Multiplicative decrease.
const BETA: f64 = 717.0 / 1024.0;
/// Aggressiveness in segments / s³.
const C: f64 = 410.0 / 1024.0;
/// Number of acknowledged windows for which Reno's estimate grows by a segment: the inverse of 3 (1
/// - BETA) / (1 + BETA), rounded down to eighths.
const RENO_WINDOWS: f64 = 15.0 / 8.0;
/// Time after which the growth is computed again if the window has not changed: 1/32 s.
const STALE: Duration = Duration::from_picos(31_250_000_000);

#[derive(Clone, Debug)]
pub(super) struct LinuxCubic {
    /// True if the window grows at least as fast as Reno's estimate (tcp_friendliness).
    reno_friendly: bool,
    /// Window before the last loss, or less by fast convergence; zero if unknown.
    maximum: f64,
    least_rtt: Duration,
    /// Segments acknowledged towards the next segment of the window (snd_cwnd_cnt).
    credit: f64,
    /// This congestion avoidance phase; `None` until its first acknowledgement.
    epoch: Option<Epoch>,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// Beginning of the phase, later by the time in which the window did not limit the sender.
    began: Time,
    /// Time of the last acknowledgement.
    heard: Time,
    /// Window at the plateau, and time until then in seconds.
    plateau: f64,
    plateau_after: f64,
    /// Window that Reno would have, and the segments acknowledged towards its next one.
    reno: f64,
    acknowledged: f64,
    /// Segments to acknowledge for a growth by one; the window and the time of its computation.
    count: f64,
    computed: Option<(f64, Time)>,
}

impl LinuxCubic {
    pub fn new(reno_friendly: bool) -> Self {
        Self { reno_friendly, maximum: 0.0, least_rtt: Duration::MAX, credit: 0.0, epoch: None }
    }

    pub fn is_reno_friendly(&self) -> bool {
        self.reno_friendly
    }

    /// Takes a measured round-trip time.
    pub fn on_rtt(&mut self, rtt: Duration) {
        self.least_rtt = self.least_rtt.min(rtt);
    }

    pub fn on_ack(&mut self, window: &mut Window, mss: f64, acked: Acked) {
        let cwnd = (window.cwnd / mss).floor().max(1.0);
        let segments = acked.bytes as f64 / mss;
        let count = self.count(cwnd, segments, acked.now);
        window.cwnd += self.grow(count, segments) * mss;
    }

    /// Returns the segments by which the window grows when `segments` more are acknowledged, of
    /// which `count` are needed for each (tcp_cong_avoid_ai). Earlier acknowledgements at a greater
    /// `count` give one segment at most.
    fn grow(&mut self, count: f64, segments: f64) -> f64 {
        let early = self.credit >= count;
        if early {
            self.credit = 0.0;
        }
        self.credit += segments;
        let grown = (self.credit / count).floor();
        self.credit -= grown * count;
        grown + f64::from(u8::from(early))
    }

    /// Returns the number of segments to acknowledge for the window to grow by one, after
    /// `segments` more.
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
        // Whole segments are subtracted from the plateau, or added to it.
        let target = epoch.plateau + (C * from_plateau * from_plateau * from_plateau).trunc();
        let mut count = if target > cwnd { (cwnd / (target - cwnd)).floor() } else { 100.0 * cwnd };
        if maximum == 0.0 {
            count = count.min(20.0);
        }
        if self.reno_friendly {
            let each = (cwnd * RENO_WINDOWS).floor();
            let grown = ((epoch.acknowledged / each).ceil() - 1.0).max(0.0);
            epoch.acknowledged -= grown * each;
            epoch.reno += grown;
            if epoch.reno > cwnd {
                count = count.min((cwnd / (epoch.reno - cwnd)).floor());
            }
        }
        epoch.count = count.max(2.0);
        epoch.count
    }

    /// Records an acknowledgement while the window did not limit the sender: this time does not
    /// count for the cubic function.
    pub fn on_unused(&mut self, now: Time) {
        if let Some(epoch) = &mut self.epoch {
            epoch.began += now.since(epoch.heard);
            epoch.heard = now;
        }
    }

    /// Resets the state at a retransmission timeout.
    pub fn on_timeout(&mut self) {
        *self = Self::new(self.reno_friendly);
    }

    /// Responds to a loss at a window of `cwnd` segments; returns the factor for the window.
    pub fn on_loss(&mut self, cwnd: f64) -> f64 {
        let cwnd = cwnd.floor();
        let converging = cwnd < self.maximum;
        self.maximum = if converging { (cwnd * (1.0 + BETA) / 2.0).floor() } else { cwnd };
        self.epoch = None;
        self.credit = 0.0;
        BETA
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// Linux's own arithmetic (bictcp_update and tcp_cong_avoid_ai), line by line, in its units:
    /// whole segments, and 2⁻¹⁰ s of a clock in milliseconds. Only the cube root is perhop's.
    #[derive(Default)]
    struct Kernel {
        cwnd: u64,
        cwnd_cnt: u64,
        cnt: u64,
        last_max_cwnd: u64,
        last_cwnd: u64,
        last_time: u64,
        origin_point: u64,
        k: u64,
        delay_min: u64,
        epoch_start: u64,
        ack_cnt: u64,
        tcp_cwnd: u64,
    }

    impl Kernel {
        fn update(&mut self, now: u64, acked: u64) {
            let cwnd = self.cwnd;
            self.ack_cnt += acked;
            if self.last_cwnd == cwnd && now - self.last_time <= 1000 / 32 {
                return;
            }
            (self.last_cwnd, self.last_time) = (cwnd, now);
            if self.epoch_start == 0 {
                self.epoch_start = now;
                (self.ack_cnt, self.tcp_cwnd) = (acked, cwnd);
                (self.k, self.origin_point) = (0, cwnd);
                if self.last_max_cwnd > cwnd {
                    let cube = ((1 << 40) / 410 * (self.last_max_cwnd - cwnd)) as f64;
                    (self.k, self.origin_point) = (cube.cbrt() as u64, self.last_max_cwnd);
                }
            }
            let t = ((now - self.epoch_start + self.delay_min) << 10) / 1000;
            let offs = t.abs_diff(self.k);
            let delta = (410 * offs * offs * offs) >> 40;
            let target =
                if t < self.k { self.origin_point - delta } else { self.origin_point + delta };
            self.cnt = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
            if self.last_max_cwnd == 0 {
                self.cnt = self.cnt.min(20);
            }
            let delta = (cwnd * 15) >> 3;
            while self.ack_cnt > delta {
                self.ack_cnt -= delta;
                self.tcp_cwnd += 1;
            }
            if self.tcp_cwnd > cwnd {
                self.cnt = self.cnt.min(cwnd / (self.tcp_cwnd - cwnd));
            }
            self.cnt = self.cnt.max(2);
        }

        fn avoid(&mut self, now: u64, acked: u64) {
            self.update(now, acked);
            if self.cwnd_cnt >= self.cnt {
                self.cwnd_cnt = 0;
                self.cwnd += 1;
            }
            self.cwnd_cnt += acked;
            if self.cwnd_cnt >= self.cnt {
                let delta = self.cwnd_cnt / self.cnt;
                self.cwnd_cnt -= delta * self.cnt;
                self.cwnd += delta;
            }
        }

        fn lose(&mut self) {
            self.last_max_cwnd = match self.cwnd < self.last_max_cwnd {
                true => self.cwnd * (1024 + 717) / 2048,
                false => self.cwnd,
            };
            (self.epoch_start, self.cwnd_cnt) = (0, 0);
            self.cwnd = (self.cwnd * 717 / 1024).max(2);
        }
    }

    /// Windows of a few segments, where each rounding matters, and of hundreds.
    #[test]
    fn it_grows_as_linux_does() {
        let mut random = perhop_core::Stream::new(1, "losses");
        for (rtt, windows) in [(20_u64, 60), (50, 30), (200, 200)] {
            let mut kernel = Kernel { cwnd: 10, delay_min: rtt, ..Kernel::default() };
            let mut cubic = LinuxCubic::new(true);
            cubic.on_rtt(Duration::from_millis(rtt));
            let mut window = Window { cwnd: 10_000.0, ssthresh: 1.0 };
            let (mut now, mut off, mut compared) = (1000, 0.0_f64, 0.0);
            for _ in 0..200 {
                for _ in 0..1 + random.up_to(windows) {
                    now += rtt;
                    for _ in 0..kernel.cwnd / 2 {
                        kernel.avoid(now, 2);
                        cubic.on_ack(
                            &mut window,
                            1000.0,
                            Acked {
                                now: at(now),
                                bytes: 2000,
                                smoothed_rtt: Duration::from_millis(rtt),
                                rtt: None,
                                ack: 0,
                                end: 0,
                                limited: true,
                                stretched: true,
                                bytewise: false,
                            },
                        );
                    }
                    off += window.cwnd / 1000.0 - kernel.cwnd as f64;
                    compared += 1.0;
                }
                kernel.lose();
                let factor = cubic.on_loss(window.cwnd / 1000.0);
                window.cwnd = ((window.cwnd / 1000.0).floor() * factor).floor().max(2.0) * 1000.0;
            }
            let off = off / compared;
            assert!(off.abs() < 0.1, "{rtt} ms: off by {off} segments on average");
        }
    }

    /// Without a known maximum, a segment per twenty, where the cubic function alone would need 100
    /// windows.
    #[test]
    fn it_grows_by_a_twentieth_until_a_maximum_is_known() {
        let mut cubic = LinuxCubic::new(true);
        assert_eq!(cubic.count(100.0, 1.0, at(0)), 20.0);
        let _ = cubic.on_loss(100.0);
        // K is (1 / 0.4004)^(1/3) = 1.36 s: one segment below the plateau the target is the window.
        assert_eq!(cubic.count(99.0, 1.0, at(0)), 9900.0);
        // 4.2 s later the target is 100 + 0.4 · 2.84³ = 109 (108.99 and the plateau's segment): 99
        // / 10.
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

    /// On its plateau the cubic function is constant, so that Reno's estimate is greater: a segment
    /// for 15/8 of a window, also beyond the window before the loss, where RFC 9438 has a segment
    /// per window.
    #[test]
    fn renos_estimate_never_grows_faster_than_at_first() {
        let mut cubic = LinuxCubic::new(true);
        let _ = cubic.on_loss(100.0);
        let mut window = Window { cwnd: 70_000.0, ssthresh: 70_000.0 };
        for round in 0..200 {
            // A round trip of 1 ms: a window, acknowledged segment by segment.
            for _ in 0..(window.cwnd / 1000.0) as u64 {
                let acked = Acked {
                    now: at(round),
                    bytes: 1000,
                    smoothed_rtt: Duration::from_millis(1),
                    rtt: None,
                    ack: 0,
                    end: 0,
                    limited: true,
                    stretched: false,
                    bytewise: false,
                };
                cubic.on_ack(&mut window, 1000.0, acked);
            }
        }
        // 70 and 200 · 8/15, less the growth of the estimate while the count is not computed again:
        // 31 round trips. RFC 9438 would have 243.
        let segments = window.cwnd / 1000.0;
        assert!((160.1..=176.7).contains(&segments), "{segments}");
    }

    /// bictcp_update for a maximum of 100 segments and a window of 70: K is the cube root of 30 ·
    /// 1024 / 410, 4.2158 s. After 1 s the function is 0.4004 · 3.2158³ = 13.3 below its plateau,
    /// after 1.03 s less than 13; after 10 s 77.5 above it.
    #[test]
    fn counts_by_the_cubic_function() {
        let begun = || {
            let mut cubic = LinuxCubic::new(false);
            let _ = cubic.on_loss(100.0);
            let _ = cubic.count(70.0, 1.0, at(1_000));
            cubic
        };
        for (cwnd, ms, count) in [
            (70.0, 2_000, 4.0), // 70 / 17
            (70.0, 2_030, 3.0), // 70 / 18
            (88.0, 2_030, 88.0 * 100.0),
            (99.0, 6_000, 99.0), // the plateau
            (100.0, 6_000, 10_000.0),
            (100.0, 11_000, 2.0), // 100 / 77, but two
        ] {
            assert_eq!(begun().count(cwnd, 1.0, at(ms)), count, "{cwnd} {ms}");
        }
        // It is computed again after more than 1/32 s, or for another window.
        for (cwnd, micros, count) in [(70.0, 31_250, 4.0), (70.0, 31_251, 3.0), (69.0, 31_250, 3.0)]
        {
            let mut cubic = begun();
            assert_eq!(cubic.count(70.0, 1.0, at(2_000)), 4.0);
            let now = at(2_000) + Duration::from_micros(micros);
            assert_eq!(cubic.count(cwnd, 1.0, now), count, "{cwnd} {micros}");
        }
        // Time without use does not count.
        let mut cubic = begun();
        cubic.on_unused(at(1_500));
        cubic.on_unused(at(1_900));
        assert_eq!(cubic.count(70.0, 1.0, at(2_900)), 4.0);
        // The minimum round-trip time looks ahead.
        let mut cubic = begun();
        cubic.on_rtt(Duration::from_millis(40));
        cubic.on_rtt(Duration::from_millis(30));
        cubic.on_rtt(Duration::from_millis(50));
        assert_eq!(cubic.count(70.0, 1.0, at(1_995)), 4.0);
        assert_eq!(cubic.count(70.0, 1.0, at(2_031)), 3.0);
    }

    /// tcp_friendliness: Reno's estimate grows by a segment for more than 15/8 windows of 70
    /// segments, 131.
    #[test]
    fn counts_by_renos_estimate() {
        for (friendly, acked, count) in [
            (true, 130.0, 70.0),
            (true, 131.0, 70.0),
            (true, 261.0, 70.0),
            (true, 262.0, 35.0), // two segments more
            (true, 393.0, 23.0),
            (false, 393.0, 70.0),
        ] {
            let mut cubic = LinuxCubic::new(friendly);
            let _ = cubic.on_loss(100.0);
            let _ = cubic.count(70.0, 1.0, at(1_000));
            assert_eq!(cubic.count(70.0, acked, at(1_040)), count, "{friendly} {acked}");
            assert_eq!(cubic.is_reno_friendly(), friendly);
            cubic.on_timeout();
            assert_eq!(cubic.is_reno_friendly(), friendly);
        }
    }

    /// tcp_cong_avoid_ai: credit, needed for a segment, acknowledged; growth, and credit after.
    #[test]
    fn credit_becomes_segments() {
        for (credit, count, acked, grown, left) in [
            (0.0, 10.0, 7.0, 0.0, 7.0),
            (7.0, 10.0, 3.0, 1.0, 0.0),
            (7.0, 10.0, 15.0, 2.0, 2.0),
            (10.0, 10.0, 3.0, 1.0, 3.0),
            (25.0, 10.0, 12.0, 2.0, 2.0),
        ] {
            let mut cubic = LinuxCubic::new(true);
            cubic.credit = credit;
            assert_eq!(cubic.grow(count, acked), grown, "{credit} {count} {acked}");
            assert_eq!(cubic.credit, left);
        }
        // A loss leaves none; a window that is not below the maximum is the next one.
        let mut cubic = LinuxCubic::new(true);
        cubic.credit = 5.0;
        assert_eq!([100.0, 100.9].map(|cwnd| cubic.on_loss(cwnd)), [717.0 / 1024.0; 2]);
        assert_eq!((cubic.credit, cubic.maximum), (0.0, 100.0));
        assert!(cubic.epoch.is_none());
        // Windows are whole segments, one at least: 0.6 and 1.9 of them grow after two.
        for cwnd in [600.0, 1_900.0] {
            let mut cubic = LinuxCubic::new(false);
            let _ = cubic.on_loss(100.0);
            cubic.on_rtt(Duration::from_secs(8));
            let mut window = Window { cwnd, ssthresh: 1.0 };
            let acked = |bytes| Acked {
                now: at(0),
                bytes,
                smoothed_rtt: Duration::ZERO,
                rtt: None,
                ack: 0,
                end: 0,
                limited: true,
                stretched: false,
                bytewise: false,
            };
            cubic.on_ack(&mut window, 1_000.0, acked(1_999));
            assert_eq!(window.cwnd, cwnd);
            cubic.on_ack(&mut window, 1_000.0, acked(1));
            assert_eq!(window.cwnd, cwnd + 1_000.0);
        }
    }
}
