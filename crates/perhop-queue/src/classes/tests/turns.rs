//! Classes that take turns with strict ones, within their guarantees.

use super::*;

/// Returns the leaves of the packets that a link sends, for classes with these services of which
/// some are backlogged, for this time.
fn turns(services: &[ClassService], backlogged: &[usize], span: Duration) -> Vec<usize> {
    let specs = services.iter().enumerate().map(|(leaf, &service)| ClassSpec {
        matches: Match { dscps: vec![Dscp::new(leaf as u8).unwrap()], ..Match::default() }.into(),
        service,
        class: Class::new(Queue::Fifo(Fifo::new(Limit::packets(4)))),
    });
    let mut classes = Classes::sharing(specs.collect(), Sharing::LinkShare);
    let (mut now, mut sent) = (Time::ZERO, Vec::new());
    let mut ledger = Ledger::default();
    while now < Time::ZERO + span {
        for &leaf in backlogged {
            for _ in 0..4 {
                classes.enqueue(now, packet(1250, leaf as u8), &mut ledger);
            }
        }
        ledger.drops.clear();
        assert_eq!(classes.head(now), Some(Bytes::new(1250)));
        let Dequeue::Packet(packet) = classes.dequeue(now, &mut ledger) else { panic!("idle") };
        sent.push(usize::from(packet.header.dscp().get()));
        now += packet.size() / Rate::new(100_000_000).unwrap();
    }
    sent
}

/// Returns a service with a guarantee of so many Mb/s, and this priority for what exceeds it.
fn taking_turns(megabits: u64, priority: u8) -> ClassService {
    let weight = Weight::new(megabits * 1_000_000).unwrap();
    ClassService::Turns(weight, priority, weight)
}

fn shared(megabits: u64) -> ClassService {
    ClassService::Share(Weight::new(megabits * 1_000_000).unwrap(), 1)
}

fn count<const N: usize>(sent: &[usize]) -> [usize; N] {
    std::array::from_fn(|leaf| sent.iter().filter(|&&sent| sent == leaf).count())
}

/// A packet of 1250 B takes 0.1 ms, so that the link sends 10,000 in a second.
#[test]
fn a_class_takes_turns_with_a_strict_one_until_its_guarantee_is_used() {
    let second = Duration::from_secs(1);
    // 20% of the link are 2000 packets, and a full bucket has room for less than four more.
    let services = [ClassService::Strict, taking_turns(20, 0), shared(80)];
    let [strict, high, low] = count(&turns(&services, &[0, 1, 2], second));
    assert!((2_000..=2_004).contains(&high) && strict == 10_000 - high && low == 0, "{high}");
    // Without strict packets, guarantees are served as before.
    let [_, high, low] = count(&turns(&services, &[1, 2], second));
    assert!((2_000..=2_004).contains(&high) && low == 10_000 - high, "{high}");
    // More than half of the link is not used up in turns.
    let services = [ClassService::Strict, taking_turns(70, 0), shared(30)];
    let sent = turns(&services, &[0, 1, 2], second);
    assert_eq!(count::<3>(&sent), [5_000, 5_000, 0]);
    assert_eq!(sent[..6], [0, 1, 0, 1, 0, 1]);
}

/// Several classes take turns, each within its own guarantee; the first of the strict classes has
/// one turn for all of them. Buckets have room for less than six packets.
#[test]
fn several_classes_take_turns_with_strict_ones() {
    let second = Duration::from_secs(1);
    let (strict, low) = (ClassService::Strict, shared(70));
    let services = [taking_turns(20, 0), strict, taking_turns(10, 0), strict, low];
    for (backlogged, first) in [
        (&[0, 1, 2, 3, 4][..], [1, 0, 2, 1, 0, 2, 1, 0]),
        (&[0, 1, 2, 4], [1, 0, 2, 1, 0, 2, 1, 0]),
        (&[0, 2, 3, 4], [3, 0, 2, 3, 0, 2, 3, 0]),
        (&[0, 2, 4], [0, 2, 0, 2, 0, 2, 0, 2]),
        (&[1, 2, 4], [1, 2, 1, 2, 1, 2, 1, 2]),
        (&[0, 3], [3, 0, 3, 0, 3, 0, 3, 0]),
        (&[1, 3, 4], [1; 8]),
    ] {
        let sent = turns(&services, backlogged, second);
        assert_eq!(sent[..8], first, "{backlogged:?}");
        let found: [usize; 5] = count(&sent);
        let is_in = |leaf: &usize| backlogged.contains(leaf);
        for (leaf, packets) in [(0, 2_000), (2, 1_000)] {
            let range = if is_in(&leaf) { packets..=packets + 6 } else { 0..=0 };
            assert!(range.contains(&found[leaf]), "{backlogged:?}: {found:?}");
        }
        // The first strict class has the rest, or the class that shares it.
        let rest = [1, 3, 4].into_iter().find(is_in).unwrap();
        assert_eq!(found[rest], 10_000 - found[0] - found[2], "{backlogged:?}: {found:?}");
    }
}
