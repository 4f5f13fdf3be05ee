//! HTB by tables computed by hand: what classes with full queues send through a link without a rate
//! of its own. `tests/test_linux_shapers.py` compares with Linux.

use perhop_core::{Bytes, Duration, Rate, Stream, Time};
use perhop_queue::{
    AckFilter, Backlog, Cake, CakeConfig, Class, Coding, Dequeue, Diffserv, Discipline, Framing,
    Htb, HtbClassKind, HtbRates, HtbSpec, Isolation, Ledger, Limit, Queue, Weight,
};

use crate::lab::*;

const SECONDS: u64 = 20;

/// Returns the kbit/s of each DSCP whose queue is kept full, below a root of `root` kbit/s.
fn sent(root: u64, overhead: u16, specs: Vec<HtbSpec<()>>, full: &[(u8, u32)]) -> Vec<u64> {
    let framing = Framing { overhead, mpu: 0, coding: Coding::None };
    let mut htb = Htb::new(rates(root, root, 1500), framing, specs);
    let mut ledger = Ledger::new();
    let mut bytes = vec![0; full.len()];
    for each in full {
        for _ in 0..10 {
            htb.enqueue(Time::ZERO, packet(*each), &mut ledger);
        }
    }
    let mut now = Time::ZERO;
    let end = Time::ZERO + Duration::from_micros(SECONDS * 1_000_000);
    while now < end {
        match htb.dequeue(now, &mut ledger) {
            Dequeue::Packet(sent) => {
                let class = sent.header.dscp().get();
                let place = full.iter().position(|(dscp, _)| *dscp == class).unwrap();
                bytes[place] += sent.size().get();
                htb.enqueue(now, packet(full[place]), &mut ledger);
            }
            Dequeue::NotBefore(at) => {
                assert!(at > now);
                now = at;
            }
            Dequeue::Idle => panic!("idle with a backlog"),
        }
    }
    assert!(ledger.drops.is_empty());
    bytes.iter().map(|bytes| bytes * 8 / SECONDS / 1000).collect()
}

#[track_caller]
fn assert_near(found: &[u64], wanted: &[u64]) {
    let near = found.iter().zip(wanted).all(|(one, other)| one.abs_diff(*other) <= other / 100 + 3);
    assert!(near && found.len() == wanted.len(), "{found:?} for {wanted:?}");
}

#[test]
fn a_class_within_its_guarantee_does_not_ask_those_above() {
    let three = || {
        vec![
            leaf(1, Some(rates(1500, 2000, 1500))),
            leaf(2, Some(rates(1500, 2000, 1500))),
            leaf(0, Some(rates(1500, 2000, 1500))),
        ]
    };
    assert_near(&sent(2000, 0, three(), &[(1, 1500)]), &[2000]);
    assert_near(&sent(2000, 0, three(), &[(1, 1500), (2, 1500)]), &[1500, 1500]);
    assert_near(&sent(2000, 0, three(), &[(1, 1500), (2, 1500), (0, 1500)]), &[1500; 3]);
}

#[test]
fn what_exceeds_the_guarantees_is_shared_by_quantum() {
    let two = |one, other| {
        vec![leaf(1, Some(rates(1000, 10_000, one))), leaf(0, Some(rates(3000, 10_000, other)))]
    };
    let full = [(1, 1500), (0, 1500)];
    assert_near(&sent(10_000, 0, two(3000, 12_000), &full), &[1000 + 1200, 3000 + 4800]);
    // A turn sends a packet at least.
    assert_near(&sent(10_000, 0, two(100, 900), &full), &[1000 + 3000, 3000 + 3000]);
    assert_near(&sent(10_000, 0, two(100, 900), &[(1, 100), (0, 100)]), &[1600, 8400]);
}

#[test]
fn loans_of_a_class_precede_those_of_the_class_above_and_reach_all_leaves_in_turn() {
    let tree = || {
        vec![
            interior(
                &[1, 2],
                rates(4000, 10_000, 1500),
                vec![
                    leaf(1, Some(rates(1000, 10_000, 3000))),
                    leaf(2, Some(rates(1000, 3000, 3000))),
                ],
            ),
            leaf(0, Some(rates(2000, 10_000, 6000))),
        ]
    };
    // The parent lends 2000 in equal parts, the root 4000 by 3000, 3000 and 6000; the ceiling of
    // the second leaves the third of it to the others.
    let full = [(1, 1500), (2, 1500), (0, 1500)];
    assert_near(&sent(10_000, 0, tree(), &full), &[3000, 3000, 4000]);
}

