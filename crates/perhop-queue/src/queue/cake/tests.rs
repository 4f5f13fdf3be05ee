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

/// Below 3.6 Mb/s the target is one and a half frames: what tc prints for 1 Mb/s is 18.2 ms, with
/// an interval of 113.2 ms.
#[test]
fn times_adapt_to_low_rates() {
    let (target, rtt) = (Duration::from_millis(5), Duration::from_millis(100));
    let slow = Times::new(Some(rate(1_000_000)), target, rtt);
    assert_eq!(slow.target, Duration::from_micros(18_168));
    assert_eq!(slow.interval, Duration::from_micros(113_168));
    let fast = Times::new(Some(rate(100_000_000)), target, rtt);
    assert_eq!((fast.target, fast.interval), (target, rtt));
    // The interval is twice the target at least.
    let least = Times::new(Some(rate(64_000)), target, rtt);
    assert_eq!(least.interval, least.target * 2);
}

/// Lengths of the manual's keywords: `overhead 10 atm`, `overhead 38 mpu 84`, `overhead 30 ptm`.
#[test]
fn framing_counts_cells_and_least_lengths() {
    let of = |overhead, mpu, coding| {
        let framing = Framing { overhead, mpu, coding };
        [40, 1492, 1500].map(|size| framing.charge(Bytes::new(size)).get())
    };
    assert_eq!(of(0, 0, Coding::None), [40, 1492, 1500]);
    assert_eq!(of(38, 84, Coding::None), [84, 1530, 1538]);
    assert_eq!(of(10, 0, Coding::Atm), [2 * 53, 32 * 53, 32 * 53]);
    assert_eq!(of(40, 0, Coding::Atm), [2 * 53, 32 * 53, 33 * 53]);
    assert_eq!(of(30, 0, Coding::Ptm), [70 + 2, 1522 + 24, 1530 + 24]);
}
