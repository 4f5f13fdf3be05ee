//! The turns of deficit round robin, without visits of queues that cannot send.

use std::collections::VecDeque;

/// Queues in the order of their turns. A *round* visits each of them once, from the front to the
/// back, and gives its quantum to each that has no credit.
///
/// The list knows in which round each queue has credit. It passes over those before it at once, and
/// over rounds in which no queue has credit, however small the quantum is. Numbers of rounds wrap.
#[derive(Debug)]
pub(super) struct Rounds {
    turns: VecDeque<Turn>,
    /// Number of the present round.
    round: u32,
    /// Number of turns, at the front, that the present round has not visited.
    left: usize,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    queue: u16,
    /// Round in which the queue has credit.
    due: u32,
}

impl Turn {
    /// Returns the number of rounds after `round` until the queue has credit.
    fn rounds_after(self, round: u32) -> u32 {
        match self.due.wrapping_sub(round) {
            rounds if rounds as i32 >= 0 => rounds,
            _ => 0,
        }
    }
}

impl Rounds {
    pub const fn new() -> Self {
        Self { turns: VecDeque::new(), round: 0, left: 0 }
    }

    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// Returns the queue at the front, whether it has credit or not.
    pub fn front(&self) -> Option<u16> {
        self.turns.front().map(|turn| turn.queue)
    }

    /// Returns all queues in order, and the number of quanta that each lacks for credit.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u32)> {
        self.turns.iter().enumerate().map(|(place, turn)| {
            let next = self.round.wrapping_add(u32::from(place >= self.left));
            (turn.queue, turn.rounds_after(next))
        })
    }

    /// Adds a queue at the back, which has credit after it got its quantum `rounds` times.
    pub fn push(&mut self, queue: u16, rounds: u32) {
        self.turns.push_back(Turn { queue, due: self.round.wrapping_add(1 + rounds) });
    }

    /// Moves queues to the back until one with credit is at the front, and returns it.
    #[inline]
    pub fn advance(&mut self) -> Option<u16> {
        let turn = *self.turns.front()?;
        if self.left == 0 || turn.rounds_after(self.round) > 0 {
            self.rotate();
        }
        self.front()
    }

    fn rotate(&mut self) {
        let has_credit = |turn: &Turn| turn.rounds_after(self.round) == 0;
        let mut place = self.turns.iter().take(self.left).position(has_credit);
        if place.is_none() {
            self.turns.rotate_left(self.left);
            let next = self.round.wrapping_add(1);
            let rounds = self.turns.iter().map(|turn| turn.rounds_after(next));
            let (first, skipped) = rounds.enumerate().min_by_key(|(_, rounds)| *rounds).unwrap();
            (self.round, self.left) = (next.wrapping_add(skipped), self.turns.len());
            place = Some(first);
        }
        self.turns.rotate_left(place.unwrap());
        self.left -= place.unwrap();
    }

    /// Removes all queues.
    pub fn clear(&mut self) {
        self.turns.clear();
        self.left = 0;
    }

    /// Removes the queue at the front.
    #[inline]
    pub fn pop(&mut self) {
        self.turns.pop_front();
        self.left = self.left.saturating_sub(1);
    }

    /// Removes a queue, wherever it is.
    pub fn remove(&mut self, queue: u16) {
        let Some(place) = self.turns.iter().position(|turn| turn.queue == queue) else { return };
        self.turns.remove(place);
        self.left -= usize::from(place < self.left);
    }
}
