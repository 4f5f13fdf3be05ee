//! Acknowledgements given one by one, and windows computed by hand. Segments are numbered from
//! zero; each has a thousand bytes.

use super::*;

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

/// Position of the first byte of a segment.
fn start(segment: u64) -> u64 {
    1 + 1000 * segment
}

/// A sender whose acknowledgements are given by hand.
struct ByHand {
    sender: Sender,
    /// Segments in the order in which they were sent since the last look.
    sent: Vec<u64>,
}

impl ByHand {
    /// Opens a connection with a round trip of 20 ms, which then sends a window of `segments`.
    fn open(config: SenderConfig, segments: u32) -> Self {
        let config = SenderConfig { initial_window: segments, ..config };
        let ecn = if config.ecn == EcnMode::Off { Flags::default() } else { Flags::ECE };
        let mut sender = Sender::new(config);
        assert!(sender.poll(at(0)).is_some());
        sender.write(u64::MAX);
        let flags = Flags::SYN.with(Flags::ACK).with(ecn);
        let answer = Segment { flags, ack: Seq(1), window: 1 << 20, ..Segment::default() };
        sender.on_segment(at(20), &answer);
        let mut opened = Self { sender, sent: Vec::new() };
        opened.poll(20);
        assert_eq!(opened.take(), (0..u64::from(segments)).collect::<Vec<_>>());
        opened
    }

    fn poll(&mut self, millis: u64) {
        while let Some(segment) = self.sender.poll(at(millis)) {
            self.sent.push(u64::from(segment.seq.0) / 1000);
        }
    }

    /// Returns the segments sent since the last call.
    fn take(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.sent)
    }

    /// Acknowledges all segments below `next` and these ranges above, and sends.
    fn ack(&mut self, millis: u64, next: u64, blocks: &[(u64, u64)]) {
        self.answer(millis, next, blocks, Flags::default());
    }

    fn answer(&mut self, millis: u64, next: u64, blocks: &[(u64, u64)], echo: Flags) {
        let mut sack = SackBlocks::default();
        blocks.iter().for_each(|&(first, end)| sack.push(start(first), start(end)));
        let ack = Seq::from_offset(start(next));
        let flags = Flags::ACK.with(echo);
        let answer = Segment { flags, ack, window: 1 << 20, sack, ..Segment::default() };
        self.sender.on_segment(at(millis), &answer);
        self.poll(millis);
    }

    /// Lets the timers expire that are due by then.
    fn wait(&mut self, millis: u64) {
        while self.sender.deadline() <= at(millis) {
            let due = self.sender.deadline();
            self.sender.on_timer(due);
            self.poll((due.as_picos() / 1_000_000_000).max(1));
        }
    }

    /// Returns the threshold in segments.
    fn threshold(&self) -> f64 {
        self.sender.window.ssthresh / 1000.0
    }
}

/// RFC 6675, section 5: a loss is a new congestion signal once the recovery point is acknowledged.
/// Of 20 segments 0 and 18 are lost; 20 and 21 were sent by limited transmit before three were
/// SACKed, so that recovery ends at 22. Segment 22, sent during recovery, is lost, too.
#[test]
fn data_lost_during_a_recovery_begins_another() {
    let mut hand = ByHand::open(config(), 20);
    (2..=4).for_each(|end| hand.ack(40, 0, &[(1, end)]));
    assert_eq!((hand.take(), hand.threshold()), (vec![20, 21, 0], 10.0));
    (5..=18).for_each(|end| hand.ack(40, 0, &[(1, end)]));
    hand.ack(40, 0, &[(19, 20), (1, 18)]);
    // 22 to 27 fill the window beside 0, 18, 20 and 21.
    assert_eq!(hand.take(), [22, 23, 24, 25, 26, 27]);
    hand.ack(60, 18, &[(19, 20)]);
    (21..=22).for_each(|end| hand.ack(60, 18, &[(19, end)]));
    assert!(hand.take().contains(&18), "19, 20 and 21 have arrived");
    (24..=26).for_each(|end| hand.ack(60, 18, &[(23, end), (19, 22)]));
    assert!(hand.take().contains(&22), "23, 24 and 25 have arrived");
    assert_eq!(hand.threshold(), 10.0, "one recovery");
    hand.ack(80, 22, &[(23, 28)]);
    assert_eq!((hand.threshold(), hand.sender.cwnd()), (5.0, 5_000), "another");
    assert!(!hand.take().contains(&22), "on its way already");
    hand.ack(100, 40, &[]);
    assert_eq!(hand.threshold(), 5.0, "no further one");
}

