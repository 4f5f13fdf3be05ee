//! Parts of Linux's sender, compared with its arithmetic by hand.

use super::cubic::{Cubic, Moment};
use super::timers::expiry;
use super::*;
use crate::scoreboard::Progress;
use crate::{Congestion, EcnMode, RtoRule};

mod acknowledgements;

impl Linux {
    /// Returns `true` after a timeout, until what was lost has arrived.
    pub fn is_in_loss(&self) -> bool {
        self.state == State::Loss
    }
}

pub(super) fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// Returns a sender of segments of 1000 bytes with Reno and Linux's settings, and its Linux state.
pub(super) fn configured(loss_detection: LossDetection, tso_divisor: u32) -> (Sender, Box<Linux>) {
    let mut sender = Sender::new(SenderConfig {
        mss: 1000,
        window: 1 << 20,
        initial_window: 10,
        rto_rule: RtoRule::Linux,
        min_rto: Duration::from_millis(200),
        congestion: Congestion::Reno,
        decrease_from_window: true,
        loss_detection,
        adaptive_reordering: false,
        undo: true,
        frto: true,
        prr: true,
        limited_transmit: true,
        timestamps: false,
        ecn: EcnMode::Off,
        pacing: false,
        tick_phase: Duration::ZERO,
        tso_divisor,
    });
    let linux = sender.linux.take().expect("the settings are Linux's");
    (sender, linux)
}

/// A sender with its Linux state, of segments of 1000 bytes, the first of which begins at 1. The
/// round-trip time is 40 ms, and thus the timeout 60 ticks; the window is 20 segments, and the
/// threshold ten.
pub(super) struct Parts {
    pub sender: Sender,
    pub linux: Box<Linux>,
}

impl Parts {
    /// Creates an open connection with so many segments outstanding, sent at 0 ms, 1 ms and so on.
    pub fn new(loss_detection: LossDetection, segments: u64) -> Self {
        let (mut sender, mut linux) = configured(loss_detection, 0);
        (linux.window, linux.threshold) = (20, 10);
        sender.scoreboard.send(1, Time::ZERO);
        sender.scoreboard.acknowledge(1, Time::ZERO, &mut Progress::default());
        (0..segments).for_each(|ms| _ = sender.scoreboard.send(1000, at(ms)));
        sender.rtt.sample(Duration::from_millis(40), 1, 1);
        sender.receive_window = 1 << 20;
        Self { sender, linux }
    }

    /// Performs a step of the machine at a millisecond.
    pub fn run<T>(&mut self, ms: u64, step: impl FnOnce(&mut Machine) -> T) -> T {
        step(&mut Machine { sender: &mut self.sender, linux: &mut self.linux, now: at(ms) })
    }

    /// SACKs the segments from one up to another.
    pub fn sack(&mut self, first: u64, end: u64) {
        let facts = Facts { now: at(40), high: 0, min_rtt: Duration::ZERO, echo: None };
        let range = (1 + 1000 * first, 1 + 1000 * end);
        let mut arrival = Arrival::new(self.sender.scoreboard.end());
        self.sender.scoreboard.tag(range, &facts, &mut self.linux.rack, &mut arrival);
    }

    /// Returns an acknowledgement that says nothing.
    pub fn seen(&self) -> Seen {
        let board = &self.sender.scoreboard;
        Seen {
            arrival: Arrival::new(board.end()),
            una: board.acknowledged(),
            advanced: false,
            not_duplicate: false,
            echo: false,
            duplicate_reported: false,
            duplicate_of_probe: false,
            lost_again: false,
            set_timer: false,
            duplicates: 0,
            echoed: None,
        }
    }
}

