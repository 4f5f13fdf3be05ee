use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// Packets of a class that arrive before the scheduler has sent this many bytes.
#[derive(Clone, Debug)]
struct Arrival {
    at: u64,
    class: usize,
    size: u64,
}

fn arrivals(classes: usize) -> impl Strategy<Value = Vec<Arrival>> {
    let one = (0_u64..60_000, 0..classes, 40_u64..1501).prop_map(|(at, class, size)| Arrival {
        at,
        class,
        size,
    });
    prop::collection::vec(one, 1..80).prop_map(|mut all| {
        all.sort_by_key(|arrival| arrival.at);
        all
    })
}

/// Arrivals for 2 to 5 classes, and their quanta.
fn traffic() -> impl Strategy<Value = (Vec<u64>, Vec<Arrival>)> {
    prop::collection::vec(64_u64..6_000, 2..6)
        .prop_flat_map(|quanta| (Just(quanta.clone()), arrivals(quanta.len())))
}

fn with_quanta(quanta: &[u64]) -> Drr {
    Drr::with_quanta(&quanta.iter().map(|&q| Weight::new(q).unwrap()).collect::<Vec<_>>())
}

/// A packet that was sent: its class, its size, and the bytes sent before it.
type Sent = (usize, u64, u64);

/// Sends all packets of `arrivals` in the order of [`Drr`].
fn order(quanta: &[u64], arrivals: &[Arrival]) -> Vec<Sent> {
    let mut drr = with_quanta(quanta);
    let mut queues = vec![VecDeque::new(); quanta.len()];
    let (mut sent, mut now, mut next) = (Vec::new(), 0, 0);
    loop {
        while let Some(arrival) = arrivals.get(next).filter(|arrival| arrival.at <= now) {
            queues[arrival.class].push_back(arrival.size);
            if queues[arrival.class].len() == 1 {
                drr.activate(arrival.class, Bytes::new(arrival.size));
            }
            next += 1;
        }
        let Some(class) = drr.select() else {
            match arrivals.get(next) {
                Some(arrival) => now = arrival.at,
                None => return sent,
            }
            continue;
        };
        let size = queues[class].pop_front().unwrap();
        sent.push((class, size, now));
        now += size;
        drr.served(class, Bytes::new(size), queues[class].front().map(|&head| Bytes::new(head)));
    }
}

/// The same by the description of `sch_ets` and `sch_drr`: a class that becomes backlogged joins
/// the end of a list with its quantum as its deficit. The first of the list sends while its deficit
/// covers its packet; then it gets a quantum more and goes to the end.
fn order_of_linux(quanta: &[u64], arrivals: &[Arrival]) -> Vec<Sent> {
    let mut queues = vec![VecDeque::new(); quanta.len()];
    let mut list: Vec<(usize, u64)> = Vec::new();
    let (mut sent, mut now) = (Vec::new(), 0);
    let mut coming: VecDeque<&Arrival> = arrivals.iter().collect();
    while !coming.is_empty() || !list.is_empty() {
        if list.is_empty() {
            now = now.max(coming[0].at);
        }
        while coming.front().is_some_and(|arrival| arrival.at <= now) {
            let Arrival { class, size, .. } = *coming.pop_front().unwrap();
            if queues[class].is_empty() {
                list.push((class, quanta[class]));
            }
            queues[class].push_back(size);
        }
        let (class, deficit) = list[0];
        let size = queues[class][0];
        if size > deficit {
            list.remove(0);
            list.push((class, deficit + quanta[class]));
            continue;
        }
        list[0].1 -= size;
        queues[class].pop_front();
        sent.push((class, size, now));
        now += size;
        if queues[class].is_empty() {
            list.remove(0);
        }
    }
    sent
}

