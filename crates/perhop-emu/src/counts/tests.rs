use perhop_fuzz::fuzz;

use super::*;

fn put(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    attribute(&mut bytes, kind, value);
    bytes
}

fn numbers(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Returns the counters that every queue and action has.
fn basic(bytes: u64, packets: u32) -> Vec<u8> {
    put(TCA_STATS_BASIC, &[&bytes.to_ne_bytes()[..], &packets.to_ne_bytes(), &[0; 4]].concat())
}

/// Returns a message about a queue whose discipline has the counters `own`.
fn about(kind: &str, own: &[u32]) -> Vec<u8> {
    let stats = [
        basic(1 << 33, 1000),
        put(TCA_STATS_QUEUE, &numbers(&[3, 4000, 7, 0, 9])),
        put(TCA_STATS_APP, &numbers(own)),
    ];
    let header = numbers(&[0, 5, 0x0012_0000, 0x0001_0000, 0]);
    let name = put(libc::TCA_KIND, &[kind.as_bytes(), &[0]].concat());
    [header, name, put(libc::TCA_STATS2, &stats.concat())].concat()
}

#[test]
fn queues_are_read_as_linux_describes_them() {
    let found = queue(&about("pfifo", &[])).unwrap();
    assert_eq!((found.device, found.handle, found.kind.as_str()), (5, 0x12, "pfifo"));
    let counts = [("packets", 1000), ("bytes", 1 << 33), ("qlen", 3), ("backlog", 4000)];
    assert_eq!(found.counts, [&counts[..], &[("drops", 7)]].concat());
    // Structures of linux/pkt_sched.h in which the value of each number is its index.
    let places: Vec<u32> = (0..13).collect();
    for (kind, own) in [
        ("red", vec![("early", 0), ("marked", 3)]),
        ("pie", vec![("overlimit", 7), ("ecn_mark", 9)]),
        ("codel", vec![("drop_overlimit", 5), ("ecn_mark", 6)]),
        ("fq_codel", vec![("drop_overlimit", 2), ("ecn_mark", 3)]),
        ("fq_pie", vec![("overlimit", 2), ("ecn_mark", 4)]),
        ("htb", vec![]),
    ] {
        assert_eq!(queue(&about(kind, &places)).unwrap().counts[5..], own, "{kind}");
    }
}

/// Returns a message about a device in which the value of each counter is its place.
fn about_device() -> Vec<u8> {
    let places: Vec<u8> = (0..24_u64).flat_map(u64::to_ne_bytes).collect();
    [numbers(&[0, 5, 0, 0]), put(3, b"tunnel1\0"), put(IFLA_STATS64, &places)].concat()
}

#[test]
fn devices_are_read_as_linux_describes_them() {
    let expected = DeviceCounts {
        device: 5,
        received: Counted { packets: 0, bytes: 2 },
        sent: Counted { packets: 1, bytes: 3 },
        unsent: 7,
        frame_errors: 13,
        carrier_errors: 17,
    };
    assert_eq!(of_device(&about_device()), Some(expected));
    assert_eq!(of_device(&numbers(&[0, 5, 0, 0])), None);
}

#[test]
fn more_packets_than_32_bits_hold_are_counted() {
    let stats = [basic(1, 5), put(TCA_STATS_PKT64, &((1_u64 << 32) + 5).to_ne_bytes())].concat();
    assert_eq!(counted(&stats), Some(Counted { packets: (1 << 32) + 5, bytes: 1 }));
}

/// Returns a message that lists two actions.
fn two_actions() -> Vec<u8> {
    let action = |place: u16, kind: &str, options: u16, number: u32, packets: u32| {
        let parts = [
            put(TCA_ACT_KIND, &[kind.as_bytes(), &[0]].concat()),
            put(TCA_ACT_STATS, &basic(10 * u64::from(packets), packets)),
            put(TCA_ACT_OPTIONS, &put(options, &numbers(&[number, 0, 0, 0]))),
        ];
        put(place, &parts.concat())
    };
    let tab =
        [action(1, "police", TCA_POLICE_TBF, 7, 11), action(2, "gact", TCA_GACT_PARMS, 8, 12)];
    [vec![0; SHORT], put(TCA_ACT_TAB, &tab.concat())].concat()
}

#[test]
fn actions_are_read_as_linux_describes_them() {
    let mut found = Vec::new();
    actions(&two_actions(), &mut found);
    let one = |packets| Counted { packets, bytes: 10 * packets };
    assert_eq!(found, [(7, one(11)), (8, one(12))]);
}

/// Returns a message about a counter of nftables.
fn counter() -> Vec<u8> {
    let data = [
        put(NFTA_COUNTER_BYTES, &70_u64.to_be_bytes()),
        put(NFTA_COUNTER_PACKETS, &7_u64.to_be_bytes()),
    ];
    let parts = [put(NFTA_OBJ_NAME, b"gold\0"), put(NFTA_OBJ_DATA, &data.concat())];
    [vec![0; SHORT], parts.concat()].concat()
}

#[test]
fn counters_are_read_as_nftables_describes_them() {
    let expected = ("gold".to_owned(), Counted { packets: 7, bytes: 70 });
    assert_eq!(rule(&counter()), Some(expected));
}

#[test]
fn fuzz_counts() {
    let kinds = ["pfifo", "red", "pie", "codel", "fq_codel", "htb"];
    let mut seeds: Vec<Vec<u8>> = kinds.iter().map(|kind| about(kind, &[1; 13])).collect();
    seeds.extend([two_actions(), counter(), about_device()]);
    fuzz("counts", &seeds, |bytes| {
        let (queue, rule, mut found) = (queue(bytes), rule(bytes), Vec::new());
        actions(bytes, &mut found);
        // The result is not larger than the input permits.
        assert!(16 * found.len() <= bytes.len());
        for name in [queue.as_ref().map(|it| &it.kind), rule.as_ref().map(|it| &it.0)] {
            assert!(name.is_none_or(|name| name.len() < bytes.len()));
        }
        assert!(queue.as_ref().is_none_or(|queue| (2..=8).contains(&queue.counts.len())));
        queue.is_some() || rule.is_some() || !found.is_empty() || of_device(bytes).is_some()
    });
}
