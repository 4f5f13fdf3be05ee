use perhop_core::Stream;
use proptest::prelude::*;

use super::*;

/// Packets at the beginning of a train, at a low rate.
const LEAD: usize = 30;

/// A way with a token bucket, and how busy its hosts are.
#[derive(Clone, Copy)]
struct Way {
    /// Rate in bit/s and burst in bytes.
    bucket: (f64, f64),
    bytes: f64,
    /// Bytes that wait in a shaper at most; `None` for a policer.
    queue: Option<f64>,
    /// Greatest lateness of single packets, in seconds.
    late: f64,
    /// Pauses of the sender, of what is before the bucket, and of what is behind it.
    stalls: u64,
    seed: u64,
}

/// Beginning and end of pauses of up to 3 ms. Half of the trains have one at the time `at`.
fn pauses(count: u64, at: f64, seconds: f64, random: &mut Stream) -> Vec<(f64, f64)> {
    let begin = |number: u64, random: &mut Stream| match number {
        0 if random.up_to(1) == 0 => at,
        _ => seconds * random.up_to(1_000_000) as f64 / 1e6,
    };
    (0..count)
        .map(|number| {
            let begin = begin(number, random);
            (begin, begin + 3e-3 * random.up_to(1000) as f64 / 1e3)
        })
        .collect()
}

fn after(at: f64, pauses: &[(f64, f64)]) -> f64 {
    pauses.iter().fold(at, |at, &(from, to)| if from <= at && at < to { to } else { at })
}

impl Way {
    /// Returns a train at `rate` bit/s, after packets at a quarter of the bucket's rate.
    fn train(&self, rate: f64) -> Vec<Sent> {
        let Self { bucket: (bps, burst), bytes, queue, late, .. } = *self;
        let mut random = Stream::new(self.seed, "late");
        let (gap, lead_gap) = (8.0 * bytes / rate, 4.0 * 8.0 * bytes / bps);
        let begin = LEAD as f64 * lead_gap;
        let seconds = begin + 3000.0 * gap;
        let [sender, before, behind] =
            [(); 3].map(|()| pauses(self.stalls, begin, seconds, &mut random));
        let (mut tokens, mut last, mut free) = (burst, 0.0, 0.0_f64);
        let (mut left, mut came, mut arrived) = (0.0_f64, 0.0_f64, 0.0_f64);
        (0..LEAD + 3000)
            .map(|number| {
                let lead = number.min(LEAD) as f64 * lead_gap;
                let due = lead + number.saturating_sub(LEAD) as f64 * gap;
                let due = f64::max(due, left);
                left = after(due, &sender) + 2e-6;
                // A sender that pauses knows of it, or has just read its clock.
                let sent = if random.up_to(1) == 0 { due } else { left - 2e-6 };
                came = came.max(after(left, &before));
                let mut at = came;
                if let Some(queue) = queue {
                    at = f64::max(came, free);
                    if (at - came) * bps / 8.0 > queue {
                        return Sent { sent, arrived: None };
                    }
                }
                tokens = f64::min(burst, tokens + (at - last) * bps / 8.0);
                last = at;
                if tokens < bytes {
                    if queue.is_none() {
                        return Sent { sent, arrived: None };
                    }
                    at += (bytes - tokens) * 8.0 / bps;
                    (tokens, last) = (bytes, at);
                }
                tokens -= bytes;
                free = at;
                let late = late * random.up_to(1000) as f64 / 1000.0;
                arrived = arrived.max(after(at + late, &behind));
                Sent { sent, arrived: Some(100.0 + arrived) }
            })
            .collect()
    }

    /// Returns what a train finds, and whether the intervals contain the truth.
    fn found(&self, rate: f64) -> Option<(Bucket, Line, bool)> {
        let train = self.train(rate);
        let rough = find(&train[LEAD..], self.bytes)?;
        let line = line(&train, self.bytes, &rough)?;
        let holds =
            |it: &crate::Estimate, value: f64| it.low * 0.999 <= value && value <= it.high * 1.001;
        let true_ = holds(&line.bps, self.bucket.0) && holds(&line.burst, self.bucket.1);
        Some((rough, line, true_))
    }
}

proptest! {
    #[test]
    fn policers_are_found_exactly(
        bps in 1e6_f64..50e6, share in 1.5_f64..4.0, burst in 20_f64..400.0, seed: u64,
    ) {
        let way = Way {
            bucket: (bps, burst * 500.0), bytes: 500.0, queue: None, late: 50e-6, stalls: 0, seed,
        };
        let (rough, line, holds) = way.found(bps * share).unwrap();
        prop_assert_eq!(rough.kind, Kind::Policer);
        prop_assert!(holds, "{:?} {:?}", line, way.bucket);
        prop_assert!(line.bps.uncertainty() < 0.02, "{line:?}");
        prop_assert!(line.burst.uncertainty() < 0.1, "{line:?}");
    }

    #[test]
    fn shapers_are_found_exactly(
        bps in 1e6_f64..50e6, share in 1.5_f64..4.0, burst in 20_f64..400.0, seed: u64,
        full in any::<bool>(),
    ) {
        let queue = Some(if full { 64.0 * 500.0 } else { 1e9 });
        let way =
            Way { bucket: (bps, burst * 500.0), bytes: 500.0, queue, late: 50e-6, stalls: 0, seed };
        let (rough, line, _) = way.found(bps * share).unwrap();
        prop_assert_eq!(rough.kind, Kind::Shaper);
        prop_assert!((line.bps.value / bps - 1.0).abs() < 0.02, "{line:?} {bps}");
        prop_assert!((line.burst.value / burst / 500.0 - 1.0).abs() < 0.1, "{line:?} {burst}");
    }

    /// A bucket that is not exceeded is not found.
    #[test]
    fn what_is_not_exceeded_is_not_found(
        bps in 1e6_f64..50e6, share in 0.3_f64..0.95, seed: u64,
    ) {
        let way =
            Way { bucket: (bps, 50e3), bytes: 500.0, queue: None, late: 50e-6, stalls: 0, seed };
        prop_assert_eq!(find(&way.train(bps * share)[LEAD..], 500.0), None);
    }
}

/// Whatever pauses there are, intervals contain the truth, or no line is found.
#[test]
fn pauses_make_intervals_wider_and_never_false() {
    for queue in [None, Some(1e9)] {
        let (mut known, mut wide, mut wrong) = (0, 0, 0);
        for seed in 0..200 {
            let mut random = Stream::new(seed, "way");
            let bps = 1e6 * (1 + random.up_to(100)) as f64;
            let bucket = (bps, 500.0 * (20 + random.up_to(300)) as f64);
            let stalls = random.up_to(6);
            let way = Way { bucket, bytes: 500.0, queue, late: 50e-6, stalls, seed };
            let Some((_, line, holds)) = way.found(bps * (1.5 + random.up_to(2) as f64)) else {
                continue;
            };
            known += 1;
            wide += u32::from(line.burst.uncertainty() > 0.1);
            wrong += u32::from(!holds);
        }
        assert_eq!(wrong, 0, "{queue:?}");
        assert!(known > 120 && wide < known / 3, "{queue:?}: {known} known, {wide} wide");
    }
}