proptest! {
    #[test]
    fn quanta_give_the_order_of_linux((quanta, arrivals) in traffic()) {
        prop_assert_eq!(order(&quanta, &arrivals), order_of_linux(&quanta, &arrivals));
    }

    /// A packet that finds its class idle and fits into the quantum is sent in the first turn of
    /// its class. Until then every other class has had one turn at most, in which it sends its
    /// quantum and what it kept, less than a packet; and one packet is being sent.
    #[test]
    fn an_idle_class_waits_for_one_turn_of_each_other((quanta, arrivals) in traffic()) {
        let sent = order(&quanta, &arrivals);
        for class in 0..quanta.len() {
            let own: Vec<Sent> = sent.iter().copied().filter(|each| each.0 == class).collect();
            let came = arrivals.iter().filter(|arrival| arrival.class == class);
            let mut idle_from = 0;
            for (&(_, size, at), arrival) in own.iter().zip(came) {
                if arrival.at > idle_from && size <= quanta[class] {
                    let others: u64 = (0..quanta.len())
                        .filter(|&other| other != class)
                        .map(|other| quanta[other] + 1500)
                        .sum();
                    prop_assert!(at - arrival.at <= others + 1500, "{at} {arrival:?}");
                }
                idle_from = at + size;
            }
        }
    }

    /// The bound of theorem 2 for given quanta, which need not hold a packet: the amounts that two
    /// backlogged classes have sent, each over its quantum, differ by at most one turn and a packet
    /// of each.
    #[test]
    fn quanta_share_within_a_turn_and_a_packet(
        quanta in prop::collection::vec(64_u64..6_000, 2..6),
        sizes in prop::collection::vec(40_u64..1501, 400),
    ) {
        let mut drr = with_quanta(&quanta);
        let mut sizes = sizes.into_iter().cycle();
        let mut heads: Vec<u64> = quanta.iter().map(|_| sizes.next().unwrap()).collect();
        for (class, head) in heads.iter().enumerate() {
            drr.activate(class, Bytes::new(*head));
        }
        let mut sent = vec![0; quanta.len()];
        for _ in 0..2_000 {
            let class = drr.select().unwrap();
            sent[class] += heads[class];
            let size = std::mem::replace(&mut heads[class], sizes.next().unwrap());
            drr.served(class, Bytes::new(size), Some(Bytes::new(heads[class])));
            let turns = |class: usize| sent[class] as f64 / quanta[class] as f64;
            for (a, b) in (0..quanta.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
                let bound = 1.0 + 1500.0 / quanta[a] as f64 + 1500.0 / quanta[b] as f64;
                prop_assert!((turns(a) - turns(b)).abs() <= bound + 1e-9);
            }
        }
    }

    /// The paper's theorem 2: while two classes are backlogged, the amounts that they have
    /// sent, each in units of its weight, differ by at most `Q + 2 · max / f` over any
    /// interval. Q is the least quantum and f the weight relative to the least, of which the
    /// smaller is 1.
    #[test]
    fn the_fairness_bound_holds(
        weights in prop::collection::vec(1_u64..50, 2..6),
        sizes in prop::collection::vec(40_u64..1501, 400),
    ) {
        let weight: Vec<Weight> = weights.iter().map(|&w| Weight::new(w).unwrap()).collect();
        let mut drr = Drr::new(&weight);
        let least = *weights.iter().min().unwrap() as f64;
        let share = |class: usize| weights[class] as f64 / least;
        let mut sizes = sizes.into_iter().cycle();
        let mut heads: Vec<u64> = weights.iter().map(|_| sizes.next().unwrap()).collect();
        for (class, head) in heads.iter().enumerate() {
            drr.activate(class, Bytes::new(*head));
        }
        let mut sent = vec![0.0; weights.len()];
        // Over any interval: the highest and lowest difference between two classes.
        let mut extremes = vec![(0.0_f64, 0.0_f64); weights.len() * weights.len()];
        for _ in 0..3_000 {
            let class = drr.select().unwrap();
            sent[class] += heads[class] as f64;
            let size = std::mem::replace(&mut heads[class], sizes.next().unwrap());
            drr.served(class, Bytes::new(size), Some(Bytes::new(heads[class])));
            for a in 0..weights.len() {
                for b in 0..a {
                    let gap = sent[a] / share(a) - sent[b] / share(b);
                    let (low, high) = &mut extremes[a * weights.len() + b];
                    (*low, *high) = (low.min(gap), high.max(gap));
                    let bound =
                        1500.0 + 1500.0 / share(a) + 1500.0 / share(b) + 3_000.0 * 1e-9;
                    // Quanta are whole bytes: a rounding of less than 1 in 1500 per turn.
                    let rounding = (sent[a] / share(a)).max(sent[b] / share(b)) / 1500.0;
                    let gap = *high - *low;
                    prop_assert!(gap <= bound + rounding, "{gap} > {bound}");
                }
            }
        }
    }
}

/// Sends from queues of packets until all are empty; returns the classes and sizes in order.
fn drain(drr: &mut Drr, queues: &[&[u64]]) -> Vec<(usize, u64)> {
    let mut queues: Vec<VecDeque<u64>> =
        queues.iter().map(|queue| queue.iter().copied().collect()).collect();
    for (class, queue) in queues.iter().enumerate() {
        if let Some(head) = queue.front() {
            drr.activate(class, Bytes::new(*head));
        }
    }
    let mut sent = Vec::new();
    while let Some(class) = drr.select() {
        let size = queues[class].pop_front().unwrap();
        drr.served(class, Bytes::new(size), queues[class].front().map(|head| Bytes::new(*head)));
        sent.push((class, size));
    }
    sent
}

/// The paper's figures 2 and 3: four queues with a quantum of 500. The deficits after each turn, by
/// hand: 300, 0, 400, 320; then 30, 0, 100, 70. The packet of 500 takes exactly its quantum.
#[test]
fn the_example_of_the_paper() {
    let mut drr = with_quanta(&[500; 4]);
    let queues: [&[u64]; 4] = [&[200, 750, 20], &[500, 500], &[100, 600, 200], &[180, 700, 50]];
    let first = [(0, 200), (1, 500), (2, 100), (3, 180)];
    let second = [(0, 750), (0, 20), (1, 500), (2, 600), (2, 200), (3, 700), (3, 50)];
    assert_eq!(drain(&mut drr, &queues), [&first[..], &second].concat());
    // No class keeps the credit with which it became empty: the same again.
    assert_eq!(drain(&mut drr, &queues), [&first[..], &second].concat());
}

