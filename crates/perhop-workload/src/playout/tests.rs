use perhop_core::{Rate, Stream};

use super::*;
use crate::pattern::{Bursts, Drawn, Gaps, Lengths, Pace, Sizes};

const FRAME: u64 = 20;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn pattern(bursts: Option<Bursts>) -> Pattern {
    Pattern::Drawn(Drawn {
        gaps: Gaps::Even(Pace::new(172, Rate::new(68_800).unwrap())),
        sizes: Sizes::Constant(172),
        bursts,
        start: Duration::ZERO,
    })
}

fn call(buffer: BufferPlan) -> Playout {
    call_of(buffer, pattern(None))
}

fn call_of(buffer: BufferPlan, pattern: Pattern) -> Playout {
    let plan = PlayoutPlan { frame: ms(FRAME), buffer };
    Playout::new(plan, pattern, (Time::ZERO, Time::MAX))
}

/// Gives packets with these network delays in milliseconds to a call (`None` for a lost one), in
/// the order of their arrival, and settles all.
fn played(mut call: Playout, delays: &[Option<u64>]) -> CallCounters {
    let sent = delays.iter().enumerate();
    let mut arrivals: Vec<_> = sent
        .filter_map(|(number, delay)| {
            let number = number as u64;
            delay.map(|delay| (number * FRAME + delay, number, delay))
        })
        .collect();
    arrivals.sort_unstable();
    for (_, sequence, delay) in arrivals {
        call.arrive(sequence, ms(delay));
    }
    // The last packets are judged later.
    call.settle(Time::from_picos((delays.len() as u64 * FRAME + 1) * 1_000_000_000))
}

fn constant(delay: u64, packets: usize) -> Vec<Option<u64>> {
    vec![Some(delay); packets]
}

#[test]
fn a_fixed_buffer_waits_for_its_time_behind_the_first_packet() {
    let mut delays = constant(30, 1_000);
    delays[100] = Some(30 + 60); // just in time
    delays[200] = Some(30 + 61);
    delays[300] = None;
    delays[301] = None;
    let counters = played(call(BufferPlan::Fixed(ms(60))), &delays);
    // Packets of 90 ms and of one frame before the last arrival, at 20.01 s, are not settled.
    assert_eq!(counters.packets, 1_000 - 5);
    assert_eq!(counters.packets - counters.played, 3);
    assert_eq!((counters.late, counters.bursts), (1, 2));
    assert_eq!(counters.delay_ns, counters.played * 90_000_000);
}

#[test]
fn a_fixed_buffer_begins_anew_after_a_second_of_silence() {
    let mut delays = constant(20, 100);
    delays.extend(constant(400, 200));
    let counters = played(call(BufferPlan::Fixed(ms(40))), &delays);
    assert_eq!(counters.packets - counters.played, 50);
    assert_eq!((counters.late, counters.bursts), (50, 1));
    assert_eq!(counters.delay_ns, 100 * 60_000_000 + (counters.played - 100) * 440_000_000);
}

#[test]
fn every_talk_spurt_begins_with_the_fixed_time() {
    let spurts = || Bursts::new(ms(100), ms(100), Lengths::Constant, Stream::new(1, "bursts"));
    let mut call = call_of(BufferPlan::Fixed(ms(40)), pattern(Some(spurts())));
    // Five packets a spurt, 200 ms from one to the next; the second spurt is slower by 100 ms.
    for sequence in 0..10 {
        call.arrive(sequence, ms(if sequence < 5 { 30 } else { 130 }));
    }
    let counters = call.settle(Time::from_picos(10_000_000_000_000));
    assert_eq!((counters.played, counters.late), (10, 0));
    assert_eq!(counters.delay_ns, 5 * 70_000_000 + 5 * 170_000_000);
}