/// tcp_current_ssthresh: the threshold in CWR and recovery, otherwise three quarters of the window
/// at least.
#[test]
fn thresholds_to_restore() {
    for (state, window, threshold, expected) in [
        (State::Open, 40, 10, 30),
        (State::Disorder, 43, 10, 31), // 21 and 10
        (State::Loss, 40, 10, 30),
        (State::Open, 40, 31, 31),
        (State::Cwr, 40, 10, 10),
        (State::Recovery, 40, 10, 10),
    ] {
        let mut parts = Parts::new(LossDetection::Rack, 0);
        (parts.linux.state, parts.linux.window) = (state, window);
        parts.linux.threshold = threshold;
        assert_eq!(parts.linux.current_threshold(), expected, "{state:?} {window} {threshold}");
        assert_eq!(parts.linux.in_slow_start(), window < threshold);
    }
}

/// tcp_init_transfer: one segment if the SYN was sent again more than once; congestion control
/// begins then, HyStart with a round.
#[test]
fn connections_open_with_the_initial_window() {
    for (again, window, timeout) in [(0, 10, 1), (1, 10, 3), (2, 1, 3)] {
        let mut parts = Parts::new(LossDetection::Rack, 2);
        parts.linux.control = Control::Cubic(Box::new(Cubic::new(true, true, false)));
        parts.sender.rtt = crate::RttEstimator::new(RtoRule::Linux, Duration::from_millis(200));
        parts.sender.retransmits = again;
        let linux = &mut *parts.linux;
        (linux.state, linux.undo_from, linux.first_resent) = (State::Loss, Some(1), Some(5));
        parts.run(20, |machine| machine.open());
        let linux = &*parts.linux;
        assert_eq!((linux.window, linux.threshold, linux.state), (window, INFINITE, State::Open));
        assert_eq!((linux.undo_from, linux.first_resent), (None, None));
        assert_eq!(linux.pending, Pending::Probe, "a timer");
        assert_eq!(parts.sender.rtt.timeout(), Duration::from_secs(timeout));
        let mut control = Cubic::new(true, true, false);
        control.begin_round(20_000, 2_001);
        let expected = Control::Cubic(Box::new(control));
        assert_eq!(format!("{:?}", linux.control), format!("{expected:?}"));
        // A timeout forgets all but the settings.
        parts.run(20, |machine| machine.threshold());
        parts.run(30, |machine| machine.reset_control());
        let mut control = Cubic::new(true, true, false);
        control.begin_round(30_000, 2_001);
        let expected = Control::Cubic(Box::new(control));
        assert_eq!(format!("{:?}", parts.linux.control), format!("{expected:?}"));
    }
}

/// hystart_update: the threshold is the window at the ninth sample of a round that is more than an
/// eighth above the minimum, in slow start.
#[test]
fn hystart_sets_the_threshold() {
    for (threshold, rtt, after) in
        [(INFINITE, 45_001, 16), (INFINITE, 45_000, INFINITE), (16, 45_001, 16), (9, 45_001, 9)]
    {
        let mut parts = Parts::new(LossDetection::Rack, 2);
        parts.linux.control = Control::Cubic(Box::new(Cubic::new(true, true, false)));
        (parts.linux.window, parts.linux.threshold) = (16, threshold);
        parts.run(20, |machine| machine.pass_rtt(Some(Duration::from_millis(40)), 1));
        for sample in 0..9 {
            assert_eq!(parts.linux.threshold, threshold, "{sample}");
            parts.run(60 + 5 * sample, |machine| {
                machine.pass_rtt(None, 9_000);
                // The first of them begins the round.
                let acked = if sample == 0 { 2_002 } else { 2_001 };
                machine.pass_rtt(Some(Duration::from_micros(rtt)), acked);
            });
        }
        assert_eq!(parts.linux.threshold, after, "{threshold} {rtt}");
    }
}

/// calc_index of kernel/time/timer.c: the tick after, in units of 1 up to 62 ticks, of 8 up to 503,
/// of 64 up to 4031, and so on.
#[test]
fn timers_expire_in_the_unit_after() {
    for (now, ticks, at) in [
        (0, 1, 2),
        (5, 11, 17),
        (0, 62, 63),
        (0, 63, 64),
        (1, 63, 72),
        (0, 503, 504),
        (0, 504, 512),
        (7, 504, 512),
        (8, 504, 576),
        (0, 4_031, 4_032),
        (0, 4_032, 4_096),
        (64, 4_032, 4_608),
        (0, 63 << 21, 8 << 24),
        (0, 63 << 24, 64 << 24),
        (0, 63 << 27, 505 << 24),
    ] {
        assert_eq!(expiry(now, ticks), at, "{ticks} from {now}");
    }
    assert_eq!([0, 1, 4_000, 4_001].map(ticks_up), [0, 1, 1, 2]);
}

