//! Trains and packets of two sizes to each hop, for the capacity of its links.

use perhop_socket::Nanos;

use crate::answer::Kind;
use crate::capacity::{Capacity, HopSeries, capacities, is_of_answers, lower_slope, narrow_rate};
use crate::probe::Probe;
use crate::prober::{Observation, ProbeError, Prober};
use crate::sizes::{Round, Sizes};

/// Trains to a hop.
const TRAINS: usize = 7;
/// Packets of the first train, which tells roughly how fast the path is.
const FIRST: usize = 16;
/// Packets of a train at most, and at least.
const MOST: usize = 200;
const LEAST: usize = 16;
/// Trains of half the length, which show the direction that the spacing is of.
const CHECKS: usize = 3;
/// Duration of a train in seconds: many times the lateness of answers.
const LONG: f64 = 4e-3;
/// Share of a train's packets that must be answered, and over which they must extend.
const ANSWERED: usize = 4;
/// Rounds in which the hops take turns, and round-trip times of each size in a round.
const ROUNDS: usize = 4;
const SAMPLES: usize = 50;

/// A hop to be measured: its time to live, and the path MTU to it.
pub(crate) type At = (u8, u16);

/// Measures the capacity of the links before each of the hops from 1 to `hops`, of which those `at`
/// answer. Sends at most `volume` bytes.
pub(crate) fn measure(
    prober: &mut Prober,
    probe: &dyn Fn(u8) -> Probe,
    hops: u8,
    at: &[At],
    timeout: Nanos,
    volume: u64,
) -> Result<Vec<Capacity>, ProbeError> {
    let end = prober.sent.1.saturating_add(volume);
    let size = at.iter().map(|&(_, mtu)| mtu).min().unwrap_or(0);
    let mut series = vec![HopSeries::default(); usize::from(hops)];
    for &(ttl, _) in at {
        let Some(series) = series.get_mut(usize::from(ttl).wrapping_sub(1)) else { continue };
        let probe = Probe { size, ..probe(ttl) };
        *series = narrow(prober, &probe, timeout, end)?;
    }
    let mut narrowest = f64::INFINITY;
    let mut behind = false;
    for &(ttl, _) in at {
        let series = &series[usize::from(ttl) - 1];
        let Some(rate) = series.narrow.filter(|_| !series.of_answers) else { continue };
        behind |= rate.value * 1.05 > narrowest;
        narrowest = narrowest.min(rate.value);
    }
    // Only links behind a narrower one need the other method.
    if behind && narrowest.is_finite() {
        let gap = (2.5 * 8e9 * f64::from(size) / narrowest) as Nanos;
        let mut hops = Vec::new();
        for &(ttl, _) in at {
            let place = usize::from(ttl) - 1;
            if series[place].narrow.is_some() && !series[place].of_answers {
                let long = Probe { size, ..probe(ttl) };
                if let Some(short) = shortest(prober, &long, gap, timeout)? {
                    hops.push((place, short, long));
                    series[place].sizes =
                        Some(Sizes { bytes: (long.size - short.size).into(), rounds: Vec::new() });
                }
            }
        }
        for _ in 0..ROUNDS {
            for (place, short, long) in &hops {
                let round = sizes(prober, short, long, gap, timeout, end)?;
                if let Some(sizes) = &mut series[*place].sizes {
                    sizes.rounds.push(round);
                }
            }
        }
    }
    Ok(capacities(&series))
}

