use perhop_core::Stream;

use super::*;

fn step(at: u64, rate: u64) -> TraceStep {
    TraceStep { at: Duration::from_picos(at), rate, medium: None }
}

fn ends(trace: &mut Trace, packets: &[(u64, u64)]) -> Vec<u64> {
    let mut busy = Time::ZERO;
    let transmit = |&(arrival, size): &(u64, u64)| {
        let begins = busy.max(Time::from_picos(arrival));
        busy = trace.transmit(begins, Bytes::new(size)).0;
        busy.as_picos()
    };
    packets.iter().map(transmit).collect()
}

#[test]
fn a_transmission_continues_across_steps() {
    let steps = vec![step(0, 8_000), step(SECOND, 0), step(3 * SECOND, 80_000)];
    let mut trace = Trace::new(steps, None).unwrap();
    // 500 B in the first half second, 1 kB of which the second half is sent at ten times the rate.
    let found = ends(&mut trace, &[(0, 500), (0, 1000), (0, 100)]);
    assert_eq!(found, [SECOND / 2, 3 * SECOND + SECOND / 20, 3 * SECOND + 6 * SECOND / 100]);
    // Back in time, as after a change of the queue.
    assert_eq!(trace.transmit(Time::ZERO, Bytes::new(500)).0.as_picos(), SECOND / 2);
    assert_eq!(trace.capacity(Time::ZERO, Time::from_picos(4 * SECOND)), 11_000.0);
}

#[test]
fn a_trace_repeats() {
    let steps = vec![step(0, 8_000), step(SECOND, 0)];
    let mut trace = Trace::new(steps, Some(Duration::from_picos(2 * SECOND))).unwrap();
    let found = ends(&mut trace, &[(0, 2_500), (100 * SECOND + SECOND / 2, 1_000)]);
    assert_eq!(found, [4 * SECOND + SECOND / 2, 102 * SECOND + SECOND / 2]);
    let (from, to) = (Time::from_picos(SECOND / 2), Time::from_picos(9 * SECOND));
    assert_eq!(trace.capacity(from, to), 4_500.0);
}

/// Periods that are much shorter than a transmission are not passed one by one.
#[test]
fn a_transmission_takes_many_periods() {
    let steps = vec![step(0, 3), step(2, 0), step(5, 7)];
    let mut trace = Trace::new(steps, Some(Duration::from_picos(6))).unwrap();
    // 13 bits in 6 ps, so that 8 · 1000 bits take a few thousand seconds.
    for begins in 0..6 {
        let end = trace.transmit(Time::from_picos(begins), Bytes::new(1000)).0.as_picos();
        let room = |to: u64| trace.capacity(Time::from_picos(begins), Time::from_picos(to));
        assert!((end - begins).abs_diff(8_000 * SECOND / 13 * 6) <= 12, "{end}");
        assert!((room(end) - 1000.0).abs() < 1e-6, "{end}");
    }
    let mut slow = Trace::new(vec![step(0, 1), step(1, 0)], Some(Duration::from_picos(u64::MAX)));
    let slow = slow.as_mut().unwrap();
    assert_eq!(slow.transmit(Time::ZERO, Bytes::new(1)).0, Time::MAX);
}

#[test]
fn traces_that_stop_are_refused() {
    let period = |seconds| Some(Duration::from_picos(seconds * SECOND));
    for (steps, period, error) in [
        (vec![], None, TraceError::Begin),
        (vec![step(1, 8)], None, TraceError::Begin),
        (vec![step(0, 8), step(0, 9)], None, TraceError::Order),
        (vec![step(0, 8), step(SECOND, 9)], period(1), TraceError::Order),
        (vec![step(0, 8), step(SECOND, 0)], None, TraceError::Silent),
        (vec![step(0, 0)], period(1), TraceError::Silent),
    ] {
        assert_eq!(Trace::new(steps, period).unwrap_err(), error);
    }
    for (times, error) in
        [(&[][..], TraceError::Begin), (&[0, 0], TraceError::Begin), (&[2, 1], TraceError::Order)]
    {
        assert_eq!(Trace::opportunities(times).unwrap_err(), error);
    }
}

/// mahimahi's link: at each opportunity it sends up to 1500 bytes of the packets that have arrived
/// before; arrivals at the instant of an opportunity come after it.
fn departures(times_ms: &[u32], packets: &[(u64, u64)]) -> Vec<u64> {
    let last = u64::from(*times_ms.last().unwrap());
    let mut found = Vec::new();
    let mut left: Vec<u64> = packets.iter().map(|&(_, size)| size).collect();
    for cycle in 0.. {
        for &time in times_ms {
            let at = (cycle * last + u64::from(time)) * MILLISECOND;
            let mut bytes = OPPORTUNITY;
            while bytes > 0 && found.len() < packets.len() && packets[found.len()].0 < at {
                let sent = bytes.min(left[found.len()]);
                left[found.len()] -= sent;
                bytes -= sent;
                if left[found.len()] == 0 {
                    found.push(at);
                }
            }
            if found.len() == packets.len() {
                return found;
            }
        }
    }
    unreachable!()
}

