//! Tins by the manual, tc-cake(8), and by the names of code points.

use perhop_core::Dscp;

use super::*;

fn rate(bps: u64) -> Rate {
    Rate::new(bps).unwrap()
}

/// Thresholds as tc prints them for a shaper of 100 Mb/s (tc-cake(8), examples).
#[test]
fn thresholds_are_those_of_the_manual() {
    let thresholds = |diffserv: Diffserv| -> Vec<(&str, u64)> {
        let tins = diffserv.tins().iter();
        tins.map(|tin| (tin.name, tin.rate(rate(100_000_000)).bits_per_second())).collect()
    };
    let three = [("best-effort", 100_000_000), ("bulk", 6_250_000), ("voice", 25_000_000)];
    assert_eq!(thresholds(Diffserv::Diffserv3), three);
    assert_eq!(thresholds(Diffserv::Diffserv4)[2], ("video", 50_000_000));
    let eight: Vec<u64> = thresholds(Diffserv::Diffserv8).iter().map(|(_, bps)| *bps).collect();
    assert_eq!(eight[..3], [100_000_000, 87_500_000, 76_562_500]);
    assert_eq!(eight[7], 39_269_590); // 100 Mb/s · (7/8)⁷
}

/// Code points of each tin, by their names in the manual.
#[test]
fn tins_have_the_code_points_of_the_manual() {
    let of = |diffserv: Diffserv, name: &str| {
        let tin = diffserv.table()[usize::from(Dscp::named(name).unwrap().get())];
        diffserv.tins()[usize::from(tin)].name
    };
    for name in ["cs1", "le"] {
        assert_eq!(of(Diffserv::Diffserv3, name), "bulk");
        assert_eq!(of(Diffserv::Diffserv4, name), "bulk");
    }
    for name in ["cs7", "cs6", "ef"] {
        assert_eq!(of(Diffserv::Diffserv3, name), "voice");
        assert_eq!(of(Diffserv::Diffserv4, name), "voice");
    }
    for name in ["cs5", "cs4"] {
        assert_eq!(of(Diffserv::Diffserv4, name), "voice");
        assert_eq!(of(Diffserv::Diffserv3, name), "best-effort");
    }
    for name in ["af41", "af43", "af31", "cs3", "af21", "af22", "cs2"] {
        assert_eq!(of(Diffserv::Diffserv4, name), "video");
        assert_eq!(of(Diffserv::Diffserv3, name), "best-effort");
    }
    for name in ["be", "af11", "af13"] {
        assert_eq!(of(Diffserv::Diffserv4, name), "best-effort");
    }
    let eight = ["le", "cs1", "be", "cs3", "af21", "cs2", "cs4", "cs6"];
    for (tin, name) in eight.iter().enumerate() {
        assert_eq!(of(Diffserv::Diffserv8, name), format!("tin{tin}"), "{name}");
    }
    assert!((0..64).all(|dscp| Diffserv::Precedence.table()[dscp] == (dscp >> 3) as u8));
    assert_eq!(Diffserv::Besteffort.table(), [0; 64]);
}

/// Each tin of eight has seven eighths of the bandwidth and of the quantum of the one before,
/// rounded down.
#[test]
fn eight_tins_have_seven_eighths_of_the_one_before() {
    let (mut quantum, mut share) = (256, 1.0_f64);
    for tin in Diffserv::Diffserv8.tins() {
        let bps = tin.rate(rate(1_000_000_000)).bits_per_second();
        assert_eq!((tin.quantum, bps), (quantum, (1e9 * share) as u64), "{}", tin.name);
        (quantum, share) = (quantum * 7 / 8, share * 7.0 / 8.0);
    }
    assert_eq!(Diffserv::Precedence.tins(), Diffserv::Diffserv8.tins());
    let names: Vec<_> = Diffserv::Diffserv8.tins().iter().map(|tin| tin.name).collect();
    assert_eq!(names, ["tin0", "tin1", "tin2", "tin3", "tin4", "tin5", "tin6", "tin7"]);
    // A rate of zero would be none.
    assert_eq!(Diffserv::Diffserv8.tins()[7].rate(rate(1)), rate(1));
    assert_eq!(Diffserv::Diffserv3.tins()[1].rate(rate(31)), rate(1));
    assert_eq!(Diffserv::Diffserv3.tins()[1].rate(rate(32)), rate(2));
}

/// Quanta are parts of 1024 bytes: a sixteenth for bulk, a half for video, a quarter for voice.
#[test]
fn quanta_by_name() {
    let quanta = |diffserv: Diffserv| -> Vec<_> {
        diffserv.tins().iter().map(|tin| (tin.name, tin.quantum)).collect()
    };
    let four = [("best-effort", 1024), ("bulk", 64), ("video", 512), ("voice", 256)];
    assert_eq!(quanta(Diffserv::Diffserv4), four);
    assert_eq!(quanta(Diffserv::Diffserv3), [four[0], four[1], four[3]]);
    assert_eq!(quanta(Diffserv::Besteffort), [("best-effort", 65_535)]);
}

/// All 64 code points. AF is 10 to 38, CS every eighth, VA 44, EF 46 and LE 1; 2 and 4 are high
/// throughput and low delay of RFC 1349.
#[test]
fn every_code_point_has_its_tin() {
    let table = |rest: u8, tins: &[(u8, &[u8])]| {
        let mut table = [rest; 64];
        for &(tin, points) in tins {
            points.iter().for_each(|point| table[usize::from(*point)] = tin);
        }
        table
    };
    let (bulk, voice) = (&[1, 8][..], &[4, 44, 46, 48, 56][..]);
    assert_eq!(Diffserv::Diffserv3.table(), table(0, &[(1, bulk), (2, voice)]));
    let video = &[4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38][..];
    let voice = &[32, 40, 44, 46, 48, 56][..];
    assert_eq!(Diffserv::Diffserv4.table(), table(0, &[(1, bulk), (2, video), (3, voice)]));
    let eight: [(u8, &[u8]); 7] = [
        (0, &[1]),
        (1, &[2, 8, 10, 12, 14]),
        (3, &[24, 26, 28, 30, 34, 36, 38]),
        (4, &[4, 18, 20, 22]),
        (5, &[16]),
        (6, &[32, 40, 44, 46]),
        (7, &[48, 56]),
    ];
    assert_eq!(Diffserv::Diffserv8.table(), table(2, &eight));
}
