use proptest::prelude::*;

use super::*;

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;
/// A train of datagrams with its headers.
const TRAIN: u64 = 66_000;

fn allowance(limits: AllowanceLimits) -> Allowance {
    Allowance::new(limits)
}

/// Lets senders, which want so many bytes at least and at most, take in turns until `end`. Returns
/// the bytes of each.
fn in_turns(allowance: &Allowance, senders: &[(u64, u64)], end: Nanos) -> Vec<u64> {
    let mut sent = vec![0; senders.len()];
    let mut due = vec![0; senders.len()];
    while let Some(now) = due.iter().copied().min().filter(|now| *now < end) {
        for (number, &(least, most)) in senders.iter().enumerate() {
            if due[number] > now {
                continue;
            }
            match allowance.clone().take(now, least, most) {
                Grant::Bytes(bytes) => {
                    assert!((least..=most).contains(&bytes), "{bytes}");
                    sent[number] += bytes;
                }
                Grant::Wait(until) => {
                    assert!(until > now);
                    due[number] = until;
                }
                Grant::Over => due[number] = Nanos::MAX,
            }
        }
    }
    sent
}

/// A sender of a byte stream, or of trains of one size.
fn sender() -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![Just((1, 1 << 20)), (100..TRAIN).prop_map(|size| (size, size))]
}

proptest! {
    #[test]
    fn all_senders_together_keep_the_rate(
        rate in 100_000..2_000_000_000_u64,
        senders in prop::collection::vec(sender(), 1..6),
    ) {
        let shared = allowance(AllowanceLimits { rate: Some(rate), ..Default::default() });
        let sent: u64 = in_turns(&shared, &senders, SECOND).iter().sum();
        let at_once = burst(rate) + TRAIN.max(burst(rate) / PART);
        prop_assert!(sent <= rate / 8 + at_once, "{sent}");
        prop_assert!(sent >= rate / 8, "{sent}");
    }
}

#[test]
fn a_sender_of_large_blocks_leaves_room_for_others() {
    let shared = allowance(AllowanceLimits { rate: Some(80_000_000), ..Default::default() });
    let sent = in_turns(&shared, &[(1, 1 << 20), (1_500, 1_500), (60_000, 60_000)], SECOND);
    // Each has every third turn: 12.5 kB, one datagram, one train.
    assert!(sent[1] > 150_000 && sent[2] > 7_000_000, "{sent:?}");
}

#[test]
fn a_volume_holds_in_any_24_hours() {
    let limits = AllowanceLimits { volume: Some(1_000), ..Default::default() };
    let shared = allowance(limits);
    let take = |hour: Nanos, least, most| shared.take(hour * HOUR, least, most);
    assert_eq!(take(5, 1, 600), Grant::Bytes(600));
    shared.give_back(100);
    assert_eq!(take(6, 501, 501), Grant::Over);
    assert_eq!(take(6, 1, 600), Grant::Bytes(500));
    assert_eq!(take(6, 1, 1), Grant::Over);
    assert!(shared.is_spent(29 * HOUR));
    assert_eq!(take(29, 1, 1), Grant::Over);
    // An instant before the last one changes nothing.
    assert_eq!(take(7, 1, 1), Grant::Over);
    assert_eq!(take(30, 1, 9_000), Grant::Bytes(500));
    assert_eq!(take(31, 1, 9_000), Grant::Bytes(500));
    assert!(!shared.is_spent(1_000 * HOUR));
    assert_eq!(take(1_000, 1, 9_000), Grant::Bytes(1_000));
    // What is given back later than its hour stays counted.
    assert_eq!(take(1_001, 1, 1), Grant::Over);
    shared.give_back(1_000);
    assert_eq!(take(1_001, 1, 1), Grant::Over);
}

proptest! {
    #[test]
    fn no_24_hours_have_more_than_the_volume(
        steps in prop::collection::vec((0..30_000 * SECOND, 1..500_u64), 1..200),
    ) {
        let shared = allowance(AllowanceLimits { volume: Some(1_000), ..Default::default() });
        let (mut now, mut sent) = (0, Vec::new());
        for (gap, most) in steps {
            now += gap;
            if let Grant::Bytes(bytes) = shared.take(now, 1, most) {
                sent.push((now, bytes));
            }
            let day = sent.iter().filter(|(at, _)| now - at <= 24 * HOUR);
            prop_assert!(day.map(|(_, bytes)| bytes).sum::<u64>() <= 1_000);
        }
    }
}

#[test]
fn first_packets_have_a_rate() {
    let (one, since) = (Allowance::default(), 1_000_000 * MS);
    let other = one.clone();
    let sent = (0..2_000).filter(|at| one.may_begin(since + at * MS)).count();
    assert!((298..=300).contains(&sent), "{sent}");
    assert!(!other.may_begin(since + 1_999 * MS), "all share them");
}

#[test]
fn probes_have_a_rate_and_count_as_bytes() {
    let probes = |allowance: &Allowance, unproved| {
        (0..2_000).filter(|at| allowance.may_probe(at * MS, unproved, 100)).count()
    };
    let limits = AllowanceLimits { ping_rate: Some(10), ..Default::default() };
    let found = probes(&allowance(limits), 1);
    assert!((29..=30).contains(&found), "{found}");
    let none = AllowanceLimits { ping_rate: Some(0), ..Default::default() };
    assert_eq!(probes(&allowance(none), 1), 0);
    assert_eq!(probes(&allowance(none), 0), 2_000);
    let little = allowance(AllowanceLimits { volume: Some(1_000), ..limits });
    assert_eq!(probes(&little, 0), 10, "its volume");
    assert!(!little.may_probe(2_000 * MS, 1, 1));
    let slow = allowance(AllowanceLimits { rate: Some(80_000), ..limits });
    assert!(!slow.may_probe(0, 0, 1 << 20), "more than a train at once");
    assert!(slow.may_probe(0, 10, 1_000) && !slow.may_probe(0, 1, 1));
}

#[test]
fn a_storm_of_probes_takes_a_small_share_and_few_probes_always_pass() {
    let shared = allowance(AllowanceLimits { rate: Some(80_000_000), ..Default::default() });
    let (mut data, mut probes, mut due) = (0, 0, 0);
    for now in (0..SECOND).step_by(MS as usize / 10) {
        probes += u64::from(shared.may_probe(now, 0, 10_000)) * 10_000;
        while due <= now {
            match shared.take(now, 1, 1 << 20) {
                Grant::Bytes(bytes) => data += bytes,
                Grant::Wait(until) => due = until,
                Grant::Over => panic!("there is no volume"),
            }
        }
    }
    // 10 MB in all, a 16th of it for probes, and the bursts.
    assert!((9_000_000..=10_200_000).contains(&(data + probes)), "{data} {probes}");
    assert!((600_000..=700_000).contains(&probes), "{probes}");
    // One small probe each 10 ms, while another sender takes all it can.
    let few = (0..100).map(|turn| (turn + 100) * 10 * MS).filter(|now| {
        while let Grant::Bytes(_) = shared.take(*now, 1, 1 << 20) {}
        shared.may_probe(*now, 0, 84)
    });
    assert_eq!(few.count(), 100);
}

#[test]
fn without_limits_all_is_granted() {
    let free = Allowance::default();
    assert_eq!(free.take(0, 1, u64::MAX), Grant::Bytes(u64::MAX));
    free.give_back(u64::MAX);
    assert!(!free.is_spent(Nanos::MAX) && free.may_probe(0, u64::MAX, u64::MAX));
}
