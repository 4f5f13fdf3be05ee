//! Packets on a wire.

use perhop_core::{Header, Packet, Time, prefetch_after};

/// Packets in order of arrival, with their arrival times. Moving whole packets between wires is
/// most of the cost of a hop, which this ring is made for: the number of slots is a power of two,
/// and packets are read in place.
#[derive(Debug)]
pub(crate) struct UnderWay<B> {
    slots: Vec<Slot<B>>,
    /// Slot of the first packet, before [`slot`](Self::slot) reduces it.
    first: usize,
    len: usize,
    /// Value of [`first`](Self::first) after the next pass over all slots; [`usize::MAX`] with few
    /// slots.
    around: usize,
}

/// Number of slots that are never freed.
const LEAST: usize = 1024;

/// Number of slots that are prefetched ahead of the first, because a long wire is not in the cache.
const AHEAD: usize = 8;

/// A packet and its arrival. Slots without a packet have one that is gone.
#[derive(Clone, Copy, Debug)]
struct Slot<B> {
    at: Time,
    packet: Packet<B>,
}

impl<B: Copy> UnderWay<B> {
    pub const fn new() -> Self {
        Self { slots: Vec::new(), first: 0, len: 0, around: usize::MAX }
    }

    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns the index of packet `number`, counted from the first.
    #[inline(always)]
    const fn slot(&self, number: usize) -> usize {
        (self.first + number) & (self.slots.len() - 1)
    }

    /// Returns the packet that arrives first, with the time of its arrival.
    #[inline(always)]
    pub fn first(&self) -> Option<(Time, &Packet<B>)> {
        self.get(0)
    }

    /// Returns packet `number`, counted from the first, with the time of its arrival.
    #[inline(always)]
    pub fn get(&self, number: usize) -> Option<(Time, &Packet<B>)> {
        if number >= self.len {
            return None;
        }
        let slot = &self.slots[self.slot(number)];
        Some((slot.at, &slot.packet))
    }

    /// Returns the time of the last arrival.
    pub fn last(&self) -> Option<Time> {
        (self.len > 0).then(|| self.slots[self.slot(self.len - 1)].at)
    }

