//! Policers against their arrival curve, and against the text of RFC 2697 and RFC 2698.

use super::*;
use perhop_core::Duration;
use proptest::prelude::*;

const BYTE: u128 = 8_000_000_000_000;

fn policer(bps: u64, burst: u64) -> Policer {
    Policer::new(rate(bps), Bytes::new(burst))
}

fn rate(bps: u64) -> Rate {
    Rate::new(bps).unwrap()
}

fn police(policer: &mut Policer, now: Time, size: u64) -> Verdict {
    policer.police(now, Bytes::new(size), Dscp::new(0).unwrap())
}

#[test]
fn a_full_bucket_passes_its_burst_and_no_more() {
    let mut policer = policer(1_000_000, 3000);
    let verdicts: Vec<_> = (0..3).map(|_| police(&mut policer, Time::ZERO, 1500)).collect();
    assert_eq!(verdicts, [Verdict::Conformed, Verdict::Conformed, Verdict::Exceeded]);
}

#[test]
fn tokens_arrive_to_the_picosecond() {
    let mut policer = policer(1_000_000, 1500);
    let _ = police(&mut policer, Time::ZERO, 1500);
    let refill = Bytes::new(1500) / rate(1_000_000);
    let early = Time::from_picos(refill.as_picos() - 1);
    assert_eq!(police(&mut policer, early, 1500), Verdict::Exceeded);
    assert_eq!(police(&mut policer, Time::ZERO + refill, 1500), Verdict::Conformed);
}

#[test]
fn drop_precedence_is_colour_and_other_marks_are_green() {
    let colours = |dscps: &[u8]| -> Vec<Verdict> {
        dscps.iter().map(|dscp| Verdict::of_mark(Dscp::new(*dscp).unwrap())).collect()
    };
    // af11, af21, af31, af41; af12, …; af13, … (RFC 2597, section 6).
    assert_eq!(colours(&[10, 18, 26, 34]), [Verdict::Conformed; 4]);
    assert_eq!(colours(&[12, 20, 28, 36]), [Verdict::Exceeded; 4]);
    assert_eq!(colours(&[14, 22, 30, 38]), [Verdict::Violated; 4]);
    // Best effort, LE, class selectors, EF, and pool 1 above AF4.
    assert_eq!(colours(&[0, 1, 8, 16, 24, 32, 40, 46, 4, 6, 44]), [Verdict::Conformed; 11]);
}

#[test]
fn a_policer_of_any_settings_survives_a_run_of_any_length() {
    let mut policer = Policer::two_rate(rate(u64::MAX), Bytes::MAX, rate(u64::MAX), Bytes::MAX);
    assert_eq!(police(&mut policer, Time::MAX, u32::MAX.into()), Verdict::Conformed);
    assert_eq!(police(&mut policer, Time::MAX, u32::MAX.into()), Verdict::Conformed);
}

/// RFC 2697, section 3, word for word: counters in bytes, here in fractions of 1/8·10¹², because
/// the rate need not divide the time between two packets.
struct Rfc2697 {
    cir: u128,
    cbs: u128,
    ebs: u128,
    tc: u128,
    te: u128,
    last: u64,
}

impl Rfc2697 {
    fn colour(&mut self, now: u64, size: u64, marked: Option<Verdict>) -> Verdict {
        // "Tc and Te are updated CIR times per second": Tc first, Te if Tc is full.
        let mut arrived = u128::from(now - self.last) * self.cir;
        self.last = now;
        let to_c = arrived.min(self.cbs - self.tc);
        self.tc += to_c;
        arrived -= to_c;
        self.te = self.ebs.min(self.te + arrived);
        let b = u128::from(size) * BYTE;
        let green = marked.is_none_or(|mark| mark == Verdict::Conformed);
        let yellow = marked.is_none_or(|mark| mark != Verdict::Violated);
        if green && self.tc >= b {
            self.tc -= b;
            Verdict::Conformed
        } else if yellow && self.te >= b {
            self.te -= b;
            Verdict::Exceeded
        } else {
            Verdict::Violated
        }
    }
}

/// RFC 2698, section 3, word for word.
struct Rfc2698 {
    rates: [u128; 2],
    bursts: [u128; 2],
    /// Tp, Tc.
    tokens: [u128; 2],
    last: u64,
}

