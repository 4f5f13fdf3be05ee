use super::*;
use proptest::prelude::*;

/// A reference implementation that examines every class at each decision.
struct Reference {
    shares: Vec<Plain>,
    green: VirtualTime,
    borrowers: Vec<VirtualTime>,
}

struct Plain {
    bucket: TokenBucket,
    priority: usize,
    per_byte: VirtualTime,
    per_borrowed: VirtualTime,
    active: bool,
    green: bool,
    guaranteed: VirtualTime,
    borrowed: VirtualTime,
}

impl Reference {
    fn new(classes: &[(Weight, Priority, Weight)]) -> Self {
        let sum = |weight: fn(&(Weight, Priority, Weight)) -> Weight| -> u128 {
            classes.iter().map(|class| u128::from(weight(class).get())).sum()
        };
        let (sum, excesses) = (sum(|class| class.0), sum(|class| class.2));
        let burst = Bytes::new(1500 * (1 + classes.len() as u64));
        let plain = |&(weight, priority, excess): &(Weight, Priority, Weight)| Plain {
            bucket: TokenBucket::new(Rate::new(weight.get()).unwrap(), burst),
            priority: usize::from(priority),
            per_byte: (sum << 32) / u128::from(weight.get()),
            per_borrowed: (excesses << 32) / u128::from(excess.get()),
            active: false,
            green: true,
            guaranteed: 0,
            borrowed: 0,
        };
        Self { shares: classes.iter().map(plain).collect(), green: 0, borrowers: vec![0; 8] }
    }

    fn advance(&mut self, now: Time) {
        for share in &mut self.shares {
            let _ = share.bucket.fill(now);
            if share.bucket.is_positive() && !share.green {
                share.guaranteed = share.guaranteed.max(self.green);
            }
            share.green = share.bucket.is_positive();
        }
    }

    fn activate(&mut self, class: usize) {
        let share = &mut self.shares[class];
        share.active = true;
        share.guaranteed = share.guaranteed.max(self.green);
        share.borrowed = share.borrowed.max(self.borrowers[share.priority]);
    }

    fn select(&self) -> Option<usize> {
        let key = |share: &Plain| match share.green {
            true => (false, 0, share.guaranteed),
            false => (true, share.priority, share.borrowed),
        };
        let active = self.shares.iter().enumerate().filter(|(_, share)| share.active);
        active.min_by_key(|(_, share)| key(share)).map(|(class, _)| class)
    }

    fn served(&mut self, class: usize, sent: Bytes, more: bool) {
        let share = &mut self.shares[class];
        let sent_bytes = u128::from(sent.get());
        if share.green {
            self.green = share.guaranteed;
            share.guaranteed += sent_bytes * share.per_byte;
            share.bucket.take(sent);
            share.green = share.bucket.is_positive();
        } else {
            self.borrowers[share.priority] = share.borrowed;
            share.borrowed += sent_bytes * share.per_borrowed;
        }
        share.active = more;
    }

