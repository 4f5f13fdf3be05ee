//! Scoreboards compared with results by hand and with a recount.

use super::*;
use proptest::prelude::*;

mod arrivals;
mod linux;

const MS: fn(u64) -> Time = |ms| Time::from_picos(ms * 1_000_000_000);

fn board(segments: u64) -> Scoreboard {
    let mut board = Scoreboard::default();
    for index in 0..segments {
        board.send(100, MS(index));
    }
    board
}

fn sack(board: &mut Scoreboard, start: Offset, end: Offset) -> Progress {
    let mut progress = Progress::default();
    board.sack(start, end, MS(100), &mut progress);
    progress
}

#[test]
fn three_sacked_segments_above_make_a_loss() {
    let mut board = board(6);
    sack(&mut board, 200, 400);
    assert!(!board.detect_losses());
    assert_eq!(board.next_unsure(), Some(Span { start: 0, length: 100 }));
    sack(&mut board, 500, 600);
    assert!(board.detect_losses());
    assert_eq!(board.next_lost(), Some(Span { start: 0, length: 100 }));
    // 600 in flight, 300 SACKed, 200 lost.
    assert_eq!(board.pipe(), 100);
    board.retransmit(0, MS(50));
    assert_eq!(board.pipe(), 200);
    assert_eq!(board.next_lost(), Some(Span { start: 100, length: 100 }));
    board.retransmit(100, MS(50));
    assert_eq!(board.next_lost(), None);
    assert_eq!(board.next_unsure(), Some(Span { start: 400, length: 100 }));
    assert_eq!(board.last_unsacked(), None);
}

#[test]
fn a_sample_is_from_the_oldest_segment_that_is_newly_covered() {
    let mut board = board(3);
    let progress = sack(&mut board, 100, 200);
    assert_eq!(progress.rtt, Some(MS(99).since(Time::ZERO)));
    let mut progress = Progress::default();
    board.acknowledge(300, MS(200), &mut progress);
    assert_eq!(progress.rtt, Some(MS(200).since(Time::ZERO)));
}

#[test]
fn a_retransmission_gives_no_sample() {
    let mut board = board(2);
    board.lose_first();
    board.retransmit(0, MS(50));
    let mut progress = Progress::default();
    board.acknowledge(200, MS(200), &mut progress);
    assert_eq!((progress.acked, progress.rtt), (200, None));
    assert!(board.is_empty());
}

#[test]
fn part_of_a_segment_can_be_acknowledged() {
    let mut board = board(2);
    board.acknowledge(30, MS(1), &mut Progress::default());
    assert_eq!((board.acknowledged(), board.flight(), board.pipe()), (30, 170, 170));
}

#[derive(Clone, Debug)]
enum Step {
    Send(u32),
    Ack(u64),
    Sack(u64, u64),
    Detect,
    LoseFirst,
    LoseAll(u64),
    Retransmit,
    LoseLonger(u32),
    Shorten(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u32..200).prop_map(Step::Send),
        2 => (0_u64..400).prop_map(Step::Ack),
        3 => (0_u64..2_000, 0_u64..600).prop_map(|(at, length)| Step::Sack(at, length)),
        2 => Just(Step::Detect),
        1 => Just(Step::LoseFirst),
        1 => prop_oneof![Just(0), 0_u64..20].prop_map(Step::LoseAll),
        3 => Just(Step::Retransmit),
        1 => (1_u32..200).prop_map(Step::LoseLonger),
        2 => (1_u32..200).prop_map(Step::Shorten),
    ]
}