impl Rfc2698 {
    fn colour(&mut self, now: u64, size: u64, marked: Option<Verdict>) -> Verdict {
        for bucket in 0..2 {
            let arrived = u128::from(now - self.last) * self.rates[bucket];
            self.tokens[bucket] = self.bursts[bucket].min(self.tokens[bucket] + arrived);
        }
        self.last = now;
        let b = u128::from(size) * BYTE;
        if marked == Some(Verdict::Violated) || self.tokens[0] < b {
            return Verdict::Violated;
        }
        if marked == Some(Verdict::Exceeded) || self.tokens[1] < b {
            self.tokens[0] -= b;
            return Verdict::Exceeded;
        }
        self.tokens = self.tokens.map(|left| left - b);
        Verdict::Conformed
    }
}

/// Gap in picoseconds, size in bytes, drop precedence.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u64, u8)>> {
    let gap = prop_oneof![Just(0), 0_u64..5_000_000_000, 0_u64..500_000_000_000];
    prop::collection::vec((gap, 40_u64..1501, 0_u8..3), 1..100)
}

const AF1: [u8; 3] = [10, 12, 14];
const COLOURS: [Verdict; 3] = [Verdict::Conformed, Verdict::Exceeded, Verdict::Violated];

proptest! {
    #[test]
    fn single_rate_is_rfc_2697(
        cir in 1_000_u64..100_000_000, cbs in 0_u64..20_000, ebs in 0_u64..20_000,
        aware: bool, arrivals in arrivals(),
    ) {
        let mut policer = Policer::single_rate(rate(cir), Bytes::new(cbs), Bytes::new(ebs));
        if aware {
            policer = policer.colour_aware();
        }
        let [tc, te] = [cbs, ebs].map(|burst| u128::from(burst) * BYTE);
        let mut rfc = Rfc2697 { cir: cir.into(), cbs: tc, ebs: te, tc, te, last: 0 };
        let mut now = 0;
        for (gap, size, precedence) in arrivals {
            now += gap;
            let mark = usize::from(precedence);
            let expected = rfc.colour(now, size, aware.then_some(COLOURS[mark]));
            let dscp = Dscp::new(AF1[mark]).unwrap();
            let measured = policer.police(Time::from_picos(now), Bytes::new(size), dscp);
            prop_assert_eq!(measured, expected);
        }
    }

    #[test]
    fn two_rate_is_rfc_2698(
        cir in 1_000_u64..100_000_000, more in 0_u64..100_000_000,
        cbs in 0_u64..20_000, pbs in 0_u64..20_000, aware: bool, arrivals in arrivals(),
    ) {
        let pir = cir + more;
        let mut policer =
            Policer::two_rate(rate(cir), Bytes::new(cbs), rate(pir), Bytes::new(pbs));
        if aware {
            policer = policer.colour_aware();
        }
        let bursts = [pbs, cbs].map(|burst| u128::from(burst) * BYTE);
        let mut rfc =
            Rfc2698 { rates: [pir, cir].map(u128::from), bursts, tokens: bursts, last: 0 };
        let mut now = 0;
        for (gap, size, precedence) in arrivals {
            now += gap;
            let mark = usize::from(precedence);
            let expected = rfc.colour(now, size, aware.then_some(COLOURS[mark]));
            let dscp = Dscp::new(AF1[mark]).unwrap();
            let measured = policer.police(Time::from_picos(now), Bytes::new(size), dscp);
            prop_assert_eq!(measured, expected);
        }
    }

    /// The conforming bytes of every interval stay below the arrival curve, and a packet that
    /// exceeds would have crossed it.
    #[test]
    fn conforming_bytes_stay_below_the_arrival_curve(
        bps in 1_000_u64..10_000_000_000,
        burst in 64_u64..200_000,
        arrivals in prop::collection::vec((0_u64..5_000_000_000, 40_u64..1500), 1..60),
    ) {
        let mut policer = policer(bps, burst);
        let mut now = Time::ZERO;
        let mut passed: Vec<(Time, u64)> = Vec::new();
        // Bytes that fit below burst + rate · t over every interval that ends now, in token units.
        let room = |passed: &[(Time, u64)], now: Time| {
            let mut sent = 0;
            passed.iter().rev().map(|&(from, size)| {
                sent += u128::from(size) * BYTE;
                let span = u128::from(now.since(from).as_picos());
                u128::from(burst) * BYTE + span * u128::from(bps) - sent
            }).chain([u128::from(burst) * BYTE]).min().unwrap()
        };
        for (gap, size) in arrivals {
            now += Duration::from_picos(gap);
            let fits = u128::from(size) * BYTE <= room(&passed, now);
            let conformed = police(&mut policer, now, size) == Verdict::Conformed;
            prop_assert_eq!(conformed, fits);
            if conformed {
                passed.push((now, size));
            }
        }
    }
}

