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
