//! Worst-case fair weighted fair queueing, WF2Q+.
//!
//! J. C. R. Bennett and H. Zhang, *Hierarchical Packet Fair Queueing Algorithms*, ToN 5(5), 1997.
//! A class is served as an ideal fluid server would serve it, to within one packet ahead or behind:
//! among the classes whose head packet the fluid server would have begun (start tag not above the
//! virtual time), the class whose packet it would finish first is next.

use perhop_core::{Bytes, Zero};

use crate::heap::Heap;

/// Share of a class relative to the other classes' weights; never zero. A guaranteed rate in bits
/// per second serves as a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(try_from = "u64", into = "u64"))]
pub struct Weight(u64);

impl Weight {
    /// Creates a weight; `None` if it is zero.
    pub const fn new(weight: u64) -> Option<Self> {
        if weight == 0 { None } else { Some(Self(weight)) }
    }

    /// Returns the weight.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for Weight {
    type Error = Zero;

    fn try_from(weight: u64) -> Result<Self, Zero> {
        Self::new(weight).ok_or(Zero)
    }
}

impl From<Weight> for u64 {
    fn from(weight: Weight) -> Self {
        weight.0
    }
}

/// Virtual time: bytes of service to the whole link, as a fixed-point number with 32 fractional
/// bits. A u128 neither wraps nor rounds within the life of a link.
type VirtualTime = u128;

/// A class with a tag: one number orders classes by tag and then by index, and its comparison takes
/// no branch. A tag is at most the virtual time plus a packet's share, and 16 bits more suffice for
/// it: 2⁵⁸ bytes on a link, and 2¹⁸ of a class with 2⁻⁴⁸ of it, are below 2⁹⁹.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Tagged(u128);

impl Tagged {
    const fn new(tag: VirtualTime, class: usize) -> Self {
        Self(tag << 16 | class as u128)
    }

    const fn tag(self) -> VirtualTime {
        self.0 >> 16
    }

    const fn class(self) -> usize {
        self.0 as u16 as usize
    }
}

const fn service(size: Bytes) -> VirtualTime {
    (size.get() as VirtualTime) << 32
}

#[derive(Debug)]
struct Tags {
    /// Virtual time per byte of this class: 2³² · sum of weights / weight.
    per_byte: VirtualTime,
    /// Virtual time at which the fluid server begins the head packet, or ended the last one if none
    /// waits.
    start: VirtualTime,
    /// Busy period of `start`; in a later one, `start` counts as zero.
    period: u64,
    /// Size of the head packet, while the class is ahead of its share.
    head: Bytes,
}

/// Selects the next of several backlogged classes. Packets stay with the caller.
#[derive(Debug)]
pub struct Wf2q {
    tags: Vec<Tags>,
    /// Virtual time at which the service of the current packet began. A class that becomes
    /// backlogged meanwhile gets it as its tag: with the packet's end instead, it could wait a
    /// packet longer than WFQ's delay bound.
    now: VirtualTime,
    /// Virtual time by which the packet in service advances `now` at the next selection.
    in_service: VirtualTime,
    period: u64,
    /// Backlogged classes that may be selected, by finish tag; of equal tags, the first class.
    eligible: Heap<Tagged>,
    /// Backlogged classes that are ahead of their share, by start tag.
    ahead: Heap<Tagged>,
}

impl Wf2q {
    /// Creates a scheduler for classes with these weights, none of them backlogged.
    pub fn new(weights: &[Weight]) -> Self {
        let sum: u128 = weights.iter().map(|weight| u128::from(weight.0)).sum();
        let tags = |weight: &Weight| Tags {
            per_byte: (sum << 32) / u128::from(weight.0),
            start: 0,
            period: 0,
            head: Bytes::ZERO,
        };
        Self {
            tags: weights.iter().map(tags).collect(),
            now: 0,
            in_service: 0,
            period: 0,
            eligible: Heap::with_capacity(weights.len()),
            ahead: Heap::with_capacity(weights.len()),
        }
    }

    /// Adds a class to the backlogged ones; its head packet has the size `head`.
    pub fn activate(&mut self, class: usize, head: Bytes) {
        let tags = &mut self.tags[class];
        let end_of_last = if tags.period == self.period { tags.start } else { 0 };
        tags.start = end_of_last.max(self.now);
        tags.period = self.period;
        self.insert(class, head);
    }

    /// Returns the class that goes next, or `None` if none is backlogged.
    pub fn select(&mut self) -> Option<usize> {
        self.now += std::mem::take(&mut self.in_service);
        if self.eligible.is_empty() {
            self.now = self.now.max(self.ahead.first()?.tag());
        }
        while let Some(next) = self.ahead.first()
            && next.tag() <= self.now
        {
            self.ahead.pop();
            self.eligible.push(self.finish(next.class()));
        }
        self.eligible.first().map(Tagged::class)
    }

    /// Charges `sent` bytes to the class that [`select`](Self::select) returned. `head` is the size
    /// of its next head packet, if it has one.
    pub fn served(&mut self, class: usize, sent: Bytes, head: Option<Bytes>) {
        let popped = self.eligible.pop();
        debug_assert!(popped.is_some_and(|served| served.class() == class));
        self.charge(class, sent);
        if let Some(head) = head {
            self.insert(class, head);
        }
    }

    /// Removes the class that [`select`](Self::select) returned from the backlogged ones, for now;
    /// it keeps its virtual time.
    pub fn withdraw(&mut self, class: usize) {
        let popped = self.eligible.pop();
        debug_assert!(popped.is_some_and(|named| named.class() == class));
    }

    /// Begins a busy period: what classes sent before no longer counts.
    pub fn restart(&mut self) {
        debug_assert!(self.eligible.is_empty() && self.ahead.is_empty());
        (self.now, self.in_service) = (0, 0);
        self.period += 1;
    }

    /// Charges `sent` bytes to a class that begins a busy period without having been activated.
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

    /// Returns a class tagged with the virtual time at which the fluid server ends its head packet.
    fn finish(&self, class: usize) -> Tagged {
        let tags = &self.tags[class];
        Tagged::new(tags.start + u128::from(tags.head.get()) * tags.per_byte, class)
    }

    fn insert(&mut self, class: usize, head: Bytes) {
        let tags = &mut self.tags[class];
        tags.head = head;
        let start = tags.start;
        if start <= self.now {
            self.eligible.push(self.finish(class));
        } else {
            self.ahead.push(Tagged::new(start, class));
        }
    }
}

#[cfg(test)]
mod tests;
