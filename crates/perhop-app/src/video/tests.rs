use super::*;

const LADDER: [u64; 4] = [500, 1000, 2000, 4000];

/// The rate map of a buffer of 240 s is flat up to 90 s and from 216 s on, and reaches a bit rate
/// of 2000 at 90 + 126 · 1500 / 3500 = 144 s.
#[test]
fn bba_0_keeps_its_bit_rate_until_the_map_passes_the_next() {
    let choice = |level, secs| {
        by_buffer(&LADDER, level, Duration::from_secs(secs), Duration::from_secs(240))
    };
    assert_eq!([choice(0, 0), choice(3, 90), choice(2, 89)], [0; 3]);
    assert_eq!([choice(0, 216), choice(1, 240)], [3; 2]);
    // Up: at 1000 (108 s) from the lowest, and only at 2000 (144 s) from there.
    assert_eq!([choice(0, 107), choice(0, 109), choice(1, 109), choice(1, 143)], [0, 1, 1, 1]);
    assert_eq!([choice(1, 145), choice(0, 145)], [2, 2]);
    // Down: from 2000 only when the map is at 1000.
    assert_eq!([choice(2, 130), choice(2, 109), choice(2, 107)], [2, 2, 1]);
}

#[test]
fn throughput_is_a_harmonic_mean() {
    let of = |rates: &[f64]| by_throughput(&LADDER, &rates.iter().copied().collect());
    assert_eq!(of(&[2500.0]), 2);
    assert_eq!(of(&[2000.0]), 1);
    assert_eq!(of(&[100.0]), 0);
    // 2 / (1 / 1000 + 1 / 9000) = 1800.
    assert_eq!(of(&[1000.0, 9000.0]), 1);
}
