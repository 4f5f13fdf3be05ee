//! Queue disciplines: who waits, who is dropped, who goes next.
//!
//! Everything here is pure. A discipline owns the packets that wait and nothing else; the time is
//! an argument, and whoever drives it owns the link. The crate reads from the bottom up:
//!
//! * [`Fifo`] is a queue with a [`Limit`];
//! * [`TokenBucket`] is the arithmetic of rates and bursts;
//! * [`Policer`] measures a stream against one rate or two, and [`Shaper`] makes it keep to one;
//! * [`Red`], [`Codel`], [`FqCodel`], [`Pie`] and [`DualPi2`] drop or mark before they are full;
//! * [`Classifier`] decides which class a packet belongs to;
//! * [`Class`] is a queue between an optional policer and an optional shaper, with
//!   [`ClassCounters`];
//! * [`Classes`] divides a link among classes: strict priority first, then shares by [`Wf2q`],
//!   [`Drr`] or [`LinkShare`], each class a queue or another set of classes;
//! * [`Reserved`] classes go before all of that, and come and go while it works;
//! * [`Cbq`] divides it as ALTQ's implementation of class-based queueing does;
//! * [`Queue`] is any of these, chosen when a scenario is compiled, and [`QueueConfig`] the
//!   settings of one without classes.

mod bucket;
mod cbq;
mod class;
mod classes;
mod classifier;
mod counters;
mod drr;
mod fifo;
mod flags;
mod heap;
mod link_share;
mod policer;
mod queue;
mod scheduler;
mod shaper;
mod wf2q;

use perhop_core::{Bytes, Packet, Time};

pub use bucket::{TokenBucket, Tokens};
pub use cbq::{Cbq, CbqConfig, CbqPart, CbqSpec};
pub use class::{Class, Reserved};
pub use classes::{ClassService, ClassSpec, Classes};
pub use classifier::{Classifier, Match, PortRanges};
pub use counters::ClassCounters;
pub use drr::Drr;
pub use fifo::{Drop, Fifo, FifoConfig, Limit};
pub use link_share::{LinkShare, Priority};
pub use policer::{Action, Actions, Policer, Verdict};
pub use queue::*;
pub use scheduler::Sharing;
pub use shaper::Shaper;
pub use wf2q::{Weight, Wf2q};

/// What a link needs of whatever stands before its transmitter.
///
/// # Contract
/// A packet that was offered either waits, or is handed out by [`dequeue`](Self::dequeue) once, or
/// is handed to the [`Ledger`] once. Time never runs backwards between calls.
pub trait Discipline<B> {
    /// Offers `packet` at `now`. Every packet that will not be sent because of it, the offered one
    /// or another, goes to `ledger`.
    fn enqueue(&mut self, now: Time, packet: Packet<B>, ledger: &mut Ledger<B>);

    /// What there is to send at `now`.
    fn dequeue(&mut self, now: Time, ledger: &mut Ledger<B>) -> Dequeue<B>;

    /// Offers `packet` to an idle link with an empty queue, which begins a busy period: the same
    /// as `enqueue` and then `dequeue`, at the price of neither. The packet stays with the caller,
    /// who does with it what the answer says.
    fn pass(&mut self, now: Time, packet: &mut Packet<B>) -> Pass;

    /// The length of the packet that `dequeue` would give at `now`, or when it gives one next. A
    /// class needs it to be scheduled inside another; a later arrival may still change which packet
    /// that is.
    fn head(&mut self, now: Time) -> Option<Bytes>;

    /// What waits.
    fn backlog(&self) -> Backlog;

    /// Hands out everything that waits, whatever a shaper says, because another discipline takes
    /// this one's place: class by class, each in the order in which it came.
    fn drain(self, packets: &mut Vec<Packet<B>>);
}

/// What there is to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Dequeue<B> {
    /// This packet.
    Packet(Packet<B>),
    /// Nothing before this instant, unless another packet arrives. It is later than now.
    NotBefore(Time),
    /// Nothing waits.
    Idle,
}

/// What to do with a packet that was offered to an idle link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pass {
    /// Send it.
    Send,
    /// Enqueue it: it must wait, or the discipline has no shorter way.
    Enqueue,
    /// Drop it.
    Drop(Cause),
}

/// How much waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets that wait.
    pub packets: u64,
    /// Their IP bytes.
    pub bytes: Bytes,
}

/// Where disciplines say what they did to packets beside sending them.
#[derive(Debug)]
pub struct Ledger<B> {
    /// Packets that will not be sent.
    pub drops: Vec<Dropped<B>>,
    /// How many packets were marked with congestion experienced (RFC 3168).
    pub marks: u64,
}

impl<B> Ledger<B> {
    /// An empty ledger. It grows to the most drops between two readings and is used again, so that
    /// dropping allocates nothing in the long run.
    pub const fn new() -> Self {
        Self { drops: Vec::new(), marks: 0 }
    }

    pub(crate) fn drop(&mut self, packet: Packet<B>, cause: Cause) {
        self.drops.push(Dropped { packet, cause });
    }
}

impl<B> Default for Ledger<B> {
    fn default() -> Self {
        Self::new()
    }
}

/// A packet that will not be sent, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped<B> {
    /// The packet.
    pub packet: Packet<B>,
    /// Why it was dropped.
    pub cause: Cause,
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Its queue was full.
    Limit,
    /// It exceeded its policer's rate and burst.
    Policer,
    /// Active queue management dropped it before its queue was full.
    Early,
}

impl Cause {
    /// Every cause, in the order in which [`ClassCounters`] hold them.
    pub const ALL: [Self; 3] = [Self::Limit, Self::Policer, Self::Early];
}
