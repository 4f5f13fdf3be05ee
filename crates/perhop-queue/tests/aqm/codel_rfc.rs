//! CoDel beside a second implementation, which follows RFC 8289's pseudocode line by line, and
//! instants of its control law by hand.

use std::collections::VecDeque;

use perhop_core::{Duration, Ecn, Stream, Time};
use perhop_queue::{Codel, CodelConfig, Discipline, Limit, Pass};

use crate::lab::*;

fn config(limit: u64) -> CodelConfig {
    CodelConfig {
        limit: Limit::packets(limit),
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
        ecn: true,
    }
}

fn picos(picos: u64) -> Time {
    Time::from_picos(picos)
}

/// A millisecond in picoseconds.
const MS: u64 = 1_000_000_000;
const INTERVAL: u64 = 100 * MS;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Waiting {
    id: Id,
    size: u64,
    since: u64,
    capable: bool,
}

/// The state of section 5.2; zero stands for "no time".
#[derive(Default)]
struct Reference {
    packets: VecDeque<Waiting>,
    longest: u64,
    first_above: u64,
    drop_next: u64,
    count: u64,
    last_count: u64,
    dropping: bool,
}

/// The packet that is sent, true if it is marked, and those that are dropped.
type Outcome = (Option<(Id, bool)>, Vec<Id>);

impl Reference {
    fn enqueue(&mut self, packet: Waiting, limit: usize) -> bool {
        self.longest = self.longest.max(packet.size);
        let room = self.packets.len() < limit;
        if room {
            self.packets.push_back(packet);
        }
        room
    }

    /// `dodequeue` of section 5.6.
    fn take(&mut self, now: u64) -> (Option<Waiting>, bool) {
        let Some(packet) = self.packets.pop_front() else {
            self.first_above = 0;
            return (None, false);
        };
        let bytes: u64 = self.packets.iter().map(|packet| packet.size).sum();
        let mut drop = false;
        if now - packet.since < 5 * MS || bytes <= self.longest {
            self.first_above = 0;
        } else if self.first_above == 0 {
            self.first_above = now + INTERVAL;
        } else if now >= self.first_above {
            drop = true;
        }
        (Some(packet), drop)
    }

    fn law(&self, from: u64) -> u64 {
        from + (INTERVAL as f64 / (self.count as f64).sqrt()) as u64
    }

    /// `deque` of section 5.5, where a mark takes the place of a drop and the packet is sent.
    fn dequeue(&mut self, now: u64) -> Outcome {
        let (mut packet, mut drop) = self.take(now);
        let (mut marked, mut dropped) = (false, Vec::new());
        if self.dropping {
            if !drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                let signalled = packet.unwrap();
                if signalled.capable {
                    marked = true;
                    self.drop_next = self.law(self.drop_next);
                    break;
                }
                dropped.push(signalled.id);
                (packet, drop) = self.take(now);
                match drop {
                    true => self.drop_next = self.law(self.drop_next),
                    false => self.dropping = false,
                }
            }
        } else if drop {
            let signalled = packet.unwrap();
            match signalled.capable {
                true => marked = true,
                false => {
                    dropped.push(signalled.id);
                    packet = self.take(now).0;
                }
            }
            self.dropping = true;
            let delta = self.count - self.last_count;
            let recent = now - self.drop_next < 16 * INTERVAL;
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = self.law(now);
            self.last_count = self.count;
        }
        (packet.map(|packet| (packet.id, marked)), dropped)
    }
}

/// Services and arrivals on a grid of half a millisecond: delays equal the target, and instants the
/// end of an interval.
#[test]
fn every_packet_has_the_fate_of_the_pseudocode() {
    let (mut marks, mut drops, mut passes) = (0, 0, 0);
    for seed in 0..120 {
        let mut numbers = Stream::new(seed, "codel");
        let limit = 20 + numbers.up_to(200);
        let (mut queue, mut reference) = (Codel::new(config(limit)), Reference::default());
        let (mut now, mut id) = (0, 0);
        while now < 6_000 * MS {
            // A phase of arrivals and services, each with a probability.
            let length = 20 * (1 + numbers.up_to(20));
            let (arrive, serve) = (numbers.up_to(9), 1 + numbers.up_to(8));
            let capable = numbers.up_to(2);
            let sizes = 1 + numbers.up_to(3);
            for _ in 0..length {
                now += MS / 2;
                if numbers.up_to(9) < arrive {
                    let size = 300 * (1 + numbers.up_to(sizes));
                    let capable = numbers.up_to(1) < capable;
                    let ecn = if capable { Ecn::Ect0 } else { Ecn::NotEct };
                    let offered = packet(id, 1, size as u32, ecn);
                    let waiting = Waiting { id, size, since: now, capable };
                    id += 1;
                    if queue.backlog().packets == 0 && numbers.up_to(1) == 0 {
                        // An idle link.
                        assert_eq!(queue.pass(picos(now), &offered.header), Pass::Send);
                        assert!(reference.enqueue(waiting, limit as usize));
                        assert_eq!(reference.dequeue(now), (Some((id - 1, false)), Vec::new()));
                        passes += 1;
                    } else {
                        let dropped = !offer(&mut queue, picos(now), offered).0.is_empty();
                        assert_eq!(dropped, !reference.enqueue(waiting, limit as usize));
                    }
                }
                if numbers.up_to(9) < serve {
                    let (sent, dropped) = next(&mut queue, picos(now));
                    let sent = sent.map(|sent| (sent.body, sent.header.ecn() == Ecn::Ce));
                    marks += usize::from(sent.is_some_and(|sent| sent.1));
                    drops += dropped.len();
                    assert_eq!((sent, dropped), reference.dequeue(now), "at {now}");
                }
                assert_eq!(queue.backlog().packets as usize, reference.packets.len());
                let bytes: u64 = reference.packets.iter().map(|packet| packet.size).sum();
                assert_eq!(queue.backlog().bytes.get(), bytes);
            }
        }
    }
    assert!(marks > 500 && drops > 500 && passes > 100, "{marks} {drops} {passes}");
}

