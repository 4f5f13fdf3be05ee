//! Weighted round robin among the leaves of a priority.

use std::ops::Range;

use perhop_core::{Bytes, Rate};

#[derive(Clone, Copy, Debug)]
struct Turn {
    leaf: usize,
    /// Rate, in bytes per second.
    allotment: i64,
    /// Bytes that a turn adds.
    weight: i64,
    /// Bytes that the leaf may still send in its turn.
    left: i64,
}

/// The leaves of a priority.
#[derive(Clone, Debug, Default)]
struct Round {
    turns: Vec<Turn>,
    /// Index of the leaf that has the first turn.
    first: usize,
}

/// A round for every priority; the first is served first.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    rounds: [Round; Turns::PRIORITIES],
    /// The sending leaf: its priority, its index in the round, and true if it is over its limit.
    chosen: (usize, usize, bool),
}

impl Turns {
    /// The number of priorities.
    pub const PRIORITIES: usize = 8;

    /// Adds a leaf of this `rate`.
    pub fn add(&mut self, leaf: usize, priority: u8, rate: Rate) {
        let allotment = (rate.bits_per_second() / 8) as i64;
        let turn = Turn { leaf, allotment, weight: 0, left: 0 };
        self.rounds[usize::from(priority)].turns.push(turn);
    }

    /// Sets every leaf's weight: in proportion to the rates, a packet of full length on average,
    /// and rounded down to bytes.
    pub fn weigh(&mut self, packet: Bytes) {
        for round in &mut self.rounds {
            let sum: i64 = round.turns.iter().map(|turn| turn.allotment).sum();
            let unit = sum / (round.turns.len().max(1) as i64 * packet.get() as i64).max(1);
            for turn in &mut round.turns {
                turn.weight = if unit == 0 { 0 } else { turn.allotment / unit };
            }
        }
    }

    /// Returns the places of a round, counted from the leaf that has the first turn.
    pub fn round(&self, priority: usize) -> Range<usize> {
        0..self.rounds[priority].turns.len()
    }

    /// Returns the leaf at a place of a round, and `true` if it may send when it is backlogged and
    /// within its limit: in the first pass if its turn has bytes left, in the second always.
    pub fn begin(&mut self, priority: usize, place: usize, pass: u32) -> (usize, bool) {
        let turn = self.turn(priority, place);
        if pass == 0 && turn.left <= 0 {
            turn.left += turn.weight;
        }
        (turn.leaf, turn.left > 0 || pass > 0)
    }

    /// Ends the turn of the leaf at this place, which does not send.
    pub fn end(&mut self, priority: usize, place: usize) {
        self.turn(priority, place).left = 0;
    }

    /// Records that the leaf at this place sends.
    pub fn chosen(&mut self, priority: usize, place: usize) {
        self.chosen = (priority, self.index(priority, place), false);
    }

    /// Records that the leaf at this place sends although it is over its limit.
    pub fn chosen_anyway(&mut self, priority: usize, place: usize) {
        self.chosen = (priority, self.index(priority, place), true);
    }

    /// Charges `size` to the chosen leaf, which keeps its turn while it has bytes left.
    pub fn sent(&mut self, size: Bytes) {
        let (priority, index, anyway) = self.chosen;
        let round = &mut self.rounds[priority];
        let turn = &mut round.turns[index];
        if turn.left > 0 {
            turn.left -= size.get() as i64;
        }
        let next = turn.left <= 0 || anyway;
        round.first = if next { (index + 1) % round.turns.len() } else { index };
    }

    fn index(&self, priority: usize, place: usize) -> usize {
        let round = &self.rounds[priority];
        (round.first + place) % round.turns.len()
    }