#[test]
fn opportunities_are_used_as_by_mahimahi() {
    for seed in 0..200 {
        let mut random = Stream::new(seed, "opportunities");
        let mut times: Vec<u32> = Vec::new();
        let mut time = random.up_to(2) as u32;
        let (number, spread) = (1 + random.up_to(60), random.up_to(9));
        for _ in 0..number {
            times.push(time);
            time += random.up_to(spread) as u32;
        }
        times.push(time.max(1));
        let mut arrival = 0;
        let packets: Vec<(u64, u64)> = (0..200)
            .map(|_| {
                // At times at the instant of an opportunity.
                arrival += match random.up_to(3) {
                    0 => 0,
                    1 => (1 + random.up_to(3)) * MILLISECOND - arrival % MILLISECOND,
                    _ => random.up_to(3 * MILLISECOND),
                };
                (arrival, if random.up_to(1) == 0 { 1500 } else { 1 + random.up_to(1499) })
            })
            .collect();
        let mut trace = Trace::opportunities(&times).unwrap();
        let together = times.len() as u64 * OPPORTUNITY;
        let expected = departures(&times, &packets);
        for (number, (found, at)) in
            ends(&mut trace, &packets).into_iter().zip(expected).enumerate()
        {
            assert!(found <= at && at < found + together, "{seed}, {number}: {found} {at}");
        }
    }
}

/// The steps that opportunities make: each begins as many picoseconds before its instant as it has
/// bytes, and those at zero are those at the end.
#[test]
fn opportunities_are_steps_before_their_instants() {
    let bytes = |number: u64| number * OPPORTUNITY;
    let on = |ms: u64, number| (ms * MILLISECOND - bytes(number), IN_OPPORTUNITY);
    let off = |ms: u64| (ms * MILLISECOND, 0);
    for (times, expected) in [
        (vec![5], vec![off(0), on(5, 1)]),
        (vec![0, 0, 5], vec![off(0), on(5, 3)]),
        (vec![2, 2, 5], vec![off(0), on(2, 2), off(2), on(5, 1)]),
        (vec![0, 1, 5, 5], vec![off(0), on(1, 1), off(1), on(5, 3)]),
        // More than a millisecond has room for fill it.
        (vec![2; 700_000], vec![off(0), (MILLISECOND, IN_OPPORTUNITY)]),
        (vec![1; 700_000], vec![(0, IN_OPPORTUNITY)]),
        (
            [vec![1; 700_000], vec![2; 700_000]].concat(),
            vec![(0, IN_OPPORTUNITY), (MILLISECOND, IN_OPPORTUNITY)],
        ),
    ] {
        let trace = Trace::opportunities(&times).unwrap();
        let found: Vec<_> =
            trace.steps.iter().map(|step| (step.at.as_picos(), step.rate)).collect();
        assert_eq!(found, expected);
        let last = u64::from(*times.last().unwrap());
        assert_eq!(trace.period, Some(Duration::from_picos(last * MILLISECOND)));
    }
}

/// A trace picosecond by picosecond: the bits that each has, and the step.
struct Slow<'a> {
    steps: &'a [TraceStep],
    period: Option<u64>,
}

impl Slow<'_> {
    fn at(&self, now: u64) -> &TraceStep {
        let since = self.period.map_or(now, |period| now % period);
        self.steps.iter().rev().find(|step| step.at.as_picos() <= since).unwrap()
    }

    fn transmit(&self, begins: u64, size: u64) -> (u64, Option<TraceMedium>) {
        let (mut now, mut left) = (begins, size * 8 * SECOND);
        loop {
            let step = self.at(now);
            now += 1;
            left = left.saturating_sub(step.rate);
            if left == 0 {
                return (now, step.medium);
            }
        }
    }

    fn capacity(&self, from: u64, to: u64) -> f64 {
        (from..to).map(|now| self.at(now).rate as f64).sum::<f64>() / (8 * SECOND) as f64
    }
}

/// A byte takes from 1 ps on, so that a few bytes cross several steps.
#[test]
fn a_trace_does_what_its_picoseconds_do() {
    for seed in 0..400 {
        let mut random = Stream::new(seed, "slow");
        let mut at = 0;
        let mut steps = Vec::new();
        for number in 0..=random.up_to(12) {
            let rate = [0, 8, 5, 3, 1][random.up_to(4) as usize] * SECOND;
            let delay = Some(Duration::from_picos(number));
            let medium = TraceMedium { delay, ..TraceMedium::default() };
            steps.push(TraceStep { at: Duration::from_picos(at), rate, medium: Some(medium) });
            at += 1 + random.up_to(9);
        }
        steps.last_mut().unwrap().rate = SECOND;
        let period = (random.up_to(1) == 0).then_some(at);
        let mut trace = Trace::new(steps.clone(), period.map(Duration::from_picos)).unwrap();
        let slow = Slow { steps: &steps, period };
        let mut now = 0;
        for _ in 0..40 {
            let most = random.up_to(1) * 60;
            now += random.up_to(most);
            if random.up_to(9) == 0 {
                now /= 2; // as after a change of the queue
            }
            let (begins, size) = (Time::from_picos(now), 1 + random.up_to(20));
            let (end, medium) = trace.transmit(begins, Bytes::new(size));
            assert_eq!((end.as_picos(), medium), slow.transmit(now, size), "{seed} {now} {size}");
            let first = (now..).find(|now| slow.at(*now).rate > 0).unwrap();
            assert_eq!(trace.transmits_from(begins).as_picos(), first, "{seed} {now}");
            let found = trace.capacity(begins, end);
            let expected = slow.capacity(now, end.as_picos());
            assert!((found - expected).abs() < 1e-6, "{seed} {now}: {found} {expected}");
            now = end.as_picos();
        }
    }
}