#[test]
fn priorities_borrow_in_order_and_direct_classes_precede_all() {
    let ranked = |rank, class: HtbRates| HtbRates { priority: rank, ..class };
    let classes = || {
        vec![
            leaf(1, Some(ranked(1, rates(1000, 5000, 1500)))),
            leaf(2, None),
            leaf(0, Some(ranked(2, rates(2000, 10_000, 1500)))),
        ]
    };
    assert_near(&sent(10_000, 0, classes(), &[(1, 1500), (0, 1500)]), &[5000, 5000]);
    // Without the ceiling, the second class gets its guarantee alone.
    let open = vec![
        leaf(1, Some(ranked(1, rates(1000, 10_000, 1500)))),
        leaf(0, Some(ranked(2, rates(2000, 10_000, 1500)))),
    ];
    assert_near(&sent(10_000, 0, open, &[(1, 1500), (0, 1500)]), &[8000, 2000]);
}

#[test]
fn rates_count_what_layer_2_adds() {
    let one = vec![leaf(0, Some(rates(400, 400, 1500)))];
    assert_near(&sent(2000, 14, one, &[(0, 60)]), &[400 * 60 / 74]);
}

/// A tree whose packets, of 1500 bytes, are enqueued and sent at one instant.
struct Instant {
    htb: Htb<()>,
    ledger: Ledger<()>,
    now: Time,
}

impl Instant {
    fn new(specs: Vec<HtbSpec<()>>) -> Self {
        let root = HtbRates { burst: Bytes::new(1 << 20), ..plenty(rates(10_000, 10_000, 1500)) };
        let framing = Framing { overhead: 0, mpu: 0, coding: Coding::None };
        Self { htb: Htb::new(root, framing, specs), ledger: Ledger::new(), now: Time::ZERO }
    }

    /// Enqueues packets with these DSCPs, and returns those of the packets that are sent now.
    fn send(&mut self, dscps: &[u8]) -> Vec<u8> {
        for dscp in dscps {
            self.htb.enqueue(self.now, packet((*dscp, 1500)), &mut self.ledger);
        }
        let (mut sent, mut waiting) = (Vec::new(), self.htb.backlog().packets);
        loop {
            let size = Bytes::new(1500);
            assert_eq!(self.htb.backlog(), Backlog { packets: waiting, bytes: size * waiting });
            assert_eq!(self.htb.head(self.now), (waiting > 0).then_some(size));
            match self.htb.dequeue(self.now, &mut self.ledger) {
                Dequeue::Packet(packet) => sent.push(packet.header.dscp().get()),
                Dequeue::NotBefore(_) => break,
                Dequeue::Idle => {
                    assert_eq!(waiting, 0);
                    break;
                }
            }
            waiting -= 1;
        }
        sent
    }
}

/// Returns rates with a ceiling that is not reached at one instant.
fn plenty(rates: HtbRates) -> HtbRates {
    HtbRates { cburst: Bytes::new(1 << 20), ..rates }
}

/// Two classes within their guarantees take turns until one has nothing left, whatever their
/// priority, of which 7 is the last; and again when it has.
#[test]
fn a_class_that_is_empty_has_no_turn() {
    for priority in [0, 1, 7, 8, 255] {
        let class = || {
            let wide = HtbRates { burst: Bytes::new(1 << 20), ..rates(1000, 10_000, 1500) };
            Some(HtbRates { priority, ..plenty(wide) })
        };
        let mut tree = Instant::new(vec![leaf(1, class()), leaf(2, None), leaf(0, class())]);
        assert_eq!(tree.send(&[1, 0, 0, 0, 1]), [1, 0, 1, 0, 0], "priority {priority}");
        assert_eq!(tree.send(&[0]), [0]);
        assert_eq!(tree.send(&[0, 2, 0, 2]), [2, 2, 0, 0]);
        assert_eq!(tree.send(&[1, 0]), [1, 0]);
        assert!(matches!(tree.htb.dequeue(tree.now, &mut tree.ledger), Dequeue::Idle));
    }
}