/// Measures the narrowest rate up to a hop.
fn narrow(
    prober: &mut Prober,
    probe: &Probe,
    timeout: Nanos,
    end: u64,
) -> Result<HopSeries, ProbeError> {
    let (mut trains, mut fastest) = (Vec::new(), 0.0);
    let bits = 8.0 * f64::from(probe.size);
    let (mut packets, mut failed, mut length) = (FIRST, 0, None);
    while trains.len() < TRAINS && failed < 3 {
        if prober.sent.1 + packets as u64 * u64::from(probe.size) > end {
            break;
        }
        let seen = prober.probe(&vec![*probe; packets], 0, timeout)?;
        let answers = arrivals(&seen);
        length = length.or(reply_length(&seen));
        let extent = answers.last().map_or(0.0, |last| last.0 - answers[0].0);
        let spacing = lower_slope(&answers).filter(|&it| it > 0.0);
        let (Some(spacing), true) =
            (spacing, answers.len() * ANSWERED >= packets && extent * 2.0 >= packets as f64)
        else {
            failed += 1;
            continue;
        };
        let wanted = ((LONG / spacing) as usize).clamp(LEAST, MOST);
        // Was the train long enough?
        if packets * 2 > wanted {
            trains.push(answers);
            fastest = f64::max(fastest, sender_rate(&seen, bits));
        } else {
            packets = wanted;
        }
    }
    let narrow = narrow_rate(&trains, probe.size.into());
    let mut series = HopSeries { narrow, sender_bps: fastest, ..HopSeries::default() };
    let Some(rate) = narrow else { return Ok(series) };
    let half = Probe { size: probe.size / 2, ..*probe };
    let (mut shares, mut answers) = (Vec::new(), None);
    for _ in 0..CHECKS {
        let seen = prober.probe(&vec![half; packets], 0, timeout)?;
        if let Some(spacing) = lower_slope(&arrivals(&seen)) {
            shares.push(spacing * rate.value / bits);
        }
        answers = answers.or(reply_length(&seen));
    }
    shares.sort_by(f64::total_cmp);
    if let (Some(&share), Some(short), Some(long)) = (shares.first(), answers, length) {
        let packets = f64::from(half.size) / f64::from(probe.size);
        series.of_answers = is_of_answers(share, packets, short as f64 / long as f64);
    }
    Ok(series)
}

/// Length of the IP packets that answer, in bytes, but for the header.
fn reply_length(seen: &[Observation]) -> Option<usize> {
    seen.iter().find_map(|one| Some(one.answer?.1.length))
}

/// Number and time of arrival, in seconds since the train was sent, of each answer from a hop.
fn arrivals(seen: &[Observation]) -> Vec<(f64, f64)> {
    let begun = seen.first().map_or(0, |first| first.sent);
    let answers = seen.iter().enumerate().filter_map(|(number, one)| {
        let (at, answer) = one.answer?;
        let late = at.saturating_sub(begun) as f64 / 1e9;
        (!matches!(answer.kind, Kind::TooBig(_))).then_some((number as f64, late))
    });
    answers.collect()
}

/// Returns the rate in bit/s at which a train was sent.
fn sender_rate(seen: &[Observation], bits: f64) -> f64 {
    match seen {
        [first, .., last] if last.sent > first.sent => {
            bits * (seen.len() - 1) as f64 * 1e9 / (last.sent - first.sent) as f64
        }
        _ => 0.0,
    }
}

/// Returns the shortest packets whose errors are as long as those of long ones. `None` if their
/// lengths are too near each other.
fn shortest(
    prober: &mut Prober,
    long: &Probe,
    gap: Nanos,
    timeout: Nanos,
) -> Result<Option<Probe>, ProbeError> {
    let Some(wanted) = reply_length(&prober.probe(&[*long, *long], gap, timeout)?) else {
        return Ok(None);
    };
    // A router quotes all of a short packet, and the beginning of a long one.
    let shortest = prober.target().shortest();
    let try_size = |prober: &mut Prober, size| -> Result<bool, ProbeError> {
        let seen = prober.probe(&[Probe { size, ..*long }; 2], gap, timeout)?;
        Ok(reply_length(&seen) == Some(wanted))
    };
    let (mut other, mut same) = (shortest, long.size);
    if try_size(prober, shortest)? {
        same = shortest;
    }
    while same > other + 1 {
        let middle = other + (same - other) / 2;
        if try_size(prober, middle)? {
            same = middle;
        } else {
            other = middle;
        }
    }
    Ok((long.size - same >= long.size / 4).then_some(Probe { size: same, ..*long }))
}

/// Measures a round of round-trip times of short and long packets.
fn sizes(
    prober: &mut Prober,
    short: &Probe,
    long: &Probe,
    gap: Nanos,
    timeout: Nanos,
    end: u64,
) -> Result<Round, ProbeError> {
    let left = end.saturating_sub(prober.sent.1) / (u64::from(long.size) + u64::from(short.size));
    let pairs = SAMPLES.min(left as usize);
    let probes: Vec<Probe> =
        (0..2 * pairs).map(|n| if n % 2 == 0 { *short } else { *long }).collect();
    let mut found = Round::default();
    for (number, one) in prober.probe(&probes, gap.max(1), timeout)?.iter().enumerate() {
        let Some(time) = one.round_trip() else { continue };
        let times = if number % 2 == 0 { &mut found.short } else { &mut found.long };
        times.push(time as f64 / 1e9);
    }
    Ok(found)
}
