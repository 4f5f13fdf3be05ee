//! Link sharing with priorities: guarantees first, then the remaining bandwidth by priority.
//!
//! S. Floyd and V. Jacobson, *Link-sharing and Resource Management Models for Packet Networks*, ToN
//! 3(4), 1995, without its estimator; M. Devera's HTB has the same goals. This is one node of the
//! tree; a tree consists of classes inside classes, each with a [`Shaper`](crate::Shaper) if it has
//! a ceiling.
//!
//! A class is *green* while a bucket that fills at its guaranteed rate is not overdrawn. Green
//! classes send first, and pay from the bucket. The other classes borrow the remaining bandwidth,
//! those of the highest priority first, and within a priority in proportion to their weights for
//! excess, which are the guaranteed rates unless others are given. Borrowed bandwidth is not paid
//! from the bucket. The order among equals is that of start-time fair queueing (P. Goyal, H. M. Vin
//! and H. Cheng, ToN 5(5), 1997): the class with the least start tag is next, and virtual time is
//! the start tag of the packet in service.
//!
//! Classes are in heaps by their tags, and those that are not green in one by the time at which
//! they will be, so that the cost of a decision is logarithmic in their number.

use perhop_core::{Bytes, Rate, Time, TokenBucket};

use crate::Weight;
use crate::heap::Heap;

/// Priority among borrowing classes: the lowest number borrows first.
pub type Priority = u8;

/// Virtual time: bytes by weight, scaled by 2³² and the sum of weights.
type VirtualTime = u128;

/// Bytes of a full packet, by which a guarantee may be late for every other class of the node.
const PACKET: u64 = 1500;

/// An order of start-time fair queueing among several classes.
#[derive(Clone, Debug)]
struct Order {
    now: VirtualTime,
    /// Classes by start tag, each at most once. A class's tag may have risen since, and it may have
    /// left the order: it is checked when it becomes the first.
    waiting: Heap<(VirtualTime, u32)>,
}

impl Order {
    fn new(classes: usize) -> Self {
        Self { now: 0, waiting: Heap::with_capacity(classes) }
    }
}

/// Place of a class in an order.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// Start tag.
    start: VirtualTime,
    /// True if the order's heap contains the class, under this tag or a lower one.
    listed: bool,
}

#[derive(Debug)]
struct Share {
    guarantee: TokenBucket,
    priority: Priority,
    /// Virtual time that a byte of the guarantee takes.
    per_byte: VirtualTime,
    /// Virtual time that a borrowed byte takes.
    per_borrowed: VirtualTime,
    active: bool,
    green: bool,
    /// Place in the order of green classes.
    guaranteed: Turn,
    /// Place in the order of the class's priority.
    borrowed: Turn,
}

impl Share {
    /// Takes `sent` bytes from the guarantee; an overdrawn class is green again when the bucket
    /// is not.
    fn pay(&mut self, now: Time, sent: Bytes, class: usize, earning: &mut Heap<(Time, u32)>) {
        let _ = self.guarantee.fill(now);
        self.guarantee.take(sent);
        if let Some(at) = self.guarantee.not_before(Bytes::ZERO) {
            self.green = false;
            earning.push((at, class as u32));
        }
    }
}

fn rate(weight: Weight) -> Rate {
    Rate::new(weight.get()).expect("a weight is not zero")
}

/// Selects the next of several backlogged classes. Packets stay with the caller.
#[derive(Debug)]
pub struct LinkShare {
    shares: Vec<Share>,
    now: Time,
    /// Classes that are not green, by the time at which they will be.
    earning: Heap<(Time, u32)>,
    green: Order,
    /// Orders of borrowing classes, by priority.
    borrowers: Vec<Order>,
}

impl LinkShare {
    /// Creates a scheduler for classes with these guaranteed rates in bits per second and
    /// priorities, none of them backlogged.
    pub fn new(classes: &[(Weight, Priority)]) -> Self {
        let excess = |&(rate, priority): &(Weight, Priority)| (rate, priority, rate);
        Self::with_excess(&classes.iter().map(excess).collect::<Vec<_>>())
    }