fn cubic(reno_friendly: bool) -> Cubic {
    Cubic::new(reno_friendly, false, false)
}

/// 717 / 1024 of the window, but two; of a window below the last maximum, (1024 + 717) / 2048 is
/// the next maximum: of 80 segments 68, with which 69 segments are at their plateau.
#[test]
fn losses_lower_the_threshold() {
    let mut control = cubic(false);
    assert_eq!([100, 80, 10, 2].map(|window| control.threshold(window)), [70, 56, 7, 2]);
    let mut control = cubic(false);
    assert_eq!([100, 80].map(|window| control.threshold(window)), [70, 56]);
    // One segment below 68, the target is 68.
    assert_eq!(control.count(67, 1, 0), 67);
    let mut control = cubic(false);
    assert_eq!([100, 80, 68].map(|window| control.threshold(window)), [70, 56, 47]);
    assert_eq!(control.count(67, 1, 0), 67, "a maximum of 68 stays");
}

/// bictcp_update for a maximum of 100 segments and a window of 70: K is the cube root of 30 · 2⁴⁰ /
/// 410, 4316 units of 1/1024 s. Ticks of 4 ms are 4.096 units.
#[test]
fn the_cubic_function_in_integers() {
    // Without a maximum: a segment for twenty, or 100 windows on the plateau.
    assert_eq!(cubic(false).count(100, 1, 0), 20);
    let mut control = cubic(false);
    control.threshold(100);
    let counts: Vec<u32> = [
        (70, 1_000),
        (70, 1_250),
        (70, 1_257),
        (70, 1_258),
        (71, 1_258),
        (71, 1_259),
        (88, 2_053),
        (100, 2_060),
        (100, 2_500),
        (100, 16_000),
    ]
    .map(|(window, now)| control.count(window, 1, now))
    .to_vec();
    // 70 / 1, 70 / 17, 70 / 18, 71 / 17, 88 / 12, 100 windows on the plateau, 100 / 2, and two at
    // least.
    assert_eq!(counts, [70, 4, 4, 3, 3, 4, 7, 10_000, 50, 2]);
    // The minimum round-trip time looks ahead: 20 ms are five ticks, which 17 ms are, too.
    for (least, count) in [(16_001, 4), (20_000, 4), (32_001, 3)] {
        let mut control = cubic(false);
        control.threshold(100);
        control.on_rtt(least, moment(0, 0, 2));
        control.on_rtt(least + 1, moment(0, 0, 2));
        control.count(70, 1, 1_000);
        assert_eq!(control.count(70, 1, 1_249), count, "{least} us");
    }
    // A pause does not count, and the beginning is not in the future.
    for (idle, now, count) in [(0, 1_250, 4), (100, 1_350, 4), (900, 1_250, 70)] {
        let mut control = cubic(false);
        control.threshold(100);
        control.on_restart(7, 900);
        control.count(70, 1, 1_000);
        control.on_restart(idle, now);
        assert_eq!(control.count(70, 1, now), count, "{idle} {now}");
    }
}

/// tcp_friendliness: Reno's estimate grows by a segment for 15/8 windows of 70 segments, 131, and
/// more than that many.
#[test]
fn renos_estimate_in_integers() {
    for (friendly, acked, count) in [
        (true, 130, 70),
        (true, 131, 70),
        (true, 262, 35), // two segments more: 70 / 2
        (true, 393, 23),
        (false, 393, 70),
    ] {
        let mut control = cubic(friendly);
        control.threshold(100);
        assert_eq!(control.count(70, 1, 1_000), 70);
        assert_eq!(control.count(70, acked, 1_010), 70.min(count), "{friendly} {acked}");
        // What was acknowledged before a timeout does not count after it.
        control.on_timeout(0, 0);
        assert_eq!(control.count(70, 1, 1_020), 20);
    }
}