#[test]
fn an_adaptive_buffer_follows_a_delay_that_rises_by_a_frame_a_packet() {
    let mut delays = constant(30, 100);
    delays.extend((1..=20).map(|step| Some(30 + step * FRAME)));
    delays.extend(constant(430, 100));
    let counters = played(call(BufferPlan::Adaptive), &delays);
    assert_eq!(counters.packets, counters.played, "{counters:?}");
    // No packet waits: each is played when it arrives.
    let waited = |delay: u64| delay * 1_000_000;
    let sum: u64 = delays[..counters.played as usize].iter().flatten().map(|d| waited(*d)).sum();
    assert_eq!(counters.delay_ns, sum);
}

#[test]
fn a_jump_of_the_delay_costs_an_adaptive_buffer_a_burst() {
    let mut delays = constant(30, 100);
    delays.extend(constant(230, 200));
    delays.extend(constant(30, 200));
    let counters = played(call(BufferPlan::Adaptive), &delays);
    let missed = counters.packets - counters.played;
    // 200 ms are ten frames, and the buffer rises by one with each.
    assert!((9..=10).contains(&missed), "{counters:?}");
    assert_eq!((counters.late, counters.bursts), (missed, 1));
}

#[test]
fn an_adaptive_buffer_shrinks_when_the_delay_does() {
    let mut call = call(BufferPlan::Adaptive);
    let delay = |number: u64| if number < 100 { 230 } else { 30 };
    for number in 0..300 {
        call.arrive(number, ms(delay(number)));
    }
    assert_eq!(call.buffer.delay, Some(ms(30)));
}

#[test]
fn an_outage_is_counted_without_arrivals() {
    let mut call = call(BufferPlan::Adaptive);
    (0..50).for_each(|number| call.arrive(number, ms(30)));
    let counters = call.settle(Time::from_picos(5_000_000_000_000));
    assert_eq!((counters.played, counters.bursts, counters.late), (50, 1, 0));
    // 5 s less 30 ms of delay, one frame of patience and three of lag.
    assert_eq!(counters.packets, (5_000 - 30 - 4 * FRAME).div_ceil(FRAME));
    let again = call.settle(Time::from_picos(5_000_000_000_000));
    assert_eq!(again, counters);
}

#[test]
fn a_call_without_any_arrival_has_only_losses() {
    let counters = call(BufferPlan::Adaptive).settle(Time::from_picos(4_000_000_000_000));
    assert!(counters.packets > 100);
    assert_eq!((counters.played, counters.bursts), (0, 1));
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn every_packet_has_one_fate(
            delays in prop::collection::vec(
                prop_oneof![8 => (20_u64..60).prop_map(Some), 1 => (60_u64..900).prop_map(Some),
                            1 => Just(None)],
                1..400,
            ),
            fixed in prop::option::of(0_u64..200),
        ) {
            let buffer = fixed.map_or(BufferPlan::Adaptive, |wait| BufferPlan::Fixed(ms(wait)));
            let counters = played(call(buffer), &delays);
            let lost = delays.iter().filter(|delay| delay.is_none()).count() as u64;
            let missed = counters.packets - counters.played;
            prop_assert!(counters.packets <= delays.len() as u64);
            prop_assert!(missed <= counters.late + lost);
            prop_assert!(counters.bursts <= missed);
            prop_assert!(counters.bursts > 0 || missed == 0);
            // No packet is played before it arrives.
            let least = delays.iter().flatten().min().copied().unwrap_or(0);
            prop_assert!(counters.delay_ns >= counters.played * least * 1_000_000);
        }

        #[test]
        fn marks_do_not_change_what_is_played(
            delays in prop::collection::vec(20_u64..40, 50..200),
        ) {
            // Delays within a frame of the first are always in time, however often it is read.
            let delays: Vec<_> = delays.into_iter().map(Some).collect();
            let whole = played(call(BufferPlan::Fixed(ms(60))), &delays);
            let mut marked = call(BufferPlan::Fixed(ms(60)));
            for (number, delay) in delays.iter().flatten().enumerate() {
                marked.arrive(number as u64, ms(*delay));
                marked.settle(Time::from_picos(number as u64 * FRAME * 1_000_000_000));
            }
            let end = Time::from_picos((delays.len() as u64 * FRAME + 1) * 1_000_000_000);
            prop_assert_eq!(marked.settle(end), whole);
        }
    }
}
