//! Link sharing with priorities: guarantees first, then what is left by priority.
//!
//! S. Floyd and V. Jacobson, *Link-sharing and Resource Management Models for Packet Networks*, ToN
//! 3(4), 1995, without its estimator; M. Devera's HTB has the same goals. One node of the tree is
//! here; a tree is made of classes inside classes, each with a [`Shaper`](crate::Shaper) where it
//! has a ceiling.
//!
//! A class is *green* while a bucket that fills at its guaranteed rate is not overdrawn. Green
//! classes send first, and pay from the bucket. What the node gets beyond that is borrowed by the
//! others, those of the highest priority first, and within a priority in proportion to the
//! guaranteed rates; what is borrowed is not paid from the bucket. Among equals the order is that
//! of start-time fair queueing (P. Goyal, H. M. Vin and H. Cheng, ToN 5(5), 1997): the least start
//! tag goes first, and virtual time is the start tag of the packet in service.
//!
//! Classes wait in heaps by their tags, and in one by when their buckets are full enough again, so
//! that a decision costs the logarithm of their number.

use perhop_core::{Bytes, Rate, Time};

use crate::heap::Heap;
use crate::{TokenBucket, Weight};

/// Who borrows first: the lowest number.
pub type Priority = u8;

/// Virtual time: bytes by weight, scaled by 2³² and the sum of weights.
type VirtualTime = u128;

/// A full packet, by which guarantees may be late for every class of the node.
const PACKET: u64 = 1500;

/// One order of start-time fair queueing, in which several classes take part.
#[derive(Clone, Debug)]
struct Order {
    now: VirtualTime,
    /// Classes by start tag. A class is here once at most. Its tag may have risen since, and it may
    /// have left the order: it is looked at again when it comes first.
    waiting: Heap<(VirtualTime, u32)>,
}

impl Order {
    fn new(classes: usize) -> Self {
        Self { now: 0, waiting: Heap::with_capacity(classes) }
    }
}

/// A class's place in an order.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// Start tag.
    start: VirtualTime,
    /// Whether the order's heap has the class, under this tag or a lower one.
    listed: bool,
}

#[derive(Debug)]
struct Share {
    guarantee: TokenBucket,
    priority: Priority,
    /// Virtual time that a byte takes.
    per_byte: VirtualTime,
    active: bool,
    green: bool,
    /// In the order of green classes.
    guaranteed: Turn,
    /// In the order of the class's priority.
    borrowed: Turn,
}

fn rate(weight: Weight) -> Rate {
    Rate::new(weight.get()).expect("a weight is not zero")
}

/// Which of several backlogged classes sends next. Packets stay with the caller.
#[derive(Debug)]
pub struct LinkShare {
    shares: Vec<Share>,
    now: Time,
    /// Classes that are not green, by when they will be.
    earning: Heap<(Time, u32)>,
    green: Order,
    /// By priority.
    borrowers: Vec<Order>,
}

impl LinkShare {
    /// A scheduler for classes with these guaranteed rates in bits per second and priorities, none
    /// of them backlogged.
    pub fn new(classes: &[(Weight, Priority)]) -> Self {
        let sum: u128 = classes.iter().map(|(rate, _)| u128::from(rate.get())).sum();
        // A green class may wait for a packet of each other class while it earns; then no longer.
        let burst = Bytes::new(PACKET * (1 + classes.len() as u64));
        let share = |&(weight, priority): &(Weight, Priority)| Share {
            guarantee: TokenBucket::new(rate(weight), burst),
            priority,
            per_byte: (sum << 32) / u128::from(weight.get()),
            active: false,
            green: true,
            guaranteed: Turn::default(),
            borrowed: Turn::default(),
        };
        let priorities = classes.iter().map(|(_, priority)| *priority).max().unwrap_or(0);
        let of = |priority| classes.iter().filter(|class| class.1 == priority).count();
        Self {
            shares: classes.iter().map(share).collect(),
            now: Time::ZERO,
            earning: Heap::with_capacity(classes.len()),
            green: Order::new(classes.len()),
            borrowers: (0..=priorities).map(|priority| Order::new(of(priority))).collect(),
        }
    }

    /// Lets tokens in that have come until `now`. What [`select`](Self::select) says is of then.
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

    /// A class that had nothing waiting now has.
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

    /// The class that goes next, or `None` if none is backlogged.
    pub fn select(&mut self) -> Option<usize> {
        let Self { shares, green, borrowers, .. } = self;
        first(green, shares, |share| (share.green, &mut share.guaranteed)).or_else(|| {
            let mut orders = borrowers.iter_mut();
            orders.find_map(|order| first(order, shares, |s| (!s.green, &mut s.borrowed)))
        })
    }

    /// A class has sent `sent` bytes, and has more or not.
    pub fn served(&mut self, class: usize, sent: Bytes, more: bool) {
        let share = &mut self.shares[class];
        let time = u128::from(sent.get()) * share.per_byte;
        let order = &mut self.borrowers[usize::from(share.priority)];
        if share.green {
            self.green.now = share.guaranteed.start;
            share.guaranteed.start += time;
            let _ = share.guarantee.fill(self.now);
            share.guarantee.take(sent);
            if let Some(at) = share.guarantee.not_before(Bytes::ZERO) {
                share.green = false;
                self.earning.push((at, class as u32));
            }
        } else {
            order.now = share.borrowed.start;
            share.borrowed.start += time;
        }
        share.active = more;
        if more && !share.green {
            list(order, &mut share.borrowed, class as u32);
        }
    }

    /// A class has nothing to send for now.
    pub fn withdraw(&mut self, class: usize) {
        self.shares[class].active = false;
    }
}

/// Puts a class into an order's heap, if it is not there.
fn list(order: &mut Order, turn: &mut Turn, class: u32) {
    if !turn.listed {
        turn.listed = true;
        order.waiting.push((turn.start, class));
    }
}

/// The first class of an order that is active and, as `turn` says of it, takes part.
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