/// Measures packets, each at its millisecond, with its bytes and its mark of AF1.
fn colours(policer: &mut Policer, packets: &[(u64, u64, u8)]) -> Vec<Verdict> {
    let measure = |&(at, size, dscp): &(u64, u64, u8)| {
        let now = Time::ZERO + Duration::from_millis(at);
        policer.police(now, Bytes::new(size), Dscp::new(dscp).unwrap())
    };
    packets.iter().map(measure).collect()
}

use Verdict::{Conformed as Green, Exceeded as Yellow, Violated as Red};

/// A byte per millisecond; 1000 bytes committed, 500 in excess. After each packet: Tc, Te.
#[test]
fn a_single_rate_by_hand() {
    let policer = || Policer::single_rate(rate(8_000), Bytes::new(1000), Bytes::new(500));
    let blind = [
        ((0, 1501, 10), Red),       // 1000, 500: neither holds it
        ((0, 1000, 14), Green),     // 0, 500: whatever its mark
        ((0, 501, 10), Red),        // 0, 500
        ((0, 500, 10), Yellow),     // 0, 0
        ((0, 1, 10), Red),          // 0, 0
        ((1, 1, 10), Green),        // 0, 0: the first byte is committed
        ((1_001, 1000, 10), Green), // 0, 0
        ((2_002, 1, 10), Green),    // 999, 1: what overflows is in excess
        ((2_002, 1000, 10), Red),   // 999, 1: the bytes are in two buckets
        ((2_002, 999, 10), Green),  // 0, 1
        ((2_002, 1, 10), Yellow),   // 0, 0
        ((9_000, 1000, 10), Green), // 0, 500: no more than the excess burst
        ((9_000, 500, 10), Yellow), // 0, 0
        ((9_000, 1, 10), Red),      // 0, 0
    ];
    let aware = [
        ((0, 1, 14), Red),      // 1000, 500: red stays red, and takes nothing
        ((0, 500, 12), Yellow), // 1000, 0: yellow takes nothing of the committed bytes
        ((0, 1, 12), Red),      // 1000, 0
        ((0, 1000, 10), Green), // 0, 0
        ((0, 1, 46), Red),      // 0, 0: other marks are green
        ((5, 5, 46), Green),    // 0, 0
    ];
    for (mut policer, table) in [(policer(), &blind[..]), (policer().colour_aware(), &aware)] {
        let (packets, expected): (Vec<_>, Vec<_>) = table.iter().copied().unzip();
        assert_eq!(colours(&mut policer, &packets), expected);
    }
}