fn moment(micros: u64, acked: Offset, window: u32) -> Moment {
    Moment {
        ticks: 1_000,
        micros,
        acked,
        end: acked + 1_000_000,
        window,
        slow_start: true,
        held_back: 0,
    }
}

/// Acknowledgements every `gap` µs, from the beginning of a round on; the first at which slow start
/// ends.
fn ends_after(paced: bool, gap: u64, window: u32, rtt: u64, held_back: u64) -> Option<u64> {
    let mut control = Cubic::new(true, true, paced);
    assert!(!control.on_rtt(40_000, moment(5_000, 2, window)));
    (1..40).find(|&count| {
        let at = Moment { held_back, ..moment(5_000 + count * gap, 2 + count, window) };
        control.on_rtt(rtt, at)
    })
}

/// hystart_update: a train longer than half of 40 ms, or all of it with pacing, and than the
/// allowance; or a ninth sample more than an eighth above the minimum.
#[test]
fn hystart_in_integers() {
    for (paced, gap, window, rtt, held_back, expected) in [
        (false, 2_000, 16, 40_000, 0, Some(11)),
        (false, 2_000, 15, 40_000, 0, None),
        (false, 2_001, 16, 40_000, 0, None),
        (true, 2_000, 16, 40_000, 0, Some(21)),
        (false, 2_000, 16, 40_000, 3_999, Some(11)),
        (false, 2_000, 16, 40_000, 4_000, Some(12)),
        (true, 2_000, 16, 40_000, 2_000, Some(22)),
    ] {
        assert_eq!(ends_after(paced, gap, window, rtt, held_back), expected);
    }
    // The minimum, a round-trip time, and whether the ninth sample of a round of such ends slow
    // start: an eighth, but 4 ms at least and 16 ms at most.
    for (least, rtt, ends) in [
        (8_000, 12_000, false),
        (8_000, 12_001, true),
        (40_000, 45_000, false),
        (40_000, 45_001, true),
        (200_000, 216_000, false),
        (200_000, 216_001, true),
    ] {
        let mut control = Cubic::new(true, true, false);
        control.on_rtt(least, moment(0, 2, 16));
        // A round that begins with data beyond the end of the last one.
        let found: Vec<bool> = (0..9)
            .map(|count| control.on_rtt(rtt, moment(10_000 * (count + 1), 1_000_003 + count, 16)))
            .collect();
        assert_eq!(found, [[false; 8].as_slice(), &[ends]].concat(), "{least} {rtt}");
        let again = control.on_rtt(rtt, moment(200_000, 1_000_090, 16));
        assert!(!again, "slow start ends once");
    }
    // Within a second of the first acknowledgement after a loss samples do not count.
    for (ticks, counts) in [(249, false), (250, true)] {
        let mut control = Cubic::new(true, true, false);
        control.threshold(100);
        control.count(70, 1, 1_000);
        let late = Moment { ticks: 1_000 + ticks, ..moment(0, 2, 16) };
        control.on_rtt(40_000, late);
        let nine = |control: &mut Cubic| {
            (0..9).any(|count| {
                let at =
                    Moment { ticks: 2_000, ..moment(10_000 * (count + 1), 1_000_100 + count, 16) };
                control.on_rtt(50_000, at)
            })
        };
        assert_eq!(nine(&mut control), counts, "{ticks}");
    }
    // Not in congestion avoidance, and not if it is off.
    for (hystart, slow_start) in [(true, false), (false, true)] {
        let mut control = Cubic::new(true, hystart, false);
        let found = (0..30).any(|count| {
            let at = Moment { slow_start, ..moment(2_000 * count, 2 + count, 16) };
            control.on_rtt(40_000 + 1_000 * count, at)
        });
        assert!(!found);
    }
}