proptest! {
    /// The running totals agree with a recount after any sequence of steps.
    #[test]
    fn totals_agree_with_a_recount(steps in prop::collection::vec(step(), 1..200)) {
        let mut board = Scoreboard::by_time().sampling();
        for (index, step) in steps.into_iter().enumerate() {
            let now = MS(index as u64);
            let mut progress = Progress::default();
            match step {
                Step::Send(length) => { board.send(length, now); }
                Step::Ack(more) => {
                    let ack = (board.acknowledged() + more).min(board.end());
                    let before = board.acknowledged();
                    board.acknowledge(ack, now, &mut progress);
                    prop_assert_eq!(progress.acked, ack - before);
                }
                Step::Sack(at, length) => {
                    let start = board.acknowledged() + at;
                    board.sack(start, start + length, now, &mut progress);
                }
                Step::Detect => { board.detect_losses(); }
                Step::LoseFirst => { board.lose_first(); }
                Step::LoseAll(age) => board.lose_all(MS((index as u64).saturating_sub(age))),
                Step::Retransmit => if let Some(span) = board.next_lost() {
                    board.retransmit(span.start, now);
                }
                Step::LoseLonger(length) => {
                    board.lose_longer(length);
                    let long = |sent: &Sent| sent.length > length && !sent.sacked;
                    prop_assert!(!board.segments.iter().any(|sent| long(&sent) && !sent.lost));
                }
                Step::Shorten(length) => {
                    let (end, sacked) = (board.end(), board.sacked_bytes());
                    if let Some(span) = board.next_lost().filter(|span| span.length > length) {
                        let short = board.shorten(span, length);
                        prop_assert_eq!(short, Span { start: span.start, length });
                        prop_assert_eq!(board.next_lost(), Some(short));
                    }
                    prop_assert_eq!((board.end(), board.sacked_bytes()), (end, sacked));
                }
            }
            let pipe: u64 = board.segments.iter().map(|sent| sent.in_pipe()).sum();
            prop_assert_eq!(board.pipe(), pipe);
            let sacked = board.segments.iter().filter(|sent| sent.sacked).count();
            prop_assert_eq!(board.sacked_segments(), sacked);
            let waiting = board.segments.iter()
                .find(|sent| sent.lost && !sent.retransmitted && !sent.sacked)
                .map(|sent| sent.start);
            prop_assert_eq!(board.next_lost().map(|span| span.start), waiting);
        }
    }
}

/// draft-ietf-ccwg-bbr-06, section 4.1.1.2: segments of 100 bytes are sent every millisecond and
/// acknowledged after ten, so that 100 bytes per millisecond are delivered. A burst that is
/// acknowledged at once was not delivered faster than it was sent.
#[test]
fn delivery_is_as_fast_as_it_is_sent_and_acknowledged() {
    let mut board = Scoreboard::default().sampling();
    let least = Duration::from_millis(10);
    let mut last = None;
    for now in 0..40 {
        board.send(100, MS(now));
        if let Some(acked) = now.checked_sub(9) {
            board.acknowledge(100 * acked, MS(now), &mut Progress::default());
            last = board.take_sample(least, MS(now)).or(last);
        }
    }
    let sample = last.expect("acknowledgements deliver");
    assert!((sample.rate / 100_000.0 - 1.0).abs() < 1e-9, "{}", sample.rate);
    assert_eq!((sample.in_flight, sample.lost, sample.app_limited), (1_100, 0, false));
    assert_eq!(sample.rtt, Some(Duration::from_millis(10)));
    // The rest at once, 50 ms later: slower than it was sent, and the slower rate counts.
    board.acknowledge(4_000, MS(89), &mut Progress::default());
    let sample = board.take_sample(least, MS(89)).expect("more was delivered");
    assert!((sample.rate - 1_100.0 / 0.051).abs() < 1.0, "{}", sample.rate);
}

/// Section 4.1.2.4: data sent while the application has no more, and a round trip after.
#[test]
fn samples_say_that_the_application_held_the_sender_up() {
    let mut board = Scoreboard::default().sampling();
    board.send(100, MS(0));
    board.limit_samples();
    let limited = |board: &mut Scoreboard, ack, now| {
        board.acknowledge(ack, MS(now), &mut Progress::default());
        board.take_sample(Duration::ZERO, MS(now)).map(|sample| sample.app_limited)
    };
    board.send(100, MS(1));
    assert_eq!(limited(&mut board, 100, 10), Some(false));
    assert_eq!(limited(&mut board, 200, 11), Some(true));
    board.send(100, MS(12));
    assert_eq!(limited(&mut board, 300, 22), Some(false));
}

/// A SYN takes a byte of the stream and is not data: a byte per round trip is not the rate of the
/// path.
#[test]
fn a_handshake_tells_a_round_trip_and_no_rate() {
    let mut board = Scoreboard::default().sampling();
    board.send(1, MS(0));
    board.acknowledge(1, MS(10), &mut Progress::default());
    let sample = board.take_sample(Duration::ZERO, MS(10)).expect("it was delivered");
    assert_eq!((sample.rate, sample.rtt), (0.0, Some(Duration::from_millis(10))));
    board.send(100, MS(10));
    board.acknowledge(101, MS(20), &mut Progress::default());
    let sample = board.take_sample(Duration::ZERO, MS(20)).expect("it was delivered");
    assert!((sample.rate - 10_000.0).abs() < 1e-6, "{}", sample.rate);
}
