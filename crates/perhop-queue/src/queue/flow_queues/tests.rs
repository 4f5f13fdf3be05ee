use proptest::prelude::*;

use super::*;
use crate::lab::packet;

/// DRR++ by the text of RFC 8290, section 4.2, with a visit for each turn.
struct Plain {
    quantum: i64,
    /// Credit, lengths of waiting packets, and `true` if the queue is in a list.
    queues: Vec<(i64, VecDeque<u32>, bool)>,
    new: VecDeque<u16>,
    old: VecDeque<u16>,
}

impl Plain {
    fn push(&mut self, index: u16, size: u32) {
        let (credit, waiting, active) = &mut self.queues[usize::from(index)];
        waiting.push_back(size);
        if !*active {
            (*credit, *active) = (self.quantum, true);
            self.new.push_back(index);
        }
    }

    fn pop(&mut self) -> Option<u16> {
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new { &mut self.new } else { &mut self.old };
            let index = *list.front()?;
            let (credit, waiting, active) = &mut self.queues[usize::from(index)];
            if *credit > 0
                && let Some(size) = waiting.pop_front()
            {
                *credit -= i64::from(size);
                return Some(index);
            }
            list.pop_front();
            if *credit <= 0 {
                *credit += self.quantum;
                self.old.push_back(index);
            } else if from_new {
                self.old.push_back(index);
            } else {
                *active = false;
            }
        }
    }

    /// Returns the first packet of the queue that needs the fewest rounds, by trying them.
    fn head(&self) -> Option<u32> {
        (0..).find_map(|rounds| {
            let lists = self.new.iter().chain(&self.old);
            let queues = lists.map(|&index| &self.queues[usize::from(index)]);
            let mut queues = queues.filter(|(_, waiting, _)| !waiting.is_empty()).peekable();
            if queues.peek().is_none() {
                return Some(None);
            }
            queues
                .find(|(credit, ..)| credit + rounds * self.quantum > 0)
                .map(|(_, waiting, _)| Some(waiting[0]))
        })?
    }
}

proptest! {
    /// Rounds that are passed over change no order, whatever the quantum, and whenever packets
    /// arrive.
    #[test]
    fn turns_are_those_of_visit_after_visit(
        quantum in prop_oneof![1_u32..4, 1_u32..100, 1_u32..2_000],
        steps in prop::collection::vec(
            prop::option::weighted(0.5, (0_u16..6, 1_u32..1_500)),
            1..300,
        ),
    ) {
        let mut random = Stream::new(1, "turns");
        let mut queues: FlowQueues<(), ()> = FlowQueues::new(6, quantum, &mut random, || ());
        let queue = (0, VecDeque::new(), false);
        let (new, old) = (VecDeque::new(), VecDeque::new());
        let mut plain = Plain { quantum: quantum.into(), queues: vec![queue; 6], new, old };
        let drain = std::iter::repeat_n(None, 300);
        for step in steps.into_iter().chain(drain) {
            if let Some((index, size)) = step {
                queues.push(Time::ZERO, index, packet(size, 0));
                plain.push(index, size);
            } else {
                let index = queues.turn(|()| {});
                if let Some(index) = index {
                    let (_, sent) = queues
                        .change(index, |queue| queue.waiting.pop(Time::ZERO))
                        .expect("a queue whose turn it is has a packet");
                    queues.charge(index, sent.size());
                }
                prop_assert_eq!(index, plain.pop());
            }
            prop_assert_eq!(queues.head().map(|size| size.get()), plain.head().map(u64::from));
        }
    }
}