    /// Removes the first packet.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Packet<B>> {
        let packet = self.first()?.1;
        prefetch_after(packet, AHEAD * size_of::<Slot<B>>());
        let packet = *packet;
        self.forget(1);
        Some(packet)
    }

    /// Adds a packet behind the others, to arrive at `at`.
    #[inline(always)]
    pub fn push(&mut self, at: Time, packet: Packet<B>) {
        self.append(at, &packet);
    }

    /// Adds a packet of another wire behind the others, to arrive here at `at`, with a time to live
    /// that is less by one. It stays there until it is [forgotten](Self::forget).
    #[inline(always)]
    pub fn copy(&mut self, at: Time, packet: &Packet<B>) {
        self.append(at, packet).ttl -= 1;
        prefetch_after(packet, AHEAD * size_of::<Slot<B>>());
    }

    /// Advances to the packet after the first `number`. After each pass, memory that a burst took
    /// is freed.
    #[inline(always)]
    pub fn forget(&mut self, number: usize) {
        debug_assert!(number <= self.len);
        self.first += number;
        self.len -= number;
        if self.first >= self.around {
            self.judge();
        }
    }

    /// Frees half of the slots if an eighth suffices now. The check is made once for as many
    /// packets as there are slots, so that a varying load does not cost much.
    #[cold]
    fn judge(&mut self) {
        self.rotate();
        if self.len <= self.slots.len() / 8 {
            self.slots.truncate(self.slots.len() / 2);
            self.slots.shrink_to_fit();
        }
        self.begin_round();
    }

    /// Brings the first packet into the first slot.
    fn rotate(&mut self) {
        if self.len > 0 {
            let first = self.slot(0);
            self.slots.rotate_left(first);
        }
        self.first = 0;
    }

    fn begin_round(&mut self) {
        self.around = if self.slots.len() > LEAST { self.slots.len() } else { usize::MAX };
    }

    /// Inserts a packet behind those with the same arrival or an earlier one; returns `true` if it
    /// is the first.
    pub fn insert(&mut self, at: Time, packet: Packet<B>) -> bool {
        self.push(at, packet);
        let mut number = self.len - 1;
        while number > 0 && self.slots[self.slot(number - 1)].at > at {
            let (one, other) = (self.slot(number - 1), self.slot(number));
            self.slots.swap(one, other);
            number -= 1;
        }
        number == 0
    }

    /// Removes the last `number` packets; returns them in order.
    pub fn split_off(&mut self, number: usize) -> Vec<Packet<B>> {
        let last = self.len - number..self.len;
        let packets = last.map(|number| self.slots[self.slot(number)].packet).collect();
        self.len -= number;
        packets
    }

    /// Adds a packet at the end, and returns a reference to its header. Callers change the header
    /// in place, because a copy of fields that were just written one by one stalls a processor.
    #[inline(always)]
    fn append(&mut self, at: Time, packet: &Packet<B>) -> &mut Header {
        if self.len == self.slots.len() {
            self.grow(packet);
        }
        let index = self.slot(self.len);
        self.len += 1;
        let slot = &mut self.slots[index];
        slot.at = at;
        slot.packet = *packet;
        &mut slot.packet.header
    }

    #[cold]
    fn grow(&mut self, filler: &Packet<B>) {
        self.rotate();
        let slots = (2 * self.slots.len()).max(4);
        self.slots.resize(slots, Slot { at: Time::MAX, packet: *filler });
        self.begin_round();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_core::{AckHint, NodeId, Protocol, Stream, TrafficClass};
    use std::collections::VecDeque;

    fn packet(body: u64) -> Packet<u64> {
        let header = Header {
            size: body as u32,
            source: NodeId(1),
            destination: NodeId(2),
            source_port: 3,
            destination_port: 4,
            protocol: Protocol::Udp.into(),
            traffic_class: TrafficClass::default(),
            ttl: 9,
            ack: AckHint::NONE,
        };
        Packet { header, body }
    }

    /// Compares two wires with two lists over a long mixture of operations.
    #[test]
    fn packets_keep_their_order() {
        let mut random = Stream::new(1, "wires");
        let mut wires = [UnderWay::new(), UnderWay::new()];
        let mut lists = [VecDeque::new(), VecDeque::new()];
        for number in 0..50_000 {
            let from = random.up_to(1) as usize;
            let last = |list: &VecDeque<(Time, Packet<u64>)>| {
                list.back().map_or(0, |(at, _): &(Time, _)| at.as_picos())
            };
            // Fills for a while, and empties for a while.
            match random.up_to(if number / 1000 % 2 == 0 { 7 } else { 4 }) {
                0..=2 => {
                    assert_eq!(
                        wires[from].pop(),
                        lists[from].pop_front().map(|(_, packet)| packet)
                    );
                }
                3 if !lists[from].is_empty() => {
                    let at = Time::from_picos(last(&lists[1 - from]) + random.up_to(9));
                    let [one, other] = &mut wires;
                    let (source, to) = if from == 0 { (one, other) } else { (other, one) };
                    to.copy(at, source.first().expect("there is one").1);
                    source.forget(1);
                    let (_, mut packet) = lists[from].pop_front().expect("it is not empty");
                    packet.header.ttl = packet.header.ttl.wrapping_sub(1);
                    lists[1 - from].push_back((at, packet));
                }
                4 if random.up_to(99) == 0 => {
                    let number = random.up_to(lists[from].len() as u64) as usize;
                    let rest = lists[from].split_off(lists[from].len() - number);
                    let rest: Vec<_> = rest.into_iter().map(|(_, packet)| packet).collect();
                    assert_eq!(wires[from].split_off(number), rest);
                }
                5 => {
                    let at = Time::from_picos(random.up_to(last(&lists[from])));
                    let slot = lists[from].partition_point(|(ahead, _)| *ahead <= at);
                    lists[from].insert(slot, (at, packet(number)));
                    assert_eq!(wires[from].insert(at, packet(number)), slot == 0);
                }
                _ => {
                    let at = Time::from_picos(last(&lists[from]) + random.up_to(9));
                    lists[from].push_back((at, packet(number)));
                    wires[from].push(at, packet(number));
                }
            }
            for (wire, list) in wires.iter().zip(&lists) {
                assert_eq!(wire.len(), list.len());
                assert_eq!(wire.first().map(|(at, packet)| (at, *packet)), list.front().copied());
                assert_eq!(wire.last(), list.back().map(|(at, _)| *at));
            }
        }
    }

    /// Slots double when they are full. Half of more than 1024 is freed after a pass if an eighth
    /// would do.
    #[test]
    fn slots_are_as_many_as_a_power_of_two() {
        for (most, then, slots, after) in [
            (1, 1, 4, 4),
            (4, 0, 4, 4),
            (5, 1, 8, 8),
            (1_024, 1, 1_024, 1_024),
            (1_025, 257, 2_048, 2_048),
            (1_025, 256, 2_048, 1_024),
            (2_048, 0, 2_048, 1_024),
            (4_096, 513, 4_096, 4_096),
            (4_096, 512, 4_096, 2_048),
        ] {
            let mut wire = UnderWay::new();
            (0..most).for_each(|number| wire.push(Time::from_picos(number), packet(number)));
            assert_eq!(wire.slots.len(), slots, "{most}");
            (then..most).for_each(|_| assert!(wire.pop().is_some()));
            // The rest of a pass over the slots.
            for number in most..slots as u64 + then {
                wire.push(Time::from_picos(number), packet(number));
                assert_eq!(wire.pop(), Some(packet(number - then)), "{most} {then}");
            }
            assert_eq!(wire.slots.len(), after, "{most} {then}");
            assert!(after == slots || wire.slots.capacity() == after, "{most} {then}");
            let first = slots as u64;
            let rest: Vec<u64> = (0..then as usize)
                .map(|number| wire.get(number).expect("it is there").1.body)
                .collect();
            assert_eq!(rest, (first..first + then).collect::<Vec<_>>(), "{most} {then}");
            assert!(wire.get(then as usize).is_none());
        }
    }

    #[test]
    fn what_a_burst_took_is_given_back() {
        let mut wire = UnderWay::new();
        for number in 0..100_000 {
            wire.push(Time::from_picos(number), packet(number));
        }
        for number in 0..600_000 {
            assert_eq!(wire.pop(), Some(packet(number)));
            if number >= 99_000 {
                wire.push(Time::ZERO, packet(number + 1_000));
            }
        }
        assert!((1_000..=4 * LEAST).contains(&wire.slots.len()), "{}", wire.slots.len());
    }
}