/// Returns whether the packet that leaves at an instant, in picoseconds, is marked.
fn marked(queue: &mut Codel<Id>, now: u64) -> bool {
    next(queue, picos(now)).0.unwrap().header.ecn() == Ecn::Ce
}

fn fill(queue: &mut Codel<Id>, now: u64, packets: usize) {
    for id in 0..packets {
        assert!(offer(queue, picos(now), packet(id, 1, 1000, Ecn::Ect0)).0.is_empty());
    }
}

/// 100 ms over the roots of 1, 2 and 3 are 100, 70.710678118654… and 57.735026918962… ms.
#[test]
fn the_control_law_by_hand() {
    let mut queue = Codel::new(config(100));
    fill(&mut queue, 0, 50);
    // A wait of 5 ms is not below the target; an interval later the first mark.
    assert!(!marked(&mut queue, 5 * MS - 1) && !marked(&mut queue, 5 * MS));
    assert!(!marked(&mut queue, 105 * MS - 1) && marked(&mut queue, 105 * MS));
    assert!(!marked(&mut queue, 205 * MS - 1) && marked(&mut queue, 205 * MS));
    let third = 205 * MS + 70_710_678_118;
    assert!(!marked(&mut queue, third - 1) && marked(&mut queue, third));
    let fourth = third + 57_735_026_918;
    assert!(!marked(&mut queue, fourth - 1) && marked(&mut queue, fourth));
}

/// Three signals, of which the last two count for the next episode: it begins with a count of two
/// if the drop that was next is less than sixteen intervals ago, and of one from then on.
#[test]
fn sixteen_intervals_by_hand() {
    // The fourth would have come here.
    let next_drop = 205 * MS + 70_710_678_118 + 57_735_026_918;
    for (begins, second) in
        [(next_drop + 1600 * MS - 1, 70_710_678_118), (next_drop + 1600 * MS, 100 * MS)]
    {
        let mut queue = Codel::new(config(100));
        fill(&mut queue, 0, 20);
        for now in [5 * MS, 105 * MS, 205 * MS, 205 * MS + 70_710_678_118] {
            assert_eq!(marked(&mut queue, now), now > 5 * MS);
        }
        while next(&mut queue, picos(300 * MS)).0.is_some() {}
        fill(&mut queue, begins - 200 * MS, 50);
        assert!(!marked(&mut queue, begins - 100 * MS));
        assert!(!marked(&mut queue, begins - 1) && marked(&mut queue, begins));
        assert!(!marked(&mut queue, begins + second - 1) && marked(&mut queue, begins + second));
    }
}

/// Behind the packet that leaves at 10 ms wait 1000 bytes, the size of the longest packet, which is
/// no standing queue; with a byte more they are one, and the next packet is marked an interval
/// later. A packet of 1500 bytes that has passed an idle link counts as well.
#[test]
fn a_standing_queue_by_hand() {
    for (passed, last, stands) in
        [(None, 500, false), (None, 501, true), (Some(1500), 1000, false), (Some(1500), 1001, true)]
    {
        let mut queue = Codel::new(config(100));
        if let Some(size) = passed {
            let header = packet(0, 1, size, Ecn::Ect0).header;
            assert_eq!(queue.pass(picos(0), &header), Pass::Send);
        }
        for (id, size) in [1000, 500, last].into_iter().enumerate() {
            let _ = offer(&mut queue, picos(0), packet(id, 1, size, Ecn::Ect0));
        }
        assert!(!marked(&mut queue, 10 * MS));
        fill(&mut queue, 10 * MS, 10);
        assert_eq!(marked(&mut queue, 110 * MS), stands);
    }
}
