//! Worst-case fair weighted fair queueing, WF2Q+.
//!
//! J. C. R. Bennett and H. Zhang, *Hierarchical Packet Fair Queueing Algorithms*, ToN 5(5), 1997.
//! A class is served as an ideal fluid server would serve it, to within one packet ahead or
//! behind: among the classes whose head packet the fluid server would have begun (start tag not
//! above the virtual time), the one that it would finish first goes next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use perhop_core::Bytes;

/// A class's part of a link relative to the other classes' weights; never zero. A guaranteed rate
/// in bits per second serves as a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u64);

impl Weight {
    /// `weight`, or `None` if that is zero.
    pub const fn new(weight: u64) -> Option<Self> {
        if weight == 0 { None } else { Some(Self(weight)) }
    }

    /// The weight.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Virtual time: bytes of service to the whole link, as a fixed-point number with 32 fractional
/// bits. A u128 neither wraps nor rounds within the life of a link.
type VirtualTime = u128;

const fn service(size: Bytes) -> VirtualTime {
    (size.get() as VirtualTime) << 32
}

#[derive(Debug)]
struct Tags {
    /// Virtual time that a byte of this class takes: 2³² · sum of weights / weight.
    per_byte: VirtualTime,
    /// When the fluid server begins the head packet, or ended the last one if none waits.
    start: VirtualTime,
    /// The busy period that `start` belongs to; an older one counts as zero.
    period: u64,
}

/// Which of several backlogged classes sends next. Packets stay with the caller.
#[derive(Debug)]
pub struct Wf2q {
    tags: Vec<Tags>,
    /// Virtual time when the packet in service was begun. A class that comes up meanwhile is
    /// tagged with it: with the packet's end instead, it could wait a packet longer than WFQ's
    /// delay bound allows.
    now: VirtualTime,
    /// What the packet in service adds to `now` when the next is selected.
    in_service: VirtualTime,
    period: u64,
    /// Backlogged classes that may go, by finish tag; a tie goes to the first class.
    eligible: BinaryHeap<Reverse<(VirtualTime, usize)>>,
    /// Backlogged classes that are ahead of their share, by start tag, with their finish tag.
    ahead: BinaryHeap<Reverse<(VirtualTime, VirtualTime, usize)>>,
}

impl Wf2q {
    /// A scheduler for classes with these weights, none of them backlogged.
    pub fn new(weights: &[Weight]) -> Self {
        let sum: u128 = weights.iter().map(|weight| u128::from(weight.0)).sum();
        let tags = |weight: &Weight| Tags {
            per_byte: (sum << 32) / u128::from(weight.0),
            start: 0,
            period: 0,
        };
        Self {
            tags: weights.iter().map(tags).collect(),
            now: 0,
            in_service: 0,
            period: 0,
            eligible: BinaryHeap::with_capacity(weights.len()),
            ahead: BinaryHeap::with_capacity(weights.len()),
        }
    }

    /// A class that had nothing waiting now has, with a head packet of this size.
    pub fn activate(&mut self, class: usize, head: Bytes) {
        let tags = &mut self.tags[class];
        let end_of_last = if tags.period == self.period { tags.start } else { 0 };
        tags.start = end_of_last.max(self.now);
        tags.period = self.period;
        self.insert(class, head);
    }

    /// The class that goes next, or `None` if none is backlogged.
    pub fn select(&mut self) -> Option<usize> {
        self.now += std::mem::take(&mut self.in_service);
        if self.eligible.is_empty() {
            let Reverse((start, ..)) = self.ahead.peek()?;
            self.now = self.now.max(*start);
        }
        while let Some(&Reverse((start, finish, class))) = self.ahead.peek()
            && start <= self.now
        {
            self.ahead.pop();
            self.eligible.push(Reverse((finish, class)));
        }
        self.eligible.peek().map(|Reverse((_, class))| *class)
    }

    /// The class that [`select`](Self::select) named has sent `sent` bytes, and has another head
    /// packet or none.
    pub fn served(&mut self, class: usize, sent: Bytes, head: Option<Bytes>) {
        let popped = self.eligible.pop();
        debug_assert!(matches!(popped, Some(Reverse((_, served))) if served == class));
        self.charge(class, sent);
        if let Some(head) = head {
            self.insert(class, head);
        }
    }

    /// The class that [`select`](Self::select) named has nothing to send for now, and keeps its
    /// place in virtual time.
    pub fn withdraw(&mut self, class: usize) {
        let popped = self.eligible.pop();
        debug_assert!(matches!(popped, Some(Reverse((_, named))) if named == class));
    }

    /// The link was idle: a busy period begins, and nobody owes anything for what was sent before.
    pub fn restart(&mut self) {
        debug_assert!(self.eligible.is_empty() && self.ahead.is_empty());
        (self.now, self.in_service) = (0, 0);
        self.period += 1;
    }

    /// A class has sent `sent` bytes as the first of a busy period, without having been activated.
    pub fn served_at_once(&mut self, class: usize, sent: Bytes) {
        let tags = &mut self.tags[class];
        (tags.start, tags.period) = (0, self.period);
        self.charge(class, sent);
    }

    fn charge(&mut self, class: usize, sent: Bytes) {
        let tags = &mut self.tags[class];
        tags.start += u128::from(sent.get()) * tags.per_byte;
        self.in_service = service(sent);
    }

    fn insert(&mut self, class: usize, head: Bytes) {
        let tags = &self.tags[class];
        let finish = tags.start + u128::from(head.get()) * tags.per_byte;
        if tags.start <= self.now {
            self.eligible.push(Reverse((finish, class)));
        } else {
            self.ahead.push(Reverse((tags.start, finish, class)));
        }
    }
}