    fn turn(&mut self, priority: usize, place: usize) -> &mut Turn {
        let index = self.index(priority, place);
        &mut self.rounds[priority].turns[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_by_weight() {
        let mut turns = Turns::default();
        turns.add(1, 0, Rate::new(4_000_000).unwrap());
        turns.add(2, 0, Rate::new(6_000_000).unwrap());
        turns.weigh(Bytes::new(1500));
        // 500,000 and 750,000 bytes a second; 1,250,000 / 3000 = 416; so 1201 and 1802 bytes.
        let weights: Vec<i64> = turns.rounds[0].turns.iter().map(|turn| turn.weight).collect();
        assert_eq!(weights, [1201, 1802]);
        let mut sent = [0, 0];
        for _ in 0..3200 {
            let mut places = turns.round(0);
            let leaf = loop {
                let place = places.next().expect("somebody has a turn");
                match turns.begin(0, place, 0) {
                    (leaf, true) => {
                        turns.chosen(0, place);
                        break leaf;
                    }
                    _ => turns.end(0, place),
                }
            };
            turns.sent(Bytes::new(100));
            sent[leaf - 1] += 1;
        }
        // A turn that is overdrawn shortens the next: 1201 to 1802, to the packets of a turn.
        assert!((1280_u32 - 13..=1280 + 19).contains(&sent[0]), "{sent:?}");
    }

    fn of(rates: &[u64], packet: u64) -> Turns {
        let mut turns = Turns::default();
        for (leaf, rate) in rates.iter().enumerate() {
            turns.add(leaf, 3, Rate::new(*rate).unwrap());
        }
        turns.weigh(Bytes::new(packet));
        turns
    }

    fn weights(turns: &Turns) -> Vec<i64> {
        turns.rounds[3].turns.iter().map(|turn| turn.weight).collect()
    }

    /// The sum of the rates in bytes per second, over as many packets of 1000 bytes as there are
    /// leaves, is a unit: 2000 / 2000 and 3000 / 2000 are 1, 1999 / 2000 is none.
    #[test]
    fn weights_by_hand() {
        for (rates, packet, expected) in [
            (&[8_000, 8_000][..], 1000, &[1000, 1000][..]),
            (&[8_000, 16_000], 1000, &[1000, 2000]),
            (&[8_000, 7_999], 1000, &[0, 0]),
            (&[16_000, 16_000], 1000, &[1000, 1000]),
            (&[8_000_000], 1500, &[1501]), // 1,000,000 / 666
        ] {
            assert_eq!(weights(&of(rates, packet)), expected, "{rates:?}");
        }
    }

    /// A leaf that has its turn keeps it while it has bytes left; one that sends although it is
    /// over its limit does not. A turn that is not over gets no more bytes.
    #[test]
    fn turns_by_hand() {
        let mut turns = of(&[8_000, 8_000, 8_000], 1000);
        assert_eq!((turns.round(3), turns.round(0)), (0..3, 0..0));
        assert_eq!(turns.begin(3, 0, 0), (0, true));
        turns.chosen(3, 0);
        turns.sent(Bytes::new(600)); // 400 are left
        assert_eq!(turns.begin(3, 0, 0), (0, true));
        turns.chosen(3, 0);
        turns.sent(Bytes::new(400)); // none is: the turn of the next one
        assert_eq!(turns.begin(3, 0, 0), (1, true));
        turns.chosen(3, 0);
        turns.sent(Bytes::new(3_500)); // 2500 too many
        assert_eq!(
            [0, 1, 2].map(|place| turns.begin(3, place, 0)),
            [
                (2, true),
                (0, true),
                (1, false), // -1500
            ]
        );
        // In the second pass every leaf may send, and none gets bytes.
        assert_eq!(turns.begin(3, 2, 1), (1, true));
        turns.end(3, 2);
        assert_eq!(turns.begin(3, 2, 0), (1, true)); // its debt is forgotten
        // Over its limit, the leaf at the first place has one packet in its turn.
        turns.chosen_anyway(3, 0);
        turns.sent(Bytes::new(100));
        assert_eq!(turns.begin(3, 0, 0).0, 0);
        turns.chosen(3, 2);
        turns.sent(Bytes::new(100));
        assert_eq!(turns.begin(3, 0, 0).0, 2);
    }
}