/// Each leaf has a guarantee of one packet at this instant. Afterwards the first two borrow from
/// the class above them, in turn, and the third from the root, which is one level higher.
#[test]
fn a_class_that_is_empty_borrows_nothing() {
    let poor = || Some(HtbRates { burst: Bytes::new(1499), ..plenty(rates(8, 10_000, 1500)) });
    let rich = HtbRates { burst: Bytes::new(1 << 20), ..plenty(rates(4000, 10_000, 1500)) };
    let specs =
        vec![interior(&[1, 2], rich, vec![leaf(1, poor()), leaf(2, poor())]), leaf(0, poor())];
    let mut tree = Instant::new(specs);
    assert_eq!(tree.send(&[1, 1, 1, 2, 2, 0, 0]), [1, 2, 0, 1, 2, 1, 0]);
    assert_eq!(tree.send(&[0, 2]), [2, 0]);
    assert_eq!(tree.send(&[0, 1, 2, 1]), [1, 2, 1, 0]);
    assert_eq!(tree.send(&[0]), [0]);
}

/// A class sends while its buckets are not overdrawn: `htb_class_mode` of Linux compares tokens
/// with 0, unless the module's parameter `htb_hysteresis` is set. With a burst of 1500 bytes these
/// are two packets, and the third when 1500 bytes are back, after 1.5 s at 8 kb/s. With one byte
/// less it is one packet, and the second after a byte: 1 ms.
#[test]
fn a_class_may_send_until_a_bucket_is_overdrawn() {
    for (burst, at_once, waits_ms) in [(1500, 2, [1500, 1500]), (1499, 1, [1, 1500])] {
        let bytes = Bytes::new(burst);
        let poor = HtbRates { burst: bytes, cburst: bytes, ..rates(8, 8, 1500) };
        let mut tree = Instant::new(vec![leaf(1, Some(poor)), leaf(0, Some(poor))]);
        assert_eq!(tree.send(&[0, 0, 0, 0]).len(), at_once, "{burst}");
        for wait_ms in waits_ms {
            let due = tree.now + Duration::from_micros(1000 * wait_ms);
            let next = tree.htb.dequeue(tree.now, &mut tree.ledger);
            assert!(matches!(next, Dequeue::NotBefore(at) if at == due), "{burst}: {next:?}");
            tree.now = due;
            assert_eq!(tree.send(&[]), [0]);
        }
    }
}

/// A class that has its last turn with its last packet leaves the turn to the next class, which
/// does not lose it: `htb_dequeue_tree` of Linux goes on to the next class before it takes the
/// empty one out. So it is with loans.
#[test]
fn a_class_that_becomes_empty_leaves_its_turn_to_the_next() {
    let wide = HtbRates { burst: Bytes::new(1 << 20), ..plenty(rates(1000, 10_000, 1500)) };
    let poor = HtbRates { burst: Bytes::ZERO, ..plenty(rates(8, 10_000, 1500)) };
    for class in [wide, poor] {
        let mut tree = Instant::new([1, 2, 0].map(|dscp| leaf(dscp, Some(class))).into());
        // Every class sends the first packet of its own guarantee.
        assert_eq!(tree.send(&[1, 2, 0]), [1, 2, 0]);
        assert_eq!(tree.send(&[1, 2, 2, 0, 0]), [1, 2, 0, 2, 0]);
        assert_eq!(tree.send(&[1, 1, 2, 0, 0]), [1, 2, 0, 1, 0]);
    }
}

/// A quantum of more than a run can send: the class has its turn until it is empty, once its first
/// packet has ended the turn with which it began.
#[test]
fn a_quantum_of_any_size() {
    let wide = HtbRates { burst: Bytes::new(1 << 20), ..plenty(rates(1000, 10_000, 1500)) };
    let wider = HtbRates { quantum: Weight::new(u64::MAX).unwrap(), ..wide };
    let mut tree = Instant::new(vec![leaf(1, Some(wider)), leaf(0, Some(wide))]);
    assert_eq!(tree.send(&[1, 1, 1, 1, 0, 0, 0]), [1, 0, 1, 1, 1, 0, 0]);
}

