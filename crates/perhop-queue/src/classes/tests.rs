use proptest::prelude::*;

use super::*;
use crate::lab::packet;
use crate::{Fifo, Limit, Queue, Shaper};
use perhop_core::{Dscp, Duration, Rate};

const STRICT: ClassService = ClassService::Strict;

fn micros(micros: u64) -> Time {
    Time::ZERO + Duration::from_micros(micros)
}

fn spec(dscp: u8, service: ClassService, class: Class<()>) -> ClassSpec<()> {
    let dscps = vec![Dscp::new(dscp).unwrap()];
    ClassSpec { matches: Match { dscps, ..Match::default() }.into(), service, class }
}

fn fifo(packets: u64) -> Class<()> {
    Class::new(Queue::Fifo(Fifo::new(Limit::packets(packets)).dropping_at_head()))
}

/// Returns a class of 8 Mb/s, a byte in a microsecond, of the DSCPs 3n to 3n + 2: of a queue, whose
/// head may be dropped for another packet; or of strict classes, so that an arrival may change what
/// waits, and until when. These have no shapers of their own: [`Classes::head`] may name a class
/// that its shaper holds back, for whose packet the shaper around it would wait.
fn shaped(number: u8, packets: u64, burst: u64) -> Class<()> {
    let shaper = |burst| Shaper::new(Rate::new(8_000_000).unwrap(), Bytes::new(burst));
    let class = if packets < 3 {
        fifo(packets)
    } else {
        let inner = vec![
            spec(3 * number, STRICT, fifo(2)),
            spec(3 * number + 1, STRICT, fifo(packets)),
            spec(3 * number + 2, STRICT, fifo(1)),
        ];
        Class::new(Queue::Classes(Box::new(Classes::new(inner))))
    };
    class.shaped(shaper(burst))
}

/// A packet that waits for the shaper until 1000 µs makes room for one that need not wait, and the
/// next one must wait until the same instant again, whether the class was polled in between or not.
#[test]
fn a_class_that_was_woken_may_sleep_until_the_same_instant() {
    for polled in [false, true] {
        for service in [STRICT, ClassService::Share(Weight::new(1).unwrap(), 0)] {
            let mut classes = Classes::new(vec![spec(0, service, shaped(0, 1, 1500))]);
            let mut ledger = Ledger::new();
            let mut send = |classes: &mut Classes<()>, at, size| {
                classes.enqueue(micros(at), packet(size, 0), &mut ledger);
                classes.dequeue(micros(at), &mut ledger)
            };
            assert_eq!(send(&mut classes, 0, 1500), Dequeue::Packet(packet(1500, 0)));
            assert_eq!(send(&mut classes, 0, 1000), Dequeue::NotBefore(micros(1000)));
            assert_eq!(send(&mut classes, 100, 40), Dequeue::Packet(packet(40, 0)));
            if polled {
                assert_eq!(classes.dequeue(micros(100), &mut Ledger::new()), Dequeue::Idle);
            }
            assert_eq!(send(&mut classes, 100, 960), Dequeue::NotBefore(micros(1000)));
            assert_eq!(classes.head(micros(100)), Some(Bytes::new(960)));
            let next = classes.dequeue(micros(1000), &mut ledger);
            assert_eq!(next, Dequeue::Packet(packet(960, 0)));
            assert_eq!(ledger.drops.len(), 1);
        }
    }
}

/// Strict classes without a scheduler: each is polled in turn until one sends.
struct Polled(Vec<Class<()>>);

impl Polled {
    fn dequeue(&mut self, now: Time, ledger: &mut Ledger<()>) -> Dequeue<()> {
        let mut first = Time::MAX;
        for class in &mut self.0 {
            match class.dequeue(now, ledger) {
                Dequeue::NotBefore(at) => first = first.min(at),
                Dequeue::Idle => {}
                sent @ Dequeue::Packet(_) => return sent,
            }
        }
        if first < Time::MAX { Dequeue::NotBefore(first) } else { Dequeue::Idle }
    }

    fn backlogs(&self) -> Vec<Backlog> {
        self.0.iter().map(Class::backlog).collect()
    }
}

proptest! {
    /// Classes that sleep and wake send what they would send if each was polled all the time, at
    /// the same instants.
    #[test]
    fn sleepers_do_as_if_they_were_polled(
        plans in prop::collection::vec((1_u64..5, 0_u64..3_000), 1..5),
        steps in prop::collection::vec(
            (0_u8..12, prop_oneof![Just(0_u32), 40..400_u32, 40..1500_u32],
             prop_oneof![Just(0_u64), 0..300_u64, 0..4_000_u64]),
            1..120,
        ),
        shared in any::<bool>(),
    ) {
        let class = |(number, (packets, burst))| shaped(number, packets, burst);
        let classes = || (0..).zip(plans.clone()).map(class).collect::<Vec<_>>();
        let last = plans.len() - 1;
        let spec = |(number, class)| ClassSpec {
            matches: MatchRules::from(Match {
                dscps: (0..3).map(|inner| Dscp::new(3 * number as u8 + inner).unwrap()).collect(),
                ..Match::default()
            }),
            // A class alone has the same turns by its share.
            service: match shared && number == last {
                true => ClassService::Share(Weight::new(7).unwrap(), 0),
                false => STRICT,
            },
            class,
        };
        let mut asleep = Classes::new(classes().into_iter().enumerate().map(spec).collect());
        let mut polled = Polled(classes());
        let (mut dropped, mut expected) = (Ledger::new(), Ledger::new());
        let mut now = Time::ZERO;
        for (dscp, size, gap) in steps {
            let until = now + Duration::from_micros(gap);
            // A link that takes no time polls whenever it was told to.
            loop {
                let head = asleep.head(now);
                let next = asleep.dequeue(now, &mut dropped);
                prop_assert_eq!(next, polled.dequeue(now, &mut expected));
                let backlogs: Vec<_> = asleep.classes().iter().map(Class::backlog).collect();
                prop_assert_eq!(&backlogs, &polled.backlogs());
                let waiting = backlogs.iter().map(|each| each.packets).sum::<u64>();
                let bytes = backlogs.iter().fold(Bytes::ZERO, |sum, each| sum + each.bytes);
                prop_assert_eq!(asleep.backlog(), Backlog { packets: waiting, bytes });
                match next {
                    Dequeue::Packet(sent) => prop_assert_eq!(head, Some(sent.size())),
                    Dequeue::NotBefore(at) => {
                        prop_assert!(at > now && head.is_some());
                        if at > until {
                            break;
                        }
                        now = at;
                    }
                    Dequeue::Idle => {
                        prop_assert_eq!((head, waiting), (None, 0));
                        break;
                    }
                }
            }
            now = until;
            // Packets without a class of their own go to the last one, as does a DSCP's.
            if size > 0 {
                let class = usize::from(dscp / 3).min(last);
                let packet = packet(size, dscp);
                asleep.enqueue(now, packet, &mut dropped);
                polled.0[class].enqueue(now, packet, &mut expected);
                prop_assert_eq!(&dropped.drops, &expected.drops);
            }
        }
    }
}
