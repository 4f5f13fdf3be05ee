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
//! A decision looks at every class of its node, of which a policy has 64 at most.

use perhop_core::{Bytes, Rate, Time};

use crate::{TokenBucket, Weight};

/// Who borrows first: the lowest number.
pub type Priority = u8;

/// Virtual time: bytes by weight, scaled by 2³² and the sum of weights.
type VirtualTime = u128;

/// A full packet, by which guarantees may be late for every class of the node.
const PACKET: u64 = 1500;

/// One order of start-time fair queueing, in which several classes take part.
#[derive(Clone, Debug, Default)]
struct Order {
    now: VirtualTime,
}

#[derive(Debug)]
struct Share {
    guarantee: TokenBucket,
    priority: Priority,
    /// Virtual time that a byte takes.
    per_byte: VirtualTime,
    active: bool,
    green: bool,
    /// Start tag in the order of green classes.
    guaranteed: VirtualTime,
    /// Start tag in the order of the class's priority.
    borrowed: VirtualTime,
}

fn rate(weight: Weight) -> Rate {
    Rate::new(weight.get()).expect("a weight is not zero")
}

/// Which of several backlogged classes sends next. Packets stay with the caller.
#[derive(Debug)]
pub struct LinkShare {
    shares: Vec<Share>,
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
            green: false,
            guaranteed: 0,
            borrowed: 0,
        };
        let priorities = classes.iter().map(|(_, priority)| *priority).max().unwrap_or(0);
        Self {
            shares: classes.iter().map(share).collect(),
            green: Order::default(),
            borrowers: vec![Order::default(); usize::from(priorities) + 1],
        }
    }

    /// Lets tokens in that have come until `now`. What [`select`](Self::select) says is of then.
    pub fn advance(&mut self, now: Time) {
        for share in &mut self.shares {
            let _ = share.guarantee.fill(now);
            let green = share.guarantee.is_positive();
            if green && !share.green {
                share.guaranteed = share.guaranteed.max(self.green.now);
            }
            share.green = green;
        }
    }

    /// A class that had nothing waiting now has.
    pub fn activate(&mut self, class: usize) {
        let share = &mut self.shares[class];
        share.active = true;
        share.guaranteed = share.guaranteed.max(self.green.now);
        share.borrowed = share.borrowed.max(self.borrowers[usize::from(share.priority)].now);
    }

    /// The class that goes next, or `None` if none is backlogged.
    pub fn select(&self) -> Option<usize> {
        let key = |share: &Share| match share.green {
            true => (false, 0, share.guaranteed),
            false => (true, share.priority, share.borrowed),
        };
        let active = self.shares.iter().enumerate().filter(|(_, share)| share.active);
        active.min_by_key(|(_, share)| key(share)).map(|(class, _)| class)
    }

    /// A class has sent `sent` bytes, and has more or not.
    pub fn served(&mut self, class: usize, sent: Bytes, more: bool) {
        let share = &mut self.shares[class];
        let time = u128::from(sent.get()) * share.per_byte;
        if share.green {
            self.green.now = share.guaranteed;
            share.guaranteed += time;
            share.guarantee.take(sent);
            share.green = share.guarantee.is_positive();
        } else {
            self.borrowers[usize::from(share.priority)].now = share.borrowed;
            share.borrowed += time;
        }
        share.active = more;
    }

    /// A class has nothing to send for now.
    pub fn withdraw(&mut self, class: usize) {
        self.shares[class].active = false;
    }
}