/// Returns when a class sends its second packet, the first of which has 100,000 bytes; another
/// class sends as many after 30 s.
fn second_packet(root: HtbRates, class: HtbRates) -> Time {
    let other = HtbRates { burst: Bytes::new(1 << 20), ..plenty(rates(8, 10_000, 1500)) };
    let framing = Framing { overhead: 0, mpu: 0, coding: Coding::None };
    let mut htb = Htb::new(root, framing, vec![leaf(1, Some(class)), leaf(0, Some(other))]);
    let (mut ledger, mut now, mut sent) = (Ledger::new(), Time::ZERO, 0);
    htb.enqueue(now, packet((1, 100_000)), &mut ledger);
    htb.enqueue(now, packet((1, 100)), &mut ledger);
    let half = Time::ZERO + Duration::from_secs(30);
    loop {
        if now == half {
            htb.enqueue(now, packet((0, 100_000)), &mut ledger);
        }
        match htb.dequeue(now, &mut ledger) {
            Dequeue::Packet(packet) if packet.header.dscp().get() == 1 => sent += 1,
            Dequeue::Packet(_) => {}
            Dequeue::NotBefore(at) if now < half => now = at.min(half),
            Dequeue::NotBefore(at) => now = at,
            Dequeue::Idle => panic!("idle with a backlog"),
        }
        if sent == 2 {
            return now;
        }
    }
}

/// A class owes 60 s of its rate at most, and of its ceiling (`mbuffer` of Linux).
#[test]
fn debts_are_forgotten_beyond_a_minute() {
    let minute = Time::ZERO + Duration::from_secs(60);
    // Of its own guarantee: the root, at 10 kb/s, owes for the other class until 90 s.
    let root = plenty(rates(10, 10_000, 1500));
    assert_eq!(second_packet(root, plenty(rates(8, 10_000, 1500))), minute);
    // At 16 kb/s, 97,000 bytes are no more than it may owe: 48.5 s.
    let early = Time::ZERO + Duration::from_millis(48_500);
    assert_eq!(second_packet(root, plenty(rates(16, 10_000, 1500))), early);
    // Of its ceiling, with a root that lends.
    let root = HtbRates { burst: Bytes::new(1 << 20), ..plenty(rates(10_000, 10_000, 1500)) };
    let free = |ceil| HtbRates { burst: Bytes::new(1 << 20), ..rates(8, ceil, 1500) };
    assert_eq!(second_packet(root, free(8)), minute);
    assert_eq!(second_packet(root, free(16)), early);
}

/// Leaves are at level 0 and the root at level 7, so that six classes fit in between.
#[test]
fn classes_are_seven_deep_at_most() {
    let all = plenty(HtbRates { burst: Bytes::new(1 << 20), ..rates(1000, 10_000, 1500) });
    let tree = |between: usize| {
        let inner =
            (0..between).fold(leaf(0, Some(all)), |below, _| interior(&[0], all, vec![below]));
        Instant::new(vec![inner])
    };
    assert_eq!(tree(6).send(&[0, 0]), [0, 0]);
    assert!(std::panic::catch_unwind(|| tree(7)).is_err());
}

/// CAKE sends a packet of 1500 bytes every 12 ms at 1 Mb/s. Its class sleeps meanwhile, whatever
/// arrives, and holds nobody.
#[test]
fn a_class_whose_queue_waits_sleeps() {
    let cake = CakeConfig {
        limit: Limit::packets(100),
        bandwidth: Rate::new(1_000_000),
        framing: Framing { overhead: 0, mpu: 0, coding: Coding::None },
        diffserv: Diffserv::Besteffort,
        isolation: Isolation::Flows,
        rtt: Duration::from_secs(100), // it never drops
        target: Duration::from_secs(100),
        ack_filter: AckFilter::Off,
        wash: false,
        ingress: false,
    };
    let wide = HtbRates { burst: Bytes::new(1 << 20), ..plenty(rates(1000, 10_000, 1500)) };
    for rates in [Some(wide), None] {
        let queue = Queue::Cake(Box::new(Cake::new(cake, Stream::new(1, "cake"))));
        let kind = HtbClassKind::Leaf(Class::new(queue));
        let mut tree = Instant::new(vec![HtbSpec { kind, ..leaf(1, rates) }, leaf(0, Some(wide))]);
        assert_eq!(tree.send(&[1, 1, 0, 0]), [1, 0, 0]);
        assert_eq!(tree.send(&[0, 1, 0]), [0, 0]);
        for wait in 1..3 {
            let due = Time::ZERO + Duration::from_millis(12 * wait);
            let next = tree.htb.dequeue(tree.now, &mut tree.ledger);
            assert!(matches!(next, Dequeue::NotBefore(at) if at == due), "{next:?}");
            tree.now = due;
            assert_eq!(tree.send(&[]), [1]);
        }
        assert_eq!(tree.htb.dequeue(tree.now, &mut tree.ledger), Dequeue::Idle);
    }
}