/// As Linux (tcp_time_to_recover): the retransmission of segment 0 is lost, which time reveals and
/// which is no signal of its own; segment 22, sent after it, is lost, too.
#[test]
fn linux_reduces_again_for_data_lost_during_a_recovery() {
    let linux = SenderConfig { prr: true, decrease_from_window: true, ..rack() };
    let mut hand = ByHand::open(linux, 20);
    (2..=20).for_each(|end| hand.ack(40, 0, &[(1, end)]));
    assert_eq!(hand.threshold(), 10.0);
    let sent = hand.take();
    assert!(sent.contains(&0) && sent.contains(&25), "{sent:?}");
    hand.ack(60, 0, &[(1, 22)]);
    (24..=26).for_each(|end| hand.ack(60, 0, &[(23, end), (1, 22)]));
    let sent = hand.take();
    assert!(sent.contains(&0) && sent.contains(&22), "{sent:?}");
    assert_eq!(hand.threshold(), 10.0);
    hand.ack(80, 22, &[(23, 26)]);
    assert_eq!(hand.threshold(), 5.0);
}

/// RFC 3168, section 6.1.2: marks and drops of one window are one congestion signal; a drop in the
/// next window is another.
#[test]
fn a_mark_and_a_drop_of_one_window_reduce_it_once() {
    for prr in [false, true] {
        for base in [config(), rack()] {
            let config = SenderConfig { ecn: EcnMode::Classic, prr, ..base };
            let mut hand = ByHand::open(config, 20);
            hand.answer(40, 1, &[], Flags::ECE);
            assert_eq!(hand.threshold(), 10.0);
            // Segment 3 of the same window is lost.
            hand.ack(40, 3, &[]);
            (5..=20).for_each(|end| hand.ack(40, 3, &[(4, end)]));
            assert_eq!(hand.take().iter().filter(|&&segment| segment == 3).count(), 1);
            assert_eq!(hand.threshold(), 10.0);
            let end = u64::from(hand.sender.next_seq().0) / 1000;
            hand.ack(60, end, &[]);
            assert_eq!(hand.threshold(), 10.0);
            // It has grown by two segments at most, which were acknowledged together.
            let window = hand.sender.cwnd();
            assert!((10_000..12_000).contains(&window), "{window}");
            // The first of the next window.
            hand.take();
            (2..=8).for_each(|more| hand.ack(80, end, &[(end + 1, end + more)]));
            assert!(hand.take().contains(&end));
            assert!((5.0..6.0).contains(&hand.threshold()), "{}", hand.threshold());
        }
    }
}

/// The same with the loss of a whole tail, which the timer detects.
#[test]
fn a_timeout_in_the_window_of_a_mark_keeps_the_threshold() {
    let mut hand = ByHand::open(SenderConfig { ecn: EcnMode::Classic, ..config() }, 20);
    hand.answer(40, 1, &[], Flags::ECE);
    hand.wait(400);
    assert!(matches!(hand.sender.recovery, Recovery::Timeout { .. }));
    assert_eq!((hand.threshold(), hand.sender.cwnd()), (10.0, 1_000));
}

/// RFC 8257, section 3.5: DCTCP answers a loss as Reno does, whatever was marked. Its first mark
/// halves the window (alpha is 1).
#[test]
fn a_scalable_control_answers_a_mark_and_a_drop() {
    let congestion = Congestion::dctcp();
    let mut hand = ByHand::open(SenderConfig { ecn: EcnMode::Dctcp, congestion, ..config() }, 20);
    hand.answer(40, 1, &[], Flags::ECE);
    assert_eq!(hand.threshold(), 10.0);
    (3..=5).for_each(|end| hand.ack(40, 1, &[(2, end)]));
    assert_eq!(hand.threshold(), 5.0);
}

/// A response that was undone is none: the timestamp of segment 3 is that of its first
/// transmission. A mark of the same window is then answered.
#[test]
fn a_mark_after_an_undone_reduction_counts() {
    let config = SenderConfig { ecn: EcnMode::Classic, timestamps: true, ..config() };
    let mut hand = ByHand::open(config, 20);
    hand.ack(40, 3, &[]);
    (5..=7).for_each(|end| hand.ack(40, 3, &[(4, end)]));
    assert!(hand.take().contains(&3));
    let threshold = hand.threshold();
    assert!(threshold <= 11.5, "{threshold}");
    let end = Seq::from_offset(start(23));
    let late = Segment {
        flags: Flags::ACK,
        ack: end,
        window: 1 << 20,
        timestamps: Some((1, 20_000)),
        ..Segment::default()
    };
    hand.sender.on_segment(at(42), &late);
    hand.poll(42);
    assert_eq!(hand.threshold(), f64::INFINITY);
    hand.answer(43, 24, &[], Flags::ECE);
    assert!(hand.threshold() < 20.0);
}