    /// Creates a scheduler as [`new`](Self::new) does, with the weights by which classes share what
    /// exceeds the guarantees.
    pub fn with_excess(classes: &[(Weight, Priority, Weight)]) -> Self {
        let sum: u128 = classes.iter().map(|(rate, ..)| u128::from(rate.get())).sum();
        let excesses: u128 = classes.iter().map(|(_, _, excess)| u128::from(excess.get())).sum();
        // A green class may wait for one packet of each other class while its bucket fills, and no
        // longer.
        let burst = Bytes::new(PACKET * (1 + classes.len() as u64));
        let share = |&(weight, priority, excess): &(Weight, Priority, Weight)| Share {
            guarantee: TokenBucket::new(rate(weight), burst),
            priority,
            per_byte: (sum << 32) / u128::from(weight.get()),
            per_borrowed: (excesses << 32) / u128::from(excess.get()),
            active: false,
            green: true,
            guaranteed: Turn::default(),
            borrowed: Turn::default(),
        };
        let priorities = classes.iter().map(|(_, priority, _)| *priority).max().unwrap_or(0);
        let of = |priority| classes.iter().filter(|class| class.1 == priority).count();
        Self {
            shares: classes.iter().map(share).collect(),
            now: Time::ZERO,
            earning: Heap::with_capacity(classes.len()),
            green: Order::new(classes.len()),
            borrowers: (0..=priorities).map(|priority| Order::new(of(priority))).collect(),
        }
    }

    /// Fills the buckets until `now`, the time for which [`select`](Self::select) decides.
    pub fn advance(&mut self, now: Time) {
        self.now = now;
        while let Some((at, class)) = self.earning.first()
            && at <= now
        {
            self.earning.pop();
            let share = &mut self.shares[class as usize];
            share.green = true;
            share.guaranteed.start = share.guaranteed.start.max(self.green.now);
            if share.active {
                list(&mut self.green, &mut share.guaranteed, class);
            }
        }
    }

    /// Adds a class to the backlogged ones.
    pub fn activate(&mut self, class: usize) {
        let share = &mut self.shares[class];
        share.active = true;
        let order = &mut self.borrowers[usize::from(share.priority)];
        share.guaranteed.start = share.guaranteed.start.max(self.green.now);
        share.borrowed.start = share.borrowed.start.max(order.now);
        if share.green {
            list(&mut self.green, &mut share.guaranteed, class as u32);
        } else {
            list(order, &mut share.borrowed, class as u32);
        }
    }

    /// Returns the class that goes next, or `None` if none is backlogged.
    pub fn select(&mut self) -> Option<usize> {
        let Self { shares, green, borrowers, .. } = self;
        first(green, shares, |share| (share.green, &mut share.guaranteed)).or_else(|| {
            let mut orders = borrowers.iter_mut();
            orders.find_map(|order| first(order, shares, |s| (!s.green, &mut s.borrowed)))
        })
    }

    /// Charges `sent` bytes to a class; `more` is true if it is still backlogged.
    pub fn served(&mut self, class: usize, sent: Bytes, more: bool) {
        let share = &mut self.shares[class];
        let bytes = u128::from(sent.get());
        let order = &mut self.borrowers[usize::from(share.priority)];
        if share.green {
            self.green.now = share.guaranteed.start;
            share.guaranteed.start += bytes * share.per_byte;
            share.pay(self.now, sent, class, &mut self.earning);
        } else {
            order.now = share.borrowed.start;
            share.borrowed.start += bytes * share.per_borrowed;
        }
        share.active = more;
        if more && !share.green {
            list(order, &mut share.borrowed, class as u32);
        }
    }

    /// Returns `true` if a class is backlogged and green.
    pub fn is_guaranteed(&self, class: usize) -> bool {
        let share = &self.shares[class];
        share.active && share.green
    }

    /// Charges `sent` bytes to the guarantee of a green class that was served out of the order of
    /// [`select`](Self::select), in which it keeps its place; `more` is true if it is still
    /// backlogged.
    pub fn served_before(&mut self, class: usize, sent: Bytes, more: bool) {
        let share = &mut self.shares[class];
        share.pay(self.now, sent, class, &mut self.earning);
        share.active = more;
        if more && !share.green {
            let order = &mut self.borrowers[usize::from(share.priority)];
            share.borrowed.start = share.borrowed.start.max(order.now);
            list(order, &mut share.borrowed, class as u32);
        }
    }

    /// Removes a class from the backlogged ones, for now.
    pub fn withdraw(&mut self, class: usize) {
        self.shares[class].active = false;
    }
}

/// Adds a class to an order's heap, unless it is there.
fn list(order: &mut Order, turn: &mut Turn, class: u32) {
    if !turn.listed {
        turn.listed = true;
        order.waiting.push((turn.start, class));
    }
}

/// Returns the first class of an order that is active and, by `turn`, takes part.
fn first(
    order: &mut Order,
    shares: &mut [Share],
    turn: impl Fn(&mut Share) -> (bool, &mut Turn),
) -> Option<usize> {
    while let Some((start, class)) = order.waiting.first() {
        let share = &mut shares[class as usize];
        let active = share.active;
        let (takes_part, turn) = turn(share);
        if !(active && takes_part) {
            turn.listed = false;
            order.waiting.pop();
        } else if turn.start > start {
            order.waiting.replace_first((turn.start, class));
        } else {
            return Some(class as usize);
        }
    }
    None
}

#[cfg(test)]
mod tests;
