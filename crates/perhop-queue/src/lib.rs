//! Queue disciplines: who waits, who is dropped, who goes next.
//!
//! Everything here is pure. A discipline owns the packets that wait and nothing else; the time is
//! an argument, and whoever drives it owns the link. The crate reads from the bottom up:
//!
//! * [`Fifo`] is a queue with a [`Limit`];
//! * [`Policer`] measures a stream against a rate and a burst;
//! * [`Classifier`] decides which class a packet belongs to;
//! * [`Class`] is a queue behind an optional policer, with [`Counters`];
//! * [`Classes`] divides a link among classes: strict priority first, then weighted fair shares
//!   by [`Wf2q`], each class a queue or another set of classes;
//! * [`Queue`] is any of these, chosen when a scenario is compiled.

mod class;
mod classes;
mod classifier;
mod counters;
mod fifo;
mod policer;
mod wf2q;

use perhop_core::{Bytes, Packet, Time};

pub use class::Class;
pub use classes::{ClassSpec, Classes, Service};
pub use classifier::{Classifier, Match, PortRanges};
pub use counters::Counters;
pub use fifo::{Fifo, Limit};
pub use policer::{Exceed, Policer, Verdict};
pub use wf2q::{Weight, Wf2q};

/// What a link needs of whatever stands before its transmitter.
///
/// # Contract
/// A packet that was offered either waits, or is handed out by [`dequeue`](Self::dequeue) once,
/// or is handed to `drops` once. A discipline is work-conserving: while it has a backlog,
/// `dequeue` gives a packet.
pub trait Discipline<B> {
    /// Offers `packet` at `now`. Every packet that will not be sent because of it, the offered one
    /// or another, goes to `drops`.
    fn enqueue(&mut self, now: Time, packet: Packet<B>, drops: &mut Drops<B>);

    /// The packet to send at `now`, or `None` if nothing waits.
    #[must_use]
    fn dequeue(&mut self, now: Time) -> Option<Packet<B>>;

    /// Offers `packet` to an idle link with an empty queue, which begins a busy period: the same
    /// as `enqueue` and then `dequeue`, at the price of neither. The packet stays with the caller,
    /// who sends it, or drops it for the cause that is returned.
    ///
    /// # Errors
    /// Why the packet must be dropped.
    fn pass(&mut self, now: Time, packet: &mut Packet<B>) -> Result<(), Cause>;

    /// The length of the packet that `dequeue` would give now. A class needs it to be scheduled
    /// inside another; a later arrival may still change which packet that is.
    fn head(&mut self) -> Option<Bytes>;

    /// What waits.
    fn backlog(&self) -> Backlog;
}

/// How much waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets that wait.
    pub packets: u64,
    /// Their IP bytes.
    pub bytes: Bytes,
}

/// Where disciplines put the packets that they drop.
pub type Drops<B> = Vec<Dropped<B>>;

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
}

impl Cause {
    /// Every cause, in the order in which [`Counters`] hold them.
    pub const ALL: [Self; 2] = [Self::Limit, Self::Policer];
}

/// Any discipline. The set is closed and known when a scenario is compiled, so that the choice
/// costs a branch and not a virtual call.
#[derive(Debug)]
pub enum Queue<B> {
    /// First in, first out.
    Fifo(Fifo<B>),
    /// Classes that share.
    Classes(Box<Classes<B>>),
}

impl<B> Discipline<B> for Queue<B> {
    #[inline]
    fn enqueue(&mut self, now: Time, packet: Packet<B>, drops: &mut Drops<B>) {
        match self {
            Self::Fifo(queue) => queue.enqueue(now, packet, drops),
            Self::Classes(queue) => queue.enqueue(now, packet, drops),
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Time) -> Option<Packet<B>> {
        match self {
            Self::Fifo(queue) => queue.dequeue(now),
            Self::Classes(queue) => queue.dequeue(now),
        }
    }

    #[inline]
    fn pass(&mut self, now: Time, packet: &mut Packet<B>) -> Result<(), Cause> {
        match self {
            Self::Fifo(queue) => queue.pass(now, packet),
            Self::Classes(queue) => queue.pass(now, packet),
        }
    }

    #[inline]
    fn head(&mut self) -> Option<Bytes> {
        match self {
            Self::Fifo(queue) => queue.head(),
            Self::Classes(queue) => queue.head(),
        }
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        match self {
            Self::Fifo(queue) => queue.backlog(),
            Self::Classes(queue) => queue.backlog(),
        }
    }
}