/// RFC 3522 and 3708: everything sent before the recovery is acknowledged at once, with the echo of
/// segment 0's first transmission, or with a report that it arrived twice. Then the window is what
/// it was; otherwise it is half.
#[test]
fn an_acknowledgement_of_all_can_undo_a_recovery() {
    for (echo, twice, threshold) in
        [(40_000, false, 10.0), (39_999, false, f64::INFINITY), (40_000, true, f64::INFINITY)]
    {
        for base in [config(), rack()] {
            let mut hand = ByHand::open(SenderConfig { timestamps: true, ..base }, 20);
            (2..=4).for_each(|end| hand.ack(40, 0, &[(1, end)]));
            assert_eq!(hand.threshold(), 10.0);
            let mut sack = SackBlocks::default();
            if twice {
                sack.push(start(0), start(1));
            }
            let all = Segment {
                flags: Flags::ACK,
                ack: hand.sender.next_seq(),
                window: 1 << 20,
                timestamps: Some((1, echo)),
                sack,
                ..Segment::default()
            };
            hand.sender.on_segment(at(41), &all);
            assert_eq!(hand.threshold(), threshold, "{echo} {twice}");
            assert_eq!(hand.sender.cwnd() >= 20_000, threshold > 10.0, "{echo} {twice}");
            assert_eq!(hand.sender.recovery, Recovery::Open);
        }
    }
}

/// RFC 6298, section 5.7: the SYN was sent again after a second, so that the timer of data waits
/// for three, not for two.
#[test]
fn a_lost_syn_makes_the_timer_of_data_three_seconds() {
    let mut sender = Sender::new(config());
    assert!(sender.poll(at(0)).is_some());
    sender.on_timer(at(1_000));
    assert!(sender.poll(at(1_000)).is_some());
    sender.write(1000);
    let flags = Flags::SYN.with(Flags::ACK);
    let answer = Segment { flags, ack: Seq(1), window: 1 << 20, ..Segment::default() };
    sender.on_segment(at(1_020), &answer);
    assert!(sender.poll(at(1_020)).is_some());
    assert_eq!(sender.deadline(), at(4_020));
}

/// Linux hands two segments to the device at once: its limit of data in the host's own queue is
/// looked at before the first of them (tcp_write_xmit), so that 5 segments of 1000 B may wait.
#[test]
fn linux_does_not_divide_what_goes_to_the_device_at_once() {
    let linux = SenderConfig { prr: true, decrease_from_window: true, ..rack() };
    let mut hand = ByHand::open(linux, 20);
    hand.ack(40, 2, &[]);
    assert_eq!(hand.take().len(), 4);
    hand.sender.on_segment(
        at(41),
        &Segment {
            flags: Flags::ACK,
            ack: Seq::from_offset(start(4)),
            window: 1 << 20,
            ..Segment::default()
        },
    );
    let over = |sender: &Sender| sender.is_over_queue_limit(4_800);
    assert!(over(&hand.sender));
    for again in 0..2 {
        assert!(hand.sender.poll(at(41)).is_some());
        assert!(!over(&hand.sender), "the second of pair {again}");
        assert!(hand.sender.poll(at(41)).is_some());
        assert!(over(&hand.sender), "pair {again} is complete");
    }
}

/// Room for one segment is a small share of the window: Linux waits if it has just sent and the
/// next acknowledgement is due within a millisecond, and otherwise sends.
#[test]
fn linux_defers_a_segment_while_an_acknowledgement_is_soon_due() {
    for (divisor, expected) in [(3, 0), (0, 1)] {
        let linux =
            SenderConfig { prr: true, decrease_from_window: true, tso_divisor: divisor, ..rack() };
        let mut hand = ByHand::open(linux, 20);
        // A loss ends slow start; the window is ten segments from then on.
        (2..=20).for_each(|end| hand.ack(40, 0, &[(1, end)]));
        hand.ack(60, 20, &[]);
        let end = u64::from(hand.sender.next_seq().0) / 1000;
        hand.ack(80, end, &[]);
        let first = hand.sender.next_seq().0 as u64 / 1000 - end;
        assert!(first >= 9, "{first}");
        hand.take();
        // 20 ms after the window: the rest of it is acknowledged at the same time.
        hand.ack(100, end + 2, &[]);
        let sent = hand.take().len();
        hand.ack(100, end + 3, &[]);
        assert_eq!((sent > 0, hand.take().len()), (true, expected), "divisor {divisor}");
    }
}