/// A byte per millisecond and 1000 bytes committed; two bytes and 1500 at the peak. After each
/// packet: Tp, Tc.
#[test]
fn two_rates_by_hand() {
    let policer =
        || Policer::two_rate(rate(8_000), Bytes::new(1000), rate(16_000), Bytes::new(1500));
    let blind = [
        ((0, 1501, 10), Red),       // 1500, 1000
        ((0, 1001, 14), Yellow),    // 499, 1000: nothing of the committed bytes
        ((0, 500, 10), Red),        // 499, 1000: the peak decides, although it is committed
        ((0, 499, 10), Green),      // 0, 501
        ((1, 2, 10), Green),        // 0, 500
        ((2, 3, 10), Red),          // 2, 501
        ((500, 998, 10), Green),    // 0, 1: 2 + 2 · 498 and 501 + 498 are 998 and 999
        ((501, 1, 10), Green),      // 1, 1
        ((501, 2, 10), Red),        // 1, 1
        ((502, 3, 10), Yellow),     // 0, 2
        ((9_000, 1000, 10), Green), // 500, 0: both are full
        ((9_000, 500, 10), Yellow), // 0, 0
        ((9_000, 1, 10), Red),      // 0, 0
    ];
    let aware = [
        ((0, 1, 14), Red),      // 1500, 1000: red takes nothing
        ((0, 500, 12), Yellow), // 1000, 1000: yellow takes of the peak alone
        ((0, 1000, 10), Green), // 0, 0
        ((0, 1, 12), Red),      // 0, 0
        ((1, 2, 12), Yellow),   // 0, 1
        ((2, 2, 10), Green),    // 0, 0
    ];
    for (mut policer, table) in [(policer(), &blind[..]), (policer().colour_aware(), &aware)] {
        let (packets, expected): (Vec<_>, Vec<_>) = table.iter().copied().unzip();
        assert_eq!(colours(&mut policer, &packets), expected);
    }
}

/// Two colours know yellow alone: a packet that is marked yellow or red does not conform.
#[test]
fn two_colours_by_hand() {
    let packets = [(0, 1, 12), (0, 1, 14), (0, 1001, 10), (0, 1000, 10), (0, 1, 10), (1, 1, 46)];
    let aware = [Yellow, Yellow, Yellow, Green, Yellow, Green];
    assert_eq!(colours(&mut policer(8_000, 1000).colour_aware(), &packets), aware);
    let blind = [Green, Green, Yellow, Yellow, Green, Green];
    assert_eq!(colours(&mut policer(8_000, 1000), &packets), blind);
}

/// A new committed rate and burst after 100 ms: tokens that have arrived until then, at a byte per
/// millisecond, stay as far as the new bucket holds them.
#[test]
fn a_policer_changes_its_rate_by_hand() {
    let at = Time::ZERO + Duration::from_millis(100);
    let set = |mut policer: Policer, packets: &[(u64, u64, u8)]| {
        let _ = colours(&mut policer, &[(0, 1000, 10)]);
        policer.set(at, rate(80_000), Bytes::new(900));
        colours(&mut policer, packets)
    };
    // 100 bytes, and 50 more in 5 ms at ten bytes per millisecond; never more than 900.
    let rates =
        [(100, 101, 10), (105, 151, 10), (105, 150, 10), (1_000, 901, 10), (1_000, 900, 10)];
    let two = policer(8_000, 1000);
    assert_eq!(set(two, &rates), [Yellow, Yellow, Green, Yellow, Green]);
    // What the committed bucket of 1000 bytes does not hold of 1300 goes to the excess bucket,
    // which stays as it is; what it does not hold of 1000 from then on is lost.
    let mut single = Policer::single_rate(rate(8_000), Bytes::new(1000), Bytes::new(800));
    assert_eq!(colours(&mut single, &[(0, 1000, 10), (0, 800, 10)]), [Green, Yellow]);
    single.set(Time::ZERO + Duration::from_millis(1_300), rate(8_000), Bytes::new(900));
    let packets = [901, 900, 301, 300, 1].map(|size| (1_300, size, 10));
    assert_eq!(colours(&mut single, &packets), [Red, Green, Red, Yellow, Red]);
    // The peak keeps its rate and its burst of 1500 bytes.
    let peak = Policer::two_rate(rate(8_000), Bytes::new(1000), rate(16_000), Bytes::new(1500));
    let packets = [(100, 701, 10), (100, 700, 10), (101, 3, 10), (101, 2, 10), (9_000, 1500, 10)];
    assert_eq!(set(peak, &packets), [Red, Yellow, Red, Green, Yellow]);
}

#[test]
fn actions_by_verdict() {
    let [send, remark, drop] = [Action::Send, Action::Remark(Dscp::EF), Action::Drop];
    let actions = Actions { conform: remark, exceed: drop, violate: send };
    assert_eq!(COLOURS.map(|colour| actions.of(colour)), [remark, drop, send]);
    assert_eq!(COLOURS.map(|colour| Actions::exceed(remark).of(colour)), [send, remark, drop]);
}
