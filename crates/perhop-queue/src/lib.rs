//! Queue disciplines: queues, active queue management, policers, shapers and schedulers.
//!
//! Everything here is pure. A discipline owns the waiting packets and nothing else; the time is an
//! argument, and its caller owns the link. The crate reads from the bottom up:
//!
//! * [`Fifo`] is a queue with a [`Limit`];
//! * [`Policer`] measures a stream against one or two rates, and [`Shaper`] limits it to one, both
//!   by a [`TokenBucket`](perhop_core::TokenBucket);
//! * [`Red`], [`Codel`], [`FqCodel`], [`Cake`], [`Pie`], [`FqPie`] and [`DualPi2`] drop or mark
//!   packets before they are full; [`Sfq`] has queues for flows, too;
//! * [`Classifier`] decides which class a packet belongs to;
//! * [`Class`] is a queue between an optional marker and policer and an optional shaper, with
//!   [`ClassCounters`];
//! * [`Classes`] divides a link among classes: strict priority first, then shares by [`Wf2q`],
//!   [`Drr`] or [`LinkShare`], each class a queue or another set of classes;
//! * [`Policed`] is a queue or classes behind policers, each with one bucket for packets of any
//!   class;
//! * [`Reserved`] classes precede all of that, and are added and removed during a run;
//! * [`Cbq`] divides a link as ALTQ's implementation of class-based queueing does;
//! * [`Hfsc`] divides a link by service curves: guarantees, shares and limits;
//! * [`Htb`] divides a link by token buckets as Linux does: guarantees, loans and ceilings;
//! * [`Queue`] is any of these, selected when a scenario is compiled, and [`QueueConfig`] has the
//!   settings of one without classes.

mod cbq;
mod class;
mod class_tree;
mod classes;
mod classifier;
mod counters;
mod drr;
mod fifo;
mod flags;
mod greatest;
mod heap;
mod hfsc;
mod htb;
#[cfg(test)]
mod lab;
mod link_share;
mod policed;
mod policer;
mod queue;
mod scheduler;
mod shaper;
mod wf2q;

use perhop_core::{Bytes, Header, Packet, Time};

pub use cbq::{Cbq, CbqClassKind, CbqConfig, CbqSpec};
pub use class::{Class, Mark, Reserved};
pub use classes::{ClassService, ClassSpec, Classes};
pub use classifier::{Classifier, Match, MatchRule, MatchRules, PortRanges};
pub use counters::ClassCounters;
pub use drr::Drr;
pub use fifo::{Drop, Fifo, FifoConfig, Limit};
pub use hfsc::{Hfsc, HfscClassKind, HfscCurves, HfscSpec, ServiceCurve};
pub use htb::{Htb, HtbClassKind, HtbRates, HtbSpec};
pub use link_share::{LinkShare, Priority};
pub use policed::{Policed, PolicerSpec};
pub use policer::{Action, Actions, Policer, Verdict};
pub use queue::*;
pub use scheduler::Sharing;
pub use shaper::Shaper;
pub use wf2q::{Weight, Wf2q};

/// The interface between a link and the discipline before its transmitter.
///
/// # Contract
/// Each packet that is offered either waits, or is returned by [`dequeue`](Self::dequeue) once, or
/// is handed to the [`Ledger`] once. Time does not decrease between calls.
pub trait Discipline<B> {
    /// Offers `packet` at `now`. Every packet that is dropped because of it, whether this or
    /// another, goes to `ledger`.
    fn enqueue(&mut self, now: Time, packet: Packet<B>, ledger: &mut Ledger<B>);

    /// Returns the packet to send at `now`, or when there will be one.
    fn dequeue(&mut self, now: Time, ledger: &mut Ledger<B>) -> Dequeue<B>;

    /// Offers a packet with this header to an idle link with an empty queue, which begins a busy
    /// period: the same as `enqueue` followed by `dequeue`, but faster. The packet stays with the
    /// caller, who handles it as the result requires.
    fn pass(&mut self, now: Time, header: &Header) -> Pass;

    /// Returns the length of the packet that `dequeue` would return at `now` or, if it must wait,
    /// next. A class needs it to be scheduled inside another; a later arrival may still change the
    /// packet.
    fn head(&mut self, now: Time) -> Option<Bytes>;

    /// Returns the number and bytes of waiting packets.
    fn backlog(&self) -> Backlog;

    /// Returns all waiting packets, regardless of shapers, when another discipline replaces this
    /// one: class by class, each in order of arrival.
    fn drain(self, packets: &mut Vec<Packet<B>>);
}

/// Result of polling a discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Dequeue<B> {
    /// This packet.
    Packet(Packet<B>),
    /// No packet before this instant, which is later than now, unless another one arrives.
    NotBefore(Time),
    /// No packet waits.
    Idle,
}

/// Result of offering a packet to an idle link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pass {
    /// Send it.
    Send,
    /// Enqueue it: it must wait, or the discipline has no faster way.
    Enqueue,
    /// Drop it.
    Drop(Cause),
}

/// Number and bytes of waiting packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Number of packets.
    pub packets: u64,
    /// IP bytes.
    pub bytes: Bytes,
}

/// Packets that disciplines dropped, and the number that they marked.
#[derive(Debug)]
pub struct Ledger<B> {
    /// Dropped packets.
    pub drops: Vec<Dropped<B>>,
    /// Number of packets marked with CE (congestion experienced, RFC 3168).
    pub marks: u64,
}

impl<B> Ledger<B> {
    /// Creates an empty ledger. Its memory grows to the most drops between two readings and is
    /// reused, so that drops do not allocate in the long run.
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

/// A dropped packet, and the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped<B> {
    /// The packet.
    pub packet: Packet<B>,
    /// Cause of the drop.
    pub cause: Cause,
}

/// Cause of a drop.
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