/// A class that became empty with a deficit of 300 begins at its quantum of 500 again, which a
/// packet of 501 exceeds.
#[test]
fn an_empty_class_keeps_no_credit() {
    let mut drr = with_quanta(&[500, 500]);
    assert_eq!(drain(&mut drr, &[&[200], &[]]), [(0, 200)]);
    assert_eq!(drain(&mut drr, &[&[501], &[400, 100]]), [(1, 400), (1, 100), (0, 501)]);
}

/// A head that was announced with 500 bytes is replaced by one of 1300, which leaves a debt of 800.
/// The class becomes empty, comes back, and needs two quanta of 500 for a packet of 100.
#[test]
fn an_empty_class_keeps_its_debt() {
    let mut drr = with_quanta(&[500, 500]);
    drr.activate(0, Bytes::new(500));
    assert_eq!(drr.select(), Some(0));
    drr.served(0, Bytes::new(1300), None);
    let sent = drain(&mut drr, &[&[100], &[500, 500]]);
    assert_eq!(sent, [(1, 500), (0, 100), (1, 500)]);
}

/// Weights 3, 2 and 7: 1500 · 7 / 2 = 5250 bytes, the least 1500.
#[test]
fn the_least_quantum_is_a_payload_of_ethernet() {
    let weights = [3, 2, 7].map(|weight| Weight::new(weight).unwrap());
    let drr = Drr::new(&weights);
    assert_eq!([0, 1, 2].map(|class| drr.quantum(class).get()), [2250, 1500, 5250]);
    assert_eq!(Drr::with_quanta(&weights).quantum(2), Bytes::new(7));
    // No quantum is above 2⁴⁸ bytes, so that deficits do not overflow.
    let most = 1 << 48;
    let weights = [1, most / 1500, most / 1500 + 1, most, u64::MAX];
    let weights = weights.map(|weight| Weight::new(weight).unwrap());
    let quanta = |drr: Drr| [0, 1, 2, 3, 4].map(|class| drr.quantum(class).get());
    let below = most / 1500 * 1500;
    assert_eq!(quanta(Drr::new(&weights)), [1500, below, most, most, most]);
    assert_eq!(quanta(Drr::with_quanta(&weights))[3..], [most, most]);
}

/// Quanta of 500 and 300, and packets of 500, 500 and 300, 300: each class sends one with exactly
/// its deficit, and has none left. Packets of 501 and 301 need two turns each.
#[test]
fn a_deficit_covers_a_packet_of_its_size() {
    let mut drr = with_quanta(&[500, 300]);
    let sent = drain(&mut drr, &[&[500, 500], &[300, 300]]);
    assert_eq!(sent, [(0, 500), (1, 300), (0, 500), (1, 300)]);
    // 500 and 300 are not enough; of 1000 and 600, 499 and 299 are left, and a quantum more is
    // exactly the next packet.
    let sent = drain(&mut drr, &[&[501, 999, 1], &[301, 599, 2]]);
    assert_eq!(sent, [(0, 501), (1, 301), (0, 999), (1, 599), (0, 1), (1, 2)]);
}

/// A class that waits, such as for a shaper, loses its credit and its turn, but not its debt.
#[test]
fn a_class_that_is_withdrawn_begins_anew() {
    let mut drr = with_quanta(&[500, 500]);
    (0..2).for_each(|class| drr.activate(class, Bytes::new(200)));
    assert_eq!(drr.select(), Some(0));
    drr.served(0, Bytes::new(200), Some(Bytes::new(200)));
    drr.withdraw(0);
    // It goes behind the other class, and has 500 bytes then, not 800.
    drr.activate(0, Bytes::new(501));
    assert_eq!(drr.select(), Some(1));
    drr.served(1, Bytes::new(200), Some(Bytes::new(301)));
    // Both lack a byte in their turns, and class 1, which has kept 300, has its next turn first.
    assert_eq!(drr.select(), Some(1));
    drr.served(1, Bytes::new(301), None);
    assert_eq!(drr.select(), Some(0));
    drr.served(0, Bytes::new(501), None);
    assert_eq!(drr.select(), None);
}

/// Turns and packets in units of 100 bytes, so that deficits often equal the head packet.
#[test]
fn coarse_quanta_give_the_order_of_linux() {
    let mut numbers = perhop_core::Stream::new(1, "drr");
    for _ in 0..300 {
        let mut upto = |limit| numbers.up_to(limit);
        let quanta: Vec<u64> = (0..2 + upto(2)).map(|_| 100 * (1 + upto(9))).collect();
        let mut at = 0;
        let arrivals: Vec<Arrival> = (0..60)
            .map(|_| {
                at += 100 * upto(12);
                let class = upto(quanta.len() as u64 - 1) as usize;
                Arrival { at, class, size: 100 * (1 + upto(9)) }
            })
            .collect();
        assert_eq!(order(&quanta, &arrivals), order_of_linux(&quanta, &arrivals));
    }
}
