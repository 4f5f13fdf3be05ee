use proptest::prelude::*;

use super::*;

fn put(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    attribute(&mut bytes, kind, value);
    bytes
}

fn numbers(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// What every queue and action counts.
fn basic(bytes: u64, packets: u32) -> Vec<u8> {
    put(TCA_STATS_BASIC, &[&bytes.to_ne_bytes()[..], &packets.to_ne_bytes(), &[0; 4]].concat())
}

/// A message about a queue whose discipline counts `own`.
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
    // Structures of linux/pkt_sched.h with the place of each number as its value.
    let places: Vec<u32> = (0..13).collect();
    for (kind, own) in [
        ("red", vec![("early", 0), ("marked", 3)]),
        ("pie", vec![("dropped", 6), ("ecn_mark", 9)]),
        ("codel", vec![("drop_overlimit", 5), ("ecn_mark", 6)]),
        ("fq_codel", vec![("drop_overlimit", 2), ("ecn_mark", 3), ("drop_overmemory", 9)]),
        ("htb", vec![]),
    ] {
        assert_eq!(queue(&about(kind, &places)).unwrap().counts[5..], own, "{kind}");
    }
}

#[test]
fn more_packets_than_32_bits_hold_are_counted() {
    let stats = [basic(1, 5), put(TCA_STATS_PKT64, &((1_u64 << 32) + 5).to_ne_bytes())].concat();
    assert_eq!(counted(&stats), Some(Counted { packets: (1 << 32) + 5, bytes: 1 }));
}

#[test]
fn actions_are_read_as_linux_describes_them() {
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
    let body = [vec![0; SHORT], put(TCA_ACT_TAB, &tab.concat())].concat();
    let mut found = Vec::new();
    actions(&body, &mut found);
    let one = |packets| Counted { packets, bytes: 10 * packets };
    assert_eq!(found, [(7, one(11)), (8, one(12))]);
}

proptest! {
    #[test]
    fn whatever_the_kernel_says_is_read(bytes in prop::collection::vec(0_u8.., 0..200)) {
        let _ = (queue(&bytes), rule(&bytes), actions(&bytes, &mut Vec::new()));
    }

    /// A message cut short is none, or one with less in it.
    #[test]
    fn half_a_message_is_read(length in 0_usize..200) {
        let whole = about("fq_codel", &[1; 12]);
        let _ = queue(&whole[..length.min(whole.len())]);
    }
}
