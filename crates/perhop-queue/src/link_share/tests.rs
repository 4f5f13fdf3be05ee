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
    active: bool,
    green: bool,
    guaranteed: VirtualTime,
    borrowed: VirtualTime,
}

impl Reference {
    fn new(classes: &[(Weight, Priority)]) -> Self {
        let sum: u128 = classes.iter().map(|(rate, _)| u128::from(rate.get())).sum();
        let burst = Bytes::new(1500 * (1 + classes.len() as u64));
        let plain = |&(weight, priority): &(Weight, Priority)| Plain {
            bucket: TokenBucket::new(Rate::new(weight.get()).unwrap(), burst),
            priority: usize::from(priority),
            per_byte: (sum << 32) / u128::from(weight.get()),
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
        let time = u128::from(sent.get()) * share.per_byte;
        if share.green {
            self.green = share.guaranteed;
            share.guaranteed += time;
            share.bucket.take(sent);
            share.green = share.bucket.is_positive();
        } else {
            self.borrowers[share.priority] = share.borrowed;
            share.borrowed += time;
        }
        share.active = more;
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Activate(usize),
    /// The selected class sends; true if it is still backlogged.
    Serve(u64, bool),
    /// The selected class has nothing to send for now.
    Withdraw,
    /// A class sends the first packet of a busy period.
    Pass(usize, u64),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<usize>().prop_map(Step::Activate),
        12 => (40_u64..1501, prop::bool::weighted(0.8)).prop_map(|(b, more)| Step::Serve(b, more)),
        1 => Just(Step::Withdraw),
        1 => (any::<usize>(), 40_u64..1501).prop_map(|(class, bytes)| Step::Pass(class, bytes)),
        8 => (0_u64..20_000_000_000).prop_map(Step::Wait),
    ]
}

proptest! {
    /// The heaps decide as the reference does.
    #[test]
    fn it_decides_as_a_scan_does(
        classes in prop::collection::vec((1_000_u64..5_000_000, 0_u8..4), 1..20),
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let weighted = |&(rate, priority)| (Weight::new(rate).unwrap(), priority);
        let classes: Vec<(Weight, Priority)> = classes.iter().map(weighted).collect();
        let (mut fast, mut plain) = (LinkShare::new(&classes), Reference::new(&classes));
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