    /// A green class sends out of order: it pays, and keeps its place among the green ones.
    fn served_before(&mut self, class: usize, sent: Bytes, more: bool) {
        let share = &mut self.shares[class];
        share.bucket.take(sent);
        share.green = share.bucket.is_positive();
        share.active = more;
        if more && !share.green {
            share.borrowed = share.borrowed.max(self.borrowers[share.priority]);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Activate(usize),
    /// The selected class sends; true if it is still backlogged.
    Serve(u64, bool),
    /// A class within its guarantee sends, whether selected or not; true if it is still backlogged.
    Before(usize, u64, bool),
    /// The selected class has nothing to send for now.
    Withdraw,
    /// Any class has nothing to send for now.
    WithdrawAny(usize),
    /// A class sends the first packet of a busy period.
    Pass(usize, u64),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<usize>().prop_map(Step::Activate),
        12 => (40_u64..1501, prop::bool::weighted(0.8)).prop_map(|(b, more)| Step::Serve(b, more)),
        2 => (any::<usize>(), 40_u64..1501, prop::bool::weighted(0.8))
            .prop_map(|(class, bytes, more)| Step::Before(class, bytes, more)),
        1 => Just(Step::Withdraw),
        1 => any::<usize>().prop_map(Step::WithdrawAny),
        1 => (any::<usize>(), 40_u64..1501).prop_map(|(class, bytes)| Step::Pass(class, bytes)),
        8 => (0_u64..20_000_000_000).prop_map(Step::Wait),
    ]
}

proptest! {
    /// The heaps decide as the reference does.
    #[test]
    fn it_decides_as_a_scan_does(
        classes in prop::collection::vec(
            (1_000_u64..5_000_000, 0_u8..4, prop::option::of(1_u64..100)), 1..20,
        ),
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let weighted = |&(rate, priority, excess): &(u64, Priority, Option<u64>)| {
            (weight(rate), priority, weight(excess.unwrap_or(rate)))
        };
        let classes: Vec<(Weight, Priority, Weight)> = classes.iter().map(weighted).collect();
        let mut plain = Reference::new(&classes);
        let mut fast = match classes.iter().all(|class| class.0 == class.2) {
            // The guarantees are the weights.
            true => LinkShare::new(&classes.iter().map(|c| (c.0, c.1)).collect::<Vec<_>>()),
            false => LinkShare::with_excess(&classes),
        };
        let mut now = Time::ZERO;
        for step in steps {
            match step {
                Step::Activate(class) => {
                    let class = class % classes.len();
                    if !plain.shares[class].active {
                        fast.activate(class);
                        plain.activate(class);
                    }
                }
                Step::Serve(bytes, more) => {
                    if let Some(class) = plain.select() {
                        fast.served(class, Bytes::new(bytes), more);
                        plain.served(class, Bytes::new(bytes), more);
                    }
                }
                Step::Before(class, bytes, more) => {
                    let class = class % classes.len();
                    let Plain { active, green, .. } = plain.shares[class];
                    prop_assert_eq!(fast.is_guaranteed(class), active && green);
                    if active && green {
                        fast.served_before(class, Bytes::new(bytes), more);
                        plain.served_before(class, Bytes::new(bytes), more);
                    }
                }
                Step::WithdrawAny(class) => {
                    let class = class % classes.len();
                    fast.withdraw(class);
                    plain.shares[class].active = false;
                }
                Step::Withdraw => {
                    if let Some(class) = plain.select() {
                        fast.withdraw(class);
                        plain.shares[class].active = false;
                    }
                }
                Step::Pass(class, bytes) => {
                    let class = class % classes.len();
                    if plain.select().is_none() {
                        fast.served(class, Bytes::new(bytes), false);
                        plain.served(class, Bytes::new(bytes), false);
                    }
                }
                Step::Wait(picos) => now += perhop_core::Duration::from_picos(picos),
            }
            fast.advance(now);
            plain.advance(now);
            prop_assert_eq!(fast.select(), plain.select());
        }
    }
}

fn weight(weight: u64) -> Weight {
    Weight::new(weight).unwrap()
}

/// Returns how many of `packets` packets of 100 bytes each of two backlogged classes sends.
fn counts(mut next: impl FnMut() -> usize, packets: usize) -> [usize; 2] {
    let mut counts = [0; 2];
    (0..packets).for_each(|_| counts[next()] += 1);
    counts
}

/// Guarantees of 3 and 1 kb/s are paid from buckets of 4500 bytes, 45 packets, until they are
/// overdrawn by one more: in the first 60 packets 45 and 15, then the other 1 and 31. What exceeds
/// them is divided by the weights for it, 1 and 4, and not by the guarantees.
#[test]
fn excess_is_divided_by_its_own_weights() {
    let mut shares =
        LinkShare::with_excess(&[(weight(3_000), 0, weight(1)), (weight(1_000), 0, weight(4))]);
    (0..2).for_each(|class| shares.activate(class));
    let mut next = || {
        let class = shares.select().unwrap();
        shares.served(class, Bytes::new(100), true);
        class
    };
    assert_eq!(counts(&mut next, 60), [45, 15]);
    assert_eq!(counts(&mut next, 32), [1, 31]);
    assert_eq!(counts(&mut next, 500), [100, 400]);
}

/// The same by the classes of a link.
#[test]
fn classes_lend_by_the_weights_for_excess() {
    use crate::{Class, Queue, Sharing};
    use crate::{
        ClassService, ClassSpec, Classes, Dequeue, Discipline, Fifo, Ledger, Limit, Match,
    };
    let spec = |dscp: u8, guarantee, excess| ClassSpec {
        matches: Match { dscps: vec![perhop_core::Dscp::new(dscp).unwrap()], ..Match::default() }
            .into(),
        service: ClassService::Lent(weight(guarantee), 0, weight(excess)),
        class: Class::new(Queue::Fifo(Fifo::new(Limit::packets(1_000)))),
    };
    let specs = vec![spec(0, 3_000, 1), spec(1, 1_000, 4)];
    let mut classes = Classes::sharing(specs, Sharing::LinkShare);
    let mut ledger = Ledger::new();
    for number in 0..2_000_u32 {
        classes.enqueue(Time::ZERO, crate::lab::packet(100, (number % 2) as u8), &mut ledger);
    }
    let mut next = || match classes.dequeue(Time::ZERO, &mut ledger) {
        Dequeue::Packet(packet) => usize::from(packet.header.dscp().get()),
        other => panic!("{other:?}"),
    };
    assert_eq!(counts(&mut next, 92), [46, 46]);
    assert_eq!(counts(&mut next, 500), [100, 400]);
}
